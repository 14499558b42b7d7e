"""Identification of elastic joints: the published planar arm, and results that must be rejected."""

import numpy as np
import pytest

from dynid.errors import DataError
from dynid.identification.elastic.classification import classify_structure
from dynid.identification.elastic.experiment import ElasticRecording, drawn_reference, friction, measured, run
from dynid.identification.elastic.identification import filtered, identify, relative_errors
from dynid.identification.elastic.model import ElasticModel
from dynid.identification.elastic.settings import load_elastic
from dynid.identification.elastic.study import ElasticStudy, error_by_stribeck, study, with_noise
from dynid.robot import load_robot

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def planar() -> ElasticStudy:
    return study(load_robot("planar_2r_elastic"), noise_db=(20.0, 100.0))


def test_the_planar_arm_is_identified_with_the_published_accuracy(planar: ElasticStudy) -> None:
    assert planar.samples == 8900
    assert planar.error <= 0.01
    assert planar.error_no_static_friction <= 0.00862
    # The published 0.39 and 0.10 deg, after which the stiffnesses were chosen: the setting is still that one.
    np.testing.assert_allclose(planar.deflection_deg, [0.39, 0.10], atol=0.01)


@pytest.mark.study
def test_the_error_follows_the_shape_of_the_stribeck_curve() -> None:
    """So a figure for one shape is not comparable with one for an unknown shape; 0.074 was found independently."""
    errors = error_by_stribeck(load_robot("planar_2r_elastic"), [(1.3, 0.3)])
    assert errors == {(1.3, 0.3): pytest.approx(0.074, abs=0.002)}


def test_noise_increases_the_error(planar: ElasticStudy) -> None:
    assert planar.noise[100.0] < 2.0 * planar.error
    assert planar.noise[20.0] > 0.5


def test_stribeck_friction_is_coulomb_and_viscous_friction_at_speed() -> None:
    shape = load_elastic(load_robot("planar_2r_elastic")).stribeck
    one = np.ones(1)
    assert friction(one, 8.0 * one, 10.0 * one, shape)[0] == pytest.approx(18.0)
    peak = max(float(friction(v * one, 8.0 * one, 0.0 * one, shape)[0]) for v in np.linspace(0.001, 0.1, 100))
    assert 8.0 * 1.15 < peak < 8.0 * shape.breakaway_ratio


def test_wrong_spring_is_detected_and_rigid_motion_refused() -> None:
    """Other true parameters must give a large error of the same estimate."""
    robot = load_robot("planar_2r_elastic")
    file = load_elastic(robot)
    short = file.spline.model_copy(update={"duration_s": 3.0, "control_points": 10, "candidates": 10})
    model = ElasticModel(robot, file.model_copy(update={"spline": short}))
    found = classify_structure(model)
    recording = measured(run(model, drawn_reference(model)), model.file)
    states, tau = filtered(recording, model.file.measurement)
    estimate = identify(model, states, tau, found)
    other = model.nominal.copy()
    other[model.place("K")] *= 2.0
    assert relative_errors(found, estimate, model.nominal)["K1"] < 0.05
    assert relative_errors(found, estimate, other)["K1"] > 0.4
    with pytest.raises(DataError, match="excite every joint"):
        identify(model, states.rows(slice(0, 2)), tau[:2], found)
    assert with_noise(states, 200.0, 0).q == pytest.approx(states.q, abs=1e-6)


def test_a_short_recording_is_refused() -> None:
    robot = load_robot("planar_2r_elastic")
    model = ElasticModel(robot, load_elastic(robot))
    with pytest.raises(DataError, match="expected 500 or more"):
        filtered(ElasticRecording(1000.0, *np.zeros((3, 100, 2))), model.file.measurement)
