"""Where signals come from: bags, CSV files, data sets and folders of them. To the identification they are the same."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from dynid.errors import ConfigurationError, DataError, DynidError, refuse_other_kind
from dynid.identification.data.columns import Columns
from dynid.identification.data.deferred_signals import AsRead, ReadAgain, Room
from dynid.identification.data.instants import moved_to_stamps
from dynid.identification.data.preprocessing import Samples, preprocess, signals_of
from dynid.identification.data.readings import FoundLog, episodes_at, is_bag, places, undescribed
from dynid.identification.data.row_choice import RowChoice, common_choice
from dynid.identification.data.sample_sets import hold_out
from dynid.identification.data.signals import Signals, Span, refuse_unusable
from dynid.identification.settings import IdentificationSettings
from dynid.parallel import Map
from dynid.recording import recording as bags
from dynid.recording.bag_reader import read_bag
from dynid.recording.csv_reader import is_csv, read_csv
from dynid.recording.foreign_bag import foreign_log, foreign_note, is_foreign
from dynid.recording.log import Log, log_digest
from dynid.recording.mapping import BagMapping, Mapping, Mappings, mappings_of
from dynid.recording.plausible import likely_units, unit_suspicion
from dynid.resources import guarded
from dynid.robot import FloatArray, Robot

Kind = Literal["held out", "fitted"]
MOST_NAMED = 3  # recordings that cannot be used, of a folder where none can


@dataclass(frozen=True, eq=False)
class Portion:
    """Samples of a recording, or of one end of it, and what they are to the identification.

    Attributes:
        name: of the recording, or of the part of it.
        kind: "fitted" if the model is identified from them, else "held out".
        sha256: of the recording's data.
        mount: how the arm was mounted.
        samples: of all axes.
        simulated: whether the driver said that its arm was a simulated one.
    """

    name: str
    kind: Kind
    sha256: str
    mount: str
    samples: Samples
    simulated: bool = False


@dataclass(frozen=True, eq=False)
class Source(Columns):
    """One recorded motion, whatever it was recorded as; `time`, `q`, `dq` and `tau` are its columns.

    Attributes:
        path: the bag or file; of arrays the name that they were given.
        sha256: of its data.
        mount: how the arm was mounted.
        torque_constants: that made torques of currents [N m/A], (n,); () where torques were recorded.
        notes: what a reader of the result should know.
        signals: in the robot's joint order, torques being those that the settings choose.
        simulated: whether the driver said that its arm was a simulated one; of files and arrays nobody knows.
        joint_names: of the robot that it was read for, (n,); () where nobody said.
        recording: what a driver of dynid recorded; None for other bags, files and arrays.
        rows: what was read from other bags, files and arrays.
    """

    path: Path
    sha256: str
    mount: str
    torque_constants: tuple[float, ...]
    notes: tuple[str, ...]
    signals: Callable[[IdentificationSettings], Signals]
    simulated: bool = False
    joint_names: tuple[str, ...] = ()
    recording: bags.Recording | None = None
    rows: Signals | None = None

    @property
    def name(self) -> str:
        """Name of the bag or file."""
        return self.path.name

    def released(self) -> "Source":
        """The same without its signals, which a long recording has many of; DataError where they are asked for."""

        def gone(settings: IdentificationSettings) -> Signals:
            raise DataError(f"the signals of {self.path} are no longer in memory: read it again")

        return replace(self, signals=gone, recording=None, rows=None)

    def out_of_memory(self, read: Callable[[], "Source"]) -> "Source":
        """The same, whose signals are read again by `read` whenever they are asked for."""
        return replace(self, signals=ReadAgain(read, self.sha256), recording=None, rows=None)

    def in_memory(self, settings: IdentificationSettings) -> "Source":
        """The same with its signals, as the settings choose them, in memory."""
        return self if self.row_count else replace(self, signals=AsRead(self.signals(settings)))

    @property
    def row_count(self) -> int:
        """Number of rows in memory."""
        if self.recording is not None:
            return len(self.recording.time)
        return 0 if self.rows is None else len(self.rows.time)

    def usable_signals(self, settings: IdentificationSettings) -> Signals:
        """Return signals from which samples can be made.

        Raises:
            DataError: nothing can be identified from them; says why, with the name of the source.
        """
        try:
            signals = self.signals(settings)
            refuse_unusable(signals)
        except DataError as error:
            raise DataError(f"{self.path}: {error}") from error
        return signals

    def samples(self, settings: IdentificationSettings, interval_s: float | None = None) -> Samples:
        """Samples for the regression; errors as in `preprocess`, with the name of the source."""
        try:
            return preprocess(self.signals(settings), settings, interval_s)
        except DataError as error:
            raise DataError(f"{self.path}: {error}") from error

    def portion(self, kind: Kind, settings: IdentificationSettings, interval_s: float | None = None) -> Portion:
        """The whole recording as one portion; errors as in `samples`."""
        return Portion(self.name, kind, self.sha256, self.mount, self.samples(settings, interval_s), self.simulated)

    def split(self, settings: IdentificationSettings, share: float) -> tuple[list[Portion], list[Portion]]:
        """What is fitted, and the last `share` of the time, which is held out; nothing is where the share is 0.

        Raises:
            DataError: as in `samples`, or too few samples are left on a side.
        """
        whole = self.portion("fitted", settings)
        if not share:
            return [whole], []
        first, last = hold_out(whole.samples, share, settings.filter)
        names = f"first {100 - 100 * share:g} % of {self.name}", f"last {100 * share:g} % of {self.name}"
        return [replace(whole, name=names[0], samples=first)], [
            replace(whole, name=names[1], kind="held out", samples=last)
        ]


Recorded = Source | Path | str
Several = Sequence[Recorded] | Recorded


def torque_sentence(torque_constants: tuple[float, ...], joint_names: tuple[str, ...]) -> str:
    """Which torque constants a result rests on, in words; () are torques that were recorded as such."""
    if not torque_constants:
        return (
            "The recordings hold torques, so no torque constant was used: every parameter has the scale of the "
            "recorded torques."
        )
    by_value: dict[float, list[str]] = {}
    for name, value in zip(joint_names, torque_constants, strict=True):
        by_value.setdefault(value, []).append(name)
    usual = max(by_value, key=lambda value: len(by_value[value]))
    others = [f"{value:g} ({', '.join(names)})" for value, names in by_value.items() if value != usual]
    listed = ", ".join([*others, f"{usual:g} (all {'others' if others else 'joints'})"])
    return (
        f"Torques are currents times these torque constants [N m/A]: {listed}. Every parameter scales with them. "
        "Published values for the same servo differ by up to 30 %; check them with a known mass (dynid "
        "torque-constants)."
    )


def simulated_sentence(names: Sequence[str]) -> str:
    """That these recordings are of a simulated arm, in words; "" without any."""
    if not names:
        return ""
    listed = ", ".join(dict.fromkeys(names))
    return f"Recorded from a simulated arm, so no evidence about a real one: {listed}."


def load_recording(path: Path | str, robot: Robot, mapping: Mapping = None) -> Source:
    """Read a bag, a CSV file, or a LeRobot data set of one episode.

    Args:
        mapping: what the columns of a CSV file are, or the joint states of other software's bag or a data set: a
            mapping, its content, or the file that holds it; bags of dynid need none.

    Raises:
        InputNotFoundError, DataError, ConfigurationError: it cannot be used; one sentence that says why.
    """
    sources = load_all(path, robot, mapping)
    if len(sources) > 1:
        raise DataError(f"{path} holds {len(sources)} recordings, expected one: name one of them")
    return sources[0]


def load_all(path: Path | str, robot: Robot, mapping: Mapping = None) -> list[Source]:
    """Read a bag, a CSV file, or all recordings of a folder or a LeRobot data set, in the order of their names.

    What a folder holds besides, and why it cannot be used, is said in the notes of its first recording; errors are
    those of `load_recording`.
    """
    return _load_all(Path(path), robot, mappings_of(mapping), Room(None), map)


def _examined(read: Callable[[], Source]) -> Source | DynidError:
    """A recording without its signals, or why it cannot be used."""
    try:
        return read().out_of_memory(read)
    except DynidError as error:
        return error


def _load_all(path: Path, robot: Robot, mappings: Mappings, room: Room, spread: Map) -> list[Source]:
    """`load_all` within the room in memory; a folder's recordings are read by way of `spread`."""
    if is_csv(path) or is_bag(path) or not path.is_dir():
        read = partial(_source_of_file, path, robot, mappings)
        return [room.keep(read(), read)]
    found: list[Source] = []
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


def _readings(folder: Path, robot: Robot, mappings: Mappings) -> Iterator[Callable[[], Source]]:
    """What reads each recording of a folder."""
    for place in places(folder):
        if place.problem is not None:
            yield partial(_refuse, place.problem)
        elif place.kind == "LeRobot":
            for found in episodes_at(place.path, robot, mappings.bag or BagMapping()):
                yield partial(_source_of_episode, found, robot, mappings.bag or BagMapping())
        else:
            yield partial(_source_of_file, place.path, robot, mappings)


def _refuse(error: DataError) -> Source:
    """Raise the reason for which a folder cannot be looked into."""
    raise error


def _source_of_episode(found: FoundLog, robot: Robot, mapping: BagMapping) -> Source:
    """A LeRobot episode."""
    log = found.read()
    if log.tau is None:
        raise DataError(f"{found.name} holds no torques or currents")
    return source_of_log(log, found.path.parent / found.name, robot, foreign_note(robot, mapping))


def _source_of_file(path: Path, robot: Robot, mappings: Mappings) -> Source:
    """A CSV file, or a bag of dynid's driver or of other software."""
    if is_csv(path):
        if mappings.csv is None:
            raise undescribed(path, robot)
        return source_of_log(read_csv(path, robot, mappings.csv), path, robot)
    with guarded(path, "bag"):
        bag = read_bag(path)
        if not is_foreign(bag):
            if mappings.bag is not None:
                raise ConfigurationError(
                    f"{path} was recorded by dynid's driver and says what its numbers are: leave units and mapping of "
                    "bags out"
                )
            return replace(source_of_recording(bags.recording_of(bag, robot), robot), joint_names=robot.joint_names)
        mapping = mappings.bag or BagMapping()
        log = replace(foreign_log(bag, robot, mapping), sha256=bag.sha256())
        return source_of_log(log, path, robot, *bag.findings, foreign_note(robot, mapping))


def source_of_log(log: Log, path: Path, robot: Robot, *notes: str) -> Source:
    """What a reader made of one recording, at the instants of its stamps.

    Args:
        log: with torques.
        path: that names it.
        robot: that it is of.
        notes: that come before the log's own; "" are left out.
    """
    assert log.tau is not None, "who reads says so"
    signals, moved = signals_of_rows(robot, log.time, log.q, log.tau, log.dq, log.endless)
    signals = replace(signals, torque_delay_s=log.torque_delay_s, goal=log.goal)
    return Source(
        path,
        log.sha256 or log_digest(log),
        log.mount or robot.file.default_mount,
        log.torque_constants,
        (*(note for note in notes if note), *log.notes, *moved),
        AsRead(signals),
        joint_names=robot.joint_names,
        rows=signals,
    )


def signals_of_rows(
    robot: Robot,
    time: FloatArray,
    q: FloatArray,
    tau: FloatArray,
    dq: FloatArray | None = None,
    endless: tuple[str, ...] = (),
) -> tuple[Signals, tuple[str, ...]]:
    """Signals of rows whose values were read at once, at the instants of their stamps, and what was done for that.

    Args:
        time: stamps, (N,) [s].
        q, tau, dq: positions, torques and velocities, (N, n) each, in SI units; velocities may be missing.
        endless: names of joints that may be any number of turns away from zero.
    """
    turning = np.array([name in endless for name in robot.joint_names])
    at, torques, rates, words = moved_to_stamps(time, q, tau, dq)
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


def source_of_recording(bag: bags.Recording, robot: Robot) -> Source:
    """What was recorded by a driver of dynid."""
    hardware = bag.hardware
    constants = hardware.torque_constants_nm_per_a
    known = (bag.source, bag.sha256, hardware.mount, constants, bag.notes, partial(signals_of, bag, robot))
    return Source(*known, simulated=hardware.simulated, recording=bag)


def load_sources(
    recordings: Several,
    robot: Robot,
    mapping: Mapping = None,
    progress: Callable[[str], None] = lambda stage: None,
    **how: Any,
) -> list[Source]:
    """Sources to identify one model from, read where they are paths; arguments and errors as in `read_sources`.

    Raises:
        DataError: they differ in mount or torque constants.
    """
    sources = read_sources(recordings, robot, mapping, progress, **how)
    for other in sources[1:]:
        refuse_other_setting(sources[0], other)
    return sources


def read_sources(
    recordings: Several,
    robot: Robot,
    mapping: Mapping = None,
    progress: Callable[[str], None] = lambda stage: None,
    *,
    most_rows: int | None = None,
    spread: Map = map,
) -> list[Source]:
    """Sources of one robot, read where they are paths; a single one may stand alone; errors as in `load_recording`.

    A folder stands for all recordings in it, see `load_all`.

    Args:
        recordings: paths, or recordings that were read.
        robot: that they are of.
        mapping: of their columns or topics.
        progress: called with what is read.
        most_rows: rows that stay in memory; what exceeds them is read again when it is needed. None keeps all.
        spread: reads the recordings of folders, such as a process pool's map.

    Raises:
        DataError: one was read for a robot with other joints.
        ConfigurationError: one is neither a path nor a recording that was read; or units are stated that none needs.
    """
    sources: list[Source] = []
    mappings, room = mappings_of(mapping), Room(most_rows)
    for one in [recordings] if isinstance(recordings, Recorded) else recordings:
        if isinstance(one, Source):
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
    return sources


def span_of(source: Source, settings: IdentificationSettings) -> Span:
    """Return the time that a recording covers.

    Raises:
        DataError: nothing can be identified from it.
    """
    return Span.of(source.usable_signals(settings))


def rows_of(sources: Sequence[Source], settings: IdentificationSettings) -> RowChoice:
    """Return how rows of recordings that are used together are made; errors as in `span_of`."""
    return common_choice([span_of(one, settings) for one in sources], settings)


def refuse_other_setting(first: Source, other: Source) -> None:
    """Raise DataError where two sources differ in mount or torque constants."""
    if (first.mount, first.torque_constants) != (other.mount, other.torque_constants):
        raise DataError(
            f"{first.path} and {other.path} differ in mount ({first.mount} and {other.mount}) or torque constants "
            f"({first.torque_constants} and {other.torque_constants}): their torques are not comparable; use "
            "recordings of one setting"
        )


def refuse_repeated(sources: Sequence[Source]) -> None:
    """Raise DataError where two recordings are one: counted twice, the same noise would look like certainty."""
    seen: dict[str, Source] = {}
    for one in sources:
        if one.sha256 in seen:
            raise DataError(f"{one.path} holds the same data as {seen[one.sha256].path}: name each recording once")
        seen[one.sha256] = one


def refuse_fitted(fitted: Sequence[tuple[str, str]], judges: Sequence[tuple[str, str]]) -> None:
    """Raise DataError where one of the recordings (name and hash each) that judge a result was identified from."""
    seen = {sha: name for name, sha in fitted}
    for name, sha in judges:
        if sha in seen:
            raise DataError(
                f"{name} holds the same data as {seen[sha]}, which the model was identified from: validate on another "
                "bag"
            )
