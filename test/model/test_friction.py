"""The friction law: models M1 to M6, derivatives, columns and implicit solution."""

import numpy as np
import pytest

from dynid.errors import DataError, UnknownNameError
from dynid.model.friction import MODELS, SYMBOLS, TERMS, FrictionLaw, direction, fading
from dynid.robot import FloatArray

MX64 = {
    "fb": 6.218e-07,
    "fs": 0.1227,
    "km": 0.3115,
    "ke": 2.046e-08,
    "kms": 0.1877,
    "kes": 0.01407,
    "kmq": 0.006909,
    "keq": 0.01,
    "ws": 2.575,
    "a": 0.8409,
    "fv": 0.02534,
}
MX106 = {
    "fb": 1.023e-05,
    "fs": 0.122,
    "km": 0.198,
    "ke": 0.02222,
    "kms": 0.1986,
    "kes": 0.0871,
    "kmq": 0.01,
    "keq": 7.327e-05,
    "ws": 1.746,
    "a": 1.143,
    "fv": 0.05072,
}
AXES = 2


def gear(transition: float = 0.0, **more: float) -> FrictionLaw:
    figures = {key: np.array([MX64[key], MX106[key]]) for key in MX64}
    return FrictionLaw.of(AXES, figures | {key: np.full(AXES, value) for key, value in more.items()}, transition)


def states(count: int = 400, seed: int = 1) -> tuple[FloatArray, FloatArray, FloatArray]:
    random = np.random.default_rng(seed)
    dq, tm, te = random.uniform(-3.0, 3.0, (3, count, AXES))
    return dq, 2.0 * tm, 2.0 * te


def test_torque_is_the_published_formula() -> None:
    dq, tm, te = 0.7, 1.5, -1.1
    s = np.exp(-((dq / 2.575) ** 0.8409))
    fixed = 6.218e-07 + abs(2.046e-08 * te - 0.3115 * tm)
    faded = 0.1227 + abs(0.01407 * te - 0.1877 * tm) + 0.01 * te**2  # the motor drives: te is against tm and smaller
    found = gear().torque(np.array([dq, dq]), tm, te)[0]
    assert found == pytest.approx(0.02534 * dq + fixed + s * faded, abs=1e-15)


def test_load_that_drives_the_motor_counts_by_the_motors_square() -> None:
    q = gear().budget(np.zeros(AXES), 1.0, -2.0) - gear(kmq=0.0).budget(np.zeros(AXES), 1.0, -2.0)
    np.testing.assert_allclose(q, [0.006909, 0.01], rtol=1e-12)


def test_budget_at_rest_exceeds_friction_in_motion() -> None:
    law = gear()
    rest = law.budget(np.zeros(AXES), 1.0, -1.0)
    assert (rest > law.budget(np.full(AXES, 2.0), 1.0, -1.0)).all()
    np.testing.assert_allclose(law.torque(np.full(AXES, 1e-12), 1.0, -1.0), rest, rtol=1e-9)


def test_coulomb_and_viscous_friction_do_not_depend_on_load() -> None:
    law = FrictionLaw.of(AXES, {"fb": 0.1, "fv": 0.02})
    assert not law.depends_on_load and law.terms == ("fv", "fb")
    np.testing.assert_allclose(law.torque(np.array([0.5, -0.5]), 9.0, 9.0), [0.11, -0.11])


def test_offset_and_directional_friction_add_by_the_sign_of_motion() -> None:
    law = FrictionLaw.of(AXES, {"fb": 0.3, "fa": 0.1, "of": 0.05})
    np.testing.assert_allclose(law.torque(np.array([1.0, -1.0])), [0.45, -0.15])


def test_load_models_are_special_cases_of_the_directional_one() -> None:
    alike = FrictionLaw.of(AXES, {"kl": 0.2, "kls": 0.1, "ws": 1.0, "a": 1.0})
    dq, tm, te = states()
    s = np.exp(-np.abs(dq))
    np.testing.assert_allclose(alike.budget(dq, tm, te), (0.2 + 0.1 * s) * np.abs(te - tm), rtol=1e-12)


def test_each_model_contains_the_terms_of_its_predecessor() -> None:
    for smaller, larger in (("M1", "M2"), ("M1", "M3"), ("M2", "M4"), ("M3", "M5"), ("M5", "M6")):
        assert set(MODELS[smaller]) < set(MODELS[larger])
    assert all(symbol in SYMBOLS for symbols in MODELS.values() for symbol in symbols)


@pytest.mark.parametrize("transition", [0.0, 0.05])
def test_derivatives_agree_with_differences(transition: float) -> None:
    law, h = gear(transition, of=0.02), 1e-6
    dq, tm, te = states()
    found = law.derivatives(dq, tm, te)
    for place, one in enumerate(found):
        step = [h * (k == place) for k in range(3)]
        ahead = law.torque(dq + step[0], tm + step[1], te + step[2])
        behind = law.torque(dq - step[0], tm - step[1], te - step[2])
        np.testing.assert_allclose(one, (ahead - behind) / (2 * h), atol=2e-8)


def test_smooth_friction_has_a_derivative_at_rest() -> None:
    law = gear(0.05)
    by_velocity, _, _ = law.derivatives(np.zeros(AXES), 1.0, -1.0)
    rest = law.budget(np.zeros(AXES), 1.0, -1.0)
    np.testing.assert_allclose(by_velocity, law["fv"] + rest / 0.05, rtol=1e-12)


@pytest.mark.parametrize("transition", [0.0, 0.05])
@pytest.mark.parametrize("factor", [0.5, 1.0, 1.9])
def test_motor_torque_solves_the_balance(transition: float, factor: float) -> None:
    law = gear(transition, of=0.02, kmq=0.0, keq=0.0).scaled(factor)
    dq, wanted, te = states()
    tm = law.motor_torque(dq, wanted, te)
    assert np.abs(tm - wanted - law.torque(dq, tm, te)).max() < 1e-12


def test_motor_torque_with_the_quadratic_term_balances_but_where_friction_jumps() -> None:
    law = gear()
    dq, wanted, te = states(4000)
    tm = law.motor_torque(dq, wanted, te)
    residual = np.abs(tm - wanted - law.torque(dq, tm, te))
    at_jump = np.abs(np.abs(tm) - np.abs(te)) < 1e-12
    assert residual[~at_jump].max() < 1e-12
    assert at_jump.mean() < 0.01 and residual.max() < 0.01 * np.square(te).max()


def test_motor_torque_at_rest_is_the_requested_torque() -> None:
    np.testing.assert_array_equal(gear().motor_torque(np.zeros(AXES), np.array([1.0, -2.0]), 0.5), [1.0, -2.0])


def test_sizes_times_their_columns_make_the_torque() -> None:
    law = gear(0.02, of=-0.03, fb=0.1, fa=0.04)
    dq, tm, te = states()
    linear = [k for k, term in enumerate(TERMS) if term.kind != "shape"]
    made = np.einsum("kit,ti->ki", law.gradient(dq, tm, te)[..., linear], law.values[linear])
    np.testing.assert_allclose(made, law.torque(dq, tm, te), atol=1e-13)


def test_gradient_by_every_parameter_agrees_with_differences() -> None:
    law, h = gear(0.02, of=-0.03, fb=0.1, fa=0.04, ke=0.02), 1e-7
    dq, tm, te = states()
    found = law.gradient(dq, tm, te)
    for term, symbol in enumerate(SYMBOLS):
        ahead, behind = (law.with_values({symbol: law[symbol] + step}).torque(dq, tm, te) for step in (h, -h))
        np.testing.assert_allclose(found[..., term], (ahead - behind) / (2 * h), atol=2e-7)


def test_gradient_by_the_shape_agrees_with_complex_steps() -> None:
    law, h = gear(), 1e-30
    dq, tm, te = states()
    s = np.exp(-((np.abs(dq) / law["ws"]) ** law["a"]))
    fading = (law.budget(dq, tm, te) - law.with_values({"ws": 1e-9}).budget(dq, tm, te)) / s
    for term, (velocity, exponent) in ((11, (law["ws"] + 1j * h, law["a"])), (12, (law["ws"], law["a"] + 1j * h))):
        slope = np.exp(-((np.abs(dq) / velocity) ** exponent)).imag / h
        np.testing.assert_allclose(law.gradient(dq, tm, te)[..., term], np.sign(dq) * fading * slope, atol=1e-13)


def test_while_a_joint_sticks_its_friction_passes_from_one_direction_to_the_other() -> None:
    law = FrictionLaw.of(2, {"fb": 0.1}, 0.02)
    dq = np.zeros((9, 2))
    dq[2:4, 0], dq[7:, 0] = 3.0, -3.0  # rests, moves up, sticks for three instants, moves down; the other joint rests
    expected = [0.0, 0.0, 1.0, 1.0, 0.5, 0.0, -0.5, -1.0, -1.0]
    found = law.directions_in_time(dq, 0.01)
    np.testing.assert_allclose(found, np.column_stack([expected, np.zeros(9)]), atol=1e-12)
    for longer in (law.directions_in_time(dq, 0.1), law.directions(dq)):  # what a resting joint carries is not known
        np.testing.assert_array_equal(longer[4:7], 0.0)
    dq[7:, 0] = 0.0  # it stops and stays
    np.testing.assert_array_equal(law.directions_in_time(dq, 0.01)[4:], 0.0)


def test_all_states_at_once_have_the_shape_of_single_ones() -> None:
    dq = np.array([[-1.5, 0.0, 0.3], [0.01, -0.2, 2.0]])
    for law in (FrictionLaw.of(3, MX64, 0.02), FrictionLaw.of(3, MX64), FrictionLaw.of(3, {"fb": 0.1}, 0.02)):
        one_by_one = [[fading(v, w, a) for v, w, a in zip(row, law["ws"], law["a"], strict=True)] for row in dq]
        np.testing.assert_allclose(law.fadings(dq), one_by_one, rtol=1e-14)
        one_by_one = [[direction(v, law.transition_rad_s) for v in row] for row in dq]
        np.testing.assert_allclose(law.directions(dq), one_by_one, rtol=1e-14)


def test_warm_gears_rub_less_at_any_load() -> None:
    dq, tm, te = states()
    np.testing.assert_allclose(gear().scaled(0.8).torque(dq, tm, te), 0.8 * gear().torque(dq, tm, te), rtol=1e-13)


@pytest.mark.parametrize(
    ("figures", "message"),
    [
        ({"fb": -0.1}, "FC1 is -0.1"),
        ({"km": 0.7, "kms": 0.4, "ws": 1.0, "a": 1.0}, "no motor could move"),
        ({"fs": 0.1}, "Stribeck velocity WS"),
        ({"fb": 0.1, "fa": 0.2}, "would drive"),
        ({"fb": np.nan}, "finite"),
    ],
)
def test_impossible_friction_is_refused(figures: dict[str, float], message: str) -> None:
    with pytest.raises(DataError, match=message):
        FrictionLaw.of(AXES, figures)


def test_unknown_symbol_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="friction parameter"):
        FrictionLaw.of(AXES, {"mu": 0.1})
    with pytest.raises(UnknownNameError, match="friction parameter"):
        gear()["mu"]


def test_states_of_other_axes_are_refused() -> None:
    with pytest.raises(DataError, match="velocities have the shape"):
        gear().torque(np.zeros(AXES + 1))


def test_transition_must_not_be_negative() -> None:
    with pytest.raises(DataError, match="transition speed"):
        FrictionLaw.of(AXES, {"fb": 0.1}, -1.0)
