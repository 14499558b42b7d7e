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

    def root(self, start_s: FloatArray, which: NDArray[np.bool_], *, together: bool) -> Root | None:
        """Where no delay is left of the axes `which` (n,), or of all `together`; None where such is not found."""
        at, step, before = start_s, np.zeros_like(start_s), np.zeros_like(start_s)
        for _ in range(ROUNDS):
            value, deviation = self._of_axes(self.left(at), together=together)
            if (~which | (np.abs(value) < np.maximum(ENOUGH_S, ENOUGH * deviation))).all():
                return Root(at, np.clip(-_slope(value, before, step), FLATTEST, 1.0))
            step = np.where(which, secant_step(value, before, step), 0.0)
            at, before = at + step, value
            if (np.abs(at) > MOST_S).any():
                break
        return None

    def _of_axes(self, left: Left, *, together: bool) -> tuple[FloatArray, FloatArray]:
        """Values and deviations of what is left, (n,)."""
        each = left.delays[1:]
        return _values([among_others(left.delays)[0]] * len(each) if together else each)


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

    Args:
        search: of the samples.
        limits: of suspicions; what looks far smaller is not followed.
        doubt: by which the limit of each axis is multiplied, (n,).
    """
    n, found = len(doubt), search.given
    common, start = among_others(found.delays)[0], np.zeros(n)
    if abs(common.value) > max(common.deviation, 0.25 * SMALL * limits.delay_s):
        root = search.root(start, np.ones(n, dtype=bool), together=True)
        if root is not None:
            start, found = root.delays_s, search.left(root.delays_s)
            now, part = among_others(found.delays)[0], search.explained(found)
            deviation = now.deviation / float(root.seen[0])
            common = Unknown("delay", -1, float(start.mean()) + now.value, deviation, max(common.explained, part))
    looks, spread = _values(found.delays[1:])
    which = np.isfinite(spread) & (np.abs(looks) > np.maximum(spread, SMALL * limits.delay_s * doubt))
    own, seen, parts = start, np.ones(n), np.zeros(n)
    if which.any():
        root = search.root(start, which, together=False)
        if root is not None:
            own, seen, before = root.delays_s, root.seen, found
            found = search.left(own)
            parts = np.where(which, search.explained(found) - search.explained(before), 0.0)
    later = [
        replace(
            one,
            value=one.value + own[one.axis],
            deviation=one.deviation / float(seen[one.axis]),
            explained=max(one.explained, parts[one.axis]),
        )
        for one in found.delays[1:]
    ]
    return (common, *among_others((common, *later))[1:])
