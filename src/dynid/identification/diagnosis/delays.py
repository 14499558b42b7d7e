"""Delays of torques against positions, followed to where none is left.

One linear step from the data as given, see `nearby`, is far too short for a long delay: parameters and friction that
were fitted to late torques take most of it up. Of 60 ms a slow motion shows 20, or 1. So torques are read as much later
as is estimated, everything is fitted again, and so on, until the estimate is none: a secant search for its root, of all
torques together first, and from there of the joints that differ. What is left of a joint's own delay says how late it
is; deviations are those at the root, where the fit is good, and smaller than those of the data as given.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dynid.identification.data.later import with_later_torques
from dynid.identification.data.preprocessing import Samples
from dynid.identification.diagnosis.nearby import Unknown, among_others, unknowns
from dynid.identification.estimators.regression import Regression
from dynid.identification.settings import CoulombSettings, SuspicionLimits
from dynid.model.dynamics import ArmModel
from dynid.robot import FloatArray

ROUNDS = 10
MOST_S = 0.1  # beyond it no root is looked for: so late a torque leaves large errors
SMALL = 0.2  # of a limit: a delay that looks smaller is not followed, one of all torques a quarter of it
ENOUGH = 0.3  # of a deviation: what is left at a root
ENOUGH_S = 0.0005
FARTHEST, LONGEST_S = 4.0, 0.04  # times the last step, and in seconds, of one step
FLATTEST = 1e-3  # part of a change that is seen at a root: with less a delay is not seen at all
WORTH = 0.95  # of an axis's squared error: a delay that leaves more is not followed; true ones left 0.24 to 0.90
CONTRADICTS = 3.0  # deviations of one axis's delay from that of all
FALLING = -0.1  # slope of what is left, beyond which the secant leads to the root; before it, steps grow


class Left(NamedTuple):
    """What is estimated with torques that are read later.

    Attributes:
        delays: that are left: of all torques first, then of each axis, with their own deviations.
        sigma: errors of each axis, (n,) [N m].
    """

    delays: tuple[Unknown, ...]
    sigma: FloatArray


class Root(NamedTuple):
    """Delays of each axis with which none is left, (n,) [s], and how much of a change of them is seen there, (n,)."""

    delays_s: FloatArray
    seen: FloatArray


class DelaySearch:
    """Fits of one set of samples with its torques read later.

    Args:
        model, samples, regression: as given.
        coulomb: how friction is treated; its structure is that of the regression.
        free: every unknown of the data as given, alone; see `unknowns`.
    """

    def __init__(
        self,
        model: ArmModel,
        samples: Samples,
        regression: Regression,
        coulomb: CoulombSettings,
        free: Sequence[Unknown],
    ) -> None:
        self.model, self.samples = model, samples
        beside = regression.beside
        self.coulomb, self.structure = coulomb, None if beside is None else beside.fit.structure
        self.given = _left(free, regression)
        self._found: dict[bytes, Left] = {}

    def left(self, delays_s: FloatArray) -> Left:
        """What is left with torques `delays_s` (n,) later; the same delays are fitted once."""
        if not delays_s.any():
            return self.given
        if (key := delays_s.tobytes()) not in self._found:
            self._found[key] = self._fitted(delays_s)
        return self._found[key]

    def _fitted(self, delays_s: FloatArray) -> Left:
        later = with_later_torques(self.samples, delays_s)
        regression = Regression.stack(self.model, later, self.coulomb, structure=self.structure)
        return _left(unknowns(self.model, later, regression, ("delay",)), regression)

    def explained(self, found: Left) -> float:
        """Part of the squared errors, of every axis alike, that is gone with later torques."""
        before = np.maximum(self.given.sigma, np.finfo(float).tiny)
        return float(1.0 - np.mean((found.sigma / before) ** 2))

    def worth(self, start_s: FloatArray, axis: int, delay_s: float) -> bool:
        """Whether the axis's own error is smaller where its torques alone are `delay_s` later, not `start_s` (n,)."""
        alone = np.where(np.arange(len(start_s)) == axis, delay_s, start_s)
        return bool(self.left(alone).sigma[axis] ** 2 < WORTH * self.left(start_s).sigma[axis] ** 2)

    def root(self, start_s: FloatArray, which: NDArray[np.bool_], *, together: bool) -> Root | None:
        """Where no delay is left of the axes `which` (n,), or of all `together`; None where such is not found.

        Axes that find none are left out; how much of a change is seen is of the last step that was no rounding.
        """
        at, step, before = start_s, np.zeros_like(start_s), np.zeros_like(start_s)
        seen, open_ = np.ones_like(start_s), which
        for _ in range(ROUNDS):
            value, deviation = self._of_axes(self.left(at), together=together)
            enough = np.maximum(ENOUGH_S, ENOUGH * deviation)
            seen = np.where(np.abs(step) > enough, np.clip(-_slope(value, before, step), FLATTEST, 1.0), seen)
            open_ = which & (np.abs(value) >= enough)
            if not open_.any():
                return Root(at, seen)
            step = np.where(open_, secant_step(value, before, step), 0.0)
            at, before = at + step, value
            if (np.abs(at) > MOST_S).any():
                open_ = np.abs(at) > MOST_S
                break
        others = which & ~open_
        return self.root(start_s, others, together=False) if others.any() and not together else None

    def _of_axes(self, left: Left, *, together: bool) -> tuple[FloatArray, FloatArray]:
        """Values and own deviations of what is left, (n,)."""
        each = left.delays[1:]
        return _values([left.delays[0]] * len(each) if together else each)


def _left(free: Sequence[Unknown], regression: Regression) -> Left:
    solution = regression.solve()
    sigma = regression.axis_sigma(regression.residual(solution.phi, solution.friction))
    return Left(tuple(one for one in free if one.kind == "delay"), sigma)


def _values(unknowns: Sequence[Unknown]) -> tuple[FloatArray, FloatArray]:
    return np.array([one.value for one in unknowns]), np.array([one.deviation for one in unknowns])


def _slope(value: FloatArray, before: FloatArray, step: FloatArray) -> FloatArray:
    """Of a function that was `before` a `step` ago and is `value` now, (n,); -1 without a step."""
    first = step == 0.0
    return np.asarray(np.where(first, -1.0, (value - before) / np.where(first, 1.0, step)))


def secant_step(value: FloatArray, before: FloatArray, step: FloatArray) -> FloatArray:
    """Steps (n,) towards the roots of a function that was `before` a `step` ago and is `value` now.

    Where it hardly falls, steps double until a root is passed: far from the root of a delay, parameters take up nearly
    all of it.
    """
    first, slope = step == 0.0, _slope(value, before, step)
    falls = (slope < FALLING) | ((slope < 0.0) & (value * before < 0.0))
    found = np.where(falls, -value / np.where(falls, slope, -1.0), 2.0 * np.abs(step) * np.sign(value))
    most = np.where(first, LONGEST_S, np.minimum(LONGEST_S, FARTHEST * np.abs(step) + ENOUGH_S))
    return np.clip(found, -most, most)


def followed(search: DelaySearch, limits: SuspicionLimits, doubt: FloatArray) -> tuple[Unknown, ...]:
    """The delays of the data as given, those that may matter followed to their roots.

    Where half of the axes have another delay than all together, that of all is left as one step shows it.

    Args:
        search: of the samples.
        limits: of suspicions; what looks far smaller is not followed.
        doubt: by which the limit of each axis is multiplied, (n,).
    """
    given, n = among_others(search.given.delays)[0], len(doubt)
    root, common = None, given
    if abs(given.value) > max(given.deviation, 0.25 * SMALL * limits.delay_s):
        root = search.root(np.zeros(n), np.ones(n, dtype=bool), together=True)
    if root is not None and (part := search.explained(search.left(root.delays_s))) >= 0.0:
        now = among_others(search.left(root.delays_s).delays)[0]
        value, deviation = float(root.delays_s.mean()) + now.value, now.deviation / float(root.seen[0])
        common = Unknown("delay", -1, value, deviation, max(given.explained, part))
        each = _each(search, root.delays_s, limits, doubt)
        if n > 1 and 2 * sum(_contradicts(one, value) for one in each) >= n:
            common = given
    if common is given:
        each = _each(search, np.zeros(n), limits, doubt)
    if n == 1:
        each = (replace(common, axis=0),)
    return (common, *among_others((common, *each))[1:])


def _contradicts(one: Unknown, common_s: float) -> bool:
    """Whether the delay of an axis is surely another than that of all."""
    return abs(one.value - common_s) > max(0.5 * abs(common_s), CONTRADICTS * one.deviation)


def _each(search: DelaySearch, start_s: FloatArray, limits: SuspicionLimits, doubt: FloatArray) -> tuple[Unknown, ...]:
    """Each axis's delay with its own deviation, followed from where torques are `start_s` (n,) later."""
    before = search.left(start_s)
    looks, spread = _values(before.delays[1:])
    which = np.isfinite(spread) & (np.abs(looks) > np.maximum(spread, SMALL * limits.delay_s * doubt))
    one_step = [replace(one, value=one.value + start_s[one.axis]) for one in before.delays[1:]]
    root = search.root(start_s, which, together=False) if which.any() else None
    if root is None:
        return tuple(one_step)
    found = search.left(root.delays_s)
    part = search.explained(found) - search.explained(before)
    followed_ones = []
    for one, first in zip(found.delays[1:], one_step, strict=True):
        axis, moved = one.axis, root.delays_s[one.axis] != start_s[one.axis]
        value, deviation = one.value + root.delays_s[axis], one.deviation / float(root.seen[axis])
        explained = max(one.explained, part) if moved else one.explained
        sure = moved and abs(value) - limits.deviations * deviation > limits.delay_s * doubt[axis]
        worth = not sure or search.worth(start_s, axis, value)
        followed_ones.append(Unknown("delay", axis, value, deviation, explained) if worth else first)
    return tuple(followed_ones)
