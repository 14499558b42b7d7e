"""Small oscillation of a held arm, which keeps its gears from sticking and so makes external forces observable.

On an arm at rest, static friction balances external forces: no encoder value changes, so encoders alone do not show the
forces. While joints move, their friction is known and can be subtracted; the rest is the external torque. So each joint
follows a small sine about the held posture. The sines differ in phase, so that never all joints reverse at once.
"""

import math

import numpy as np

from dynid.control.arm_controller import ArmController
from dynid.control.controller import TorqueLaw
from dynid.control.motion_kernels import stands
from dynid.errors import ConfigurationError
from dynid.robot import FloatArray, Robot

SWAY_RAD, SWAY_HZ = 0.04, 2.5  # several times the gears' backlash, so that crossing it takes a small share of the time
MOST_RAD, MOST_RAD_S = 0.05, 1.0
RAMP_S = 0.5  # time in which swaying fades in and out
STANDSTILL_S = 0.6  # standstill of the reference before swaying starts: longer than within a motion
GOLDEN = 2.399963  # golden angle [rad]: separates the phases of any number of joints


def checked_sway(amplitude_rad: float, frequency_hz: float) -> tuple[float, float]:
    """Check the settings of the small oscillation of a held arm; return amplitude [rad] and angular frequency [rad/s].

    Args:
        amplitude_rad: amplitude.
        frequency_hz: frequency.

    Raises:
        ConfigurationError: the amplitude is negative, the frequency is not positive, or `MOST_RAD` or `MOST_RAD_S` is
            exceeded.
    """
    omega = 2.0 * math.pi * frequency_hz
    if not (0.0 <= amplitude_rad <= MOST_RAD and 0.0 < omega < math.inf and omega * amplitude_rad <= MOST_RAD_S):
        raise ConfigurationError(
            f"an arm cannot sway by {amplitude_rad} rad at {frequency_hz} Hz; expected 0 to {MOST_RAD} rad at a "
            f"positive frequency, and up to {MOST_RAD_S} rad/s"
        )
    return amplitude_rad, omega


class SwayingController(ArmController):
    """An `ArmController` that adds a small oscillation (swaying) to the reference while the reference stands still.

    A joint near its limit sways less, so that the reference never leaves the limits. A new amplitude or frequency takes
    effect once the present swaying has faded.

    Args:
        law: control law with which the controller starts; a law that follows no reference does not sway.
        time_constant: time constant of the pseudo-differentiation of positions [s].
        robot: robot with the joint limits.
        amplitude_rad: amplitude of every joint; 0 switches swaying off.
        frequency_hz: frequency of every joint.

    Attributes:
        paused: whether swaying is suppressed; set it to fade swaying out.

    Raises:
        ConfigurationError: amplitude or frequency is not valid, see `checked_sway`.
    """

    def __init__(
        self,
        law: TorqueLaw,
        time_constant: float,
        robot: Robot,
        amplitude_rad: float = SWAY_RAD,
        frequency_hz: float = SWAY_HZ,
    ) -> None:
        super().__init__(law, time_constant, robot.size)
        self._lower, self._upper = robot.lower, robot.upper
        self._phases = GOLDEN * np.arange(robot.size)
        self._level = self._time_s = self._stood_s = 0.0
        self.paused = False
        self.sway(amplitude_rad, frequency_hz)
        self._now = self._wanted

    def sway(self, amplitude_rad: float, frequency_hz: float) -> None:
        """Set amplitude and frequency of the small oscillation of a held arm.

        They take effect once the present oscillation has faded.

        Args:
            amplitude_rad: amplitude of every joint; 0 switches the oscillation off.
            frequency_hz: frequency of every joint.

        Raises:
            ConfigurationError: amplitude or frequency is not valid, see `checked_sway`.
        """
        self._wanted = checked_sway(amplitude_rad, frequency_hz)

    def reset(self, q: FloatArray) -> None:
        """Reset the controller to rest at the measured posture q, (n,) [rad]; the oscillation starts anew."""
        super().reset(q)
        self._level = self._time_s = self._stood_s = 0.0

    def update(
        self, dt: float, q: FloatArray, q_ref: FloatArray, dq_ref: FloatArray, ddq_ref: FloatArray
    ) -> FloatArray:
        """Run one cycle; return the torque (n,) [N m].

        The small oscillation is added to the reference once the reference has stood still for `STANDSTILL_S`.

        Args:
            dt: time since the previous call [s].
            q: measured positions, (n,) [rad].
            q_ref: reference positions without the oscillation, (n,) [rad].
            dq_ref: reference velocities, (n,) [rad/s].
            ddq_ref: reference accelerations, (n,) [rad/s^2].

        Raises:
            DataError: dt is not positive.
        """
        if not self._level:
            self._now = self._wanted
        standing = self.law.follows_reference and stands(dq_ref, ddq_ref)
        self._stood_s = self._stood_s + dt if standing else 0.0
        sways = self._stood_s > STANDSTILL_S and self._now == self._wanted and self._now[0] > 0.0 and not self.paused
        change = (1.0 if sways else -1.0) / RAMP_S
        self._level, self._time_s = min(max(self._level + change * dt, 0.0), 1.0), self._time_s + dt
        if not self._level:
            return super().update(dt, q, q_ref, dq_ref, ddq_ref)
        amplitude, omega = self._now
        room = np.minimum(q_ref - self._lower, self._upper - q_ref)
        reach = self._level * np.clip(room, 0.0, amplitude)
        phase = omega * self._time_s + self._phases
        sine, cosine = reach * np.sin(phase), reach * np.cos(phase)
        return super().update(dt, q, q_ref + sine, dq_ref + omega * cosine, ddq_ref - omega * omega * sine)
