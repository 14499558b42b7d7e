"""Content of a bag that dynid's driver recorded: the data for identification, as read-only arrays on one time axis."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynid.errors import DataError
from dynid.recording.bag_reader import Bag, TopicContent, read_bag
from dynid.recording.completeness import late_starts
from dynid.recording.messages import STRING, decode
from dynid.recording.series import JointSeries, joint_series, strings
from dynid.recording.settings import (
    ExperimentSettings,
    HardwareSettings,
    constants_note,
    parse_settings,
    refuse_other_gravity,
)
from dynid.recording.topics import (
    APPLIED_COMMANDS,
    EXPERIMENT,
    HARDWARE_SETTINGS,
    JOINT_COMMANDS,
    JOINT_STATES,
    NEEDED,
    REFERENCE,
    ROBOT_DESCRIPTION,
    STAMPED,
    find_topics,
)
from dynid.resources import guarded
from dynid.robot import FloatArray, Robot, read_only


@dataclass(frozen=True)
class TorqueSeries:
    """Torques `tau` (M, n) [N m] at the times `time` (M,) [s]."""

    time: FloatArray
    tau: FloatArray


@dataclass(frozen=True)
class ReferenceSeries:
    """Reference motion q [rad], dq [rad/s], ddq [rad/s^2], (R, n) each, at the times `time` (R,) [s]."""

    time: FloatArray
    q: FloatArray
    dq: FloatArray
    ddq: FloatArray


@dataclass(frozen=True)
class DriverRecording:
    """Recording of one experiment by dynid's driver; all times are header stamps in seconds since `stamp0_ns`.

    Attributes:
        robot_name: name of the robot, as its driver reports it.
        joint_names: joint names in the order of all columns, (n,).
        time: stamps, strictly increasing and starting at 0, (N,) [s].
        stamp0_ns: header stamp of the first joint state [ns].
        q: positions, (N, n) [rad].
        dq: velocities, (N, n) [rad/s].
        tau_present: measured torques (measured current times torque constant), (N, n) [N m].
        commands: torques that the controller commanded; None if not recorded.
        applied: torques that were written to the servos (goal current times torque constant); None if not recorded.
        reference: motion that the controller followed; None if not recorded.
        hardware: settings that the driver published.
        experiments: last published settings of each experiment in the bag, in order.
        robot_description: URDF text; None if not recorded.
        source: path of the bag.
        sha256: hash of the bag's data files.
        counts: number of messages per topic of the bag.
        notes: remarks on data that the reader changed or left out; empty for an intact bag.
    """

    robot_name: str
    joint_names: tuple[str, ...]
    time: FloatArray
    stamp0_ns: int
    q: FloatArray
    dq: FloatArray
    tau_present: FloatArray
    commands: TorqueSeries | None
    applied: TorqueSeries | None
    reference: ReferenceSeries | None
    hardware: HardwareSettings
    experiments: tuple[ExperimentSettings, ...]
    robot_description: str | None
    source: Path
    sha256: str
    counts: dict[str, int]
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        return f"DriverRecording({self.source}, {self.robot_name}, {len(self.time)} samples of {self.time[-1]:.1f} s)"

    @property
    def size(self) -> int:
        """Number of joints n."""
        return len(self.joint_names)

    @property
    def experiment(self) -> ExperimentSettings | None:
        """Settings of the last experiment in the bag; None if no experiment was recorded."""
        return self.experiments[-1] if self.experiments else None

    def seconds(self, stamp_ns: int) -> float:
        """Convert a stamp [ns] to a time on this recording's time axis [s]."""
        return (stamp_ns - self.stamp0_ns) / 1e9

    def trajectory_span(self, experiment: ExperimentSettings | None = None) -> tuple[float, float]:
        """Return start and end [s] of an experiment's trajectory motion, on this recording's time axis.

        Args:
            experiment: the experiment; None is the last one in the bag. If the last one belongs to a series of motions,
                None is the whole series.

        Raises:
            DataError: no experiment was recorded, or its trajectory never started.
        """
        chosen = experiment or self.experiment
        if experiment is None and chosen is not None and chosen.series:
            return self._series_span(chosen.series)
        if chosen is None:
            raise DataError(f"{self.source} holds no topic '{EXPERIMENT}', so the time of the trajectory is unknown")
        span = chosen.trajectory_span_ns()
        if span is None:
            raise DataError(
                f"{self.source}: the trajectory '{chosen.trajectory}' never started (state: {chosen.state})"
            )
        return self.seconds(span[0]), self.seconds(span[1])

    def _series_span(self, series: str) -> tuple[float, float]:
        """Return start and end [s] of a series of motions, which is evaluated as one recording.

        The start is that of the first trajectory in the series, the end is that of the last trajectory. Trajectories
        that never started are ignored.

        Args:
            series: name of the series, which is stated in the settings of each of its experiments.

        Raises:
            DataError: no trajectory of the series ever started.
        """
        spans = [one.trajectory_span_ns() for one in self.experiments if one.series == series]
        began = [one for one in spans if one is not None]
        if not began:
            raise DataError(f"{self.source}: no trajectory of the series '{series}' ever started")
        return self.seconds(began[0][0]), self.seconds(began[-1][1])

    def window(self, start: float, end: float) -> "DriverRecording":
        """Return the part of the recording from time `start` to time `end` [s], both included.

        The time axis stays the same, so the times of the part do not start at 0 again.

        Raises:
            DataError: no joint state lies in the window.
        """
        inside = _slice(self.time, start, end)
        if inside.start >= inside.stop:
            span = f"{self.time[0]:.3f} s to {self.time[-1]:.3f} s"
            raise DataError(
                f"{self.source}: no joint states from {start:.3f} s to {end:.3f} s; the recording covers {span}"
            )
        own = {name: getattr(self, name)[inside] for name in ("time", "q", "dq", "tau_present")}
        series = {name: _cut(getattr(self, name), start, end) for name in ("commands", "applied", "reference")}
        return replace(self, **own, **series)


def _slice(time: FloatArray, start: float, end: float) -> slice:
    first, last = np.searchsorted(time, [start, end], side="left")
    last += int(np.searchsorted(time[last:], end, side="right"))
    return slice(int(first), int(last))


def _cut(series: TorqueSeries | ReferenceSeries | None, start: float, end: float) -> Any:
    if series is None:
        return None
    part = _slice(series.time, start, end)
    return replace(series, **{name: values[part] for name, values in vars(series).items()})


def load_driver_recording(
    path: Path | str, robot: Robot | None = None, *, namespace: str | None = None, needed: Sequence[str] = NEEDED
) -> DriverRecording:
    """Read a bag that dynid's driver recorded, as a `DriverRecording`.

    Args:
        path: folder or single file of the bag.
        robot: robot that the bag must be from; None accepts any robot.
        namespace: namespace of the arm, if the bag holds several arms ("/left"; "/" is the root).
        needed: topics that the bag must contain, in addition to joint_states and hardware_settings.

    Raises:
        InputNotFoundError: the path does not exist.
        DataError: the path is not a bag, or its data do not suffice for an identification; the message gives the
            reason.
    """
    with guarded(path, "bag"):
        return driver_recording_of(read_bag(path), robot, namespace, needed)


def driver_recording_of(
    bag: Bag, robot: Robot | None = None, namespace: str | None = None, needed: Sequence[str] = NEEDED
) -> DriverRecording:
    """Convert a bag in memory to a `DriverRecording`; other arguments and errors as in `load_driver_recording`."""
    topics = find_topics(bag, namespace, (*NEEDED, *needed))
    hardware = _hardware(topics[HARDWARE_SETTINGS], robot, bag)
    names = hardware.joint_names
    notes = [*bag.findings, *constants_note(hardware, robot)]
    states = joint_series(topics[JOINT_STATES], names)
    _check(states, ("position", "velocity", "effort"), bag, strictly=True)
    stamp0 = int(states.stamp_ns[0])
    series = {
        name: joint_series(topics[name], names)
        for name in (JOINT_COMMANDS, APPLIED_COMMANDS, REFERENCE)
        if name in topics and len(topics[name].messages)
    }
    for one in (states, *series.values()):
        if one.left_out:
            notes.append(f"{one.left_out} malformed messages of '{one.topic}' were left out; the first: {one.reason}")
        if one.singly_decoded:
            total = len(one.stamp_ns)
            notes.append(
                f"{one.singly_decoded} of {total} messages of '{one.topic}' differ in layout; decoded one by one"
            )
    notes += late_starts(topics.get(EXPERIMENT), [topics[name] for name in STAMPED if name in topics])
    return DriverRecording(
        robot_name=hardware.robot,
        joint_names=names,
        time=_seconds(states.stamp_ns, stamp0),
        stamp0_ns=stamp0,
        q=states.field("position"),
        dq=states.field("velocity"),
        tau_present=states.field("effort"),
        commands=_torques(series.get(JOINT_COMMANDS), stamp0, bag, notes),
        applied=_torques(series.get(APPLIED_COMMANDS), stamp0, bag, notes),
        reference=_reference(series.get(REFERENCE), stamp0, bag),
        hardware=hardware,
        experiments=_experiments(topics.get(EXPERIMENT), notes),
        robot_description=_last_text(topics.get(ROBOT_DESCRIPTION)),
        source=bag.path,
        sha256=bag.sha256(),
        counts=bag.counts,
        notes=tuple(notes),
    )


def _hardware(content: TopicContent, robot: Robot | None, bag: Bag) -> HardwareSettings:
    texts = strings(content)
    if not texts:
        raise DataError(f"the bag {bag.path}: topic '{content.name}' holds no messages")
    settings = parse_settings(content.name, texts[-1], HardwareSettings)
    for text in texts[:-1]:
        if parse_settings(content.name, text, HardwareSettings) != settings:
            raise DataError(f"the bag {bag.path}: '{content.name}' changes within the bag; record one bag per setting")
    if robot is not None and settings.robot != robot.name:
        raise DataError(f"the bag {bag.path} is from robot '{settings.robot}', expected '{robot.name}'")
    if robot is not None and settings.joint_names != robot.joint_names:
        got, want = ", ".join(settings.joint_names), ", ".join(robot.joint_names)
        raise DataError(f"the bag {bag.path} has the joints {got}; robot '{robot.name}' has {want}")
    if robot is not None:
        refuse_other_gravity(settings, robot, f"the bag {bag.path} was recorded with")
    return settings


def _check(series: JointSeries, fields: Sequence[str], bag: Bag, *, strictly: bool = False) -> None:
    """Raise DataError if a value of the given fields is not finite, or if stamps are not in order.

    Args:
        series: decoded messages of a topic.
        fields: names of the fields to check.
        bag: the bag, for messages.
        strictly: whether equal stamps are an error, too.
    """
    for name in fields:
        bad = np.argwhere(~np.isfinite(series.field(name)))
        if len(bad):
            index, joint = bad[0]
            value, of = series.field(name)[index, joint], series.joint_names[joint]
            raise DataError(
                f"the bag {bag.path}: {name} of {of} is {value} in message {index} of '{series.topic}' "
                f"({len(bad)} such values)"
            )
    steps = np.diff(series.stamp_ns)
    wrong = np.flatnonzero(steps <= 0 if strictly else steps < 0)
    if len(wrong):
        index = int(wrong[0])
        raise DataError(
            f"the bag {bag.path}: header stamps of '{series.topic}' are not in order: message {index + 1} is stamped "
            f"{steps[index]} ns after message {index} ({len(wrong)} such messages)"
        )


def _seconds(stamp_ns: NDArray[np.int64], stamp0: int) -> FloatArray:
    return read_only((stamp_ns - stamp0) / 1e9)


def _torques(series: JointSeries | None, stamp0: int, bag: Bag, notes: list[str]) -> TorqueSeries | None:
    if series is None:
        return None
    empty = np.isnan(series.field("effort")).all(axis=1)  # ros2_control writes NaN if there is no command
    if empty.any():
        notes.append(
            f"{empty.sum()} of {empty.size} messages of '{series.topic}' hold no command (NaN) and were skipped"
        )
        kept = read_only(series.field("effort")[~empty])
        series = replace(series, stamp_ns=series.stamp_ns[~empty], values={"effort": kept})
    _check(series, ("effort",), bag)
    return TorqueSeries(_seconds(series.stamp_ns, stamp0), series.field("effort"))


def _reference(series: JointSeries | None, stamp0: int, bag: Bag) -> ReferenceSeries | None:
    if series is None:
        return None
    fields = ("positions", "velocities", "accelerations")
    _check(series, fields, bag)
    return ReferenceSeries(_seconds(series.stamp_ns, stamp0), *(series.field(name) for name in fields))


def _experiments(content: TopicContent | None, notes: list[str]) -> tuple[ExperimentSettings, ...]:
    """Return the last published settings of each experiment that a topic reports.

    A message belongs to the same experiment as the previous message if the settings are equal, and if its list of
    phases (such as approach and trajectory) begins with that of the previous message. Otherwise another experiment
    starts. Invalid messages are left out with a note. If all are invalid, the first error is raised.
    """
    found: list[ExperimentSettings] = []
    wrong: list[DataError] = []
    for raw in content.messages if content else ():
        try:
            settings = parse_settings(EXPERIMENT, decode(raw, STRING).data, ExperimentSettings)
        except DataError as error:
            wrong.append(error)
            continue
        if found and settings.continues(found[-1]):
            found[-1] = settings
        else:
            found.append(settings)
    if wrong and not found:
        raise wrong[0]
    if wrong:
        notes.append(f"{len(wrong)} messages of '{EXPERIMENT}' were left out; the first: {wrong[0]}")
    return tuple(found)


def _last_text(content: TopicContent | None) -> str | None:
    texts = strings(content) if content else []
    return texts[-1] if texts else None
