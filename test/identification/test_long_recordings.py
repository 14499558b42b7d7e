"""A long recording read in blocks gives the same result; omitted parts are reported."""

import json
from pathlib import Path

import numpy as np
import pytest
from benchmarks.cli import app
from typer.testing import CliRunner

from dynid.errors import DataError
from dynid.identification.data import preprocessing
from dynid.identification.data.arrays import recording_from_arrays
from dynid.identification.data.recordings import Recording
from dynid.identification.pipeline import identify
from dynid.identification.settings import load_identification
from dynid.model.dynamics import ArmModel
from dynid.model.standard import load_standard
from dynid.robot import load_robot

ROBOT = load_robot("puma560")
SETTINGS = load_identification(ROBOT)


def recording(seconds: float, gap_s: tuple[float, float] = (0.0, 0.0)) -> Recording:
    """Sums of sines at 200 Hz with the torques that belong to them, without what lies in a gap."""
    rng, t = np.random.default_rng(0), np.arange(0.0, seconds, 0.005)
    t = t[(t < gap_s[0]) | (t >= gap_s[1])]
    omega, phase = rng.uniform(0.3, 2.5, (2, ROBOT.size, 3))
    angle = omega * t[:, None, None] + phase
    q, dq, ddq = 0.3 * np.sin(angle), 0.3 * omega * np.cos(angle), -0.3 * omega**2 * np.sin(angle)
    model = ArmModel.of(ROBOT)
    standard = load_standard(ROBOT.folder / "models/nominal.yaml", model.mdh, model.regrouping.standard)
    phi = model.base_parameters(standard).values
    states = [one.sum(axis=2) for one in (q, dq, ddq)]
    return recording_from_arrays(ROBOT, t, states[0], model.regressor(*states) @ phi, name="long")


def cut(monkeypatch: pytest.MonkeyPatch, block: int, most: int) -> None:
    monkeypatch.setattr(preprocessing, "BLOCK", block)
    monkeypatch.setattr(preprocessing, "WHOLE", block)
    monkeypatch.setattr(preprocessing, "MOST_BLOCKS", most)


@pytest.mark.slow
def test_blocks_hold_the_samples_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    source = recording(60.0)
    whole = source.samples(SETTINGS)
    cut(monkeypatch, 2000, 100)
    blocks = source.samples(SETTINGS)
    assert len(blocks.fine) > 3 > len(whole.fine) and blocks.settings.selection == ""
    np.testing.assert_allclose(blocks.time, whole.time, atol=1e-9)
    for name in ("q", "dq", "ddq", "tau"):
        np.testing.assert_allclose(getattr(blocks, name), getattr(whole, name), atol=1e-4)
    assert blocks.settings.samples == whole.settings.samples == len(blocks)
    for name in ("window_s", "trimmed_s", "missed_cycles", "interval_s", "grid_s", "cutoff_hz"):
        assert getattr(blocks.settings, name) == pytest.approx(getattr(whole.settings, name), abs=1e-9)
    assert blocks.quality[0].jitter == whole.quality[0].jitter
    model = ArmModel.of(ROBOT)
    np.testing.assert_allclose(blocks.low_passed(model.regressor), whole.low_passed(model.regressor), atol=1e-3)


def test_filtered_log_slower_than_its_samples_is_divided_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory must not grow with the length of a log whose rows are farther apart than samples."""
    fast = recording(60.0).rows
    assert fast is not None
    log = recording_from_arrays(ROBOT, fast.time[::6], fast.q[::6], fast.tau[::6], name="slow")
    settings = SETTINGS.model_copy(update={"rows": "filtered"})
    whole = log.samples(settings)
    assert whole.settings.interval_s < 6 * 0.005 and len(whole.fine) == 1
    cut(monkeypatch, 2000, 2)
    blocks = log.samples(settings)
    assert len(blocks.fine) == 2 and len(blocks) < 0.7 * len(whole)
    inside = np.isin(np.round(whole.time, 6), np.round(blocks.time, 6))
    assert inside.sum() == len(blocks)
    np.testing.assert_allclose(blocks.q, whole.q[inside], atol=1e-4)


@pytest.mark.slow
def test_omitted_parts_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    cut(monkeypatch, 4000, 3)
    source = recording(120.0)
    result = identify(ROBOT, [source], held_out_share=0.3)
    (note,) = [one for one in result.notes if "blocks" in one]
    assert note.startswith("first 70 % of long: 30 of 120 s are used, in 3 blocks")
    assert result.verdict.accepted and len(result.motions) == 2
    with pytest.raises(DataError, match="no longer in memory"):
        source.released().samples(SETTINGS)
    assert len(source.samples(SETTINGS)) < 0.3 * 120.0 / SETTINGS.sampling_interval_s


@pytest.mark.parametrize("pause_s", [900.0, 5000.0, 1e8])
@pytest.mark.parametrize("rows", ["filtered", "averaged"])
def test_a_long_pause_costs_only_itself(rows: str, pause_s: float) -> None:
    """A logger that ran on over a break, or whose clock was set after its first rows."""
    signals, settings = recording(30.0).signals(SETTINGS), SETTINGS.model_copy(update={"rows": rows})
    time = signals.time + pause_s * (np.arange(len(signals.time)) >= 1500)
    source = recording_from_arrays(ROBOT, time, signals.q, signals.tau, name="paused")
    samples = source.samples(settings)
    assert len(samples) > 0.8 * 30.0 / samples.settings.interval_s
    assert samples.time.min() < 15.0 and samples.time.max() > pause_s + 20.0
    blocks = list(preprocessing.all_blocks(source.signals(settings), settings))
    assert sum(map(len, blocks)) == len(samples)


def test_a_block_within_a_gap_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    cut(monkeypatch, 2000, 100)
    source = recording(60.0, gap_s=(18.0, 33.0))
    samples = source.samples(SETTINGS)
    assert not ((samples.time > 18.0) & (samples.time < 33.0)).any() and len(samples) > 500
    assert samples.settings.missed_cycles == 3000


@pytest.mark.slow
def test_the_benchmark_measures_a_process_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    done = CliRunner().invoke(app, ["benchmark", "memory", "--rows", "30000", "--json"])
    found = json.loads(done.stdout)
    assert done.exit_code == 0 and found["exit_code"] in (0, 1) and 100.0 < found["peak_mib"] <= 2048.0
    from benchmarks.speed import memory

    monkeypatch.setattr(memory, "MOST_MIB", 1)
    assert CliRunner().invoke(app, ["benchmark", "memory", "--rows", "30000", "--json"]).exit_code == 1
    assert not Path("long.csv").exists()
