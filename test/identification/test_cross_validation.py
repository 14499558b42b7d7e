"""Cross-validation without a held-out motion: each block of time is predicted by a fit to all others."""

import numpy as np
import pytest
from recordings import motion, recorded

from dynid.identification.checks import HELD_OUT, judge
from dynid.identification.cross_validation import cross_validated
from dynid.identification.data.arrays import recording_from_arrays
from dynid.identification.data.recordings import Recording
from dynid.identification.data.sample_sets import join
from dynid.identification.estimators.estimate import Estimate
from dynid.identification.estimators.table import estimator
from dynid.identification.pipeline import identify
from dynid.identification.prediction import Motion
from dynid.identification.settings import load_identification
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray, load_robot

ROBOT = load_robot("aloha_class")
MODEL, SETTINGS = ArmModel.of(ROBOT), load_identification(ROBOT)
PLAIN = SETTINGS.coulomb_friction.model_copy(update={"structure": "Coulomb-viscous"})


def fitted(
    *sources: Recording, name: str = "wls"
) -> tuple[Estimate, list[Motion], tuple[Motion, ...], tuple[str, ...]]:
    """Estimate, fitted motions, cross-validated motions and parameters that one block alone determines."""
    portions = [one.portion("fitted", SETTINGS) for one in sources]
    estimate = estimator(name).estimate(MODEL, join([one.samples for one in portions]), PLAIN)
    regression = estimate.regression
    solution = regression.weighted_solution
    left = np.split(
        regression.misfit(solution.phi, solution.friction), np.cumsum([len(one.samples) for one in portions])[:-1]
    )
    motions = [Motion.of(one, one.samples.tau - own) for one, own in zip(portions, left, strict=True)]
    found = cross_validated(motions, portions, regression)
    return estimate, motions, found.motions, found.alone


def refitted(estimate: Estimate, count: int, block: FloatArray) -> FloatArray:
    """Torques (M, n) that least squares to all rows without a block predicts in it."""
    one = estimate.regression
    weights = one.row_weights * (1.0 if one.trust is None else one.trust)
    others = ~np.isin(np.repeat(np.arange(len(one.tau) // one.axes) % count, one.axes), block)
    free = np.append(one.weighted_solution.sliding, np.ones(len(one.names), dtype=bool))
    columns, fixed = one.columns()[:, free], one.weighted_solution.friction[~one.weighted_solution.sliding]
    assert not fixed.any(), "parameters at a bound are zero here"
    theta = np.linalg.lstsq((columns * weights[:, None])[others], (one.tau * weights)[others], rcond=None)[0]
    judged = one.judged_rows().reshape(count, one.axes, -1)[block]
    change = judged[..., :-1][..., free] @ theta
    return np.asarray(change + (one.torques[block] - judged[..., -1]))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ols", "wls", "huber"])
def test_blocks_are_predicted_as_by_a_fit_without_them(name: str) -> None:
    estimate, _, crossed, alone = fitted(recorded(ROBOT), recorded(ROBOT, seed=4, seconds=15.0), name=name)
    if estimate.regression.row_weights is None:
        estimate = Estimate(**{**vars(estimate), "regression": estimate.regression})
        object.__setattr__(estimate.regression, "row_weights", np.ones(len(estimate.regression.tau)))
    predicted = np.concatenate([one.predicted for one in crossed])
    blocks = np.array_split(np.arange(len(predicted)), 10)
    for block in (blocks[0], blocks[6]):
        expected = refitted(estimate, len(predicted), block)
        assert predicted[block] == pytest.approx(expected, abs=1e-6)
    assert alone == ()


def test_unseen_torques_are_predicted_worse_than_fitted_ones() -> None:
    """Four seconds of noisy torques: the fit passes, and what it predicts of the times it has not seen does not."""
    _, motions, crossed, _ = fitted(recorded(ROBOT, noise=0.8, seconds=4.0))
    limit = SETTINGS.acceptance.relative_torque_error
    assert motions[0].errors.moving < limit < crossed[0].errors.moving
    assert "torque_error_held_out" in {one.id for one in judge(HELD_OUT, crossed, SETTINGS).checks if not one.passed}
    assert crossed[0].kind == "cross-validated" and np.isnan(crossed[0].moved)


@pytest.mark.slow
def test_cross_validation_refuses_an_overfit() -> None:
    """A load for the last tenth of the time: the fit takes up part of it, and no other tenth shows it."""
    time, *states = motion(ROBOT, 25.0, 0)
    standard, last = MODEL.regrouping.standard, MODEL.chain_size
    body = MODEL.regrouping.K @ np.array([0.6 * (name == f"M{last}") for name in standard])
    load = MODEL.inverse_dynamics(*states, BaseParameters(MODEL.names, body)) * (time > 22.5)[:, None]
    good = identify(ROBOT, [recorded(ROBOT)])
    bad = identify(ROBOT, [recorded(ROBOT, torques=lambda tau: tau + load)])
    checks = [{one.name: one for one in result.verdict.checks} for result in (good, bad)]
    assert good.verdict.accepted and good.cross_validations and not good.validations
    own = "torque error over the noise of the data, made up, cross-validated"
    assert checks[0][own].passed and not checks[1][own].passed
    assert checks[1][own].value > 1.05 * checks[1]["torque error over the noise of the data, made up"].value


@pytest.mark.slow
def test_held_out_motions_judge_alone() -> None:
    result = identify(ROBOT, [recorded(ROBOT)], held_out_share=0.3)
    assert result.validations and not result.cross_validations
    assert not any("cross-validated" in one.name for one in result.verdict.checks)


def test_parameters_that_one_block_determines_are_named_and_not_judged() -> None:
    """The hand turns for a tenth of the time alone: no other block tells anything about its drive."""
    time, q, dq, ddq = motion(ROBOT, 25.0, 0)
    still = (time < 5.0) | (time > 7.4)
    q[still, -1] = np.where(time < 5.0, q[np.searchsorted(time, 5.0), -1], q[np.searchsorted(time, 7.4), -1])[still]
    dq[still, -1] = ddq[still, -1] = 0.0
    tau = MODEL.inverse_dynamics(q, dq, ddq, BaseParameters(MODEL.names, np.ones(len(MODEL.names)) * 0.05))
    tau += np.random.default_rng(0).normal(0.0, 0.01, tau.shape)
    _, _, crossed, alone = fitted(recording_from_arrays(ROBOT, time, q, tau, name="one turn"))
    hand = [name for name in alone if name.endswith(str(ROBOT.size))]
    assert hand and hand == list(alone)
    assert crossed[0].errors.moving < 0.2
