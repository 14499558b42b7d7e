"""Model of the servos' overload protection: the integral of squared current above a nominal current.

The model integrates y' = I^2 - I_nominal^2 with y >= 0, as motor drives do. The servo trips (switches its torque off)
when y reaches a limit, the overload capacity. The limit follows from published data: y reaches it if a given current
flows for a given time. The robot's motors.yaml contains these data and the nominal current of each servo model. The
used fraction of overload capacity is y divided by its limit.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import model_validator

from dynid.errors import ConfigurationError
from dynid.hardware.safety.limit_kernels import used_capacity
from dynid.model.transmission import Transmission
from dynid.resources import load_validated
from dynid.robot import FloatArray, NonNegative, Positive, Robot, Strict, read_only

WARNING, LIMITED = 0.75, 0.85  # shares of overload capacity: a warning, and the current limit begins to fall
# used capacity at which the current limit is lowest, and that limit as a share of the nominal current
FULLY_DERATED, DERATING_FLOOR = 0.95, 0.97
MAX_DROOP_FACTOR = 2.0  # ratio of the largest possible droop to that of motors.yaml, which is an assumption
LIMITED_S = 5.0  # an arm that needs more than its limit for this long is stopped and lowered [s]


class OverloadLimit(Strict):
    """Published overload data of a servo model.

    Attributes:
        current_a: current that trips the servo after `trips_after_s` [A].
        trips_after_s: time after which `current_a` trips the servo [s].
        nominal_a: nominal current, which never trips the servo [A].
    """

    current_a: Positive
    trips_after_s: Positive
    nominal_a: Positive

    @model_validator(mode="after")
    def _ordered(self) -> "OverloadLimit":
        if self.nominal_a >= self.current_a:
            raise ValueError(f"nominal_a {self.nominal_a} must be below current_a {self.current_a}")
        return self


class Winding(Strict):
    """Electrical data of a motor.

    Attributes:
        supply_v: supply voltage [V].
        resistance_ohm: resistance of the winding [ohm].
        back_emf_v_s_rad: back EMF per speed of the servo's shaft [V s/rad].
    """

    supply_v: Positive
    resistance_ohm: Positive
    back_emf_v_s_rad: Positive


class CurrentLoop(Strict):
    """Errors of a servo's current control.

    Attributes:
        lag_s: time constant of the first-order lag of the current [s].
        droop_a_s_rad: decrease of the current per speed of the servo's shaft [A s/rad].
    """

    lag_s: Positive
    droop_a_s_rad: NonNegative


class Sensing(Strict):
    """Errors of a servo's measurements.

    Attributes:
        offset_a: largest offset of the measured current [A].
        noise_a: standard deviation of the measured current [A].
        velocity_lag_s: time constant of the lag of the measured velocity [s].
    """

    offset_a: NonNegative
    noise_a: NonNegative
    velocity_lag_s: Positive


class Heat(Strict):
    """Thermal data of a motor: temperature rise per winding power, its time constant, and the ambient temperature."""

    kelvin_per_watt: Positive
    time_constant_s: Positive
    ambient_deg_c: float


class Motor(Strict):
    """Motor data of one servo model; the driver uses only some of them, the simulated arm all."""

    overload: OverloadLimit
    winding: Winding
    loop: CurrentLoop
    sensing: Sensing
    heat: Heat


class MotorFile(Strict):
    """Schema of motors.yaml: motor data by name of the servo model, as in robot.yaml."""

    schema_version: Literal[1]
    models: dict[str, Motor]


def load_motors(robot: Robot) -> tuple[Motor, ...] | None:
    """Return the motor data of the servos of all joints, in joint order; None if the robot has no motors.yaml.

    Raises:
        ConfigurationError: the file is not valid, or a servo model is missing.
    """
    path = robot.folder / "motors.yaml"
    if not path.is_file():
        return None
    models = load_validated(path, MotorFile).models
    missing = {str(joint.servo_model) for joint in robot.file.joints} - set(models)
    if missing:
        raise ConfigurationError(f"{path} has no servo model {', '.join(sorted(missing))}, which robot.yaml names")
    return tuple(models[str(joint.servo_model)] for joint in robot.file.joints)


def reachable_speed(robot: Robot) -> FloatArray:
    """Return the highest speed of each joint, (n,) [rad/s]: the lower of its limit and its motor's no-load speed."""
    motors = load_motors(robot)
    if motors is None:
        return robot.velocity_limits
    unloaded = [one.winding.supply_v / one.winding.back_emf_v_s_rad for one in motors]
    return read_only(np.minimum(robot.velocity_limits, Transmission(robot).joint_speed(np.array(unloaded))))


def known_droop(robot: Robot) -> FloatArray | None:
    """Return an upper bound for the apparent viscous friction of the joints, (n,) [N m s/rad], due to current droop.

    Current droop means that a servo's current falls below its goal in proportion to speed. The missing torque looks
    like additional viscous friction. The result is None without motors.yaml.
    """
    motors = load_motors(robot)
    if motors is None:
        return None
    droop = robot.torque_constants * robot.gear_ratios**2 * np.array([one.loop.droop_a_s_rad for one in motors])
    return read_only(MAX_DROOP_FACTOR * robot.coupling.T**2 @ droop)


@dataclass(frozen=True, eq=False)
class OverloadModel:
    """Model of the overload protection of n servos.

    Attributes:
        nominal: squared nominal currents, (n,) [A^2].
        trips: overload capacity of each servo, (n,) [A^2 s]: it trips when the integral over time of (squared current -
            `nominal`) reaches this value.
    """

    nominal: FloatArray
    trips: FloatArray

    @classmethod
    def of(cls, robot: Robot) -> "OverloadModel | None":
        """Return the overload model of a robot's servos; None if the robot has no motors.yaml."""
        motors = load_motors(robot)
        if motors is None:
            return None
        limits = [motor.overload for motor in motors]
        trips = [one.trips_after_s * (one.current_a**2 - one.nominal_a**2) for one in limits]
        return cls(read_only([one.nominal_a**2 for one in limits]), read_only(trips))

    def step(self, share: FloatArray, current_a: FloatArray, step_s: float) -> FloatArray:
        """Return the used fraction of each servo's overload capacity, (n,), after one step.

        Args:
            share: used fraction before the step, (n,).
            current_a: motor currents during the step, (n,) [A].
            step_s: duration of the step [s].
        """
        found: FloatArray = used_capacity(share, current_a, self.nominal, self.trips, step_s)
        return found

    def along(self, share: FloatArray, current_a: FloatArray, step_s: float | FloatArray) -> FloatArray:
        """Return the used fraction of each servo's overload capacity after each of N steps, (N, n).

        The used fraction starts at `share` and changes by an amount in each step, but never falls below zero. It equals
        the plain running sum of these amounts minus the lower of zero and the lowest value of this sum so far
        (Lindley's recursion).

        Args:
            share: used fraction before the first step, (n,).
            current_a: motor currents in the steps, (N, n) [A].
            step_s: common duration of the steps, or the duration of each step, (N, 1) [s].
        """
        rises = (current_a * current_a - self.nominal) * (step_s / self.trips)
        free = np.cumsum(np.vstack([share, rises]), axis=0)
        return np.asarray(free - np.minimum(0.0, np.minimum.accumulate(free, axis=0)))[1:]

    def cap(self, share: FloatArray, full_a: FloatArray) -> FloatArray:
        """Return motor current limits (n,) [A] with which no servo trips.

        The limit depends on the used fraction of the servo's overload capacity. Up to the fraction `LIMITED`, it is the
        full limit. Above, it falls linearly; from the fraction `FULLY_DERATED`, it is slightly below the nominal
        current. It is never above the full limit.

        Args:
            share: used fraction of each servo's overload capacity, (n,).
            full_a: full current limits, (n,) [A].
        """
        lowered = np.clip((share - LIMITED) / (FULLY_DERATED - LIMITED), 0.0, 1.0)
        return np.minimum(full_a, full_a + lowered * (DERATING_FLOOR * np.sqrt(self.nominal) - full_a))
