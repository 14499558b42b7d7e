"""Controller that runs one control law at a time and switches between control laws without a jump in torque."""

import math

import numpy as np

from dynid.control.controller import TorqueLaw
from dynid.control.filters import PseudoDifferentiator
from dynid.robot import FloatArray

BLEND_S = 0.5  # time over which the former law's torque is blended into the present law's
GUIDED_AVERAGE_S = 0.05  # averaging time of a guided arm's velocity: makes encoder quantisation look like slow motion
# Decay time of a guided joint's velocity, so that a joint that sticks briefly still counts as guided
GUIDED_DECAY_S = 0.2
REVERSAL_RAD_S = 0.06  # reverse velocity that ends this decay; more than encoder noise


class ArmController:
    """Joint controller that runs one control law at a time, and switches between laws without a jump in torque.

    In the first cycle after `switch_to` both laws are evaluated at the same state, the former law with its last
    reference. In general, the difference of both torques is added to the new law's torque and fades linearly over
    `BLEND_S`. The velocity filter continues across the switch.

    A law that follows no reference, for hand guiding, gets the velocity averaged over `GUIDED_AVERAGE_S`. Until a joint
    reverses, this velocity decays no faster than with the time constant `GUIDED_DECAY_S`.

    A law without a reference has no position feedback. If it replaces a law with a reference, the former law therefore
    stays active with its feedback, and its whole torque fades out while that of the new law fades in. Otherwise an arm
    could fall just after torque was switched on, while it still sinks until the feedback of the former law carries it:
    the torque difference at that moment would cancel part of the new law's torque.

    Args:
        law: the law that runs first.
        time_constant: time constant of the pseudo-differentiation [s].
        size: number of joints n.
    """

    def __init__(self, law: TorqueLaw, time_constant: float, size: int) -> None:
        self._law = law
        self._former: TorqueLaw | None = None
        self._velocity = PseudoDifferentiator(time_constant, size)
        self._guided = PseudoDifferentiator(GUIDED_AVERAGE_S, size)
        self._is_guided = False
        self._dq, self._guided_dq = np.zeros((2, size))
        self._reference = np.zeros((3, size))
        # former torque at the switch minus the torque of `_holding` if set, else of the new law
        self._difference = np.zeros(size)
        # Law that is faded out with its feedback active, and its last reference
        self._holding: TorqueLaw | None = None
        self._decay = np.zeros((3, size))
        self._left_s = 0.0
        self._started = False  # whether a torque was computed since the last reset

    @property
    def law(self) -> TorqueLaw:
        """Control law that runs now."""
        return self._law

    @property
    def velocity(self) -> FloatArray:
        """The velocity estimate of the last cycle, (n,) [rad/s]."""
        return self._dq

    def reset(self, q: FloatArray) -> None:
        """Reset the controller to rest at the measured posture q, (n,) [rad]: the first velocity estimate is 0."""
        self._velocity.reset(q)
        self._former, self._holding, self._left_s, self._started = None, None, 0.0, False
        self._is_guided = False
        self._dq = np.zeros_like(self._dq)

    def switch_to(self, law: TorqueLaw, *, at_once: bool = False) -> None:
        """Run another law, or the same law with other parameters, from the next cycle on.

        Args:
            law: the law to run.
            at_once: switch without blending, for an arm that must brake now.
        """
        if at_once or not self._started:
            self._former, self._holding, self._left_s = None, None, 0.0
        elif self._former is None:
            self._former = self._law  # after two switches within one cycle, blend from the law that ran before both
        self._law = law

    def update(
        self, dt: float, q: FloatArray, q_ref: FloatArray, dq_ref: FloatArray, ddq_ref: FloatArray
    ) -> FloatArray:
        """Run one cycle of the present law; return the torque (n,) [N m], blended if the law was switched recently.

        Args:
            dt: time since the previous call [s].
            q: measured positions, (n,) [rad].
            q_ref: reference positions, (n,) [rad].
            dq_ref: reference velocities, (n,) [rad/s].
            ddq_ref: reference accelerations, (n,) [rad/s^2].

        Raises:
            DataError: dt is not positive.
        """
        dq = self._dq = self._velocity.update(dt, q)
        led = self._guided_velocity(dt, q)
        torque = self._law.torque(q, dq if led is None else led, q_ref, dq_ref, ddq_ref)
        self._left_s -= dt
        if self._former is not None:
            self._begin_blend(self._former, torque, q, dq)
        if self._left_s > 0.0:
            torque += self._missing(torque, q, dq) * (self._left_s / BLEND_S)
        last = self._reference
        last[0], last[1], last[2] = q_ref, dq_ref, ddq_ref
        self._started = True
        return torque

    def _missing(self, torque: FloatArray, q: FloatArray, dq: FloatArray) -> FloatArray:
        """Return the torque of the former law minus that of the running law, (n,) [N m]; the caller fades it out.

        It is constant during the fade, unless a law without a reference has replaced a law with a reference: the
        feedback of the former law then stays active.

        Args:
            torque: torque of the running law, (n,) [N m].
            q: measured positions, (n,) [rad].
            dq: estimated velocities, (n,) [rad/s].
        """
        if self._holding is None:
            return self._difference
        return self._holding.torque(q, dq, *self._decay) + self._difference - torque

    def _begin_blend(self, former: TorqueLaw, torque: FloatArray, q: FloatArray, dq: FloatArray) -> None:
        """Start to fade out the torque of the former law.

        Args:
            former: the former law.
            torque: torque of the new law in this cycle, (n,) [N m].
            q: measured positions, (n,) [rad].
            dq: estimated velocities, (n,) [rad/s].
        """
        before = former.torque(q, dq, *self._reference)
        if self._left_s > 0.0:
            before = before + self._missing(before, q, dq) * (self._left_s / BLEND_S)
        else:
            self._holding = None
        if self._law.follows_reference:
            self._holding = None
        elif former.follows_reference:
            self._holding, self._decay = former, self._reference.copy()
        self._difference = before - (torque if self._holding is None else self._holding.torque(q, dq, *self._decay))
        self._left_s, self._former = BLEND_S, None

    def _guided_velocity(self, dt: float, q: FloatArray) -> FloatArray | None:
        """Return the averaged velocity estimate (n,) [rad/s] of a hand-guided arm; None if it follows a reference.

        The estimate starts at zero when hand guiding begins.

        Args:
            dt: time since the previous cycle [s].
            q: measured positions, (n,) [rad].
        """
        if self._law.follows_reference:
            self._is_guided = False
            return None
        if not self._is_guided:
            self._guided.reset(q)
            self._is_guided, self._guided_dq = True, np.zeros_like(q)
        now, kept = self._guided.update(dt, q), self._guided_dq * math.exp(-dt / GUIDED_DECAY_S)
        turned = now * np.sign(kept) < -REVERSAL_RAD_S
        self._guided_dq = np.where((np.abs(now) >= np.abs(kept)) | turned, now, kept)
        return self._guided_dq
