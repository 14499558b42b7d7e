"""Other readings of the same data, fitted like the data as given: signs, columns, gears, mounts, delays.

Each reading changes states or torques as a wrong line of a set-up would have, and is fitted by links and friction that
resists motion, on some hundred samples of sliding joints. What counts is each axis's own relative error: a reading is
worth the sum of the logarithms by which it makes them smaller, and significant if it does so block of time by block of
time.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr, solve_triangular

from dynid.identification.data.later import read_later
from dynid.identification.data.preprocessing import Samples
from dynid.identification.estimators.gear_rows import sliding_states
from dynid.identification.estimators.torque_errors import MOVING_RAD_S
from dynid.identification.estimators.triangles import bounded
from dynid.model.drive import kind_and_number
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import physical_lower_bounds
from dynid.robot import FloatArray

MOST_SAMPLES = 250
HELD = 1e-6  # of a column's length: pulls a parameter that the rows leave open to 0
FEWEST = 30  # sliding samples of an axis: with fewer it is not looked at
BLOCKS = 24  # of time, over which a difference must repeat itself
WEIGHED, LEAST = 0.02, 0.05  # of an axis's torque: errors that weigh no more, and that need no other explanation
LoadOf = Literal["joint", "links", "motor"]
OWN = ("FV", "FC", "FS", "OF")  # friction that every axis has here, whatever the structure
LOWER = (0.0, 0.0, 0.0, -np.inf, -np.inf)  # bounds of the columns of `_friction`
SLOW_RAD_S = 0.2
GEARS = (0.5, 2.0)
ACROSS = 0.8  # of gravity along an axis of the base: with more, that axis is no other mount
DELAYS_S = (-0.06, -0.02, 0.02, 0.06)
EXTRAPOLATED = (0.5, 1.0, 1.5)  # times the value that a straight line leads to


@dataclass(frozen=True, eq=False)
class Data:
    """States and torques (N, n) under one reading, and where gravity (3,) comes from.

    Friction is fitted to `speed`, which another gear ratio leaves as it is, and which is late with the torques: what
    friction makes of speed is not known well enough to say what speed was.
    """

    q: FloatArray
    dq: FloatArray
    ddq: FloatArray
    tau: FloatArray
    gravity: FloatArray
    slides: NDArray[np.bool_]
    speed: FloatArray

    @property
    def block(self) -> NDArray[np.int64]:
        """Which of `BLOCKS` blocks of time each sample is in, (N,)."""
        return BLOCKS * np.arange(len(self.tau)) // len(self.tau)

    def with_factors(self, positions: FloatArray, torques: FloatArray) -> "Data":
        """Positions and torques times factors (n,)."""
        q, dq, ddq = (one * positions for one in (self.q, self.dq, self.ddq))
        return replace(self, q=q, dq=dq, ddq=ddq, tau=self.tau * torques)

    def with_zero(self, axis: int, offset: float) -> "Data":
        """Positions of one axis from another zero [rad or m]."""
        return replace(self, q=self.q + offset * (np.arange(self.q.shape[1]) == axis))

    def reordered(self, order: list[int], *, torques_only: bool) -> "Data":
        """Columns in another order (n,)."""
        if torques_only:
            return replace(self, tau=self.tau[:, order])
        q, dq, ddq, tau = (one[:, order] for one in (self.q, self.dq, self.ddq, self.tau))
        return Data(q, dq, ddq, tau, self.gravity, self.slides[:, order], self.speed[:, order])


@dataclass(frozen=True, eq=False)
class Fit:
    """How well a reading is explained.

    Attributes:
        relative: error of each axis over its torque (n,), NaN where it hardly slides.
        links: part of each axis's torque that links take, at most 1, (n,).
        blocks: squared relative errors of blocks of time, (b,).
    """

    relative: FloatArray
    links: FloatArray
    blocks: FloatArray


class LinearFit(NamedTuple):
    """What `Trials.linear` found: errors [N m] of the sliding samples of every axis that slides enough, and torques of
    the links in all samples, (N, n) [N m]."""

    left: dict[int, FloatArray]
    links: FloatArray


@dataclass(frozen=True)
class Reading:
    """A reading against the data as given.

    Attributes:
        kind, axes: "sign", "torque columns", "joints", "gear", "mount" or "delay"; of which axes, counted from 0;
            none where it is of all.
        value: factor of a gear, seconds of a delay; else 0.
        gain: sum over the axes of log(error as given / error so read).
        significance: mean difference over its standard error, over blocks of time.
        axis: that it helps most, counted from 0.
        before, after: relative error of this axis.
        along: where gravity points under a mount, such as "-z"; "" the other way round.
    """

    kind: str
    axes: tuple[int, ...]
    value: float
    gain: float
    significance: float
    axis: int
    before: float
    after: float
    along: str = ""


class Trials:
    """Fits of readings of one set of samples.

    Args:
        model: the arm.
        samples: that were fitted.
        most: samples that are looked at.

    Attributes:
        chosen: which of the samples are.
    """

    def __init__(self, model: ArmModel, samples: Samples, most: int = MOST_SAMPLES) -> None:
        self.model, self.samples = model, samples
        self._links = np.array([kind_and_number(name)[0] not in OWN for name in model.names])
        self._rotors = np.array([kind_and_number(name)[0] == "IA" for name in np.array(model.names)[self._links]])
        self._lower = np.append(physical_lower_bounds(model.names)[self._links], np.tile(LOWER, model.axes))
        self.chosen = slice(None, None, max(1, -(-len(samples) // most)))

    @cached_property
    def given(self) -> Data:
        """The data as given."""
        s = self.samples
        width = 2 * round(0.5 / (s.settings.cutoff_hz * s.settings.interval_s)) + 1
        slides = sliding_states(s.dq, MOVING_RAD_S, width) > 0.0
        q, dq, ddq, tau = (one[self.chosen] for one in (s.q, s.dq, s.ddq, s.tau))
        return Data(q, dq, ddq, tau, self.model.gravity, slides[self.chosen], dq)

    @cached_property
    def as_given(self) -> Fit:
        """The fit of the data as given."""
        return self.fit(self.given)

    def fit(self, data: Data) -> Fit:
        """The fit of a reading."""
        found = self.linear(data)
        n, at = data.tau.shape[1], data.slides
        relative, blocks, links = np.full(n, np.nan), np.zeros(BLOCKS), np.zeros(n)
        place = data.block
        for i, left in found.left.items():
            rms = _rms(data.tau[at[:, i], i])
            relative[i] = max(_rms(left) / rms, LEAST)
            blocks += np.bincount(place[at[:, i]], (left / rms) ** 2 / len(left), minlength=BLOCKS)
            links[i] = min(1.0, _rms(found.links[at[:, i], i]) / rms)
        return Fit(relative, links, blocks)

    def links(self, data: Data, phi: FloatArray) -> FloatArray:
        """Torques (N, n) [N m] of the links of base parameters (p,), without friction of any axis."""
        W = self.model.under(data.gravity).regressor(data.q, data.dq, data.ddq)
        return np.asarray(W[..., self._links] @ phi[self._links])

    def linear(self, data: Data, rounds: int = 2, least: float = WEIGHED, load_of: LoadOf = "joint") -> LinearFit:
        """Links and friction fitted to sliding samples.

        Args:
            data: of a reading.
            rounds: each with what the last has found of loads and errors; the first knows neither.
            least: of an axis's torque: errors that weigh no more.
            load_of: what friction grows with: torques of links and rotors, of links alone, or of motors.
        """
        W = self.model.under(data.gravity).regressor(data.q, data.dq, data.ddq)[..., self._links]
        n, at = data.tau.shape[1], data.slides
        rms = np.array([_rms(data.tau[at[:, i], i]) for i in range(n)])
        seen = [i for i in range(n) if at[:, i].sum() >= FEWEST and rms[i] > 0.0]
        sigma, links, load = rms[seen], np.zeros_like(data.tau), np.zeros_like(data.tau)
        left: dict[int, FloatArray] = {}
        for _ in range(rounds if seen else 0):  # too few sliding samples say nothing
            rows = [_rows(W[at[:, i], i], data, i, load) for i in seen]
            triangles = [qr(own, mode="r", check_finite=False)[0][: own.shape[1]] for own in rows]
            theta = _solved(np.concatenate([R / one for R, one in zip(triangles, sigma, strict=True)]), self._lower)
            left = {i: own[:, :-1] @ theta - own[:, -1] for i, own in zip(seen, rows, strict=True)}
            sigma = np.maximum([_rms(one) for one in left.values()], least * rms[seen])
            links = W @ theta[: W.shape[2]]
            load = links if load_of == "joint" else W @ np.where(self._rotors, 0.0, theta[: W.shape[2]])
            if load_of == "motor":
                for i, own in zip(seen, rows, strict=True):
                    load[at[:, i], i] = own[:, :-1] @ theta
        return LinearFit(left, links)

    def compare(self, kind: str, axes: tuple[int, ...], data: Data, value: float = 0.0) -> Reading:
        """A reading against the data as given."""
        fit, own = self.fit(data), self.as_given
        gains = np.nan_to_num(np.log(own.relative / fit.relative))
        if kind == "delay":
            gains = gains * own.links  # what friction leaves is like a delay of torques that are friction alone
        difference, best = own.blocks - fit.blocks, int(np.argmax(gains))
        error = max(float(difference.std(ddof=1)) * np.sqrt(len(difference)), np.finfo(float).tiny)
        errors = float(own.relative[best]), float(fit.relative[best])
        return Reading(kind, axes, value, float(gains.sum()), float(difference.sum()) / error, best, *errors)

    def as_extrapolated(self, kind: str, axis: int, value: float) -> Iterator[Reading]:
        """A "torque scale", "position zero" or "position scale" of one axis, about where a straight line from the data
        as given leads."""
        one = np.ones(self.model.axes)
        for share in EXTRAPOLATED:
            if kind == "position zero":
                yield self.compare(kind, (axis,), self.given.with_zero(axis, share * value), share * value)
            elif kind == "position scale":
                own = np.where(np.arange(self.model.axes) == axis, 1.0 + share * value, one)
                yield self.compare(kind, (axis,), self.given.with_factors(own, one), 1.0 + share * value)
            elif (scale := 1.0 + share * value) > 0.0:
                own = np.where(np.arange(self.model.axes) == axis, 1.0 / scale, one)
                yield self.compare(kind, (axis,), self.given.with_factors(one, own), scale)

    def usual(self) -> Iterator[Reading]:
        """Readings that explain each joint alone all the same, so that other checks may not see them."""
        one = np.ones(self.model.axes)
        for k in range(self.model.chain_size):
            for factor in GEARS:
                own = np.where(np.arange(self.model.axes) == k, factor, one)
                yield self.compare("gear", (k,), self.given.with_factors(own, 1.0 / own), factor)
        yield from self._mounts()
        for k in range(self.model.axes - 1):
            yield self._exchanged("joints", k, k + 1)
        for delay in DELAYS_S:
            yield self.compare("delay", (), self._shifted(delay), delay)

    def _mounts(self) -> Iterator[Reading]:
        """Gravity the other way round, and along the base's axes across the given one, as on a wall or on its side.

        What only another mount shows, such as the first link's moments about an upright axis, is left out: little.
        """
        given = self.model.gravity
        size = float(np.linalg.norm(given))
        if not size:
            return
        yield self.compare("mount", (), replace(self.given, gravity=-given))
        for axis, name in enumerate("xyz"):
            if abs(given[axis]) > ACROSS * size:
                continue
            for sign in (-1.0, 1.0):
                gravity = sign * size * np.eye(3)[axis]
                tried = self.compare("mount", (), replace(self.given, gravity=gravity))
                yield replace(tried, along=f"{'-' if sign < 0.0 else '+'}{name}")

    def _exchanged(self, kind: str, i: int, j: int) -> Reading:
        order = list(range(self.model.axes))
        order[i], order[j] = j, i
        return self.compare(kind, (i, j), self.given.reordered(order, torques_only=kind == "torque columns"))

    def exchanges(self) -> Iterator[Reading]:
        """Signs of all torques and of each joint's, two torque columns exchanged, two joints exchanged.

        Links of negative mass explain flipped torques of all joints as well as right ones; friction, which resists
        motion, and rotors do not.
        """
        n = self.model.axes
        if n > 1:
            yield self.compare("sign", (), self.given.with_factors(np.ones(n), -np.ones(n)))
        for k in range(n):
            own = np.where(np.arange(n) == k, -1.0, 1.0)
            yield self.compare("sign", (k,), self.given.with_factors(np.ones(n), own))
        for i, j in combinations(range(n), 2):
            yield self._exchanged("torque columns", i, j)
            if j > i + 1:  # neighbours are tried as usual
                yield self._exchanged("joints", i, j)

    def _shifted(self, delay: float) -> Data:
        """Torques and friction's speeds as they were `delay` later [s], of each recording on its own."""
        tau, speed = (read_later(self.samples.time, one, delay) for one in (self.samples.tau, self.samples.dq))
        return replace(self.given, tau=tau[self.chosen], speed=speed[self.chosen])


def _rms(values: FloatArray) -> float:
    return float(np.sqrt(np.mean(values**2))) if len(values) else 0.0


def _rows(W: FloatArray, data: Data, axis: int, load: FloatArray) -> FloatArray:
    """Rows [links, friction of all axes, torque] of one sliding axis."""
    at, first = data.slides[:, axis], W.shape[1] + len(LOWER) * axis
    rows = np.zeros((len(W), W.shape[1] + len(LOWER) * data.tau.shape[1] + 1))
    rows[:, : W.shape[1]], rows[:, -1] = W, data.tau[at, axis]
    rows[:, first : first + len(LOWER)] = _friction(data.speed[at, axis], load[at, axis])
    return rows


def _friction(speed: FloatArray, load: FloatArray) -> FloatArray:
    """Columns of one axis's friction: dry, viscous, by load, near standstill, and an offset."""
    sign = np.sign(speed)
    near = sign * np.exp(-np.abs(speed) / SLOW_RAD_S)
    return np.stack([sign, speed, sign * np.abs(load), near, np.ones_like(speed)], axis=1)


def _solved(rows: FloatArray, lower: FloatArray) -> FloatArray:
    """Least squares with lower bounds; what the rows leave open stays small."""
    scale = np.maximum(np.linalg.norm(rows[:, :-1], axis=0), np.finfo(float).tiny)
    held = np.column_stack([HELD * np.diag(scale), np.zeros(len(scale))])
    R = qr(np.concatenate([rows, held]), mode="r", check_finite=False)[0][: rows.shape[1]]
    found = solve_triangular(R[:-1, :-1] / scale, R[:-1, -1], check_finite=False) / scale
    return np.asarray(found) if (found >= lower).all() else bounded(R, lower, np.full(len(lower), np.inf))
