"""Scan of a line with unknown servos."""

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from dynid.cli import app
from dynid.hardware.bus import control_table as table
from dynid.robot import Robot
from dynid.simulation.bus.servo_bus import EmulatedServoBus
from dynid.simulation.servo.servo import Servo


def scanned(bus: EmulatedServoBus, *options: str) -> tuple[int, dict]:
    command = ["robot", "scan", "--port", bus.port, "--json", "--baudrate", "3000000", *options]
    run = CliRunner().invoke(app, command)
    assert run.exit_code in (0, 1), run.output
    return run.exit_code, json.loads(run.output)


@pytest.fixture
def quiet(bus: EmulatedServoBus) -> EmulatedServoBus:
    bus.chain.servos[3].set(table.DRIVE_MODE, 1)
    return bus


@pytest.mark.slow
def test_all_servos_are_listed_with_what_robot_yaml_needs(bus: EmulatedServoBus, tmp_path: Path) -> None:
    before = {servo_id: bytes(servo.bytes[:120]) for servo_id, servo in bus.chain.servos.items()}
    code, found = scanned(bus, "--out", str(tmp_path / "blocks.yaml"))
    assert code == 0 and [one["id"] for one in found["servos"]] == [2, 3, 4, 5, 6, 7, 8, 9]
    assert found["servos"][1]["model"] == "XM540-W270" and found["servos"][0]["current_limit_a"] == pytest.approx(3.209)
    blocks = yaml.safe_load((tmp_path / "blocks.yaml").read_text())
    assert blocks["servos"]["XM430-W350"] == {"model_number": 1020, "torque_constant_nm_per_a": 1.783}
    assert blocks["bus"] == {"port": bus.port, "baudrate": 3_000_000, "cycle_s": 0.002}
    assert {servo_id: bytes(servo.bytes[:120]) for servo_id, servo in bus.chain.servos.items()} == before


@pytest.mark.slow
def test_mismatches_are_named(robot: Robot, quiet: EmulatedServoBus) -> None:
    shadow, pwm = Servo(12, 1020), Servo(13, 1020)
    shadow.set(table.SECONDARY_ID, 4)
    pwm.set(table.MODEL_NUMBER, 1060)
    quiet.chain.servos |= {12: shadow, 13: pwm}
    quiet.chain.servos.pop(9)
    code, found = scanned(quiet, "--robot", "crane_x7")
    text = " | ".join(found["oddities"])
    assert code == 1 and "servo 12 obeys servo 4: shadow_ids: [12]" in text
    assert "servo 13 is model 1060 (XL430-W250, no current control), which dynid does not drive" in text
    assert f"servo 9 ({robot.joint_names[7]}) of crane_x7 does not answer" in text
    assert f"servo 3 ({robot.joint_names[1]}): its reverse mode is not that of robot.yaml" in text
    assert "servos that crane_x7 does not have: 12, 13" in text


def test_empty_line_is_reported(bus: EmulatedServoBus) -> None:
    bus.chain.servos.clear()
    code, found = scanned(bus)
    assert code == 1 and found["servos"] == [] and "no servo answers" in found["oddities"][0]
