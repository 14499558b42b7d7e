"""The recursive estimate of a growing recording equals the estimate of the whole."""

from dataclasses import replace

import numpy as np
import pytest
from benchmarks.studies.drawn_arms import draw_arm, record

from dynid.errors import DataError
from dynid.identification.data.preprocessing import Samples, filter_reach_s, preprocess_piece
from dynid.identification.data.recordings import Recording
from dynid.identification.data.sample_sets import counted_from
from dynid.identification.data.signals import Signals
from dynid.identification.estimators.gear_fit import GearFitter, KnownGears
from dynid.identification.estimators.gear_ladder import LADDER
from dynid.identification.estimators.gear_rows import GearRows
from dynid.identification.estimators.recursive import RecursiveRegression
from dynid.identification.estimators.regression import Regression
from dynid.identification.settings import load_identification
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import physical_lower_bounds
from dynid.robot import load_robot
from dynid.trajectory.families import load_excitation

ROBOT = load_robot("crane_x7")
MODEL, SETTINGS = ArmModel.of(ROBOT), load_identification(ROBOT)
COULOMB, STEP = SETTINGS.coulomb_friction, SETTINGS.sampling_interval_s
EQUAL = 1e-8


@pytest.fixture(scope="module")
def source() -> Recording:
    """A motion of a drawn arm with the friction of real gears and all nuisances."""
    return record(ROBOT, draw_arm(ROBOT, 0), load_excitation(ROBOT).trajectory("V01", "limited"), 0).source


@pytest.fixture(scope="module")
def whole(source: Recording) -> Samples:
    return counted_from(source.samples(SETTINGS), 5.0)


@pytest.fixture(scope="module")
def known(whole: Samples) -> KnownGears:
    """A point at which torques are linearised: not yet the one that fits best."""
    trust = np.ones_like(whole.tau)
    lower = physical_lower_bounds(MODEL.names)
    fitter = GearFitter(GearRows(MODEL, whole, COULOMB.slow_rad_s), MODEL.gears, trust, lower, 0.02)
    structure = next(one for one in LADDER if one.name == "load and Stribeck")
    return fitter.fit(replace(structure, drift=True), steps=3).known


def until(signals: Signals, now: float) -> Signals:
    """Return the part of the recording before a time [s]."""
    there, driven, written = signals.time <= now, signals.torque_time <= now, signals.other
    assert written is not None
    other = replace(written, time=written.time[written.time <= now], tau=written.tau[written.time <= now])
    return replace(
        signals,
        time=signals.time[there],
        q=signals.q[there],
        dq=None if signals.dq is None else signals.dq[there],
        torque_time=signals.torque_time[driven],
        tau=signals.tau[driven],
        other=other,
    )


def pieces(source: Recording, seed: int) -> list[Samples]:
    """The recording as it comes in: windows of random lengths, cut where a filter still looks a little farther."""
    random, signals = np.random.default_rng(seed), source.signals(SETTINGS)
    assert signals.window is not None
    begin, end = signals.window
    found: list[Samples] = []
    at, count = 0, int((end - begin) / STEP + 1e-9) + 1
    while count - at >= 10:
        size = int(random.integers(20, 90))
        size = count - at if count - at - size < 10 else size
        window = (begin + at * STEP, begin + (at + size - 1) * STEP)
        now = min(window[1] + filter_reach_s(SETTINGS), float(signals.time[-1]))
        grown = until(signals, now)
        found.append(preprocess_piece(grown, SETTINGS, window))
        at += size
    return found


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_updates_in_pieces_equal_the_regression_of_the_whole(
    source: Recording, whole: Samples, known: KnownGears, seed: int
) -> None:
    batch = Regression.stack(MODEL, whole, COULOMB, known)
    regression = RecursiveRegression.begin(MODEL, COULOMB, known, 5.0)
    for piece in pieces(source, seed):
        regression = regression.updated(piece)
    assert regression.samples == len(whole)
    one, other = batch.solve(), regression.solve()
    deviations = np.sqrt(np.diag(batch.spread(one)))[-len(one.phi) :]
    np.testing.assert_allclose(other.phi, one.phi, rtol=EQUAL, atol=EQUAL * np.abs(one.phi).max())
    np.testing.assert_allclose((other.phi - one.phi) / deviations, 0.0, atol=1e-6)
    np.testing.assert_allclose(other.friction, one.friction, rtol=EQUAL, atol=EQUAL)
    information = one.triangle[:, :-1].T @ one.triangle[:, :-1]
    again = other.triangle[:, :-1].T @ other.triangle[:, :-1]
    np.testing.assert_allclose(again, information, rtol=EQUAL, atol=EQUAL * np.abs(information).max())


@pytest.mark.slow
def test_missing_or_repeated_pieces_change_the_estimate(source: Recording, whole: Samples, known: KnownGears) -> None:
    regression, parts = RecursiveRegression.begin(MODEL, COULOMB, known, 5.0), pieces(source, 1)
    for piece in parts[:-1]:
        regression = regression.updated(piece)
    phi = Regression.stack(MODEL, whole, COULOMB, known).solve().phi
    for wrong in (regression, regression.updated(parts[-1]).updated(parts[3])):
        assert np.abs(wrong.solve().phi - phi).max() > 1e-5


def test_a_window_that_data_do_not_reach_is_refused(source: Recording) -> None:
    signals = source.signals(SETTINGS)
    with pytest.raises(DataError, match=r"no data from .* wait for more"):
        preprocess_piece(signals, SETTINGS, (float(signals.time[-1]) + 9.0, float(signals.time[-1]) + 12.0))


def test_prior_holds_without_data_and_yields_to_data(source: Recording, whole: Samples, known: KnownGears) -> None:
    empty = RecursiveRegression.begin(MODEL, COULOMB, known, 5.0)
    friction = np.ones(empty.friction_size)
    nominal = known.point.phi
    vague, sure = (
        empty.with_prior(nominal, deviation * np.maximum(np.abs(nominal), 0.01), deviation * friction)
        for deviation in (1e3, 1e-9)
    )
    np.testing.assert_allclose(sure.solve().phi, nominal, rtol=1e-9, atol=1e-12)
    phi = Regression.stack(MODEL, whole, COULOMB, known).solve().phi
    for piece in pieces(source, 1):
        vague, sure = vague.updated(piece), sure.updated(piece)
    np.testing.assert_allclose(sure.solve().phi, nominal, rtol=1e-4, atol=1e-12)
    assert np.linalg.norm(vague.solve().phi - phi) < 0.2 * np.linalg.norm(nominal - phi)
