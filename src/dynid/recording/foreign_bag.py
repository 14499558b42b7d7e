"""Reader of bags recorded by other software: returns one arm's log from the joint states in a bag.

The joint states may be of type JointState, or of ros2_control's DynamicJointState. Their topic may contain other joints
or several publishers, efforts in only some messages, no stamps, or stamps of a clock that was set back. If no message
has all of the arm's joints, the messages of several publishers are merged by the module `publishers`. Such a bag states
neither the units of its numbers nor the arm's mount (how the arm is fixed). A mapping file can state them; otherwise SI
units and the robot's default mount are assumed.
"""

from collections.abc import Sequence

import numpy as np

from dynid.errors import ConfigurationError, DataError
from dynid.recording.bag_reader import Bag
from dynid.recording.joint_log import Measured, joint_log, measured
from dynid.recording.log import Log
from dynid.recording.mapping import BagMapping
from dynid.recording.message_times import common_times, increasing_times
from dynid.recording.messages import DYNAMIC_JOINT_STATE, JOINT_STATE, JOINT_TRAJECTORY
from dynid.recording.publishers import chosen, merge_publishers, publishers_of
from dynid.recording.quantity import Conversion
from dynid.recording.series import JointSeries, joint_series, joint_sets
from dynid.recording.topics import APPLIED_COMMANDS, EXPERIMENT, HARDWARE_SETTINGS
from dynid.robot import FloatArray, Robot

STATES = (JOINT_STATE, DYNAMIC_JOINT_STATE)
GOAL_WORDS = ("command", "goal", "action", "target", "leader", "reference", "desired")
OWN = (HARDWARE_SETTINGS, EXPERIMENT, APPLIED_COMMANDS)  # topics that only dynid publishes
UNIT_HINT = "are the units right? Others are stated by --position and --effort, or in a mapping."
Topics = tuple[str, ...]


def names_command_topic(topic: str) -> bool:
    """Return whether a topic's name shows that its positions are commanded, not measured."""
    return any(word in topic.rsplit("/", 1)[-1] for word in GOAL_WORDS)


def is_foreign(bag: Bag) -> bool:
    """Return whether a bag has none of the topics that only dynid publishes, so that other software recorded it."""
    return not any(topic.rsplit("/", 1)[-1] in OWN for topic in bag.topics)


def foreign_note(robot: Robot, mapping: BagMapping) -> str:
    """Return a sentence about the mount and units assumed for a bag or data set; "" if the mapping states both."""
    taken = {
        "mount": "" if mapping.mount is not None else f"mount '{robot.file.default_mount}'",
        "units": "" if mapping.torque is not None else "N m at the joints",
    }
    unknown = [what for what, value in taken.items() if value]
    if not unknown:
        return ""
    missing = "neither mount nor units" if len(unknown) > 1 else f"no {unknown[0]}"
    return (
        f"recorded by other software, which says {missing}: read as {', '.join(filter(None, reversed(taken.values())))}"
    )


# -- which topics ----------------------------------------------------------------------------------------------


def state_topics(bag: Bag, mapping: BagMapping) -> Topics:
    """Return the topics of a bag in which the arm's joint states are searched.

    These are the topics named in the mapping, or else all topics of a joint-state type except command topics.

    Raises:
        DataError: the bag has no such topic; the message lists the bag's topics.
        UnknownNameError: the mapping names a topic that the bag lacks.
        ConfigurationError: the mapping names a topic of another type.
    """
    kinds = " or ".join(STATES)
    for topic in mapping.topics:
        if bag[topic].message_type not in STATES:
            raise ConfigurationError(f"topic '{topic}' is of type {bag[topic].message_type}, expected {kinds}")
    found = mapping.topics or tuple(
        topic for topic, one in bag.topics.items() if one.message_type in STATES and not names_command_topic(topic)
    )
    if not found:
        listed = ", ".join(bag.topics) or "none"
        raise DataError(f"no topic of {bag.path} is of type {kinds} with states; its topics are: {listed}")
    return found


def logs_of(bag: Bag, robot: Robot, mapping: BagMapping) -> list[Topics]:
    """Return groups of topics, each of which possibly contains one complete log of the arm.

    If the mapping names topics, they form the only group. Otherwise, if any topic has messages with all joints, every
    topic is a separate group. If not, each namespace whose topics together have all joints forms a group. If there is
    no such namespace, all topics with joints of the arm form one group. If no topic has joints of the arm, every topic
    is a group.

    Errors are those of `state_topics` and `BagMapping.names`.
    """
    names, topics = set(mapping.names(robot)), state_topics(bag, mapping)
    if mapping.topics:
        return [topics]
    sets = {topic: joint_sets(bag[topic], mapping.names(robot)) for topic in topics}
    if any(names in own for own in sets.values()):
        return [(topic,) for topic in topics]
    parts = [topic for topic in topics if sets[topic]]
    spaces = dict.fromkeys(_space(topic) for topic in parts)
    within = [tuple(topic for topic in parts if _space(topic) == space) for space in spaces]
    joints = {group: frozenset().union(*(own for topic in group for own in sets[topic])) for group in within}
    covering = [group for group in within if names <= joints[group]]
    return covering or [tuple(parts)] * bool(parts) or [(topic,) for topic in topics]


def _space(topic: str) -> str:
    return topic.rsplit("/", 1)[0]


# -- logs ------------------------------------------------------------------------------------------------------


def topic_log(bag: Bag, topics: Topics, robot: Robot, mapping: BagMapping) -> Log:
    """Return one arm's log from the given topics of a bag; the log's notes list the data that were left out.

    Raises:
        DataError: the topics have no states of the arm's joints, too few states, or impossible values.
        ConfigurationError: a unit does not fit the robot.
    """
    conversion = mapping.conversion(robot)
    return _log(_rows(bag, topics, mapping.names(robot), conversion), conversion, mapping)


def foreign_log(bag: Bag, robot: Robot, mapping: BagMapping) -> Log:
    """Find the topics of a bag with the arm's joint states and torques, and return their log.

    Raises:
        DataError: the bag has no such states, has states of several arms, or of another robot; the message lists the
            topics.
    """
    conversion, names = mapping.conversion(robot), mapping.names(robot)
    none, problems = f"the bag {bag.path} has no torques of robot '{robot.name}'", list[str]()
    try:
        groups = logs_of(bag, robot, mapping)
    except DataError as error:
        raise DataError(f"{none}: {error}") from error
    found = _with_torques(bag, groups, names, conversion, problems)
    if not found and len(groups) > 1:  # efforts may be on a separate topic
        found = _with_torques(bag, [state_topics(bag, mapping)], names, conversion, [])
    if not found:
        raise DataError(f"{none}: {'; '.join(problems)}")
    if len(found) > 1:
        raise DataError(
            f"the bag {bag.path} holds states of '{robot.name}' more than once ({', '.join(map('+'.join, found))}): "
            "name the topics to read as `topics` in a mapping"
        )
    return _log(next(iter(found.values())), conversion, mapping)


def _with_torques(
    bag: Bag, groups: Sequence[Topics], names: tuple[str, ...], conversion: Conversion, problems: list[str]
) -> dict[Topics, Measured]:
    """Return the measured values of the groups of topics that contain torques, as a dict from group to values.

    Groups of DynamicJointState topics are left out if there are groups of JointState topics, because ros2_control
    publishes the same states in both types.

    Args:
        bag: the bag.
        groups: groups of topics.
        names: names of the arm's joints in the messages, (n,).
        conversion: conversion from raw numbers to SI units.
        problems: list to which the reason is added for each group without torques.
    """
    found: dict[Topics, Measured] = {}
    for topics in groups:
        try:
            rows = _rows(bag, topics, names, conversion)
        except DataError as error:
            problems.append(str(error))
            continue
        if rows.tau is None:
            problems.append(f"topic '{', '.join(topics)}' carries no efforts of all joints")
        else:
            found[topics] = rows
    plain = {own: rows for own, rows in found.items() if all(bag[topic].message_type == JOINT_STATE for topic in own)}
    return plain or found  # ros2_control sends the same states in both message types


def _log(rows: Measured, conversion: Conversion, mapping: BagMapping) -> Log:
    return joint_log(rows, conversion, UNIT_HINT, mount=mapping.mount, torque_delay_s=mapping.torque_delay_s)


def _rows(bag: Bag, topics: Topics, names: tuple[str, ...], conversion: Conversion) -> Measured:
    """Return the measured values of the arm's joints in the given topics.

    If there is only one topic, and if it has messages with all joints, these messages give the values. Otherwise, the
    messages of all publishers on the topics are merged.

    Args:
        bag: the bag.
        topics: names of the topics.
        names: names of the arm's joints in the messages, (n,).
        conversion: conversion from raw numbers to SI units.
    """
    if len(topics) == 1 and (set(names) in joint_sets(bag[topics[0]], names) or not joint_sets(bag[topics[0]], names)):
        return _whole(bag, topics[0], names, conversion)
    return _merged(bag, topics, names, conversion)


def _whole(bag: Bag, topic: str, names: tuple[str, ...], conversion: Conversion) -> Measured:
    """Return the measured values of one topic, one row for each usable message that has all joints.

    Args:
        bag: the bag.
        topic: name of the topic.
        names: names of the arm's joints in the messages, (n,).
        conversion: conversion from raw numbers to SI units.
    """
    states, notes = joint_series(bag[topic], names, foreign=True), list[str]()
    if states.left_out:
        total = len(states.stamp_ns) + states.left_out
        notes.append(f"{states.left_out} of {total} messages were left out; the first: {states.reason}")
    stamp_ns, own = states.stamp_ns, states.log_ns
    if unstamped := len(stamp_ns) > 1 and not np.ptp(stamp_ns):
        stamp_ns = own
        notes.append("messages carry no stamps of their own: their times are the recorder's")
    time, keep = increasing_times(stamp_ns, notes)
    position, effort = states.field("position"), states.values.get("effort")
    if effort is not None and not np.isfinite(effort).all(axis=1).any():
        effort = None  # the broadcaster has no effort interface
    whole = np.isfinite(position if effort is None else np.hstack([position, effort])).all(axis=1)
    if lost := int((keep & ~whole).sum()):
        notes.append(f"{lost} of {len(keep)} messages hold values that are not finite and were left out")
        keep = keep & whole
    goal = _goals(bag, topic, names, states, of_recorder=unstamped)
    tau, goal = (None if one is None else one[keep] for one in (effort, goal))
    return measured(f"{bag.path}:{topic}", conversion, time[keep], position[keep], tau, goal, notes=tuple(notes))


def _merged(bag: Bag, topics: Topics, names: tuple[str, ...], conversion: Conversion) -> Measured:
    """Merge the measured values of several publishers to common stamps; commanded positions are not read.

    Args:
        bag: the bag.
        topics: names of the topics.
        names: names of the arm's joints in the messages, (n,).
        conversion: conversion from raw numbers to SI units.
    """
    name, publishers, notes = f"{bag.path}:{'+'.join(topics)}", [], list[str]()
    for topic in topics:
        found, left_out = publishers_of(bag[topic], names)
        publishers += found
        notes += left_out
    choice = chosen(publishers, names, name)
    times = common_times([one.series for one in publishers], notes)
    return merge_publishers(name, publishers, times, choice, conversion, notes)


def _goals(
    bag: Bag, topic: str, names: tuple[str, ...], states: JointSeries, *, of_recorder: bool
) -> FloatArray | None:
    """Return the last command at each state, (N, n) [rad or m]; None if no topic has commands of all joints.

    At states before the first command, the result contains the first command. Commands without stamps, such as
    trajectories that are to start at once, have the recorder's times.

    Args:
        bag: the bag.
        topic: name of the topic of joint states; commands are searched in its namespace.
        names: names of the joints, (n,).
        states: states of the joints, N messages.
        of_recorder: whether the states carry no stamps, so that the recorder's times count.
    """
    for other, content in bag.topics.items():
        kind = content.message_type in (JOINT_STATE, JOINT_TRAJECTORY)
        if not kind or _space(other) != _space(topic) or not names_command_topic(other) or not len(content.messages):
            continue
        try:
            series: JointSeries = joint_series(content, names)
        except DataError:
            continue
        values = series.values.get("position", series.values.get("positions"))
        if values is not None and np.isfinite(values).all():
            logged = of_recorder or not np.ptp(series.stamp_ns)
            sent, at = (series.log_ns, states.log_ns) if logged else (series.stamp_ns, states.stamp_ns)
            order = np.argsort(sent, kind="stable")
            place = np.searchsorted(sent[order], at, side="right") - 1
            return np.asarray(values[order][np.clip(place, 0, len(values) - 1)])
    return None
