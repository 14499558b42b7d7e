"""Iterative estimation of delays of torques relative to positions.

`nuisance_columns` estimates a delay in one step, as an additional linear parameter of the regression. This linear
estimate is much too small for a long delay: parameters and friction that are fitted to late torques absorb most of it.
In a slow motion with a delay of 60 ms, the linear estimate may be 20 ms or even 1 ms. Therefore the torques are
shifted: the torque at time t is replaced by the one recorded at t + shift. Then all parameters are fitted again, and
the linear estimate shows the delay that remains. A secant search finds the shift with a remaining delay of zero (the
root). First it searches a common shift of all torques. Starting there, it searches shifts of single joints whose delay
differs.

Each fit starts from the fit with the nearest shift. Far from a root, fits also reuse the nearest fit's correction of
the states for backlash, which halves the computing time. A root is always confirmed by complete fits.

The delay of a joint is its shift at the root plus the small remaining delay. Its standard deviation is that of the fit
at the root, divided by the share of a change of the delay that the linear estimate shows. The fit at the root has a
smaller standard deviation than a fit to the torques as recorded.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dynid.identification.data.delayed_torques import with_shifted_torques
from dynid.identification.data.preprocessing import Samples
from dynid.identification.diagnosis.nuisance_columns import Unknown, unknowns, with_scatter_of_joints
from dynid.identification.estimators.gear_ladder import KnownStart
from dynid.identification.estimators.gear_rows import GearRows
from dynid.identification.estimators.play import without_play
from dynid.identification.estimators.regression import Regression
from dynid.identification.settings import CoulombSettings, SuspicionLimits
from dynid.model.dynamics import ArmModel
from dynid.robot import FloatArray

ROUNDS = 10
MOST_S = 0.1  # largest delay that is searched: longer ones leave large errors
SMALL = 0.2  # share of its limit up to which an axis's delay is not iterated; for the common delay, a quarter of this
ROOT_DEVIATIONS = 0.3  # largest remaining delay at a root, in standard deviations
ROOT_S = 0.0005
FARTHEST, LONGEST_S = 4.0, 0.04  # largest step: as a multiple of the last step, and in seconds
LEAST_VISIBLE = 1e-3  # lower bound of `Root.seen`, the share of a change of the delay that the estimate shows
MOST_REMAINING = 0.95  # largest share of an axis's squared error that a true delay leaves; 0.24 to 0.90 were measured
CONTRADICTION_Z = 3.0  # standard deviations between an axis's delay and the common one
SECANT_SLOPE = -0.1  # slope of the remaining delay, below which the secant is used; above it, steps double


class RemainingDelay(NamedTuple):
    """Delays and torque errors that a fit still finds after the torques were shifted in time to compensate delays.

    Attributes:
        delays: delays of the shifted torques relative to positions: first the common delay of all torques, then the
            delay of each axis. The standard deviations do not include the scatter of the delays over the axes, see
            `with_scatter_of_joints`.
        sigma: standard deviation of each axis's torque error, (n,) [N m].
    """

    delays: tuple[Unknown, ...]
    sigma: FloatArray


class Root(NamedTuple):
    """Result of a search for the delays of torques relative to positions.

    Attributes:
        delays_s: shift of each axis's torques after which no delay remains, (n,) [s]; positive if the recorded torques
            are late.
        seen: change of the estimated delay divided by the change of the true delay, (n,) [-]. It is below 1 if the
            fitted parameters absorb a part of a delay.
    """

    delays_s: FloatArray
    seen: FloatArray


class _Fit(NamedTuple):
    """Friction fitted to torques that were shifted in time.

    Attributes:
        delays_s: shift of each axis's torques, (n,) [s].
        play: half the backlash for which the states were corrected, (n,) [rad or m].
        start: fitted friction, from which fits with other shifts start.
    """

    delays_s: FloatArray
    play: FloatArray
    start: KnownStart

    @classmethod
    def of(cls, delays_s: FloatArray, regression: Regression) -> "_Fit":
        """Return the friction fitted by a regression whose torques were shifted by `delays_s` (n,) [s]."""
        friction, start = regression.joint_friction, regression.known_start
        assert friction is not None and start is not None
        play = None if friction.play is None else friction.play.taken
        return cls(delays_s, np.zeros_like(delays_s) if play is None else play, start)

    def distance_s(self, delays_s: FloatArray) -> float:
        """Return the largest difference [s] between this fit's shifts and the shifts `delays_s` (n,) [s]."""
        return float(np.abs(self.delays_s - delays_s).max())


class DelaySearch:
    """Search for delays of torques relative to positions, by fits of one set of samples with shifted torques.

    Each fit starts from the previous fit with the most similar shifts, so it depends slightly on the previous fits.

    Args:
        model: the arm.
        samples: the samples with torques as recorded.
        regression: regression of these samples; all fits use its friction structure, the set of fitted friction terms.
        coulomb: settings of the friction treatment.
        free: linear estimates of possible faults, from these samples, as returned by `unknowns`; those of delays are
            used, all others are ignored.
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
        self.coulomb, self.given = coulomb, _left(free, regression)
        self._found: dict[bytes, RemainingDelay] = {}
        self._nearly: dict[bytes, RemainingDelay] = {}
        self._rows: dict[bytes, GearRows] = {}
        friction = regression.joint_friction
        self._fits = [] if friction is None else [_Fit.of(np.zeros(model.axes), regression)]
        # without friction or a series of states no backlash is estimated, so an approximate fit would save nothing
        self._approximates = friction is not None and bool(friction.fit.structure.terms and samples.fine)

    def remaining(self, delays_s: FloatArray) -> RemainingDelay:
        """Return the delays of torques that remain after the torques were shifted in time; results are cached.

        Args:
            delays_s: shift d of each axis, (n,) [s]: the torque at time t is replaced by the one recorded at t + d.
        """
        if not delays_s.any():
            return self.given
        if (key := delays_s.tobytes()) not in self._found:
            self._found[key] = self._fitted(delays_s)
        return self._found[key]

    def about(self, delays_s: FloatArray) -> RemainingDelay:
        """Return the remaining delay after a shift of the torques, approximately, in half the time of `remaining`.

        Backlash is not estimated anew: its correction comes from the earlier fit with the most similar shift. Results
        are cached; an exact result of `remaining` in the cache is returned instead.

        Args:
            delays_s: shift of each axis's torques, (n,) [s].
        """
        key = delays_s.tobytes()
        if not delays_s.any() or key in self._found or not self._approximates:
            return self.remaining(delays_s)
        if key not in self._nearly:
            self._nearly[key] = self._fitted(delays_s, exactly=False)
        return self._nearly[key]

    def _fitted(self, delays_s: FloatArray, *, exactly: bool = True) -> RemainingDelay:
        """Return the delays that remain in a fit to shifted torques, starting from the fit with the nearest shift.

        Args:
            delays_s: shift of each axis's torques, (n,) [s].
            exactly: whether backlash is estimated anew; if not, the backlash of the nearest fit is used.
        """
        if not self._fits:
            return self._left_in(with_shifted_torques(self.samples, delays_s))
        near = min(self._fits, key=lambda one: one.distance_s(delays_s))
        rows = self._corrected_rows(np.zeros_like(near.play) if exactly else near.play)
        later = with_shifted_torques(rows.samples, delays_s)
        given = self.model, later, self.coulomb, near.start, rows
        regression = Regression.stack(*given, backlash=exactly, widened=False)
        own = _Fit.of(delays_s, regression)
        self._fits.append(own if exactly else own._replace(play=near.play))
        return _left(unknowns(self.model, later, regression, ("delay",)), regression)

    def _left_in(self, samples: Samples) -> RemainingDelay:
        """Return the delays that remain in samples, for a fit that has no friction in addition to the base parameters.

        Args:
            samples: samples whose torques were shifted in time.
        """
        regression = Regression.stack(self.model, samples, self.coulomb)
        return _left(unknowns(self.model, samples, regression, ("delay",)), regression)

    def _corrected_rows(self, play: FloatArray) -> GearRows:
        """Return the regression rows of the recorded torques, for states corrected for backlash; results are cached.

        Args:
            play: half the backlash of each joint, (n,) [rad or m].
        """
        if (key := play.tobytes()) not in self._rows:
            if play.any():  # only the latest corrected rows stay cached: they take much memory
                self._rows = {kept: rows for kept, rows in self._rows.items() if not np.frombuffer(kept).any()}
            samples = without_play(self.samples, play) if play.any() else self.samples
            self._rows[key] = GearRows(self.model, samples, self.coulomb.slow_rad_s)
        return self._rows[key]

    def explained(self, found: RemainingDelay) -> float:
        """Return the fraction of the squared torque errors that shifting the torques removes, averaged over the axes.

        Args:
            found: errors of the fit to the shifted torques; they are compared with those of the torques as recorded.
        """
        before = np.maximum(self.given.sigma, np.finfo(float).tiny)
        return float(1.0 - np.mean((found.sigma / before) ** 2))

    def reduces_error(self, start_s: FloatArray, axis: int, delay_s: float) -> bool:
        """Return whether another shift of one axis's torques clearly reduces the torque error of this axis.

        The squared error of the axis must fall below `MOST_REMAINING` times its value for the shifts `start_s`.

        Args:
            start_s: shifts of all axes' torques, (n,) [s], with which the other shift is compared.
            axis: index of the axis, from 0.
            delay_s: other shift of this axis [s]; all other axes keep their shift from `start_s`.
        """
        alone = np.where(np.arange(len(start_s)) == axis, delay_s, start_s)
        return bool(self.remaining(alone).sigma[axis] ** 2 < MOST_REMAINING * self.remaining(start_s).sigma[axis] ** 2)

    def root(self, start_s: FloatArray, which: NDArray[np.bool_], *, together: bool) -> Root | None:
        """Return the time shifts of the torques after which no delay remains; None if they are not found.

        The search fails for an axis whose shift exceeds `MOST_S` or whose delay does not vanish within `ROUNDS` rounds.
        If this happens to some axes in a search of single axes, the search is repeated without them, and they keep
        their shift from `start_s`. The result is None if a search fails for all searched axes, or if a search of a
        common shift fails.

        The search first uses approximate fits (`about`). When these show no remaining delay, it continues with exact
        fits (`remaining`).

        The result also contains the ratio `seen` of a change of the estimated delay to a change of the true one. It is
        computed from the last step that exceeds the tolerance of the search, and is 1 without such a step.

        Args:
            start_s: shifts at which the search starts, (n,) [s].
            which: mask of the axes whose delays are searched, (n,).
            together: whether one common shift of all torques is searched, instead of one shift for each axis.
        """
        at, step, before = start_s, np.zeros_like(start_s), np.zeros_like(start_s)
        seen, open_, exactly, rounds = np.ones_like(start_s), which, False, 0
        while (rounds := rounds + 1) <= ROUNDS:
            value, deviation = self._of_axes(self.remaining(at) if exactly else self.about(at), together=together)
            enough = np.maximum(ROOT_S, ROOT_DEVIATIONS * deviation)
            seen = np.where(np.abs(step) > enough, np.clip(-_slope(value, before, step), LEAST_VISIBLE, 1.0), seen)
            open_ = which & (np.abs(value) >= enough)
            if not open_.any() and exactly:
                return Root(at, seen)
            if not open_.any():  # repeat this shift with exact fits, and count rounds anew
                exactly, rounds = True, 0
                continue
            step = np.where(open_, secant_step(value, before, step), 0.0)
            at, before = at + step, value
            if (np.abs(at) > MOST_S).any():
                open_ = np.abs(at) > MOST_S
                break
        others = which & ~open_
        return self.root(start_s, others, together=False) if others.any() and not together else None

    def _of_axes(self, left: RemainingDelay, *, together: bool) -> tuple[FloatArray, FloatArray]:
        """Return one delay per axis and its standard deviation, (n,) [s] each, from a fit to shifted torques.

        Args:
            left: delays that the fit still finds between the shifted torques and the positions.
            together: True returns the common delay of all torques for each axis; False returns each axis's own delay.
        """
        each = left.delays[1:]
        return _values([left.delays[0]] * len(each) if together else each)


def _left(free: Sequence[Unknown], regression: Regression) -> RemainingDelay:
    solution = regression.solve()
    sigma = regression.axis_sigma(regression.residual(solution.phi, solution.friction))
    return RemainingDelay(tuple(one for one in free if one.kind == "delay"), sigma)


def _values(unknowns: Sequence[Unknown]) -> tuple[FloatArray, FloatArray]:
    return np.array([one.value for one in unknowns]), np.array([one.deviation for one in unknowns])


def _slope(value: FloatArray, before: FloatArray, step: FloatArray) -> FloatArray:
    """Return the slopes (n,) of n functions from two values of each function, any unit.

    Where the step is 0, before the first step, the slope is assumed to be -1: shifting the torques reduces the
    remaining delay by the whole shift.

    Args:
        value: values after the step, (n,).
        before: values before the step, (n,).
        step: change of the argument, (n,).
    """
    first = step == 0.0
    return np.asarray(np.where(first, -1.0, (value - before) / np.where(first, 1.0, step)))


def secant_step(value: FloatArray, before: FloatArray, step: FloatArray) -> FloatArray:
    """Return the next steps (n,) of a secant search for the roots of n functions, any unit.

    The unknowns are shifts of the axes' torques in time. A function is the delay that remains after a shift, and it
    decreases as the shift grows. Far from the true delay, the fitted parameters absorb nearly all of a shift, so a
    function hardly decreases. The step is then doubled until the function changes its sign.

    Args:
        value: values of the functions after the last step, (n,).
        before: values before the last step, (n,).
        step: the last step, (n,); 0 at the start.
    """
    first, slope = step == 0.0, _slope(value, before, step)
    falls = (slope < SECANT_SLOPE) | ((slope < 0.0) & (value * before < 0.0))
    found = np.where(falls, -value / np.where(falls, slope, -1.0), 2.0 * np.abs(step) * np.sign(value))
    most = np.where(first, LONGEST_S, np.minimum(LONGEST_S, FARTHEST * np.abs(step) + ROOT_S))
    return np.clip(found, -most, most)


def iterated_delays(search: DelaySearch, limits: SuspicionLimits, doubt: FloatArray) -> tuple[Unknown, ...]:
    """Return the common delay of all torques, then the delay of each axis; large delays are found by iteration.

    If the delays of at least half of the axes contradict the iterated common delay, the common delay is the linear
    estimate from the torques as recorded instead.

    Args:
        search: fits of the samples with shifted torques.
        limits: limits beyond which faults are suspected; delays far below them are not iterated.
        doubt: factor by which the limit of each axis's delay is multiplied, (n,) [-]; it exceeds 1 if the axis has
            friction, because friction resembles a delay.
    """
    given, n = with_scatter_of_joints(search.given.delays)[0], len(doubt)
    root, common = None, given
    if abs(given.value) > max(given.deviation, 0.25 * SMALL * limits.delay_s):
        root = search.root(np.zeros(n), np.ones(n, dtype=bool), together=True)
    if root is not None and (part := search.explained(search.remaining(root.delays_s))) >= 0.0:
        now = with_scatter_of_joints(search.remaining(root.delays_s).delays)[0]
        value, deviation = float(root.delays_s.mean()) + now.value, now.deviation / float(root.seen[0])
        common = Unknown("delay", -1, value, deviation, max(given.explained, part))
        each = _each(search, root.delays_s, limits, doubt)
        if n > 1 and 2 * sum(_contradicts(one, value) for one in each) >= n:
            common = given
    if common is given:
        each = _each(search, np.zeros(n), limits, doubt)
    if n == 1:
        each = (replace(common, axis=0),)
    return (common, *with_scatter_of_joints((common, *each))[1:])


def _contradicts(one: Unknown, common_s: float) -> bool:
    """Return whether an axis's delay differs from the common delay significantly and by over half the common delay."""
    return abs(one.value - common_s) > max(0.5 * abs(common_s), CONTRADICTION_Z * one.deviation)


def _each(search: DelaySearch, start_s: FloatArray, limits: SuspicionLimits, doubt: FloatArray) -> tuple[Unknown, ...]:
    """Return the delay of each axis; large delays are found by iteration.

    The standard deviations do not include the scatter of the delays over the axes, see `with_scatter_of_joints`.

    Args:
        search: fits of the samples with shifted torques.
        start_s: shifts of the torques of all axes at which the search starts, (n,) [s].
        limits: limits beyond which faults are suspected; delays far below them are not iterated.
        doubt: factor by which the limit of each axis's delay is multiplied, (n,) [-]; it exceeds 1 if the axis has
            friction, because friction resembles a delay.
    """
    before = search.remaining(start_s)
    looks, spread = _values(before.delays[1:])
    which = np.isfinite(spread) & (np.abs(looks) > np.maximum(spread, SMALL * limits.delay_s * doubt))
    one_step = [replace(one, value=one.value + start_s[one.axis]) for one in before.delays[1:]]
    root = search.root(start_s, which, together=False) if which.any() else None
    if root is None:
        return tuple(one_step)
    found = search.remaining(root.delays_s)
    part = search.explained(found) - search.explained(before)
    followed_ones = []
    for one, first in zip(found.delays[1:], one_step, strict=True):
        axis, moved = one.axis, root.delays_s[one.axis] != start_s[one.axis]
        value, deviation = one.value + root.delays_s[axis], one.deviation / float(root.seen[axis])
        explained = max(one.explained, part) if moved else one.explained
        sure = moved and abs(value) - limits.deviations * deviation > limits.delay_s * doubt[axis]
        worth = not sure or search.reduces_error(start_s, axis, value)
        followed_ones.append(Unknown("delay", axis, value, deviation, explained) if worth else first)
    return tuple(followed_ones)
