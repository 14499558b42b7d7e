"""Reader of LeRobot data sets: a folder with `meta/info.json`, in which every episode is a separate log.

The columns read are `observation.state`, `observation.effort` or `.current`, and `action`. LeRobot data sets do not
state the unit of currents, so the caller must state it. If a data set has both efforts and currents, the currents are
read if the stated unit is one of currents, else the efforts. Reading parquet files requires pyarrow, `pip install
dynid[lerobot]`.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dynid.documents import read_json
from dynid.errors import DataError, cut
from dynid.recording.joint_log import joint_log, measured
from dynid.recording.log import Log
from dynid.recording.mapping import BagMapping
from dynid.recording.parquet_columns import read_columns
from dynid.recording.plausible import may_wrap, refuse_beyond_limits
from dynid.recording.quantity import Conversion
from dynid.resources import guarded
from dynid.robot import FloatArray, Robot

MOST_EPISODES = 10_000  # maximum number of episodes in a file
EPISODE = "episode_index"
STATE, ACTION, CURRENT = "observation.state", "action", "observation.current"
TORQUES = ("observation.effort", CURRENT)
SUFFIXES = {  # suffixes that LeRobot and other writers append to a joint's name, by column
    STATE: (".pos",),
    ACTION: (".pos",),
    TORQUES[0]: (".effort", ".torque"),
    CURRENT: (".current", ".effort"),
}
UNIT_HINT = "are --position and --effort right?"


def is_data_set(path: Path) -> bool:
    """Return whether a folder is a LeRobot data set."""
    return (path / "meta" / "info.json").is_file()


@dataclass(frozen=True)
class DataSet:
    """LeRobot data set in a folder.

    Attributes:
        path: path of the folder.
        info: content of meta/info.json.
        stats: content of meta/stats.json.
    """

    path: Path
    info: dict[str, Any]
    stats: dict[str, Any]

    @classmethod
    def open(cls, path: Path) -> "DataSet":
        """Open the data set in a folder.

        Raises:
            DataError: a meta file is not a JSON object, see `read_json`.
        """
        return cls(path, _meta(path, "info"), _meta(path, "stats"))

    def files(self) -> list[Path]:
        """Return the parquet files of the data set; raise DataError if it has none."""
        files = [one for one in sorted((self.path / "data").rglob("*.parquet")) if one.is_file()]
        if not files:
            raise DataError(f"{self.path} has no parquet file below data")
        return files

    def name(self, episode: int) -> str:
        """Return the name of an episode for messages, which includes the data set's name."""
        return f"{self.path.name} episode {episode}"


def episodes_of(file: Path) -> list[int]:
    """Return the episode numbers in a parquet file, in ascending order.

    Raises:
        DataError: the file cannot be read, or has no episodes or more than `MOST_EPISODES`.
    """
    found = np.unique(read_columns(file, [EPISODE], None).get(EPISODE, np.zeros(0)))
    if not len(found) or found.ndim != 1 or not (np.abs(found) < 2**53).all() or (found % 1.0).any():
        raise DataError(f"{file} has no column {EPISODE} of whole numbers")
    if len(found) > MOST_EPISODES:
        raise DataError(f"{file} has {len(found)} episodes, expected at most {MOST_EPISODES}: split it")
    return [int(one) for one in found]


def read_episode(data: DataSet, file: Path, episode: int, robot: Robot, mapping: BagMapping) -> Log:
    """Return one episode of a data set as a log.

    Args:
        data: the data set.
        file: parquet file of the data set that contains the episode.
        episode: number of the episode.
        robot: the recorded robot.
        mapping: joint names, units and mount of the recording.

    Raises:
        DataError: the columns do not fit the robot, or contain values that are impossible for its joints.
        ConfigurationError: a unit does not fit the robot, or pyarrow is not installed.
    """
    name = data.name(episode)
    with guarded(name, "LeRobot episode"):
        found = read_columns(file, [STATE, ACTION, *TORQUES, "timestamp", EPISODE], (EPISODE, episode))
        if STATE not in found or found[STATE].ndim != 2:
            raise DataError(f"{name} has no column {STATE} of lists")
        joints = mapping.names(robot)
        order = _state_order(data.info, robot, joints, found[STATE].shape[1], name)
        conversion = mapping.conversion(robot)
        fps = float(data.info.get("fps") or 30.0)
        _refuse_far_data_set(data, order, conversion, 1.0 / fps)
        time = found.get("timestamp", np.arange(len(found[STATE])) / fps)
        key, notes = _effort_column(found, conversion, name)
        effort, goal = None, None
        if key is not None:
            effort = found[key][:, _own_order(data.info, key, found[key], order, joints, name)]
        if ACTION in found:
            try:
                goal = found[ACTION][:, _own_order(data.info, ACTION, found[ACTION], order, joints, name)]
            except DataError as error:  # for example actions in Cartesian space: the log then lacks goals
                notes.append(f"no goals are read: {error}")
        rows = measured(name, conversion, time, found[STATE][:, order], effort, goal, notes=tuple(notes))
        return joint_log(rows, conversion, UNIT_HINT, mount=mapping.mount, torque_delay_s=mapping.torque_delay_s)


def _effort_column(found: dict[str, FloatArray], conversion: Conversion, name: str) -> tuple[str | None, list[str]]:
    """Return the name of the column with torques or currents, None without one, and a note if there are both columns.

    Of both columns, that of the stated kind of unit is chosen: torques unless the unit is one of currents. A column of
    efforts alone may contain currents, too.

    Args:
        found: columns of the episode by name.
        conversion: conversion of the recorded efforts.
        name: name of the episode, for messages.

    Raises:
        DataError: there is only a column of currents, and no unit of currents is stated.
    """
    given = [one for one in TORQUES if one in found]
    if given == [CURRENT] and not conversion.torque_constants:
        raise DataError(f"{name} holds currents without a unit in column {CURRENT}: give --effort A or mA")
    if len(given) < 2:
        return next(iter(given), None), []
    if conversion.torque_constants:
        return CURRENT, [f"torques are read from {CURRENT}, since their unit is one of currents, not from {TORQUES[0]}"]
    return TORQUES[0], [f"torques are read from {TORQUES[0]}, not from {CURRENT}: --effort A or mA would read that"]


def _meta(path: Path, name: str) -> dict[str, Any]:
    """Read the file meta/<name>.json of the data set in folder `path`; return {} if the file is missing.

    Raises:
        DataError: the file is not a JSON object, see `read_json`.
    """
    file = path / "meta" / f"{name}.json"
    if not file.is_file():
        return {}
    content: dict[str, Any] = read_json(file, DataError)
    features = content.get("features", {}) if isinstance(content, dict) else None  # JSON may be anything
    if not isinstance(features, dict) or not isinstance(features.get(STATE, {}), dict):
        raise DataError(f"{file} is not a LeRobot data set's: expected a JSON object with objects as features")
    return content


def _refuse_far_data_set(data: DataSet, order: list[int], conversion: Conversion, step_s: float) -> None:
    """Raise DataError if the data set's extreme positions exceed a joint's limits; a wrong unit is the usual cause.

    meta/stats.json states the extreme positions of all episodes. They are not the extremes of a joint that several
    motors move, or whose angle may wrap round; such joints are checked in each episode alone.

    Args:
        data: the data set.
        order: index of each robot joint in the column `observation.state`, n of them.
        conversion: conversion of the recorded positions.
        step_s: time between frames [s].
    """
    of_state, robot = data.stats.get(STATE), conversion.robot
    if not isinstance(of_state, dict) or not conversion.positions_separate:
        return
    try:
        ends = np.array([of_state["min"], of_state["max"]], dtype=np.float64)[:, order] * conversion.position_factors
    except (KeyError, ValueError, TypeError, IndexError):
        return  # statistics in another form are ignored
    turning = may_wrap(ends, conversion.speed_limits(), step_s) & ~np.array(robot.prismatic)
    left_out = tuple(name for name, one in zip(robot.joint_names, turning, strict=True) if one)
    at_joints = conversion.joint_positions(ends)
    whole = f"{data.path.name} as a whole (meta/stats.json)"
    refuse_beyond_limits(at_joints, robot, whole, "is --position right?", left_out)


def _names(info: dict[str, Any], key: str) -> list[str]:
    """Return the names of a column's entries, without the suffix that LeRobot appends, such as ".pos".

    The result is [] if the data set names no entries.

    Args:
        info: content of meta/info.json.
        key: name of the column.
    """
    feature = info.get("features", {}).get(key)
    names = (feature.get("names") if isinstance(feature, dict) else None) or []
    if isinstance(names, dict):
        names = next(iter(names.values()), [])
    return [_without_suffix(str(one), SUFFIXES[key]) for one in names]


def _without_suffix(name: str, suffixes: tuple[str, ...]) -> str:
    return next((name.removesuffix(one) for one in suffixes if name.endswith(one)), name)


def _state_order(info: dict[str, Any], robot: Robot, joints: tuple[str, ...], columns: int, name: str) -> list[int]:
    """Return the index of each robot joint among the entries of `observation.state`.

    Joints are identified by name, or by their order if the entries have no names or only numbers, such as motor_0.

    Args:
        info: content of meta/info.json.
        robot: the recorded robot.
        joints: names of the joints in the data set, in the robot's order.
        columns: number of entries of `observation.state`.
        name: name of the episode, for messages.

    Raises:
        DataError: the entries' names are neither the joints' names nor numbered, or the numbers of entries and joints
            differ.
    """
    plain = _names(info, STATE)
    if set(joints) <= set(plain):
        return _places(plain, joints, columns, STATE, name)
    if columns != robot.size:
        raise DataError(f"{name} has {columns} states; robot '{robot.name}' has {robot.size} joints with other names")
    if plain and not _counted(plain):
        raise DataError(
            f"{name} names its states {cut(', '.join(plain), 300)}; robot '{robot.name}' has "
            f"{', '.join(joints)}, so states and joints cannot be matched: give the joints these names "
            "in robot.yaml, or list them as `joints` in a mapping"
        )
    return list(range(columns))


def _own_order(
    info: dict[str, Any], key: str, values: FloatArray, of_state: list[int], joints: tuple[str, ...], name: str
) -> list[int]:
    """Return the index of each robot joint among the entries of a column of efforts, currents or actions.

    Joints are identified by the entry names of this column. If these do not include all joints, the entries are assumed
    to be in the order of `observation.state`.

    Args:
        info: content of meta/info.json.
        key: name of the column.
        values: values of the column, (N, k).
        of_state: index of each joint among the entries of `observation.state`.
        joints: names of the joints in the data set.
        name: name of the episode, for messages.

    Raises:
        DataError: the entry names do not include all joints, and the column does not match `observation.state` in names
            or number of entries.
    """
    plain, of_states, columns = _names(info, key), _names(info, STATE), values.shape[-1] if values.ndim == 2 else 0
    if set(joints) <= set(plain):
        return _places(plain, joints, columns, key, name)
    fit = max(of_state) < columns == (len(of_states) or len(of_state))
    if fit and (not plain or plain == of_states or (_counted(plain) and of_state == list(range(columns)))):
        return of_state
    raise DataError(
        f"{name} has {columns} entries in {key}, named {cut(', '.join(plain), 300) or 'nothing'}; expected the joints "
        f"{', '.join(joints)}, or the names and the number of {STATE}: correct the names in meta/info.json"
    )


def _places(plain: list[str], joints: tuple[str, ...], columns: int, key: str, name: str) -> list[int]:
    """Return the index of each joint among the names of a column's entries.

    Args:
        plain: names of the entries.
        joints: names of the joints.
        columns: number of entries.
        key: name of the column, for messages.
        name: name of the episode, for messages.

    Raises:
        DataError: a joint is named twice, or there are more or fewer names than entries.
    """
    twice = next((one for one in joints if plain.count(one) > 1), None)
    if twice is not None or len(plain) != columns:
        fault = f"{len(plain)} names for {columns} entries" if twice is None else f"two entries named {cut(twice)}"
        raise DataError(f"{name} has {fault} in {key}, expected one name for each: correct meta/info.json")
    return [plain.index(joint) for joint in joints]


def _counted(names: list[str]) -> bool:
    """Return whether names consist of one word and consecutive numbers, such as motor_0, motor_1."""
    found = [re.fullmatch(r"(.*?)(\d+)(\D*)", one) for one in names]
    parts = [(one[1], int(one[2]), one[3]) for one in found if one is not None]
    if len(parts) != len(names):
        return False
    first = parts[0]
    return parts == [(first[0], first[1] + k, first[2]) for k in range(len(parts))]
