"""Parts of a recording's regression rows that do not depend on torques: regressors, state weights, low-pass.

Several fits use the same states with different torques, such as torques shifted in time. The regressors are then
computed only once, which saves most of the computing time.
"""

from collections.abc import Callable
from functools import cached_property

import numpy as np

from dynid.identification.data.fine_states import FineStates
from dynid.identification.data.zero_phase import PaddedRows
from dynid.model.drive import KINDS, RESISTING, kind_and_number
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FrictionLaw
from dynid.robot import FloatArray, read_only

DRIFT_UNIT_S = 60.0  # the drift of friction is its relative change per minute


class StateRows:
    """Regressors, weights and low-pass of the states of one recording, on a time grid finer than the samples.

    Args:
        model: model of the arm.
        states: the states.
        step_s: time between states on the fine grid [s].
        slides: weights of the states, (M, n): 0 near standstill, else 1.
        space: working memory for the filter, common to all recordings.
        is_series: whether the states are a time series on a fine time grid. If False, the states are the samples
            themselves, and the low-pass has no effect.

    Attributes:
        dq: velocities, (M, n) [rad/s].
        slides: weights of the states, (M, n).
        minutes: time since the middle of the recording, (M,) [min].
        joints: index of the joint of each column of `W` and `G`, (k,).
        parameters: index of the base parameter of each column of `W` and `G`, (k,).
        rubs: mask (k,) of the columns of `W` and `G` whose base parameter is friction.
        W: torques per unit of the parameters, (M, k) [N m per SI unit]. A column belongs to a pair of joint and
            parameter; pairs whose torque is zero in all states are omitted, which is nearly half of them.
        G: loads of the gears per unit of the parameters, (M, k) [N m per SI unit]: like `W`, but without acceleration
            and drive parameters.
    """

    def __init__(
        self, model: ArmModel, states: FineStates, step_s: float, slides: FloatArray, space: PaddedRows, is_series: bool
    ) -> None:
        self._model, self._states, self._space, self._is_series = model, states, space, is_series
        self.dq, self.slides = np.ascontiguousarray(states.dq), slides
        self._step_s = step_s
        self._known_directions: dict[float, FloatArray] = {}
        W = model.regressor(states.q, states.dq, states.ddq)
        G = model.regressor(states.q, states.dq, np.zeros_like(states.ddq))
        G[:, :, [kind_and_number(name)[0] in KINDS for name in model.names]] = 0.0
        middle = 0.5 * (states.nodes[0] + states.nodes[-1])
        self.minutes = ((np.arange(len(states.q)) - middle) * step_s + states.later_s) / DRIFT_UNIT_S
        self._there = (W != 0.0).any(axis=0)
        self.joints, self.parameters = np.nonzero(self._there)
        self.W, self.G = (np.ascontiguousarray(one[:, self._there]) for one in (W, G))
        rubs = np.array([kind_and_number(name)[0] in RESISTING for name in model.names], dtype=bool)
        self.rubs = rubs[self.parameters]

    def are_of(self, model: ArmModel, states: FineStates, step_s: float, slides: FloatArray) -> bool:
        """Return whether these rows belong to the given model, states and weights, so that they can be reused."""
        own = self._states
        if model is not self._model or states.later_s != own.later_s or step_s != self._step_s:
            return False
        pairs = [(getattr(own, name), getattr(states, name)) for name in ("q", "dq", "ddq", "nodes", "sections")]
        filters = zip((own.kernel, own.wide), (states.kernel, states.wide), strict=True)
        pairs += [(one, other) for one, other in filters if one is not None or other is not None]
        return all(np.array_equal(one, other) for one, other in [*pairs, (self.slides, slides)])

    def directions(self, law: FrictionLaw) -> FloatArray:
        """Return the signs of the velocities, smoothed below the transition velocity of the friction law, (M, n).

        The values are between -1 and 1, and are cached.
        """
        if law.transition_rad_s not in self._known_directions:
            found = law.directions_in_time(self.dq, self._step_s) if self._is_series else law.directions(self.dq)
            self._known_directions[law.transition_rad_s] = read_only(np.ascontiguousarray(found))
        return self._known_directions[law.transition_rad_s]

    def low_pass(self, values: FloatArray) -> FloatArray:
        """Low-pass values on the fine time grid, (M, ...), any unit, and return the values at the samples, (N, ...).

        The low-pass is the one that the measured torques have passed. If the states are not a time series on a fine
        grid, the values are returned unchanged.
        """
        return self._states.low_pass(values) if self._is_series else values

    def filtered(self, columns: int, fill: Callable[[FloatArray], None], sticking: bool) -> FloatArray:
        """Return values (N, columns) at the samples, computed on the fine time grid and low-passed like the torques.

        The measured torques have passed two filters: the filter of the states, which has a higher cut-off frequency,
        and the low-pass. The values pass the filter of the states only if `sticking` is True, because this filter
        matters only for friction near standstill, which changes very fast.

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

    def weights(self, sticking: bool) -> FloatArray:
        """Return the weights of all states, (M, n): all 1 if `sticking`, else 0 near standstill and 1 elsewhere."""
        return np.ones_like(self.slides) if sticking else self.slides

    @cached_property
    def whole_W(self) -> FloatArray:
        """Regressor W of all states of this recording after the low-pass, (N, n, p)."""
        return self._unpacked(self.low_pass(self.W))

    @cached_property
    def sliding_W(self) -> FloatArray:
        """Regressor W of this recording with states near standstill masked, after the low-pass, (N, n, p)."""
        return self._unpacked(self.low_pass(self.W * self.slides[:, self.joints]))

    @property
    def standing_W(self) -> FloatArray:
        """Part of the low-passed regressor `whole_W` that comes from the states near standstill, (N, n, p)."""
        return self.whole_W - self.sliding_W

    def _unpacked(self, packed: FloatArray) -> FloatArray:
        whole = np.zeros((len(packed), *self._there.shape))
        whole[:, self._there] = packed
        return whole
