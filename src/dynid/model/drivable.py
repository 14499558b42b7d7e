"""Checks of robot.yaml before a robot is driven: settings that the servo driver cannot fulfil are refused."""

import math
from collections.abc import Iterator

import numpy as np

from dynid.errors import ConfigurationError
from dynid.model.transmission import Transmission
from dynid.robot import Robot
from dynid.robot.draft_servos import unfit_rate
from dynid.robot.file import Joint
from dynid.robot.servo_fields import TURN_COUNTS, undrivable_number
from dynid.robot.urdf_text import read_urdf_text
from dynid.robot.urdf_tree import UrdfJoint, read_tree

ENABLE_TOLERANCE_DEG = 6.0  # largest `enable_tolerance_rad` of safety.yaml: a joint farther out prevents enabling
LIMIT_TOLERANCE = 0.01  # tolerance for rounded limits, relative and in rad or m


def refuse_undrivable(robot: Robot) -> None:
    """Raise an error if robot.yaml asks for something that the driver cannot do.

    Limits wider than those of the URDF are refused, too, unless the joint's field `beyond_urdf` in robot.yaml allows
    them.

    Raises:
        ConfigurationError: the driver cannot fulfil robot.yaml; the message lists all reasons.
    """
    if found := list(undrivable(robot)):
        raise ConfigurationError(f"dynid does not drive robot '{robot.name}': {'; '.join(found)}")


def undrivable(robot: Robot) -> Iterator[str]:
    """Yield a sentence for every reason why the servo driver must refuse to drive a robot."""
    yield from (
        f"joint {joint.name} slides, and the driver's safety limits are angles: only revolute joints can be driven"
        for joint in robot.file.joints
        if joint.prismatic
    )
    yield from _without_current_control(robot)
    if any(robot.all_servo_ids) and (why := unfit_rate(len(robot.all_servo_ids), robot.file.bus.baudrate)):
        yield why
    yield from beyond_encoder(robot)
    yield from beyond_urdf(robot)


def _without_current_control(robot: Robot) -> Iterator[str]:
    """Yield a sentence for each joint whose servo cannot be commanded by current."""
    for joint in robot.file.joints:
        servo = robot.file.servos.get(str(joint.servo_model))
        if servo is not None:
            yield from undrivable_number(f"the servo of joint {joint.name}", servo.model_number)


def beyond_encoder(robot: Robot) -> Iterator[str]:
    """Yield a sentence for each joint whose position is ambiguous after power-on.

    After power-on, an encoder measures the motor's angle within a single revolution only. If the joint's limits allow
    the motor to leave this revolution, the measured angle may be wrong by a whole revolution. If the motor's range
    within the limits is short, the wrong angle is outside the limits by more than the largest permitted tolerance, and
    the driver refuses to enable torque. Joints with such a range, and prismatic joints, are not reported.
    """
    noticed = 360.0 - 2.0 * ENABLE_TOLERANCE_DEG * np.abs(robot.gear_ratios)
    ranges = zip(robot.file.joints, *map(np.rad2deg, Transmission(robot).motor_range()), noticed, strict=True)
    for axis, (joint, low, high, most) in enumerate(ranges):
        centre, direction = robot.centre_counts[axis], joint.direction
        window = sorted(direction * 360.0 * counts / TURN_COUNTS for counts in (-centre, TURN_COUNTS - centre))
        slack = math.degrees(LIMIT_TOLERANCE)
        inside = low >= window[0] - slack and high <= window[1] + slack
        if not (joint.prismatic or inside or high - low <= most):
            yield (
                f"the motor of joint {joint.name} turns from {low:.0f} to {high:.0f} deg within the joint's limits, "
                f"but its encoder knows only {window[0]:.0f} to {window[1]:.0f} deg after power-on: narrow the limits, "
                "or check gear_ratio, coupling and centre_count"
            )


def beyond_urdf(robot: Robot) -> Iterator[str]:
    """Yield a sentence for each joint limit of robot.yaml that is wider than the limit in the URDF.

    Limits that the joint's field `beyond_urdf` in robot.yaml allows are left out.
    """
    tree = read_tree(read_urdf_text(robot.urdf_path), robot.file.urdf)
    for axis, joint in enumerate(robot.file.joints):
        described = tree.joint(joint.name)
        torque = float(robot.torque_limits[axis])
        for kind, text in _wider_limits(joint, float(robot.lower[axis]), float(robot.upper[axis]), torque, described):
            if kind not in joint.beyond_urdf:
                yield (
                    f"joint {joint.name} has {text}: correct robot.yaml, or allow it there with beyond_urdf: [{kind}]"
                )


def _wider_limits(
    joint: Joint, lower: float, upper: float, torque: float, urdf: UrdfJoint
) -> Iterator[tuple[str, str]]:
    """Yield each limit of a joint that exceeds the URDF's: "position", "velocity" or "torque", and a description.

    Limits that the URDF lacks or states as 0 are ignored.

    Args:
        joint: the joint in robot.yaml.
        lower: lower position limit [rad; m if prismatic].
        upper: upper position limit [rad; m if prismatic].
        torque: torque limit [N m; N if prismatic].
        urdf: the same joint in the URDF.
    """
    factor, unit = (1.0, "m") if joint.prismatic else (180.0 / math.pi, "deg")
    if urdf.lower is not None and urdf.upper is not None and urdf.lower < urdf.upper:
        if lower < urdf.lower - LIMIT_TOLERANCE or upper > urdf.upper + LIMIT_TOLERANCE:
            own, theirs = (f"{factor * a:.4g} to {factor * b:.4g} {unit}" for a, b in ((lower, upper), _ends(urdf)))
            yield "position", f"limits of {own}, wider than {theirs} of the URDF"
    fastest = joint.velocity_limit
    if urdf.velocity and fastest > urdf.velocity * (1.0 + LIMIT_TOLERANCE):
        unit = "m/s" if joint.prismatic else "rad/s"
        yield "velocity", f"a velocity limit of {fastest:.4g} {unit}, above {urdf.velocity:.4g} {unit} of the URDF"
    if urdf.effort and torque > urdf.effort * (1.0 + LIMIT_TOLERANCE):
        unit = "N" if joint.prismatic else "N m"
        yield (
            "torque",
            f"a torque limit of {torque:.4g} {unit}, above the effort of {urdf.effort:.4g} {unit} of the URDF",
        )


def _ends(urdf: UrdfJoint) -> tuple[float, float]:
    return float(urdf.lower or 0.0), float(urdf.upper or 0.0)
