"""The fit of base parameters and a law of friction to torques: Gauss-Newton with bounds, the same for every structure.

Friction is linear in all of its parameters but the Stribeck velocity and exponent, and but for the motor torque that it
depends on; so a few steps do. What the gear's geometry decides (shares of load, shape) is one parameter for all joints
with the same servo, what its assembly decides (preload, grease) one for each joint.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr
from scipy.optimize import lsq_linear

from dynid.identification.estimators.gear_rows import GearRows, Linearised
from dynid.identification.estimators.triangles import triangle
from dynid.model.friction import AS, KM, KMS, SYMBOLS, TERMS, WS, FrictionLaw
from dynid.robot import FloatArray

BY_SERVO = ("km", "ke", "kms", "kes", "kmq", "keq", "ws", "a")
SHAPE_BOX = {WS: (0.1, 10.0), AS: (0.3, 3.0)}
SHAPE_START = {WS: 1.5, AS: 1.0}
SHAPE_STEP = 0.5  # of its logarithm at once
MOST_LOAD = 0.95  # of km + kms: what no motor moves has not been identified
NO_ERROR = 1e-4  # of the torque: noise-free data must not get weights without bounds
FIRST_STANDING = 0.03  # weight of standing states before their deviation is known
WORSE = 0.01  # by so much a step may enlarge the squares without being shortened
STEPS, SETTLED = 12, 3e-3  # of Gauss-Newton; a change of the prediction, in deviations of the torques


@dataclass(frozen=True)
class Parameter:
    """A parameter of friction: its term, and the axes that share it, counted from 0."""

    term: int
    axes: tuple[int, ...]
    name: str

    @property
    def lower(self) -> float:
        """Lower bound."""
        return TERMS[self.term].lower

    @property
    def upper(self) -> float:
        """Upper bound."""
        return MOST_LOAD if self.term in (KM, KMS) else np.inf


@dataclass(frozen=True)
class Structure:
    """Which terms friction has beside the base parameters.

    name: in words.
    terms: by symbol.
    drift: it may change in the course of time.
    shared: terms that joints with the same gear have in common.
    """

    name: str
    terms: tuple[str, ...] = ()
    drift: bool = False
    shared: tuple[str, ...] = BY_SERVO

    def parameters(self, gears: Sequence[str]) -> tuple[Parameter, ...]:
        """The parameters for axes with these gears, (n,); equal names share a gear's figures."""
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
    """Values at which a prediction is linearised: base parameters (p,), friction beside them, drift per minute."""

    phi: FloatArray
    law: FrictionLaw
    drift: float = 0.0


@dataclass(frozen=True, eq=False)
class KnownGears:
    """A structure of friction, and the values of a fit of it to some recording of the same arm."""

    structure: Structure
    point: Point


@dataclass(frozen=True, eq=False)
class GearFit:
    """A fit of one structure.

    Attributes:
        structure: of friction.
        parameters: of friction, (m,).
        point: the values found.
        rows: prediction and derivatives there.
        columns: derivatives by phi, the friction parameters and, with drift, by it, (N, n, p + m (+ 1)).
        theta: values in the order of the columns.
        target: torques less what the linear prediction has at theta = 0, (N, n): columns theta fits it.
        settled: whether a further step would change the prediction by next to nothing.
    """

    structure: Structure
    parameters: tuple[Parameter, ...]
    point: Point
    rows: Linearised
    columns: FloatArray
    theta: FloatArray
    target: FloatArray
    settled: bool = False

    @property
    def known(self) -> KnownGears:
        """What fits to other recordings take over."""
        return KnownGears(self.structure, self.point)


def start_law(axes: int, transition_rad_s: float) -> FrictionLaw:
    """Friction without any size, with a shape to begin from."""
    return FrictionLaw.of(axes, {"ws": SHAPE_START[WS], "a": SHAPE_START[AS]}, transition_rad_s)


def stacked(rows: Linearised, parameters: Sequence[Parameter], drift: bool) -> FloatArray:
    """Columns of phi, of the friction parameters and of drift, (N, n, columns)."""
    count, n, p = rows.W.shape
    out = np.zeros((count, n, p + len(parameters) + drift))
    out[..., :p] = rows.W
    for k, one in enumerate(parameters):
        axes = list(one.axes)
        out[:, axes, p + k] = rows.friction[:, axes, one.term]
    if drift:
        out[..., -1] = rows.drift
    return out


def with_parameters(law: FrictionLaw, parameters: Sequence[Parameter], values: FloatArray) -> FrictionLaw:
    """The law with these values (m,), kept where a gear can be moved."""
    figures = np.array(law.values)
    for one, value in zip(parameters, values, strict=True):
        low, high = SHAPE_BOX.get(one.term, (one.lower, np.inf))
        figures[one.term, list(one.axes)] = min(max(float(value), low), high)
    load = figures[KM] + figures[KMS]
    figures[[KM, KMS]] *= np.minimum(1.0, MOST_LOAD / np.maximum(load, MOST_LOAD))
    return replace(law, values=figures)


def conforming(point: Point, parameters: Sequence[Parameter], drift: bool) -> Point:
    """The nearest point that a structure with these parameters has: shared values are means, others nothing."""
    law, means = point.law, [float(point.law.values[one.term, list(one.axes)].mean()) for one in parameters]
    figures = np.zeros_like(law.values)
    figures[[WS, AS]] = law.values[[WS, AS]]
    blank = replace(law, values=figures, deviations=None)
    return Point(point.phi, with_parameters(blank, parameters, np.array(means)), point.drift if drift else 0.0)


def halfway(one: Point, other: Point) -> Point:
    """The point between two of one structure."""
    law = replace(one.law, values=0.5 * (one.law.values + other.law.values))
    return Point(0.5 * (one.phi + other.phi), law, 0.5 * (one.drift + other.drift))


def values_of(point: Point, parameters: Sequence[Parameter], drift: bool) -> FloatArray:
    """All parameters at a point, (m,), in the order of `stacked`."""
    own = [float(point.law.values[one.term, one.axes[0]]) for one in parameters]
    return np.concatenate([point.phi, own, [point.drift] if drift else []])


class GearFitter:
    """Fits structures of friction to the same rows.

    Args:
        rows: of all recordings.
        gears: name of every axis's gear, (n,); equal names share figures.
        trust: weights of the rows, (N, n).
        lower: bounds of the base parameters, (p,); -inf where there is none.
        transition_rad_s: of the sign of velocities.
    """

    def __init__(
        self, rows: GearRows, gears: Sequence[str], trust: FloatArray, lower: FloatArray, transition_rad_s: float
    ) -> None:
        self.rows, self.gears, self.trust, self.lower = rows, tuple(gears), trust, lower
        self.transition_rad_s = transition_rad_s

    @cached_property
    def _standing(self) -> tuple[FloatArray, FloatArray]:
        """Triangles R (n, p + 1, p + 1) of each axis's rows [W tau] of standing states, and how many rows they make."""
        W, tau = self.rows.standing
        size = W.shape[2] + 1
        R = np.zeros((W.shape[1], size, size))
        for j in range(W.shape[1]):
            rows = np.column_stack([W[:, j], tau[:, j]])
            R[j, : min(len(rows), size)] = qr(rows, mode="r", check_finite=False)[0][:size]
        count = np.clip(1.0 - self.rows.sliding_share, 0.0, 1.0).sum(axis=0)
        return R, np.asarray(np.maximum(count, 1.0))

    def standing_sigma(self, phi: FloatArray) -> FloatArray:
        """Deviation of the torques of standing states from those of phi without friction, (n,) [N m]."""
        R, count = self._standing
        return np.asarray(np.sqrt(np.sum((R[..., :-1] @ phi - R[..., -1]) ** 2, axis=1) / count))

    def standing_rows(self, weights: FloatArray, columns: int) -> FloatArray:
        """Rows (k, columns + 1) of standing states with axes' weights (n,): phi first, friction has no part in them."""
        R, _ = self._standing
        out = np.zeros((R.shape[0], R.shape[1], columns + 1))
        out[..., : R.shape[2] - 1], out[..., -1] = R[..., :-1], R[..., -1]
        return np.asarray((weights[:, None, None] * out).reshape(-1, columns + 1))

    def begin(self, structure: Structure) -> Point:
        """A first point, from the measured torques."""
        law = start_law(len(self.gears), self.transition_rad_s)
        parameters = tuple(one for one in structure.parameters(self.gears) if TERMS[one.term].kind != "shape")
        rows = self.rows.explicit(law, sorted({one.term for one in parameters}))
        columns = stacked(rows, parameters, False)
        lower, upper = self._bounds(parameters, False, None)
        held = np.full(len(self.gears), FIRST_STANDING)
        theta = self._solve(columns, self.rows.target, lower, upper, self.trust, held)
        p = rows.W.shape[2]
        return Point(theta[:p], with_parameters(law, parameters, theta[p:]))

    def fit(
        self,
        structure: Structure,
        start: Point | None = None,
        steps: int = STEPS,
        enough: float = 0.0,
        rival: float = np.inf,
    ) -> GearFit:
        """The fit of a structure by Gauss-Newton.

        Args:
            structure: of friction.
            start: from where; None begins from the measured torques.
            steps: at most.
            enough: once a step takes less than this share off the squared error, no other follows.
            rival: `misfit` of another fit: nor does one where all steps that are left, each as good as the last, would
                not reach it.
        """
        parameters = structure.parameters(self.gears)
        point, guess, tau = start or self.begin(structure), None, self.rows.target
        point = conforming(point, parameters, structure.drift)
        p = len(self.lower)
        terms, best, before = sorted({one.term for one in parameters}), np.inf, point
        weights: FloatArray | None = None
        misfit = np.inf
        for k in range(steps):
            rows = self.rows.linearise(point.phi, point.law, point.drift, guess, terms, sticking=False)
            left = tau - rows.tau
            squares = 0.0 if weights is None else float(np.sum((left * weights) ** 2))
            if squares > (1.0 + WORSE) * best:
                point = halfway(before, point)  # the step was too long for its straight line
                continue
            slow = squares > (1.0 - enough) * best
            before, sigma = point, self.sigma(left)
            last_misfit, misfit = misfit, _misfit(sigma)
            gained = last_misfit - misfit
            slow |= misfit - (steps - k - 1) * gained > rival
            weights = self.trust / sigma
            best = float(np.sum((left * weights) ** 2))
            columns, theta = stacked(rows, parameters, structure.drift), values_of(point, parameters, structure.drift)
            target = left + columns @ theta
            fit = GearFit(structure, parameters, point, rows, columns, theta, target)
            if enough and slow:
                return fit
            lower, upper = self._bounds(parameters, structure.drift, theta[p:])
            held = 1.0 / np.maximum(sigma, self.standing_sigma(point.phi))
            found = self._solve(columns, target, lower, upper, weights, held)
            law = with_parameters(point.law, parameters, found[p : p + len(parameters)])
            point = Point(found[:p], law, float(found[-1]) if structure.drift else 0.0)
            guess = rows.tm
            change = np.abs(columns @ (found - theta)) * weights
            if np.sqrt(np.mean(change**2)) < SETTLED:
                return replace(fit, settled=True)
        return fit

    def linearised(self, known: KnownGears) -> GearFit:
        """A structure at a point, without any step from it."""
        parameters, drift = known.structure.parameters(self.gears), known.structure.drift
        point = conforming(known.point, parameters, drift)
        terms = sorted({one.term for one in parameters})
        rows = self.rows.linearise(point.phi, point.law, point.drift, None, terms, sticking=False)
        columns, theta = stacked(rows, parameters, drift), values_of(point, parameters, drift)
        target = self.rows.target - rows.tau + columns @ theta
        return GearFit(known.structure, parameters, point, rows, columns, theta, target)

    def judged(self, fit: GearFit) -> GearFit:
        """The same fit with the rows and derivatives of all states, as a prediction is judged by them."""
        point, terms = fit.point, sorted({one.term for one in fit.parameters})
        rows = self.rows.linearise(point.phi, point.law, point.drift, fit.rows.tm, terms)
        columns = stacked(rows, fit.parameters, fit.structure.drift)
        target = self.rows.samples.tau - rows.tau + columns @ fit.theta
        return replace(fit, rows=rows, columns=columns, target=target)

    def sigma(self, left: FloatArray, least: float = NO_ERROR) -> FloatArray:
        """Deviation of each axis's trusted residual (N, n), (n,) [N m], but no less than a share of the torque."""
        count = np.maximum((self.trust**2).sum(axis=0), 1.0)
        sigma, size = (np.sqrt(((x * self.trust) ** 2).sum(axis=0) / count) for x in (left, self.rows.target))
        return np.asarray(np.maximum(np.maximum(sigma, least * size), np.finfo(float).tiny))

    def misfit(self, fit: GearFit) -> float:
        """Mean logarithm of the axes' squared errors, by which fits with different weights compare."""
        return _misfit(self.sigma(self.rows.target - fit.rows.tau))

    def _bounds(
        self, parameters: Sequence[Parameter], drift: bool, now: FloatArray | None
    ) -> tuple[FloatArray, FloatArray]:
        """Bounds of all parameters; shapes move by a limited step from where they are."""
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
        """Bounded least squares of rows with weights (N, n), and of standing states with axes' weights `held` (n,)."""
        size = columns.shape[2]
        rows = np.concatenate([columns, target[..., None]], axis=2) * weights[..., None]
        return bounded(triangle(rows, self.standing_rows(held, size)), lower, upper)


def _misfit(sigma: FloatArray) -> float:
    return float(np.mean(2.0 * np.log(sigma)))


def bounded(R: FloatArray, lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Minimiser within bounds (m,) from the triangle R (m + 1, m + 1) of [columns, target].

    Silent columns stay at a bound or 0.
    """
    scale = np.linalg.norm(R[:, :-1], axis=0)
    heard: NDArray[np.bool_] = scale > 1e-9 * scale.max()
    out = np.clip(np.zeros(len(scale)), lower, upper)
    limited = heard & (np.isfinite(lower) | np.isfinite(upper))
    free = heard & ~limited
    b = R[:, -1] - R[:, :-1][:, ~heard] @ out[~heard]
    # the columns without bounds go first: below their triangle stands the problem of the others alone
    count = int(free.sum())
    T = qr(
        np.column_stack([R[:, :-1][:, free], R[:, :-1][:, limited], b])
        / np.append(np.concatenate([scale[free], scale[limited]]), 1.0),
        mode="r",
        check_finite=False,
    )[0]
    x = np.zeros(T.shape[1] - 1)
    if limited.any():
        low, high = lower[limited] * scale[limited], upper[limited] * scale[limited]
        x[count:] = lsq_linear(T[count:, count:-1], T[count:, -1], (low, high), method="bvls", tol=1e-12).x
    left = T[:count, -1] - T[:count, count:-1] @ x[count:]
    x[:count] = np.linalg.lstsq(T[:count, :count], left, rcond=None)[0]
    out[free], out[limited] = x[:count] / scale[free], x[count:] / scale[limited]
    return np.clip(out, lower, upper)
