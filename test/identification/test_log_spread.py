"""Many logs reduced by several processes, by Dask, and by a run that takes up what another has left."""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

from dynid.cli import app
from dynid.errors import ConfigurationError, DataError, DynidError, InputNotFoundError
from dynid.identification.data.readings import FoundLog, find_logs
from dynid.identification.logs.identify import LogModel, identify_logs
from dynid.identification.logs.spread import kept, spread_over
from dynid.model.dynamics import ArmModel
from dynid.parallel import in_order, in_processes, process_map, watched
from dynid.recording.csv_mapping import CsvMapping
from dynid.robot import load_robot

ROBOT = load_robot("planar_3r")
EPISODES = 30  # more than there are groups
MAPPING: dict[str, Any] = {
    "schema_version": 1,
    "time": {"column": "t"},
    "position": {"columns": ["a", "b", "c"], "unit": "rad"},
    "torque": {"columns": ["x", "y", "z"], "unit": "N m"},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Episodes of an arm without friction, whose torques the regressor gives."""
    found, model = tmp_path_factory.mktemp("episodes"), ArmModel.of(ROBOT)
    random = np.random.default_rng(3)
    truth = np.where(
        [name.startswith(("FV", "FC")) for name in model.names], 0.1, 1.0 + random.random(len(model.names))
    )
    for k in range(EPISODES):
        time, phase = np.arange(0.0, 12.0, 0.04), random.uniform(0.0, 6.0, 3)
        omega, size = random.uniform(0.8, 2.2, 3), random.uniform(0.4, 0.9, 3)
        angle = time[:, None] * omega + phase
        q, dq, ddq = size * np.sin(angle), size * omega * np.cos(angle), -size * omega**2 * np.sin(angle)
        tau = (model.regressor(q, dq, ddq) @ truth).reshape(q.shape) + 0.01 * random.standard_normal(q.shape)
        rows = found / f"episode_{k:02d}.csv"
        np.savetxt(rows, np.c_[time, q, tau], delimiter=",", header="t,a,b,c,x,y,z", comments="")
    return found


@pytest.fixture(scope="module")
def logs(folder: Path) -> list[FoundLog]:
    return find_logs(folder, ROBOT, CsvMapping.model_validate(MAPPING))


@pytest.fixture(scope="module")
def alone(logs: list[FoundLog]) -> LogModel:
    return identify_logs(ROBOT, logs)


def same(one: LogModel, other: LogModel) -> bool:
    pairs = ((one.fit.point.phi, other.fit.point.phi), (one.base.values, other.base.values))
    return one.fit.rounds == other.fit.rounds and all(np.allclose(a, b, rtol=1e-9, atol=1e-12) for a, b in pairs)


@pytest.mark.slow
def test_two_processes_give_the_result_of_one(folder: Path, alone: LogModel) -> None:
    with process_map(2) as spread:
        logs = find_logs(folder, ROBOT, CsvMapping.model_validate(MAPPING), spread)
        assert same(identify_logs(ROBOT, logs, mapper=spread), alone)


@pytest.mark.slow
def test_a_local_dask_cluster_gives_the_result_of_one(logs: list[FoundLog], alone: LogModel) -> None:
    pytest.importorskip("distributed")
    with spread_over(2, "local") as spread:
        assert same(identify_logs(ROBOT, logs, mapper=spread), alone)


def test_a_cluster_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dynid.identification.logs.spread.CONNECT_S", 1)
    try:
        import distributed  # noqa: F401
    except ImportError:
        with pytest.raises(ConfigurationError, match=r"dynid\[dask\]"), spread_over(dask="tcp://127.0.0.1:9"):
            pass
        return
    with pytest.raises(InputNotFoundError, match=r"127\.0\.0\.1:9"), spread_over(dask="tcp://127.0.0.1:9"):
        pass


class Counted:
    """A map that counts what it is given, and gives up after so many pieces."""

    def __init__(self, most: float = float("inf")) -> None:
        self.count, self._most = 0, most

    def __call__(self, work: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        for item in items:
            if self.count >= self._most:
                raise KeyboardInterrupt
            self.count += 1
            yield work(item)


@pytest.mark.slow
def test_an_interrupted_run_continues_where_it_was(tmp_path: Path, logs: list[FoundLog], alone: LogModel) -> None:
    whole = Counted()
    assert same(identify_logs(ROBOT, logs, mapper=kept(whole, tmp_path / "whole")), alone)
    first, second, third = Counted(whole.count // 2), Counted(), Counted()
    with pytest.raises(KeyboardInterrupt):
        identify_logs(ROBOT, logs, mapper=kept(first, tmp_path / "work"))
    assert same(identify_logs(ROBOT, logs, mapper=kept(second, tmp_path / "work")), alone)
    assert first.count + second.count == whole.count
    assert same(identify_logs(ROBOT, logs, mapper=kept(third, tmp_path / "work")), alone)
    assert third.count == 0


@pytest.mark.slow
def test_work_on_other_logs_or_by_another_model_is_not_taken_up(tmp_path: Path, logs: list[FoundLog]) -> None:
    work = tmp_path / "work"
    identify_logs(ROBOT, logs, mapper=kept(map, work))
    other = Counted()
    identify_logs(ROBOT, logs[1:], mapper=kept(other, work))
    assert other.count > 0
    hanging = Counted()
    identify_logs(ROBOT, logs, mount=_other_mount(), mapper=kept(hanging, work))
    assert hanging.count > 0


def _other_mount() -> str:
    return next(name for name in ROBOT.file.mounts_gravity_m_s2 if name != ROBOT.file.default_mount)


@pytest.mark.slow
def test_kept_work_that_is_damaged_is_named(tmp_path: Path, logs: list[FoundLog]) -> None:
    work = tmp_path / "work"
    identify_logs(ROBOT, logs, mapper=kept(map, work))
    whole = {file: file.read_bytes() for file in work.glob("*.npz")}
    for damage in (lambda data: b"cut off", lambda data: data[: len(data) // 2], lambda data: b""):
        for file, data in whole.items():
            file.write_bytes(damage(data))
        with pytest.raises(DataError, match=r"\.npz .*remove it"):
            identify_logs(ROBOT, logs, mapper=kept(map, work))


def test_readings_that_do_not_say_what_they_read_cannot_be_kept(tmp_path: Path, logs: list[FoundLog]) -> None:
    with pytest.raises(ConfigurationError, match="cannot be kept"):
        identify_logs(ROBOT, [one.read for one in logs], mapper=kept(map, tmp_path / "work"))


def test_a_log_that_changes_meanwhile_is_refused(tmp_path: Path, folder: Path) -> None:
    path = tmp_path / "episode.csv"
    path.write_bytes((folder / "episode_00.csv").read_bytes())
    (log,) = find_logs(path, ROBOT, CsvMapping.model_validate(MAPPING))
    log()
    path.write_bytes((folder / "episode_01.csv").read_bytes())
    with pytest.raises(DataError, match="changed"):
        log()


class Finished:
    def __init__(self, value: int) -> None:
        self.value = value

    def result(self) -> int:
        return self.value


def test_results_come_in_order_and_few_are_under_way() -> None:
    begun: list[int] = []

    def submit(item: int) -> Finished:
        begun.append(item)
        return Finished(item)

    taken = in_order(submit, iter(range(100)), 8)
    assert [next(taken) for _ in range(3)] == [0, 1, 2] and len(begun) == 10
    assert list(taken) == list(range(3, 100))


def test_a_process_that_ends_is_named() -> None:
    with pytest.raises(DynidError, match="has ended"), process_map(2) as spread:
        list(spread(os._exit, [1]))
    with pytest.raises(DynidError, match="use fewer processes"):
        list(in_processes(os._exit, [1, 2], 2))


def test_a_pool_that_broke_takes_no_more_work() -> None:
    with process_map(2) as spread:
        with pytest.raises(DynidError, match="has ended"):
            list(spread(os._exit, [1]))
        with pytest.raises(DynidError, match="has ended"):
            list(spread(abs, [1]))


def test_a_log_that_was_not_looked_into_cannot_be_kept(tmp_path: Path, logs: list[FoundLog]) -> None:
    blank = [replace(one, digest="") for one in logs]
    with pytest.raises(ConfigurationError, match="cannot be kept"):
        identify_logs(ROBOT, blank, mapper=kept(map, tmp_path / "work"))


def test_one_long_log_is_cut_for_its_deviations(logs: list[FoundLog]) -> None:
    """Read from a file or in memory: blocks of time are what deviations rest on."""
    (read, here) = (identify_logs(ROBOT, [one]) for one in (logs[0].read, logs[0].read()))
    assert np.allclose(read.fit.deviations, here.fit.deviations, rtol=1e-6)


def test_progress_is_said_four_times_a_round() -> None:
    said: list[str] = []
    spread = watched(map, said.append)
    assert list(spread(lambda x: x + 1, range(8))) == list(range(1, 9))
    assert said == [f"round 1: {k} of 8 pieces" for k in (2, 4, 6, 8)]


@pytest.mark.slow
def test_the_command_spreads_and_keeps(tmp_path: Path, folder: Path, alone: LogModel) -> None:
    mapping, work = tmp_path / "mapping.yaml", tmp_path / "work"
    mapping.write_text(yaml.safe_dump(MAPPING), encoding="utf-8")
    words = ["logs", str(folder), "--robot", "planar_3r", "--mapping", str(mapping), "--identify", "--json"]
    done = CliRunner().invoke(app, [*words, "--processes", "2", "--keep", str(work)])
    assert done.exit_code == 0, done.output
    content = json.loads(done.stdout)
    assert len(content["logs"]) == EPISODES and any(work.glob("*.npz"))
    values = [row["value"] for row in content["model"]["parameters"]]
    assert np.allclose(values, alone.base.values, rtol=1e-9, atol=1e-12)
    refused = CliRunner().invoke(app, [*words, "--processes", "2", "--dask", "tcp://127.0.0.1:9"])
    assert refused.exit_code == 2 and "--processes" in refused.output
    listed = CliRunner().invoke(app, ["logs", str(folder), "--keep", str(work)])
    assert listed.exit_code == 2 and "--identify" in listed.output
