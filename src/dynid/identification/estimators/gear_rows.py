"""Torques predicted from motion with load-dependent friction, and their derivatives by all parameters.

    tm = W phi + friction(dq, tm, te),    te = -(C + g) of the same phi

is solved for the motor torque tm, because the errors of a measured tm would bias the fit. The right-hand side contains
no measured torque except its ripple, which lies above the fitted band. Predictions and derivatives are computed on the
fine grid and pass the torques' low-pass.

The torque of a sticking joint does not follow from its velocity, and the low-pass would spread this torque to
neighbouring samples. So states near standstill are masked in torques and derivatives before the low-pass. Slow states
near which the recorded velocity falls to nearly zero are masked, too (`data.slowest`). The masked states give separate
rows without friction. Stiction makes these rows less accurate, so the fit weights them by their own standard deviation.
The final validation of a prediction uses all states. The friction in masked states is then estimated from the motion
before and after them, see `FrictionLaw.directions_in_time`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from dynid.identification.data.fine_states import FineStates, grid_step_s
from dynid.identification.data.preprocessing import Samples
from dynid.identification.data.zero_phase import PaddedRows
from dynid.identification.estimators.gear_kernels import derive, mean_gradient, settle, settle_links
from dynid.model.drive import KINDS, RESISTING, kind_and_number, of_kinds
from dynid.model.dynamics import ArmModel
from dynid.model.friction import TERMS, FrictionLaw
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray, read_only

DRIFT_UNIT_S = 60.0
STICK_PERIODS = 0.5  # half width over which the states' filter smears a standstill, in periods of its cut-off
# in multiples of slow_rad_s: largest mean speed of a joint that may stop in between; recorded speed that is a stop
STOPPING, STOPPED = 3.0, 0.5


@dataclass(frozen=True, eq=False)
class Linearised:
    """Predicted torques and their derivatives at a point, after the low-pass.

    Attributes:
        tau: prediction, (N, n) [N m].
        W: derivatives by phi, (N, n, p).
        friction: derivatives by the parameters of the axis's own friction, (N, n, terms), zero for terms that were not
            requested.
        drift: derivative by the relative change of friction per `DRIFT_UNIT_S`, (N, n).
        tm: motor torques on the fine grid of each recording, (M, n) each; initial guess for the next point.
    """

    tau: FloatArray
    W: FloatArray
    friction: FloatArray
    drift: FloatArray
    tm: tuple[FloatArray, ...]


class _Settled(NamedTuple):
    """Torques of one recording's states that satisfy the friction equations; input and output of `settle_links`."""

    law: FrictionLaw
    drift: float
    shape: tuple[FloatArray, FloatArray]
    links: FloatArray
    rubbing: FloatArray
    te: FloatArray
    tm: FloatArray


@dataclass(frozen=True, eq=False)
class Predicted:
    """Predicted torques at a point, from which `GearRows.derived` computes the derivatives.

    Attributes:
        tau: prediction after the low-pass, (N, n) [N m].
        sticking: whether states near standstill are included.
        settled: torques of each recording's states that satisfy the friction equations.
    """

    tau: FloatArray
    sticking: bool
    settled: tuple[_Settled, ...]


class _Stretch:
    """Fine states of one recording, with the columns of their regressors."""

    def __init__(
        self, model: ArmModel, states: FineStates, step_s: float, slides: FloatArray, space: PaddedRows, is_series: bool
    ) -> None:
        self._states, self._space, self._is_series = states, space, is_series
        self.dq, self.tau = (np.ascontiguousarray(one) for one in (states.dq, states.tau))
        self.ripple = _by_axes(states.ripple)
        self.slides, self.step_s = slides, step_s if is_series else None
        self._known_directions: dict[float, FloatArray] = {}
        raw = states.raw if len(states.raw) else states.tau
        self.target = self.low_pass(raw * slides)
        self.left_out = self.low_pass(raw) - self.target
        self._more = None if states.other_raw is None else states.other_raw - raw  # other current minus the chosen one
        W = model.regressor(states.q, states.dq, states.ddq)
        G = model.regressor(states.q, states.dq, np.zeros_like(states.ddq))
        G[:, :, [kind_and_number(name)[0] in KINDS for name in model.names]] = 0.0
        middle = 0.5 * (states.nodes[0] + states.nodes[-1])
        self.minutes = ((np.arange(len(states.q)) - middle) * step_s + states.later_s) / DRIFT_UNIT_S
        # nearly half of W is zero in all states: only nonzero columns (joint, parameter) are kept, (M, kept)
        self.there = (W != 0.0).any(axis=0)
        self.joints, self.parameters = np.nonzero(self.there)
        self.W, self.G = (np.ascontiguousarray(one[:, self.there]) for one in (W, G))
        rubs = np.array([kind_and_number(name)[0] in RESISTING for name in model.names], dtype=bool)
        self.rubs = rubs[self.parameters]

    def by_other_current(self) -> tuple[FloatArray, FloatArray]:
        """Return the torque differences of `GearRows.by_other_current` for this recording, (N, n) each [N m]."""
        if self._more is None:
            return np.zeros_like(self.target), np.zeros_like(self.target)
        sliding = self.low_pass(self._more * self.slides)
        return sliding, self.low_pass(self._more) - sliding

    def _directions(self, law: FrictionLaw) -> FloatArray:
        """Return the directions of motion (M, n), cached for all laws with the same transition velocity."""
        if law.transition_rad_s not in self._known_directions:
            found = law.directions(self.dq) if self.step_s is None else law.directions_in_time(self.dq, self.step_s)
            self._known_directions[law.transition_rad_s] = read_only(np.ascontiguousarray(found))
        return self._known_directions[law.transition_rad_s]

    def low_pass(self, values: FloatArray) -> FloatArray:
        """Return the torques' low-pass of values on the grid (M, ...), at the samples, (N, ...); any unit."""
        return self._states.low_pass(values) if self._is_series else values

    def _filtered(self, columns: int, fill: Callable[[FloatArray], None], sticking: bool) -> FloatArray:
        """Return low-pass filtered values (N, columns) of the values (M, columns) that `fill` writes into an array.

        Torques of states near standstill have not passed the states' filter, so with `sticking` that filter is applied.
        """
        if self._is_series and not sticking:
            return self._states.low_pass_filled(columns, fill, self._space)
        values = np.empty((len(self.dq), columns))
        fill(values)
        return self._states.low_pass_sharp(values) if self._is_series else values

    def _weights(self, sticking: bool) -> FloatArray:
        """Return the weights of all states, (M, n): 1 with `sticking`, else 0 for states near standstill."""
        return np.ones_like(self.slides) if sticking else self.slides

    def predict(
        self, phi: FloatArray, law: FrictionLaw, drift: float, guess: FloatArray, sticking: bool
    ) -> tuple[FloatArray, _Settled]:
        """Return the predicted torques (N, n) [N m] and the settled states; see `GearRows.predict`."""
        links, rubbing, te = (np.empty(self.dq.shape) for _ in range(3))
        shape, tm = (self._directions(law), law.fadings(self.dq)), guess.copy()
        own = (law.values, self.W, self.G, self.joints, phi[self.parameters], self.rubs, *shape, drift, self.minutes)
        settle_links(*own, self.dq, self.ripple, self._weights(sticking), links, rubbing, te, tm)

        def friction(out: FloatArray) -> None:
            np.subtract(tm, links, out=out)
            if not sticking:
                out *= self.slides

        seen = self._filtered(tm.shape[1], friction, sticking)
        tau = seen + (self._whole_W if sticking else self.sliding_W) @ phi
        return tau, _Settled(law, drift, shape, links, rubbing, te, tm)

    def derived(self, at: _Settled, tau: FloatArray, terms: Sequence[int], sticking: bool) -> Linearised:
        """Return predicted torques (N, n) with their derivatives; see `GearRows.derived`."""
        changed = np.flatnonzero(self.rubs & (at.drift != 0.0) | at.law.depends_on_load)
        n, asked = tau.shape[1], np.array(terms, dtype=np.int64)

        def derivatives(out: FloatArray) -> None:
            own = (at.law.values, self.W, self.G, self.joints, changed, self.rubs, *at.shape, at.drift, self.minutes)
            settled = (self.dq, self.ripple, at.links, at.rubbing, at.te, at.tm)
            derive(*own, *settled, asked, self._weights(sticking), out)

        seen = self._filtered((1 + len(terms)) * n + len(changed), derivatives, sticking)
        whole = (self._whole_W if sticking else self.sliding_W).copy()
        whole[:, self.joints[changed], self.parameters[changed]] += seen[:, (1 + len(terms)) * n :]
        friction = _by_terms(seen[:, n : (1 + len(terms)) * n], terms, n)
        return Linearised(tau, whole, friction, seen[:, :n], (at.tm,))

    @cached_property
    def _whole_W(self) -> FloatArray:
        """Regressor W of all states of this recording after the low-pass, (N, n, p)."""
        return self._unpacked(self.low_pass(self.W))

    @cached_property
    def sliding_W(self) -> FloatArray:
        """Regressor W of sliding states (away from standstill) after the low-pass, (N, n, p)."""
        return self._unpacked(self.low_pass(self.W * self.slides[:, self.joints]))

    @property
    def standing_W(self) -> FloatArray:
        """Regressor W of the masked states near standstill, after the low-pass, (N, n, p)."""
        return self._whole_W - self.sliding_W

    def _unpacked(self, packed: FloatArray) -> FloatArray:
        whole = np.zeros((len(packed), *self.there.shape))
        whole[:, self.there] = packed
        return whole

    def explicit(self, law: FrictionLaw, terms: Sequence[int]) -> FloatArray:
        """Return derivatives by friction terms, (N, n, all terms), with measured torques as motor torques.

        The loads are the negative motor torques.
        """
        gradient = mean_gradient(law, self.dq, -self.tau, self.ripple, self.tau)
        columns = (gradient[..., terms].swapaxes(1, 2) * self.slides[:, None]).reshape(len(gradient), -1)
        return _by_terms(self.low_pass(columns), terms, self.dq.shape[1])


def _by_terms(columns: FloatArray, terms: Sequence[int], axes: int) -> FloatArray:
    """Return derivatives side by side, (N, terms n), as an array over all `TERMS`, (N, n, all); others are zero."""
    whole = np.zeros((len(columns), axes, len(TERMS)))
    whole[..., list(terms)] = columns.reshape(len(columns), len(terms), axes).swapaxes(1, 2)
    return whole


def _whole(parts: list[Linearised]) -> Linearised:
    rows = [np.concatenate([getattr(part, name) for part in parts]) for name in ("tau", "W", "friction", "drift")]
    return Linearised(rows[0], rows[1], rows[2], rows[3], tuple(tm for part in parts for tm in part.tm))


class GearRows:
    """Regression rows with load-dependent friction, for all recordings in a set of samples.

    Args:
        model: model of the arm.
        samples: states and torques. Without states on a fine grid, the samples themselves are used, and every joint
            counts as sliding.
        slow_rad_s: velocity below which a joint may stick [rad/s].
    """

    def __init__(self, model: ArmModel, samples: Samples, slow_rad_s: float = 0.0) -> None:
        self.model, self.samples = model, samples
        if samples.fine:
            step = grid_step_s(samples.settings.interval_s, samples.fine[0])
            masks = sliding_masks(samples, slow_rad_s)
            space = PaddedRows()
            self._stretches = [
                _Stretch(model, one, step, slides, space, True) for one, slides in zip(samples.fine, masks, strict=True)
            ]
        else:
            every = np.arange(len(samples))
            ripple = np.zeros((len(samples), 1, model.axes))
            plain = FineStates(samples.q, samples.dq, samples.ddq, np.zeros((0, 6)), every, samples.tau, ripple)
            plain = replace(plain, other_raw=samples.other_tau)
            everywhere = np.ones_like(samples.dq)
            self._stretches = [_Stretch(model, plain, samples.settings.interval_s, everywhere, PaddedRows(), False)]

    def linearise(
        self,
        phi: FloatArray,
        law: FrictionLaw,
        drift: float = 0.0,
        guess: tuple[FloatArray, ...] | None = None,
        terms: Sequence[int] = (),
        *,
        sticking: bool = True,
    ) -> Linearised:
        """Return the prediction at a point and its derivatives, for all recordings.

        Args:
            phi: base parameters, (p,).
            law: friction in addition to phi.
            drift: relative change of friction per minute, counted from the middle of each recording.
            guess: initial motor torques from an earlier result; None starts from the measured torques.
            terms: friction terms for which derivatives are computed, as indices in `TERMS`.
            sticking: whether all states are used; otherwise states near standstill are masked.
        """
        return self.derived(self.predict(phi, law, drift, guess, sticking=sticking), terms)

    def predict(
        self,
        phi: FloatArray,
        law: FrictionLaw,
        drift: float = 0.0,
        guess: tuple[FloatArray, ...] | None = None,
        *,
        sticking: bool = True,
    ) -> Predicted:
        """Return the prediction for all recordings, (N, n) [N m], without derivatives; arguments as in `linearise`."""
        starts = guess or tuple(one.tau for one in self._stretches)
        pairs = zip(self._stretches, starts, strict=True)
        found = [one.predict(phi, law, drift, start, sticking) for one, start in pairs]
        return Predicted(np.concatenate([tau for tau, _ in found]), sticking, tuple(settled for _, settled in found))

    def derived(self, at: Predicted, terms: Sequence[int]) -> Linearised:
        """Return a prediction with its derivatives by base parameters, drift and terms, as indices in `TERMS`."""
        ends = np.cumsum([len(one.target) for one in self._stretches])[:-1]
        parts = zip(self._stretches, at.settled, np.split(at.tau, ends), strict=True)
        return _whole([one.derived(settled, tau, list(terms), at.sticking) for one, settled, tau in parts])

    def explicit(self, law: FrictionLaw, terms: Sequence[int]) -> FloatArray:
        """Return derivatives of sliding states by friction terms for measured motor torques, (N, n, all terms).

        The loads are the negative motor torques. Derivatives by terms that were not requested are zero.
        """
        return np.concatenate([one.explicit(law, list(terms)) for one in self._stretches])

    @cached_property
    def sliding_W(self) -> FloatArray:
        """Regressor W of sliding states (away from standstill), (N, n, p)."""
        return np.concatenate([one.sliding_W for one in self._stretches])

    @cached_property
    def target(self) -> FloatArray:
        """Torques of sliding states (away from standstill) at the samples, target of the fit, (N, n) [N m]."""
        return np.concatenate([one.target for one in self._stretches])

    @cached_property
    def by_other_current(self) -> tuple[FloatArray, FloatArray]:
        """Torques of the other current minus the fitted torques, in sliding and masked states, (N, n) each [N m].

        The other current is the one that was not chosen; without it, the differences are zero.
        """
        sliding, standing = zip(*(one.by_other_current() for one in self._stretches), strict=True)
        return np.concatenate(sliding), np.concatenate(standing)

    @cached_property
    def standing(self) -> tuple[FloatArray, FloatArray]:
        """Regressor W (N, n, p) and torques (N, n) [N m] of the masked states near standstill."""
        W = np.concatenate([one.standing_W for one in self._stretches])
        return W, np.concatenate([one.left_out for one in self._stretches])

    def sliding(self, values: Sequence[FloatArray]) -> FloatArray:
        """Return columns (M, n, k) on each recording's fine grid as rows of samples, (N, n, k), in sliding states."""
        pairs = zip(self._stretches, values, strict=True)
        return np.concatenate([one.low_pass(one.slides[..., None] * part) for one, part in pairs])

    @cached_property
    def sliding_share(self) -> FloatArray:
        """Share of every row that stems from sliding states (away from standstill), (N, n)."""
        return np.concatenate([one.low_pass(one.slides) for one in self._stretches])


def sliding_states(dq: FloatArray, slow_rad_s: float, width: int, slowest: FloatArray | None = None) -> FloatArray:
    """Return 1 for states (M, n) that are more than half a width, in states, from any standstill, else 0.

    Args:
        dq: velocities behind the states' filter, (M, n) [rad/s].
        slow_rad_s: speed below which joints may stick [rad/s].
        width: width over which the filter spreads a state, in states.
        slowest: least recorded velocities near the states, (M, n) [rad/s]; None if none were recorded.
    """
    slow = np.abs(dq) < slow_rad_s
    if slowest is not None:
        slow |= (np.abs(dq) < STOPPING * slow_rad_s) & (slowest < STOPPED * slow_rad_s)
    before = np.vstack((np.zeros((1, dq.shape[1]), dtype=int), np.cumsum(slow, axis=0)))
    first = np.arange(len(dq)) - width // 2
    near = before[np.minimum(first + width, len(dq))] > before[np.maximum(first, 0)]
    return np.where(near, 0.0, 1.0)


def sliding_masks(samples: Samples, slow_rad_s: float) -> list[FloatArray]:
    """Return masks (M, n) of every recording's fine states: 1 for states that slide, else 0, see `sliding_states`.

    The width is that over which the torques' low-pass spreads a state.
    """
    step = grid_step_s(samples.settings.interval_s, samples.fine[0])
    width = 2 * round(STICK_PERIODS / ((samples.settings.state_cutoff_hz or np.inf) * step)) + 1
    return [sliding_states(one.dq, slow_rad_s, width, one.slowest) for one in samples.fine]


class SlidingRows(NamedTuple):
    """Regressor W (N, n, p) and torques (N, n) [N m] of states away from standstill, and their share of rows (N, n).

    All have passed the torques' low-pass. `by_other_current` (N, n) [N m] is the torque of the current that was not
    chosen minus `tau`.
    """

    W: FloatArray
    tau: FloatArray
    share: FloatArray
    by_other_current: FloatArray


def sliding_rows(model: ArmModel, samples: Samples, slow_rad_s: float) -> SlidingRows:
    """Return the rows of samples with fine states, masked near standstill before the low-pass; see `GearRows`."""
    found = []
    for one, slides in zip(samples.fine, sliding_masks(samples, slow_rad_s), strict=True):
        raw = one.raw if len(one.raw) else one.tau
        more = np.zeros_like(raw) if one.other_raw is None else one.other_raw - raw
        W = model.regressor(one.q, one.dq, one.ddq) * slides[..., None]
        found.append([one.low_pass(values) for values in (W, raw * slides, slides, more * slides)])
    return SlidingRows(*(np.concatenate(rows) for rows in zip(*found, strict=True)))


def predicted_torques(
    model: ArmModel, samples: Samples, phi: BaseParameters, friction: FrictionLaw | None = None
) -> FloatArray:
    """Return the torques of phi and additional friction at the samples, (N, n) [N m], computed from the motion.

    Load-dependent friction takes into account the measured torque ripple above the samples' band; see `gear_kernels`.
    """
    if friction is None:
        return samples.low_passed(lambda q, dq, ddq: model.inverse_dynamics(q, dq, ddq, phi))
    if not samples.fine:
        ripple = np.zeros((len(samples), 1, model.axes))
        return np.asarray(np.sum(solved_torques(model, samples, samples.tau, ripple, phi, friction), axis=0))
    found = []
    for one in samples.fine:
        step = grid_step_s(samples.settings.interval_s, one)
        links, rubbed = solved_torques(model, one, one.tau, one.ripple, phi, friction, step)
        found.append(one.low_pass(links) + one.low_pass_sharp(rubbed))
    return np.concatenate(found)


def solved_torques(
    model: ArmModel,
    states: FineStates | Samples,
    guess: FloatArray,
    ripple: FloatArray,
    phi: BaseParameters,
    friction: FrictionLaw,
    step_s: float | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return the torques of links and of friction in given states, (M, n) [N m] each.

    Args:
        model: model of the arm.
        states: states, fine or sampled.
        guess: initial motor torques, (M, n) [N m].
        ripple: deviations of the torques around each state, (M, R, n) [N m].
        phi: base parameters.
        friction: friction law in addition to them.
        step_s: time between the states [s]; None if they are not consecutive.
    """
    q, dq, still = states.q, states.dq, np.zeros_like(states.ddq)
    ones, rates = np.ones(len(q)), np.ascontiguousarray(dq)
    x = friction.directions(rates) if step_s is None else friction.directions_in_time(rates, step_s)
    shape = x, friction.fadings(rates)
    te = still
    if friction.depends_on_load:
        te = -model.inverse_dynamics(q, dq, still, of_kinds(phi, KINDS, others=True))
    wanted, tm = model.inverse_dynamics(q, dq, states.ddq, phi), np.array(guess)
    settle(friction.values, *shape, ones, rates, te, wanted, _by_axes(ripple), tm)
    return wanted, tm - wanted


def _by_axes(ripple: FloatArray) -> FloatArray:
    """Return ripple (M, R, n) as a contiguous array (M, n, R)."""
    return np.ascontiguousarray(ripple.swapaxes(1, 2))
