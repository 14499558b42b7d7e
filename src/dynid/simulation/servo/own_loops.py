"""Motor current of a servo that is not in current mode: an internal loop controls position, velocity or voltage.

ROBOTIS e-manual, XM430-W350: the gain registers are divided by 128 (P), 65536 (I) and 16 (D), and the loop runs once
per millisecond. The sum of the terms is a PWM value; 885 applies the full supply voltage. The winding converts the
voltage minus the back-EMF into current, so a PWM of 0 brakes. Feedforward, and a profile in velocity mode, are not
simulated.
"""

import numpy as np

from dynid.hardware.bus import control_table as table
from dynid.hardware.safety.overload import Winding, load_motors
from dynid.robot import Robot
from dynid.simulation.servo.profile import PositionProfile
from dynid.simulation.servo.servo import Servo

# defaults for unknown motors: XM430-W350 at 12 V (e-manual)
DEFAULT_WINDING = Winding(supply_v=12.0, resistance_ohm=5.217, back_emf_v_s_rad=2.491)
P_DIVISOR, I_DIVISOR, D_DIVISOR = 128.0, 65536.0, 16.0
LOOP_1_S = 1000.0  # rate of the servo's control loop [1/s]


class OwnLoops:
    """Internal position, velocity and PWM loops of all m servos of an arm.

    In all methods, `place` is the index of a servo in `Robot.wired_servos`.

    Args:
        robot: robot whose `motors.yaml` gives the windings; without that file, `DEFAULT_WINDING` is used.
    """

    def __init__(self, robot: Robot) -> None:
        motors, wired = load_motors(robot), robot.wired_servos
        self._windings = [DEFAULT_WINDING if motors is None else motors[one.axis].winding for one in wired]
        self._units = robot.current_units[[one.axis for one in wired]]
        self._sums = np.zeros(len(wired))
        self._ways: dict[int, PositionProfile] = {}

    def forget(self, place: int) -> None:
        """Clear the integrator and the motion profile of servo `place`, whose loop no longer runs."""
        self._sums[place] = 0.0
        self._ways.pop(place, None)

    def current(self, place: int, servo: Servo, dq: float, step_s: float) -> float:
        """Return the motor current of one servo [A], in the sign of its shaft, and advance the servo's internal loop.

        Args:
            place: index of the servo in `Robot.wired_servos`.
            servo: the servo; its registers give mode, goals and gains.
            dq: velocity of the shaft [rad/s].
            step_s: time since the last call [s].
        """
        winding, sign = self._windings[place], -1.0 if servo.reversed else 1.0
        emf = sign * winding.back_emf_v_s_rad * dq
        pwm = self._pwm(place, servo, sign * dq, step_s * LOOP_1_S)
        current = (pwm / table.FULL_PWM * winding.supply_v - emf) / winding.resistance_ohm
        by_goal = servo.get(table.OPERATING_MODE) == table.CURRENT_BASED_POSITION_MODE
        most = abs(servo.get(table.GOAL_CURRENT if by_goal else table.CURRENT_LIMIT)) * self._units[place]
        return float(sign * min(max(current, -most), most))

    def _reference(self, place: int, servo: Servo, present: int, steps: float) -> float:
        """Return the reference position of a servo [counts] on its profile to the goal position.

        A new goal starts a new profile. `present` is the present position [counts], and `steps` is the time since the
        last call in periods of the loop.
        """
        way = self._ways.get(place)
        if way is None or way.goal != servo.get(table.GOAL_POSITION):
            way = self._ways[place] = PositionProfile.of(servo, float(present) if way is None else way.advance(0.0))
        return way.advance(steps)

    def _pwm(self, place: int, servo: Servo, dq: float, steps: float) -> float:
        """Return the PWM that the internal loop of a servo sets, in register counts.

        Args:
            place: index of the servo in `Robot.wired_servos`.
            servo: the servo; its registers give mode, goals and gains.
            dq: velocity in the sign of the servo's registers [rad/s].
            steps: time since the last call in periods of the loop.
        """
        most, mode = float(servo.get(table.GOAL_PWM)), servo.get(table.OPERATING_MODE)
        if mode == table.PWM_MODE:
            return 0.0 if servo.watchdog_tripped else most
        if mode == table.VELOCITY_MODE:
            goal = 0 if servo.watchdog_tripped else servo.get(table.GOAL_VELOCITY)
            error = goal - dq / table.VELOCITY_RAD_S_PER_COUNT
            gains = servo.get(table.VELOCITY_P_GAIN), servo.get(table.VELOCITY_I_GAIN)
            damping = 0.0
        else:
            present = servo.get(table.PRESENT_POSITION)
            error = self._reference(place, servo, present, steps) - present
            gains = servo.get(table.POSITION_P_GAIN), servo.get(table.POSITION_I_GAIN)
            damping = servo.get(table.POSITION_D_GAIN) / D_DIVISOR * dq / table.POSITION_RAD_PER_COUNT / LOOP_1_S
        total = self._sums[place] + error * steps
        pwm = gains[0] / P_DIVISOR * error + gains[1] / I_DIVISOR * total - damping
        if abs(pwm) <= abs(most):
            self._sums[place] = total  # anti-windup: the integrator stops while the output is at its limit
        return float(min(max(pwm, -abs(most)), abs(most)))
