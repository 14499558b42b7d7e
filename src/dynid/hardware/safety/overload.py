"""How near each servo is to switching itself off for overload: the square of its current above a nominal one.

y' = I^2 - I_nominal^2 with y >= 0, as drives count it; the servo trips where y reaches what its published current does
in its published time. Figures by servo model are in the robot's motors.yaml.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import model_validator

from dynid.errors import ConfigurationError
from dynid.model.transmission import Transmission
from dynid.resources import load_validated
from dynid.robot import FloatArray, NonNegative, Positive, Robot, Strict, read_only

WARNING, LIMITED = 0.75, 0.85  # of what trips: a warning, and the current limit begins to fall
LOWERED_FULLY, FLOOR = 0.95, 0.97  # there it is this part of the nominal current, which never trips
MOST_DROOP = 2.0  # times the stated one, which is assumed
LIMITED_S = 5.0  # an arm that needs more for so long is stopped and let down


class OverloadLimit(Strict):
    """A current that trips the servo after a time, and one that never does."""

    current_a: Positive
    trips_after_s: Positive
    nominal_a: Positive

    @model_validator(mode="after")
    def _ordered(self) -> "OverloadLimit":
        if self.nominal_a >= self.current_a:
            raise ValueError(f"nominal_a {self.nominal_a} must be below current_a {self.current_a}")
        return self


class Winding(Strict):
    """What a motor's supply can drive through it, at the servo's shaft."""

    supply_v: Positive
    resistance_ohm: Positive
    back_emf_v_s_rad: Positive


class CurrentLoop(Strict):
    """First-order lag of the current, and by how much it falls short with speed."""

    lag_s: Positive
    droop_a_s_rad: NonNegative


class Sensing(Strict):
    """Largest offset and standard deviation of the present current; lag of the velocity register."""

    offset_a: NonNegative
    noise_a: NonNegative
    velocity_lag_s: Positive


class Heat(Strict):
    """Rise of temperature by the power in the winding, and its time constant."""

    kelvin_per_watt: Positive
    time_constant_s: Positive
    ambient_deg_c: float


class Motor(Strict):
    """One servo model. The driver knows its overload; the rest is for the simulated arm."""

    overload: OverloadLimit
    winding: Winding
    loop: CurrentLoop
    sensing: Sensing
    heat: Heat


class MotorFile(Strict):
    """The schema of motors.yaml."""

    schema_version: Literal[1]
    models: dict[str, Motor]


def load_motors(robot: Robot) -> tuple[Motor, ...] | None:
    """The motors of all axes in order; None where the robot has no motors.yaml.

    Raises:
        ConfigurationError: not valid, or a servo model is missing.
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
    """How fast each joint can be, (n,) [rad/s]: the robot's limit, at most the motor's speed without load."""
    motors = load_motors(robot)
    if motors is None:
        return robot.velocity_limits
    unloaded = [one.winding.supply_v / one.winding.back_emf_v_s_rad for one in motors]
    return read_only(np.minimum(robot.velocity_limits, Transmission(robot).joint_speed(np.array(unloaded))))


def known_droop(robot: Robot) -> FloatArray | None:
    """The viscous friction, (n,) [N m s/rad], that a droop as of motors.yaml looks like; None without the file."""
    motors = load_motors(robot)
    if motors is None:
        return None
    droop = robot.torque_constants * robot.gear_ratios**2 * np.array([one.loop.droop_a_s_rad for one in motors])
    return read_only(MOST_DROOP * robot.coupling.T**2 @ droop)


@dataclass(frozen=True, eq=False)
class OverloadModel:
    """The law for n servos: squares of nominal currents [A^2], and what trips [A^2 s], (n,) each."""

    nominal: FloatArray
    trips: FloatArray

    @classmethod
    def of(cls, robot: Robot) -> "OverloadModel | None":
        """The servos of a robot; None where nothing is known of them, see `load_motors`."""
        motors = load_motors(robot)
        if motors is None:
            return None
        limits = [motor.overload for motor in motors]
        trips = [one.trips_after_s * (one.current_a**2 - one.nominal_a**2) for one in limits]
        return cls(read_only([one.nominal_a**2 for one in limits]), read_only(trips))

    def step(self, share: FloatArray, current_a: FloatArray, step_s: float) -> FloatArray:
        """The share of what trips after `step_s` [s] more with currents (n,) [A], from `share` (n,)."""
        return np.maximum(0.0, share + (current_a * current_a - self.nominal) * (step_s / self.trips))

    def along(self, share: FloatArray, current_a: FloatArray, step_s: float | FloatArray) -> FloatArray:
        """The same for currents (N, n) one after the other; the shares after each, (N, n). Steps may be (N, 1) [s].

        A sum that is held at zero is the sum less the lowest that it would have reached (Lindley's recursion).
        """
        rises = (current_a * current_a - self.nominal) * (step_s / self.trips)
        free = np.cumsum(np.vstack([share, rises]), axis=0)
        return np.asarray(free - np.minimum(0.0, np.minimum.accumulate(free, axis=0)))[1:]

    def cap(self, share: FloatArray, full_a: FloatArray) -> FloatArray:
        """Current limits (n,) [A] with which no servo trips: from `LIMITED` on they fall below the nominal current."""
        lowered = np.clip((share - LIMITED) / (LOWERED_FULLY - LIMITED), 0.0, 1.0)
        return np.minimum(full_a, full_a + lowered * (FLOOR * np.sqrt(self.nominal) - full_a))
