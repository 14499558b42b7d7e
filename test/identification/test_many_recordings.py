"""More recordings than memory holds: reduced by one process, several, Dask, or a resumed run."""

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

from dynid.cli import app
from dynid.errors import ConfigurationError, DataError, DynidError, InputNotFoundError
from dynid.identification import pipeline, prepared
from dynid.identification.data.arrays import recording_from_arrays
from dynid.identification.data.deferred_signals import SignalsOnDisk
from dynid.identification.data.parts import Span, parts_of
from dynid.identification.data.recordings import Recording, load_recordings
from dynid.identification.many import reduction
from dynid.identification.many.reduction import Task
from dynid.identification.many.spread import LOCAL, spread_over, task_key
from dynid.identification.methods import identify
from dynid.identification.result import Identification
from dynid.identification.settings import load_identification
from dynid.identification.setup import Setup
from dynid.model.dynamics import ArmModel
from dynid.model.standard import load_nominal
from dynid.parallel import in_order, in_processes, process_map, with_progress
from dynid.robot import FloatArray, load_robot

ROBOT = load_robot("planar_3r")
MODEL = ArmModel.of(ROBOT)
EPISODES = 30  # more than there are groups
EPISODE_INSTANTS = 4800
COULOMB_NM, NOISE_NM = 0.1, 0.02
MAPPING: dict[str, Any] = {
    "schema_version": 1,
    "time": {"column": "t"},
    "position": {"columns": ["a", "b", "c"], "unit": "rad"},
    "torque": {"columns": ["x", "y", "z"], "unit": "N m"},
}


def truth() -> FloatArray:
    standard = load_nominal(ROBOT, MODEL.mdh, MODEL.regrouping.standard)
    phi = MODEL.base_parameters(standard).values
    return np.where([name.startswith("FC") for name in MODEL.names], COULOMB_NM, phi)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Episodes at 25 Hz whose torques the regressor gives, with noise."""
    found, random = tmp_path_factory.mktemp("episodes"), np.random.default_rng(3)
    for k in range(EPISODES):
        time, phase = np.arange(0.0, 12.0, 0.04), random.uniform(0.0, 6.0, 3)
        omega, size = random.uniform(0.8, 2.2, 3), random.uniform(0.4, 0.9, 3)
        angle = time[:, None] * omega + phase
        q, dq, ddq = size * np.sin(angle), size * omega * np.cos(angle), -size * omega**2 * np.sin(angle)
        tau = (MODEL.regressor(q, dq, ddq) @ truth()).reshape(q.shape) + NOISE_NM * random.standard_normal(q.shape)
        rows = found / f"episode_{k:02d}.csv"
        np.savetxt(rows, np.c_[time, q, tau], delimiter=",", header="t,a,b,c,x,y,z", comments="")
    return found


@pytest.fixture(autouse=True)
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for the rows of two episodes, and for the instants of eight."""
    limit(monkeypatch)


def limit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(pipeline, "MOST_ROWS", 600)
    for name in ("MOST_INSTANTS", "SAMPLE_INSTANTS"):
        patch.setattr(prepared, name, EPISODE_INSTANTS * 8)


def found_by(folder: Path, **how: Any) -> Identification:
    return identify(ROBOT, [folder], mapping=MAPPING, **how)


@pytest.fixture(scope="module")
def alone(folder: Path) -> Identification:
    with pytest.MonkeyPatch.context() as patch:
        limit(patch)
        return found_by(folder)


def same(one: Identification, other: Identification) -> bool:
    pairs = ((one.estimate.base.values, other.estimate.base.values), (one.base.values, other.base.values))
    return all(np.allclose(a, b, rtol=1e-9, atol=1e-12) for a, b in pairs)


@pytest.mark.slow
def test_all_recordings_count_though_memory_holds_few(
    folder: Path, alone: Identification, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = " ".join(alone.notes)
    assert "rest on all 30 recordings" in said and len(alone.sources) == EPISODES
    assert sum(one.kind == "fitted" for one in alone.motions) < 12
    monkeypatch.setattr(prepared, "MOST_INSTANTS", 10**9)
    whole = found_by(folder)
    deviations = whole.estimate.base.standard_deviations
    assert deviations is not None and alone.estimate.base.standard_deviations is not None
    # the same rows decide, at another linearisation: far closer to each other than chance is to the truth
    assert np.all(np.abs(alone.estimate.base.values - whole.estimate.base.values) < 0.3 * deviations + 1e-9)
    assert np.all(alone.estimate.base.standard_deviations < 4.0 * deviations)
    assert np.all(alone.estimate.base.standard_deviations > 0.5 * deviations)
    assert np.all(np.abs(alone.estimate.base.values - truth()) < 5.0 * alone.estimate.base.standard_deviations)


def test_recordings_beyond_memory_are_read_again(folder: Path) -> None:
    sources = load_recordings([folder], ROBOT, MAPPING, most_rows=600)
    again = [isinstance(one.signals, SignalsOnDisk) for one in sources]
    assert again == [False] * 2 + [True] * (EPISODES - 2)
    settings = load_identification(ROBOT)
    assert len(sources[-1].signals(settings).time) == 300


@pytest.mark.slow
def test_a_recording_too_short_for_rows_is_left_out_and_named(
    folder: Path, tmp_path: Path, alone: Identification
) -> None:
    for file in folder.iterdir():
        (tmp_path / file.name).symlink_to(file)
    lines = (folder / "episode_05.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "short.csv").write_text("".join(lines[:40]), encoding="utf-8")
    found = found_by(tmp_path)
    assert any("1 recordings give no rows: short.csv" in one for one in found.notes)
    assert np.allclose(found.base.values, alone.base.values, rtol=0.05, atol=1e-3)


def test_kept_work_of_other_units_or_of_another_part_is_not_reused() -> None:
    time = np.arange(0.0, 12.0, 0.04)
    q = 0.5 * np.sin(time[:, None] * [1.0, 1.3, 1.7])
    tau = 0.2 + q
    settings, setup = load_identification(ROBOT), Setup.given(ROBOT, ROBOT.file.default_mount)
    first, again, other = (
        recording_from_arrays(ROBOT, time, q, tau, tau_unit=unit, name="x") for unit in ("N m", "N m", "mN m")
    )
    (part,) = parts_of([first], Span(2.0, 6.0))
    fast = recording_from_arrays(ROBOT, time, q, tau, dq=np.cos(time)[:, None] * np.ones(3), tau_unit="N m", name="x")
    assert first.sha256 == other.sha256  # the same numbers

    def key(source: Recording) -> str:
        return task_key(Task((source,), (0,), MODEL, setup, settings, 0.0, None, None))

    assert key(first) == key(again) and len({key(first), key(other), key(part), key(fast)}) == 4


@pytest.mark.slow
def test_no_block_of_a_recording_with_a_faulty_block_counts(
    folder: Path, alone: Identification, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, first = reduction._fitted_blocks, np.loadtxt(folder / "episode_05.csv", delimiter=",", skiprows=1)[0, 1]

    def faulty(signals: Any, task: Any) -> Iterator[Any]:
        yield from whole(signals, task)
        if np.isclose(signals.q[0, 0], first):
            raise DataError("the last block is faulty")

    monkeypatch.setattr(reduction, "_fitted_blocks", faulty)
    found = found_by(folder)
    assert any("1 recordings give no rows: episode_05.csv: the last block is faulty" in one for one in found.notes)
    rows, every = (one.estimate.regression.reduced for one in (found, alone))
    assert rows is not None and every is not None and np.all(rows.rows < 0.98 * every.rows)


@pytest.mark.slow
def test_held_out_recordings_are_not_reduced(folder: Path, alone: Identification) -> None:
    found = found_by(folder, held_out_share=0.4)
    rows, whole = (one.estimate.regression.reduced for one in (found, alone))
    assert rows is not None and whole is not None
    assert np.all(rows.rows < 0.65 * whole.rows) and len(found.validations) > 2


@pytest.mark.slow
def test_an_estimator_that_needs_all_rows_uses_fewer_recordings(folder: Path) -> None:
    settings = load_identification(ROBOT).model_copy(update={"estimator": "huber"})
    found = identify(ROBOT, [folder], mapping=MAPPING, settings=settings)
    assert any(re.match(r"\d+ of 30 recordings are used: the estimator huber", one) for one in found.notes)


@pytest.mark.slow
def test_two_processes_give_the_result_of_one(folder: Path, alone: Identification) -> None:
    assert same(found_by(folder, processes=2), alone)


@pytest.mark.slow
def test_a_local_dask_cluster_gives_the_result_of_one(folder: Path, alone: Identification) -> None:
    assert same(found_by(folder, processes=2, dask=LOCAL), alone)


def test_an_unreachable_dask_cluster_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dynid.identification.many.spread.CONNECT_S", 1)
    with pytest.raises(InputNotFoundError, match=r"127\.0\.0\.1:9"), spread_over(dask="tcp://127.0.0.1:9"):
        pass


def test_where_dask_is_missing_the_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with pytest.raises(ConfigurationError, match=r"dynid\[dask\]"), spread_over(dask=LOCAL):
        pass


class Counted:
    """A map that counts the pieces that it is given, and gives up after so many."""

    def __init__(self, most: float = float("inf")) -> None:
        self.count, self._most = 0, most

    def __call__(self, work: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        for item in items:
            if work.__name__ == "reduced":
                if self.count >= self._most:
                    raise KeyboardInterrupt
                self.count += 1
            yield work(item)


def kept_run(folder: Path, work: Path, spread: Counted) -> Identification:
    return pipeline.identify(ROBOT, [folder], mapping=MAPPING, spread=spread, keep=work)


@pytest.mark.slow
def test_an_interrupted_run_continues_where_it_was(tmp_path: Path, folder: Path, alone: Identification) -> None:
    whole, first, second, third = Counted(), Counted(10), Counted(), Counted()
    assert same(kept_run(folder, tmp_path / "whole", whole), alone)
    with pytest.raises(KeyboardInterrupt):
        kept_run(folder, tmp_path / "work", first)
    assert same(kept_run(folder, tmp_path / "work", second), alone)
    assert first.count + second.count == whole.count
    assert same(kept_run(folder, tmp_path / "work", third), alone)
    assert third.count == 0


@pytest.mark.slow
def test_kept_work_of_other_recordings_or_mounts_is_not_reused(tmp_path: Path, folder: Path) -> None:
    work, fewer = tmp_path / "work", tmp_path / "fewer"
    fewer.mkdir()
    for file in sorted(folder.iterdir())[1:]:
        (fewer / file.name).symlink_to(file)
    whole, other, hanging = Counted(), Counted(), Counted()
    kept_run(folder, work, whole)
    kept_run(fewer, work, other)
    assert other.count > 0
    mount = next(name for name in ROBOT.file.mounts_gravity_m_s2 if name != ROBOT.file.default_mount)
    pipeline.identify(ROBOT, [folder], mapping=MAPPING | {"mount": mount}, spread=hanging, keep=work)
    assert hanging.count == whole.count


@pytest.mark.slow
def test_damaged_kept_work_is_refused_by_file(tmp_path: Path, folder: Path) -> None:
    work = tmp_path / "work"
    found_by(folder, keep=work)
    whole = {file: file.read_bytes() for file in work.glob("*.npz")}
    for damage in (lambda data: b"cut off", lambda data: data[: len(data) // 2], lambda data: b""):
        for file, data in whole.items():
            file.write_bytes(damage(data))
        with pytest.raises(DataError, match=r"\.npz .*remove it"):
            found_by(folder, keep=work)


def test_a_recording_changed_during_the_run_is_refused(tmp_path: Path, folder: Path) -> None:
    path = tmp_path / "episode.csv"
    path.write_bytes((folder / "episode_00.csv").read_bytes())
    (source,) = load_recordings([tmp_path], ROBOT, MAPPING, most_rows=1)
    settings = load_identification(ROBOT)
    source.signals(settings)
    path.write_bytes((folder / "episode_01.csv").read_bytes())
    with pytest.raises(DataError, match=r"episode\.csv has changed since it was found"):
        source.signals(settings)


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


def test_progress_is_reported_four_times() -> None:
    said: list[str] = []
    spread = with_progress(map, said.append)
    assert list(spread(lambda x: x + 1, range(8))) == list(range(1, 9))
    assert said == [f"{k} of 8 pieces" for k in (2, 4, 6, 8)]


@pytest.mark.slow
def test_the_command_uses_two_processes_and_keeps_its_work(tmp_path: Path, folder: Path, alone: Identification) -> None:
    mapping, work = tmp_path / "mapping.yaml", tmp_path / "work"
    mapping.write_text(yaml.safe_dump(MAPPING), encoding="utf-8")
    words = ["identify", str(folder), "--robot", "planar_3r", "--mapping", str(mapping), "--json"]
    done = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "model"), "--processes", "2", "--keep", str(work)])
    assert done.exit_code in (0, 1), done.output
    assert "notes" in json.loads(done.stdout) and any(work.glob("*.npz"))
    rows = yaml.safe_load((tmp_path / "model" / "model.yaml").read_text(encoding="utf-8"))["parameters"]
    assert np.allclose([row["value"] for row in rows], alone.base.values, rtol=1e-6, atol=1e-9)
    refused = CliRunner().invoke(
        app, [*words, "--out", str(tmp_path / "other"), "--processes", "2", "--dask", "tcp://127.0.0.1:9"]
    )
    assert refused.exit_code == 1 and "leave processes out" in str(refused.exception)


def test_options_for_many_recordings_belong_to_the_regression(folder: Path, tmp_path: Path) -> None:
    for options in ({"keep": tmp_path}, {"dask": LOCAL}, {"processes": 2}):
        with pytest.raises(ConfigurationError, match=next(iter(options))):
            identify(ROBOT, [folder], method="closed-loop", **options)  # type: ignore[arg-type]


def test_logs_prints_the_identify_command(folder: Path) -> None:
    words = ["logs", str(folder), "--robot", "planar_3r", "--effort", "2.69 mA", "--identify", "--processes", "2"]
    done = CliRunner().invoke(app, words)
    told = f"dynid identify {folder} --robot planar_3r --effort '2.69 mA' --out NEW_FOLDER --processes 2"
    assert isinstance(done.exception, ConfigurationError) and told in str(done.exception)
