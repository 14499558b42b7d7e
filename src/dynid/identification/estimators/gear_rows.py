"""Torques predicted from motion with a law of friction that knows the load, and their derivatives by all parameters.

    tm = W phi + friction(dq, tm, te),    te = -(C + g) of the same phi

is solved for the motor torque tm, so nothing that was measured as torque is on the right-hand side but its ripple,
which lies above the band that is fitted: |tm| in a column would bring its own errors in. Predictions and derivatives
are made on the fine grid and pass the torques' low-pass.

A joint that sticks obeys no law of its velocity, and the low-pass would carry what it does then into its neighbours in
time. So states near standstill are cut out of torques and derivatives alike, before the low-pass. What is cut makes
rows of its own without friction: of the links they say what sticking lets through, and the fit weighs them by their own
deviation. A prediction is judged by all states; what friction does in those that were cut out is guessed from the
motion before and after them, see `FrictionLaw.directions_in_time`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dynid.identification.data.fine_states import FineStates, grid_step_s
from dynid.identification.data.preprocessing import Samples
from dynid.identification.estimators.gear_kernels import (
    add_by_links,
    add_torques,
    differentiate,
    mean_gradient,
    settle,
    side_by_side,
)
from dynid.model.drive import KINDS, RESISTING, kind_and_number, of_kinds
from dynid.model.dynamics import ArmModel
from dynid.model.friction import KEQ, KM, TERMS, FrictionLaw
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray, read_only

DRIFT_UNIT_S = 60.0
STICK_PERIODS = 0.5  # of the states' cut-off frequency, over which their filter smears a standstill


@dataclass(frozen=True, eq=False)
class Linearised:
    """Torques predicted at a point, and their derivatives there, as seen through the low-pass.

    Attributes:
        tau: prediction, (N, n) [N m].
        W: by phi, (N, n, p).
        friction: by the parameters of the axis's own friction, (N, n, terms), zero where they were not asked for.
        drift: by the share of friction that comes per `DRIFT_UNIT_S`, (N, n).
        tm: motor torques on the fine grid of each recording, from which the next point starts.
    """

    tau: FloatArray
    W: FloatArray
    friction: FloatArray
    drift: FloatArray
    tm: tuple[FloatArray, ...]


class _Stretch:
    """One recording's states with their regressors."""

    def __init__(
        self,
        model: ArmModel,
        states: FineStates,
        step_s: float,
        low_pass: Callable[[FloatArray], FloatArray],
        sharp: Callable[[FloatArray], FloatArray],
        slides: FloatArray,
        is_series: bool,
    ) -> None:
        self.q, self.dq, self.tau, self.ripple = states.q, states.dq, states.tau, _by_axes(states.ripple)
        self.slides, self.step_s = slides, step_s if is_series else None
        self._known_directions: dict[float, FloatArray] = {}
        raw = states.raw if len(states.raw) else states.tau
        self.target = low_pass(raw * slides)
        self.left_out = low_pass(raw) - self.target
        self._more = None if states.other_raw is None else states.other_raw - raw  # of the current not chosen
        W = model.regressor(states.q, states.dq, states.ddq)
        G = model.regressor(states.q, states.dq, np.zeros_like(states.ddq))
        G[:, :, [kind_and_number(name)[0] in KINDS for name in model.names]] = 0.0
        self.low_pass, self.sharp = low_pass, sharp
        middle = 0.5 * (states.nodes[0] + states.nodes[-1])
        self.minutes = ((np.arange(len(states.q)) - middle) * step_s + states.later_s) / DRIFT_UNIT_S
        # nearly half of W is zero in all states: only the columns (joint, parameter) that are not are kept, (M, kept)
        self.there = (W != 0.0).any(axis=0)
        self.joints, self.parameters = np.nonzero(self.there)
        self.W, self.G = (np.ascontiguousarray(one[:, self.there]) for one in (W, G))
        rubs = np.array([kind_and_number(name)[0] in RESISTING for name in model.names], dtype=bool)
        self.rubs = rubs[self.parameters]

    def by_other_current(self) -> tuple[FloatArray, FloatArray]:
        """See `GearRows.by_other_current`."""
        if self._more is None:
            return np.zeros_like(self.target), np.zeros_like(self.target)
        sliding = self.low_pass(self._more * self.slides)
        return sliding, self.low_pass(self._more) - sliding

    def _directions(self, law: FrictionLaw) -> FloatArray:
        """Directions of motion (M, n); of all laws with the same transition they are the same."""
        if law.transition_rad_s not in self._known_directions:
            found = law.directions(self.dq) if self.step_s is None else law.directions_in_time(self.dq, self.step_s)
            self._known_directions[law.transition_rad_s] = read_only(np.ascontiguousarray(found))
        return self._known_directions[law.transition_rad_s]

    def linearise(
        self, phi: FloatArray, law: FrictionLaw, drift: float, guess: FloatArray, terms: Sequence[int], sticking: bool
    ) -> Linearised:
        """See `GearRows.linearise`."""
        links, rubbing, te = (np.zeros_like(self.dq, order="C") for _ in range(3))
        add_torques(self.W, self.G, self.joints, phi[self.parameters], self.rubs, links, rubbing, te)
        # friction among the base parameters changes in the course of time like that beside them
        wanted = links + (drift * self.minutes)[:, None] * rubbing
        tm, warmth, dq = guess.copy(), 1.0 + drift * self.minutes, np.ascontiguousarray(self.dq)
        shape = self._directions(law), law.fadings(dq)
        settle(law.values, *shape, warmth, dq, te, wanted, self.ripple, tm)
        gain, by_load = np.empty_like(dq), np.zeros_like(dq)
        gradient = np.zeros((*dq.shape, len(TERMS)))
        loads = any(KM <= term <= KEQ for term in terms)
        differentiate(law.values, *shape, warmth, dq, te, self.ripple, tm, loads, gain, by_load, gradient)
        by_drift = ((tm - wanted) / warmth[:, None] + rubbing) * self.minutes[:, None]
        changed = np.flatnonzero(self.rubs & (drift != 0.0) | law.depends_on_load)

        def by_links(slides: FloatArray, out: FloatArray) -> None:
            add_by_links(self.W, self.G, self.joints, changed, self.rubs, warmth, gain, by_load, slides, out)

        seen = self._seen(tm - links, by_links, changed, gradient, by_drift, gain, tm, terms, sticking)
        return replace(seen, tau=seen.tau + (self._whole_W if sticking else self._sliding_W) @ phi)

    @cached_property
    def _whole_W(self) -> FloatArray:
        """W of all states behind the low-pass, (N, n, p)."""
        return self._unpacked(self.low_pass(self.W))

    @cached_property
    def _sliding_W(self) -> FloatArray:
        """W of sliding states behind the low-pass, (N, n, p)."""
        return self._unpacked(self.low_pass(self.W * self.slides[:, self.joints]))

    @property
    def standing_W(self) -> FloatArray:
        """W of the states that are cut out, behind the low-pass, (N, n, p)."""
        return self._whole_W - self._sliding_W

    def _unpacked(self, packed: FloatArray) -> FloatArray:
        whole = np.zeros((len(packed), *self.there.shape))
        whole[:, self.there] = packed
        return whole

    def explicit(self, law: FrictionLaw, terms: Sequence[int]) -> Linearised:
        """What the measured torques make of it, to begin with: loads are those of the motors, against them."""
        dq = np.ascontiguousarray(self.dq)
        tau = np.ascontiguousarray(self.tau)
        gradient = mean_gradient(law, dq, -tau, self.ripple, tau)
        nowhere, none = np.zeros(0, dtype=int), np.zeros_like(dq)
        return self._seen(none, _nothing, nowhere, gradient, none, np.ones_like(dq), tau, terms, False)

    def _seen(
        self,
        friction: FloatArray,
        by_links: Callable[[FloatArray, FloatArray], None],
        changed: NDArray[np.int64],
        gradient: FloatArray,
        drift: FloatArray,
        gain: FloatArray,
        tm: FloatArray,
        terms: Sequence[int],
        sticking: bool,
    ) -> Linearised:
        """Friction, its derivatives, and those by phi that it has more than W, all behind the low-pass.

        Derivatives by terms and drift are yet to be multiplied by `gain` (M, n). `by_links` writes those by phi, times
        weights (M, n), into (M, c), of the kept columns `changed` (c,). Terms that nobody asks for need not pass the
        filter.
        """
        n = friction.shape[1]
        slides = np.ones_like(self.slides) if sticking else self.slides
        values = np.empty((len(friction), (2 + len(terms)) * n + len(changed)))
        side_by_side(friction, drift, gradient, np.array(terms, dtype=np.int64), gain, slides, values)
        by_links(slides, values[:, (2 + len(terms)) * n :])
        # torques that are cut have not passed the states' filter
        seen = self.sharp(values) if sticking else self.low_pass(values)
        torque, drift, asked, packed = np.split(seen, [n, 2 * n, (2 + len(terms)) * n], axis=1)
        whole, columns = (self._whole_W if sticking else self._sliding_W).copy(), np.zeros((len(seen), n, len(TERMS)))
        whole[:, self.joints[changed], self.parameters[changed]] += packed
        columns[..., terms] = asked.reshape(len(seen), -1, n).swapaxes(1, 2)
        return Linearised(torque, whole, columns, drift, (tm,))


def _nothing(slides: FloatArray, out: FloatArray) -> None:
    """No derivatives by base parameters."""


def _whole(parts: list[Linearised]) -> Linearised:
    rows = [np.concatenate([getattr(part, name) for part in parts]) for name in ("tau", "W", "friction", "drift")]
    return Linearised(rows[0], rows[1], rows[2], rows[3], tuple(tm for part in parts for tm in part.tm))


class GearRows:
    """Rows of all recordings of a set of samples.

    Args:
        model: the arm.
        samples: states and torques; where no fine states are kept the samples stand for them, without ripple, and
            nothing is cut out.
        slow_rad_s: below it a joint may stick.
    """

    def __init__(self, model: ArmModel, samples: Samples, slow_rad_s: float = 0.0) -> None:
        self.model, self.samples = model, samples
        if samples.fine:
            step = grid_step_s(samples.settings.interval_s, samples.fine[0])
            masks = sliding_masks(samples, slow_rad_s)
            self._stretches = [
                _Stretch(model, one, step, one.low_pass, one.low_pass_sharp, slides, True)
                for one, slides in zip(samples.fine, masks, strict=True)
            ]
        else:
            every = np.arange(len(samples))
            ripple = np.zeros((len(samples), 1, model.axes))
            plain = FineStates(samples.q, samples.dq, samples.ddq, np.zeros((0, 6)), every, samples.tau, ripple)
            plain = replace(plain, other_raw=samples.other_tau)
            same: Callable[[FloatArray], FloatArray] = lambda values: values  # noqa: E731
            everywhere = np.ones_like(samples.dq)
            self._stretches = [_Stretch(model, plain, samples.settings.interval_s, same, same, everywhere, False)]

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
        """The prediction at a point and its derivatives.

        Args:
            phi: base parameters, (p,).
            law: friction beside them.
            drift: share of friction that comes per minute, from the middle of each recording on.
            guess: motor torques to start from, as a former result has them; None starts from the measured ones.
            terms: of friction by which it is differentiated, as places in `TERMS`.
            sticking: of all states; else those near standstill are cut out.
        """
        starts = guess or tuple(one.tau for one in self._stretches)
        pairs = zip(self._stretches, starts, strict=True)
        return _whole([one.linearise(phi, law, drift, start, list(terms), sticking) for one, start in pairs])

    def explicit(self, law: FrictionLaw, terms: Sequence[int]) -> Linearised:
        """Derivatives with the measured torques as motor torques and, against them, as loads; the prediction is 0.

        Of sliding states.
        """
        return _whole([one.explicit(law, list(terms)) for one in self._stretches])

    @cached_property
    def target(self) -> FloatArray:
        """Torques of sliding states, as the fit sees them, (N, n) [N m]."""
        return np.concatenate([one.target for one in self._stretches])

    @cached_property
    def by_other_current(self) -> tuple[FloatArray, FloatArray]:
        """What torques of the current that was not chosen are more than those that were fitted, (N, n) each [N m].

        Of sliding states, and of those that are cut out; nothing where there is no other current.
        """
        sliding, standing = zip(*(one.by_other_current() for one in self._stretches), strict=True)
        return np.concatenate(sliding), np.concatenate(standing)

    @cached_property
    def standing(self) -> tuple[FloatArray, FloatArray]:
        """W (N, n, p) and torques (N, n) [N m] of the states that are cut out."""
        W = np.concatenate([one.standing_W for one in self._stretches])
        return W, np.concatenate([one.left_out for one in self._stretches])

    def sliding(self, values: Sequence[FloatArray]) -> FloatArray:
        """Columns of torques on the fine grids, (M, n, k) each, as sliding states make them in samples, (N, n, k)."""
        pairs = zip(self._stretches, values, strict=True)
        return np.concatenate([one.low_pass(one.slides[..., None] * part) for one, part in pairs])

    @cached_property
    def sliding_share(self) -> FloatArray:
        """What part of every row sliding states make, (N, n)."""
        return np.concatenate([one.low_pass(one.slides) for one in self._stretches])


def sliding_states(dq: FloatArray, slow_rad_s: float, width: int) -> FloatArray:
    """Which states (M, n) are farther than half a width from any near standstill: 1, else 0."""
    slow = np.abs(dq) < slow_rad_s
    before = np.vstack((np.zeros((1, dq.shape[1]), dtype=int), np.cumsum(slow, axis=0)))
    first = np.arange(len(dq)) - width // 2
    near = before[np.minimum(first + width, len(dq))] > before[np.maximum(first, 0)]
    return np.where(near, 0.0, 1.0)


def sliding_masks(samples: Samples, slow_rad_s: float) -> list[FloatArray]:
    """`sliding_states` (M, n) of every recording's fine states, as far from a standstill as their filter smears it."""
    step = grid_step_s(samples.settings.interval_s, samples.fine[0])
    width = 2 * round(STICK_PERIODS / ((samples.settings.state_cutoff_hz or np.inf) * step)) + 1
    return [sliding_states(one.dq, slow_rad_s, width) for one in samples.fine]


class SlidingRows(NamedTuple):
    """What of W (N, n, p) and torques (N, n) sliding states make behind the low-pass, and their share of it (N, n).

    `by_other_current` (N, n) is by how much torques of the current that was not chosen are more than `tau`.
    """

    W: FloatArray
    tau: FloatArray
    share: FloatArray
    by_other_current: FloatArray


def sliding_rows(model: ArmModel, samples: Samples, slow_rad_s: float) -> SlidingRows:
    """Rows of samples with fine states, those near standstill being cut out before the low-pass; see `GearRows`."""
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
    """Torques of phi, and friction beside it, as they are in the samples', (N, n) [N m]; from motion, not from torques.

    What friction the load makes counts the measured ripple of the torques above the samples' band; see `gear_kernels`.
    """
    if friction is None:
        return samples.seen(lambda q, dq, ddq: model.inverse_dynamics(q, dq, ddq, phi))
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
    """What links and friction take in given states, (M, n) [N m] each; from a guess of the motor torques.

    The states are `step_s` apart in time; None where they are no motion.
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
    """(M, R, n) as (M, n, R), each axis's values beside each other."""
    return np.ascontiguousarray(ripple.swapaxes(1, 2))
