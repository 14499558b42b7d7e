"""Consent before a REAL arm moves or changes; the question on a line without servos concerns the arm."""

import os
import pty
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from relay import Relay
from typer.testing import CliRunner

from dynid.cli import app
from dynid.commands import consent
from dynid.commands.consent import ask, words_of_motions, words_within_limits
from dynid.control.plan import APPROACH_RAD_S
from dynid.errors import NodeError, SafetyError
from dynid.hardware.bus import control_table as table
from dynid.hardware.startup.doctor_fixes import apply_fixes
from dynid.robot import Robot, load_robot
from dynid.simulation.bus.servo_bus import EmulatedServoBus
from dynid.trajectory.families import load_excitation

ROBOT = load_robot("crane_x7")


@pytest.fixture
def port() -> Iterator[str]:
    """A pseudo-terminal that is not simulated, as a relay makes one."""
    master, slave = pty.openpty()
    yield os.ttyname(slave)
    os.close(master)
    os.close(slave)


def answered(monkeypatch: pytest.MonkeyPatch, yes: bool) -> list[str]:
    """Simulate a terminal with an answering user; return the questions."""
    asked: list[str] = []
    for stream in (sys.stdin, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)

    def confirm(text: str, **_: object) -> bool:
        asked.append(text)
        return yes

    monkeypatch.setattr(consent.typer, "confirm", confirm)
    return asked


def test_without_a_terminal_only_yes_is_consent(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SafetyError, match=f"nothing was done on {port}: there is no terminal .* --yes"):
        ask(port, "it will move", yes=False)
    assert ask(port, "it will move", yes=True)
    assert capsys.readouterr().err == "it will move\n" * 2


def test_a_refused_confirmation_raises_a_safety_error(port: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answered(monkeypatch, yes=False)
    with pytest.raises(SafetyError, match="not confirmed"):
        ask(port, "it will move", yes=False)
    assert len(asked) == 1 and "emergency stop" in asked[0]
    answered(monkeypatch, yes=True)
    assert ask(port, "it will move", yes=False)


def test_a_simulated_arm_needs_no_consent(bus: EmulatedServoBus, capsys: pytest.CaptureFixture[str]) -> None:
    assert not ask(None, "it will move", yes=False)
    assert not ask(bus.port, "it will move", yes=False)
    assert capsys.readouterr().err == ""


def test_the_line_says_how_far_how_fast_and_how_long() -> None:
    motion = load_excitation(ROBOT).trajectory("demo_validation", "limited")
    text = words_of_motions(ROBOT, [motion, motion])
    assert "\n" not in text and text.startswith("demo_validation; joints 1: ")
    assert f"at up to {motion.peak_velocities.max():.2f} rad/s" in text
    assert f"for {2 * motion.duration:.0f} s" in text
    q = np.rad2deg(motion.sample_all(np.linspace(0.0, motion.duration, 5000))[0])
    low, high = min(q[:, 3].min(), -90.0), max(q[:, 3].max(), -90.0)  # the rest posture, too
    assert f"4: {low:.0f} to {high:.0f}" in text
    for line in (text, words_within_limits(ROBOT, "guided", 0.5, "until Ctrl-C")):
        assert line.endswith(f"between its present and its rest posture, at up to {max(APPROACH_RAD_S):.2f} rad/s")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("collect", "V01"), "will move: V01; joints 1: "),
        (("demo",), "will move: demo_identification, demo_validation; joints 1: "),
        (("joint-id", "--joint", "4"), "will move: joint 4, one after the other, without feedback"),
    ],
)
def test_commands_do_not_move_a_real_arm_without_consent(
    port: str, tmp_path: Path, command: tuple[str, ...], words: str
) -> None:
    pytest.importorskip("rclpy", reason="ROS 2 for Python is not installed")
    out = ["--record" if command[0] == "joint-id" else "--out", str(tmp_path / "out")]
    shown = CliRunner().invoke(app, [*command, *out, "--real-arm", port])
    assert shown.exit_code != 0 and not (tmp_path / "out").exists()
    assert f"the REAL arm on {port} (RT CRANE-X7) " in shown.output and words in shown.output
    assert isinstance(shown.exception, SafetyError) or "confirm beforehand with --yes" in shown.output


@pytest.mark.parametrize(("given", "allowed"), [("simulated", "false"), ("real", "true")])
def test_the_driver_gets_no_more_consent_than_was_given(
    bus: EmulatedServoBus, port: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, allowed: str
) -> None:
    """A port that led to a simulated arm when nobody was asked may lead to a real one when the driver opens it."""
    processes = pytest.importorskip("dynid.nodes.processes", reason="ROS 2 for Python is not installed")
    started: list[dict[str, str]] = []

    def start_module(_: object, module: str, name: str, parameters: dict[str, str]) -> None:
        started.append(parameters)
        raise NodeError("no further")

    monkeypatch.setattr(processes.ProcessGroup, "start_node", lambda *_, **__: None)
    monkeypatch.setattr(processes.ProcessGroup, "start_module", start_module)
    chosen = bus.port if given == "simulated" else port
    arguments = ["collect", "V01", "--out", str(tmp_path / "out"), "--real-arm", chosen, "--yes"]
    shown = CliRunner().invoke(app, arguments)
    assert "no further" in f"{shown.exception} {shown.output}" and len(started) == 1
    assert (started[0]["port_name"], started[0]["allow_real_port"]) == (chosen, allowed)


def test_doctor_changes_no_real_servo_without_consent(robot: Robot, bus: EmulatedServoBus) -> None:
    relay = Relay(bus.port)
    try:
        arguments = ["doctor", relay.port, "--robot", str(robot.folder), "--cycles", "10", "--fix", "eeprom"]
        refused = CliRunner().invoke(app, arguments)
        assert refused.exit_code != 0 and relay.written == b""
        assert "will change: settings in their EEPROM" in refused.output
        assert all(servo.get(table.RETURN_DELAY_TIME) == 250 for servo in bus.chain.servos.values())
        with pytest.raises(SafetyError, match="were not confirmed"):  # as if it was a simulated line when asked
            apply_fixes(robot, relay.port, None, ["eeprom"])
        assert relay.written == b""
        CliRunner().invoke(app, [*arguments, "--yes"])
        assert all(servo.get(table.RETURN_DELAY_TIME) == 0 for servo in bus.chain.servos.values())
    finally:
        relay.close()
