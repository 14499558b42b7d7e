"""Load-dependent friction: prediction, derivatives, fit, and choice of structure on held-out blocks of time."""

from dataclasses import replace

import numpy as np
import pytest
from arms import RECORD as made_up
from arms import arm, nominal
from scipy.ndimage import maximum_filter1d

from dynid.identification.data.preprocessing import Samples
from dynid.identification.estimators.gear_fit import GearFitter, Point, Structure, conforming, start_law
from dynid.identification.estimators.gear_ladder import LADDER, excess_of, select_structure, time_blocks
from dynid.identification.estimators.gear_rows import GearRows
from dynid.identification.estimators.regression import Regression
from dynid.identification.estimators.sliding_rows import sliding_states
from dynid.identification.estimators.solved_torques import predicted_torques
from dynid.identification.estimators.triangles import bounded
from dynid.identification.settings import CoulombSettings
from dynid.model.drive import KINDS, of_kinds
from dynid.model.dynamics import ArmModel
from dynid.model.friction import SYMBOLS, FrictionLaw
from dynid.model.gear_presets import gear_friction
from dynid.model.parameters import physical_lower_bounds
from dynid.robot import FloatArray, load_robot
from dynid.verdict import Verdict

ROBOT = load_robot("crane_x7")
MODEL = arm("crane_x7")
TRUTH = nominal("crane_x7")
LAW = FrictionLaw(gear_friction(ROBOT).with_values({"fv": 0.0, "kmq": 0.0, "keq": 0.0}).values, 0.02)
RECORD = made_up.model_copy(update={"interval_s": 0.04, "cutoff_hz": 6.0, "window_s": (0, 40)})
RNG = np.random.default_rng(3)
Q, DQ, DDQ = RNG.uniform(-1.0, 1.0, (3, 600, 8)) * np.array([1.5, 2.0, 8.0])[:, None, None]


LIGHT = np.array([1.0, 1.0, 1.0, 1.0, 0.1, 0.1, 0.1, 0.1])  # noise of the wrist's torques over that of the others


def torques(law: FrictionLaw, q: FloatArray = Q, dq: FloatArray = DQ, ddq: FloatArray = DDQ) -> FloatArray:
    """What the motors give on an arm whose gears obey the law exactly."""
    load = -MODEL.inverse_dynamics(q, dq, np.zeros_like(q), of_kinds(TRUTH, KINDS, others=True))
    return law.motor_torque(dq, MODEL.inverse_dynamics(q, dq, ddq, TRUTH), load)


def samples_of(tau: FloatArray, dq: FloatArray = DQ) -> Samples:
    return Samples(
        ROBOT.joint_names, 0.04 * np.arange(len(tau), dtype=np.float64), Q, dq, DDQ, tau, RECORD, Verdict(())
    )


def fitter_of(samples: Samples) -> GearFitter:
    rows = GearRows(MODEL, samples)
    return GearFitter(rows, MODEL.gears, np.ones_like(samples.tau), physical_lower_bounds(MODEL.names), 0.02)


RUBBED = torques(LAW)


def test_the_true_law_predicts_the_torques() -> None:
    np.testing.assert_allclose(predicted_torques(MODEL, samples_of(RUBBED), TRUTH, LAW), RUBBED, atol=1e-7)
    rows = GearRows(MODEL, samples_of(RUBBED)).linearise(TRUTH.values, LAW)
    np.testing.assert_allclose(rows.tau, RUBBED, atol=1e-7)


def test_prediction_does_not_look_at_the_measured_torque() -> None:
    wrong = samples_of(RUBBED + 1.0)
    np.testing.assert_allclose(predicted_torques(MODEL, wrong, TRUTH, LAW), RUBBED, atol=1e-7)


def test_derivatives_of_the_prediction_agree_with_differences() -> None:
    rows, terms, h = GearRows(MODEL, samples_of(RUBBED)), tuple(range(1, 13)), 1e-6
    found = rows.linearise(TRUTH.values, LAW, 0.02, terms=terms)

    def tau(phi: FloatArray, law: FrictionLaw, drift: float) -> FloatArray:
        return rows.linearise(phi, law, drift).tau

    for k in (2, 11, 17, 25, 38):
        step = h * np.eye(39)[k]
        slope = (tau(TRUTH.values + step, LAW, 0.02) - tau(TRUTH.values - step, LAW, 0.02)) / (2 * h)
        assert np.median(np.abs(found.W[..., k] - slope)) < 1e-6
        assert np.quantile(np.abs(found.W[..., k] - slope), 0.99) < 1e-3  # but where a load changes sides
    for symbol in ("fb", "fs", "km", "kms", "kes", "ws", "a"):
        column = SYMBOLS.index(symbol)
        centre = LAW.with_values({symbol: LAW[symbol] + h})
        ahead, behind = centre.with_values({symbol: centre[symbol] + h}), LAW
        slope = (tau(TRUTH.values, ahead, 0.02) - tau(TRUTH.values, behind, 0.02)) / (2 * h)
        assert np.quantile(np.abs(found.friction[..., column] - slope), 0.99) < 1e-3, symbol
    slope = (tau(TRUTH.values, LAW, 0.02 + h) - tau(TRUTH.values, LAW, 0.02 - h)) / (2 * h)
    np.testing.assert_allclose(found.drift, slope, atol=1e-5)


def test_all_parameters_are_recovered_from_exact_torques() -> None:
    fit = fitter_of(samples_of(RUBBED)).fit(LADDER[5], steps=30)
    np.testing.assert_allclose(fit.point.phi, TRUTH.values, atol=5e-3)
    for symbol, close in (("fs", 0.02), ("km", 0.02), ("kms", 0.02), ("ws", 0.5)):
        np.testing.assert_allclose(fit.point.law[symbol], LAW[symbol], atol=close)


def test_a_fit_is_continued_as_from_its_point() -> None:
    fitter = fitter_of(samples_of(RUBBED))
    begun = fitter.fit(LADDER[5], steps=3)
    continued, anew = (fitter.fit(LADDER[5], start, steps=4) for start in (begun, begun.point))
    scale = np.abs(anew.theta).max()
    np.testing.assert_allclose(continued.theta, anew.theta, atol=1e-6 * scale)
    assert np.abs(continued.theta - begun.theta).max() > 1e-3 * scale


def test_the_start_of_a_structure_does_not_depend_on_structures_before_it() -> None:
    fitter = fitter_of(samples_of(RUBBED))
    for structure in (LADDER[3], LADDER[1], LADDER[6]):
        alone, after = fitter_of(samples_of(RUBBED)).begin(structure), fitter.begin(structure)
        np.testing.assert_array_equal(after.phi, alone.phi)
        np.testing.assert_array_equal(after.law.values, alone.law.values)


@pytest.mark.slow
@pytest.mark.parametrize("speed", [1.0, 0.25])
def test_every_start_converges_to_the_same_misfit(speed: float) -> None:
    """Also at low speed, where load friction and mass are nearly one direction and plain steps go too far."""
    dq, noise = speed * DQ, np.random.default_rng(8).normal(0.0, 0.01, RUBBED.shape)
    samples = replace(samples_of(torques(LAW, Q, dq, speed * DDQ) + noise * LIGHT, dq), ddq=speed * DDQ)
    fitter, still = fitter_of(samples), start_law(8, 0.02)
    starts = [None, Point(0.0 * TRUTH.values, still), Point(TRUTH.values, LAW)]
    fits = [fitter.fit(LADDER[5], start, steps=80) for start in starts]
    assert all(one.settled for one in fits)
    np.testing.assert_allclose([fitter.misfit(one) for one in fits], fitter.misfit(fits[-1]), atol=3e-3)
    assert not fitter.fit(LADDER[5], starts[1], steps=3).settled


@pytest.mark.slow
def test_no_start_gives_a_lower_misfit_than_the_ladder() -> None:
    dq, noise = 0.25 * DQ, np.random.default_rng(9).normal(0.0, 0.01, RUBBED.shape)
    samples = replace(samples_of(torques(LAW, Q, dq, 0.25 * DDQ) + noise * LIGHT, dq), ddq=0.25 * DDQ)
    fitter = fitter_of(samples)
    found = select_structure(fitter).fit
    best = min(fitter.misfit(fitter.fit(found.structure, start)) for start in (None, Point(TRUTH.values, LAW)))
    assert found.settled and fitter.misfit(found) < best + 3e-3


def test_coulomb_friction_alone_is_refuted_and_gravity_is_spoiled_by_it() -> None:
    fitter = fitter_of(samples_of(RUBBED))
    plain, right = fitter.fit(LADDER[1], steps=3), fitter.fit(LADDER[5])
    left = [np.linalg.norm(one.columns @ one.theta - one.target) for one in (plain, right)]
    assert left[1] < 0.05 * left[0]
    heavy = [k for k, name in enumerate(MODEL.names) if name in ("MYR2", "MYR4")]
    off = [np.abs(one.point.phi[heavy] / TRUTH.values[heavy] - 1.0).max() for one in (plain, right)]
    assert off[0] > 0.1 > 10 * off[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("law", "wanted"),
    [
        (FrictionLaw.of(8, {"fb": np.linspace(0.05, 0.3, 8)}, 0.02), "Coulomb-viscous"),
        (LAW.with_values({"ke": 0.0, "kes": 0.0}), "load and Stribeck"),
        (FrictionLaw.of(8, {}, 0.02), "viscous"),
    ],
)
def test_the_ladder_selects_the_true_friction_structure(law: FrictionLaw, wanted: str) -> None:
    noise = np.random.default_rng(8).normal(0.0, 0.01, RUBBED.shape)
    found = select_structure(fitter_of(samples_of(torques(law) + noise)))
    assert found.fit.structure.name.split(",")[0] == wanted
    assert [rung.name for rung in found.rungs if rung.chosen] == [found.fit.structure.name]
    sizes = {rung.name: rung.parameters for rung in found.rungs}
    assert sizes["viscous"] == 0 < sizes["Coulomb-viscous"] < sizes["directional"] < sizes["quadratic"]


def test_structures_that_the_data_do_not_tell_apart_are_rivals_and_others_are_not() -> None:
    """A larger structure that holds the true one is a rival next to it; one that misses the load is far off."""
    noise = np.random.default_rng(8).normal(0.0, 0.01, RUBBED.shape)
    fitter = fitter_of(samples_of(torques(LAW.with_values({"ke": 0.0, "kes": 0.0})) + noise))
    found = select_structure(fitter, (LADDER[1], LADDER[4], LADDER[5]))
    assert found.fit.structure.name.split(",")[0] == "load and Stribeck" and 1 <= len(found.rivals) <= 4
    plain = fitter.fit(LADDER[1]).point.phi - found.fit.point.phi
    assert np.linalg.norm(found.rivals, axis=1).max() < 0.2 * np.linalg.norm(plain)
    assert len(select_structure(fitter, LADDER[4:5]).rivals) <= 3  # the smaller variants of the same


def test_a_constant_offset_is_found_and_one_that_is_not_there_is_not() -> None:
    law = FrictionLaw.of(8, {"fb": 0.2, "of": 0.05}, 0.02)
    noise = np.random.default_rng(8).normal(0.0, 0.01, RUBBED.shape)
    found = select_structure(fitter_of(samples_of(torques(law) + noise)), LADDER[:2])
    assert "offset" in found.fit.structure.name
    np.testing.assert_allclose(found.fit.point.law["of"], 0.05, atol=0.01)
    without = select_structure(fitter_of(samples_of(torques(law.with_values({"of": 0.0})) + noise)), LADDER[:2])
    assert "offset" not in without.fit.structure.name


def test_friction_that_is_not_there_is_left_out_by_name() -> None:
    sizes = np.where(np.arange(8) == 3, 0.0, 0.2)
    noise = np.random.default_rng(9).normal(0.0, 1e-4, RUBBED.shape)
    tau = torques(FrictionLaw.of(8, {"fb": sizes}, 0.02)) + noise
    tau[:, 3] -= 0.02 * np.sign(DQ[:, 3])  # and even less
    found = select_structure(fitter_of(samples_of(tau)), LADDER[:2])
    assert "FC4" in found.left_out and "FC3" not in found.left_out


def test_joints_with_the_same_servo_share_gear_parameters() -> None:
    names = [one.name for one in LADDER[4].parameters(MODEL.gears)]
    assert "FC3" in names and "KM1+3+4+5+6+7+8" in names and "KM2" in names
    own = ArmModel(MODEL.mdh, 8, MODEL.structure, MODEL.gravity)
    assert "KM3" in [one.name for one in LADDER[4].parameters(own.gears)]


def test_a_point_of_another_structure_is_made_to_conform() -> None:
    alike = Structure("alike", ("fb",), shared=("fb",)).parameters(MODEL.gears)
    point = Point(TRUTH.values, start_law(8, 0.02).with_values({"fb": np.arange(8.0), "km": 0.1}), 0.3)
    found = conforming(point, alike, drift=False)
    np.testing.assert_allclose(found.law["fb"], [27 / 7, 1.0, *[27 / 7] * 6])
    assert found.drift == 0.0 and not found.law["km"].any()


def test_bounds_hold_and_silent_columns_stay() -> None:
    A = np.random.default_rng(0).normal(size=(20, 3))
    A[:, 2] = 0.0
    R = np.asarray(np.linalg.qr(np.column_stack([A, A @ np.array([-1.0, 2.0, 0.0])]), mode="r"))
    np.testing.assert_allclose(bounded(R, np.zeros(3), np.full(3, np.inf))[[0, 2]], 0.0)
    free = bounded(R, np.full(3, -np.inf), np.full(3, np.inf))
    np.testing.assert_allclose(free, [-1.0, 2.0, 0.0], atol=1e-9)


def test_blocks_are_of_time_and_of_one_recording() -> None:
    samples = samples_of(RUBBED)
    blocks = time_blocks(samples)
    assert (np.diff(blocks) >= 0).all() and len(set(blocks)) == 24
    twice = replace(samples, time=np.concatenate([samples.time[:300], samples.time[:300]]))
    assert not set(time_blocks(twice)[:300]) & set(time_blocks(twice)[300:])


def test_a_scattered_difference_is_below_its_standard_error() -> None:
    best = np.array([1.0, 1.0, 1.0, 1.0])
    excess, error = excess_of(best + np.array([0.2, -0.2, 0.3, -0.1]), best, 0.0)
    assert excess == pytest.approx(0.05) and error > excess
    excess, error = excess_of(best + 0.2, best, 0.0)
    assert excess > error == pytest.approx(0.0, abs=1e-12)


@pytest.mark.slow
def test_known_friction_of_one_recording_is_used_for_another() -> None:
    first = Regression.of(MODEL, samples_of(RUBBED), CoulombSettings(slow_rad_s=0.0))
    assert first.joint_friction is not None
    slower = torques(LAW, Q, 0.5 * DQ)
    again = Regression.of(
        MODEL, samples_of(slower, 0.5 * DQ), CoulombSettings(slow_rad_s=0.0), first.joint_friction.fit.known
    )
    assert again.joint_friction is not None and again.joint_friction.ladder is None
    assert again.errors(again.solve().phi).relative < 0.02


@pytest.mark.parametrize("width", [1, 2, 7, 8, 401])
@pytest.mark.parametrize("states", [1, 300])
def test_states_near_a_standstill_are_those_of_scipys_filter(width: int, states: int) -> None:
    dq = np.random.default_rng(width).normal(size=(states, 4))
    slow = (np.abs(dq) < 0.1).astype(np.uint8)
    np.testing.assert_array_equal(sliding_states(dq, 0.1, width), 1.0 - maximum_filter1d(slow, width, axis=0))
