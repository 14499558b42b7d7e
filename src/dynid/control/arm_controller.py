"""A control law with the velocity estimate that all laws share, exchanged for another one without a jump in torque."""

import math

import numpy as np

from dynid.control.controller import TorqueLaw
from dynid.control.filters import PseudoDifferentiator
from dynid.robot import FloatArray

BLEND_S = 0.5  # over this time the difference between the former and the present law fades
LED_S = 0.05  # who leads an arm is slow; a position that trembles by one encoder step then seems to move slowly
LED_KEPT_S = 0.2  # a led joint that sticks for a moment is still led: its velocity fades over this time
TURNED_RAD_S = 0.06  # unless it moves back, by more than an encoder that trembles


class ArmController:
    """A `Controller` that runs one `TorqueLaw` at a time.

    Bumpless: in the first cycle after `switch_to` both laws are asked about the same state, the former one with the
    reference that it had last; their difference is added to the new law's torque and fades linearly over `BLEND_S`. The
    velocity filter goes on, whichever law runs. Laws that follow no reference get the velocity averaged over `LED_S`,
    which falls no faster than over `LED_KEPT_S` while a joint does not move back.

    A law that follows no reference holds nothing, and an arm whose torque has just come on is held by feedback alone:
    it would fall while the difference fades. So there the former law continues with its feedback, and fades itself.

    Args:
        time_constant: of the pseudo-differentiation [s].
        size: number of joints n.
    """

    def __init__(self, law: TorqueLaw, time_constant: float, size: int) -> None:
        self._law = law
        self._former: TorqueLaw | None = None
        self._velocity = PseudoDifferentiator(time_constant, size)
        self._led = PseudoDifferentiator(LED_S, size)
        self._is_led = False
        self._dq, self._led_dq = np.zeros((2, size))
        self._reference = np.zeros((3, size))
        self._difference = np.zeros(size)  # at the switch, from the law that holds, else from the new one
        # The law that fades with its feedback, and the reference that it keeps
        self._holding: TorqueLaw | None = None
        self._kept = np.zeros((3, size))
        self._left_s = 0.0
        self._started = False  # whether a law has given a torque since the last reset

    @property
    def law(self) -> TorqueLaw:
        """The law that runs."""
        return self._law

    @property
    def velocity(self) -> FloatArray:
        """The velocity estimate of the last cycle, (n,) [rad/s]."""
        return self._dq

    def reset(self, q: FloatArray) -> None:
        """Start at rest at the measured posture q, (n,) [rad]: the first velocity estimate is 0."""
        self._velocity.reset(q)
        self._former, self._holding, self._left_s, self._started = None, None, 0.0, False
        self._is_led = False
        self._dq = np.zeros_like(self._dq)

    def switch_to(self, law: TorqueLaw, *, at_once: bool = False) -> None:
        """Run another law, or the same one with other values, from the next cycle on.

        Args:
            at_once: let nothing of the former law fade: for an arm that must be braked now.
        """
        if at_once or not self._started:
            self._former, self._holding, self._left_s = None, None, 0.0
        elif self._former is None:
            self._former = self._law  # of two switches within one cycle, the law that ran is the one before both
        self._law = law

    def update(
        self, dt: float, q: FloatArray, q_ref: FloatArray, dq_ref: FloatArray, ddq_ref: FloatArray
    ) -> FloatArray:
        """Torque (n,) [N m] from the measured q and the reference, all (n,) in SI, dt [s] after the previous
        call.

        Raises:
            DataError: dt is not positive.
        """
        dq = self._dq = self._velocity.update(dt, q)
        led = self._led_velocity(dt, q)
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
        """What the running law's torque (n,) lacks of what fades, (n,) [N m]."""
        if self._holding is None:
            return self._difference
        return self._holding.torque(q, dq, *self._kept) + self._difference - torque

    def _begin_blend(self, former: TorqueLaw, torque: FloatArray, q: FloatArray, dq: FloatArray) -> None:
        """The former law begins to fade; `torque` (n,) is the new one's."""
        before = former.torque(q, dq, *self._reference)
        if self._left_s > 0.0:
            before = before + self._missing(before, q, dq) * (self._left_s / BLEND_S)
        else:
            self._holding = None
        if self._law.follows_reference:
            self._holding = None
        elif former.follows_reference:
            self._holding, self._kept = former, self._reference.copy()
        self._difference = before - (torque if self._holding is None else self._holding.torque(q, dq, *self._kept))
        self._left_s, self._former = BLEND_S, None

    def _led_velocity(self, dt: float, q: FloatArray) -> FloatArray | None:
        """The slower velocity estimate of an arm that is led, (n,) [rad/s], from standstill on; None for other laws."""
        if self._law.follows_reference:
            self._is_led = False
            return None
        if not self._is_led:
            self._led.reset(q)
            self._is_led, self._led_dq = True, np.zeros_like(q)
        now, kept = self._led.update(dt, q), self._led_dq * math.exp(-dt / LED_KEPT_S)
        turned = now * np.sign(kept) < -TURNED_RAD_S
        self._led_dq = np.where((np.abs(now) >= np.abs(kept)) | turned, now, kept)
        return self._led_dq
