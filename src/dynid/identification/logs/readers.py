"""What logs a folder holds: bags of any arm, CSV files with a mapping, LeRobot data sets.

A bag may hold several arms: every topic of JointState, or ros2_control's DynamicJointState, with positions of all the
robot's joints is a log of its own, wherever it is. Goals are the positions of a topic in the same namespace whose
name says so. A LeRobot data set is a folder with `meta/info.json`; its rows are `observation.state`,
`observation.effort` or `.current`, and `action`.
Reading its parquet files takes pyarrow, which `pip install dynid[lerobot]` brings along.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dynid.documents import read_json
from dynid.errors import ConfigurationError, DataError, DynidError, InputNotFoundError, cut
from dynid.identification.data.repeated_rows import Rows, without_repeats
from dynid.parallel import Map
from dynid.recording.bag_reader import read_bag
from dynid.recording.csv_mapping import CsvMapping
from dynid.recording.csv_reader import is_csv, read_csv, refuse_beyond_limits
from dynid.recording.foreign_bag import POSITION_UNITS, STATES, Units, refuse_impossible, says_goal, topic_log
from dynid.recording.log import Log, LogFacts, log_digest
from dynid.recording.parquet_columns import read_columns
from dynid.resources import guarded
from dynid.robot import Robot

MOST_EPISODES = 10_000  # of a file
EPISODE = "episode_index"
DEEPEST = 30  # folders below the one that is looked into
STATE, ACTION, TORQUES = "observation.state", "action", ("observation.effort", "observation.current")


@dataclass(frozen=True)
class FoundLog:
    """A log, or why it is none; a reading for `identify_logs`, which travels to other processes.

    Attributes:
        name: file, and topic or episode.
        kind: "bag", "CSV" or "LeRobot".
        read: reads it.
        problem: why it cannot be used; "" if it can.
        facts: about what is in it; None where it cannot be used.
        digest: of what is in it, by which work on it can be kept.
    """

    name: str
    kind: str
    read: Callable[[], Log]
    problem: str = ""
    facts: LogFacts | None = None
    digest: str = ""

    def __call__(self) -> Log:
        """The log.

        Raises:
            DataError: it is not what was found.
        """
        log = self.read()
        if self.digest and log_digest(log) != self.digest:
            raise DataError(f"{self.name} has changed since it was found")
        return log


def find_logs(
    folder: Path, robot: Robot, units: Units, mapping: CsvMapping | None = None, spread: Map = map
) -> list[FoundLog]:
    """All logs in a folder or of one file, in the order of their names; each is read by way of `spread`.

    Raises:
        InputNotFoundError: no such folder or file.
        DataError: there is no log in it.
    """
    if not folder.exists():
        raise InputNotFoundError(f"no such folder or file: {folder}")
    found = list(spread(examined, _look(folder, robot, units, mapping, set())))
    if not found:
        raise DataError(f"{folder} holds no bag, no CSV file and no LeRobot data set")
    return found


def _look(
    path: Path, robot: Robot, units: Units, mapping: CsvMapping | None, seen: set[tuple[int, int]], deep: int = 0
) -> Iterator[FoundLog]:
    """Logs at a path or below it; `seen` are device and inode of folders, to which links may lead back."""
    if deep > DEEPEST:
        yield _unusable(cut(str(path), 200), "folder", DataError(f"it is more than {DEEPEST} folders deep"))
    elif (path / "meta" / "info.json").is_file():
        yield from _lerobot(path, robot, units)
    elif path.suffix in (".mcap", ".db3") or (path / "metadata.yaml").is_file():
        yield from _bag(path, robot, units)
    elif path.is_file() and is_csv(path):
        yield _csv(path, robot, mapping)
    elif path.is_dir() and (key := (path.stat().st_dev, path.stat().st_ino)) not in seen:
        seen.add(key)
        try:
            inside = sorted(path.iterdir())
        except OSError as error:
            yield _unusable(str(path), "folder", DataError(f"{path} cannot be read: {error.strerror}"))
            return
        for one in inside:
            yield from _look(one, robot, units, mapping, seen, deep + 1)


@dataclass(frozen=True)
class _Refused:
    error: DynidError

    def __call__(self) -> Log:
        raise self.error


def _unusable(name: str, kind: str, error: DynidError) -> FoundLog:
    return FoundLog(name, kind, _Refused(error), str(error))


def examined(found: FoundLog) -> FoundLog:
    """A log with what is said of it, or why it is none."""
    if found.problem:
        return found
    try:
        log = found.read()
    except DynidError as error:
        return _unusable(found.name, found.kind, error)
    return replace(found, facts=LogFacts.of(log), digest=log_digest(log))


def _csv(path: Path, robot: Robot, mapping: CsvMapping | None) -> FoundLog:
    if mapping is None:
        return _unusable(str(path), "CSV", ConfigurationError(f"{path.name}: describe its columns with --mapping"))
    return FoundLog(str(path), "CSV", _CsvFile(path, robot, mapping))


@dataclass(frozen=True)
class _CsvFile:
    """Reads a CSV file; travels to other processes."""

    path: Path
    robot: Robot
    mapping: CsvMapping

    def __call__(self) -> Log:
        run = read_csv(self.path, self.robot, self.mapping)
        log = Log(str(self.path), self.robot.joint_names, run.time, run.q, run.tau)
        refuse_impossible(log, self.robot, "are the units in the mapping right?")
        return _of_source(log)


def _of_source(log: Log) -> Log:
    """The log without rows that repeat the row before."""
    rows = without_repeats(Rows(log.time, log.q, log.tau, goal=log.goal))
    if not rows.words:
        return log
    return replace(log, time=rows.time, q=rows.q, tau=rows.tau, goal=rows.goal, notes=(*log.notes, rows.words))


def _bag(path: Path, robot: Robot, units: Units) -> Iterator[FoundLog]:
    try:
        bag = read_bag(path)
    except DynidError as error:
        yield _unusable(str(path), "bag", error)
        return
    states = [topic for topic, one in bag.topics.items() if one.message_type in STATES and not says_goal(topic)]
    if not states:
        said = f"{path} has no topic of {' or '.join(STATES)} with states"
        yield _unusable(str(path), "bag", DataError(said))
    for topic in states:
        yield FoundLog(f"{path}:{topic}", "bag", _BagTopic(path, topic, robot, units))


@dataclass(frozen=True)
class _BagTopic:
    """Reads one arm's log from a bag; travels to other processes."""

    path: Path
    topic: str
    robot: Robot
    units: Units

    def __call__(self) -> Log:
        log = topic_log(read_bag(self.path), self.topic, self.robot, self.units)
        refuse_impossible(log, self.robot, "are --position and --effort right?")
        return _of_source(log)


def _lerobot(path: Path, robot: Robot, units: Units) -> Iterator[FoundLog]:
    try:
        info, stats = _meta(path, "info"), _meta(path, "stats")
    except DynidError as error:
        yield _unusable(str(path), "LeRobot", error)
        return
    files = sorted((path / "data").rglob("*.parquet"))
    if not files:
        yield _unusable(str(path), "LeRobot", DataError(f"{path} has no parquet file below data"))
    for file in files:
        try:
            episodes = _episodes(file)
        except DynidError as error:
            yield _unusable(str(file), "LeRobot", error)
            continue
        for episode in episodes:
            name = f"{path.name} episode {episode}"
            yield FoundLog(name, "LeRobot", _Episode(path, file, int(episode), robot, units, info, stats))


def _episodes(file: Path) -> list[int]:
    """Return the episodes of a file, ascending.

    Raises:
        DataError: it cannot be read, or has no episodes or more than `MOST_EPISODES`.
    """
    found = np.unique(read_columns(file, [EPISODE], None).get(EPISODE, np.zeros(0)))
    if not len(found) or found.ndim != 1 or not (np.abs(found) < 2**53).all() or (found % 1.0).any():
        raise DataError(f"{file} has no column {EPISODE} of whole numbers")
    if len(found) > MOST_EPISODES:
        raise DataError(f"{file} has {len(found)} episodes, expected at most {MOST_EPISODES}: split it")
    return [int(one) for one in found]


@dataclass(frozen=True)
class _Episode:
    """Reads one episode of a LeRobot data set; travels to other processes."""

    path: Path
    file: Path
    episode: int
    robot: Robot
    units: Units
    info: dict[str, Any]
    stats: dict[str, Any]

    def __call__(self) -> Log:
        name = f"{self.path.name} episode {self.episode}"
        with guarded(name, "LeRobot episode"):
            return self._read(name)

    def _read(self, name: str) -> Log:
        robot, info = self.robot, self.info
        found = read_columns(self.file, [STATE, ACTION, *TORQUES, "timestamp", EPISODE], (EPISODE, self.episode))
        if STATE not in found or found[STATE].ndim != 2:
            raise DataError(f"{name} has no column {STATE} of lists")
        order = _order(info, robot, found[STATE].shape[1], name)
        time = found.get("timestamp", np.arange(len(found[STATE])) / float(info.get("fps") or 30.0))
        scale = POSITION_UNITS[self.units.position]
        _refuse_far_data_set(self.stats, order, scale, robot, self.path.name)
        effort = next((found[key] for key in TORQUES if key in found), None)
        log = Log(
            name,
            robot.joint_names,
            time,
            found[STATE][:, order] * scale,
            None if effort is None else self.units.torques(effort[:, order], robot),
            found[ACTION][:, order] * scale if ACTION in found else None,
        )
        refuse_impossible(log, robot, "are --position and --effort right?")
        return _of_source(log)


def _meta(path: Path, name: str) -> dict[str, Any]:
    """What a data set says of itself in meta/<name>.json; {} without the file.

    Raises:
        DataError: it is no JSON object, see `read_json`.
    """
    file = path / "meta" / f"{name}.json"
    if not file.is_file():
        return {}
    content: dict[str, Any] = read_json(file, DataError)
    features = content.get("features", {}) if isinstance(content, dict) else None  # JSON may be anything
    if not isinstance(features, dict) or not isinstance(features.get(STATE, {}), dict):
        raise DataError(f"{file} is not a LeRobot data set's: expected a JSON object with objects as features")
    return content


def _refuse_far_data_set(stats: dict[str, Any], order: list[int], scale: float, robot: Robot, name: str) -> None:
    """Raise DataError where a state of the whole data set is beyond a joint's limits: the unit is another one."""
    of_state = stats.get(STATE)
    if not isinstance(of_state, dict):
        return
    try:
        ends = np.array([of_state["min"], of_state["max"]], dtype=np.float64)[:, order] * scale
    except (KeyError, ValueError, TypeError, IndexError):
        return  # statistics of another kind say nothing
    refuse_beyond_limits(ends, robot, f"{name} as a whole (meta/stats.json)", "is --position right?")


def _order(info: dict[str, Any], robot: Robot, columns: int, name: str) -> list[int]:
    """Which columns of a state are the robot's joints: by name, or as they come where names only count them.

    Raises:
        DataError: other names, which say nothing of the order, or another number of columns.
    """
    names = info.get("features", {}).get(STATE, {}).get("names") or []
    if isinstance(names, dict):
        names = next(iter(names.values()), [])
    plain = [str(one).removesuffix(".pos") for one in names]
    if set(robot.joint_names) <= set(plain):
        return [plain.index(joint) for joint in robot.joint_names]
    if columns != robot.size:
        raise DataError(f"{name} has {columns} states; robot '{robot.name}' has {robot.size} joints with other names")
    if plain and not _counted(plain):
        raise DataError(
            f"{name} names its states {cut(', '.join(plain), 300)}; robot '{robot.name}' has "
            f"{', '.join(robot.joint_names)}, and nothing says which is which: give the joints these names in "
            "robot.yaml, or rename them in meta/info.json"
        )
    return list(range(columns))


def _counted(names: list[str]) -> bool:
    """Whether names are one word with numbers that count up by one, such as motor_0, motor_1."""
    found = [re.fullmatch(r"(.*?)(\d+)(\D*)", one) for one in names]
    parts = [(one[1], int(one[2]), one[3]) for one in found if one is not None]
    if len(parts) != len(names):
        return False
    first = parts[0]
    return parts == [(first[0], first[1] + k, first[2]) for k in range(len(parts))]
