"""Content of config/<robot>/elastic.yaml: elastic joints of a robot, and settings of a simulated identification."""

from functools import cached_property
from typing import Annotated, Literal

import numpy as np
from pydantic import AfterValidator, Field, model_validator

from dynid.errors import ConfigurationError
from dynid.resources import load_validated
from dynid.robot import FloatArray, NonNegative, Robot, Strict, read_only

STEP_S = 5e-5  # step of the simulated plant, between two changes of torque [s]


def _not_zero(value: float) -> float:
    if value == 0.0:
        raise ValueError("a gear ratio is not zero; its sign says which way the rotor turns")
    return value


Positive = Annotated[float, Field(gt=0)]
NonZero = Annotated[float, AfterValidator(_not_zero)]
Positives = Annotated[tuple[Positive, ...], Field(min_length=1)]


class Stribeck(Strict):
    """Stribeck curve of the motors' friction.

    breakaway_ratio: break-away torque divided by Coulomb friction.
    velocity_rad_s: speed at which the excess over Coulomb friction has fallen to 1/e of its value at rest [rad/s].
    smoothing_rad_s: velocity s of the smoothed sign tanh(v / s) of a velocity v [rad/s].
    """

    breakaway_ratio: Annotated[float, Field(ge=1)]
    velocity_rad_s: Positive
    # Velocity scale of the smoothed sign: sign(v) is replaced by tanh(v / this), as it is undefined at rest.
    smoothing_rad_s: Positive


class Spline(Strict):
    """Settings of the reference motion, which is chosen among random splines of degree five around a posture.

    duration_s: duration of the motion [s].
    control_points: number of control points per joint.
    centre_deg: posture at rest at the beginning and at the end of the motion [deg].
    amplitude_deg: largest distance of a control point from `centre_deg` [deg].
    candidates: number of random splines; the one with the smallest condition number of the regressor is used.
    seed: seed of the random splines.
    """

    duration_s: Positive
    control_points: Annotated[int, Field(ge=8)]
    centre_deg: tuple[float, ...]
    amplitude_deg: Positives
    candidates: Annotated[int, Field(ge=1)] = 100
    seed: int = 0


class Measurement(Strict):
    """Settings of the simulated measurement and of the filter.

    rate_hz: sampling rate [Hz].
    counts_per_turn: encoder counts per turn.
    cutoff_hz: cut-off frequency of the low-pass [Hz].
    order: order of the Butterworth low-pass.
    margin_s: duration that is dropped at both ends of the recording [s].
    slowest_rad_s: motor speed below which motor torques are ignored [rad/s].
    """

    rate_hz: Positive = 1000.0
    counts_per_turn: Positive = 1_250_000.0
    cutoff_hz: Positive = 20.0
    order: Annotated[int, Field(ge=1)] = 5
    # Time that is dropped at both ends, where the filter depends on unknown motion.
    margin_s: NonNegative = 0.2
    # Motor torques at lower speeds are ignored, because the friction model is not valid there.
    slowest_rad_s: NonNegative = 0.0

    @model_validator(mode="after")
    def _possible(self) -> "Measurement":
        steps = 1.0 / (self.rate_hz * STEP_S)
        if round(steps) < 1 or abs(steps - round(steps)) > 1e-6:
            raise ValueError(f"rate_hz {self.rate_hz:g}: {1.0 / STEP_S:g} over it must be a whole number")
        if self.cutoff_hz >= 0.5 * self.rate_hz:
            raise ValueError(f"cutoff_hz {self.cutoff_hz:g} must be below half the rate, {0.5 * self.rate_hz:g} Hz")
        return self


class ElasticFile(Strict):
    """Content of elastic.yaml; lists have one entry per joint.

    stiffness_nm_per_rad: stiffness of the joint [N m/rad].
    gear_ratio: rotor speed divided by joint speed; its sign is the direction of the rotor.
    proportional_nm_per_rad: proportional gain of the motor's PD control [N m/rad].
    derivative_nm_s_per_rad: derivative gain of the motor's PD control [N m s/rad].
    stribeck: Stribeck curve of the motors' friction.
    spline: settings of the reference motion.
    measurement: settings of measurement and filter.
    """

    schema_version: Literal[1]
    stiffness_nm_per_rad: Positives
    # Rotor over joint speed; the higher the ratio, the smaller the effect of the carrying link's rotation.
    gear_ratio: Annotated[tuple[NonZero, ...], Field(min_length=1)]
    proportional_nm_per_rad: Positives
    derivative_nm_s_per_rad: Positives
    stribeck: Stribeck
    spline: Spline
    measurement: Measurement = Measurement()

    @model_validator(mode="after")
    def _one_size(self) -> "ElasticFile":
        lists = (
            self.stiffness_nm_per_rad,
            self.gear_ratio,
            self.proportional_nm_per_rad,
            self.derivative_nm_s_per_rad,
            self.spline.centre_deg,
            self.spline.amplitude_deg,
        )
        if len({len(one) for one in lists}) > 1:
            raise ValueError("every list must have one entry per joint")
        return self

    @cached_property
    def stiffness(self) -> FloatArray:
        """Joint stiffness K, (n,) [N m/rad]."""
        return read_only(np.array(self.stiffness_nm_per_rad))

    @cached_property
    def gears(self) -> FloatArray:
        """Gear ratios, rotor speed divided by joint speed, (n,)."""
        return read_only(np.array(self.gear_ratio))


def load_elastic(robot: Robot) -> ElasticFile:
    """Load the properties of a robot's elastic joints from its elastic.yaml.

    Raises:
        ConfigurationError: if elastic.yaml is missing, invalid or for another number of joints, or if the robot has
            prismatic or coupled joints or axes outside the kinematic chain.
    """
    path = robot.folder / "elastic.yaml"
    if not path.is_file():
        raise ConfigurationError(
            f"robot '{robot.name}' has no {path.name}, which gives the stiffness of its joints: write one"
        )
    file = load_validated(path, ElasticFile)
    if len(file.stiffness_nm_per_rad) != robot.size:
        raise ConfigurationError(f"{path}: {len(file.stiffness_nm_per_rad)} joints; the robot has {robot.size}")
    if robot.size != robot.chain_size or any(robot.prismatic):
        raise ConfigurationError(f"robot '{robot.name}': only revolute chain joints can be elastic")
    if not np.array_equal(robot.coupling, np.eye(robot.size)):
        raise ConfigurationError(
            f"robot '{robot.name}': every elastic joint needs its own motor, but robot.yaml couples some"
        )
    return file
