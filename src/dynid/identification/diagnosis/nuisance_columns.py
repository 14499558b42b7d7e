"""Estimates of small faults in recorded data, each as an additional unknown of a regression.

The torques of several joints depend on the same parameters. The torques contradict each other if the data have one of
these faults: a wrong scale of a torque or position, an offset of a position, a delay of torques relative to positions,
or a wrong direction of gravity. Each fault gives a column z of the regression, linearised at the fit:

    tau = W phi + C f + z x,    x = z' y / z' z

tau are the torques, W phi those of the base parameters phi, C f those of additional friction, and x is the unknown. y
is the residual of the fit without z. Before x is computed, the projections of z and y on the columns of W and C are
subtracted. Friction that builds up after a reversal resembles delayed torques, so columns of this friction are part of
C here. The remaining length of z shows whether the motion reveals the fault at all. No motion reveals a common scale of
all torques.
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
STEP = 1e-4  # step of numerical derivatives [rad or m]
LEAST_REMAINDER = 1e-3  # share of a column's length, below which the remainder is rounding
BUILT_UP = (0.005, 0.03)  # distances after a reversal over which friction builds up [rad or m]
MOST_RINGING = 1e-3  # largest deviation of a row's share of sliding states from 1, near a standstill
BUILD_UP_FACTOR = 2.0  # growth of a delay's limit with friction over link torque, as slow friction resembles a delay
# Share of a joint's unexplained torque that may resemble its links' torque. A repeated motion also repeats effects
# that the model lacks, so more samples do not reduce this share.
CHANCE = 0.2
ROUNDING = 1e-6  # share of the torques' length, per rad or second, below which a column is rounding


@dataclass(frozen=True)
class Unknown:
    """Estimate of one possible fault of the data, fitted as the only unknown in addition to the parameters.

    Attributes:
        kind: one of `KINDS`.
        axis: index of the axis, from 0; for gravity, the index of the tilt direction in `perpendicular_axes`, 0 or 1;
            -1 for a delay of all axes.
        value: by kind. "torque scale": recorded torque / true torque - 1 [-]. "position scale": true position /
            recorded position - 1 [-]. "position zero": true minus recorded position [rad or m]. "delay": delay of the
            torques, positive if they are late [s]. "gravity": tangent of gravity's tilt towards the tilt direction [-].
        deviation: standard deviation of the value; infinite if the motion does not reveal the fault.
        explained: fraction of the fit's squared error that this unknown removes.
    """

    kind: str
    axis: int
    value: float
    deviation: float
    explained: float


@dataclass(frozen=True, eq=False)
class Columns:
    """Weighted regression columns of possible faults, and weighted residual, after projection.

    The projection removes the parts that the parameters can reproduce. A row is the torque equation of one axis at one
    sample.

    Attributes:
        kinds: kind (one of `KINDS`) and axis of the fault of each column, (m,).
        left: columns after the projection, (rows, m), any unit.
        y: residual after the projection, (rows,), any unit.
        seen: mask of the columns that are longer than rounding errors, so that the motion reveals the fault, (m,).
        axes: number of axes, which is the number of rows of one sample.
        interval_s: time between samples [s].
    """

    kinds: tuple[tuple[str, int], ...]
    left: FloatArray
    y: FloatArray
    seen: NDArray[np.bool_]
    axes: int
    interval_s: float

    def scores(self, left: FloatArray, errors: FloatArray) -> FloatArray:
        """Return the covariance (m, m) of the scores of all columns, any unit.

        The score of a column is the sum over all rows of the column's value multiplied by the error. The covariance
        accounts for correlated errors of neighbouring samples.

        Args:
            left: columns, (rows, m).
            errors: errors of the rows, (rows, m), or (rows, 1) for all columns.
        """
        summed = (left * errors).reshape(-1, self.axes, left.shape[1]).sum(axis=1)
        return np.asarray(score_covariance(summed, self.interval_s))

    def together(self, chosen: Sequence[int]) -> tuple[FloatArray, FloatArray]:
        """Return the values (k,) of several unknowns, estimated together, and their covariance (k, k), any unit.

        Args:
            chosen: indices of the unknowns' columns, (k,).

        Raises:
            DataError: a column is no longer than rounding errors, or the columns are linearly dependent.
        """
        left = self.left[:, list(chosen)]
        scale = np.where(self.seen[list(chosen)], np.linalg.norm(left, axis=0), 0.0)
        if not (scale > 0.0).all() or np.linalg.svd(left / scale, compute_uv=False)[-1] < LEAST_REMAINDER:
            names = ", ".join(f"{kind} {axis + 1}" for kind, axis in (self.kinds[k] for k in chosen))
            raise DataError(f"the motion does not separate {names}: estimate fewer of them, or record another motion")
        inverse = np.linalg.inv(left.T @ left)
        values = inverse @ (left.T @ self.y)
        return values, inverse @ self.scores(left, (self.y - left @ values)[:, None]) @ inverse


def nuisance_columns(
    model: ArmModel, samples: Samples, regression: Regression, kinds: Collection[str] = KINDS
) -> Columns:
    """Return the regression columns of possible faults, without the parts that the parameters can reproduce.

    Args:
        model: the arm.
        samples: the fitted samples.
        regression: regression of the samples.
        kinds: kinds of faults to test, a subset of `KINDS`.
    """
    own, weights, y = weighted_residual(samples, regression)
    named, columns = _columns(model, samples, regression, regression.solve().phi, kinds)
    left = columns * weights[:, None]
    lengths = np.linalg.norm(left, axis=0)
    whole = unspanned_part(own, np.column_stack([left, y]))  # together, so that `own` is decomposed once
    left, y = whole[:, :-1], whole[:, -1]
    # the zero of a joint with a vertical axis does not change the torques: its column is only rounding
    least = np.maximum(LEAST_REMAINDER * lengths, ROUNDING * float(np.linalg.norm(regression.tau * weights)))
    seen = np.linalg.norm(left, axis=0) > np.maximum(least, np.finfo(float).tiny)
    return Columns(tuple(named), left, y, seen, regression.axes, regression.interval_s)


def weighted_residual(samples: Samples, regression: Regression) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return weighted columns (rows, k), weights (rows,) and weighted residual (rows,) of a regression, any unit.

    The columns are those of the base parameters, of the friction parameters that are not at a bound, and of friction
    that builds up after a reversal.
    """
    solution = regression.solve()
    residual = regression.residual(solution.phi, solution.friction)
    weights = regression.weights(regression.axis_sigma(residual))
    if regression.share is not None:
        weights = weights * sliding(regression, len(samples)).ravel()  # faults are tested on rows without a standstill
    elif regression.trust is not None:
        weights = weights * regression.trust
    free = np.ones(regression.columns().shape[1], dtype=bool)
    free[: regression.friction_size] = solution.sliding[: regression.friction_size]
    own = np.concatenate([regression.columns()[:, free], _building_up(samples, regression)], axis=1)
    return own * weights[:, None], weights, residual.ravel() * weights


def unknowns(
    model: ArmModel, samples: Samples, regression: Regression, kinds: Collection[str] = KINDS
) -> tuple[Unknown, ...]:
    """Return an estimate of every tested fault; each is fitted as the only unknown in addition to the parameters.

    The standard deviations of delays do not include the scatter of the delays over the axes, which
    `with_scatter_of_joints` adds.

    Args:
        model: the arm.
        samples: the fitted samples.
        regression: regression of the samples.
        kinds: kinds of faults to test, a subset of `KINDS`.
    """
    found = nuisance_columns(model, samples, regression, kinds)
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


def with_scatter_of_joints(delays: Sequence[Unknown]) -> tuple[Unknown, ...]:
    """Return delays with standard deviations that include the scatter of the delays over the axes.

    The standard deviation of the common delay then covers the disagreement of the axes. The standard deviation of each
    axis's delay is increased, in quadrature, by the typical delay of the other axes: the median over these axes of
    |delay| - standard deviation, at least 0 for each axis. The reason is that similar delays of most axes may have a
    common cause, such as friction that is not in the model.

    Args:
        delays: the delay of all torques, followed by those of each axis.
    """
    common, *each = delays
    seen = [one for one in each if np.isfinite(one.deviation)]
    values, own = (np.array([getattr(one, name) for one in seen]) for name in ("value", "deviation"))
    usual = dict(zip([one.axis for one in seen], median_of_others(np.maximum(0.0, np.abs(values) - own)), strict=True))
    return (
        replace(common, deviation=max(common.deviation, deviation_in_common(values, own))),
        *(replace(one, deviation=float(np.hypot(one.deviation, usual.get(one.axis, 0.0)))) for one in each),
    )


def deviation_in_common(values: FloatArray, deviations: FloatArray) -> float:
    """Return the standard deviation of the mean of estimates (n,) that scatter more than their own deviations explain.

    The random-effects model of DerSimonian and Laird (1986) is used: the variance between the estimates is their
    scatter beyond their own standard deviations. An example are delays, one for each joint: a wrong timestamp delays
    all joints equally, while friction that is not in the model delays each joint differently. Values and result have
    the same unit.

    Args:
        values: estimates, (n,).
        deviations: standard deviations of the estimates, (n,).
    """
    if len(values) == 0:
        return 0.0
    weights = 1.0 / np.maximum(deviations, np.finfo(float).tiny) ** 2
    mean, total = weights @ values / weights.sum(), float(weights.sum())
    scatter = float(weights @ (values - mean) ** 2) - (len(values) - 1)
    room = total - float((weights**2).sum()) / total
    between = max(0.0, scatter / room) if room > 0.0 else 0.0
    return float(np.sum(1.0 / (deviations**2 + between)) ** -0.5)


def median_of_others(sizes: FloatArray) -> FloatArray:
    """Return the median of all other sizes for each of several sizes (n,), any unit.

    An effect at one joint is not significant if the other joints show effects of the same size.
    """
    if len(sizes) < 2:
        return np.zeros(len(sizes))
    return np.array([np.median(np.delete(sizes, k)) for k in range(len(sizes))])


def unspanned_part(own: FloatArray, columns: FloatArray) -> FloatArray:
    """Return the part of columns (rows, m) that the columns `own` (rows, k) do not span, any unit."""
    scale = np.linalg.norm(own, axis=0)
    own = own[:, scale > 0.0] / scale[scale > 0.0]
    R = qr(own, mode="r", check_finite=False)[0][: own.shape[1]]
    for _ in range(2):  # the second pass removes the rounding error of the first
        inner = solve_triangular(R, own.T @ columns, trans="T")
        columns = columns - own @ solve_triangular(R, inner)
    return columns


def _columns(
    model: ArmModel, samples: Samples, regression: Regression, phi: FloatArray, chosen: Collection[str]
) -> tuple[list[tuple[str, int]], FloatArray]:
    """Return kind and axis of each of m possible faults, and their regression columns, (rows, m), any unit.

    Args:
        model: the arm.
        samples: the fitted samples.
        regression: regression of the samples.
        phi: base parameters at which the columns are linearised, (p,) [SI].
        chosen: kinds of faults.
    """
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
    """Derivatives of the torques (N, n) with respect to possible faults, at base parameters phi (p,)."""

    def __init__(self, model: ArmModel, samples: Samples, regression: Regression, phi: FloatArray) -> None:
        self.model, self.samples, self.regression, self.phi = model, samples, regression, phi
        self.slides, self.base = sliding(regression, len(samples)), BaseParameters(model.names, phi)

    def of(self, kind: str) -> Iterator[tuple[int, FloatArray]]:
        """Yield each axis with the derivative of the torques (N, n) with respect to a fault of this axis.

        Args:
            kind: kind of the fault, one of `KINDS`.
        """
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
        for k, direction in enumerate(perpendicular_axes(gravity) if size else ()):
            yield k, self.model.gravity_torque(self.samples.q, self.base, size * direction) * self.slides


def _building_up(samples: Samples, regression: Regression) -> FloatArray:
    """Return columns (rows, m) of friction that builds up after a reversal, due to bristles, backlash or wind-up."""
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
    """Return each joint's distance from its last reversal or the start of its recording, (N, n) [rad or m]."""
    turned = np.sign(samples.dq[1:]) != np.sign(samples.dq[:-1])
    turned |= (np.diff(samples.time) <= 0.0)[:, None]
    places = np.zeros(samples.q.shape, dtype=np.int64)
    places[1:] = np.arange(1, len(samples))[:, None] * turned
    last = np.maximum.accumulate(places, axis=0)
    return np.asarray(np.abs(samples.q - np.take_along_axis(samples.q, last, axis=0)))


def sliding(regression: Regression, count: int) -> FloatArray:
    """Return a mask (N, n): 0 for samples that a standstill of the joint affects, else 1.

    A low-pass mixes neighbouring states, so a standstill also affects samples near it. If the regression has no weights
    `trust`, which are lower near standstill, all values are 1.

    Args:
        regression: regression of the samples.
        count: number N of samples.
    """
    if regression.trust is None:
        return np.ones((count, regression.axes))
    full = regression.trust.reshape(-1, regression.axes)[:count] >= 1.0
    return np.asarray(
        full if regression.share is None else np.abs(regression.share - 1.0) < MOST_RINGING, dtype=np.float64
    )


def _links(regression: Regression, phi: FloatArray) -> FloatArray:
    """Return the torques of base parameters phi (p,) without dry friction, in all states, (N, n) [N m].

    Dry friction is excluded, because its time derivative is infinite at a reversal.
    """
    smooth = of_kinds(BaseParameters(regression.names, phi), ("FC", "FCM", "FS"), others=True).values
    return np.asarray(links_regressor(regression) @ smooth)


def links_regressor(regression: Regression) -> FloatArray:
    """Return the regressor of the base parameters, without columns of the friction law, (N, n, p) [SI]."""
    if regression.joint_friction is None:
        return regression.of_all_states
    return regression.joint_friction.judged.rows.W


def unexplained_share(samples: Samples, regression: Regression) -> FloatArray:
    """Return the ratio of each axis's torque residual to the torque of its links, in sliding samples, (n,) [-].

    The residual is measured as a root mean square, and the torque of the links as a standard deviation.
    """
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
    """Return the factors (n,) by which the limits for delays of single axes are increased.

    A delay beyond its limit is suspected to be a fault. Friction that changes slowly after a reversal resembles a
    delay. Therefore the factor is 1 without friction, and grows with the ratio of friction to link torque.
    """
    links = _links(regression, regression.solve().phi)
    dry = np.std(samples.tau - links, axis=0) / np.maximum(np.std(links, axis=0), ROUNDING)
    return np.asarray(1.0 + BUILD_UP_FACTOR * dry)


def _rate(samples: Samples, torque: FloatArray) -> FloatArray:
    """Return the time derivatives of torques, (N, n) [N m/s], for each recording separately.

    Args:
        samples: samples with their times.
        torque: torques of these samples, (N, n) [N m].
    """
    starts = np.flatnonzero(np.diff(samples.time) <= 0.0) + 1
    parts = np.split(torque, starts), np.split(samples.time, starts)
    return np.concatenate([np.gradient(one, time, axis=0) for one, time in zip(*parts, strict=True)])


def perpendicular_axes(gravity: FloatArray) -> FloatArray:
    """Return two unit vectors (2, 3) that are perpendicular to the gravity vector (3,) [m/s^2] and to each other."""
    return np.asarray(np.linalg.svd(gravity[None, :])[2][1:])
