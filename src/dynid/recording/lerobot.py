"""Writer of two-arm sessions as a LeRobot data set, format v3.0 (huggingface/lerobot): parquet files and metadata.

The follower arm's motion is the observation, the leader arm's motion is the action. Joint torques and external torques
are additional columns, needed by a policy that must reproduce contact forces. All values are in SI units; there are no
cameras. Writing requires pyarrow, `pip install dynid[lerobot]`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dynid.errors import ConfigurationError, DataError
from dynid.resources import whole_folder
from dynid.robot import FloatArray

VERSION = "v3.0"
FILE = "chunk-000/file-000.parquet"
PATTERN = "chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
VECTORS = {  # suffix that LeRobot appends to a joint's name, by column
    "observation.state": "pos",
    "observation.velocity": "vel",
    "observation.effort": "effort",
    "observation.external_torque": "external",
    "action": "pos",
    "action.effort": "effort",
    "action.external_torque": "external",
}
INDICES = ("frame_index", "episode_index", "index", "task_index")
QUANTILES = {"q01": 0.01, "q10": 0.1, "q50": 0.5, "q90": 0.9, "q99": 0.99}


@dataclass(frozen=True, eq=False)
class Episode:
    """One demonstration of a task.

    Attributes:
        task: description of the task, in a few words.
        time_s: increasing times, (N,) [s].
        columns: arrays by column name, a subset of `VECTORS`, (N, n) each [rad, rad/s, N m].
    """

    task: str
    time_s: FloatArray
    columns: Mapping[str, FloatArray]

    def frames(self, fps: int) -> dict[str, FloatArray]:
        """Interpolate the columns linearly at `fps` frames per second, starting at the first time.

        Returns:
            The columns (M, n) by name, and "timestamp", the times of the frames since the first one, (M,) [s].

        Raises:
            DataError: a column is unknown or has a wrong shape, times do not increase, or there are fewer than two
                frames.
        """
        for name, values in self.columns.items():
            if name not in VECTORS or values.shape != (len(self.time_s), values.shape[-1]):
                raise DataError(
                    f"column {name} has shape {values.shape}; expected one of {', '.join(VECTORS)} with "
                    f"{len(self.time_s)} rows"
                )
        if not (np.diff(self.time_s) > 0.0).all():
            raise DataError("the times of an episode do not rise")
        count = int((self.time_s[-1] - self.time_s[0]) * fps + 1e-6) + 1 if len(self.time_s) else 0
        if count < 2:
            raise DataError(f"an episode has {count} frames at {fps} per second; expected at least 2")
        stamps = np.arange(count) / fps
        found = {
            name: np.column_stack([np.interp(self.time_s[0] + stamps, self.time_s, one) for one in values.T])
            for name, values in self.columns.items()
        }
        return found | {"timestamp": stamps}


def write_lerobot(folder: Path, episodes: Sequence[Episode], joints: Sequence[str], robot: str, fps: int = 50) -> None:
    """Write episodes as a LeRobot data set.

    Args:
        folder: folder of the data set; it must not exist yet.
        episodes: demonstrations, all with the same columns.
        joints: names of the n joints, in the columns' order.
        robot: kind of robot, for LeRobot's `robot_type`.
        fps: frames per second.

    Raises:
        ConfigurationError: pyarrow is not installed.
        DataError: there are no episodes, their columns differ, or one is invalid, see `Episode.frames`.
        OutputExistsError: the folder exists.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise ConfigurationError("LeRobot data sets need pyarrow: pip install 'dynid[lerobot]'") from error
    vectors = tuple(episodes[0].columns) if episodes else ()
    if not vectors or any(tuple(one.columns) != vectors for one in episodes):
        raise DataError("a data set takes episodes that all have the same columns")
    tasks = list(dict.fromkeys(one.task for one in episodes))
    parts, first = [], 0
    for number, episode in enumerate(episodes):
        parts.append(_rows(episode, number, tasks.index(episode.task), first, fps))
        first += len(parts[-1]["timestamp"])
    whole = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    if any(whole[name].shape[1] != len(joints) for name in vectors):
        raise DataError(f"the columns have {whole[vectors[0]].shape[1]} joints; expected {len(joints)}")
    with whole_folder(folder) as made:
        for name in ("data/chunk-000", "meta/episodes/chunk-000"):
            (made / name).mkdir(parents=True)
        arrays = {name: _arrow(pyarrow, values) for name, values in whole.items()}
        with parquet.ParquetWriter(made / "data" / FILE, pyarrow.table(arrays).schema) as writer:
            for part in parts:  # one row group per episode, as LeRobot writes them
                writer.write_table(pyarrow.table({name: _arrow(pyarrow, values) for name, values in part.items()}))
        parquet.write_table(_episodes(pyarrow, parts, tasks), made / "meta/episodes" / FILE)
        parquet.write_table(_tasks(pyarrow, tasks), made / "meta/tasks.parquet")
        info = _info(whole, joints, robot, fps, len(episodes), len(tasks))
        for name, content in (("info", info), ("stats", {key: _stats(values) for key, values in whole.items()})):
            (made / "meta" / f"{name}.json").write_text(json.dumps(content, indent=4), encoding="utf-8")


def _rows(episode: Episode, number: int, task: int, first: int, fps: int) -> dict[str, Any]:
    """Return all columns of an episode in the number types that LeRobot uses, by column name.

    Args:
        episode: the episode.
        number: index of the episode in the data set.
        task: index of the episode's task in the data set.
        first: index of the episode's first frame in the data set.
        fps: frames per second.
    """
    frames = {name: values.astype(np.float32) for name, values in episode.frames(fps).items()}
    count = np.arange(len(frames["timestamp"]), dtype=np.int64)
    own = (count, np.full_like(count, number), count + first, np.full_like(count, task))
    return frames | dict(zip(INDICES, own, strict=True))


def _arrow(pyarrow: Any, values: Any) -> Any:
    if values.ndim == 1:
        return pyarrow.array(values)
    return pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(values.ravel()), values.shape[1])


def _info(whole: Mapping[str, Any], joints: Sequence[str], robot: str, fps: int, episodes: int, tasks: int) -> Any:
    """Return the content of meta/info.json, which describes a LeRobot data set.

    Args:
        whole: columns of all episodes together, by name.
        joints: names of the n joints.
        robot: kind of robot.
        fps: frames per second.
        episodes: number of episodes.
        tasks: number of different tasks.
    """
    features: dict[str, Any] = {}
    for name, values in whole.items():
        names = [f"{joint}.{VECTORS[name]}" for joint in joints] if name in VECTORS else None
        features[name] = {"dtype": str(values.dtype), "shape": list(values.shape[1:]) or [1], "names": names}
    return {
        "codebase_version": VERSION,
        "robot_type": robot,
        "total_episodes": episodes,
        "total_frames": len(whole["timestamp"]),
        "total_tasks": tasks,
        "chunks_size": 1000,
        "data_files_size_in_mb": 100,
        "video_files_size_in_mb": 200,
        "fps": fps,
        "splits": {"train": f"0:{episodes}"},
        "data_path": f"data/{PATTERN}",
        "video_path": None,
        "features": features,
    }


def _stats(values: Any) -> dict[str, list[float]]:
    """Return the statistics of a column (N,) or (N, n), in the form of meta/stats.json."""
    rows = np.asarray(values, dtype=np.float64).reshape(len(values), -1)
    found = {"min": rows.min(axis=0), "max": rows.max(axis=0), "mean": rows.mean(axis=0), "std": rows.std(axis=0)}
    found |= {name: np.quantile(rows, level, axis=0) for name, level in QUANTILES.items()}
    return {name: value.tolist() for name, value in found.items()} | {"count": [len(rows)]}


def _episodes(pyarrow: Any, parts: Sequence[Mapping[str, Any]], tasks: Sequence[str]) -> Any:
    """Return the table of meta/episodes, with one row per episode.

    Args:
        pyarrow: the module pyarrow.
        parts: columns of each episode, by name.
        tasks: descriptions of all tasks of the data set.
    """
    rows = []
    for number, part in enumerate(parts):
        row: dict[str, Any] = {
            "episode_index": number,
            "tasks": [tasks[int(part["task_index"][0])]],
            "length": len(part["index"]),
            "data/chunk_index": 0,
            "data/file_index": 0,
            "dataset_from_index": int(part["index"][0]),
            "dataset_to_index": int(part["index"][-1]) + 1,
            "meta/episodes/chunk_index": 0,
            "meta/episodes/file_index": 0,
        }
        for name, values in part.items():
            row |= {f"stats/{name}/{kind}": value for kind, value in _stats(values).items()}
        rows.append(row)
    return pyarrow.Table.from_pylist(rows)


def _tasks(pyarrow: Any, tasks: Sequence[str]) -> Any:
    """Return the table of meta/tasks.parquet, with the metadata that pandas needs to restore the index."""
    kinds = (("task_index", "int64", "int64"), ("task", "unicode", "object"))
    columns = [
        {"name": name, "field_name": name, "pandas_type": kind, "numpy_type": numpy, "metadata": None}
        for name, kind, numpy in kinds
    ]
    pandas = {"index_columns": ["task"], "column_indexes": [], "columns": columns, "pandas_version": "2.0.0"}
    table = pyarrow.table({"task_index": pyarrow.array(range(len(tasks)), pyarrow.int64()), "task": list(tasks)})
    return table.replace_schema_metadata({"pandas": json.dumps(pandas)})
