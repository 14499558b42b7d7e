"""A body that is picked up and put down while the arm moves: noticed, weighed, handed over without a jump; a push is
none."""

from collections.abc import Callable

import numpy as np
import pytest
from test.shared.felt import ARM, AWAY, ROBOT, N, control_model, model_file

from dynid.contact.feel import ContactSense
from dynid.contact.live_payload import LivePayload
from dynid.contact.payload import with_payload
from dynid.control.arm_controller import BLEND_S, ArmController
from dynid.control.controller import load_controller
from dynid.control.dynamics_kernel import compile_single
from dynid.control.model_laws import ComputedTorque
from dynid.control.motion import MotionExecutor
from dynid.control.selection import ControllerSelection
from dynid.robot import FloatArray
from dynid.simulation.lockstep.stepped_arm import SteppedArm
from dynid.simulation.plant.held import HeldBody
from dynid.trajectory.trajectory import through

HELD_KG, PICKED_S, PUT_S, END_S = 0.25, 1.5, 4.0, 6.0
NONE = np.zeros(N)


def worked(
    live: LivePayload, each: Callable[[SteppedArm, HeldBody, float], FloatArray], end_s: float = END_S
) -> list[tuple[float, float]]:
    """What is handed over along a motion: when [s] and the mass [kg]; `each` gives what a hand adds, (n,) [N m]."""
    arm = SteppedArm(ROBOT, seed=4)
    body, law = (
        HeldBody(arm.plant, HELD_KG),
        ComputedTorque(load_controller(ROBOT), control_model(), compile_single(ARM)),
    )
    motion = MotionExecutor(ROBOT, ArmController(law, 0.002, N))
    rows = [ROBOT.rest_posture + share * AWAY for share in (0.0, 0.6, 0.1, 0.5, 0.2, 0.6, 0.0, 0.5, 0.0)]
    way = through("work", ROBOT.joint_names, np.array(rows), np.full(N, 1.4), np.full(N, 4.0), [0.6] * 8, 0.0)
    motion.begin(way, arm.measure(), arm.stamp_ns)
    arm.command(NONE)
    tau, found, begin_ns = NONE, [], arm.stamp_ns
    while (now_s := (arm.stamp_ns - begin_ns) * 1e-9) < end_s:
        step = arm.follow(motion, each(arm, body, now_s))
        if live.update(arm.stamp_ns, np.array(arm.position), tau):
            found.append((now_s, float(live.held[9])))
        tau = NONE if step is None else step.tau.copy()
    return found


@pytest.fixture
def live() -> LivePayload:
    sense = ContactSense(ROBOT, ARM, control_model(), model_file().torque_deviations, torque_delay_s=0.0009)
    return LivePayload(ROBOT, ARM, sense)


def test_what_is_picked_up_is_handed_over_while_it_moves_and_taken_back(live: LivePayload) -> None:
    def each(arm: SteppedArm, body: HeldBody, now_s: float) -> FloatArray:
        if abs(now_s - PICKED_S) < 6e-4:
            body.take()
        if abs(now_s - PUT_S) < 6e-4:
            body.put_down()
        return NONE

    (picked, mass), (put, nothing) = worked(live, each)
    assert PICKED_S < picked < PICKED_S + 1.4 and abs(mass - HELD_KG) < 0.06
    assert PUT_S < put < PUT_S + 1.4 and nothing == 0.0


def test_a_hand_that_pushes_a_joint_is_no_payload(live: LivePayload) -> None:
    def each(arm: SteppedArm, body: HeldBody, now_s: float) -> FloatArray:
        return 1.5 * np.sin(2.0 * np.pi * now_s) * np.eye(N)[3] * (now_s > PICKED_S)

    assert worked(live, each, 4.0) == [] and live.restarts > 1


def test_a_body_is_let_in_without_a_jump() -> None:
    selection = ControllerSelection(ROBOT, load_controller(ROBOT))
    model, body = control_model(), np.zeros(10)
    body[8], body[9] = 0.1 * HELD_KG, HELD_KG
    selection.exchange(name="computed_torque", model=model)
    q = ROBOT.rest_posture + 0.6 * AWAY
    selection.controller.reset(q)
    torque = lambda: selection.controller.update(0.001, q, q, NONE, NONE)  # noqa: E731
    before = torque()
    selection.exchange(model=with_payload(ARM, model, body), gated=True)
    rows = np.array([before] + [torque() for _ in range(round(1000 * BLEND_S) + 2)])
    change = np.abs(rows[-1] - rows[0]).max()
    assert change > 0.3 and np.abs(np.diff(rows, axis=0)).max() < 0.01 * change
