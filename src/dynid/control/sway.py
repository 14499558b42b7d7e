"""An arm that is held sways a little, so that its gears never stick and the forces on it show.

Friction at rest holds what pulls at an arm: no encoder changes, and nothing that reads encoders can know. Joints that
slide take their known friction off, and what is left shows. So each joint follows a small sine about the posture that
is held, each at another phase, so that never all turn at once.
"""

import math

import numpy as np

from dynid.control.arm_controller import ArmController
from dynid.control.controller import TorqueLaw
from dynid.errors import ConfigurationError
from dynid.robot import FloatArray, Robot

SWAY_RAD, SWAY_HZ = 0.04, 2.5  # several times the play of the gears, and slow enough to cross it in a small share
MOST_RAD, MOST_RAD_S = 0.05, 1.0
RAMP_S = 0.5  # over this time it comes and goes
STOOD_S = 0.6  # so long a reference stands before: longer than it does within a motion
GOLDEN = 2.399963  # the golden angle [rad]: phases of joints that lie apart, however many there are


def swaying(amplitude_rad: float, frequency_hz: float) -> tuple[float, float]:
    """Amplitude [rad] and angular frequency [rad/s] of an arm that sways.

    Raises:
        ConfigurationError: an amplitude that is negative, a frequency that is not positive, or more than `MOST_RAD` or
            `MOST_RAD_S`.
    """
    omega = 2.0 * math.pi * frequency_hz
    if not (0.0 <= amplitude_rad <= MOST_RAD and 0.0 < omega < math.inf and omega * amplitude_rad <= MOST_RAD_S):
        raise ConfigurationError(
            f"an arm cannot sway by {amplitude_rad} rad at {frequency_hz} Hz; expected 0 to {MOST_RAD} rad at a "
            f"positive frequency, and up to {MOST_RAD_S} rad/s"
        )
    return amplitude_rad, omega


class SwayingController(ArmController):
    """An `ArmController` whose held reference sways; while a motion runs it does not.

    A joint near its limit sways less, so that the reference never leaves the limits. Another amplitude or frequency
    comes once the present swaying has faded.

    Args:
        law, time_constant: as of `ArmController`; laws that follow no reference do not sway.
        robot: its limits.
        amplitude_rad: of every joint; 0 is an arm that stands.
        frequency_hz: of every joint.

    Attributes:
        paused: whether swaying fades and does not begin.

    Raises:
        ConfigurationError: as of `swaying`.
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
        """Sway so from now on, or as soon as the present swaying has faded; raises as `swaying`."""
        self._wanted = swaying(amplitude_rad, frequency_hz)

    def reset(self, q: FloatArray) -> None:
        """Start at rest at the measured posture q, (n,) [rad]; swaying begins anew."""
        super().reset(q)
        self._level = self._time_s = self._stood_s = 0.0

    def update(
        self, dt: float, q: FloatArray, q_ref: FloatArray, dq_ref: FloatArray, ddq_ref: FloatArray
    ) -> FloatArray:
        """Torque (n,) [N m] as of `ArmController.update`, all (n,); where the reference stands, it sways."""
        if not self._level:
            self._now = self._wanted
        stands = self.law.follows_reference and not dq_ref.any() and not ddq_ref.any()
        self._stood_s = self._stood_s + dt if stands else 0.0
        sways = self._stood_s > STOOD_S and self._now == self._wanted and self._now[0] > 0.0 and not self.paused
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
