"""Readings near the data as given: one more unknown beside all parameters, and what it takes when it is set free.

Several joints' torques depend on the same parameters, so they contradict each other where one of them has another scale
than the rest, where a position has another zero, where torques are late against positions, or where gravity comes from
elsewhere. Each of these makes a column z of the regression, linearised at the fit:

    tau = W phi + C f + z x,    x = z' y / z' z

with z and the residual y freed of all that W and C can imitate, and of friction that builds up after a reversal, which
is late like delayed torques but says nothing of the links. x has a deviation, and what z' z is left of a column says
whether the motion shows such a fault at all: of a scale that all torques have in common it never does.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr, solve_triangular

from dynid.errors import DataError
from dynid.identification.data.preprocessing import Samples
from dynid.identification.estimators.regression import Regression
from dynid.identification.estimators.uncertainty import score_covariance
from dynid.model.drive import of_kinds
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray

KINDS = ("torque scale", "position zero", "position scale", "delay", "gravity")
STEP = 1e-4  # rad, for derivatives
HIDDEN = 1e-3  # of a column's length: what is left of it is rounding and no effect
BUILT_UP = (0.005, 0.03)  # rad or m, over which friction builds up after a reversal
RINGING = 1e-3  # of a row that a low-pass cuts out or adds beside a standstill: what has more is left out
BUILDS_UP = 2.0  # friction as large as the links' torques and slow to build up passes for so many limits of a delay
# Of what is left of a joint's torque, this part may look like the torque of its links: a motion that repeats itself
# repeats what no model has, too, so that no number of samples takes it away.
CHANCE = 0.2
ROUNDING = 1e-6  # of the torques' length, per rad or second: a column that is shorter is no effect either


@dataclass(frozen=True)
class Unknown:
    """One more unknown: what it is, of which axis, its estimate and deviation.

    Attributes:
        kind: one of `KINDS`.
        axis: counted from 0; of gravity, which of two directions across it; -1 of a delay of all.
        value: 0 is the data as given; [-], rad or s.
        deviation: of it; infinite where the motion does not show it.
        explained: part of the squared error that it takes away.
    """

    kind: str
    axis: int
    value: float
    deviation: float
    explained: float


@dataclass(frozen=True, eq=False)
class Columns:
    """Weighted columns z and residual y, freed of what the parameters can imitate.

    Attributes:
        kinds: with their axes, (m,).
        left: columns, (rows, m).
        y: residual, (rows,).
        seen: whether a column is more than rounding, (m,).
        axes: rows of one sample.
        interval_s: between samples [s].
    """

    kinds: tuple[tuple[str, int], ...]
    left: FloatArray
    y: FloatArray
    seen: NDArray[np.bool_]
    axes: int
    interval_s: float

    def scores(self, left: FloatArray, errors: FloatArray) -> FloatArray:
        """Covariance (m, m) of the sums of columns times errors, (rows, m) each, correlated in time."""
        summed = (left * errors).reshape(-1, self.axes, left.shape[1]).sum(axis=1)
        return np.asarray(score_covariance(summed, self.interval_s))

    def together(self, chosen: Sequence[int]) -> tuple[FloatArray, FloatArray]:
        """Values (k,) of chosen unknowns, estimated at once, and their covariance (k, k).

        Raises:
            DataError: the columns are not seen, or imitate each other.
        """
        left = self.left[:, list(chosen)]
        scale = np.where(self.seen[list(chosen)], np.linalg.norm(left, axis=0), 0.0)
        if not (scale > 0.0).all() or np.linalg.svd(left / scale, compute_uv=False)[-1] < HIDDEN:
            names = ", ".join(f"{kind} {axis + 1}" for kind, axis in (self.kinds[k] for k in chosen))
            raise DataError(f"the motion does not separate {names}: estimate fewer of them, or record another motion")
        inverse = np.linalg.inv(left.T @ left)
        values = inverse @ (left.T @ self.y)
        return values, inverse @ self.scores(left, (self.y - left @ values)[:, None]) @ inverse


def columns_beside(
    model: ArmModel, samples: Samples, regression: Regression, kinds: Collection[str] = KINDS
) -> Columns:
    """The columns of every unknown that is tried; arguments as of `unknowns`."""
    own, weights, y = weighted_residual(samples, regression)
    named, columns = _columns(model, samples, regression, regression.solve().phi, kinds)
    left = columns * weights[:, None]
    lengths = np.linalg.norm(left, axis=0)
    whole = beside(own, np.column_stack([left, y]))  # at once: what is beside them is decomposed once
    left, y = whole[:, :-1], whole[:, -1]
    # the zero of a joint about gravity's own direction changes no torque: its column is rounding alone
    least = np.maximum(HIDDEN * lengths, ROUNDING * float(np.linalg.norm(regression.tau * weights)))
    seen = np.linalg.norm(left, axis=0) > np.maximum(least, np.finfo(float).tiny)
    return Columns(tuple(named), left, y, seen, regression.axes, regression.interval_s)


def weighted_residual(samples: Samples, regression: Regression) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Weighted columns of all parameters and of friction that builds up (rows, k), weights and residual (rows,)."""
    solution = regression.solve()
    residual = regression.residual(solution.phi, solution.friction)
    weights = regression.weights(regression.axis_sigma(residual))
    if regression.share is not None:
        weights = weights * sliding(regression, len(samples)).ravel()  # what is cut out of a row is in no column here
    elif regression.trust is not None:
        weights = weights * regression.trust
    free = np.ones(regression.columns().shape[1], dtype=bool)
    free[: regression.friction_size] = solution.sliding[: regression.friction_size]
    own = np.concatenate([regression.columns()[:, free], _building_up(samples, regression)], axis=1)
    return own * weights[:, None], weights, residual.ravel() * weights


def unknowns(
    model: ArmModel, samples: Samples, regression: Regression, kinds: Collection[str] = KINDS
) -> tuple[Unknown, ...]:
    """Every unknown that is tried, each beside the parameters alone; for deviations of delays see `among_others` too.

    Args:
        model: the arm.
        samples: that were fitted.
        regression: of them.
        kinds: that are tried.
    """
    found = columns_beside(model, samples, regression, kinds)
    left, y, seen = found.left, found.y, found.seen
    strength = np.where(seen, (left**2).sum(axis=0), np.inf)
    values = left.T @ y / strength
    spread = np.sqrt(np.diag(found.scores(left, y[:, None] - left * values))) / strength
    if "torque scale" in kinds:
        unexplained = unexplained_share(samples, regression)
        spread = np.array(
            [
                np.hypot(own, CHANCE * unexplained[axis]) if kind == "torque scale" else own
                for (kind, axis), own in zip(found.kinds, spread, strict=True)
            ]
        )
    explained = values**2 * np.where(seen, strength, 0.0) / max(float(y @ y), np.finfo(float).tiny)
    return tuple(
        Unknown(kind, axis, float(value), float(deviation) if shown else np.inf, float(part))
        for (kind, axis), value, deviation, part, shown in zip(
            found.kinds, values, spread, explained, seen, strict=True
        )
    )


def among_others(delays: Sequence[Unknown]) -> tuple[Unknown, ...]:
    """Delays with deviations that count what the others show: of all torques first, then of each axis.

    That of all torques counts how far the axes disagree; to that of one axis the others' median is added.
    """
    common, *each = delays
    seen = [one for one in each if np.isfinite(one.deviation)]
    values, own = (np.array([getattr(one, name) for one in seen]) for name in ("value", "deviation"))
    usual = dict(zip([one.axis for one in seen], usual_of_others(np.maximum(0.0, np.abs(values) - own)), strict=True))
    return (
        replace(common, deviation=max(common.deviation, deviation_in_common(values, own))),
        *(replace(one, deviation=float(np.hypot(one.deviation, usual.get(one.axis, 0.0)))) for one in each),
    )


def deviation_in_common(values: FloatArray, deviations: FloatArray) -> float:
    """Deviation of what several estimates (n,) have in common, where they differ by more than their own deviations.

    A stamp is late for all joints alike; friction that is not in the model is late by another time for each. Random
    effects of DerSimonian and Laird (1986): the variance between them is what their scatter leaves over.
    """
    if len(values) == 0:
        return 0.0
    weights = 1.0 / np.maximum(deviations, np.finfo(float).tiny) ** 2
    mean, total = weights @ values / weights.sum(), float(weights.sum())
    scatter = float(weights @ (values - mean) ** 2) - (len(values) - 1)
    room = total - float((weights**2).sum()) / total
    between = max(0.0, scatter / room) if room > 0.0 else 0.0
    return float(np.sum(1.0 / (deviations**2 + between)) ** -0.5)


def usual_of_others(sizes: FloatArray) -> FloatArray:
    """The median of all others for each of several sizes, (n,): what one joint may have because the others have it."""
    if len(sizes) < 2:
        return np.zeros(len(sizes))
    return np.array([np.median(np.delete(sizes, k)) for k in range(len(sizes))])


def beside(own: FloatArray, columns: FloatArray) -> FloatArray:
    """What of columns (rows, m) the columns `own` (rows, k) do not span."""
    scale = np.linalg.norm(own, axis=0)
    own = own[:, scale > 0.0] / scale[scale > 0.0]
    R = qr(own, mode="r", check_finite=False)[0][: own.shape[1]]
    for _ in range(2):  # the second time takes off the rounding of the first
        inner = solve_triangular(R, own.T @ columns, trans="T")
        columns = columns - own @ solve_triangular(R, inner)
    return columns


def _columns(
    model: ArmModel, samples: Samples, regression: Regression, phi: FloatArray, chosen: Collection[str]
) -> tuple[list[tuple[str, int]], FloatArray]:
    """Kinds with their axes, and their columns (rows, m)."""
    rows = len(regression.tau) // regression.axes
    effects = _Effects(model, samples, regression, phi)
    named: list[tuple[str, int]] = []
    columns: list[FloatArray] = []
    for kind in (one for one in KINDS if one in chosen):
        for axis, values in effects.of(kind):
            whole = np.zeros((rows, regression.axes))
            whole[: len(values)] = values
            named.append((kind, axis))
            columns.append(whole.ravel())
    return named, np.stack(columns, axis=1)


class _Effects:
    """What a small unknown of a kind does to the torques (N, n), of each axis, linearised at phi (p,)."""

    def __init__(self, model: ArmModel, samples: Samples, regression: Regression, phi: FloatArray) -> None:
        self.model, self.samples, self.regression, self.phi = model, samples, regression, phi
        self.slides, self.base = sliding(regression, len(samples)), BaseParameters(model.names, phi)

    def of(self, kind: str) -> Iterator[tuple[int, FloatArray]]:
        """Axes with their effects."""
        table = {
            "torque scale": self._torque_scales,
            "position zero": self._position_zeros,
            "position scale": self._position_scales,
            "delay": self._delays,
            "gravity": self._tilts,
        }
        return table[kind]()

    def _torque_scales(self) -> Iterator[tuple[int, FloatArray]]:
        n = self.regression.axes
        links = (self.regression.W @ self.phi).reshape(-1, n)
        yield from ((axis, links * (np.arange(n) == axis)) for axis in range(n))

    @cached_property
    def _given(self) -> FloatArray:
        s = self.samples
        return self.model.inverse_dynamics(s.q, s.dq, s.ddq, self.base)

    def _position_zeros(self) -> Iterator[tuple[int, FloatArray]]:
        s = self.samples
        for axis in range(self.model.chain_size):
            moved = np.array(s.q)
            moved[:, axis] += STEP
            change = self.model.inverse_dynamics(moved, s.dq, s.ddq, self.base) - self._given
            yield axis, change / STEP * self.slides

    def _position_scales(self) -> Iterator[tuple[int, FloatArray]]:
        s = self.samples
        for axis in range(self.model.chain_size):
            longer = 1.0 + STEP * (np.arange(s.q.shape[1]) == axis)
            change = self.model.inverse_dynamics(s.q * longer, s.dq * longer, s.ddq * longer, self.base) - self._given
            yield axis, change / STEP * self.slides

    def _delays(self) -> Iterator[tuple[int, FloatArray]]:
        late = -_rate(self.samples, _links(self.regression, self.phi)) * self.slides
        yield -1, late
        n = self.regression.axes
        yield from ((axis, late * (np.arange(n) == axis)) for axis in range(n))

    def _tilts(self) -> Iterator[tuple[int, FloatArray]]:
        gravity = self.model.gravity
        size = float(np.linalg.norm(gravity))
        for k, direction in enumerate(across(gravity) if size else ()):
            yield k, self.model.gravity_torque(self.samples.q, self.base, size * direction) * self.slides


def _building_up(samples: Samples, regression: Regression) -> FloatArray:
    """Columns (rows, m) of friction that is not yet whole after a reversal: bristles, play, wind-up of a gear."""
    n, slides = regression.axes, sliding(regression, len(samples))
    gone = since_reversal(samples)
    columns = []
    for axis in range(n):
        for distance in BUILT_UP:
            whole = np.zeros((len(regression.tau) // n, n))
            missing = np.sign(samples.dq[:, axis]) * np.exp(-gone[:, axis] / distance)
            whole[: len(samples), axis] = missing * slides[:, axis]
            columns.append(whole.ravel())
    return np.stack(columns, axis=1)


def since_reversal(samples: Samples) -> FloatArray:
    """How far each joint is from where it last reversed, or from the start of its recording, (N, n) [rad or m]."""
    turned = np.sign(samples.dq[1:]) != np.sign(samples.dq[:-1])
    turned |= (np.diff(samples.time) <= 0.0)[:, None]
    places = np.zeros(samples.q.shape, dtype=np.int64)
    places[1:] = np.arange(1, len(samples))[:, None] * turned
    last = np.maximum.accumulate(places, axis=0)
    return np.asarray(np.abs(samples.q - np.take_along_axis(samples.q, last, axis=0)))


def sliding(regression: Regression, count: int) -> FloatArray:
    """Which states (N, n) make full rows of sliding joints: 1, else 0."""
    if regression.trust is None:
        return np.ones((count, regression.axes))
    full = regression.trust.reshape(-1, regression.axes)[:count] >= 1.0
    return np.asarray(full if regression.share is None else np.abs(regression.share - 1.0) < RINGING, dtype=np.float64)


def _links(regression: Regression, phi: FloatArray) -> FloatArray:
    """Torques of phi (p,) in all states, without dry friction, whose rate is none, (N, n) [N m]."""
    smooth = of_kinds(BaseParameters(regression.names, phi), ("FC", "FCM", "FS"), others=True).values
    return np.asarray(links_regressor(regression) @ smooth)


def links_regressor(regression: Regression) -> FloatArray:
    """The regressor of the base parameters without friction beside them, (N, n, p)."""
    if regression.beside is None:
        return regression.of_all_states
    return regression.beside.judged.rows.W


def unexplained_share(samples: Samples, regression: Regression) -> FloatArray:
    """What is left of each axis's torque in motion, over the torque of its links, (n,) [-]."""
    solution, at = regression.solve(), sliding(regression, len(samples)) > 0.0
    left = regression.residual(solution.phi, solution.friction)[: len(samples)]
    links = _links(regression, solution.phi)
    return np.array(
        [
            np.sqrt(np.mean(own[there] ** 2)) / max(float(np.std(link[there])), ROUNDING) if there.any() else np.inf
            for own, link, there in zip(left.T, links.T, at.T, strict=True)
        ]
    )


def doubt_of_delays(samples: Samples, regression: Regression) -> FloatArray:
    """By which the limit of each axis's own delay is multiplied, (n,): the more, the more of its torque is friction."""
    links = _links(regression, regression.solve().phi)
    dry = np.std(samples.tau - links, axis=0) / np.maximum(np.std(links, axis=0), ROUNDING)
    return np.asarray(1.0 + BUILDS_UP * dry)


def _rate(samples: Samples, torque: FloatArray) -> FloatArray:
    """Rates of torques (N, n) [N m/s], of each recording on its own."""
    starts = np.flatnonzero(np.diff(samples.time) <= 0.0) + 1
    parts = np.split(torque, starts), np.split(samples.time, starts)
    return np.concatenate([np.gradient(one, time, axis=0) for one, time in zip(*parts, strict=True)])


def across(gravity: FloatArray) -> FloatArray:
    """Two unit vectors (2, 3) across gravity and each other."""
    return np.asarray(np.linalg.svd(gravity[None, :])[2][1:])
