"""Position loop of the simulated arm's servos at 1 kHz, as in their position control mode.

ROBOTIS e-manual, XM430-W350, "Position Control Mode": the gain registers are divided by 128 (P), 65536 (I) and 16 (D),
and the sum of the terms is a PWM of which 885 is the whole supply voltage. The winding converts voltage less back-EMF
into current, which is limited by the current limit and has a small lag (`motors.yaml`). The loop works in encoder
counts.
"""

from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray

from dynid.errors import ConfigurationError
from dynid.hardware.bus.control_table import COUNTS_PER_TURN
from dynid.hardware.safety.overload import load_motors
from dynid.robot import FloatArray, Robot

STEP_RAD = 2.0 * np.pi / COUNTS_PER_TURN
P_DIVISOR, I_DIVISOR, D_DIVISOR, FULL_PWM, LOOP_S = 128.0, 65536.0, 16.0, 885.0, 0.001
Counts = NDArray[np.int16]


@dataclass(frozen=True)
class Gains:
    """Registers P, I and D of the position loop, the same for all servos."""

    p: int = 800
    i: int = 0
    d: int = 0


FACTORY = Gains()


@numba.njit(cache=True)
def position_loop(
    goal: FloatArray,
    q: FloatArray,
    dq: FloatArray,
    figures: FloatArray,
    gains: FloatArray,
    noise: tuple[FloatArray, FloatArray],
    state: FloatArray,
    position: Counts,
    current: Counts,
    torque: FloatArray,
) -> None:
    """Advance all servos by one millisecond: compute their readings and torques.

    Args:
        goal: encoder counts, (n,).
        q: joint angles, (n,) [rad].
        dq: joint velocities, (n,) [rad/s].
        figures: supply [V], back-EMF [V s/rad], resistance [ohm], current limit [A], share of a current step that is
            followed within a millisecond, torque constant [N m/A], half the backlash [rad], unit of current [A]; (8,
            n).
        gains: P, I, D after division by their divisors, in PWM per count, (3,).
        noise: noise of the torque [N m] and of the current sensor [A], (n,) each.
        state: sum of errors and last position [counts], current [A], angle of the encoder [rad]; (4, n), updated.
        position: position registers in counts, (n,); result.
        current: current registers in counts, (n,); result.
        torque: motor torques, (n,) [N m]; result.
    """
    for i in range(goal.shape[0]):
        seen = min(max(state[3, i], q[i] - figures[6, i]), q[i] + figures[6, i])
        count = np.rint(seen / STEP_RAD)
        position[i] = np.int16(count)
        current[i] = np.int16(np.rint((state[2, i] + noise[1][i]) / figures[7, i]))
        error = goal[i] - count
        state[0, i] += error
        pwm = gains[0] * error + gains[1] * state[0, i] - gains[2] * (count - state[1, i])
        state[1, i], state[3, i] = count, seen
        if abs(pwm) > FULL_PWM:
            state[0, i] -= error  # the sum of errors does not grow while the output is at its limit
            pwm = np.sign(pwm) * FULL_PWM
        wanted = (pwm / FULL_PWM * figures[0, i] - figures[1, i] * dq[i]) / figures[2, i]
        wanted = min(max(wanted, -figures[3, i]), figures[3, i])
        state[2, i] += (wanted - state[2, i]) * figures[4, i]
        torque[i] = state[2, i] * figures[5, i] + noise[0][i]


class PositionServos:
    """Servos of an arm in position control.

    Args:
        robot: robot whose `motors.yaml` gives the windings.
        gains: registers of the loops.
        q: initial joint angles, (n,) [rad].
        play: width of the backlash in front of the encoder [rad].

    Raises:
        ConfigurationError: the robot has no motors.yaml.
    """

    def __init__(self, robot: Robot, gains: Gains, q: FloatArray, play: float) -> None:
        motors = load_motors(robot)
        if motors is None:
            raise ConfigurationError(f"robot '{robot.name}' has no motors.yaml: its windings are not known")
        winding = np.array([(m.winding.supply_v, m.winding.back_emf_v_s_rad, m.winding.resistance_ohm) for m in motors])
        followed = 1.0 - np.exp(-LOOP_S / np.array([m.loop.lag_s for m in motors]))
        play_rad = np.full(robot.size, 0.5 * play)
        rest = robot.drive_limits, followed, robot.drive_constants, play_rad, robot.current_units
        self._figures = np.vstack([winding.T, *rest])
        self._gains = np.array([gains.p / P_DIVISOR, gains.i / I_DIVISOR, gains.d / D_DIVISOR])
        self._state = np.vstack([np.zeros(robot.size), np.rint(q / STEP_RAD), np.zeros(robot.size), q])

    def step(
        self,
        goal: FloatArray,
        q: FloatArray,
        dq: FloatArray,
        drive_noise: FloatArray,
        sensor_noise: FloatArray,
        position: Counts,
        current: Counts,
        torque: FloatArray,
    ) -> None:
        """Advance the servos by one millisecond, see `position_loop`; the last three arguments are results."""
        noise = (drive_noise, sensor_noise)
        position_loop(goal, q, dq, self._figures, self._gains, noise, self._state, position, current, torque)
