"""Fit of base parameters and a friction law to torques: Gauss-Newton with bounds, for any friction structure.

A friction structure is the set of terms that the friction law contains. Friction is linear in most of its parameters,
so a few Gauss-Newton steps suffice. It is not linear in the Stribeck velocity and exponent, nor in the parameters of
load-dependent friction, because this depends on the motor torque, which itself contains friction. Parameters that
follow from the geometry of a gear (load dependence, Stribeck shape) are common to all joints with the same servo.
Parameters that follow from the assembly of a gear (preload, grease) are separate for each joint.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg import qr

from dynid.identification.estimators.gear_rows import GearRows, Linearised, Predicted
from dynid.identification.estimators.prior_rows import prior_rows
from dynid.identification.estimators.triangles import bounded, triangle
from dynid.model.friction import AS, KM, KMS, SYMBOLS, TERMS, WS, FrictionLaw
from dynid.robot import FloatArray

BY_SERVO = ("km", "ke", "kms", "kes", "kmq", "keq", "ws", "a")
SHAPE_BOX = {WS: (0.1, 10.0), AS: (0.3, 3.0)}
SHAPE_START = {WS: 1.5, AS: 1.0}
SHAPE_STEP = 0.5  # largest change of a shape parameter's logarithm per step
MOST_LOAD = 0.95  # largest km + kms: a self-locking gear could not have been identified
NO_ERROR = 1e-4  # smallest residual relative to the torque: noise-free data must not get unbounded weights
FIRST_STANDING = 0.03  # initial weight of states near standstill, until their standard deviation is estimated
STEPS, SETTLED = 40, 5e-3  # most linearisations; largest last change of a prediction [standard deviations of torques]
RESOLVED = 0.04  # as SETTLED, if no shorter step is better: the squared error has kinks where loads change sign
ARMIJO = 0.25  # smallest accepted descent, relative to the descent that the slope predicts
SHORTER = (0.1, 0.5)  # limits of the factor by which a rejected step shrinks to the minimum of a parabola
LEAST_STEP = 0.01  # smallest fraction of a Gauss-Newton step that is tried: shorter ones gain only rounding errors


@dataclass(frozen=True)
class Parameter:
    """Friction parameter of one axis, or common to several axes.

    Attributes:
        term: index of the friction term in `dynid.model.friction.TERMS`.
        axes: indices of the axes to which the parameter applies, from 0.
        name: name, such as FC1+2 for the Coulomb friction of the first two axes.
    """

    term: int
    axes: tuple[int, ...]
    name: str

    @property
    def lower(self) -> float:
        """Lower bound of the friction parameter [SI unit]: 0, or -inf if the parameter may be negative."""
        return TERMS[self.term].lower

    @property
    def upper(self) -> float:
        """Upper bound of the friction parameter [SI unit]: `MOST_LOAD` for km and kms, inf for all others.

        km and kms are load-dependent friction torques as fractions of the motor torque.
        """
        return MOST_LOAD if self.term in (KM, KMS) else np.inf


@dataclass(frozen=True)
class Structure:
    """Friction structure: set of friction terms that are fitted in addition to the base parameters.

    Attributes:
        name: name of the structure.
        terms: symbols of the terms, such as "fb" for Coulomb friction.
        drift: whether friction may change over time. The drift, the relative change of friction per minute, is then
            a parameter.
        shared: symbols of the terms whose values are common to all joints with the same gear.
    """

    name: str
    terms: tuple[str, ...] = ()
    drift: bool = False
    shared: tuple[str, ...] = BY_SERVO

    def parameters(self, gears: Sequence[str]) -> tuple[Parameter, ...]:
        """Return the friction parameters of this structure for axes with the given gears.

        Axes with equal gear names have a common parameter for each term in `shared`. All other parameters belong to one
        axis.

        Args:
            gears: name of each axis's gear, (n,).
        """
        found = []
        for symbol in self.terms:
            term, shared = SYMBOLS.index(symbol), symbol in self.shared
            groups = [tuple(i for i, own in enumerate(gears) if own == name) for name in dict.fromkeys(gears)]
            for axes in groups if shared else [(i,) for i in range(len(gears))]:
                numbers = "+".join(str(i + 1) for i in axes)
                found.append(Parameter(term, axes, f"{TERMS[term].prefix}{numbers}"))
        return tuple(found)


@dataclass(frozen=True, eq=False)
class Point:
    """Linearisation point: base parameters (p,), friction law, and relative change (drift) of friction per minute."""

    phi: FloatArray
    law: FrictionLaw
    drift: float = 0.0


@dataclass(frozen=True, eq=False)
class KnownGears:
    """Friction structure and parameter values that were fitted before, usually to another recording of the same arm."""

    structure: Structure
    point: Point


@dataclass(frozen=True, eq=False)
class GearFit:
    """Least-squares fit of the base parameters phi together with the friction of one structure.

    Attributes:
        structure: structure of friction.
        parameters: friction parameters, (m,).
        point: the fitted values.
        rows: predicted torques at the fitted values, and their derivatives by all parameters.
        columns: derivatives of the torques by phi, by the friction parameters and, if `structure` has drift, by drift,
            (N, n, p + m (+ 1)).
        theta: fitted values of all parameters, in the order of the columns, (p + m (+ 1),).
        target: measured torques minus the linearised prediction at theta = 0, (N, n) [N m]; `columns` @ `theta`
            approximates it.
        settled: whether the fit has converged, so that a further step would hardly change the prediction.
        change: root-mean-square change of the prediction by a further step, in standard deviations of the torques.
    """

    structure: Structure
    parameters: tuple[Parameter, ...]
    point: Point
    rows: Linearised
    columns: FloatArray
    theta: FloatArray
    target: FloatArray
    settled: bool = False
    change: float = np.inf

    @property
    def known(self) -> KnownGears:
        """Friction structure and fitted parameter values, for reuse in fits to other recordings."""
        return KnownGears(self.structure, self.point)


def start_law(axes: int, transition_rad_s: float) -> FrictionLaw:
    """Return a friction law with zero friction, and with the initial Stribeck velocity and exponent of a fit.

    Args:
        axes: number of axes.
        transition_rad_s: transition velocity of the smoothed sign of velocities [rad/s].
    """
    return FrictionLaw.of(axes, {"ws": SHAPE_START[WS], "a": SHAPE_START[AS]}, transition_rad_s)


def stacked(rows: Linearised, parameters: Sequence[Parameter], drift: bool) -> FloatArray:
    """Return the derivatives of torques by base parameters, friction parameters and drift in one array, (N, n, k).

    Args:
        rows: predicted torques and their derivatives.
        parameters: the m friction parameters.
        drift: whether the last column is the derivative by the drift of friction; k is p + m, plus 1 with drift.
    """
    return side_by_side(rows.W, rows.friction, parameters, rows.drift if drift else None)


def side_by_side(
    W: FloatArray, friction: FloatArray, parameters: Sequence[Parameter], drift: FloatArray | None = None
) -> FloatArray:
    """Return the regressor columns of base parameters, friction parameters and drift in one array, (N, n, k).

    The column of a friction parameter contains the derivatives by its friction term at the axes to which the parameter
    applies, and zeros at all other axes.

    Args:
        W: derivatives of the torques by the base parameters, (N, n, p).
        friction: derivatives of each axis's torque by the friction terms of this axis, (N, n, terms).
        parameters: the m friction parameters.
        drift: derivatives by the drift of friction, (N, n); None omits this column.
    """
    count, n, p = W.shape
    out = np.zeros((count, n, p + len(parameters) + (drift is not None)))
    out[..., :p] = W
    for k, one in enumerate(parameters):
        axes = list(one.axes)
        out[:, axes, p + k] = friction[:, axes, one.term]
    if drift is not None:
        out[..., -1] = drift
    return out


def with_parameters(law: FrictionLaw, parameters: Sequence[Parameter], values: FloatArray) -> FrictionLaw:
    """Return a copy of a friction law with new values (m,) of some parameters, limited to their bounds.

    km + kms is load-dependent friction as a fraction of the motor torque. If it exceeds `MOST_LOAD`, both are reduced,
    so that the gear is not self-locking.
    """
    figures = np.array(law.values)
    for one, value in zip(parameters, values, strict=True):
        low, high = SHAPE_BOX.get(one.term, (one.lower, np.inf))
        figures[one.term, list(one.axes)] = min(max(float(value), low), high)
    load = figures[KM] + figures[KMS]
    figures[[KM, KMS]] *= np.minimum(1.0, MOST_LOAD / np.maximum(load, MOST_LOAD))
    return replace(law, values=figures)


def conforming(point: Point, parameters: Sequence[Parameter], drift: bool) -> Point:
    """Return a linearisation point with only the given friction parameters, and with drift only if `drift` is True.

    A parameter of several axes becomes the mean of the values at these axes. Friction terms without a parameter become
    zero, except the Stribeck velocity and exponent.
    """
    law, means = point.law, [float(point.law.values[one.term, list(one.axes)].mean()) for one in parameters]
    figures = np.zeros_like(law.values)
    figures[[WS, AS]] = law.values[[WS, AS]]
    blank = replace(law, values=figures, deviations=None)
    return Point(point.phi, with_parameters(blank, parameters, np.array(means)), point.drift if drift else 0.0)


def between(one: Point, other: Point, share: float) -> Point:
    """Return a linear interpolation between two linearisation points: `one` at share 0, `other` at share 1.

    Base parameters, friction parameters and the drift of friction are interpolated. Both points must have the same set
    of friction terms.
    """
    law = replace(one.law, values=one.law.values + share * (other.law.values - one.law.values))
    return Point(one.phi + share * (other.phi - one.phi), law, one.drift + share * (other.drift - one.drift))


def values_of(point: Point, parameters: Sequence[Parameter], drift: bool) -> FloatArray:
    """Return base parameters, friction parameters and, if `drift`, drift of a point as a vector, (p + m (+ 1),)."""
    own = [float(point.law.values[one.term, one.axes[0]]) for one in parameters]
    return np.concatenate([point.phi, own, [point.drift] if drift else []])


@dataclass(frozen=True, eq=False)
class _Weighed:
    """Fit with row weights computed from its residuals; the weights stay fixed during the next Gauss-Newton step.

    Attributes:
        fit: the fit.
        residual: measured minus predicted torques, with states near standstill masked, (N, n) [N m].
        weights: weights of the residuals, (N, n) [1/(N m)].
        held: weight of each axis's torques near standstill, (n,) [1/(N m)].
        squares: sum of the squared weighted errors of all torques, both of moving joints and near standstill.
    """

    fit: GearFit
    residual: FloatArray
    weights: FloatArray
    held: FloatArray
    squares: float


class GearFitter:
    """Fitter of friction structures and base parameters to one set of regression rows.

    Args:
        rows: regression rows of all recordings, one equation per sample and axis.
        gears: name of every axis's gear, (n,); axes with equal names share parameters.
        trust: weights of the rows, (N, n); below 1 near standstill, where joints may stick.
        lower: lower bounds of the base parameters, (p,); -inf for unbounded ones.
        transition_rad_s: transition velocity of the smoothed sign of velocities [rad/s].
    """

    def __init__(
        self, rows: GearRows, gears: Sequence[str], trust: FloatArray, lower: FloatArray, transition_rad_s: float
    ) -> None:
        self.rows, self.gears, self.trust, self.lower = rows, tuple(gears), trust, lower
        self.transition_rad_s = transition_rad_s
        self._explicit_terms: set[int] = set()
        self._explicit_columns: FloatArray = np.zeros((*rows.target.shape, len(TERMS)))

    @cached_property
    def _standing(self) -> tuple[FloatArray, FloatArray]:
        """R factors of each axis's regression rows near standstill, (n, p + 1, p + 1), and the number of rows, (n,).

        The decomposed rows [W tau] contain the torques W per unit of the base parameters, and the measured torque tau.
        They do not contain friction.
        """
        W, tau = self.rows.standing
        size = W.shape[2] + 1
        R = np.zeros((W.shape[1], size, size))
        for j in range(W.shape[1]):
            rows = np.column_stack([W[:, j], tau[:, j]])
            R[j, : min(len(rows), size)] = qr(rows, mode="r", check_finite=False)[0][:size]
        count = np.clip(1.0 - self.rows.sliding_share, 0.0, 1.0).sum(axis=0)
        return R, np.asarray(np.maximum(count, 1.0))

    def standing_sigma(self, phi: FloatArray) -> FloatArray:
        """Return the rms difference between measured and predicted torques near standstill, (n,) [N m].

        The prediction consists of the torques W phi of the base parameters, without additional friction.

        Args:
            phi: base parameters, (p,).
        """
        R, count = self._standing
        return np.asarray(np.sqrt(np.sum((R[..., :-1] @ phi - R[..., -1]) ** 2, axis=1) / count))

    def standing_rows(self, weights: FloatArray, columns: int) -> FloatArray:
        """Return weighted regression rows of states near standstill, (k, columns + 1), with the torque as last column.

        The columns of the base parameters come first. The columns of friction are zero, because torques near standstill
        contain no information about friction.

        Args:
            weights: weight of each axis's rows, (n,).
            columns: number of columns of base parameters and friction together.
        """
        R, _ = self._standing
        out = np.zeros((R.shape[0], R.shape[1], columns + 1))
        out[..., : R.shape[2] - 1], out[..., -1] = R[..., :-1], R[..., -1]
        return np.asarray((weights[:, None, None] * out).reshape(-1, columns + 1))

    def begin(self, structure: Structure) -> Point:
        """Return an initial linearisation point for the fit of a friction structure.

        The point is the result of a linear fit, for which the Stribeck velocity and exponent have initial values, and
        the measured torques replace the unknown motor torques on which load-dependent friction depends.
        """
        law = start_law(len(self.gears), self.transition_rad_s)
        parameters = tuple(one for one in structure.parameters(self.gears) if TERMS[one.term].kind != "shape")
        columns = side_by_side(self.rows.sliding_W, self._explicit(law, {one.term for one in parameters}), parameters)
        lower, upper = self._bounds(parameters, False, None)
        held = np.full(len(self.gears), FIRST_STANDING)
        theta = self._solve(columns, self.rows.target, lower, upper, self.trust, held)
        p = len(self.lower)
        return Point(theta[:p], with_parameters(law, parameters, theta[p:]))

    def _explicit(self, law: FrictionLaw, terms: set[int]) -> FloatArray:
        """Return derivatives of torques by all friction terms `TERMS`, (N, n, number of terms).

        The measured torques are used as motor torques. The derivatives are computed only for requested terms, and
        cached. They are zero for terms that neither this call nor an earlier one requested.

        Args:
            law: friction law at which the derivatives are computed; because of the cache, the same in all calls.
            terms: the requested terms, as indices in `TERMS`.
        """
        if missing := sorted(terms - self._explicit_terms):
            self._explicit_columns = self._explicit_columns + self.rows.explicit(law, missing)
            self._explicit_terms |= terms
        return self._explicit_columns

    def fit(
        self,
        structure: Structure,
        start: "Point | GearFit | None" = None,
        steps: int = STEPS,
        enough: float = 0.0,
        rival: float = np.inf,
    ) -> GearFit:
        """Return the fit of a friction structure by Gauss-Newton.

        Args:
            structure: structure of friction.
            start: initial parameter values, or a fit of the same structure to continue; None computes initial values by
                `begin`.
            steps: largest number of linearisations.
            enough: smallest relative reduction of the squared error by a step; the iteration ends after a smaller one.
            rival: `misfit` of a competing fit. The iteration ends as soon as this value cannot be reached, even if all
                remaining steps reduce the misfit as much as the last one.
        """
        if isinstance(start, GearFit):
            here = self._weighed(start)
        else:
            point = conforming(start or self.begin(structure), structure.parameters(self.gears), structure.drift)
            here = self._weighed(self._linearised(structure, point, None))
        left, share = steps - 1, 1.0
        while left > 0 or not enough:  # with `enough`, a later call continues the fit until it has settled
            there, slope, change = self._step(here)
            if change < SETTLED or left <= 0:
                return replace(here.fit, settled=change < SETTLED, change=change)
            found, share, used = self._descended(here, there, slope, min(1.0, 2.0 * share), left)
            left -= used
            if found is None:
                return replace(here.fit, settled=change < RESOLVED and left > 0, change=change)
            gained = self.misfit(here.fit) - self.misfit(found)
            slow = self._squares(here, found.rows.tau, found.point.phi) > (1.0 - enough) * here.squares
            slow |= self.misfit(found) - left * gained > rival
            here = self._weighed(found)
            if (enough or rival < np.inf) and slow:
                break
        return here.fit

    def _weighed(self, fit: GearFit) -> "_Weighed":
        """Return a fit with row weights computed from its residuals, for the next Gauss-Newton step."""
        residual = self.rows.target - fit.rows.tau
        sigma = self.sigma(residual)
        weights, held = self.trust / sigma, 1.0 / np.maximum(sigma, self.standing_sigma(fit.point.phi))
        own = _Weighed(fit, residual, weights, held, 0.0)
        return replace(own, squares=self._squares(own, fit.rows.tau, fit.point.phi))

    def _squares(self, here: "_Weighed", tau: FloatArray, phi: FloatArray) -> float:
        """Return the weighted sum of squared torque errors of moving joints and of states near standstill.

        Args:
            here: fit whose weights are used.
            tau: predicted torques of moving joints, (N, n) [N m].
            phi: base parameters (p,), which predict the torques near standstill.
        """
        residual = self.rows.target - tau
        standing = (here.held * self.standing_sigma(phi)) ** 2 @ self._standing[1]
        return float(np.sum((residual * here.weights) ** 2) + standing)

    def _step(self, here: "_Weighed") -> tuple[Point, float, float]:
        """Return the point after a full Gauss-Newton step, the slope of the squared error, and the prediction's change.

        The slope is the derivative of the squared error by the fraction of the step, at the start of the step. The
        change of the predicted torques is the root mean square over all rows, in standard deviations of the torques.
        """
        fit, phi = here.fit, here.fit.point.phi
        p, count = len(phi), len(fit.parameters)
        lower, upper = self._bounds(fit.parameters, fit.structure.drift, fit.theta[p:])
        found = self._solve(fit.columns, fit.target, lower, upper, here.weights, here.held)
        law = with_parameters(fit.point.law, fit.parameters, found[p : p + count])
        there = Point(found[:p], law, float(found[-1]) if fit.structure.drift else 0.0)
        way = (fit.columns @ (values_of(there, fit.parameters, fit.structure.drift) - fit.theta)) * here.weights
        R, _ = self._standing
        left, moved = R[..., -1] - R[..., :-1] @ phi, R[..., :-1] @ (there.phi - phi)
        slope = -2.0 * float(np.sum(here.residual * here.weights * way) + here.held**2 @ np.sum(left * moved, axis=1))
        return there, slope, float(np.sqrt(np.mean(way**2)))

    def _descended(
        self, here: "_Weighed", there: Point, slope: float, share: float, tries: int
    ) -> tuple[GearFit | None, float, int]:
        """Return the fit after a line search along a Gauss-Newton step, the accepted fraction, and the number of tries.

        The fit is None if no tried fraction reduces the squared error by `ARMIJO` times the reduction that the slope
        predicts.

        Args:
            here: current fit.
            there: point after a full step.
            slope: derivative of the squared error by the fraction of the step.
            share: fraction of the step that is tried first.
            tries: largest number of tries.
        """
        for used in range(1, tries + 1):
            point = between(here.fit.point, there, share)
            predicted = self._predicted(point, here.fit.rows.tm)
            squares = self._squares(here, predicted.tau, point.phi)
            if squares <= here.squares + ARMIJO * share * slope:
                return self._derived(here.fit.structure, point, predicted), share, used
            bend = squares - here.squares - share * slope
            share *= float(np.clip(-0.5 * share * slope / bend, *SHORTER)) if bend > 0.0 else SHORTER[0]
            if share < LEAST_STEP:
                break
        return None, share, used

    def linearised(self, known: KnownGears) -> GearFit:
        """Return a `GearFit` with torques linearised at known friction and base parameters; nothing is fitted."""
        parameters, drift = known.structure.parameters(self.gears), known.structure.drift
        return self._linearised(known.structure, conforming(known.point, parameters, drift), None)

    def _linearised(self, structure: Structure, point: Point, guess: tuple[FloatArray, ...] | None) -> GearFit:
        """Return a `GearFit` with the torques of moving joints linearised at given parameter values; nothing is fitted.

        Args:
            structure: friction structure of the point.
            point: base parameters and friction law.
            guess: motor torques from which their iterative solution starts, for each recording, (M, n) [N m]; None
                starts from the measured torques.
        """
        return self._derived(structure, point, self._predicted(point, guess))

    def _predicted(self, point: Point, guess: tuple[FloatArray, ...] | None) -> Predicted:
        """Return the torques of moving joints that given parameter values predict.

        Args:
            point: base parameters and friction law.
            guess: motor torques from which their iterative solution starts, for each recording, (M, n) [N m]; None
                starts from the measured torques.
        """
        return self.rows.predict(point.phi, point.law, point.drift, guess, sticking=False)

    def _derived(self, structure: Structure, point: Point, predicted: Predicted) -> GearFit:
        """Return a `GearFit` from torques that were predicted at given parameter values, with their derivatives.

        Args:
            structure: friction structure of the point.
            point: base parameters and friction law.
            predicted: torques of moving joints predicted at this point.
        """
        parameters, drift = structure.parameters(self.gears), structure.drift
        rows = self.rows.derived(predicted, sorted({one.term for one in parameters}))
        columns, theta = stacked(rows, parameters, drift), values_of(point, parameters, drift)
        target = self.rows.target - rows.tau + columns @ theta
        return GearFit(structure, parameters, point, rows, columns, theta, target)

    def with_all_states(self, fit: GearFit) -> GearFit:
        """Return a copy of a fit whose rows and derivatives also include states near standstill.

        The parameters are unchanged.
        """
        point, terms = fit.point, sorted({one.term for one in fit.parameters})
        rows = self.rows.linearise(point.phi, point.law, point.drift, fit.rows.tm, terms)
        columns = stacked(rows, fit.parameters, fit.structure.drift)
        target = self.rows.samples.tau - rows.tau + columns @ fit.theta
        return replace(fit, rows=rows, columns=columns, target=target)

    def sigma(self, left: FloatArray, least: float = NO_ERROR) -> FloatArray:
        """Return the root mean square of each axis's residual, with the fitter's row weights `trust`, (n,) [N m].

        Args:
            left: residual torques, (N, n) [N m].
            least: lower limit of the result, as a fraction of the root mean square of the axis's torque.
        """
        count = np.maximum((self.trust**2).sum(axis=0), 1.0)
        sigma, size = (np.sqrt(((x * self.trust) ** 2).sum(axis=0) / count) for x in (left, self.rows.target))
        return np.asarray(np.maximum(np.maximum(sigma, least * size), np.finfo(float).tiny))

    def misfit(self, fit: GearFit) -> float:
        """Return the misfit of a fit: the mean over all axes of the logarithm of an axis's mean squared torque error.

        Unlike weighted sums of squares, misfits are comparable between fits with different weights.
        """
        return _misfit(self.sigma(self.rows.target - fit.rows.tau))

    def _bounds(
        self, parameters: Sequence[Parameter], drift: bool, now: FloatArray | None
    ) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper bounds of base parameters, friction parameters and drift, (p + m (+ 1),) each.

        Args:
            parameters: the m friction parameters.
            drift: whether drift is a parameter.
            now: values of the friction parameters before the next Gauss-Newton step, (m,). The bounds of the Stribeck
                velocity and exponent are then those of `SHAPE_BOX`, and also limit the change of their logarithms to
                `SHAPE_STEP`. None omits both.
        """
        lower, upper = [], []
        for k, one in enumerate(parameters):
            if now is not None and one.term in SHAPE_BOX:
                low, high = SHAPE_BOX[one.term]
                lower.append(max(low, now[k] * np.exp(-SHAPE_STEP)))
                upper.append(min(high, now[k] * np.exp(SHAPE_STEP)))
            else:
                lower.append(one.lower)
                upper.append(one.upper)
        free = np.full(len(self.lower), np.inf)
        ends = ([-1.0], [1.0]) if drift else ([], [])
        return np.concatenate([self.lower, lower, ends[0]]), np.concatenate([free, upper, ends[1]])

    def _solve(
        self,
        columns: FloatArray,
        target: FloatArray,
        lower: FloatArray,
        upper: FloatArray,
        weights: FloatArray,
        held: FloatArray,
    ) -> FloatArray:
        """Return the least-squares solution within bounds, (k,), for rows of moving joints and rows near standstill.

        Args:
            columns: derivatives of the torques by all parameters, (N, n, k).
            target: torques to which the columns are fitted, (N, n) [N m].
            lower: lower bounds of the parameters, (k,).
            upper: upper bounds of the parameters, (k,).
            weights: weights of the rows of moving joints, (N, n).
            held: weights of each axis's rows near standstill, (n,).
        """
        size = columns.shape[2]
        joints = (
            np.column_stack([columns[:, j], target[:, j]]) * weights[:, j, None] for j in range(target.shape[1])
        )  # one axis after the other, so that its rows stay in the processor's cache
        more, prior = self.standing_rows(held, size), self.rows.samples.prior
        if prior is not None:
            more = np.concatenate([more, prior_rows(prior, 1.0, 0, size - len(self.lower))])
        return bounded(triangle(joints, more), lower, upper)


def _misfit(sigma: FloatArray) -> float:
    return float(np.mean(2.0 * np.log(sigma)))
