"""Bounds that shift an estimate beyond chance: size of the limit, correct and wrong estimates."""

import numpy as np
import pytest
from arms import arm, nominal
from scipy.stats import chi2, f

from dynid.identification.feasibility.consistent import ConsistentProblem, consistent_interior, consistent_projection
from dynid.identification.feasibility.pull import CHANCE, BoundsPull, directions_at_bounds, pull_limit, pull_of_bounds
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray, load_robot

ROBOT = load_robot("crane_x7")
MODEL = arm("crane_x7")
BOUNDS = ROBOT.file.physical_bounds
MANY = 1e6  # degrees of freedom
ROOMY = consistent_interior(MODEL, MODEL.limits(BOUNDS))


def inside() -> FloatArray:
    """Base parameters of an arm far inside all bounds."""
    return np.asarray(MODEL.regrouping.K @ ROOMY)


def sizes(share: float = 0.02) -> FloatArray:
    return np.asarray(share * np.maximum(np.abs(nominal("crane_x7").values), 0.005))


def estimate(values: FloatArray, deviations: FloatArray) -> BaseParameters:
    return BaseParameters(MODEL.names, values, np.diag(deviations**2))


def pulled(told: BaseParameters, freedom: float = MANY) -> BoundsPull | None:
    """The pull on an estimate, projected in the metric of its deviations."""
    metric = np.eye(len(told.names)) if told.standard_deviations is None else np.diag(1.0 / told.standard_deviations)
    found = consistent_projection(MODEL, told, BOUNDS, metric=metric)
    return pull_of_bounds(MODEL, told, found, BOUNDS, metric, freedom)


def test_limits_are_those_of_the_mixture() -> None:
    for q in (1, 2, 5, 30):
        many, few = pull_limit(q, MANY), pull_limit(q, 20.0)
        less = chi2.sf(many, q - 1) if q > 1 else 0.0
        assert 0.5 * (less + chi2.sf(many, q)) == pytest.approx(CHANCE, rel=1e-2)
        less = f.sf(few / (q - 1), q - 1, 20.0) if q > 1 else 0.0
        assert 0.5 * (less + f.sf(few / q, q, 20.0)) == pytest.approx(CHANCE, rel=1e-6)
        assert few > many
    assert pull_limit(0, MANY) == pull_limit(1, MANY) < pull_limit(2, MANY) < pull_limit(3, MANY) < 16.0


def test_an_estimate_inside_the_bounds_is_not_pulled() -> None:
    told = estimate(inside(), sizes())
    pull = pulled(told)
    assert pull is not None and pull.value < 1e-3 < pull.limit and pull.directions == 1


def test_a_rotor_four_deviations_below_zero_is_no_chance_and_two_are() -> None:
    """One bound, one direction: the squared distance is that of the one parameter."""
    k = MODEL.names.index("IA8")
    deviations = sizes()
    for away, refused in ((2.0, False), (4.0, True)):
        values = inside()
        values[k] = -away * deviations[k]
        told = estimate(values, deviations)
        pull = pulled(told)
        assert pull is not None and (pull.value > pull.limit) == refused
        assert pull.value == pytest.approx(away**2, rel=0.05)
        assert not refused or (pull.worst == "IA8" and pull.directions == 1 and "IA8 is moved most" in pull.detail)


def test_several_small_pulls_add_up_though_each_alone_is_chance() -> None:
    deviations, values = sizes(), inside()
    rotors = [k for k, name in enumerate(MODEL.names) if name.startswith("IA")]
    values[rotors] = -2.5 * deviations[rotors]
    told = estimate(values, deviations)
    pull = pulled(told)
    assert pull is not None and pull.directions == len(rotors)
    assert pull.by < 3.0 and pull.value == pytest.approx(6.25 * len(rotors), rel=0.05) and pull.value > pull.limit


@pytest.mark.slow
def test_draws_of_an_arm_on_its_bounds_are_below_the_limit() -> None:
    """Rotors of no inertia, the worst case: of 40 estimates none is pulled beyond what one in a thousand is."""
    random, deviations, values = np.random.default_rng(4), sizes(), inside()
    rotors = [k for k, name in enumerate(MODEL.names) if name.startswith("IA")]
    values[rotors] = 1e-6
    pulls = []
    for _ in range(40):
        told = estimate(values + deviations * random.standard_normal(len(values)), deviations)
        pulls.append(pulled(told))
    assert all(one is not None and one.value <= one.limit for one in pulls)
    assert max(one.value for one in pulls if one is not None) > chi2.isf(0.5, len(rotors) / 2)


def test_without_covariance_no_pull_is_reported() -> None:
    told = BaseParameters(MODEL.names, inside())
    assert pulled(told) is None


def test_bounds_of_inertia_count_as_directions_where_a_link_is_thin() -> None:
    problem = ConsistentProblem(MODEL, MODEL.limits(BOUNDS))
    by_x = MODEL.regrouping.K * problem.units
    assert directions_at_bounds(problem, by_x, ROOMY / problem.units) == 0
    thin = np.array(ROOMY)
    thin[10 * MODEL.chain_size - 10 : 10 * MODEL.chain_size - 4] = 0.0  # the last link without inertia
    assert directions_at_bounds(problem, by_x, thin / problem.units) >= 1
