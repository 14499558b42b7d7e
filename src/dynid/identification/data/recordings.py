"""Loading of recordings from bags, CSV files, data sets and folders, as `Recording` objects for the identification."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from dynid.errors import ConfigurationError, DataError, DynidError, refuse_other_kind
from dynid.identification.data.columns import Columns
from dynid.identification.data.deferred_signals import MemoryBudget, SignalsInMemory, SignalsOnDisk
from dynid.identification.data.instants import interpolated_at_stamps
from dynid.identification.data.log_search import FoundLog, episodes_at, is_bag, places, undescribed
from dynid.identification.data.preprocessing import Samples, preprocess, signals_of
from dynid.identification.data.recording_names import distinct_names
from dynid.identification.data.row_choice import RowChoice, common_choice
from dynid.identification.data.sample_sets import hold_out
from dynid.identification.data.signals import Signals, Span, refuse_unusable
from dynid.identification.settings import IdentificationSettings
from dynid.parallel import Map
from dynid.recording import driver_recording as bags
from dynid.recording.bag_reader import read_bag
from dynid.recording.csv_reader import is_csv, read_csv
from dynid.recording.foreign_bag import foreign_log, foreign_note, is_foreign
from dynid.recording.log import Log, log_digest
from dynid.recording.mapping import BagMapping, Mapping, Mappings, mappings_of
from dynid.recording.plausible import likely_units, unit_suspicion
from dynid.resources import guarded
from dynid.robot import FloatArray, Robot

Kind = Literal["held out", "fitted", "cross-validated"]
MOST_NAMED = 3  # largest number of unusable recordings that an error about a folder lists


@dataclass(frozen=True, eq=False)
class Portion:
    """Samples of a recording or of a part of it, with their role in the identification.

    Attributes:
        name: name of the recording, or of the part of it.
        kind: "fitted" if the model is identified from the samples, "held out" if they are used only for validation.
        sha256: hash of the recording's data.
        mount: name of the arm's mount, which determines the direction of gravity.
        samples: the samples, with all axes of the arm.
        simulated: whether the recorded driver reported that its arm is simulated.
    """

    name: str
    kind: Kind
    sha256: str
    mount: str
    samples: Samples
    simulated: bool = False


@dataclass(frozen=True, eq=False)
class Recording(Columns):
    """Recorded motion of one arm, from any kind of file; `time`, `q`, `dq` and `tau` contain its values.

    Attributes:
        path: path of the bag or file; a name if the recording was made from arrays.
        sha256: hash of the data.
        mount: name of the arm's mount, which determines the direction of gravity.
        torque_constants: constants by which torques were computed from currents [N m/A], (n,); () if torques were
            recorded.
        notes: remarks about the recording for readers of the identification result.
        signals: function that returns the signals for given settings, in the robot's joint order.
        simulated: whether the recorded driver reported that its arm is simulated; False for files and arrays, for which
            this is unknown.
        joint_names: joint names of the robot for which the recording was read, (n,); () if unknown.
        driver: complete recording, if dynid's driver wrote it; None for other bags, files and arrays.
        rows: signals of a recording from another source; None for a recording of dynid's driver, and if the signals are
            not in memory.
        content: text that distinguishes different signals read from the same data, such as with other units or of
            another part; "" if the signals follow from the data.
        label: name that differs from those of other recordings used together, such as "monday/run.csv"; "" if the
            file's name is enough.
    """

    path: Path
    sha256: str
    mount: str
    torque_constants: tuple[float, ...]
    notes: tuple[str, ...]
    signals: Callable[[IdentificationSettings], Signals]
    simulated: bool = False
    joint_names: tuple[str, ...] = ()
    driver: bags.DriverRecording | None = None
    rows: Signals | None = None
    content: str = ""
    label: str = ""

    def __repr__(self) -> str:
        held = self.driver or self.rows
        content = "samples released" if held is None else f"{len(held.time)} samples of {np.ptp(held.time):.1f} s"
        joints = f", {len(self.joint_names)} joints" if self.joint_names else ""
        return f"Recording({self.path}, {content}{joints}, mounted {self.mount})"

    @property
    def name(self) -> str:
        """Name of the recording's bag or file, with its folder only if the name repeats; of arrays, the given name."""
        return self.label or self.path.name

    def released(self) -> "Recording":
        """Return this recording without its signals, to save memory; later access to its signals raises DataError."""

        def gone(settings: IdentificationSettings) -> Signals:
            raise DataError(f"the signals of {self.path} are no longer in memory: read it again")

        return replace(self, signals=gone, driver=None, rows=None)

    def out_of_memory(self, read: Callable[[], "Recording"]) -> "Recording":
        """Return a copy of this recording that reads its signals from the file on each use.

        Args:
            read: function that reads the recording again on each use.
        """
        return replace(self, signals=SignalsOnDisk(read, self.sha256), driver=None, rows=None)

    def in_memory(self, settings: IdentificationSettings) -> "Recording":
        """Return this recording with its signals in memory; if necessary, the signals are read with these settings."""
        return self if self.row_count else replace(self, signals=SignalsInMemory(self.signals(settings)))

    @property
    def row_count(self) -> int:
        """Number of recorded rows in memory."""
        if self.driver is not None:
            return len(self.driver.time)
        return 0 if self.rows is None else len(self.rows.time)

    def usable_signals(self, settings: IdentificationSettings) -> Signals:
        """Return the signals of the recording after checking that they can be used for identification.

        Raises:
            DataError: the signals cannot be used; the message gives the reason and the path of the recording.
        """
        try:
            signals = self.signals(settings)
            refuse_unusable(signals)
        except DataError as error:
            raise DataError(f"{self.path}: {error}") from error
        return signals

    def samples(self, settings: IdentificationSettings, interval_s: float | None = None) -> Samples:
        """Return samples of the whole recording for the regression.

        Args:
            settings: settings of the identification.
            interval_s: target sampling interval [s]; None means the interval of the settings.

        Raises:
            DataError: the signals cannot be used for identification, or give too few samples; the message gives the
                reason and the path of the recording.
        """
        try:
            return preprocess(self.signals(settings), settings, interval_s)
        except DataError as error:
            raise DataError(f"{self.path}: {error}") from error

    def portion(self, kind: Kind, settings: IdentificationSettings, interval_s: float | None = None) -> Portion:
        """Return the samples of the whole recording as a `Portion`, with their role in the identification.

        Args:
            kind: role of the samples, "fitted" or "held out".
            settings: settings of the identification.
            interval_s: target sampling interval [s]; None means the interval of the settings.

        Raises:
            DataError: the signals cannot be used for identification, or give too few samples.
        """
        return Portion(self.name, kind, self.sha256, self.mount, self.samples(settings, interval_s), self.simulated)

    def split(self, settings: IdentificationSettings, share: float) -> tuple[list[Portion], list[Portion]]:
        """Split the recording: return a list with the fitted part, and a list with the held-out part at its end.

        Args:
            settings: settings of the identification.
            share: fraction of the time that is held out for validation, at least 0 and below 1. If it is 0, the second
                list is empty.

        Raises:
            DataError: the signals cannot be used for identification, or a part has too few samples.
        """
        whole = self.portion("fitted", settings)
        if not share:
            return [whole], []
        first, last = hold_out(whole.samples, share, settings.filter)
        names = f"first {100 - 100 * share:g} % of {self.name}", f"last {100 * share:g} % of {self.name}"
        return [replace(whole, name=names[0], samples=first)], [
            replace(whole, name=names[1], kind="held out", samples=last)
        ]


Recorded = Recording | Path | str
Several = Sequence[Recorded] | Recorded


def torque_sentence(torque_constants: tuple[float, ...], robot: Robot) -> str:
    """Return a sentence about the torque constants by which recorded currents were converted to torques.

    The sentence states the constants of the motors, as robot.yaml does.

    Args:
        torque_constants: torque at each joint per ampere of its motor, (n,) [N m/A]; () if torques were recorded.
        robot: the robot, with its gear ratios.
    """
    if not torque_constants:
        return (
            "The recordings hold torques, so no torque constant was used: every parameter has the scale of the "
            "recorded torques."
        )
    by_value: dict[float, list[str]] = {}
    for name, value in zip(robot.joint_names, robot.motor_constants(torque_constants), strict=True):
        by_value.setdefault(value, []).append(name)
    usual = max(by_value, key=lambda value: len(by_value[value]))
    others = [f"{value:g} ({', '.join(names)})" for value, names in by_value.items() if value != usual]
    listed = ", ".join([*others, f"{usual:g} (all {'others' if others else 'joints'})"])
    direct = bool((np.abs(robot.gear_ratios) == 1.0).all())
    factors = "these torque constants" if direct else "the gear ratios and these torque constants of the motors"
    return (
        f"Torques are currents times {factors} [N m/A]: {listed}. Every parameter scales with them. "
        "Published values for the same servo differ by up to 30 %; check them with a known mass (dynid "
        "torque-constants)."
    )


def simulated_sentence(names: Sequence[str]) -> str:
    """Return a sentence that lists the recordings of a simulated arm; "" if there are none."""
    if not names:
        return ""
    listed = ", ".join(dict.fromkeys(names))
    return f"Recorded from a simulated arm, so no evidence about a real one: {listed}."


def load_recording(path: Path | str, robot: Robot, mapping: Mapping = None) -> Recording:
    """Read one recording from a bag, a CSV file, or a LeRobot data set of one episode.

    Args:
        path: path of the recording.
        robot: the robot that was recorded.
        mapping: description of the columns of a CSV file, or of the joint states in a data set or a bag of other
            software. A mapping is given as an object, as a dict, or as the path of a file. Bags of dynid need none.

    Raises:
        InputNotFoundError: the file does not exist.
        DataError: the recording cannot be used, or the path contains several recordings.
        ConfigurationError: the mapping is missing, not needed or invalid.
    """
    sources = load_all(path, robot, mapping)
    if len(sources) > 1:
        raise DataError(f"{path} holds {len(sources)} recordings, expected one: name one of them")
    return sources[0]


def load_all(path: Path | str, robot: Robot, mapping: Mapping = None) -> list[Recording]:
    """Read all recordings of a folder, a data set or a file; return them in the order of their names.

    If some recordings of a folder cannot be used, the notes of the first usable one list them with the reasons.

    Args:
        path: path of the folder, data set or file.
        robot: the robot that was recorded.
        mapping: description of the columns of CSV files, or of the joint states in data sets or bags of other software;
            or both. Each is given as an object, as a dict, or as the path of a file. Bags of dynid need none.

    Raises:
        InputNotFoundError: the path, or the file of a mapping, does not exist.
        DataError: no recording can be used.
        ConfigurationError: the mapping is invalid; or, for a single file, it is missing or not needed.
    """
    return _load_all(Path(path), robot, mappings_of(mapping), MemoryBudget(None), map)


def _examined(read: Callable[[], Recording]) -> Recording | DynidError:
    """Read a recording and return it without its signals in memory; return the error if it cannot be read.

    Args:
        read: function that reads the recording, now and on each later use of its signals.
    """
    try:
        return read().out_of_memory(read)
    except DynidError as error:
        return error


def _load_all(path: Path, robot: Robot, mappings: Mappings, room: MemoryBudget, spread: Map) -> list[Recording]:
    """Read all recordings at a path.

    Args:
        path: path of a folder, data set or file.
        robot: the robot that was recorded.
        mappings: descriptions of the columns of CSV files and of the topics of bags.
        room: number of rows that may stay in memory; further recordings are read from their files on each use.
        spread: map function that reads the recordings of a folder, such as that of a process pool. If it is not `map`,
            no recording of the folder stays in memory.

    Raises:
        DataError: no recording can be used.
    """
    if is_csv(path) or is_bag(path) or not path.is_dir():
        read = partial(_recording_of_file, path, robot, mappings)
        return [room.keep(read(), read)]
    found: list[Recording] = []
    problems: list[str] = []
    readings = _readings(path, robot, mappings)
    if spread is not map:
        for one in spread(_examined, readings):
            (problems.append(str(one)) if isinstance(one, DynidError) else found.append(one))
    for again in readings if spread is map else ():
        try:
            found.append(room.keep(again(), again))
        except DynidError as error:
            problems.append(str(error))
    if not found:
        more = f"; and {len(problems) - MOST_NAMED} others" if len(problems) > MOST_NAMED else ""
        raise DataError(f"no recording in {path} can be used: {'; '.join(problems[:MOST_NAMED])}{more}")
    left = tuple(f"left out of {path}: {problem}" for problem in problems)
    found[0] = replace(found[0], notes=(*found[0].notes, *left))
    return found


def _readings(folder: Path, robot: Robot, mappings: Mappings) -> Iterator[Callable[[], Recording]]:
    """Yield for each recording of a folder a function that reads it."""
    for place in places(folder):
        if place.problem is not None:
            yield partial(_refuse, place.problem)
        elif place.kind == "LeRobot":
            for found in episodes_at(place.path, robot, mappings.bag or BagMapping()):
                yield partial(_recording_of_episode, found, robot, mappings.bag or BagMapping())
        else:
            yield partial(_recording_of_file, place.path, robot, mappings)


def _refuse(error: DataError) -> Recording:
    """Raise the given error.

    `_readings` yields this function, instead of one that reads a recording, for a folder that cannot be opened.
    """
    raise error


def _recording_of_episode(found: FoundLog, robot: Robot, mapping: BagMapping) -> Recording:
    """Return the recording of one episode of a LeRobot data set.

    Raises:
        DataError: the episode contains neither torques nor currents.
    """
    log = found.read()
    if log.tau is None:
        raise DataError(f"{found.name} holds no torques or currents")
    return recording_of_log(log, found.path.parent / found.name, robot, foreign_note(robot, mapping))


def _recording_of_file(path: Path, robot: Robot, mappings: Mappings) -> Recording:
    """Return the recording in a CSV file, or in a bag of dynid's driver or of other software."""
    if is_csv(path):
        if mappings.csv is None:
            raise undescribed(path, robot)
        return recording_of_log(read_csv(path, robot, mappings.csv), path, robot)
    with guarded(path, "bag"):
        bag = read_bag(path)
        if not is_foreign(bag):
            if mappings.bag is not None:
                raise ConfigurationError(
                    f"{path} was recorded by dynid's driver and states its units: leave units and mapping of bags out"
                )
            return replace(
                recording_of_driver(bags.driver_recording_of(bag, robot), robot), joint_names=robot.joint_names
            )
        mapping = mappings.bag or BagMapping()
        log = replace(foreign_log(bag, robot, mapping), sha256=bag.sha256())
        return recording_of_log(log, path, robot, *bag.findings, foreign_note(robot, mapping))


def recording_of_log(log: Log, path: Path, robot: Robot, *notes: str) -> Recording:
    """Convert a log to a recording, after correction of the logger's timestamp errors.

    Args:
        log: recorded motion of one arm, including torques.
        path: path that names the recording.
        robot: the robot that was recorded.
        notes: additional notes, which precede those of the log; empty texts are omitted.
    """
    assert log.tau is not None, "who reads says so"
    signals, moved = signals_of_rows(robot, log.time, log.q, log.tau, log.dq, log.endless)
    signals = replace(signals, torque_delay_s=log.torque_delay_s, goal=log.goal)
    return Recording(
        path,
        log.sha256 or log_digest(log),
        log.mount or robot.file.default_mount,
        log.torque_constants,
        (*(note for note in notes if note), *log.notes, *moved),
        SignalsInMemory(signals),
        joint_names=robot.joint_names,
        rows=signals,
        content=signals.digest(),
    )


def signals_of_rows(
    robot: Robot,
    time: FloatArray,
    q: FloatArray,
    tau: FloatArray,
    dq: FloatArray | None = None,
    endless: tuple[str, ...] = (),
) -> tuple[Signals, tuple[str, ...]]:
    """Return signals made from recorded rows, and notes on the correction of their timestamps.

    All values of a row must have been read at the same time.

    Args:
        robot: the robot that was recorded.
        time: timestamps, (N,) [s].
        q: positions, (N, n) [rad or m].
        tau: torques, (N, n) [N m or N].
        dq: velocities, (N, n) [rad/s or m/s]; None if not recorded.
        endless: names of joints that turn without limit, so that positions may be many turns away from zero.
    """
    turning = np.array([name in endless for name in robot.joint_names])
    at, torques, rates, words = interpolated_at_stamps(time, q, tau, dq)
    signals = Signals(
        joint_names=robot.joint_names,
        time=time,
        q=at,
        torque_time=time,
        tau=torques,
        torque_limits=robot.torque_limits,
        dq=rates,
        farthest=np.where(turning, np.inf, robot.farthest),
        q_read=q if words else None,
        likely_units=likely_units(tau, robot) if len(tau) and unit_suspicion(tau, robot) else "",
    )
    return signals, (words,) if words else ()


def recording_of_driver(bag: bags.DriverRecording, robot: Robot) -> Recording:
    """Return the recording of a bag that dynid's driver wrote."""
    hardware = bag.hardware
    constants = hardware.torque_constants_nm_per_a
    known = (bag.source, bag.sha256, hardware.mount, constants, bag.notes, partial(signals_of, bag, robot))
    return Recording(*known, simulated=hardware.simulated, driver=bag)


def load_recordings(
    recordings: Several,
    robot: Robot,
    mapping: Mapping = None,
    progress: Callable[[str], None] = lambda stage: None,
    **how: Any,
) -> list[Recording]:
    """Return recordings for one common identification, after checking that mount and torque constants are equal.

    Args:
        recordings: one or several paths, or `Recording` objects. A folder stands for all recordings in it.
        robot: the robot that was recorded.
        mapping: description of the columns of CSV files, or of the joint states in data sets or bags of other software;
            None for bags of dynid.
        progress: function that is called with a text about each path before it is read.
        how: further arguments of `read_recordings`: `most_rows`, the largest number of rows in memory, and `spread`,
            the map function that reads the recordings of folders.

    Raises:
        InputNotFoundError: a path, or the file of a mapping, does not exist.
        DataError: the recordings differ in mount or torque constants, no recording of a path can be used, or a
            recording was read for a robot with other joints.
        ConfigurationError: the mapping is missing, not needed or invalid; or an entry is neither a path nor a
            `Recording`.
    """
    sources = read_recordings(recordings, robot, mapping, progress, **how)
    for other in sources[1:]:
        refuse_other_setting(sources[0], other)
    return sources


def read_recordings(
    recordings: Several,
    robot: Robot,
    mapping: Mapping = None,
    progress: Callable[[str], None] = lambda stage: None,
    *,
    most_rows: int | None = None,
    spread: Map = map,
    beside: Sequence[Recording] = (),
) -> list[Recording]:
    """Return recordings of one robot; recordings that are given as paths are read from their files.

    A path of a folder stands for all recordings in the folder. If some of them cannot be used, the notes of the first
    usable one list them with the reasons. Recordings whose file names are equal are named with their folders.

    Args:
        recordings: one or several paths, or `Recording` objects.
        robot: the robot that was recorded.
        mapping: description of the columns of CSV files, or of the joint states in data sets or bags of other software;
            None for bags of dynid.
        progress: function that is called with a text about each path before it is read.
        most_rows: largest number of rows in memory; further recordings are read from their files on each use. None
            means unlimited.
        spread: map function for the recordings of folders, such as a process pool's map.
        beside: other recordings of the same result, such as the fitted ones, whose names stay as they are.

    Raises:
        InputNotFoundError: a path, or the file of a mapping, does not exist.
        DataError: no recording of a path can be used, or a recording was read for a robot with other joints.
        ConfigurationError: the mapping is missing, not needed or invalid; or an entry is neither a path nor a
            `Recording`.
    """
    sources: list[Recording] = []
    mappings, room = mappings_of(mapping), MemoryBudget(most_rows)
    for one in [recordings] if isinstance(recordings, Recorded) else recordings:
        if isinstance(one, Recording):
            sources.append(one)
            continue
        refuse_other_kind(one, (str, Path), "a recording", "read it with load_recording or recording_from_arrays")
        progress(f"reading {Path(one).name}")
        sources += _load_all(Path(one), robot, mappings, room, spread)
    for source in sources:
        if source.joint_names and source.joint_names != robot.joint_names:
            raise DataError(
                f"{source.path} was read for the joints {', '.join(source.joint_names)}; robot '{robot.name}' has "
                f"{', '.join(robot.joint_names)}: read it for this robot"
            )
    names = distinct_names([*beside, *sources])[len(beside) :]
    return [
        one if name == one.path.name else replace(one, label=name) for name, one in zip(names, sources, strict=True)
    ]


def span_of(source: Recording, settings: IdentificationSettings) -> Span:
    """Return the time axis of a recording, with start and end of its motion.

    Raises:
        DataError: the recording cannot be used for identification.
    """
    return Span.of(source.usable_signals(settings))


def rows_of(sources: Sequence[Recording], settings: IdentificationSettings) -> RowChoice:
    """Return the choice between filtered and averaged samples, and the sampling interval, for recordings used together.

    Raises:
        DataError: a recording cannot be used for identification; the message gives the reason and the path.
    """
    return common_choice([span_of(one, settings) for one in sources], settings)


def refuse_other_setting(first: Recording, other: Recording) -> None:
    """Raise DataError if two recordings differ in mount or torque constants."""
    if (first.mount, first.torque_constants) != (other.mount, other.torque_constants):
        raise DataError(
            f"{first.path} and {other.path} differ in mount ({first.mount} and {other.mount}) or torque constants "
            f"({first.torque_constants} and {other.torque_constants} N m/A at the joints): their torques are "
            "not comparable; use recordings of one setting"
        )


def refuse_repeated(sources: Sequence[Recording]) -> None:
    """Raise DataError if two recordings contain the same data.

    Counting the same data twice would make the estimated uncertainty too small.
    """
    seen: dict[str, Recording] = {}
    for one in sources:
        if one.sha256 in seen:
            raise DataError(f"{one.path} holds the same data as {seen[one.sha256].path}: name each recording once")
        seen[one.sha256] = one


def refuse_fitted(fitted: Sequence[tuple[str, str]], judges: Sequence[tuple[str, str]]) -> None:
    """Raise DataError if a validation recording was also used for the fit.

    Args:
        fitted: name and hash of each fitted recording.
        judges: name and hash of each validation recording.
    """
    seen = {sha: name for name, sha in fitted}
    for name, sha in judges:
        if sha in seen:
            raise DataError(
                f"{name} holds the same data as {seen[sha]}, which the model was identified from: validate on another "
                "bag"
            )
