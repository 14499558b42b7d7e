"""Friction that the base parameters do not contain, as additional columns of a regression.

The columns are linearised at fitted parameter values. The parameters have prior standard deviations.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dynid.identification.estimators.discrepancy import friction_effects
from dynid.identification.estimators.gear_fit import SHAPE_BOX, GearFit, GearFitter, Parameter, stacked, with_parameters
from dynid.identification.estimators.gear_ladder import Ladder
from dynid.identification.estimators.lags import FoundDelay
from dynid.identification.estimators.play import FoundPlay
from dynid.model.friction import AS, TERMS, WS, FrictionLaw
from dynid.robot import FloatArray

# prior standard deviations of friction parameters by unit, of shape parameters, and of the relative change per minute
PRIOR = {"N*m*s/rad": 1.0, "N*m": 1.0, "1": 0.5, "1/(N*m)": 0.2}
PRIOR_SHAPE = {WS: 2.0, AS: 1.0}
PRIOR_DRIFT = 0.3
LOADS = ("km", "kms", "ke", "kes", "kmq", "keq")  # symbols of load-dependent friction terms


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Load-dependent friction terms that a friction structure does not contain.

    Attributes:
        columns: torques per unit of each missing parameter, with states near standstill masked, (N, n, k).
        judged: torques per unit of each missing parameter in all states, without the mask, (N, n, k).
        known: prior standard deviations of the missing parameters, (k,).
    """

    columns: FloatArray
    judged: FloatArray
    known: FloatArray

    @classmethod
    def of(cls, fitter: GearFitter, fit: GearFit) -> "LeftOut":
        """Return the load-dependent friction terms that the structure of `fit` lacks.

        Their torques are linearised at the parameter values of `fit`.

        Args:
            fitter: fitter of the rows.
            fit: fit of friction and base parameters.
        """
        terms = tuple(one for one in LOADS if one not in fit.structure.terms)
        parameters = replace(fit.structure, terms=terms).parameters(fitter.gears)
        wanted, point = sorted({one.term for one in parameters}), fit.point
        found = []
        for sticking in (False, True):
            rows = fitter.rows.linearise(point.phi, point.law, point.drift, fit.rows.tm, wanted, sticking=sticking)
            found.append(stacked(rows, parameters, False)[..., rows.W.shape[2] :])
        known = np.array([PRIOR[TERMS[one.term].unit] for one in parameters])
        return cls(found[0], found[1], known)


@dataclass(frozen=True, eq=False)
class JointFriction:
    """Friction outside the base parameters, linearised at fitted parameter values.

    Attributes:
        fit: fit of friction and base parameters together, with states near standstill masked.
        judged: copy of `fit` with the rows of all states, including those near standstill, from which errors of
            predicted torques are computed.
        ladder: comparison of friction structures (sets of friction terms) by which one was chosen; None if the
            structure was prescribed.
        play: backlash between joints and encoders; None if it was not estimated.
        delay: delay of torques behind positions; None if it was not estimated.
        given: whether friction was fitted to other samples than those of the regression.
        left_out: load-dependent friction that the structure does not contain; None if there is none.
        effects: torques (N, n, k) [N m] of effects that no parameter describes, each at its likely size. The effects
            are backlash that remains after the correction of the states, delay, and friction that the friction law
            lacks. None if they were not estimated.
    """

    fit: GearFit
    judged: GearFit
    ladder: Ladder | None = None
    play: FoundPlay | None = None
    delay: FoundDelay | None = None
    effects: FloatArray | None = None
    given: bool = False
    left_out: "LeftOut | None" = None

    @property
    def shape_note(self) -> str:
        """Sentence that names shape parameters of friction (Stribeck velocity, exponent) at a bound; "" if none is."""
        p = self.fit.rows.W.shape[2]
        ends = [
            f"{one.name} {value:.3g}"
            for one, value in zip(self.fit.parameters, self.fit.theta[p:].tolist(), strict=False)
            if one.term in SHAPE_BOX and (np.isclose(value, SHAPE_BOX[one.term]).any())
        ]
        if not ends:
            return ""
        return (
            f"the shape of friction ended at the bounds of what gears have: {', '.join(ends)}; friction may be of "
            "another kind, or the motion hardly shows its shape, so viscous and Coulomb friction may be off"
        )

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """Friction parameters that the linear regression estimates again: all except shape parameters.

        Shape parameters (Stribeck velocity and exponent) keep their fitted values. Drift, the change of friction over
        time, is not among the parameters; if there is drift, arrays of parameter values have it as last entry.
        """
        return tuple(one for one in self.fit.parameters if TERMS[one.term].kind != "shape")

    @cached_property
    def _shape(self) -> NDArray[np.bool_]:
        """Mask (k,) of the shape parameters (Stribeck velocity and exponent) among all friction parameters of the fit.

        If the friction drifts over time, the mask has an additional last entry for this drift, which is False.
        """
        drift = [False] * self.fit.structure.drift
        return np.array([TERMS[one.term].kind == "shape" for one in self.fit.parameters] + drift, dtype=bool)

    @cached_property
    def columns(self) -> FloatArray:
        """Regressor columns C: torques per unit of each friction parameter and of drift, (N, n, m).

        Shape parameters (Stribeck velocity and exponent) have no column.
        """
        return self.fit.columns[..., self.fit.rows.W.shape[2] :][..., ~self._shape]

    def with_discrepancy(self, fitter: GearFitter) -> "JointFriction":
        """Return a copy whose `effects` include friction that the friction law lacks.

        The size of this friction is estimated from the residuals of the fit.

        Args:
            fitter: fitter with the rows of the fit.
        """
        fit, rows = self.fit, fitter.rows
        residual = fit.target - fit.columns @ fit.theta
        own = [
            PRIOR_SHAPE[one.term] if one.term in PRIOR_SHAPE else PRIOR[TERMS[one.term].unit] for one in fit.parameters
        ]
        known = np.concatenate([np.full(fit.rows.W.shape[2], np.inf), own, [PRIOR_DRIFT] * fit.structure.drift])
        # a joint that never slid has no residual deviation, so its rows get no weight
        weights = np.where(rows.target.any(axis=0), fitter.trust / fitter.sigma(residual), 0.0)
        found = friction_effects(
            rows.samples.dq, rows.target - residual, fit.columns, residual, weights, known, fitter.transition_rad_s
        )
        lags = [one.effects for one in (self.play, self.delay) if one is not None]
        return replace(self, effects=np.concatenate([*lags, found], axis=2))

    @cached_property
    def shape_columns(self) -> tuple[FloatArray, FloatArray]:
        """Columns (N, n, k) and prior standard deviations (k,) of uncertain parameters that are not estimated.

        The parameters are the shape of friction (Stribeck velocity and exponent), and the load-dependent friction terms
        that the friction structure lacks. In slow motions, the data hardly distinguish these terms from masses. The
        columns, torques per unit of the parameters, enter the covariance of the estimate. Without them, the standard
        deviations of masses would be too small if the friction structure has few terms.
        """
        known = np.array([PRIOR_SHAPE[one.term] for one in self.fit.parameters if one.term in PRIOR_SHAPE])
        columns = self.fit.columns[..., self.fit.rows.W.shape[2] :][..., self._shape]
        if self.left_out is None:
            return columns, known
        return np.concatenate([columns, self.left_out.columns], axis=2), np.append(known, self.left_out.known)

    def judged_columns(self) -> FloatArray:
        """Return the torques per unit of each parameter in all states, including those near standstill, (N, n, k).

        The order is that of `Regression.whole_spread`: friction parameters, base parameters, then the columns of
        `shape_columns`.
        """
        columns, p = self.judged.columns, self.fit.rows.W.shape[2]
        friction = columns[..., p:]
        more = [] if self.left_out is None else [self.left_out.judged]
        own = [friction[..., ~self._shape], columns[..., :p], friction[..., self._shape]]
        return np.concatenate([*own, *more], axis=2)

    @property
    def known(self) -> FloatArray:
        """Prior standard deviations of the friction parameters, (m,); if the fit includes drift, its deviation is last.

        Drift is the relative change of friction per minute. Shape parameters (Stribeck velocity and exponent) are not
        included.
        """
        return np.array(
            [PRIOR[TERMS[one.term].unit] for one in self.parameters] + [PRIOR_DRIFT] * self.fit.structure.drift
        )

    @property
    def target(self) -> FloatArray:
        """Torques to which C f + W phi is fitted, (N, n) [N m].

        f are the friction parameters and phi the base parameters; C and W are the torques per unit of f and phi.
        """
        return self._less_shape(self.fit)

    def _less_shape(self, rows: GearFit) -> FloatArray:
        p = rows.rows.W.shape[2]
        return rows.target - rows.columns[..., p:][..., self._shape] @ rows.theta[p:][self._shape]

    def judged_rows(self) -> FloatArray:
        """Return the regression rows [C W tau] of all states, (N n, m + p + 1), including states near standstill.

        C and W are the torques per unit of the m friction parameters and the p base parameters, and tau is the torque.
        """
        p, columns = self.judged.rows.W.shape[2], self.judged.columns
        own = [columns[..., p:][..., ~self._shape], columns[..., :p], self._less_shape(self.judged)[..., None]]
        return np.concatenate(own, axis=2).reshape(columns.shape[0] * columns.shape[1], -1)

    def misfit(self, phi: FloatArray, values: FloatArray) -> FloatArray:
        """Return measured minus predicted torques of all states, (N, n) [N m], including states near standstill.

        Args:
            phi: base parameters, (p,).
            values: friction parameters, (m,); if the fit includes drift of friction over time, the drift is last.
        """
        p, columns = len(phi), self.judged.columns
        return self._less_shape(self.judged) - columns[..., :p] @ phi - columns[..., p:][..., ~self._shape] @ values

    @cached_property
    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Lower and upper bounds of the friction parameters, (m,) each; if the fit includes drift, its bounds are last.

        Drift is the relative change of friction per minute. Shape parameters (Stribeck velocity and exponent) are not
        included.
        """
        drift = [-1.0] * self.fit.structure.drift
        lower = np.array([one.lower for one in self.parameters] + drift)
        upper = np.array([one.upper for one in self.parameters] + [-one for one in drift])
        return lower, upper

    def law(self, values: FloatArray, deviations: FloatArray | None = None) -> FrictionLaw:
        """Return the friction law with given parameter values; its shape parameters keep their fitted values.

        Args:
            values: friction parameters except shape parameters (Stribeck velocity and exponent), (m,). If the fit
                includes drift, its value may follow; it is ignored.
            deviations: standard deviations of the parameters, in the same order; None if they are unknown.
        """
        law = with_parameters(self.fit.point.law, self.parameters, values[: len(self.parameters)])
        if deviations is None:
            return law
        known = np.full_like(law.values, np.nan)
        for one, deviation in zip(self.parameters, deviations, strict=False):
            known[one.term, list(one.axes)] = deviation
        return replace(law, deviations=known)
