"""Processor time of a control cycle of two coupled arms compared with one arm, alternating in one process.

Both decode messages, compute torques and encode what they publish, as executor and bilateral node do. The executor gets
a state, and publishes a command and the reference. The node gets a state and the torques in force of each arm, and
publishes a command and the external torques. Drivers and middleware are not included. Blocks of both alternate, so that
other load on the host affects both alike.
"""

import time
from collections.abc import Callable

import numpy as np

from dynid.control.arm_controller import ArmController
from dynid.control.bilateral.arm_messages import ArmMessages
from dynid.control.bilateral.cycles import PairCycles
from dynid.control.bilateral.law import BilateralLaw, BilateralSettings
from dynid.control.bilateral.pair import SIDES, ArmPair, Reading
from dynid.control.control_model import ControlModel
from dynid.control.controller import load_controller
from dynid.control.dynamics_kernel import SingleState
from dynid.control.model_laws import ComputedTorque
from dynid.control.motion import MotionExecutor
from dynid.recording.messages import JointStateDecoder, JointStateEncoder, ReferenceEncoder
from dynid.robot import Robot
from dynid.simulation.lockstep.arm_pair import START_DEG

CYCLE_NS, BLOCK = 1_000_000, 200
MOVES_RAD, TURN_S = 0.01, 0.5  # both arms move, so that no check reports a stopped arm
Cycle = Callable[[int, list[bytes]], bool]


def one_arm(robot: Robot, dynamics: SingleState, model: ControlModel) -> Cycle:
    """Return a cycle of a held arm under computed torque; the cycle returns whether it sent a command."""
    settings, names = load_controller(robot), robot.joint_names
    law = ComputedTorque(settings, model, dynamics)
    motion = MotionExecutor(robot, ArmController(law, settings.pseudo_differentiation_s, robot.size))
    motion.hold(np.deg2rad(START_DEG), 0)
    decode, encode = JointStateDecoder(names), JointStateEncoder(names, fields=("effort",))
    encode_reference = ReferenceEncoder(names)

    def cycle(stamp_ns: int, raw: list[bytes]) -> bool:
        state = decode.decode(raw[0])
        step = None if state is None else motion.update(state[0], state[1]["position"])
        if step is None:
            return False
        encode.encode(stamp_ns, effort=step.tau)
        encode_reference.encode(stamp_ns, step.q_ref, step.dq_ref, step.ddq_ref)
        return True

    return cycle


def two_arms(
    robot: Robot, dynamics: SingleState, model: ControlModel, settings: BilateralSettings | None = None
) -> Cycle:
    """Return a cycle of two coupled arms; the cycle returns whether both arms got a command."""
    law = BilateralLaw(robot, model, model, dynamics, settings)
    pair, arms = PairCycles(ArmPair(robot, law)), [ArmMessages(robot.joint_names) for _ in SIDES]
    start = np.deg2rad(START_DEG)
    for side in range(2):
        pair.take(side, Reading(-1, start))
    pair.engage()
    for side in range(2):  # begins the first cycle
        pair.take(side, Reading(0, start))
    applied: list[bytes] = []

    def cycle(stamp_ns: int, raw: list[bytes]) -> bool:
        torques = None
        for side, messages in enumerate(arms):
            if applied:
                messages.applied(applied[side])
            reading = messages.reading(raw[side])
            assert reading is not None
            torques = pair.take(side, reading)
        if torques is None:
            return False
        applied[:] = [messages.answer(tau) for messages, tau in zip(arms, torques, strict=True)]
        for messages, arm in zip(arms, (law.leader, law.follower), strict=True):
            messages.answer(arm.external)
        return True

    return cycle


def cycle_costs(
    robot: Robot,
    dynamics: SingleState,
    model: ControlModel,
    settings: BilateralSettings | None = None,
    *,
    blocks: int = 25,
) -> dict[str, float]:
    """Return median and 99th percentile of the cycles of one arm and of two [us], and the ratio of the costs.

    The first block of each is not counted.
    """
    kinds = {"one": one_arm(robot, dynamics, model), "two": two_arms(robot, dynamics, model, settings)}
    took: dict[str, list[int]] = {name: [] for name in kinds}
    encode, start = JointStateEncoder(robot.joint_names), np.deg2rad(START_DEG)
    still, count = np.zeros(robot.size), 0
    for _ in range(blocks + 1):
        first = count
        for name, cycle in kinds.items():
            for k in range(first, first + BLOCK):
                stamp = (k + 1) * CYCLE_NS
                q = start + MOVES_RAD * np.sin(2.0 * np.pi * stamp * 1e-9 / TURN_S)
                raw = [encode.encode(stamp, position=q, velocity=still, effort=still) for _ in range(2)]
                begin = time.perf_counter_ns()
                if not cycle(stamp, raw):
                    raise AssertionError(f"cycle {k} of {name} commanded nothing")
                took[name].append(time.perf_counter_ns() - begin)
        count = first + BLOCK
    figures: dict[str, float] = {}
    for name, times in took.items():
        p50, p99 = np.percentile(np.array(times[BLOCK:]) * 1e-3, (50, 99)).tolist()
        figures |= {f"p50_cycle_us_{name}": p50, f"p99_cycle_us_{name}": p99}
    for share in ("p50", "p99"):
        figures[f"{share}_cycle_two_over_one"] = figures[f"{share}_cycle_us_two"] / figures[f"{share}_cycle_us_one"]
    return figures
