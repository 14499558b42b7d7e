"""Motors of simulated servos: actual from goal currents, errors of readings, temperature, and overload protection.

The robot's motors.yaml contains the data of each servo model, with their sources. Every effect can be disabled.
"""

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from dynid.errors import ConfigurationError, UnknownNameError
from dynid.hardware.safety.overload import OverloadModel, load_motors
from dynid.robot import FloatArray, Robot, read_only
from dynid.simulation.plant.nuisances import NOISE_PERIOD_S, NoiseStream

ALL_EFFECTS = "all"
EFFECTS = ("winding", "lag", "droop", "offset", "noise", "velocity", "heat", "overload")
OFFSET, NOISE = 5, 6  # streams of random numbers


class Motors:
    """Simulated motors of all n axes with selectable effects; all arrays are (n,).

    These effects exist:

    - winding: the supply limits the current to I = (V - k_e dq) / R, so torque falls with speed;
    - lag: the current follows its goal with first-order dynamics;
    - droop: the deviation of the current from its goal is proportional to velocity. The current is too small if the
      motor turns in the direction of its torque, and too large if it turns against its torque;
    - offset, noise: constant and random errors of the measured electric current;
    - velocity: the velocity register lags behind the true velocity;
    - heat: temperature rises with R I^2;
    - overload: the servo detects an overload if a large current lasts too long, see `OverloadModel`.

    Args:
        robot: robot with the names of the servo models and a motors.yaml.
        effects: names of `EFFECTS`, or "all".
        seed: seed of offsets and noise.

    Attributes:
        goal: goal currents, set by the caller [A].
        current: actual currents [A].
        velocity: velocities that the servos measure, without quantisation [rad/s].
        temperature_deg_c: temperatures of the servos [deg C].

    Raises:
        UnknownNameError: `effects` contains an unknown name.
        ConfigurationError: the robot has no motors.yaml.
    """

    def __init__(self, robot: Robot, effects: Collection[str], seed: int = 0) -> None:
        for name in effects:
            if name not in (*EFFECTS, ALL_EFFECTS):
                raise UnknownNameError("motor effect", name, (*EFFECTS, ALL_EFFECTS))
        motors, overload = load_motors(robot), OverloadModel.of(robot)
        if motors is None or overload is None:
            raise ConfigurationError(
                f"robot '{robot.name}' has no motors.yaml, so its motors cannot be simulated: write one, or leave "
                "--motor out"
            )
        chosen = set(EFFECTS) if ALL_EFFECTS in effects else set(effects)

        def figures(effect: str, values: list[float], off: float = 0.0) -> FloatArray:
            return read_only(values if effect in chosen else [off] * robot.size)

        self._supply = figures("winding", [m.winding.supply_v for m in motors], np.inf)
        self._back_emf = read_only([m.winding.back_emf_v_s_rad for m in motors])
        self._resistance = read_only([m.winding.resistance_ohm for m in motors])
        self._lag, self._droop = (
            figures("lag", [m.loop.lag_s for m in motors]),
            figures("droop", [m.loop.droop_a_s_rad for m in motors]),
        )
        self._velocity_lag = figures("velocity", [m.sensing.velocity_lag_s for m in motors])
        largest = figures("offset", [m.sensing.offset_a for m in motors])
        self._offset = np.random.default_rng([seed, OFFSET]).uniform(-largest, largest)
        self._noise = NoiseStream(figures("noise", [m.sensing.noise_a for m in motors]), seed, NOISE)
        self._rise = figures("heat", [m.heat.kelvin_per_watt for m in motors])
        self._warm_up = read_only([m.heat.time_constant_s for m in motors])
        self._ambient = read_only([m.heat.ambient_deg_c for m in motors])
        self._overload = overload if "overload" in chosen else None
        self.temperature_deg_c = np.array(self._ambient)
        self.goal, self.current, self.velocity, self._load = np.zeros((4, robot.size))
        self._time_s = 0.0

    @property
    def overloaded(self) -> NDArray[np.bool_]:
        """Whether each servo detects an overload now, a Boolean array (n,)."""
        return np.asarray(self._load >= 1.0)

    @property
    def load(self) -> FloatArray:
        """Used fraction of each servo's overload capacity, (n,) [-], see `OverloadModel`; 1 trips the protection."""
        return self._load

    def step(self, duration_s: float, dq: FloatArray) -> FloatArray:
        """Advance all motors by a time [s]; return their currents afterwards, (n,) [A].

        `dq` (n,) [rad/s] are the motors' velocities during this time.
        """
        wanted = np.sign(self.goal) * np.maximum(0.0, np.abs(self.goal) - np.sign(self.goal) * self._droop * dq)
        reached = np.clip(
            wanted,
            (-self._supply - self._back_emf * dq) / self._resistance,
            (self._supply - self._back_emf * dq) / self._resistance,
        )
        self.current += (reached - self.current) * _followed(duration_s, self._lag)
        self.current[self.goal == 0.0] = 0.0  # torque is off or the goal is zero
        self.velocity += (dq - self.velocity) * _followed(duration_s, self._velocity_lag)
        settled = self._ambient + self._rise * self._resistance * self.current**2
        self.temperature_deg_c += (settled - self.temperature_deg_c) * _followed(duration_s, self._warm_up)
        if self._overload is not None:
            self._load = self._overload.step(self._load, self.current, duration_s)
        self._time_s += duration_s
        return self.current

    def error(self) -> FloatArray:
        """Return the present error of the motors' current readings, offset plus noise, (n,) [A]."""
        return self._offset + self._noise.row(int(self._time_s / NOISE_PERIOD_S + 1e-6))


def _followed(duration_s: float, lag_s: FloatArray) -> FloatArray:
    """Return the fraction of a step input that first-order lags have reached after `duration_s` [s], (n,) [-].

    `lag_s` (n,) [s] are the time constants; a lag of 0 gives 1.
    """
    with np.errstate(divide="ignore"):
        return 1.0 - np.exp(-duration_s / lag_s)
