"""Logs as bags, CSV files and LeRobot data sets, and the output of `dynid logs`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from geared_arms import COUPLING, RATIOS, variant
from typer.testing import CliRunner

from dynid.cli import app
from dynid.errors import ConfigurationError, DataError, InputNotFoundError
from dynid.identification.data import log_search
from dynid.identification.data.log_search import FoundLog, find_logs
from dynid.recording.bag_metadata import Topic
from dynid.recording.bag_reader import Bag, read_bag
from dynid.recording.bag_writer import BagWriter
from dynid.recording.csv_mapping import CsvMapping
from dynid.recording.messages import DYNAMIC_JOINT_STATE, JOINT_STATE, JointStateEncoder, type_store
from dynid.robot import FloatArray, load_robot

ROBOT = load_robot("planar_3r")
START_NS = 1_000_000_000_000


def motion(rate_hz: float = 25.0, seconds: float = 30.0) -> tuple[FloatArray, FloatArray, FloatArray]:
    time = np.arange(0.0, seconds, 1.0 / rate_hz)
    q = 0.8 * np.sin(time[:, None] * [0.9, 1.1, 1.3] + [0.0, 1.0, 2.0])
    return time, q, 3.0 * np.cos(q)


def write(path: Path, streams: dict[str, tuple[tuple[str, ...], FloatArray, FloatArray | None]]) -> Path:
    """A bag with a topic of JointState per stream: names, positions, efforts."""
    writer = BagWriter(path, [Topic(name, JOINT_STATE) for name in streams])
    writer.open()
    time = motion()[0]
    for topic, (names, q, effort) in streams.items():
        fields = ("position",) if effort is None else ("position", "effort")
        encoder = JointStateEncoder(names, fields=fields)
        for k, stamp in enumerate(time.tolist()):
            at = START_NS + round(1e9 * stamp)
            own = {"position": q[k]} | ({} if effort is None else {"effort": effort[k]})
            writer.write(topic, at, encoder.encode(at, **own))
    writer.close()
    return path


def only(folder: Path, **options: Any) -> FoundLog:
    (found,) = find_logs(folder, ROBOT, **options)
    return found


def test_a_bag_of_two_arms_holds_two_logs_with_their_own_goals(tmp_path: Path) -> None:
    _, q, tau = motion()
    swapped, order = ("joint_3", "extra", "joint_1", "joint_2"), [2, 0, 0, 1]
    left = {"/left/joint_states": (swapped, q[:, order], tau[:, order]), "/left/action": (ROBOT.joint_names, q, None)}
    right = {"/right/joint_states": (ROBOT.joint_names, 0.5 * q, None)}
    first, second = find_logs(write(tmp_path / "bag", left | right), ROBOT)
    log = first.read()
    assert np.allclose(log.q, q)
    assert log.tau is not None
    assert np.allclose(log.tau, tau)
    assert log.goal is not None
    assert np.allclose(log.goal, q)
    other = second.read()
    assert np.allclose(other.q, 0.5 * q)
    assert (other.tau, other.goal) == (None, None)


def test_a_bag_of_many_topics_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading the whole bag again for each of 400 topics would take minutes for 2.5 MB."""
    _, q, tau = motion()
    paths = [write(tmp_path / name, {f"/{k}/states": (ROBOT.joint_names, q, tau) for k in range(3)}) for name in "ab"]
    reads: list[Path] = []

    def counted(path: Path) -> Bag:
        reads.append(path)
        return read_bag(path)

    monkeypatch.setattr(log_search, "read_bag", counted)
    found = find_logs(tmp_path, ROBOT)
    assert reads == paths and len(found) == 6 and not any(one.problem for one in found)
    assert not log_search._SEARCHED  # no bag stays in memory
    assert np.allclose(found[4].read().q, q) and len(reads) == 3


def test_a_problem_is_one_line_whatever_a_bag_names(tmp_path: Path) -> None:
    _, q, _ = motion()
    (found,) = find_logs(write(tmp_path / "bag", {"/a\nb": (("x", "y\nz", "w"), q, None)}), ROBOT)
    assert found.problem and "\n" not in found.problem


def test_dynamic_joint_states_of_ros2_control_are_a_log(tmp_path: Path) -> None:
    """As a joint state broadcaster sends them: interfaces in any order, and a sensor that is no joint."""
    time, q, tau = motion()
    store, path = type_store(), tmp_path / "bag"
    writer = BagWriter(path, [Topic("/dynamic_joint_states", DYNAMIC_JOINT_STATE)])
    writer.open()
    whole, value = (store.types[name] for name in (DYNAMIC_JOINT_STATE, "control_msgs/msg/InterfaceValue"))
    header, stamp = (store.types[name] for name in ("std_msgs/msg/Header", "builtin_interfaces/msg/Time"))
    names = [ROBOT.joint_names[2], "wrist_force", *ROBOT.joint_names[:2]]
    for k, seconds in enumerate(time.tolist()):
        at = START_NS + round(1e9 * seconds)
        states = [value(["effort", "position"], np.array([tau[k, j], q[k, j]])) for j in (2, 0, 1)]
        states.insert(1, value(["force.x"], np.array([1.0])))
        message = whole(header(stamp(at // 10**9, at % 10**9), ""), names, states)
        writer.write("/dynamic_joint_states", at, bytes(store.serialize_cdr(message, DYNAMIC_JOINT_STATE)))
    writer.close()
    log = only(path).read()
    assert np.allclose(log.q, q) and log.tau is not None and np.allclose(log.tau, tau)
    other = load_robot("tx40")
    (found,) = find_logs(path, other)
    assert "lacks the joint" in found.problem


def test_efforts_may_be_currents_and_positions_degrees(tmp_path: Path) -> None:
    arm = load_robot("crane_x7")
    time = motion()[0]
    q = np.rad2deg(arm.lower + np.linspace(0.3, 0.6, len(time))[:, None] * (arm.upper - arm.lower))
    current = np.tile(500.0 + 50.0 * np.sin(time)[:, None], (1, arm.size))
    bag = write(tmp_path / "bag", {"/joint_states": (arm.joint_names, q, current)})
    units: dict[str, Any] = {"position": {"unit": "deg"}, "torque": {"unit": "mA"}}
    (found,) = find_logs(bag, arm, units)
    log = found.read()
    assert np.allclose(log.q, np.deg2rad(q))
    assert log.tau is not None
    assert np.allclose(log.tau, 1e-3 * current * arm.torque_constants)
    with pytest.raises(ConfigurationError, match="furlong"):
        find_logs(bag, arm, {"position": {"unit": "furlong"}})[0].read()


def test_bag_of_another_arm_is_distinguished(tmp_path: Path) -> None:
    _, q, _ = motion()
    found = only(write(tmp_path / "bag", {"/joint_states": (("a", "b", "c"), q, None)}))
    assert "joint_1" in found.problem
    with pytest.raises(DataError, match="joint_1"):
        found.read()


def test_a_csv_file_with_uneven_time_steps_is_read(tmp_path: Path) -> None:
    time, q, tau = motion()
    time = time + np.random.default_rng(0).uniform(0.0, 0.02, len(time))
    header = "t,a,b,c,x,y,z"
    np.savetxt(tmp_path / "run.csv", np.c_[time, q, tau], delimiter=",", header=header, comments="")
    mapping = CsvMapping.model_validate(
        {
            "schema_version": 1,
            "time": {"column": "t"},
            "position": {"columns": ["a", "b", "c"], "unit": "rad"},
            "torque": {"columns": ["x", "y", "z"], "unit": "N m"},
        }
    )
    log = only(tmp_path, mapping=mapping).read()
    assert np.allclose(np.diff(log.time), np.diff(time))
    assert np.allclose(log.q, q)
    assert "--mapping" in only(tmp_path).problem


def test_rows_that_a_faster_recorder_repeats_are_left_out(tmp_path: Path) -> None:
    time, q, tau = motion()
    tau = tau + np.random.default_rng(1).normal(0.0, 0.01, tau.shape)
    rate = (len(time) - 1) / (time[-1] - time[0])
    clock = np.arange(time[0], time[-1], 1.0 / (1.04 * rate))
    places = np.searchsorted(time, clock, side="right") - 1
    np.savetxt(
        tmp_path / "run.csv", np.c_[clock, q[places], tau[places]], delimiter=",", header="t,a,b,c,x,y,z", comments=""
    )
    groups = {
        "position": {"columns": ["a", "b", "c"], "unit": "rad"},
        "torque": {"columns": ["x", "y", "z"], "unit": "N m"},
    }
    mapping = CsvMapping.model_validate({"schema_version": 1, "time": {"column": "t"}} | groups)
    log = only(tmp_path, mapping=mapping).read()
    assert len(log.time) == len(np.unique(places)) < len(clock)
    assert "repeat the row before" in log.notes[0] and log.tau is not None
    assert np.allclose(log.tau, tau[np.unique(places)])


def lerobot(
    folder: Path, *, effort: bool = True, columns: int = 3, raw: Callable[[FloatArray], FloatArray] = np.asarray
) -> Path:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    time, q, tau = motion()
    q = q[:, :columns]
    rows: dict[str, Any] = {"timestamp": time.tolist() * 2, "episode_index": [0] * len(time) + [1] * len(time)}
    rows |= {"observation.state": [*raw(q).tolist(), *raw(0.5 * q).tolist()], "action": [*raw(q).tolist()] * 2}
    if effort:
        rows["observation.effort"] = [*tau.tolist()] * 2
    (folder / "meta").mkdir(parents=True)
    (folder / "data" / "chunk-000").mkdir(parents=True)
    names = {"observation.state": {"names": [f"motor_{k}" for k in range(columns)]}}
    (folder / "meta" / "info.json").write_text(json.dumps({"fps": 25, "features": names}), encoding="utf-8")
    parquet.write_table(pyarrow.table(rows), folder / "data" / "chunk-000" / "file-000.parquet")
    return folder


def test_every_episode_of_a_lerobot_data_set_is_a_log(tmp_path: Path) -> None:
    _, q, tau = motion()
    first, second = find_logs(lerobot(tmp_path / "set"), ROBOT)
    assert np.allclose(first.read().q, q)
    log = second.read()
    assert np.allclose(log.q, 0.5 * q)
    assert log.tau is not None
    assert np.allclose(log.tau, tau)
    assert log.goal is not None


def test_a_data_set_of_another_arm_is_refused(tmp_path: Path) -> None:
    found = find_logs(lerobot(tmp_path / "set", columns=2), ROBOT)
    assert all("2 states" in one.problem for one in found)


def renamed(folder: Path, names: list[str]) -> Path:
    content = {"fps": 25, "features": {"observation.state": {"names": names}}}
    (folder / "meta" / "info.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


def test_columns_of_a_data_set_are_ordered_by_name_or_refused(tmp_path: Path) -> None:
    _, q, _ = motion()
    order = [2, 0, 1]
    mine = renamed(lerobot(tmp_path / "mine"), [f"{ROBOT.joint_names[k]}.pos" for k in order])
    assert np.allclose(find_logs(mine, ROBOT)[0].read().q[:, order], q)
    others = (
        ["motor_2", "motor_0", "motor_1"],
        ["waist.pos", "shoulder.pos", "elbow.pos"],
        [ROBOT.joint_names[1], "b", "c"],
    )
    for k, names in enumerate(others):
        found = find_logs(renamed(lerobot(tmp_path / f"other{k}"), names), ROBOT)
        assert all(
            "so states and joints cannot be matched: give the joints these names" in one.problem for one in found
        )


def test_a_data_set_in_degrees_is_refused_whole_by_its_statistics(tmp_path: Path) -> None:
    """One of its episodes moves so little that its degrees could be radians."""
    folder = lerobot(tmp_path / "set")
    stats = {"observation.state": {"min": [-80.0, -1.0, -1.0], "max": [90.0, 1.0, 1.0]}}
    (folder / "meta" / "stats.json").write_text(json.dumps(stats), encoding="utf-8")
    found = find_logs(folder, ROBOT)
    assert all("as a whole (meta/stats.json): joint" in one.problem for one in found)
    assert all("is --position right?" in one.problem for one in found)
    assert not any(one.problem for one in find_logs(folder, ROBOT, {"position": {"unit": "deg"}}))


@pytest.mark.parametrize(
    ("kind", "position", "raw", "problem"),
    [
        ("direct", {"offset": (2.6, 0.0, 0.0)}, lambda q: q - [2.6, 0.0, 0.0], ""),
        ("direct", {"offset": (2.6, 0.0, 0.0)}, lambda q: q, "set as a whole (meta/stats.json): joint"),
        ("direct", {}, lambda q: np.mod(q, 2.0 * np.pi), ""),
        ("geared", {"side": "motor"}, lambda q: q * RATIOS["geared"], ""),
        ("geared", {}, lambda q: q * RATIOS["geared"], "set as a whole (meta/stats.json): joint"),
        (
            "coupled",
            {"side": "motor", "sign": (1, -1, 1)},
            lambda q: q @ np.transpose(COUPLING) * RATIOS["coupled"] * [1, -1, 1],
            "",
        ),
    ],
    ids=("zero", "wrong zero", "wrapped", "gears", "no gears", "coupled"),
)
def test_statistics_of_a_data_set_are_judged_as_joint_positions(
    tmp_path: Path, kind: str, position: dict[str, Any], raw: Callable[[FloatArray], FloatArray], problem: str
) -> None:
    """Neither a joint's zero, nor gears, nor angles from 0 to 360 degrees move a joint beyond its limits."""
    arm = variant(kind, tmp_path)
    folder = lerobot(tmp_path / "set", raw=raw)
    q = motion()[1]
    states = raw(np.vstack([q, 0.5 * q]))
    stats = {"observation.state": {"min": states.min(axis=0).tolist(), "max": states.max(axis=0).tolist()}}
    (folder / "meta" / "stats.json").write_text(json.dumps(stats), encoding="utf-8")
    found = find_logs(folder, arm, {"position": {"unit": "rad"} | position})
    assert all(one.problem.startswith(problem) and bool(one.problem) == bool(problem) for one in found)
    if not problem:
        np.testing.assert_allclose(found[0].read().q, q, atol=1e-9)


@pytest.mark.parametrize("text", ["{", "[1, 2]", '{"features": []}', "\udcff"])
def test_a_broken_info_is_one_sentence_and_other_folders_are_listed(tmp_path: Path, text: str) -> None:
    lerobot(tmp_path / "logs" / "good")
    bad = lerobot(tmp_path / "logs" / "bad")
    (bad / "meta" / "info.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    found = find_logs(tmp_path / "logs", ROBOT)
    assert len(found) == 3 and [bool(one.problem) for one in found] == [True, False, False]
    assert "info.json is" in found[0].problem


def test_a_damaged_parquet_file_is_named(tmp_path: Path) -> None:
    folder = lerobot(tmp_path / "set")
    (folder / "data" / "chunk-000" / "file-000.parquet").write_bytes(b"PAR1")
    assert "file-000.parquet" in only(folder).problem


def test_folders_without_logs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no bag"):
        find_logs(tmp_path, ROBOT)
    with pytest.raises(InputNotFoundError):
        find_logs(tmp_path / "none", ROBOT)


def test_the_command_lists_what_recordings_lack(tmp_path: Path) -> None:
    _, q, tau = motion()
    write(tmp_path / "logs" / "good", {"/joint_states": (ROBOT.joint_names, q, tau)})
    write(tmp_path / "logs" / "plain", {"/joint_states": (ROBOT.joint_names, q, None)})
    words = ["logs", str(tmp_path / "logs"), "--robot", "planar_3r", "--json"]
    listed = json.loads(CliRunner().invoke(app, words).stdout)["logs"]
    assert [row["torques"] for row in listed] == [True, False]
    assert listed[0]["rate_hz"] == pytest.approx(25.0)
    assert "torques" in listed[1]["missing"]
