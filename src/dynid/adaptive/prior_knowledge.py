"""Prior knowledge of an arm: motion limits, initial tracking tolerance, gear friction, and sustainable torques."""

import numpy as np

from dynid.control.controller import load_controller
from dynid.control.motion_check import MotionLimits, robot_limits
from dynid.hardware.safety.overload import OverloadModel
from dynid.identification.estimators.gear_fit import start_law
from dynid.model.friction import AS, WS, FrictionLaw
from dynid.model.gear_presets import gear_friction
from dynid.model.model_file import ModelFile
from dynid.robot import FloatArray, Robot
from dynid.trajectory.families import load_excitation

FRICTION_MODEL = "M6"  # friction model that is read from friction.yaml
DEFAULT_SHAPE = (("ws", WS), ("a", AS))  # default shape of Stribeck friction for laws without it
LEAST_TUBE_RAD, MOST_TUBE_RAD = 0.04, 0.3
UNKNOWN_SHARE = 0.15  # unknown torque during the first segments [share of the torque limit]
CONTINUOUS_SHARE = 0.9  # permitted lasting current [share of a servo's continuous current]


def motion_limits(robot: Robot, profile: str) -> MotionLimits:
    """Return a segment's limits of position, speed, acceleration, torque and tool speed.

    Args:
        robot: the robot.
        profile: name of a set of limits of position, speed and acceleration in excitation.yaml.
    """
    excitation = load_excitation(robot)
    file = excitation.file
    fastest = file.profiles[profile].speed_scale * max((max(row) for row in file.speed_factors.values()), default=1.0)
    lower, upper = excitation.limits(profile)
    velocity = np.minimum(fastest * np.array(file.velocity_rad_s), robot.velocity_limits)
    usual, acceleration = robot_limits(robot, velocity), fastest * excitation.acceleration_limits
    return MotionLimits(lower, upper, velocity, acceleration, usual.torque, usual.tool_m_s)


def first_tube(robot: Robot) -> FloatArray:
    """Return the maximum tracking errors (n,) [rad] of the first segment, while friction is unknown."""
    gains = load_controller(robot)
    stiffness = np.array(gains.proportional_gain_1_s2) * np.array(gains.inertia_kg_m2)
    bent = UNKNOWN_SHARE * robot.torque_limits / stiffness
    return np.asarray(np.clip(LEAST_TUBE_RAD + bent, 0.0, MOST_TUBE_RAD))


def gear_figures(robot: Robot, before: ModelFile | None) -> FrictionLaw | None:
    """Return the friction law known before the run: from the previous model `before`, else from friction.yaml.

    The result is None if neither states friction. If the previous law lacks the shape of Stribeck friction, this shape
    is taken from the robot's friction.yaml, or from defaults.
    """
    has_figures = (robot.folder / "friction.yaml").is_file()
    gears = gear_friction(robot, FRICTION_MODEL).with_values({"fv": 0.0}) if has_figures else None
    law = None if before is None else before.friction()
    if law is None:
        return gears
    shape = gears or start_law(robot.size, law.transition_rad_s)
    return law.with_values({k: np.where(law.values[n] > 0.0, law.values[n], shape.values[n]) for k, n in DEFAULT_SHAPE})


def lasting_torques(robot: Robot, overload: OverloadModel | None) -> FloatArray:
    """Return the largest root mean square torque that each servo sustains permanently, (n,) [N m].

    Args:
        robot: the robot.
        overload: overload protection of the servos; None means no limit.
    """
    nominal = np.full(robot.size, np.inf) if overload is None else np.sqrt(overload.nominal)
    return np.asarray(CONTINUOUS_SHARE * nominal * robot.joint_constants)
