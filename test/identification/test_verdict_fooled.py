"""Faulty recordings of any kind: a verdict or one sentence, never a traceback."""

import json
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recordings import recorded

from dynid.errors import DynidError
from dynid.identification.estimators.regression import Regression
from dynid.identification.estimators.table import ESTIMATORS
from dynid.identification.pipeline import identify
from dynid.identification.settings import FrictionStructure, load_identification
from dynid.model.dynamics import ArmModel
from dynid.robot import FloatArray, Robot, Structure, load_robot

PLANAR, CRANE = load_robot("planar_3r"), load_robot("crane_x7")
SETTINGS = load_identification(PLANAR)
FLAGS = ("products_of_inertia", "rotor_inertia", "viscous_friction", "coulomb_friction", "friction_offset")


def with_structure(robot: Robot, **flags: bool) -> Robot:
    structure = Structure.model_validate(robot.file.structure.model_dump() | flags)
    return Robot(robot.file.model_copy(update={"structure": structure}), robot.folder)


@pytest.mark.slow
@pytest.mark.parametrize("flipped", range(8))
@pytest.mark.parametrize("estimator", sorted(ESTIMATORS))
def test_friction_is_at_its_bound_for_joints_of_wrong_sign(flipped: int, estimator: str) -> None:
    """FC among the base parameters; a joint whose torque has the wrong sign holds its FC at zero."""
    down = np.array([bool(flipped >> k & 1) for k in range(3)])
    data = recorded(PLANAR, seconds=8.0, coulomb=0.5, torques=lambda tau: np.where(down, -tau, tau))
    model, samples = ArmModel.of(PLANAR), data.samples(SETTINGS)
    regression = Regression.of(model, samples, SETTINGS.coulomb_friction)
    solution = regression.solve()
    held = np.array([solution.phi[model.names.index(f"FC{k + 1}")] for k in range(3)]) <= 1e-9
    np.testing.assert_array_equal(held, down)
    spread = regression.spread(solution)
    assert spread.shape == (len(model.names),) * 2
    assert np.isfinite(spread).all() and (np.diag(spread) >= 0.0).all()
    try:
        found = ESTIMATORS[estimator]().estimate(model, samples, SETTINGS.coulomb_friction)
        assert found.base.names == model.names and np.isfinite(found.base.values).all()
    except DynidError as error:
        assert str(error) and "\n" not in str(error)


def test_the_metric_is_that_of_all_base_parameters() -> None:
    """|| R (phi - found) || is what phi adds to the weighted squares, but for the slope at a bound."""
    data = recorded(PLANAR, seconds=8.0, coulomb=0.5, torques=lambda tau: tau * [-1.0, 1.0, 1.0])
    model = ArmModel.of(PLANAR)
    regression = Regression.of(model, data.samples(SETTINGS), SETTINGS.coulomb_friction)
    found = regression.solve()
    step = 0.1 * np.random.default_rng(1).normal(size=len(found.phi))
    assert regression.trust is not None
    expected = np.sum((regression.trust * (regression.W @ step)) ** 2)
    assert np.sum((found.metric @ step) ** 2) == pytest.approx(expected, rel=1e-9)


def judged(robot: Robot, structure: str, signs: FloatArray, order: list[int], silent: int) -> None:
    own = load_identification(robot)
    own = own.model_copy(
        update={
            "acceptance": own.acceptance.model_copy(update={"fresh_poses": 500}),
            "coulomb_friction": own.coulomb_friction.model_copy(update={"structure": structure}),
        }
    )

    def torques(tau: FloatArray) -> FloatArray:
        out = np.array((tau * signs)[:, order])
        if silent >= 0:
            out[:, silent] = 0.0
        return out

    data = recorded(robot, seconds=12.0, torques=torques)
    try:
        found = identify(robot, [data], settings=own, held_out_share=0.3)
        assert found.verdict.checks and found.verdict_json() and json.dumps(found.summary())
    except DynidError as error:
        assert str(error) and "\n" not in str(error)


@pytest.mark.slow
@settings(max_examples=12, deadline=None, derandomize=True)
@given(
    flags=st.fixed_dictionaries({name: st.booleans() for name in FLAGS}),
    structure=st.sampled_from([one for one in get_args(FrictionStructure) if one != "auto"]),
    signs=st.lists(st.sampled_from([1.0, -1.0]), min_size=3, max_size=3),
    order=st.permutations(range(3)),
    silent=st.integers(-2, 2),
)
def test_small_arm_with_wrong_data_gets_a_verdict(
    flags: dict[str, bool], structure: str, signs: list[float], order: list[int], silent: int
) -> None:
    judged(with_structure(PLANAR, **flags), structure, np.array(signs), list(order), silent)


@pytest.mark.study  # the promised layer has the small arm
@settings(max_examples=12, deadline=None, derandomize=True)
@given(
    coulomb=st.booleans(),
    structure=st.sampled_from(["viscous", "Coulomb-viscous", "load and Stribeck"]),
    signs=st.lists(st.sampled_from([1.0, -1.0]), min_size=8, max_size=8),
    order=st.permutations(range(8)),
    silent=st.integers(-4, 7),
)
def test_crane_x7_with_wrong_data_gets_a_verdict(
    coulomb: bool, structure: str, signs: list[float], order: list[int], silent: int
) -> None:
    judged(with_structure(CRANE, coulomb_friction=coulomb), structure, np.array(signs), list(order), silent)
