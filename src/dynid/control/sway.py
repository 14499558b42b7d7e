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
GOLDEN = 2.399963  # the golden angle [rad]: phases of joints that lie apart, however many there are


class SwayingController(ArmController):
    """An `ArmController` whose held reference sways; while a motion runs it does not.

    A joint near its limit sways less, so that the reference never leaves the limits.

    Args:
        law, time_constant: as of `ArmController`; laws that follow no reference do not sway.
        robot: its limits.
        amplitude_rad: of every joint.
        frequency_hz: of every joint.

    Raises:
        ConfigurationError: an amplitude or a speed that is not positive, or beyond `MOST_RAD` and `MOST_RAD_S`.
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
        speed = 2.0 * math.pi * frequency_hz * amplitude_rad
        if not (0.0 < amplitude_rad <= MOST_RAD and 0.0 < speed <= MOST_RAD_S):
            raise ConfigurationError(
                f"an arm cannot sway by {amplitude_rad} rad at {frequency_hz} Hz; expected up to {MOST_RAD} rad, and "
                f"up to {MOST_RAD_S} rad/s"
            )
        self._amplitude, self._omega = amplitude_rad, 2.0 * math.pi * frequency_hz
        self._lower, self._upper = robot.lower, robot.upper
        self._phases = GOLDEN * np.arange(robot.size)
        self._level = self._time_s = 0.0

    def reset(self, q: FloatArray) -> None:
        """Start at rest at the measured posture q, (n,) [rad]; swaying begins anew."""
        super().reset(q)
        self._level = self._time_s = 0.0

    def update(
        self, dt: float, q: FloatArray, q_ref: FloatArray, dq_ref: FloatArray, ddq_ref: FloatArray
    ) -> FloatArray:
        """Torque (n,) [N m] as of `ArmController.update`, all (n,); where the reference stands, it sways."""
        stands = self.law.follows_reference and not dq_ref.any() and not ddq_ref.any()
        change = (1.0 if stands else -1.0) / RAMP_S
        self._level, self._time_s = min(max(self._level + change * dt, 0.0), 1.0), self._time_s + dt
        if not self._level:
            return super().update(dt, q, q_ref, dq_ref, ddq_ref)
        room = np.minimum(q_ref - self._lower, self._upper - q_ref)
        reach = self._level * np.clip(room, 0.0, self._amplitude)
        phase = self._omega * self._time_s + self._phases
        sine, cosine = reach * np.sin(phase), reach * np.cos(phase)
        return super().update(
            dt, q, q_ref + sine, dq_ref + self._omega * cosine, ddq_ref - self._omega * self._omega * sine
        )
