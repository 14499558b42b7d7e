"""Reader of LeRobot data sets: a folder with `meta/info.json`, in which every episode is a separate log.

The columns read are `observation.state`, `observation.effort` or `.current`, and `action`. No data set says in which
unit its currents are, so the caller has to. Reading parquet files requires pyarrow, `pip install dynid[lerobot]`.
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
from dynid.recording.plausible import refuse_beyond_limits
from dynid.resources import guarded
from dynid.robot import FloatArray, Robot

MOST_EPISODES = 10_000  # maximum number of episodes in a file
EPISODE = "episode_index"
STATE, ACTION, CURRENT = "observation.state", "action", "observation.current"
TORQUES = ("observation.effort", CURRENT)
UNIT_HINT = "are --position and --effort right?"


def is_data_set(path: Path) -> bool:
    """Return whether a folder is a LeRobot data set."""
    return (path / "meta" / "info.json").is_file()


@dataclass(frozen=True)
class DataSet:
    """Folder of a LeRobot data set, with the contents of meta/info.json and meta/stats.json."""

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
        files = sorted((self.path / "data").rglob("*.parquet"))
        if not files:
            raise DataError(f"{self.path} has no parquet file below data")
        return files

    def name(self, episode: int) -> str:
        """Return the name of an episode for messages."""
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

    Raises:
        DataError: the columns do not fit the robot, or hold values that its joints cannot have.
        ConfigurationError: a unit does not fit the robot, or pyarrow is not installed.
    """
    name = data.name(episode)
    with guarded(name, "LeRobot episode"):
        found = read_columns(file, [STATE, ACTION, *TORQUES, "timestamp", EPISODE], (EPISODE, episode))
        if STATE not in found or found[STATE].ndim != 2:
            raise DataError(f"{name} has no column {STATE} of lists")
        order = _order(data.info, robot, mapping.names(robot), found[STATE].shape[1], name)
        conversion = mapping.conversion(robot)
        _refuse_far_data_set(data, order, conversion.position_factors, robot)
        time = found.get("timestamp", np.arange(len(found[STATE])) / float(data.info.get("fps") or 30.0))
        key = next((one for one in TORQUES if one in found), None)
        if key == CURRENT and not conversion.torque_constants:
            raise DataError(f"{name} holds currents without a unit in column {CURRENT}: give --effort A or mA")
        effort = None if key is None else found[key][:, order]
        goal = found[ACTION][:, order] if ACTION in found else None
        rows = measured(name, conversion, time, found[STATE][:, order], effort, goal)
        return joint_log(rows, conversion, UNIT_HINT, mount=mapping.mount, torque_delay_s=mapping.torque_delay_s)


def _meta(path: Path, name: str) -> dict[str, Any]:
    """Return the content of meta/<name>.json of a data set; {} if the file is missing.

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


def _refuse_far_data_set(data: DataSet, order: list[int], factors: FloatArray, robot: Robot) -> None:
    """Raise DataError if a state anywhere in the data set exceeds a joint's limits, which means a wrong unit."""
    of_state = data.stats.get(STATE)
    if not isinstance(of_state, dict):
        return
    try:
        ends = np.array([of_state["min"], of_state["max"]], dtype=np.float64)[:, order] * factors
    except (KeyError, ValueError, TypeError, IndexError):
        return  # statistics in another form are ignored
    refuse_beyond_limits(ends, robot, f"{data.path.name} as a whole (meta/stats.json)", "is --position right?")


def _order(info: dict[str, Any], robot: Robot, joints: tuple[str, ...], columns: int, name: str) -> list[int]:
    """Return the column of each robot joint in a state: by name, or in file order without joint names.

    Raises:
        DataError: the names are neither the joints' names nor numbers, or the number of columns differs.
    """
    names = info.get("features", {}).get(STATE, {}).get("names") or []
    if isinstance(names, dict):
        names = next(iter(names.values()), [])
    plain = [str(one).removesuffix(".pos") for one in names]
    if set(joints) <= set(plain):
        return [plain.index(joint) for joint in joints]
    if columns != robot.size:
        raise DataError(f"{name} has {columns} states; robot '{robot.name}' has {robot.size} joints with other names")
    if plain and not _counted(plain):
        raise DataError(
            f"{name} names its states {cut(', '.join(plain), 300)}; robot '{robot.name}' has "
            f"{', '.join(joints)}, so states and joints cannot be matched: give the joints these names "
            "in robot.yaml, or list them as `joints` in a mapping"
        )
    return list(range(columns))


def _counted(names: list[str]) -> bool:
    """Return whether names consist of one word and consecutive numbers, such as motor_0, motor_1."""
    found = [re.fullmatch(r"(.*?)(\d+)(\D*)", one) for one in names]
    parts = [(one[1], int(one[2]), one[3]) for one in found if one is not None]
    if len(parts) != len(names):
        return False
    first = parts[0]
    return parts == [(first[0], first[1] + k, first[2]) for k in range(len(parts))]
