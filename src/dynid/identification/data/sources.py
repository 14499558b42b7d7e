"""Where signals come from: a bag, CSV files with their mapping, or arrays. To the identification they are the same."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from dynid.errors import ConfigurationError, DataError, refuse_other_kind
from dynid.identification.data.instants import moved_to_stamps
from dynid.identification.data.preprocessing import Samples, preprocess, signals_of
from dynid.identification.data.repeated_rows import Rows, without_repeats
from dynid.identification.data.sample_sets import hold_out
from dynid.identification.data.signals import Signals
from dynid.identification.settings import IdentificationSettings
from dynid.recording import recording as bags
from dynid.recording.bag_reader import read_bag
from dynid.recording.csv_mapping import CsvMapping, load_mapping
from dynid.recording.csv_reader import beyond_limits, is_csv, position_margin, read_csv, refuse_jumps
from dynid.recording.foreign_bag import foreign_log, foreign_note, is_foreign
from dynid.recording.frozen import refuse_frozen, still_notes
from dynid.resources import guarded
from dynid.robot import FloatArray, Robot

Kind = Literal["held out", "fitted"]


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
class Source:
    """One recorded motion, whatever it was recorded as.

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

    @property
    def name(self) -> str:
        """Name of the bag or file."""
        return self.path.name

    def released(self) -> "Source":
        """The same without its signals, which a long recording has many of; DataError where they are asked for."""

        def gone(settings: IdentificationSettings) -> Signals:
            raise DataError(f"the signals of {self.path} are no longer in memory: read it again")

        return replace(self, signals=gone, recording=None)

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
Mapping = CsvMapping | Path | str | None  # of CSV files, or the file that holds it


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
    """Read a bag, or a CSV file with its mapping.

    Args:
        mapping: what the columns of a CSV file are, or the file that says so; bags need none.

    Raises:
        InputNotFoundError, DataError, ConfigurationError: it cannot be used; one sentence that says why.
    """
    return replace(_source_of_file(Path(path), robot, mapping), joint_names=robot.joint_names)


def _source_of_file(path: Path, robot: Robot, mapping: Mapping) -> Source:
    """See `load_recording`."""
    if not is_csv(path):
        return _source_of_bag(path, robot)
    if mapping is None:
        raise ConfigurationError(f"{path} is a CSV file; describe its columns with --mapping")
    run = read_csv(path, robot, mapping if isinstance(mapping, CsvMapping) else load_mapping(Path(mapping)))
    signals, moved = _of_rows(robot, run.time, run.q, run.tau, run.dq, run.torque_delay_s)
    notes = (*run.notes, *moved, *still_notes(run.time, run.q, position_margin(robot), robot))
    return Source(run.source, run.sha256, run.mount, run.torque_constants, notes, lambda _: signals)


def _source_of_bag(path: Path, robot: Robot) -> Source:
    """A bag of dynid's driver, or of other software."""
    with guarded(path, "bag"):
        bag = read_bag(path)
        if not is_foreign(bag):
            return source_of_recording(bags.recording_of(bag, robot), robot)
        log = foreign_log(bag, robot)
        assert log.tau is not None, "see `foreign_log`"
        signals, moved = _of_rows(robot, log.time, log.q, log.tau)
        still = still_notes(log.time, log.q, position_margin(robot), robot)
        notes = (*bag.findings, foreign_note(robot), *log.notes, *moved, *still)
        return Source(path, bag.sha256(), robot.file.default_mount, (), notes, lambda _: signals)


def _of_rows(
    robot: Robot,
    time: FloatArray,
    q: FloatArray,
    tau: FloatArray,
    dq: FloatArray | None = None,
    torque_delay_s: float = 0.0,
) -> tuple[Signals, list[str]]:
    """Signals of rows whose values were read at once, at the instants of their stamps, and what was done for that."""
    rows = without_repeats(Rows(time, q, tau, dq))
    assert rows.tau is not None, "it was given"
    at, torques, rates, words = moved_to_stamps(rows.time, rows.q, rows.tau, rows.dq)
    signals = Signals(
        joint_names=robot.joint_names,
        time=rows.time,
        q=at,
        torque_time=rows.time,
        tau=torques,
        torque_limits=robot.torque_limits,
        dq=rates,
        torque_delay_s=torque_delay_s,
        farthest=robot.farthest,
        q_read=rows.q if words else None,
    )
    return signals, [one for one in (rows.words, words) if one]


def source_of_recording(bag: bags.Recording, robot: Robot) -> Source:
    """What was recorded by a driver of dynid."""
    hardware = bag.hardware

    def signals(settings: IdentificationSettings) -> Signals:
        return signals_of(bag, robot, settings)

    constants = hardware.torque_constants_nm_per_a
    known = (bag.source, bag.sha256, hardware.mount, constants, bag.notes, signals)
    return Source(*known, simulated=hardware.simulated, recording=bag)


def recording_from_arrays(
    robot: Robot,
    time: ArrayLike,
    q: ArrayLike,
    tau: ArrayLike,
    *,
    dq: ArrayLike | None = None,
    joint_names: Sequence[str] = (),
    mount: str | None = None,
    torque_constants: Sequence[float] = (),
    name: str = "arrays",
) -> Source:
    """A recorded motion from arrays.

    Args:
        time: stamps (N,) [s], increasing; where they start does not matter.
        q: joint positions (N, n) [rad; m where a joint slides].
        tau: joint torques (N, n) [N m; N].
        dq: joint velocities (N, n) [rad/s; m/s], which only check the units; None if not measured.
        joint_names: which joint each column is, (n,); () is the robot's own order.
        mount: how the arm was mounted; None is the robot's default.
        torque_constants: with which `tau` was computed from currents, (n,) [N m/A]; () where torques were measured.
        name: of the recording in reports and messages; recordings that are used together need different ones.

    Raises:
        DataError: an array of another shape, joints that are not the robot's, or positions that jump.
        UnknownNameError: the mount.
        ConfigurationError: robot or name is of another kind.
    """
    refuse_other_kind(robot, Robot, "the robot", "load it with dynid.load_robot first")
    refuse_other_kind(name, str, "the name of the recording", "give it a word such as 'run', or leave it out")
    own = robot.joint_names
    names = tuple(joint_names) or own
    if sorted(names) != sorted(own):
        raise DataError(f"{name} names the joints {', '.join(names)}; robot '{robot.name}' has {', '.join(own)}")
    columns, stamps = [names.index(joint) for joint in own], _numbers(name, "time", time)
    if stamps.ndim != 1:
        raise DataError(f"time of {name} has shape {stamps.shape}, expected (N,)")
    given = {"q": q, "tau": tau} | ({} if dq is None else {"dq": dq})
    arrays = {key: _columns(name, key, value, len(stamps), columns) for key, value in given.items()}
    if torque_constants and len(torque_constants) != len(own):
        raise DataError(f"{name} gives {len(torque_constants)} torque constants, expected one for each of {len(own)}")
    chosen = mount or robot.file.default_mount
    robot.gravity(chosen)
    factors = _numbers(name, "torque_constants", torque_constants)
    constants = tuple(factors[columns].tolist()) if len(factors) else ()
    digest = hashlib.sha256(b"".join(one.tobytes() for one in (stamps, *arrays.values()))).hexdigest()
    beyond = beyond_limits(arrays["q"], robot) if len(stamps) else ""
    if not beyond:  # else another unit may be what jumps, and the note says so
        refuse_jumps(stamps, arrays["q"], robot, name)
        refuse_frozen(stamps, arrays["q"], position_margin(robot), robot, name)
    unlikely = (f"{beyond}: are limits, unit and zero right?",) if beyond else ()
    signals, moved = _of_rows(robot, stamps, arrays["q"], arrays["tau"], arrays.get("dq"))
    notes = (*unlikely, *moved, *still_notes(stamps, arrays["q"], position_margin(robot), robot))
    return Source(Path(name), digest, chosen, constants, notes, lambda _: signals, joint_names=own)


def _columns(name: str, key: str, values: ArrayLike, count: int, columns: list[int]) -> FloatArray:
    """One array (N, n) in the robot's joint order, as a copy."""
    array = _numbers(name, key, values)
    if array.shape != (count, len(columns)):
        raise DataError(f"{key} of {name} has shape {array.shape}, expected ({count}, {len(columns)}): one per joint")
    return array[:, columns]


def _numbers(name: str, key: str, values: ArrayLike) -> FloatArray:
    """An array of any shape, as a copy; raises DataError where it holds no numbers."""
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{key} of {name} is no array of numbers: {error}") from None


def load_sources(
    recordings: Several, robot: Robot, mapping: Mapping = None, progress: Callable[[str], None] = lambda stage: None
) -> list[Source]:
    """Sources to identify one model from, read where they are paths; arguments and errors as in `read_sources`.

    Raises:
        DataError: they differ in mount or torque constants.
    """
    sources = read_sources(recordings, robot, mapping, progress)
    for other in sources[1:]:
        refuse_other_setting(sources[0], other)
    return sources


def read_sources(
    recordings: Several, robot: Robot, mapping: Mapping = None, progress: Callable[[str], None] = lambda stage: None
) -> list[Source]:
    """Sources of one robot, read where they are paths; a single one may stand alone; errors as in `load_recording`.

    Raises:
        DataError: one was read for a robot with other joints.
        ConfigurationError: one is neither a path nor a recording that was read.
    """
    sources = []
    for one in [recordings] if isinstance(recordings, Recorded) else recordings:
        if not isinstance(one, Source):
            refuse_other_kind(one, (str, Path), "a recording", "read it with load_recording or recording_from_arrays")
            progress(f"reading {Path(one).name}")
            one = load_recording(one, robot, mapping)
        if one.joint_names and one.joint_names != robot.joint_names:
            raise DataError(
                f"{one.path} was read for the joints {', '.join(one.joint_names)}; robot '{robot.name}' has "
                f"{', '.join(robot.joint_names)}: read it for this robot"
            )
        sources.append(one)
    return sources


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
