"""What other software recorded: one arm's log from the joint states of any bag.

A topic of JointState, or of ros2_control's DynamicJointState, may carry other joints and other publishers, efforts that
come and go, no stamps, or a clock that was set back. Such a bag says neither how the arm was mounted nor in which unit
its efforts are.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dynid.errors import ConfigurationError, DataError, DynidError
from dynid.recording.bag_reader import Bag
from dynid.recording.csv_reader import position_margin, refuse_beyond_limits, refuse_jumps
from dynid.recording.frozen import refuse_frozen
from dynid.recording.log import Log
from dynid.recording.messages import DYNAMIC_JOINT_STATE, JOINT_STATE, JOINT_TRAJECTORY
from dynid.recording.series import JointSeries, joint_series
from dynid.recording.topics import APPLIED_COMMANDS, EXPERIMENT, HARDWARE_SETTINGS
from dynid.robot import FloatArray, Robot

MOST_OF_LIMIT = 30.0  # a torque beyond it is in another unit; limits of robot.yaml may be far too low
SET_BACK_S = 0.5  # by less, messages overtook each other
CLOCK_GAP_STEPS = 100.0  # of the median step: behind a clock that was set back
STATES = (JOINT_STATE, DYNAMIC_JOINT_STATE)
GOAL_WORDS = ("command", "goal", "action", "target", "leader", "reference", "desired")
EFFORT_UNITS = ("N m", "A", "mA")
POSITION_UNITS = {"rad": 1.0, "deg": np.pi / 180.0}
OWN = (HARDWARE_SETTINGS, EXPERIMENT, APPLIED_COMMANDS)  # topics that only dynid's chain sends
CURE = "are they rad and N m at the joints? A CSV file with a mapping takes other units"


@dataclass(frozen=True)
class Units:
    """Of what a bag or data set does not say: positions, and efforts, which currents are often written as."""

    position: str = "rad"
    effort: str = "N m"

    def __post_init__(self) -> None:
        for unit, known in ((self.position, tuple(POSITION_UNITS)), (self.effort, EFFORT_UNITS)):
            if unit not in known:
                raise ConfigurationError(f"unit '{unit}' is not known; choose one of {', '.join(known)}")

    def torques(self, effort: FloatArray, robot: Robot) -> FloatArray:
        """Joint torques (N, n) [N m] of efforts (N, n)."""
        scale = {"N m": 1.0, "A": 1.0, "mA": 1e-3}[self.effort]
        return np.asarray(effort * scale * (1.0 if self.effort == "N m" else robot.joint_constants))


def says_goal(topic: str) -> bool:
    """Whether a topic's name says that its positions are asked for, not measured."""
    return any(word in topic.rsplit("/", 1)[-1] for word in GOAL_WORDS)


def refuse_impossible(log: Log, robot: Robot, cure: str) -> None:
    """Raise DataError where a joint is or pulls as it cannot, or moves while its torque stays the same.

    cure: what to look at, as a question.
    """
    refuse_beyond_limits(log.q, robot, log.name, cure)
    refuse_jumps(log.time, log.q, robot, log.name)
    refuse_frozen(log.time, log.q, position_margin(robot), robot, log.name)
    if log.tau is None:
        return
    ratio = np.abs(log.tau).max(axis=0) / robot.torque_limits
    joint = int(np.argmax(ratio))
    if ratio[joint] > MOST_OF_LIMIT:
        raise DataError(
            f"{log.name}: the torque of {log.joint_names[joint]} reaches {np.abs(log.tau[:, joint]).max():.4g} N m, "
            f"its limit in robot.yaml is {robot.torque_limits[joint]:.4g}: {cure}"
        )
    moved = np.ptp(log.q, axis=0) > position_margin(robot)
    silent = (np.ptp(log.tau, axis=0) == 0.0) & moved
    if silent.any():
        names = ", ".join(name for name, one in zip(log.joint_names, silent, strict=True) if one)
        raise DataError(
            f"{log.name}: {names} moved, but the torque is the same in every row ({log.tau[0, silent.argmax()]:.4g} "
            "N m): its effort was not measured"
        )


def topic_log(bag: Bag, topic: str, robot: Robot, units: Units) -> Log:
    """One arm's log from a topic of a bag; what was left out of it is said in its notes.

    Raises:
        DataError: the topic has no states of these joints, or too few.
    """
    states, name = joint_series(bag[topic], robot.joint_names, foreign=True), f"{bag.path}:{topic}"
    notes = []
    if states.left_out:
        total = len(states.stamp_ns) + states.left_out
        notes.append(f"{states.left_out} of {total} messages were left out; the first: {states.reason}")
    stamp_ns, own = states.stamp_ns, states.log_ns
    if unstamped := len(stamp_ns) > 1 and not np.ptp(stamp_ns):
        stamp_ns = own
        notes.append("messages carry no stamps of their own: their times are the recorder's")
    time, keep = _running(stamp_ns, notes)
    position, effort = states.field("position") * POSITION_UNITS[units.position], states.values.get("effort")
    if effort is not None and not np.isfinite(effort).all(axis=1).any():
        effort = None  # a broadcaster without that interface
    whole = np.isfinite(position if effort is None else np.hstack([position, effort])).all(axis=1)
    if lost := int((keep & ~whole).sum()):
        notes.append(f"{lost} of {len(keep)} messages hold values that are not finite and were left out")
        keep = keep & whole
    tau = None if effort is None else units.torques(effort[keep], robot)
    goal = _goals(bag, topic, robot, (own if unstamped else states.stamp_ns)[keep], of_recorder=unstamped)
    goal = None if goal is None else goal * POSITION_UNITS[units.position]
    return Log(name, robot.joint_names, time[keep], position[keep], tau, goal, tuple(notes))


def _running(stamp_ns: NDArray[np.int64], notes: list[str]) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Times (N,) [s] that start at 0, and which of them are later than all before.

    A clock that was set back, as that of a simulator that starts again, starts a new piece behind a gap.
    """
    time = (stamp_ns - stamp_ns[0]) / 1e9 if len(stamp_ns) else np.zeros(0)
    steps = np.diff(time)
    back = np.flatnonzero(steps < -SET_BACK_S)
    forward = steps[steps > 0.0]
    for row in back.tolist():
        time[row + 1 :] += time[: row + 1].max() - time[row + 1] + CLOCK_GAP_STEPS * float(np.median(forward))
    if len(back):
        notes.append(f"the stamps are set back {len(back)} times, by {-steps.min():.3g} s at most: read as pieces")
    later = np.r_[True, time[1:] > np.maximum.accumulate(time)[:-1]] if len(time) else np.zeros(0, dtype=bool)
    if lost := int((~later).sum()):
        notes.append(f"{lost} of {len(time)} messages are stamped no later than one before them and were left out")
    return time, later


def _goals(bag: Bag, topic: str, robot: Robot, stamp_ns: NDArray[np.int64], *, of_recorder: bool) -> FloatArray | None:
    """Goals (N, n) that were last sent before stamps (N,) [ns]; None where there is no topic of them."""
    space = topic.rsplit("/", 1)[0]
    for other, content in bag.topics.items():
        kind = content.message_type in (JOINT_STATE, JOINT_TRAJECTORY)
        if not kind or other.rsplit("/", 1)[0] != space or not says_goal(other) or not len(content.messages):
            continue
        try:
            series: JointSeries = joint_series(content, robot.joint_names)
        except DataError:
            continue
        values = series.values.get("position", series.values.get("positions"))
        if values is not None and np.isfinite(values).all():
            sent = series.log_ns if of_recorder else series.stamp_ns
            place = np.searchsorted(sent, stamp_ns, side="right") - 1
            return np.asarray(values[np.clip(place, 0, len(values) - 1)])
    return None


def is_foreign(bag: Bag) -> bool:
    """Whether nothing in a bag is of dynid's own chain."""
    return not any(topic.rsplit("/", 1)[-1] in OWN for topic in bag.topics)


def foreign_log(bag: Bag, robot: Robot) -> Log:
    """The arm's joint states with torques.

    Raises:
        DataError: there are none, of several arms, or not of this robot; names the topics.
    """
    found: dict[str, Log] = {}
    problems = []
    for topic, content in bag.topics.items():
        if content.message_type not in STATES or says_goal(topic):
            continue
        try:
            log = topic_log(bag, topic, robot, Units())
        except DynidError as error:
            problems.append(str(error))
            continue
        if log.tau is None:
            problems.append(f"topic '{topic}' carries no efforts")
        else:
            found[topic] = log
    plain = {topic: log for topic, log in found.items() if bag[topic].message_type == JOINT_STATE}
    found = plain or found  # ros2_control sends the same twice
    if not found:
        said = "; ".join(problems) or f"no topic is of type {' or '.join(STATES)}; its topics are: {_listed(bag)}"
        raise DataError(f"the bag {bag.path} has no torques of robot '{robot.name}': {said}")
    if len(found) > 1:
        raise DataError(
            f"the bag {bag.path} holds states of '{robot.name}' more than once ({', '.join(found)}): keep one of them"
        )
    (log,) = found.values()
    refuse_impossible(log, robot, CURE)
    return log


def _listed(bag: Bag) -> str:
    return ", ".join(bag.topics) or "none"


def foreign_note(robot: Robot) -> str:
    """What was taken for granted, in words."""
    return (
        "recorded by other software, which says neither mount nor units: read as N m at the joints, mount "
        f"'{robot.file.default_mount}'"
    )
