"""Servo models as data: units, suggestions, and refusals."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from driven_arm import driven
from geared_arms import variant
from pydantic import ValidationError

from dynid.errors import ConfigurationError
from dynid.hardware.arm.dynamixel_arm import DynamixelArm
from dynid.hardware.bus.control_table import GOAL_CURRENT, PRESENT_CURRENT
from dynid.hardware.bus.servo_units import ServoUnits
from dynid.hardware.safety.settings import load_safety
from dynid.hardware.servos.models import DYNAMIXELS, dynamixel_named
from dynid.recording.settings import HardwareSettings, recorded_current_unit
from dynid.resources import share_folder
from dynid.robot import Robot, load_robot
from dynid.robot.servo_fields import ServoModel

UNITS = {
    "XM430-W350": 2.69,
    "XM540-W270": 2.69,
    "XL330-M288": 1.0,
    "XC330-T288": 1.0,
    "XH430-V350": 1.34,
    "MX-106": 3.36,
}


def servos(number: int, **changes: Any) -> dict[str, Any]:
    return {"S": {"model_number": number, "torque_constant_nm_per_a": 2.0} | changes}


def small(tmp_path: Path, number: int, **changes: Any) -> Robot:
    """Return the planar arm with three joints on servos of a model."""
    content = yaml.safe_load((variant("direct", tmp_path).folder / "robot.yaml").read_text(encoding="utf-8"))
    joints = [joint | {"servo_model": "S", "current_limit_a": 0.5} for joint in content["joints"]]
    shutil.rmtree(tmp_path / "direct")
    return variant("direct", tmp_path, servos=servos(number), joints=joints, **changes)


@pytest.mark.slow
def test_models_count_currents_in_their_own_unit() -> None:
    found = {name: model.current_unit_a for name in UNITS if (model := dynamixel_named(name)) is not None}
    assert {name: pytest.approx(unit * 1e-3) for name, unit in UNITS.items()} == found
    pwm_only = {model.name for model in DYNAMIXELS.values() if not model.has_current_control}
    assert pwm_only == {"XL430-W250", "2XL430-W250", "XC430-W150", "XC430-W240", "2XC430-W250", "MX-28"}


def test_torque_constants_are_proposed_from_stall() -> None:
    proposed = {name: model.torque_constant_nm_per_a for name in UNITS if (model := dynamixel_named(name)) is not None}
    assert proposed["XM430-W350"] == pytest.approx(4.1 / 2.3, abs=1e-3)
    assert proposed["XL330-M288"] == pytest.approx(0.52 / 1.47, abs=1e-3)


def test_control_tables_list_the_registers_of_their_series() -> None:
    small_one, mx, plain = (DYNAMIXELS[number] for number in (1200, 321, 1020))
    assert {62} == {at for at in set(small_one.listed) - set(plain.listed) if at < 64}
    assert 60 not in mx.listed and 40 in mx.listed and 60 in plain.listed
    assert 227 in small_one.listed and 228 not in small_one.listed and 578 not in small_one.listed
    assert all(model.entries[0].default == number for number, model in DYNAMIXELS.items())


@pytest.mark.parametrize("name", ["XM430-W350", "XM430-W350-T", "XM430-W350-R", "xm430_w350"])
def test_names_are_understood_as_people_write_them(name: str) -> None:
    model = dynamixel_named(name)
    assert model is not None and model.number == 1020


def test_units_invert_with_signs_and_centres(tmp_path: Path) -> None:
    robot = small(tmp_path, 1200)
    joints = [joint.model_dump(exclude_none=True) for joint in robot.file.joints]
    joints[1] |= {"direction": -1, "centre_count": 1024}
    shutil.rmtree(tmp_path / "direct")
    units = ServoUnits(variant("direct", tmp_path, servos=servos(1200), joints=joints))
    assert units.currents(np.array([100, 100, 100])) == pytest.approx([0.1, -0.1, 0.1])
    assert units.positions(np.array([3072, 0, 2048])) == pytest.approx([np.pi / 2, np.pi / 2, 0.0])
    assert units.velocities(np.array([1, 1, 0])) == pytest.approx([0.0239808, -0.0239808, 0.0])
    counts = np.arange(-1500, 1500).reshape(-1, 3)
    assert (units.current_counts(units.currents(counts)) == counts).all()
    assert (units.position_counts(units.positions(counts)) == counts).all()
    assert (units.velocity_counts(units.velocities(counts)) == counts).all()


# -- what is refused -------------------------------------------------------------------------------------------


def test_a_factory_limit_in_another_models_unit_is_refused() -> None:
    with pytest.raises(ValidationError, match=r"factory_current_limit_a 4.7 .*XL330-M288, 1 mA per count.*1.75 A"):
        ServoModel(model_number=1200, torque_constant_nm_per_a=0.35, factory_current_limit_a=4.7)
    assert ServoModel(model_number=1200, torque_constant_nm_per_a=0.35).most_current_a == pytest.approx(1.75)


def test_a_name_of_another_model_than_the_number_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "arm"
    shutil.copytree(share_folder() / "config" / "crane_x7", folder)
    text = (folder / "robot.yaml").read_text(encoding="utf-8").replace("model_number: 1020", "model_number: 1200")
    (folder / "robot.yaml").write_text(text.replace("factory_current_limit_a: 3.21", "factory_current_limit_a: 1.75"))
    with pytest.raises(ConfigurationError, match=r"model_number 1200 is that of XL330-M288.*reports 1020"):
        load_robot(folder)


@pytest.mark.parametrize(
    ("number", "said"), [(1060, "XL430-W250, which has no current control"), (4711, "4711, which dynid does not know")]
)
def test_a_servo_that_cannot_be_driven_by_current_is_refused_before_a_port_is_opened(
    tmp_path: Path, number: int, said: str
) -> None:
    with pytest.raises(ConfigurationError, match=said):
        DynamixelArm(small(tmp_path, number), "/dev/null", allow_real_port=True)


# -- what follows from the model -------------------------------------------------------------------------------


def test_an_arm_of_small_servos_is_stopped_before_they_switch_off(tmp_path: Path) -> None:
    usual, cooler = load_safety(variant("direct", tmp_path / "usual")), load_safety(small(tmp_path, 1200))
    assert (usual.fault_deg_c, usual.derate_from_deg_c) == (78.0, 65.0)
    assert (cooler.fault_deg_c, cooler.derate_from_deg_c, cooler.derate_to_deg_c) == (68.0, 55.0, 65.0)


def test_bags_say_each_servos_unit(tmp_path: Path) -> None:
    robot = small(tmp_path, 1200)
    assert recorded_current_unit(robot) == pytest.approx(0.001)
    joints = [joint.model_dump(exclude_none=True) for joint in robot.file.joints]
    joints[2]["servo_model"] = "XM"
    both = servos(1200) | {"XM": {"model_number": 1020, "torque_constant_nm_per_a": 2.0}}
    shutil.rmtree(tmp_path / "direct")
    mixed = variant("direct", tmp_path, servos=both, joints=joints)
    assert recorded_current_unit(mixed) == pytest.approx((0.001, 0.001, 0.00269))
    settings = {"robot": "r", "joint_names": ("a", "b"), "torque_constants_nm_per_a": (1.0, 1.0), "mount": "m"}
    settings |= {"gravity_m_s2": (0, 0, -9.81), "cycle_s": 0.001, "simulated": True, "port": "p", "dynid_version": "0"}
    assert HardwareSettings(**settings, current_unit_a=(0.001, 0.002)).current_unit_a == (0.001, 0.002)
    with pytest.raises(ValidationError, match="current_unit_a has 3 entries, expected 2"):
        HardwareSettings(**settings, current_unit_a=(0.001, 0.002, 0.003))


def test_registers_hold_counts_of_the_servos_own_unit(tmp_path: Path) -> None:
    for number, unit in ((1200, 0.001), (1020, 0.00269), (321, 0.00336)):
        setup = driven(small(tmp_path / str(number), number), switched_off=("torque_noise",))
        setup.driver.enable()
        setup.driver.write_currents(np.full(3, 0.4))
        setup.driver.bus.clock.sleep(0.002)
        assert setup.driver.read().current_a == pytest.approx(0.4, abs=unit)
        counts = [servo.get(GOAL_CURRENT) for servo in setup.chain.servos.values()]
        assert counts == [round(0.4 / unit)] * 3
        assert [servo.get(PRESENT_CURRENT) for servo in setup.chain.servos.values()] == counts
