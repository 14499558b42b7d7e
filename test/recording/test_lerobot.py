"""LeRobot data sets: written ones are read back by the reader of logs and by a reader of the published format."""

import json
import os

import numpy as np
import pytest

from dynid.errors import DataError, OutputExistsError
from dynid.identification.data.log_search import find_logs
from dynid.recording import parquet_columns
from dynid.recording.lerobot import Episode, write_lerobot
from dynid.robot import load_robot

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
ROBOT = load_robot("crane_x7")


def episode(task="press the wall", *, rows=1001, scale=1.0):
    time = 5.0 + 0.001 * np.arange(rows)
    middle, half = 0.5 * (ROBOT.upper + ROBOT.lower), 0.5 * (ROBOT.upper - ROBOT.lower)
    q = middle + scale * half * np.sin(np.outer(time, np.arange(1, ROBOT.size + 1)))
    columns = {"observation.state": q, "observation.effort": 2 * q, "observation.external_torque": 3 * q, "action": -q}
    return Episode(task, time, columns)


def test_a_written_data_set_is_read_back_by_the_reader_of_logs(tmp_path):
    episodes = [episode(), episode("release", rows=501, scale=0.5)]
    write_lerobot(tmp_path / "set", episodes, ROBOT.joint_names, ROBOT.name, fps=50)
    first, second = (one.read() for one in find_logs(tmp_path / "set", ROBOT))
    assert (len(first.time), len(second.time)) == (51, 26)
    np.testing.assert_allclose(first.time, np.arange(51) / 50, atol=1e-6)
    np.testing.assert_allclose(first.q, episodes[0].columns["observation.state"][::20], atol=1e-6)
    np.testing.assert_allclose(second.tau, episodes[1].columns["observation.effort"][::20], atol=1e-6)
    np.testing.assert_allclose(second.goal, episodes[1].columns["action"][::20], atol=1e-6)
    with pytest.raises(OutputExistsError):
        write_lerobot(tmp_path / "set", episodes, ROBOT.joint_names, ROBOT.name)


def data_set(folder, columns, names, rows=60, episodes=1):
    """A data set of another writer: the given columns (N, n) of CRANE-X7, with the given names of their entries."""
    (folder / "meta").mkdir(parents=True)
    (folder / "data").mkdir()
    features = {key: {"names": value} for key, value in names.items()}
    (folder / "meta" / "info.json").write_text(json.dumps({"fps": 30, "features": features}))
    count = len(next(iter(columns.values())))
    table = {"timestamp": np.arange(count) / 30.0, "episode_index": np.arange(count) * episodes // count}
    table |= {key: values.tolist() for key, values in columns.items()}
    parquet.write_table(pyarrow.table(table), folder / "data" / "file.parquet")
    return folder


def test_currents_need_a_unit(tmp_path):
    """A data set does not say whether its currents are in A or in mA; none of them is a torque."""
    columns = episode(scale=0.3, rows=60).columns
    own = {"observation.state": columns["observation.state"], "observation.current": columns["observation.effort"]}
    folder = data_set(tmp_path / "set", own, {"observation.state": ROBOT.joint_names})
    for mapping in (None, {"torque": {"unit": "N m"}}, {"torque": {"unit": "kg cm"}}):
        (found,) = find_logs(folder, ROBOT, mapping)
        assert "holds currents without a unit in column observation.current: give --effort A or mA" in found.problem
    (found,) = find_logs(folder, ROBOT, {"torque": {"unit": "A"}})
    constants = ROBOT.joint_constants
    np.testing.assert_allclose(found.read().tau, own["observation.current"] * constants, atol=1e-6)


def test_of_efforts_and_currents_the_stated_unit_chooses(tmp_path):
    columns = episode(scale=0.3, rows=60).columns
    torques = columns["observation.effort"]
    own = {"observation.state": columns["observation.state"], "observation.effort": torques}
    own["observation.current"] = 1000.0 * torques / ROBOT.joint_constants
    folder = data_set(tmp_path / "set", own, {"observation.state": ROBOT.joint_names})
    for mapping, read, left in ((None, "effort", "current"), ({"torque": {"unit": "mA"}}, "current", "effort")):
        (found,) = find_logs(folder, ROBOT, mapping)
        log = found.read()
        np.testing.assert_allclose(log.tau, torques, atol=1e-6)
        (note,) = (one for one in log.notes if "torques are read from" in one)
        assert f"from observation.{read}," in note and f"not from observation.{left}" in note


def test_every_column_is_ordered_by_its_own_names(tmp_path):
    """Efforts and actions may list the joints in another order than the states do."""
    columns = {key: value for key, value in episode(scale=0.3, rows=60).columns.items() if "external" not in key}
    turned = {key: value[:, ::-1] if key != "observation.state" else value for key, value in columns.items()}
    names = {
        "observation.state": [f"{one}.pos" for one in ROBOT.joint_names],
        "observation.effort": [f"{one}.effort" for one in ROBOT.joint_names[::-1]],
        "action": ROBOT.joint_names[::-1],
    }
    (found,) = find_logs(data_set(tmp_path / "named", turned, names), ROBOT)
    np.testing.assert_allclose(found.read().tau, columns["observation.effort"], atol=1e-6)
    np.testing.assert_allclose(found.read().goal, columns["action"], atol=1e-6)
    back = {key: value[:, ::-1] for key, value in columns.items()}  # without own names, in the order of the states
    (found,) = find_logs(data_set(tmp_path / "one", back, {"observation.state": ROBOT.joint_names[::-1]}), ROBOT)
    np.testing.assert_allclose(found.read().tau, columns["observation.effort"], atol=1e-6)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["a", "b", "c", "d", "e", "f", "g", "h"], "named a, b, c, d, e, f, g, h; expected the joints"),
        ([*ROBOT.joint_names, "more"], "9 names for 8 entries in observation.effort"),
        ([*ROBOT.joint_names[:-1], ROBOT.joint_names[0], ROBOT.joint_names[-1]], "two entries named"),
    ],
)
def test_efforts_of_other_names_are_refused(tmp_path, names, words):
    columns = episode(scale=0.3, rows=60).columns
    own = {key: columns[key] for key in ("observation.state", "observation.effort")}
    named = {"observation.state": ROBOT.joint_names, "observation.effort": names}
    (found,) = find_logs(data_set(tmp_path / "set", own, named), ROBOT)
    assert words in found.problem and "\n" not in found.problem


def test_actions_that_are_no_goals_of_the_joints_are_left_out_and_noted(tmp_path):
    columns = episode(scale=0.3, rows=60).columns
    own = {key: columns[key] for key in ("observation.state", "observation.effort")} | {"action": np.ones((60, 3))}
    named = {"observation.state": ROBOT.joint_names, "action": ["dx", "dy", "dz"]}
    (found,) = find_logs(data_set(tmp_path / "set", own, named), ROBOT)
    log = found.read()
    assert log.goal is None and "no goals are read: set episode 0 has 3 entries in action, named dx" in log.notes[0]


@pytest.mark.slow
def test_a_row_group_of_many_episodes_is_read_once(tmp_path, monkeypatch):
    """Reading it anew for each of 500 episodes would take minutes."""
    columns = episode(scale=0.3, rows=6000).columns
    own = {key: columns[key] for key in ("observation.state", "observation.effort")}
    names = {"observation.state": ROBOT.joint_names}
    folder = data_set(tmp_path / "set", own, names, episodes=100)
    read = []
    batches = parquet_columns._batches
    monkeypatch.setattr(parquet_columns, "_batches", lambda *given: read.append(given[3]) or batches(*given))
    logs = find_logs(folder, ROBOT)
    assert len(logs) == 100 and not any(one.problem for one in logs)
    assert len(read) == 2  # the numbers of the episodes, and then all columns
    for k in (0, 57, 99):
        np.testing.assert_allclose(logs[k].read().tau, own["observation.effort"][60 * k : 60 * k + 60], atol=1e-6)
    monkeypatch.setattr(parquet_columns, "MOST_KEPT", 1000)
    np.testing.assert_allclose(logs[57].read().tau, own["observation.effort"][57 * 60 : 58 * 60], atol=1e-6)
    assert len(read) == 3
    other = data_set(
        tmp_path / "other", {**own, "observation.effort": 2 * own["observation.effort"]}, names, episodes=100
    )
    monkeypatch.setattr(parquet_columns, "MOST_KEPT", 10**7)
    logs[0].read()
    (other / "data" / "file.parquet").replace(folder / "data" / "file.parquet")
    np.testing.assert_allclose(logs[0].read().tau, 2 * own["observation.effort"][:60], atol=1e-6)


def test_pipes_in_place_of_files_are_left_alone(tmp_path):
    """Opening a pipe would wait for ever."""
    columns = episode(scale=0.3, rows=60).columns
    names = {"observation.state": ROBOT.joint_names}
    folder = data_set(tmp_path / "set", {"observation.state": columns["observation.state"]}, names)
    os.mkfifo(folder / "data" / "a.parquet")
    assert len(find_logs(folder, ROBOT)) == 1


def test_a_written_data_set_has_the_format_of_version_3(tmp_path):
    folder = tmp_path / "set"
    write_lerobot(folder, [episode(), episode("release"), episode()], ROBOT.joint_names, ROBOT.name, fps=50)
    info = json.loads((folder / "meta/info.json").read_text())
    assert info["codebase_version"] == "v3.0" and info["total_episodes"] == 3 and info["total_frames"] == 153
    data = folder / info["data_path"].format(chunk_index=0, file_index=0)
    table = parquet.read_table(data)
    assert parquet.read_metadata(data).num_row_groups == 3
    assert set(table.column_names) == set(info["features"])
    for name, feature in info["features"].items():
        kind = table.schema.field(name).type
        if feature["shape"] == [1]:
            assert str(kind) == {"float32": "float"}.get(feature["dtype"], feature["dtype"])
        else:
            assert kind.list_size == feature["shape"][0] == len(feature["names"]) and str(kind.value_type) == "float"
    assert table["index"].to_pylist() == list(range(153))
    assert table["frame_index"].to_pylist()[49:53] == [49, 50, 0, 1]
    assert table["task_index"].to_pylist()[::51] == [0, 1, 0]
    rows = parquet.read_table(folder / "meta/episodes/chunk-000/file-000.parquet").to_pylist()
    assert [(one["dataset_from_index"], one["dataset_to_index"]) for one in rows] == [(0, 51), (51, 102), (102, 153)]
    assert [one["tasks"] for one in rows] == [["press the wall"], ["release"], ["press the wall"]]
    stats = json.loads((folder / "meta/stats.json").read_text())
    state = np.array(table["observation.state"].to_pylist())
    np.testing.assert_allclose(stats["observation.state"]["mean"], state.mean(axis=0), atol=1e-6)
    assert set(stats) == set(info["features"]) and stats["action"]["count"] == [153]
    tasks = parquet.read_table(folder / "meta/tasks.parquet")
    assert json.loads(tasks.schema.metadata[b"pandas"])["index_columns"] == ["task"]
    assert tasks.to_pylist()[1] == {"task_index": 1, "task": "release"}


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        (Episode("x", np.array([0.0, 0.0, 1.0]), {"action": np.zeros((3, 8))}), "do not rise"),
        (Episode("x", np.array([0.0, 0.01]), {"action": np.zeros((2, 8))}), "1 frames"),
        (Episode("x", np.array([0.0, 1.0]), {"action": np.zeros((3, 8))}), "2 rows"),
        (Episode("x", np.array([0.0, 1.0]), {"camera": np.zeros((2, 8))}), "column camera"),
        (Episode("x", np.array([0.0, 1.0]), {"action": np.zeros((2, 3))}), "3 joints; expected 8"),
    ],
)
def test_episodes_that_do_not_fit_are_refused(tmp_path, wrong, match):
    with pytest.raises(DataError, match=match):
        write_lerobot(tmp_path / "set", [wrong], ROBOT.joint_names, ROBOT.name)
    assert not (tmp_path / "set").exists()
    with pytest.raises(DataError, match="same columns"):
        write_lerobot(tmp_path / "set", [], ROBOT.joint_names, ROBOT.name)


def test_a_written_data_set_is_read_by_lerobot(tmp_path, monkeypatch):
    """If LeRobot is installed, its reader gives the frames, tasks, time windows and statistics."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    datasets = pytest.importorskip("lerobot.datasets.lerobot_dataset")
    episodes = [episode(), episode("release", rows=501, scale=0.5)]
    write_lerobot(tmp_path / "set", episodes, ROBOT.joint_names, ROBOT.name, fps=50)
    whole = datasets.LeRobotDataset("local/set", root=tmp_path / "set", delta_timestamps={"action": [0.0, 0.02]})
    assert (len(whole), whole.num_episodes, whole.fps) == (77, 2, 50)
    frame = whole[60]
    assert frame["task"] == "release" and int(frame["frame_index"]) == 9 and frame["action"].shape == (2, ROBOT.size)
    expected = episodes[1].columns["observation.effort"][9 * 20]
    np.testing.assert_allclose(frame["observation.effort"].numpy(), expected, atol=1e-6)
    mean = whole.meta.stats["observation.external_torque"]["mean"]
    assert mean.shape == (ROBOT.size,) and np.isfinite(mean).all()
