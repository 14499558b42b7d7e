"""A collision as a fault: the moving arm hits a wall, detects it, and brakes, becomes compliant or continues."""

import numpy as np
import pinocchio
import pytest
from test.shared.felt import ARM, ROBOT, N, control_model, model_file

from dynid.contact.contact_report import ContactReport
from dynid.contact.contact_sense import ContactSense
from dynid.contact.stop import ContactStop
from dynid.contact.yielding import ContactYield
from dynid.control.arm_controller import ArmController
from dynid.control.controller import load_controller
from dynid.control.dynamics_kernel import compile_single
from dynid.control.model_laws import ComputedTorque, GravityCompensation
from dynid.control.motion import MotionExecutor
from dynid.errors import ConfigurationError, SafetyError
from dynid.model.chain import SerialChain
from dynid.robot import FloatArray
from dynid.simulation.lockstep.stepped_arm import SteppedArm
from dynid.trajectory.trajectory import through

C = ROBOT.chain_size
SETTINGS, DYNAMICS = load_controller(ROBOT), compile_single(ARM)
STIFFNESS_N_M = 500.0  # harder ones stop the joint before it is felt, see docs/contact.md


class Wall:
    """Plane normal to the y axis of the base that pushes the tool back as a spring."""

    def __init__(self, y_m: float) -> None:
        self.y_m, self.last_n, self.cycles = y_m, 0.0, 0
        self._model = SerialChain.from_robot(ROBOT).model.copy()
        placement = pinocchio.SE3(np.eye(3), np.array(ROBOT.file.tool_m))
        self._frame = self._model.addFrame(pinocchio.Frame("tool", C, 0, placement, pinocchio.FrameType.OP_FRAME))
        self._data = self._model.createData()

    def push(self, q: FloatArray) -> FloatArray:
        J = pinocchio.computeFrameJacobian(
            self._model, self._data, np.array(q[:C]), self._frame, pinocchio.LOCAL_WORLD_ALIGNED
        )
        self.last_n = STIFFNESS_N_M * max(self._data.oMf[self._frame].translation[1] - self.y_m, 0.0)
        self.cycles += self.last_n > 0.0 or self.cycles > 0
        return np.append(-self.last_n * J[1], 0.0)


def report(stamp_ns: int, felt: bool) -> ContactReport:
    """Return the contact report for a state."""
    where = ROBOT.joint_names[0]
    return ContactReport(stamp_ns=stamp_ns, contact=felt, joint=where, torque_nm=0.0, threshold_nm=0.0, force_n=0.0)


def collided(policy: str) -> tuple[Wall, SteppedArm, MotionExecutor, list[tuple[int, str]]]:
    """Turn the arm's base against a wall, and wait two seconds after it; reactions with their cycle since the touch."""
    model, light = control_model(), GravityCompensation(control_model(), DYNAMICS, 0.5)
    arm = SteppedArm(ROBOT, seed=8, q0=ROBOT.rest_posture)
    motion = MotionExecutor(ROBOT, ArmController(ComputedTorque(SETTINGS, model, DYNAMICS), 0.002, N))
    sense = ContactSense(ROBOT, ARM, model, model_file().torque_deviations, torque_delay_s=0.0009)
    stop, yielding = ContactStop(motion), ContactYield(motion, light)
    stop.enabled = policy == "stop"
    points = np.array([ROBOT.rest_posture, ROBOT.rest_posture])
    points[1, 0] += np.deg2rad(70.0)
    way = through("turn", ROBOT.joint_names, points, np.full(N, 1.5), np.full(N, 6.0), [1.0], 0.0)
    motion.begin(way, arm.measure(), arm.stamp_ns)
    arm.command(np.zeros(N))
    wall, tau, done = Wall(0.12), np.zeros(N), []
    for _ in range(3000):
        try:
            step = arm.follow(motion, wall.push(arm.plant.q))
        except SafetyError as error:
            done.append((wall.cycles, str(error)))
            break
        felt = sense.update(arm.stamp_ns, np.array(arm.position), tau)
        tau = np.zeros(N) if step is None else step.tau.copy()
        stop.receive(report(arm.stamp_ns, felt))
        if text := yielding.update(felt, arm.stamp_ns) if policy == "yield" else stop.watch(arm.stamp_ns):
            done.append((wall.cycles, text))
    return wall, arm, motion, done


@pytest.mark.slow
def test_arm_at_a_wall_stops_and_yielding_arm_leaves_it() -> None:
    pushing, stopping, yielding = collided("report"), collided("stop"), collided("yield")
    (lost, text), (stopped, _) = pushing[3][0], stopping[3][0]
    assert "off its reference" in text and 0 < stopped < 0.5 * lost
    assert [text.split(",")[0] for _, text in yielding[3]] == [
        "contact: braking",
        "contact: yielding with gravity_compensation",
    ]
    assert yielding[0].last_n < 0.3 * stopping[0].last_n
    for _, arm, motion, _ in (stopping, yielding):
        assert np.abs(arm.plant.dq).max() < 0.05 and not motion.moving and motion.active


def test_a_law_that_follows_a_reference_does_not_yield() -> None:
    law = ComputedTorque(SETTINGS, control_model(), DYNAMICS)
    with pytest.raises(ConfigurationError, match="gravity_compensation"):
        ContactYield(MotionExecutor(ROBOT, ArmController(law, 0.002, N)), law)
