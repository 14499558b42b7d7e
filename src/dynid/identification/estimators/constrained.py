"""Estimators with physically consistent results, for all joints at once or for one joint at a time.

    consistent   the least-squares fit of all joints among physically consistent models, see `feasibility`
    sequential   one small semidefinite program per joint, the last joint first, for arms with many joints

If friction is estimated in addition to the base parameters, "consistent" eliminates the friction parameters from the
regression, and "sequential" first subtracts the estimated friction torques from the measured torques.
"""

from dataclasses import dataclass

from dynid.errors import ConfigurationError
from dynid.identification.data.preprocessing import Samples
from dynid.identification.estimators.essential import without_friction
from dynid.identification.estimators.estimate import Estimate
from dynid.identification.estimators.gear_fit import KnownGears
from dynid.identification.estimators.regression import Regression
from dynid.identification.estimators.sequential import sequential_fit
from dynid.identification.estimators.torque_errors import torque_errors
from dynid.identification.feasibility.consistent import consistent_projection
from dynid.identification.settings import CoulombSettings
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FrictionLaw
from dynid.model.parameters import BaseParameters, StandardParameters
from dynid.robot import PhysicalBounds, read_only


@dataclass(frozen=True)
class ConsistentLeastSquares:
    """Estimator by ordinary least squares among physically consistent models."""

    name: str = "consistent"

    def estimate(
        self, model: ArmModel, samples: Samples, coulomb: CoulombSettings | None = None, known: KnownGears | None = None
    ) -> Estimate:
        """Return the least-squares estimate among physically consistent models.

        Args:
            model: model of the arm, which defines the parameters.
            samples: filtered states and torques.
            coulomb: how friction is treated; None ignores it.
            known: friction fitted to other samples; None fits friction to `samples`.

        Raises:
            DataError: if the samples do not determine the parameters.
            InfeasibleError: if no consistent model satisfies the arm's physical bounds (robot.yaml).
            ConfigurationError: if the model has no physical bounds, or invalid ones.
        """
        bounds, regression = _bounds(model), Regression.of(model, samples, coulomb, known)
        fit = regression.solve()
        found = consistent_projection(model, BaseParameters(model.names, fit.phi), bounds, metric=fit.metric)
        friction = regression.friction_model(found.base.values)
        return _estimate(self.name, model, samples, regression, found.standard, friction)


@dataclass(frozen=True)
class SequentialPrograms:
    """Estimator of physically consistent parameters, with one semidefinite program per joint, the last joint first."""

    name: str = "sequential"

    def estimate(
        self, model: ArmModel, samples: Samples, coulomb: CoulombSettings | None = None, known: KnownGears | None = None
    ) -> Estimate:
        """Return physically consistent parameters, fitted one joint at a time from the last joint inward.

        Friction outside the base parameters is subtracted from the torques first.

        Args:
            model: model of the arm, which defines the parameters.
            samples: filtered states and torques.
            coulomb: how friction is treated; None ignores it.
            known: friction fitted to other samples; None fits friction to `samples`.

        Raises:
            DataError: if the samples do not determine the parameters.
            InfeasibleError: if no link satisfies the arm's physical bounds (robot.yaml), or the result is not
                physically consistent.
            ConfigurationError: if the model has no physical bounds, or no products of inertia.
        """
        plain, friction, regression = without_friction(model, samples, coulomb, known)
        found = sequential_fit(model, plain.low_passed(model.standard_regressor), plain.tau, _bounds(model))
        return _estimate(self.name, model, samples, regression, found.standard, friction)


def _bounds(model: ArmModel) -> PhysicalBounds:
    if model.bounds is None:
        raise ConfigurationError(
            "this model has no physical bounds, which a consistent fit needs: build the model from a robot"
        )
    return model.bounds


def _estimate(
    name: str,
    model: ArmModel,
    samples: Samples,
    regression: Regression,
    standard: StandardParameters,
    friction: FrictionLaw | None,
) -> Estimate:
    """Return the `Estimate` for given physically consistent standard parameters, without standard deviations.

    The standard deviations of an unconstrained fit would be wrong here if physical bounds change the result.

    Args:
        name: name of the estimator.
        model: model of the arm.
        samples: filtered states and torques.
        regression: regression of the samples.
        standard: the consistent standard parameters.
        friction: law of the friction that the base parameters do not contain; None if there is none.
    """
    base = model.base_parameters(standard)
    kappa, weakest = regression.conditioning()
    friction_values = regression.friction_given(base.values)
    residual = regression.residual(base.values, friction_values)
    return Estimate(
        base=base,
        errors=torque_errors(samples.tau, samples.tau - regression.misfit(base.values, friction_values), samples.dq),
        residual_sigma=read_only(regression.axis_sigma(residual)),
        condition_number=kappa,
        weakest=weakest,
        rank=len(model.names),
        method=name,
        friction=friction,
        metric=regression.solve().metric,
        regression=regression,
        standard=standard,
    )
