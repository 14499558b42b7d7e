"""Search for recordings in a folder: bags of any arm, CSV files with a description of their columns, LeRobot data.

This module chooses the reader for each path. A log is the recorded motion of one arm. A bag may contain several arms,
so every topic with positions of all the robot's joints is a separate log. If only several topics together contain all
joints, this group of topics is one log. Goal positions come from a topic in the same namespace whose name contains a
word such as "command", "goal" or "target".
"""

import errno
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from dynid.errors import ConfigurationError, DataError, DynidError, InputNotFoundError, cut, one_line
from dynid.recording.bag_metadata import STORAGE_SUFFIXES
from dynid.recording.bag_reader import Bag, read_bag
from dynid.recording.csv_mapping import CsvMapping
from dynid.recording.csv_reader import is_csv, read_csv
from dynid.recording.foreign_bag import Topics, logs_of, topic_log
from dynid.recording.lerobot_reader import DataSet, episodes_of, is_data_set, read_episode
from dynid.recording.log import Log, LogFacts
from dynid.recording.mapping import BagMapping, Mapping, Mappings, mappings_of
from dynid.robot import Robot, known_robots

DEEPEST = 30  # deepest level of folders that is searched
SUFFIXES = tuple(STORAGE_SUFFIXES.values())


@dataclass(frozen=True)
class FoundLog:
    """Log found by a search, or the reason why it cannot be used; picklable.

    A log is the recorded motion of one arm.

    Attributes:
        name: name of the file, with the topic or episode if the file contains several logs.
        kind: "bag", "CSV" or "LeRobot"; "folder" for a folder that cannot be opened.
        read: function that reads the log.
        path: path of the bag, file or data set that contains the log.
        problem: reason why the log cannot be used; "" if it can be used.
        facts: summary of the log's content; None if the log cannot be used or was not read yet.
    """

    name: str
    kind: str
    read: Callable[[], Log]
    path: Path
    problem: str = ""
    facts: LogFacts | None = None


def find_logs(path: Path, robot: Robot, mapping: Mapping = None) -> list[FoundLog]:
    """Return all logs (recorded motions of one arm) in a folder or of one file, in the order of their names.

    Args:
        path: path of the folder or file.
        robot: the robot whose joints the logs must have.
        mapping: description of the columns of CSV files, or of the joint states in bags or data sets; or both. Each is
            given as an object, as a dict, or as the path of a file. None means no description.

    Raises:
        InputNotFoundError: the folder or file, or the file of a mapping, does not exist.
        DataError: the folder or file contains no recording, or cannot be read.
        ConfigurationError: the mapping is invalid.
    """
    mappings = mappings_of(mapping)
    try:
        return [with_summary(log) for place in places(path) for log in _logs_of(place, robot, mappings)]
    finally:
        _SEARCHED.clear()


# -- where recordings are --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """Search result: the path of a recording, or of a folder that cannot be opened.

    Attributes:
        kind: kind of the recording, or "folder" if a folder cannot be opened.
        path: path of the recording or folder.
        problem: error that explains why the folder cannot be opened; None for a recording.
    """

    kind: Literal["bag", "CSV", "LeRobot", "folder"]
    path: Path
    problem: DataError | None = None


def places(path: Path) -> list[Place]:
    """Return the recordings at a path or below it, in the order of their names.

    Raises:
        InputNotFoundError: the folder or file does not exist.
        DataError: the folder or file contains no recording, or the path cannot be read.
    """
    try:
        exists = _mode(path) != 0
    except OSError as error:
        raise _unreadable(path, error) from error
    if not exists:
        raise InputNotFoundError(f"no such folder or file: {path}")
    found = list(_look(path, set()))
    if not found:
        raise DataError(f"{path} holds no bag, no CSV file and no LeRobot data set")
    return found


def _look(path: Path, seen: set[tuple[int, int]], deep: int = 0) -> Iterator[Place]:
    """Yield the recordings at a path or below it.

    Args:
        path: file or folder to search.
        seen: device and inode of the folders visited so far; they prevent endless recursion through links.
        deep: number of folder levels from the start of the search to this path.
    """
    try:
        mode = _mode(path)
        if stat.S_ISDIR(mode):
            _mode(path / "metadata.yaml")  # an error where a folder may be listed, but not searched
        if deep > DEEPEST:
            yield Place("folder", path, DataError(f"it is more than {DEEPEST} folders deep"))
        elif is_data_set(path):
            yield Place("LeRobot", path)
        elif is_bag(path):
            yield Place("bag", path)
        elif stat.S_ISREG(mode) and is_csv(path):
            yield Place("CSV", path)
        elif stat.S_ISDIR(mode) and (key := (path.stat().st_dev, path.stat().st_ino)) not in seen:
            seen.add(key)
            for one in sorted(path.iterdir()):
                yield from _look(one, seen, deep + 1)
    except OSError as error:  # no permission, or a path longer than the system takes
        yield Place("folder", path, _unreadable(path, error))


def _mode(path: Path) -> int:
    """Return type and permissions of a file or folder, as `os.stat` has them; 0 if there is none.

    From Python 3.14 on, `Path.exists` and its like are also false for a path that may not be searched.

    Raises:
        OSError: the path may not be searched, or is too long.
    """
    try:
        return path.stat().st_mode
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            raise
        return 0


def _unreadable(path: Path, error: OSError) -> DataError:
    return DataError(f"{cut(str(path), 200)} cannot be read: {error.strerror}")


def is_bag(path: Path) -> bool:
    """Return whether a path is a rosbag2 bag: a data file, or a folder with or without metadata.yaml.

    Without metadata.yaml, a folder is one bag if it contains only the data files of one bag, numbered as rosbag2 does.
    """
    if path.suffix in SUFFIXES or (path / "metadata.yaml").is_file():
        return True
    if not path.is_dir():
        return False
    try:
        below = [one for one in path.iterdir() if not one.name.startswith(".")]
    except OSError:
        return False
    data = [one for one in below if one.suffix in SUFFIXES]
    if not data or any(one.is_dir() or is_csv(one) for one in below):
        return False
    stems = {re.sub(r"_\d+$", "", one.stem) for one in data}
    return len(data) == 1 or (len(stems) == 1 and not any(one.stem in stems for one in data))


def _logs_of(place: Place, robot: Robot, mappings: Mappings) -> Iterator[FoundLog]:
    """Yield the logs (motions of one arm) of one found recording.

    A bag is read completely, to find the arms in it. Other recordings are read later.

    Args:
        place: path and kind of the recording.
        robot: the robot whose joints the logs must have.
        mappings: descriptions of the columns of CSV files and of the topics of bags.
    """
    if place.problem is not None:
        yield _unusable(cut(str(place.path), 200), place.kind, place.path, place.problem)
    elif place.kind == "LeRobot":
        yield from episodes_at(place.path, robot, mappings.bag or BagMapping())
    elif place.kind == "bag":
        yield from _bag(place.path, robot, mappings.bag or BagMapping())
    else:
        yield _csv(place.path, robot, mappings.csv)


@dataclass(frozen=True)
class _Refused:
    error: DynidError

    def __call__(self) -> Log:
        raise self.error


def _unusable(name: str, kind: str, path: Path, error: DynidError) -> FoundLog:
    return FoundLog(name, kind, _Refused(error), path, one_line(str(error)))  # names quoted from a file may have breaks


def with_summary(found: FoundLog) -> FoundLog:
    """Return a found log with a summary of its content added, or with the reason why it cannot be used."""
    if found.problem:
        return found
    try:
        log = found.read()
    except DynidError as error:
        return _unusable(found.name, found.kind, found.path, error)
    return replace(found, facts=LogFacts.of(log))


def undescribed(path: Path, robot: Robot) -> ConfigurationError:
    """Return the error for a CSV file whose columns are not described.

    The message names the command that drafts such a description (mapping).
    """
    named = robot.name if robot.name in known_robots() else robot.folder
    return ConfigurationError(
        f"{path} is a CSV file; describe its columns with --mapping: 'dynid robot mapping {path} --robot {named} --out "
        "mapping.yaml' drafts that file; look at the draft before you use it"
    )


def _csv(path: Path, robot: Robot, mapping: CsvMapping | None) -> FoundLog:
    if mapping is None:
        return _unusable(str(path), "CSV", path, undescribed(path, robot))
    return FoundLog(str(path), "CSV", _CsvFile(path, robot, mapping), path)


@dataclass(frozen=True)
class _CsvFile:
    """Callable that reads the log in a CSV file; picklable."""

    path: Path
    robot: Robot
    mapping: CsvMapping

    def __call__(self) -> Log:
        return read_csv(self.path, self.robot, self.mapping)


_State = tuple[Path, tuple[tuple[str, int, int], ...]]
_SEARCHED: dict[_State, Bag] = {}  # last bag that `find_logs` has read, so that a bag of several logs is read once


def _state(path: Path) -> _State:
    """Return a bag's path, with name, modification time [ns] and size of each of its files, to detect changes."""
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    states = [(one.name, one.stat()) for one in files if one.exists()]
    return path, tuple((name, state.st_mtime_ns, state.st_size) for name, state in states)


def _bag(path: Path, robot: Robot, mapping: BagMapping) -> Iterator[FoundLog]:
    _SEARCHED.clear()  # before the next bag is read, so that only one is in memory
    try:
        state = _state(path)
        bag = _SEARCHED[state] = read_bag(path)
        groups = logs_of(bag, robot, mapping)
        del bag
    except (DynidError, OSError) as error:
        known = error if isinstance(error, DynidError) else _unreadable(path, error)
        yield _unusable(str(path), "bag", path, known)
        return
    for topics in groups:
        yield FoundLog(f"{path}:{'+'.join(topics)}", "bag", _BagTopics(path, topics, robot, mapping), path)


@dataclass(frozen=True)
class _BagTopics:
    """Callable that reads the log (recorded motion) of one arm from a bag; picklable."""

    path: Path
    topics: Topics
    robot: Robot
    mapping: BagMapping

    def __call__(self) -> Log:
        bag = _SEARCHED.get(_state(self.path)) if _SEARCHED else None
        return topic_log(bag or read_bag(self.path), self.topics, self.robot, self.mapping)


def episodes_at(path: Path, robot: Robot, mapping: BagMapping) -> Iterator[FoundLog]:
    """Yield one log for each episode of a LeRobot data set, without reading the episodes.

    A data set or file that cannot be read yields a log that contains the reason.

    Args:
        path: path of the data set.
        robot: the robot that was recorded.
        mapping: description of the joint states in the data set.
    """
    try:
        data = DataSet.open(path)
        files = data.files()
    except DynidError as error:
        yield _unusable(str(path), "LeRobot", path, error)
        return
    for file in files:
        try:
            episodes = episodes_of(file)
        except DynidError as error:
            yield _unusable(str(file), "LeRobot", path, error)
            continue
        for episode in episodes:
            yield FoundLog(data.name(episode), "LeRobot", _Episode(data, file, episode, robot, mapping), path)


@dataclass(frozen=True)
class _Episode:
    """Callable that reads the log (recorded motion) of one episode of a LeRobot data set; picklable."""

    data: DataSet
    file: Path
    episode: int
    robot: Robot
    mapping: BagMapping

    def __call__(self) -> Log:
        return read_episode(self.data, self.file, self.episode, self.robot, self.mapping)
