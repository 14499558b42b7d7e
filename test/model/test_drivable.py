"""Reasons why a robot with servos cannot be driven, and invalid values of a robot file."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from geared_arms import variant

from dynid.errors import ConfigurationError, SafetyError
from dynid.hardware.arm.dynamixel_arm import DynamixelArm
from dynid.hardware.safety.guard import SafetyGuard, SafetySettings, load_safety
from dynid.hardware.startup.doctor import examine
from dynid.model.drivable import ENABLE_TOLERANCE_DEG, beyond_encoder, refuse_undrivable, undrivable
from dynid.resources import share_folder
from dynid.robot import Robot, known_robots, load_robot
from dynid.robot.check import check_robot

TILT, GRIPPER = 1, 7


def changed(folder: Path, axis: int, **changes: Any) -> Robot:
    """CRANE-X7 with another line for one joint; None removes a key."""
    source = share_folder() / "config" / "crane_x7"
    content = yaml.safe_load((source / "robot.yaml").read_text(encoding="utf-8"))
    joint = content["joints"][axis] | changes
    content["joints"][axis] = {key: value for key, value in joint.items() if value is not None}
    if "lower_m" in joint:  # figures in degrees would be refused
        content |= {"audit_domain": None, "rest_posture_deg": None}
    content["urdf"] = str((source / content["urdf"]).resolve())
    (folder / "robot.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    return load_robot(folder)


def test_every_shipped_robot_loads_and_the_reference_arm_can_be_driven() -> None:
    assert all(load_robot(name).name == name for name in known_robots())
    refuse_undrivable(load_robot("crane_x7"))


@pytest.mark.parametrize(
    ("changes", "kind", "words"),
    [
        ({"lower_deg": -175, "upper_deg": 175}, "position", "limits of -175 to 175 deg, wider than -90 to 90 deg"),
        ({"velocity_limit_rad_s": 30.0}, "velocity", "a velocity limit of 30 rad/s, above 4.817 rad/s of the URDF"),
        ({}, "torque", "a torque limit of 12.53 N m, above the effort of 10 N m of the URDF"),
    ],
)
def test_limits_beyond_the_urdf_need_beyond_urdf_in_robot_yaml(
    tmp_path: Path, changes: dict[str, Any], kind: str, words: str
) -> None:
    others = [one for one in ("position", "velocity", "torque") if one != kind]
    refused = changed(tmp_path, TILT, **changes, beyond_urdf=others)
    with pytest.raises(ConfigurationError, match=f"{words}.*allow it there with beyond_urdf: .{kind}"):
        DynamixelArm(refused, "/dev/null", allow_real_port=True)
    assert kind in next(use.missing for use in check_robot(refused).uses if use.name == "drive the arm")
    refuse_undrivable(changed(tmp_path, TILT, **changes, beyond_urdf=[*others, kind]))


def test_doctor_names_the_obstacles_to_driving(tmp_path: Path, bus: Any) -> None:
    refused = changed(tmp_path, TILT, velocity_limit_rad_s=30.0)
    found = [one for one in examine(refused, bus.port, cycles=10).findings if one.check == "robot"]
    assert [one.level for one in found] == ["error"] and "a velocity limit of 30 rad/s" in found[0].text


def test_a_sliding_joint_is_not_driven_by_its_name(tmp_path: Path) -> None:
    slide = {"lower_deg": None, "upper_deg": None, "velocity_limit_rad_s": None}
    slide |= {"lower_m": 0.0, "upper_m": 0.05, "velocity_limit_m_s": 0.1}
    assert any("gripper_finger_a_joint slides" in text for text in undrivable(changed(tmp_path, GRIPPER, **slide)))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"velocity_limit_rad_s": 4817.0}, "no servo turns faster than 48 rad/s"),
        ({"gear_ratio": 30.0}, "its velocity limit requires 144.5 rad/s of the servo"),
        ({"current_limit_a": 6.0}, "current_limit_a 6 is above factory_current_limit_a 5.51"),
        ({"torque_limit_nm": 200.0}, "torque_limit_nm 200 is more than XM540-W270 can give: expected at most 34.51"),
        ({"beyond_urdf": ["everything"]}, "beyond_urdf"),
    ],
)
def test_figures_that_no_servo_can_have_are_refused(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        changed(tmp_path, TILT, **changes)


def test_no_tolerance_enables_a_joint_whose_encoder_is_a_turn_off(tmp_path: Path) -> None:
    """The widest limits that pass without the encoder's range leave room for the largest tolerance on both sides."""
    ratio, size = 3.0, 3
    joints = [joint.model_dump(exclude_none=True) for joint in variant("direct", tmp_path).file.joints]
    for joint in joints:
        joint |= {"gear_ratio": ratio, "torque_constant_nm_per_a": 2.0, "lower_deg": -54.0, "upper_deg": 54.0}
    robot = variant("geared", tmp_path, joints=joints)
    assert not list(beyond_encoder(robot))
    (robot.folder / "safety.yaml").write_text("schema_version: 1\nenable_tolerance_rad: 0.2\n")
    with pytest.raises(ConfigurationError, match=r"safety\.yaml.*enable_tolerance_rad.*0\.2"):
        load_safety(robot)
    for tolerance in (0.0, 0.087, math.radians(ENABLE_TOLERANCE_DEG)):
        guard = SafetyGuard(robot, SafetySettings(enable_tolerance_rad=tolerance))
        farthest = robot.upper + tolerance
        guard.check_posture(farthest - 1e-9)
        for true in np.linspace(-farthest + 1e-6, farthest - 1e-6, 50):
            for turn in (-2.0 * np.pi / ratio, 2.0 * np.pi / ratio):
                with pytest.raises(SafetyError, match="its limits are"):
                    guard.check_posture(true + turn * np.eye(size)[0])
