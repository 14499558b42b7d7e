"""robot.yaml: optional and required fields, and messages for invalid ones."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from dynid.errors import ConfigurationError
from dynid.robot import Robot, load_robot
from dynid.robot.file import file_stem


def content(**changes: Any) -> dict[str, Any]:
    """A small robot: two revolute joints without servos."""
    joint = {"lower_deg": -90, "upper_deg": 90, "velocity_limit_rad_s": 2.0, "torque_limit_nm": 5.0}
    link = {"mass_kg": [0.1, 2.0], "centre_of_mass_lower_m": [-1, -1, -1], "centre_of_mass_upper_m": [1, 1, 1]}
    return {
        "schema_version": 1,
        "name": "small",
        "title": "Small",
        "urdf": "small.urdf",
        "base_link": "base",
        "joints": [{"name": "a", **joint}, {"name": "b", **joint}],
        "mounts_gravity_m_s2": {"upright": [0, 0, -9.81]},
        "default_mount": "upright",
        "physical_bounds": {"total_mass_kg": 3.0, "links": [link, link]},
        **changes,
    }


def robot(folder: Path, **changes: Any) -> Robot:
    (folder / "robot.yaml").write_text(yaml.safe_dump(content(**changes)))
    return load_robot(folder)


def joints(*changes: dict[str, Any]) -> list[dict[str, Any]]:
    """The small robot's joints with changes; None removes a key."""
    rows = [{**row, **change} for row, change in zip(content()["joints"], changes, strict=True)]
    return [{key: value for key, value in row.items() if value is not None} for row in rows]


def test_a_robot_needs_no_servos_to_be_loaded_but_is_not_driven(tmp_path: Path) -> None:
    small = robot(tmp_path)
    np.testing.assert_array_equal(small.torque_limits, [5.0, 5.0])
    np.testing.assert_allclose(small.audit_upper, np.pi / 2)
    np.testing.assert_array_equal(small.coupling, np.eye(2))
    with pytest.raises(ConfigurationError, match=r"no servo_id for a, b .* cannot drive it"):
        _ = small.servo_ids
    with pytest.raises(ConfigurationError, match=r"joint a .* no torque_constant_nm_per_a"):
        _ = small.torque_constants
    for attribute in ("rest_posture", "current_limits", "nuisances"):
        with pytest.raises(ConfigurationError, match="robot 'small' has no"):
            getattr(small, attribute)


def test_undecided_values_prevent_driving(tmp_path: Path) -> None:
    assert load_robot("crane_x7").servo_ids
    servo = {"servo_id": 1, "servo_model": "S"}
    models = {"S": {"model_number": 1, "torque_constant_nm_per_a": 2.0, "factory_current_limit_a": 3.0}}
    rows = joints(servo, {**servo, "servo_id": 2})
    assert robot(tmp_path, servos=models, joints=rows).servo_ids == (1, 2)
    with pytest.raises(ConfigurationError, match="leaves mount undecided"):
        _ = robot(tmp_path, servos=models, joints=rows, undecided={"mount": "which way?"}).servo_ids


def test_limits_at_the_joint_come_from_current_and_gear(tmp_path: Path) -> None:
    change = {"torque_limit_nm": None, "current_limit_a": 2.0, "torque_constant_nm_per_a": 0.1, "gear_ratio": -50.0}
    np.testing.assert_allclose(robot(tmp_path, joints=joints(change, {})).torque_limits, [10.0, 5.0])
    with pytest.raises(ConfigurationError, match="neither torque_limit_nm nor current_limit_a"):
        _ = robot(tmp_path, joints=joints({"torque_limit_nm": None}, {})).torque_limits


def test_prismatic_joints_have_metres_and_wide_turns_repeat(tmp_path: Path) -> None:
    slide = {"lower_deg": None, "upper_deg": None, "lower_m": -0.1, "upper_m": 4.0}
    wide = robot(tmp_path, joints=joints(slide, {"lower_deg": -270, "upper_deg": 270}))
    assert wide.prismatic == (True, False)
    np.testing.assert_allclose(wide.audit_lower, [-0.1, -np.pi])
    np.testing.assert_allclose(wide.audit_upper, [4.0, np.pi])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"joints": joints({"lower_deg": None}, {})}, "joint a: needs lower_deg and upper_deg"),
        ({"joints": joints({"lower_m": 0.0, "upper_m": 1.0}, {})}, "joint a: needs lower_deg"),
        ({"joints": joints({"lower_deg": 91}, {})}, "lower_deg 91.0 must be below upper_deg 90"),
        ({"joints": joints({"velocity_limit_rad_s": None}, {})}, "joint a: needs velocity_limit_rad_s"),
        ({"joints": joints({"velocity_limit_m_s": 1.0}, {})}, "joint a: needs velocity_limit_rad_s"),
        (
            {"joints": joints({"velocity_limit_rad_s": None, "velocity_limit_m_s": 1.0}, {})},
            "velocity_limit_m_s is for prismatic joints",
        ),
        ({"joints": joints({"gear_ratio": 0.0}, {})}, "gear_ratio must not be 0"),
        ({"joints": joints({"servo_model": "S"}, {})}, "servo model 'S' is not under servos"),
        ({"joints": joints({}, {"role": "decoupled"})}, "physical_bounds.links has 2 entries, expected 1"),
        ({"joints": []}, "joints"),
        ({"coupling": [[1, 0]]}, "coupling must be a 2 x 2 matrix"),
        ({"coupling": [[1, 1], [1, 1]]}, "coupling must be invertible"),
        ({"coupling": [[0, 1], [1, 0]]}, "diagonal without zeros"),
        ({"audit_domain": {"lower_deg": [0], "upper_deg": [1, 2]}}, "audit_domain.lower_deg has 1 entries, expected 2"),
        (
            {
                "joints": joints({}, {"lower_deg": None, "upper_deg": None, "lower_m": 0.0, "upper_m": 1.0}),
                "rest_posture_deg": [0, 0],
            },
            "rest_posture_deg is in degrees, but joint b is prismatic",
        ),
        ({"frictoin": 1}, "frictoin"),
        ({"name": "../../escape"}, "name: String should match"),
        ({"name": "/tmp/escape"}, "name: String should match"),
        ({"joints": joints({"name": "../../escape"}, {})}, "name: String should match"),
    ],
)
def test_invalid_values_are_named(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        robot(tmp_path, **changes)


def test_a_joint_keeps_the_slashes_of_its_urdf_and_its_file_stays_in_its_folder() -> None:
    joint = load_robot("crane_x7").file.joints[0]
    for name in ("left/waist", "arm 1/joint-α.0", "a/../../escape"):
        named = type(joint).model_validate({**joint.model_dump(exclude_none=True), "name": name})
        assert named.name == name and "/" not in file_stem(name)
    assert file_stem("left/waist") == "left_waist" and file_stem("joint_1") == "joint_1"
