"""Estimators whose result some physical arm has: all joints at once, or one joint at a time from the last one inward.

    consistent   the least-squares fit among consistent models, see `feasibility` (design 5.3)
    sequential   one small program per joint, see `sequential`: for arms of many joints

Both take Coulomb friction off the torques first, where the structure has none, as `essential` does.
"""

from dataclasses import dataclass

from dynid.errors import ConfigurationError
from dynid.identification.coulomb import CoulombFriction
from dynid.identification.essential import without_friction
from dynid.identification.estimator import Estimate, register, torque_errors
from dynid.identification.feasibility import consistent_projection
from dynid.identification.preprocessing import Samples
from dynid.identification.regression import Regression
from dynid.identification.sequential import sequential_fit
from dynid.identification.settings import CoulombSettings
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters, StandardParameters
from dynid.robot import PhysicalBounds, read_only


@dataclass(frozen=True)
class ConsistentLeastSquares:
    """The ordinary least-squares fit among the models that some arm has."""

    name: str = "consistent"

    def estimate(self, model: ArmModel, samples: Samples, coulomb: CoulombSettings | None = None) -> Estimate:
        """See `Estimator.estimate`; also InfeasibleError where the bounds exclude every model."""
        bounds, regression = _bounds(model), Regression.of(model, samples, coulomb)
        fit = regression.solve()
        found = consistent_projection(model, BaseParameters(model.names, fit.phi), bounds, metric=fit.metric)
        friction = regression.friction_model(found.base.values)
        return _estimate(self.name, model, samples, regression, found.standard, friction)


@dataclass(frozen=True)
class SequentialPrograms:
    """One joint at a time, from the last one inward."""

    name: str = "sequential"

    def estimate(self, model: ArmModel, samples: Samples, coulomb: CoulombSettings | None = None) -> Estimate:
        """See `Estimator.estimate`; also InfeasibleError where the bounds exclude every model."""
        plain, friction = without_friction(model, samples, coulomb)
        found = sequential_fit(model, plain.seen(model.standard_regressor), plain.tau, _bounds(model))
        return _estimate(self.name, model, samples, Regression.of(model, samples, coulomb), found.standard, friction)


def _bounds(model: ArmModel) -> PhysicalBounds:
    if model.bounds is None:
        raise ConfigurationError("this model has no physical bounds, which a feasible fit needs: take it from a robot")
    return model.bounds


def _estimate(
    name: str, model: ArmModel, samples: Samples, regression: Regression, standard: StandardParameters,
    friction: CoulombFriction | None,
) -> Estimate:  # fmt: skip
    """A result without deviations: bounds that hold make them those of another problem."""
    base = model.base_parameters(standard)
    kappa, weakest = regression.conditioning()
    values = None if friction is None else friction.values
    residual = regression.residual(base.values, values)
    return Estimate(
        base=base, errors=torque_errors(samples.tau, samples.tau - residual),
        residual_sigma=read_only(regression.axis_sigma(residual)), condition_number=kappa, weakest=weakest,
        rank=len(model.names), method=name, friction=friction, metric=regression.solve().metric, regression=regression,
        standard=standard,
    )  # fmt: skip


register(ConsistentLeastSquares().name, ConsistentLeastSquares)
register(SequentialPrograms().name, SequentialPrograms)
