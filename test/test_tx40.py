"""A real run of a Staubli TX-40 (public data, not part of this project): figures of its paper, and better ones.

The data are read from the folder that DYNID_TX40 names, else in shared/data/tx40 beside the project's folder; these
tests are skipped if they are missing. Figures are those of a 100 Hz low-pass, every 10th of 5 kHz, 7.5 s of motion.
"""

import json
import os
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from arms import arm, nominal_standard
from benchmarks.logs.rates import rates
from typer.testing import CliRunner

from dynid.cli import app
from dynid.identification.data.preprocessing import Samples
from dynid.identification.data.recordings import load_recording
from dynid.identification.data.sample_sets import hold_out
from dynid.identification.estimators.closest_standard import closest_standard, with_identified_drives
from dynid.identification.estimators.essential import essential_parameters
from dynid.identification.estimators.table import estimator
from dynid.identification.estimators.torque_errors import torque_errors
from dynid.identification.feasibility.consistent import consistent_projection
from dynid.identification.prediction import predicted_torques
from dynid.identification.settings import load_identification
from dynid.model.parameters import BaseParameters
from dynid.recording.mapping import load_mapping
from dynid.robot import load_robot

ROBOT = load_robot("tx40")
SETTINGS = load_identification(ROBOT)
MODEL = arm("tx40")
MAPPING = ROBOT.folder / "csv_mapping.yaml"
FOLDER = Path(os.environ.get("DYNID_TX40") or Path(__file__).resolve().parents[2] / "shared" / "data" / "tx40")
POSITIONS = FOLDER / "pos_read_data.csv.gz"
PRIOR = nominal_standard("tx40")

pytestmark = pytest.mark.skipif(not POSITIONS.is_file(), reason="the public TX-40 run is not there (DYNID_TX40)")


@lru_cache
def run() -> Samples:
    return load_recording(POSITIONS, ROBOT, load_mapping(MAPPING)).samples(SETTINGS)


@lru_cache
def halves() -> tuple[Samples, Samples]:
    return hold_out(run(), 0.3, SETTINGS.filter)


def error(phi: BaseParameters, samples: Samples) -> float:
    return torque_errors(samples.tau, predicted_torques(MODEL, samples, phi, None)).relative


def test_parameter_counts_are_those_of_the_paper_within_one() -> None:
    """86 standard; 60 base parameters (the paper counts 61), by the closed form and by singular values alike."""
    W = MODEL.standard_regressor(run().q, run().dq, run().ddq).reshape(-1, 86)
    singular = np.linalg.svd(W, compute_uv=False)
    assert len(MODEL.names) == 60 and MODEL.regrouping.method == "closed form"
    assert singular[59] > 0.3 and singular[60] < 1e-9
    assert 27 <= len(essential_parameters(MODEL, run()).kept) <= 34


def test_errors_in_sample_stay_below_9_2_percent() -> None:
    ordinary = estimator("ols").estimate(MODEL, run()).errors.relative
    essential = essential_parameters(MODEL, run()).errors.relative
    assert ordinary <= 0.09 and essential <= 0.092
    assert ordinary < essential < 1.03 * ordinary


def test_errors_out_of_sample_stay_below_11_7_percent() -> None:
    fitted, held = halves()
    assert error(estimator("ols").estimate(MODEL, fitted).base, held) <= 0.117
    assert error(essential_parameters(MODEL, fitted).base, held) <= 0.108


@pytest.mark.parametrize("method", ["ols", "wls"])
def test_a_consistent_model_raises_the_error_by_3_percent_at_most(method: str) -> None:
    """The error grows by 3 % at most over least squares, in and out of sample, for both estimates."""
    for fitted, judged in ((run(), run()), halves()):
        plain = estimator("ols").estimate(MODEL, fitted).base
        estimate = estimator(method).estimate(MODEL, fitted)
        consistent = consistent_projection(
            MODEL, estimate.base, ROBOT.file.physical_bounds, prior=PRIOR.values, metric=estimate.metric
        ).base
        assert error(consistent, fitted) <= 1.03 * error(plain, fitted)
        assert error(consistent, judged) <= 1.03 * error(plain, judged)


def test_friction_of_the_wrist_is_the_papers() -> None:
    """Their Table II: Fc6 0.41 and 0.42, Fvm6 0.60, Fcm6 1.8, Fv4 1.07; only if the coupling is right."""
    found = essential_parameters(MODEL, run(), np.inf)
    assert found.base["FC6"] == pytest.approx(0.41, abs=0.05)
    assert found.base["FVM6"] == pytest.approx(0.60, abs=0.06)
    assert found.base["FCM6"] == pytest.approx(1.8, abs=0.25)
    # theirs count the coupled friction at joint 5, too
    assert found.base["FC4"] > 1.5 and found.base["FV4"] == pytest.approx(1.07, abs=0.15)


def test_standard_parameters_closest_to_a_priori_ones() -> None:
    """As in their Tables II and III: essential ones move less and leave more links possible than base ones."""
    essential = essential_parameters(MODEL, run())
    prior = with_identified_drives(MODEL, PRIOR, essential_parameters(MODEL, run(), np.inf).base)
    base = closest_standard(MODEL, run(), prior, columns="base")
    found = closest_standard(MODEL, run(), prior, columns="essential", essential=essential)
    assert (base.rank, found.rank) == (60, len(essential.kept))
    assert base.definite_links[0.0] <= 3 < found.definite_links[0.0]
    assert base.definite_links[-0.04] == found.definite_links[-0.04] == 6
    assert error(found.base, run()) < 0.092


def test_identify_accepts_the_model_of_the_tx40(tmp_path: Path) -> None:
    arguments = [str(POSITIONS), "--mapping", str(MAPPING), "--robot", "tx40", "--hold-out", "0.3"]
    done = CliRunner().invoke(app, ["identify", *arguments, "--out", str(tmp_path / "model"), "--json"])
    found: dict[str, Any] = json.loads(done.stdout)
    assert done.exit_code == 0 and found["accepted"]
    errors = found["relative_torque_error"]
    assert errors["in_sample"]["all"] <= 0.09 and errors["out_of_sample"]["all"] <= 0.109
    assert set(errors["in_sample"]["joints"]) == {f"joint_{k}" for k in range(1, 7)}
    assert (tmp_path / "model" / "model.urdf").is_file()


def test_identify_predicts_held_out_data_from_slow_rows() -> None:
    """Thinned to 50, 25 and 12.5 Hz: errors of consistent models, far below those of least squares."""
    found = rates(ROBOT, load_recording(POSITIONS, ROBOT, load_mapping(MAPPING)), 0.7)
    assert [one.rows for one in found] == ["filtered", "averaged", "averaged", "averaged"]
    for one, limit in zip(found, (0.085, 0.094, 0.10, 0.19), strict=True):
        assert one.consistent < limit
        assert one.consistent < 0.85 * one.differences
        assert one.filtered is None or one.consistent < 1.01 * one.filtered
