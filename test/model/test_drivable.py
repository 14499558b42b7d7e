"""Reasons why a robot with servos cannot be driven, and invalid values of a robot file."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from dynid.errors import ConfigurationError
from dynid.hardware.arm.dynamixel_arm import DynamixelArm
from dynid.hardware.startup.doctor import examine
from dynid.model.drivable import refuse_undrivable, undrivable
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
