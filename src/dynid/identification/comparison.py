"""Comparison of estimators on the same data: torque errors on fitted and held-out data, feasibility, computing time.

ols, wls, huber           base parameters by ordinary, weighted or robust (Huber) least squares, without constraints
essential                 like wls, but parameters that the motion excites too little are set to zero
closest                   among all standard parameters that fit the torques equally well, those closest to a-priori
                          ones (Gautier and Venture 2013, eq. 30)
closest-essential         like closest, but only parameters that the motion excites well may change (eq. 32)
consistent, sequential    the best fit with physically consistent parameters, all joints at once or one after the other
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dynid.errors import DynidError, UnknownNameError
from dynid.identification.data.preprocessing import Samples
from dynid.identification.estimators.closest_standard import closest_standard, with_identified_drives
from dynid.identification.estimators.essential import essential_parameters, without_friction
from dynid.identification.estimators.gear_fit import KnownGears
from dynid.identification.estimators.regression import Regression
from dynid.identification.estimators.solved_torques import predicted_torques
from dynid.identification.estimators.table import ESTIMATORS, estimator
from dynid.identification.estimators.torque_errors import TorqueErrors, torque_errors
from dynid.identification.feasibility.quick_audit import quick_audit
from dynid.identification.nominal_prior import nominal_standard
from dynid.identification.prediction import relative_errors
from dynid.identification.settings import IdentificationSettings
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FrictionLaw
from dynid.model.parameters import BaseParameters, StandardParameters
from dynid.robot import Robot

POSES = 5_000  # random poses at which the eigenvalues of M are computed
CLOSEST, CLOSEST_ESSENTIAL = "closest", "closest-essential"


@dataclass(frozen=True, eq=False)
class Outcome:
    """Result of one estimator of the comparison.

    Attributes:
        base: base parameters.
        friction: friction law in addition to the base parameters; None if there is none.
        definite_links: number of links with a positive mass and a positive-definite inertia about the centre of mass;
            None if the estimator gives no standard parameters.
        consistent: whether the estimator guarantees physically consistent parameters.
    """

    base: BaseParameters
    friction: FrictionLaw | None = None
    definite_links: int | None = None
    consistent: bool = False


@dataclass(frozen=True, eq=False)
class Row:
    """Line of the comparison table: the result of one estimator and its errors.

    Attributes:
        name: name of the estimator.
        seconds: computing time of the estimation [s].
        failure: reason why the estimator failed; "" if there is a result.
        parameters: number of base parameters that are not zero.
        in_sample: torque errors on the fitted data.
        out_of_sample: torque errors on held-out data; None without held-out data.
        lambda_min: smallest eigenvalue of M(q) over random poses within the audit's position limits [kg m^2].
        outcome: result of the estimator; None if it failed.
    """

    name: str
    seconds: float
    failure: str = ""
    parameters: int = 0
    in_sample: TorqueErrors | None = None
    out_of_sample: TorqueErrors | None = None
    lambda_min: float = float("nan")
    outcome: Outcome | None = None

    @property
    def feasible(self) -> bool:
        """Whether the inertia matrix M(q) is positive definite at all audited poses, or everywhere by construction."""
        return self.outcome is not None and (self.outcome.consistent or self.lambda_min > 0.0)

    def as_dict(self, joints: tuple[str, ...]) -> dict[str, Any]:
        """Return the line of the comparison as plain values, with errors by joint name."""
        if self.outcome is None or self.in_sample is None:
            return {"failure": self.failure, "seconds": self.seconds}
        out = self.out_of_sample
        return {
            "parameters": self.parameters,
            "relative_torque_error": {
                "in_sample": relative_errors(self.in_sample, joints),
                "out_of_sample": None if out is None else relative_errors(out, joints),
            },
            "feasible": self.feasible,
            "consistent": self.outcome.consistent,
            "lambda_min_kg_m2": self.lambda_min,
            "definite_links": self.outcome.definite_links,
            "seconds": self.seconds,
        }


def a_priori(robot: Robot, model: ArmModel, base: BaseParameters) -> StandardParameters | None:
    """Return a-priori standard parameters of the links, with the identified values of the drives.

    The drives' values (friction and rotor inertia) come from `base`. The result is None if the robot's folder has no
    a-priori parameters.
    """
    links = nominal_standard(robot, model)
    return None if links is None else with_identified_drives(model, links, base)


class Comparison:
    """Estimators of one arm, fitted to one set of samples, with errors on these and on held-out samples.

    Args:
        robot: the robot.
        model: model of the arm, with the mount (orientation of its base) of the recordings.
        fitted: samples to which the estimators are fitted.
        held: held-out samples; None if there are none.
        settings: settings of the identification, of which only the treatment of friction is used.
    """

    def __init__(
        self, robot: Robot, model: ArmModel, fitted: Samples, held: Samples | None, settings: IdentificationSettings
    ) -> None:
        self.robot, self.model, self.fitted, self.held, self.settings = robot, model, fitted, held, settings

    @cached_property
    def _gears(self) -> KnownGears | None:
        """Structure and parameters of the friction law, fitted once and used by all estimators.

        None means that the base parameters contain all friction.
        """
        joint_friction = Regression.stack(self.model, self.fitted, self.settings.coulomb_friction).joint_friction
        return None if joint_friction is None else joint_friction.fit.known

    def names(self) -> tuple[str, ...]:
        """Return the names of all estimators that can be compared."""
        return (*sorted(ESTIMATORS), CLOSEST, CLOSEST_ESSENTIAL)

    def rows(self, names: Sequence[str] = ()) -> list[Row]:
        """Return one line of the comparison for each named estimator, or for all estimators if no name is given.

        Raises:
            UnknownNameError: a name is not an estimator.
        """
        for name in names:
            if name not in self.names():
                raise UnknownNameError("estimator", name, self.names())
        return [self._row(name) for name in names or self.names()]

    def _row(self, name: str) -> Row:
        begin = time.perf_counter()
        try:
            outcome = self._estimate(name)()
        except DynidError as error:  # an estimator that fails also gets a line
            return Row(name, time.perf_counter() - begin, str(error))
        seconds = time.perf_counter() - begin
        audited = quick_audit(self.model, outcome.base, self.robot.audit_lower, self.robot.audit_upper, poses=POSES)
        held = None if self.held is None else self._errors(outcome, self.held)
        return Row(
            name,
            seconds,
            parameters=int(np.count_nonzero(outcome.base.values)),
            in_sample=self._errors(outcome, self.fitted),
            out_of_sample=held,
            lambda_min=audited.lambda_min,
            outcome=outcome,
        )

    def _errors(self, outcome: Outcome, samples: Samples) -> TorqueErrors:
        predicted = predicted_torques(self.model, samples, outcome.base, outcome.friction)
        return torque_errors(samples.tau, predicted, samples.dq)

    def _estimate(self, name: str) -> Callable[[], Outcome]:
        own = {CLOSEST: self._closest, CLOSEST_ESSENTIAL: self._closest_essential}
        return own.get(name) or (lambda: self._registered(name))

    def _registered(self, name: str) -> Outcome:
        found = estimator(name).estimate(self.model, self.fitted, self.settings.coulomb_friction, self._gears)
        links = None if found.standard is None else self.model.chain_size
        return Outcome(found.base, found.friction, links, consistent=found.standard is not None)

    def _closest(self) -> Outcome:
        plain, friction, _ = without_friction(self.model, self.fitted, self.settings.coulomb_friction, self._gears)
        whole = essential_parameters(self.model, plain, np.inf)
        found = closest_standard(self.model, plain, a_priori(self.robot, self.model, whole.base))
        return Outcome(found.base, friction, found.definite_links[0.0], found.consistent)

    def _closest_essential(self) -> Outcome:
        plain, friction, _ = without_friction(self.model, self.fitted, self.settings.coulomb_friction, self._gears)
        essential = essential_parameters(self.model, plain)
        # friction and rotor inertias come from the essential parameters, because no a-priori values of them exist
        prior = a_priori(self.robot, self.model, essential.base)
        found = closest_standard(self.model, plain, prior, columns="essential", essential=essential)
        return Outcome(found.base, friction, found.definite_links[0.0], found.consistent)
