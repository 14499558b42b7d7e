"""Torques predicted from motion with load-dependent friction, and their derivatives by all parameters.

    tm = W phi + friction(dq, tm, te),    te = -(C + g) of the same phi

is solved for the motor torque tm. W phi is the torque of the base parameters phi, dq the velocity, and te the load of
the gear by Coriolis forces C and gravity g. A measured tm on the right-hand side would bias the fit by its errors. So
the right-hand side contains only the ripple of the measured torque, whose frequencies are above the fitted band.
Predictions and derivatives are computed on a time grid that is finer than the samples, and pass the torques' low-pass.

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
    """Predicted torques and their derivatives at given parameter values, after the low-pass filter of the torques.

    Attributes:
        tau: prediction, (N, n) [N m].
        W: derivatives by the base parameters phi, (N, n, p).
        friction: derivatives by the parameters of the axis's own friction, (N, n, terms), zero for terms that were not
            requested.
        drift: derivative by the drift of friction, (N, n) [N m min]. The drift is a relative change per minute.
        tm: motor torques before the low-pass, on the fine time grid of each recording, (M, n) each [N m]; initial guess
            for the next linearisation.
    """

    tau: FloatArray
    W: FloatArray
    friction: FloatArray
    drift: FloatArray
    tm: tuple[FloatArray, ...]


class _Settled(NamedTuple):
    """Solution tm of tm = W phi + friction(dq, tm, te) for one recording, with the values from which it was computed.

    The motor torque tm is the torque W phi of the base parameters plus friction, which depends on the velocity dq, on
    tm, and on the load te of the gear. All values are given on a fine time grid of M instants.

    Attributes:
        law: friction law for the friction that the base parameters do not contain.
        drift: relative change of friction per minute.
        shape: smoothed signs of the velocities, and remaining fractions of the Stribeck friction, (M, n) each.
        links: torques W phi of the base parameters, (M, n) [N m].
        rubbing: torques of those base parameters that are friction, (M, n) [N m].
        te: loads of the gears by gravity and Coriolis forces, (M, n) [N m].
        tm: motor torques, (M, n) [N m].
    """

    law: FrictionLaw
    drift: float
    shape: tuple[FloatArray, FloatArray]
    links: FloatArray
    rubbing: FloatArray
    te: FloatArray
    tm: FloatArray


@dataclass(frozen=True, eq=False)
class Predicted:
    """Torques predicted at given parameter values, from which `GearRows.derived` computes the derivatives.

    Attributes:
        tau: prediction after the low-pass, (N, n) [N m].
        sticking: whether states near standstill are included.
        settled: motor torques of each recording on its fine time grid, from which `tau` follows by the low-pass.
    """

    tau: FloatArray
    sticking: bool
    settled: tuple[_Settled, ...]


class _Stretch:
    """Regression rows of one recording, computed from its states on a time grid finer than the samples."""

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
        """Return the torques from the current that is not fitted, minus the fitted ones, (N, n) each [N m].

        A recording may contain a measured and a commanded current; the fitted torques are computed from one of them.
        The first array is for states in which the joint moves, the second for masked states near standstill.
        """
        if self._more is None:
            return np.zeros_like(self.target), np.zeros_like(self.target)
        sliding = self.low_pass(self._more * self.slides)
        return sliding, self.low_pass(self._more) - sliding

    def _directions(self, law: FrictionLaw) -> FloatArray:
        """Return the signs of the velocities, smoothed with the law's transition velocity, -1 to 1, (M, n); cached."""
        if law.transition_rad_s not in self._known_directions:
            found = law.directions(self.dq) if self.step_s is None else law.directions_in_time(self.dq, self.step_s)
            self._known_directions[law.transition_rad_s] = read_only(np.ascontiguousarray(found))
        return self._known_directions[law.transition_rad_s]

    def low_pass(self, values: FloatArray) -> FloatArray:
        """Return values at the samples, (N, ...), any unit: values on the fine time grid, (M, ...), after a low-pass.

        The low-pass is the one that the measured torques have passed. If the states are not a time series on a fine
        grid, the values are returned unchanged.
        """
        return self._states.low_pass(values) if self._is_series else values

    def _filtered(self, columns: int, fill: Callable[[FloatArray], None], sticking: bool) -> FloatArray:
        """Return values at the samples, (N, columns), computed on the fine time grid and low-passed like the torques.

        Before the low-pass, the measured torques have passed the filter of the states, which has a higher cut-off
        frequency. This filter matters only for friction near standstill, which changes very fast. So the values pass it
        only if `sticking` includes such states.

        Args:
            columns: number of columns.
            fill: function that writes the values on the fine grid into an array (M, columns).
            sticking: whether states near standstill are included.
        """
        if self._is_series and not sticking:
            return self._states.low_pass_filled(columns, fill, self._space)
        values = np.empty((len(self.dq), columns))
        fill(values)
        return self._states.low_pass_sharp(values) if self._is_series else values

    def _weights(self, sticking: bool) -> FloatArray:
        """Return the weights of all states, (M, n): 1, or 0 near standstill unless `sticking` includes these states."""
        return np.ones_like(self.slides) if sticking else self.slides

    def predict(
        self, phi: FloatArray, law: FrictionLaw, drift: float, guess: FloatArray, sticking: bool
    ) -> tuple[FloatArray, _Settled]:
        """Return this recording's predicted torques at the samples, (N, n) [N m], and motor torques on its fine grid.

        The predicted torques are these motor torques after the low-pass that the measured torques have passed.

        Args:
            phi: base parameters, (p,).
            law: friction law for the friction that phi does not contain.
            drift: relative change of friction per minute.
            guess: motor torques on the fine time grid from which their iterative solution starts, (M, n) [N m].
            sticking: True uses all states; False masks states near standstill, in which the joint may stick.
        """
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
        """Return the torques predicted for this recording with their derivatives.

        Args:
            at: motor torques on the fine time grid, from `predict`.
            tau: predicted torques at the samples, from `predict`, (N, n) [N m].
            terms: friction terms for which derivatives are computed, as indices in `TERMS`.
            sticking: whether the prediction includes states near standstill.
        """
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
        """Regressor W of this recording with states near standstill masked, after the low-pass, (N, n, p)."""
        return self._unpacked(self.low_pass(self.W * self.slides[:, self.joints]))

    @property
    def standing_W(self) -> FloatArray:
        """Regressor W of only the masked states near standstill of this recording, after the low-pass, (N, n, p)."""
        return self._whole_W - self.sliding_W

    def _unpacked(self, packed: FloatArray) -> FloatArray:
        whole = np.zeros((len(packed), *self.there.shape))
        whole[:, self.there] = packed
        return whole

    def explicit(self, law: FrictionLaw, terms: Sequence[int]) -> FloatArray:
        """Return derivatives of friction torques by friction terms, (N, n, all terms), for known motor torques.

        Friction depends on motor torque and load. Here the measured torque replaces the motor torque, and the negative
        measured torque replaces the load: without friction and acceleration, the motor balances the load. So the motor
        torque need not be solved from an implicit equation, as in `predict`. States near standstill are masked, and
        terms that are not requested have zeros.

        Args:
            law: friction law at which the derivatives are computed.
            terms: the requested terms, as indices in `TERMS`.
        """
        gradient = mean_gradient(law, self.dq, -self.tau, self.ripple, self.tau)
        columns = (gradient[..., terms].swapaxes(1, 2) * self.slides[:, None]).reshape(len(gradient), -1)
        return _by_terms(self.low_pass(columns), terms, self.dq.shape[1])


def _by_terms(columns: FloatArray, terms: Sequence[int], axes: int) -> FloatArray:
    """Return derivatives by some friction terms in an array with an entry for each of `TERMS`, (N, n, all terms).

    The entries of all other terms are zero.

    Args:
        columns: derivatives, (N, t n), with n columns for the axes of the first term, then n for those of the next.
        terms: the t terms, as indices in `TERMS`.
        axes: number n of axes.
    """
    whole = np.zeros((len(columns), axes, len(TERMS)))
    whole[..., list(terms)] = columns.reshape(len(columns), len(terms), axes).swapaxes(1, 2)
    return whole


def _whole(parts: list[Linearised]) -> Linearised:
    rows = [np.concatenate([getattr(part, name) for part in parts]) for name in ("tau", "W", "friction", "drift")]
    return Linearised(rows[0], rows[1], rows[2], rows[3], tuple(tm for part in parts for tm in part.tm))


class GearRows:
    """Regression rows with load-dependent friction for all recordings: one equation per sample and axis.

    Args:
        model: model of the arm.
        samples: states and torques. Without states on a fine grid, the samples themselves are used, and every joint
            counts as moving.
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
        """Return the torques predicted at given parameter values and their derivatives, for all recordings.

        Args:
            phi: base parameters, (p,).
            law: friction law for the friction that phi does not contain.
            drift: relative change of friction per minute, counted from the middle of each recording.
            guess: motor torques from which their iterative solution starts, such as an earlier result: for each
                recording on its fine time grid, (M, n) [N m]. None starts from the measured torques.
            terms: friction terms for which derivatives are computed, as indices in `TERMS`.
            sticking: True uses all states; False masks states near standstill, in which the joint may stick.
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
        """Return the torques predicted at given parameter values for all recordings, (N, n) [N m], without derivatives.

        Args:
            phi: base parameters, (p,).
            law: friction law for the friction that phi does not contain.
            drift: relative change of friction per minute, counted from the middle of each recording.
            guess: motor torques from which their iterative solution starts, such as an earlier result: for each
                recording on its fine time grid, (M, n) [N m]. None starts from the measured torques.
            sticking: True uses all states; False masks states near standstill, in which the joint may stick.
        """
        starts = guess or tuple(one.tau for one in self._stretches)
        pairs = zip(self._stretches, starts, strict=True)
        found = [one.predict(phi, law, drift, start, sticking) for one, start in pairs]
        return Predicted(np.concatenate([tau for tau, _ in found]), sticking, tuple(settled for _, settled in found))

    def derived(self, at: Predicted, terms: Sequence[int]) -> Linearised:
        """Return predicted torques with derivatives by base parameters, drift and friction terms, for all recordings.

        Args:
            at: the predicted torques, from `predict`.
            terms: friction terms for which derivatives are computed, as indices in `TERMS`.
        """
        ends = np.cumsum([len(one.target) for one in self._stretches])[:-1]
        parts = zip(self._stretches, at.settled, np.split(at.tau, ends), strict=True)
        return _whole([one.derived(settled, tau, list(terms), at.sticking) for one, settled, tau in parts])

    def explicit(self, law: FrictionLaw, terms: Sequence[int]) -> FloatArray:
        """Return derivatives of friction torques by friction terms, (N, n, all terms), for known motor torques.

        Friction depends on motor torque and load. Here the measured torque replaces the motor torque, and the negative
        measured torque replaces the load: without friction and acceleration, the motor balances the load. So the motor
        torque need not be solved from an implicit equation, as in `predict`. States near standstill are masked, and
        terms that are not requested have zeros.

        Args:
            law: friction law at which the derivatives are computed.
            terms: the requested terms, as indices in `TERMS`.
        """
        return np.concatenate([one.explicit(law, list(terms)) for one in self._stretches])

    @cached_property
    def sliding_W(self) -> FloatArray:
        """Regressor W of all recordings with states near standstill masked, after the low-pass, (N, n, p)."""
        return np.concatenate([one.sliding_W for one in self._stretches])

    @cached_property
    def target(self) -> FloatArray:
        """Measured torques with states near standstill masked, after the low-pass, (N, n) [N m]: target of the fit."""
        return np.concatenate([one.target for one in self._stretches])

    @cached_property
    def by_other_current(self) -> tuple[FloatArray, FloatArray]:
        """Torques from the current that is not fitted, minus the fitted torques, (N, n) each [N m].

        A recording may contain a measured and a commanded current; the fitted torques are computed from one of them.
        The first array is for states in which the joint moves, the second for masked states near standstill. Both are
        zero if only one current was recorded.
        """
        sliding, standing = zip(*(one.by_other_current() for one in self._stretches), strict=True)
        return np.concatenate(sliding), np.concatenate(standing)

    @cached_property
    def standing(self) -> tuple[FloatArray, FloatArray]:
        """Regressor W (N, n, p) and torques (N, n) [N m] of the masked states near standstill, after the low-pass."""
        W = np.concatenate([one.standing_W for one in self._stretches])
        return W, np.concatenate([one.left_out for one in self._stretches])

    def sliding(self, values: Sequence[FloatArray]) -> FloatArray:
        """Return columns at the samples, (N, n, k), any unit, low-passed like the torques.

        States near standstill are set to zero before the low-pass.

        Args:
            values: columns on the fine time grid of each recording, (M, n, k) each.
        """
        pairs = zip(self._stretches, values, strict=True)
        return np.concatenate([one.low_pass(one.slides[..., None] * part) for one, part in pairs])

    @cached_property
    def sliding_share(self) -> FloatArray:
        """Weighted fraction of moving states among the states that the low-pass combines in each sample, (N, n).

        It is 1 if none of these states is masked as near a standstill of the joint, and 0 if all are. The weights are
        those of the low-pass.
        """
        return np.concatenate([one.low_pass(one.slides) for one in self._stretches])


def sliding_states(dq: FloatArray, slow_rad_s: float, width: int, slowest: FloatArray | None = None) -> FloatArray:
    """Return a mask (M, n): 0.0 for states near a standstill of the joint, else 1.0.

    Near means at most half of `width` states away. The states' filter spreads a standstill over all these states.

    Args:
        dq: velocities after the states' filter, (M, n) [rad/s].
        slow_rad_s: speed below which joints may stick [rad/s].
        width: number of successive states over which the filter spreads one state.
        slowest: smallest recorded velocity near each state, positive in the direction of dq, (M, n) [rad/s]; None if
            no velocity was recorded.
    """
    slow = np.abs(dq) < slow_rad_s
    if slowest is not None:
        slow |= (np.abs(dq) < STOPPING * slow_rad_s) & (slowest < STOPPED * slow_rad_s)
    before = np.vstack((np.zeros((1, dq.shape[1]), dtype=int), np.cumsum(slow, axis=0)))
    first = np.arange(len(dq)) - width // 2
    near = before[np.minimum(first + width, len(dq))] > before[np.maximum(first, 0)]
    return np.where(near, 0.0, 1.0)


def sliding_masks(samples: Samples, slow_rad_s: float) -> list[FloatArray]:
    """Return a mask (M, n) for each recording: 0.0 for states near a standstill of the joint, else 1.0.

    The states are those on the fine time grid. The states' filter spreads a standstill over neighbouring states. All of
    these count as near the standstill, see `sliding_states`.

    Args:
        samples: samples with states on a fine grid.
        slow_rad_s: speed below which a joint may stick [rad/s].
    """
    step = grid_step_s(samples.settings.interval_s, samples.fine[0])
    width = 2 * round(STICK_PERIODS / ((samples.settings.state_cutoff_hz or np.inf) * step)) + 1
    return [sliding_states(one.dq, slow_rad_s, width, one.slowest) for one in samples.fine]


class SlidingRows(NamedTuple):
    """Regression rows in which states near standstill are masked, after the low-pass of the torques.

    Attributes:
        W: regressor, (N, n, p).
        tau: torques, (N, n) [N m].
        share: weighted fraction of moving (not masked) states among those that the low-pass combines in each row,
            (N, n).
        by_other_current: torques from the current that `tau` does not use, minus `tau`, (N, n) [N m]. A recording may
            contain a measured and a commanded current.
    """

    W: FloatArray
    tau: FloatArray
    share: FloatArray
    by_other_current: FloatArray


def sliding_rows(model: ArmModel, samples: Samples, slow_rad_s: float) -> SlidingRows:
    """Return the regression rows of samples in which states near standstill are masked before the low-pass.

    Args:
        model: model of the arm.
        samples: samples with states on a fine grid.
        slow_rad_s: velocity below which a joint may stick [rad/s].
    """
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
    """Return the torques at the samples that parameters predict from the motion, (N, n) [N m].

    Load-dependent friction is averaged over the ripple of the measured torque, which is the part of the torque that the
    low-pass of the samples removes.

    Args:
        model: model of the arm.
        samples: states and torques.
        phi: base parameters.
        friction: law of the friction that phi does not contain; None if there is none.
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
    """Return the torques of the base parameters, and those of the friction outside them, (M, n) [N m] each.

    Args:
        model: model of the arm.
        states: the M states for which torques are computed, on a fine grid or at the samples.
        guess: motor torques from which their iterative solution starts, (M, n) [N m].
        ripple: measured torque minus its low-passed value, at R instants around each state, (M, R, n) [N m].
        phi: base parameters.
        friction: law of the friction that the base parameters do not contain.
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
