"""Torques predicted from motion with load-dependent friction, and their derivatives by all parameters.

    tm = W phi + friction(dq, tm, te),    te = -(C + g) of the same phi

The equation is solved for the motor torque tm. W phi is the torque of the base parameters phi, dq the velocity, and te
the load of the gear by Coriolis forces C and gravity g. If the measured torque replaced tm on the right-hand side, its
errors would bias the fit. So only the ripple of the measured torque, its frequencies above the cut-off of the low-pass,
is added to tm. Predictions and derivatives are computed on a time grid finer than the samples, and then low-passed like
the measured torques.

The torque of a sticking joint does not follow from its velocity, and the low-pass would spread this torque to
neighbouring samples. So states near standstill are masked (set to zero) in torques and derivatives before the low-pass.
A short stop may not show in the velocity derived from positions. So a slow state is masked, too, if a velocity recorded
near it is nearly zero or reversed (`data.slowest`). The masked states are still used, in additional rows in which,
conversely, all other states are set to zero. These rows do not contain the friction law. Stiction makes them less
accurate, so the fit weights them by a standard deviation of their own. The final validation of a prediction uses all
states. The friction in masked states is then estimated from the motion before and after them, see
`FrictionLaw.directions_in_time`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from dynid.identification.data.fine_states import FineStates, grid_step_s
from dynid.identification.data.preprocessing import Samples
from dynid.identification.data.zero_phase import PaddedRows
from dynid.identification.estimators.gear_kernels import derive, mean_gradient, settle_links
from dynid.identification.estimators.sliding_rows import sliding_masks
from dynid.identification.estimators.solved_torques import by_axes
from dynid.identification.estimators.state_rows import StateRows
from dynid.model.dynamics import ArmModel
from dynid.model.friction import TERMS, FrictionLaw
from dynid.robot import FloatArray


@dataclass(frozen=True, eq=False)
class Linearised:
    """Predicted torques and their derivatives at given parameter values, after the low-pass filter of the torques.

    Attributes:
        tau: prediction, (N, n) [N m].
        W: derivatives by the base parameters phi, (N, n, p).
        friction: derivatives of each axis's torque by the friction parameters of this axis, (N, n, terms); zero for
            terms that were not requested.
        drift: derivative by the drift of friction, (N, n) [N m min]. The drift is a relative change per minute.
        tm: motor torques before the low-pass, on the fine time grid of each recording, (M, n) each [N m]. They are the
            initial guess for the next linearisation.
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
        law: law of the friction that the base parameters do not contain.
        drift: relative change of friction per minute.
        shape: smoothed signs of the velocities, and remaining fractions of the Stribeck friction, (M, n) each.
        links: torques W phi of the base parameters, (M, n) [N m].
        rubbing: part of `links` that is due to friction among the base parameters, (M, n) [N m].
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
        settled: motor torques of each recording on its fine time grid, before the low-pass.
    """

    tau: FloatArray
    sticking: bool
    settled: tuple[_Settled, ...]


class _Stretch:
    """Regression rows of one recording, computed from its states on a time grid finer than the samples.

    Args:
        states: states and torques of the recording.
        motion: regressors and weights, which depend on the states alone.
    """

    def __init__(self, states: FineStates, motion: StateRows) -> None:
        self.motion, self.tau = motion, np.ascontiguousarray(states.tau)
        self.ripple = by_axes(states.ripple)
        raw = states.raw if len(states.raw) else states.tau
        self.target = motion.low_pass(raw * motion.slides)
        self.left_out = motion.low_pass(raw) - self.target
        self._more = None if states.other_raw is None else states.other_raw - raw  # other current minus the chosen one

    def by_other_current(self) -> tuple[FloatArray, FloatArray]:
        """Return the differences between the torques from two recorded motor currents, (N, n) each [N m].

        A recording may contain a measured and a commanded current; the fit uses one of them. The difference is the
        torque from the unused current minus the torque from the used one. The first array is for states in which the
        joint moves, the second for masked states near standstill. Both are zero if only one current was recorded.
        """
        if self._more is None:
            return np.zeros_like(self.target), np.zeros_like(self.target)
        sliding = self.motion.low_pass(self._more * self.motion.slides)
        return sliding, self.motion.low_pass(self._more) - sliding

    def predict(
        self, phi: FloatArray, law: FrictionLaw, drift: float, guess: FloatArray, sticking: bool
    ) -> tuple[FloatArray, _Settled]:
        """Predict this recording's torques at the samples, (N, n) [N m], and motor torques on its fine time grid.

        The torques at the samples are the motor torques, low-passed like the measured torques.

        Args:
            phi: base parameters, (p,).
            law: law of the friction that phi does not contain.
            drift: relative change of friction per minute.
            guess: motor torques on the fine time grid from which their iterative solution starts, (M, n) [N m].
            sticking: True uses all states; False masks states near standstill, in which the joint may stick.
        """
        motion = self.motion
        links, rubbing, te = (np.empty(motion.dq.shape) for _ in range(3))
        shape, tm = (motion.directions(law), law.fadings(motion.dq)), guess.copy()
        own = (
            law.values,
            motion.W,
            motion.G,
            motion.joints,
            phi[motion.parameters],
            motion.rubs,
            *shape,
            drift,
            motion.minutes,
        )
        settle_links(*own, motion.dq, self.ripple, motion.weights(sticking), links, rubbing, te, tm)

        def friction(out: FloatArray) -> None:
            np.subtract(tm, links, out=out)
            if not sticking:
                out *= motion.slides

        seen = motion.filtered(tm.shape[1], friction, sticking)
        tau = seen + (motion.whole_W if sticking else motion.sliding_W) @ phi
        return tau, _Settled(law, drift, shape, links, rubbing, te, tm)

    def derived(self, at: _Settled, tau: FloatArray, terms: Sequence[int], sticking: bool) -> Linearised:
        """Return this recording's predicted torques with derivatives by all parameters.

        Args:
            at: motor torques on the fine time grid, from `predict`.
            tau: predicted torques at the samples, from `predict`, (N, n) [N m].
            terms: friction terms for which derivatives are computed, as indices in `TERMS`.
            sticking: whether the prediction includes states near standstill.
        """
        motion = self.motion
        changed = np.flatnonzero(motion.rubs & (at.drift != 0.0) | at.law.depends_on_load)
        n, asked = tau.shape[1], np.array(terms, dtype=np.int64)

        def derivatives(out: FloatArray) -> None:
            own = (
                at.law.values,
                motion.W,
                motion.G,
                motion.joints,
                changed,
                motion.rubs,
                *at.shape,
                at.drift,
                motion.minutes,
            )
            settled = (motion.dq, self.ripple, at.links, at.rubbing, at.te, at.tm)
            derive(*own, *settled, asked, motion.weights(sticking), out)

        seen = motion.filtered((1 + len(terms)) * n + len(changed), derivatives, sticking)
        whole = (motion.whole_W if sticking else motion.sliding_W).copy()
        whole[:, motion.joints[changed], motion.parameters[changed]] += seen[:, (1 + len(terms)) * n :]
        friction = _by_terms(seen[:, n : (1 + len(terms)) * n], terms, n)
        return Linearised(tau, whole, friction, seen[:, :n], (at.tm,))

    def explicit(self, law: FrictionLaw, terms: Sequence[int]) -> FloatArray:
        """Return derivatives of friction torques by friction terms, (N, n, all terms), from measured torques.

        Friction depends on motor torque and load. Here the measured torque replaces the motor torque, and the negative
        measured torque replaces the load: without friction and acceleration, the motor balances the load. So no
        implicit equation need be solved, in contrast to `predict`. States near standstill are masked, and the
        derivatives by terms that are not requested are zero.

        Args:
            law: friction law at which the derivatives are computed.
            terms: the requested terms, as indices in `TERMS`.
        """
        motion = self.motion
        gradient = mean_gradient(law, motion.dq, -self.tau, self.ripple, self.tau)
        columns = (gradient[..., terms].swapaxes(1, 2) * motion.slides[:, None]).reshape(len(gradient), -1)
        return _by_terms(motion.low_pass(columns), terms, motion.dq.shape[1])


def _by_terms(columns: FloatArray, terms: Sequence[int], axes: int) -> FloatArray:
    """Return an array (N, n, all terms) with given derivatives by some friction terms, and zeros for all other terms.

    Args:
        columns: derivatives, (N, t n): n columns, one per axis, for the first term, then n columns for the next term.
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
        samples: states and torques. If they have no states on a fine time grid, the samples themselves are used, and
            every joint counts as moving.
        slow_rad_s: velocity below which a joint may stick [rad/s].
        like: rows of the same states with other torques, such as torques shifted in time, whose regressors are reused.
            None computes the regressors.
    """

    def __init__(
        self, model: ArmModel, samples: Samples, slow_rad_s: float = 0.0, like: "GearRows | None" = None
    ) -> None:
        self.model, self.samples = model, samples
        interval, space = samples.settings.interval_s, PaddedRows()
        parts, step, masks = samples.fine, interval, [np.ones_like(samples.dq)]
        if samples.fine:
            step, masks = grid_step_s(interval, samples.fine[0]), sliding_masks(samples, slow_rad_s)
        else:
            every = np.arange(len(samples))
            ripple = np.zeros((len(samples), 1, model.axes))
            plain = FineStates(samples.q, samples.dq, samples.ddq, np.zeros((0, 6)), every, samples.tau, ripple)
            parts = (replace(plain, other_raw=samples.other_tau),)
        known = [one.motion for one in like._stretches] if like is not None else []
        self._stretches: list[_Stretch] = []
        for states, slides in zip(parts, masks, strict=True):
            motion = next((one for one in known if one.are_of(model, states, step, slides)), None)
            if motion is None:
                motion = StateRows(model, states, step, slides, space, bool(samples.fine))
            self._stretches.append(_Stretch(states, motion))

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
            law: law of the friction that phi does not contain.
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
            law: law of the friction that phi does not contain.
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
        """Return derivatives of friction torques by friction terms, (N, n, all terms), from measured torques.

        Friction depends on motor torque and load. Here the measured torque replaces the motor torque, and the negative
        measured torque replaces the load: without friction and acceleration, the motor balances the load. So no
        implicit equation need be solved, in contrast to `predict`. States near standstill are masked, and the
        derivatives by terms that are not requested are zero.

        Args:
            law: friction law at which the derivatives are computed.
            terms: the requested terms, as indices in `TERMS`.
        """
        return np.concatenate([one.explicit(law, list(terms)) for one in self._stretches])

    @cached_property
    def sliding_W(self) -> FloatArray:
        """Regressor W of all recordings with states near standstill masked, after the low-pass, (N, n, p)."""
        return np.concatenate([one.motion.sliding_W for one in self._stretches])

    @cached_property
    def target(self) -> FloatArray:
        """Measured torques with states near standstill masked, after the low-pass, (N, n) [N m]: target of the fit."""
        return np.concatenate([one.target for one in self._stretches])

    @cached_property
    def by_other_current(self) -> tuple[FloatArray, FloatArray]:
        """Differences between the torques from two recorded motor currents, (N, n) each [N m].

        A recording may contain a measured and a commanded current; the fit uses one of them. The difference is the
        torque from the unused current minus the torque from the used one. The first array is for states in which the
        joint moves, the second for masked states near standstill. Both are zero if only one current was recorded.
        """
        sliding, standing = zip(*(one.by_other_current() for one in self._stretches), strict=True)
        return np.concatenate(sliding), np.concatenate(standing)

    @cached_property
    def standing(self) -> tuple[FloatArray, FloatArray]:
        """Regressor W (N, n, p) and torques (N, n) [N m] of the masked states near standstill, after the low-pass."""
        W = np.concatenate([one.motion.standing_W for one in self._stretches])
        return W, np.concatenate([one.left_out for one in self._stretches])

    def sliding(self, values: Sequence[FloatArray]) -> FloatArray:
        """Return low-passed columns at the samples, (N, n, k), any unit, from columns on the fine time grid.

        States near standstill are set to zero; then the columns pass the low-pass filter of the torques.

        Args:
            values: columns on the fine time grid of each recording, (M, n, k) each.
        """
        pairs = zip((one.motion for one in self._stretches), values, strict=True)
        return np.concatenate([motion.low_pass(motion.slides[..., None] * part) for motion, part in pairs])

    @cached_property
    def sliding_share(self) -> FloatArray:
        """Fraction of moving states among the states that the low-pass combines in each sample, (N, n).

        States near a standstill of the joint are masked and do not count as moving. The fraction is 1 if none of the
        combined states is masked, and 0 if all are. The states are weighted as in the low-pass.
        """
        return np.concatenate([one.motion.low_pass(one.motion.slides) for one in self._stretches])
