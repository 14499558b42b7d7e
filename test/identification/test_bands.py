"""Standard deviations of predicted torques: they cover new torques, and grow where the model is uncertain."""

from dataclasses import replace

import numpy as np
from arms import RECORD, arm, nominal

from dynid.identification.bands import TorqueBands
from dynid.identification.data.preprocessing import Samples
from dynid.identification.estimators.table import estimator
from dynid.identification.settings import CoulombSettings
from dynid.robot import FloatArray

MODEL, TRUTH, SIGMA = arm("planar_3r"), nominal("planar_3r"), 0.05
COULOMB = CoulombSettings(treatment="ignored")


def samples(seed: int, size: float = 1.0) -> tuple[Samples, FloatArray]:
    """States as large as `size`, with noisy torques, and the torques without noise."""
    rng = np.random.default_rng(seed)
    q, dq, ddq = size * rng.uniform(-1.0, 1.0, (3, 500, MODEL.axes)) * np.array([1.5, 2.0, 6.0])[:, None, None]
    tau = MODEL.inverse_dynamics(q, dq, ddq, TRUTH)
    noisy = tau + SIGMA * rng.normal(size=tau.shape)
    return Samples(tuple("abc"), 0.02 * np.arange(500), q, dq, ddq, noisy, RECORD), tau


def bands(fitted: Samples) -> TorqueBands:
    found = estimator("ols").estimate(MODEL, fitted, COULOMB)
    return TorqueBands(MODEL, found, fitted, found.base, found.friction, COULOMB)


def test_nine_of_ten_new_torques_are_inside() -> None:
    told, (new, _) = bands(samples(1)[0]), samples(2)
    predicted = MODEL.inverse_dynamics(new.q, new.dq, new.ddq, told.base)
    held = (np.abs(predicted - new.tau) < 1.645 * told.deviations(MODEL, new)).mean()
    assert 0.85 < held < 0.95


def test_bands_grow_outside_the_data() -> None:
    told = bands(samples(1, 0.2)[0])
    near, far = (np.median(told.deviations(MODEL, samples(3, size)[0])) for size in (0.2, 4.0))
    assert SIGMA * 0.8 < near < SIGMA * 1.3 and far > 1.5 * near


def test_a_wrong_model_has_wide_deviations() -> None:
    fitted = samples(1)[0]
    told = bands(fitted)
    wrong = replace(told, base=told.base.with_values(0.5 * told.base.values))
    assert np.median(wrong.deviations(MODEL, fitted)) > 5.0 * np.median(told.deviations(MODEL, fitted))


def test_lasting_error_is_reported_with_the_total() -> None:
    stated = bands(samples(1)[0]).table()
    assert (np.array(stated.lasting_nm) < 0.5 * np.array(stated.deviations_nm)).all()  # the noise does not
    np.testing.assert_array_equal(stated.lasting, stated.lasting_nm)
    older = stated.model_copy(update={"lasting_nm": (), "passing_nm": ()})
    np.testing.assert_array_equal(older.lasting, stated.deviations_nm)
    np.testing.assert_array_equal(older.passing, 0.0 * older.lasting)
    assert (np.array(stated.passing_nm)[1:] == 0.0).all()  # noise does not pass with the speed
