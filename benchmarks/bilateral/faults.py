"""Faults of a coupled pair, injected while a hand guides the leader, and the behaviour of both arms afterwards.

An arm is safe if it stays within its joint limits and velocity limits, gains no energy, and either continues to work
with the other arm or was stopped, so that its own guard brakes, holds and lowers it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from dynid.control.bilateral.pair import SIDES
from dynid.errors import SafetyError
from dynid.robot import FloatArray, Robot, read_only
from dynid.simulation.lockstep.arm_pair import Lines, LockstepPair, PairRun
from dynid.simulation.lockstep.hand_and_wall import Hand, Wall, pressing, wandering

FAULT_S, WATCHED_S = 1.5, 2.0
MOST_GAIN_J = 0.3  # energy that the springs of wall and guards return [J]
CALM_RAD_S = 1.0  # largest velocity of a lowered arm, which moves at some 0.6 rad/s
BEYOND_RAD = 0.01
LOWERED_RAD_S = 0.2  # largest velocity of a lowered arm beyond a joint limit [rad/s]


@dataclass(frozen=True, eq=False)
class PairFault:
    """A fault: its effect on the lines, whether the pair must stop, and the motion of the guiding hand."""

    name: str
    lines: Callable[[Robot], Sequence[Lines]] = lambda _: (Lines(), Lines())
    must_stop: bool = True
    path: Callable[[float], FloatArray] = wandering
    stiffness_n_m: float = 300.0
    wall_n_m: float | None = None
    let_go_s: float = FAULT_S


def _flip(robot: Robot, joint: int) -> FloatArray:
    sign = np.ones(robot.size)
    sign[joint] = -1.0
    return read_only(sign)


def _hard(time_s: float) -> FloatArray:
    return pressing(time_s, depth_m=0.25, for_s=1.0)


def _outwards(time_s: float) -> FloatArray:
    return pressing(time_s, depth_m=0.30, for_s=2.0)


def _slowly(time_s: float) -> FloatArray:
    """Return the hand's displacement to the side at 0.05 m/s at a time [s]."""
    return np.array([0.0, 0.05 * max(time_s - 0.5, 0.0), 0.0])


FAULTS = (
    PairFault("none", must_stop=False),
    PairFault("leader silent", lambda _: (Lines(silent_from_s=FAULT_S), Lines())),
    PairFault("follower silent", lambda _: (Lines(), Lines(silent_from_s=FAULT_S))),
    PairFault("both silent", lambda _: (Lines(silent_from_s=FAULT_S), Lines(silent_from_s=FAULT_S))),
    PairFault("leader frozen", lambda _: (Lines(frozen_from_s=FAULT_S), Lines()), let_go_s=FAULT_S + 0.5),
    PairFault("follower frozen", lambda _: (Lines(), Lines(frozen_from_s=FAULT_S)), let_go_s=FAULT_S + 0.5),
    PairFault(
        "leader led slowly, frozen",
        lambda _: (Lines(frozen_from_s=FAULT_S), Lines()),
        True,
        _slowly,
        let_go_s=FAULT_S + 0.5,
    ),
    PairFault(
        "follower led slowly, frozen",
        lambda _: (Lines(), Lines(frozen_from_s=FAULT_S)),
        True,
        _slowly,
        let_go_s=FAULT_S + 0.5,
    ),
    PairFault(
        "leader's encoders stand still", lambda _: (Lines(still_from_s=FAULT_S), Lines()), let_go_s=FAULT_S + 0.5
    ),
    PairFault(
        "follower's encoders stand still", lambda _: (Lines(), Lines(still_from_s=FAULT_S)), let_go_s=FAULT_S + 0.5
    ),
    PairFault("commands to the leader lost", lambda _: (Lines(mute_from_s=FAULT_S), Lines()), must_stop=False),
    PairFault("commands to the follower lost", lambda _: (Lines(), Lines(mute_from_s=FAULT_S)), must_stop=False),
    PairFault("commands to both lost", lambda _: (Lines(mute_from_s=FAULT_S), Lines(mute_from_s=FAULT_S)), False),
    PairFault("follower 5 ms late", lambda _: (Lines(), Lines(late_cycles=5)), must_stop=False),
    PairFault("follower 10 ms late", lambda _: (Lines(), Lines(late_cycles=10))),
    PairFault("follower 20 ms late", lambda _: (Lines(), Lines(late_cycles=20))),
    PairFault("leader 5 ms late", lambda _: (Lines(late_cycles=5), Lines()), must_stop=False),
    PairFault("leader 10 ms late", lambda _: (Lines(late_cycles=10), Lines())),
    PairFault(
        "follower joint 2 reads with the wrong sign", lambda robot: (Lines(), Lines(position_sign=_flip(robot, 1)))
    ),
    PairFault(
        "follower joint 1 pulls with the wrong sign", lambda robot: (Lines(), Lines(command_sign=_flip(robot, 0)))
    ),
    PairFault(
        "follower joint 2 pulls with the wrong sign", lambda robot: (Lines(), Lines(command_sign=_flip(robot, 1)))
    ),
    PairFault("leader joint 4 pulls with the wrong sign", lambda robot: (Lines(command_sign=_flip(robot, 3)), Lines())),
    PairFault("hand pushes to a joint limit", must_stop=False, path=_outwards, let_go_s=FAULT_S + 1.5),
    PairFault("hand presses beyond the torque limits", path=_hard, wall_n_m=6000.0, let_go_s=FAULT_S + 1.0),
)


@dataclass(frozen=True)
class Outcome:
    """Outcome of a fault; `violations` is empty if both arms stayed safe."""

    fault: str
    stopped: str
    stopped_after_ms: float | None
    fell_back: str
    gain_j: float
    fastest_rad_s: float
    violations: list[str] = field(default_factory=list)


def outcome(robot: Robot, fault: PairFault, run: PairRun) -> Outcome:
    """Return the outcome of a run with a fault."""
    q, dq = run.rows["q"], run.rows["dq"]
    after = run.time_s >= fault.let_go_s
    gain = energy_gain(run, fault.let_go_s)
    found = []
    for side, name in enumerate(SIDES):
        past = np.maximum(robot.lower - q[side], q[side] - robot.upper)
        beyond = np.where(np.abs(dq[side]) > LOWERED_RAD_S, past, 0.0).max()
        if beyond > BEYOND_RAD:
            found.append(f"the {name} is {np.rad2deg(beyond):.1f} deg beyond a joint limit")
        if (np.abs(dq[side]) > robot.velocity_limits).any():
            found.append(f"the {name} reaches {np.abs(dq[side]).max():.1f} rad/s")
        last = np.abs(dq[side][-200:]).max()
        if last > CALM_RAD_S:
            found.append(f"the {name} still moves at {last:.1f} rad/s")
        if gain[side] > MOST_GAIN_J:
            found.append(f"the {name} gains {gain[side]:.2f} J with hands off")
    if fault.must_stop and not run.stopped:
        found.append("the pair was not stopped")
    stopped_after = 1e3 * (run.stopped_s - FAULT_S) if run.stopped else None
    fastest = float(np.abs(dq[:, after]).max())
    return Outcome(fault.name, run.stopped, stopped_after, run.fell_back, float(gain.max()), fastest, found)


def energy_gain(run: PairRun, let_go_s: float) -> FloatArray:
    """Return each arm's largest kinetic energy less that of both arms when the hand released them, (2,) [J]."""
    after = run.time_s >= let_go_s
    kinetic = run.kinetic_j[:, after]
    return np.asarray(np.maximum(0.0, kinetic.max(axis=1) - kinetic[:, 0].sum()))


def inject(robot: Robot, fault: PairFault, make_pair: Callable[[Sequence[Lines]], LockstepPair]) -> Outcome:
    """Run a pair with a fault and return the outcome; arms that could not be engaged stay without torque."""
    pair = make_pair(fault.lines(robot))
    start = pair.tool_at_start()
    hand = Hand(fault.path, start, fault.let_go_s, fault.stiffness_n_m)
    wall = None if fault.wall_n_m is None else Wall(float(start.position[0]) + 0.01, fault.wall_n_m)
    try:
        return outcome(robot, fault, pair.run(fault.let_go_s + WATCHED_S, hand, wall))
    except SafetyError as error:
        return Outcome(fault.name, str(error), None, "", 0.0, 0.0)
