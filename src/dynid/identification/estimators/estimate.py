"""Interface of all estimators of base parameters, and their result."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from dynid.identification.data.preprocessing import Samples
from dynid.identification.estimators.gear_fit import KnownGears
from dynid.identification.estimators.regression import Regression
from dynid.identification.estimators.solution import Solution
from dynid.identification.estimators.torque_errors import TorqueErrors, torque_errors
from dynid.identification.feasibility.belief import Belief
from dynid.identification.settings import CoulombSettings
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FB, FrictionLaw
from dynid.model.parameters import BaseParameters, StandardParameters
from dynid.robot import FloatArray, read_only


@dataclass(frozen=True, eq=False)
class Estimate:
    """Result of an estimation of base parameters.

    Attributes:
        base: base parameters with covariance.
        errors: torque errors on the samples of the fit.
        residual_sigma: standard deviation of each axis's residual, (n,) [N m].
        condition_number: kappa of the stacked regressor, largest over smallest singular value, not scaled.
        weakest: names of the parameters that dominate the least excited combination of parameters, which determines
            kappa.
        rank: numerical rank of the stacked regressor with columns scaled to unit length.
        method: name of the estimator.
        settings: settings of the estimator.
        friction: friction law, estimated in addition to the base parameters; None if friction was ignored.
        metric: R factor (p, p) of the regression rows. || R (phi - base) || is the weighted torque error that is added
            if the base parameters are phi instead of `base`. A projection of the estimate on physically consistent
            models minimises this distance. For the method "essential", the R factor is that of ordinary least squares.
        regression: the regression that was solved.
        standard: physically consistent standard parameters pi with `base` = K pi; None if the estimator does not
            compute them.
        belief: joint distribution of base parameters and additional Coulomb friction, with covariance; None if it is
            unknown.
    """

    base: BaseParameters
    errors: TorqueErrors
    residual_sigma: FloatArray
    condition_number: float
    rank: int
    method: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    weakest: tuple[str, ...] = ()
    friction: FrictionLaw | None = None
    metric: FloatArray = field(kw_only=True)
    regression: Regression = field(kw_only=True)
    standard: StandardParameters | None = None
    belief: Belief | None = None


def estimate_from(
    regression: Regression,
    method: str,
    solution: Solution,
    weights: FloatArray | None = None,
    inflation: float = 1.0,
    settings: Mapping[str, Any] | None = None,
) -> Estimate:
    """Return the `Estimate` (parameters with covariance, friction, torque errors) for a least-squares solution.

    Args:
        regression: the regression that was solved.
        method: name of the estimator.
        solution: least-squares solution of the regression with `weights`.
        weights: row weights (N n,); None weighs all rows equally.
        inflation: factor by which the inverse normal matrix is multiplied in the covariance; 1 for least squares.
        settings: settings of the estimator.
    """
    if weights is not None:  # later uses of the regression must solve the same weighted problem
        regression = replace(regression, row_weights=weights)
        solution = regression.weighted_solution
    tau = regression.torques
    residual = regression.residual(solution.phi, solution.friction)
    kappa, weakest = regression.conditioning()
    friction, count = None, int(solution.sliding.sum())
    spread = regression.spread(solution, weights, inflation)
    if regression.joint_friction is not None and solution.friction is not None:
        friction = regression.joint_friction.law(solution.friction, regression.friction_deviations(solution, spread))
    return Estimate(
        base=BaseParameters(regression.names, solution.phi, spread[count:, count:]),
        errors=torque_errors(tau, tau - regression.misfit(solution.phi, solution.friction), regression.dq),
        residual_sigma=read_only(regression.axis_sigma(residual)),
        condition_number=kappa,
        weakest=weakest,
        rank=len(regression.names),
        method=method,
        settings=settings or {},
        friction=friction,
        metric=read_only(solution.metric),
        regression=regression,
        belief=_belief(regression, solution, spread),
    )


def _belief(regression: Regression, solution: Solution, spread: FloatArray) -> Belief:
    """Return the distribution of base parameters and of additional Coulomb friction, with their joint covariance.

    A Coulomb friction parameter that several axes have in common is omitted. Other friction parameters are
    marginalised.

    Args:
        regression: the regression that was solved.
        solution: least-squares solution of the regression.
        spread: covariance (k, k) of base parameters and of friction parameters that are not at a bound.
    """
    count, size = regression.friction_size, len(regression.names)
    kept = np.flatnonzero(np.append(solution.sliding[:count], np.ones(size, dtype=bool)))
    covariance = np.zeros((count + size, count + size))
    covariance[np.ix_(kept, kept)] = spread
    names, values, chosen = list(regression.names), solution.phi.tolist(), [*range(count, count + size)]
    if regression.joint_friction is not None and solution.friction is not None:
        parameters = regression.joint_friction.parameters
        own = [k for k, one in enumerate(parameters) if one.term == FB and len(one.axes) == 1]
        names = [f"FC{parameters[k].axes[0] + 1}" for k in own] + names
        values, chosen = solution.friction[own].tolist() + values, own + chosen
    return Belief(tuple(names), read_only(values), read_only(covariance[np.ix_(chosen, chosen)]))


class Estimator(Protocol):
    """Interface of estimators of an arm's base parameters (`ArmModel`) from filtered states and torques (`Samples`)."""

    @property
    def name(self) -> str:
        """Name under which the estimator is chosen and recorded; a key of `table.ESTIMATORS`."""
        ...

    def estimate(
        self, model: ArmModel, samples: Samples, coulomb: CoulombSettings | None = None, known: KnownGears | None = None
    ) -> Estimate:
        """Return the base parameters of `model` estimated from `samples`.

        Args:
            model: model of the arm, which defines the parameters.
            samples: filtered states and torques.
            coulomb: how friction is treated; None ignores friction outside the base parameters, whatever `known` is.
            known: friction fitted to other samples, see `Regression.stack`; None fits friction to `samples`.

        Raises:
            DataError: if the samples do not determine the parameters; the message names the undetermined ones.
        """
        ...
