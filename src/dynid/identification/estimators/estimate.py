"""What every estimator of base parameters takes and gives."""

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
    """Outcome of an estimation.

    Attributes:
        base: base parameters with covariance.
        errors: torque errors on the data used.
        residual_sigma: standard deviation of each axis's residual, (n,) [N m].
        condition_number: kappa of the stacked regressor, largest over smallest singular value, not scaled.
        weakest: the parameters that dominate the combination which the motion shows least; they limit kappa.
        rank: numerical rank of the stacked regressor with columns scaled to unit length.
        method: name of the estimator.
        settings: what it ran with.
        friction: estimated beside the base parameters; None where it was ignored.
        metric: R (p, p) of the problem that was solved: || R (phi - base) || is the weighted torque error that phi adds
            to the fit; a projection is nearest in it. Of "essential" it is that of ordinary least squares.
        regression: that was solved.
        standard: consistent standard parameters, of which `base` is K pi; None where the estimator gives none.
        belief: base parameters and Coulomb friction beside them with their covariance; None where it is not known.
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
    """The estimate that a solution with these row weights (N n,) is; `inflation` as in `Regression.spread`."""
    if weights is not None:  # what belongs to the result later is of the weighted problem, too
        regression = replace(regression, row_weights=weights)
        solution = regression.weighted_solution
    tau = regression.torques
    residual = regression.residual(solution.phi, solution.friction)
    kappa, weakest = regression.conditioning()
    friction, count = None, int(solution.sliding.sum())
    spread = regression.spread(solution, weights, inflation)
    if regression.beside is not None and solution.friction is not None:
        friction = regression.beside.law(solution.friction, regression.friction_deviations(solution, spread))
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
    """What the data say of base parameters and of every axis's own Coulomb friction, with the covariance (k, k) of
    friction that is not held at a bound and base parameters. All else of friction is marginalised."""
    count, size = regression.friction_size, len(regression.names)
    kept = np.flatnonzero(np.append(solution.sliding[:count], np.ones(size, dtype=bool)))
    covariance = np.zeros((count + size, count + size))
    covariance[np.ix_(kept, kept)] = spread
    names, values, chosen = list(regression.names), solution.phi.tolist(), [*range(count, count + size)]
    if regression.beside is not None and solution.friction is not None:
        parameters = regression.beside.parameters
        own = [k for k, one in enumerate(parameters) if one.term == FB and len(one.axes) == 1]
        names = [f"FC{parameters[k].axes[0] + 1}" for k in own] + names
        values, chosen = solution.friction[own].tolist() + values, own + chosen
    return Belief(tuple(names), read_only(values), read_only(covariance[np.ix_(chosen, chosen)]))


class Estimator(Protocol):
    """Estimates base parameters from samples. `ArmModel` says which parameters, `Samples` are filtered states."""

    @property
    def name(self) -> str:
        """The name under which it is chosen and recorded; a key of `table.ESTIMATORS`."""
        ...

    def estimate(
        self, model: ArmModel, samples: Samples, coulomb: CoulombSettings | None = None, known: KnownGears | None = None
    ) -> Estimate:
        """Base parameters of `model` from `samples`.

        `coulomb` says how friction is treated, None ignores it; `known` is friction's fit to other samples, see
        `Regression.stack`.

        Raises:
            DataError: the samples do not determine the parameters; names those that they leave open.
        """
        ...
