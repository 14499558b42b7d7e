"""The line while an arm is moved by hand, recordings of it, and the command `dynid robot match`."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from geared_arms import variant
from hand_moved import BAUDRATE, LYING, ZERO, InstantClock, fields, guided, moved, path, proposed, real_arm, served
from plain_bus import IndependentAxesPlant, running_bus

from dynid.control.controller import load_controller
from dynid.control.ff_pd import FeedforwardPd
from dynid.errors import BusError, DataError, SafetyError
from dynid.hardware.bus import control_table as table
from dynid.hardware.bus.servo_bus import ServoBus
from dynid.hardware.startup import hand_session
from dynid.hardware.startup.hand_motions import HandMotions, load_hand_motions
from dynid.hardware.startup.hand_session import record_for, watched_line
from dynid.hardware.startup.joint_match import match_recording
from dynid.hardware.startup.standstill import moving_ranges
from dynid.robot import FloatArray, Robot, load_robot
from dynid.simulation.bus.servo_bus import EmulatedServoBus
from dynid.simulation.lockstep.run import simulate
from dynid.simulation.lockstep.simulated_bag import write_bag
from dynid.trajectory.trajectory import through

FOUND = [(3, 1, False), (1, -1, True), (2, 1, False)]
FOUND_FIELDS = ("servo_id", "direction", "reverse_mode")
Command = Callable[..., Any]


@pytest.fixture
def mine(tmp_path: Path) -> Robot:
    return variant("direct", tmp_path / "mine")


def opened(bus: EmulatedServoBus) -> ServoBus:
    return ServoBus(bus.port, BAUDRATE, ())


# -- the line --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_nothing_is_written_to_the_servos(mine: Robot, tmp_path: Path) -> None:
    with served(real_arm(tmp_path)) as (bus, _):
        before = {one: bytes(servo.bytes[:120]) for one, servo in bus.chain.servos.items()}
        with watched_line(opened(bus), InstantClock()) as line:
            record_for(line, 0.5)
        assert {one: bytes(servo.bytes[:120]) for one, servo in bus.chain.servos.items()} == before


def test_torque_is_refused_at_the_start_and_later(tmp_path: Path) -> None:
    with served(real_arm(tmp_path)) as (bus, _):
        with watched_line(opened(bus), InstantClock()) as line:
            line.take()
            bus.chain.set_register(2, table.TORQUE_ENABLE, 1)
            with pytest.raises(SafetyError, match=r"servo 2 on .* has torque on: .*--fix torque-off"):
                line.take()
        with pytest.raises(SafetyError, match=r"servo 2 on .* has torque on"), watched_line(opened(bus)):
            pass


def test_a_silent_servo_ends_the_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(real_arm(tmp_path)) as (bus, _), watched_line(opened(bus), InstantClock()) as line:
        line.take()
        bus.chain.servos.pop(2)
        monkeypatch.setattr(hand_session, "SILENT_S", 0.3)
        with pytest.raises(BusError, match=r"servo 2 on .* no longer answers: check power and cable"):
            line.take()


def test_a_line_without_servos_is_named(tmp_path: Path) -> None:
    with served(real_arm(tmp_path)) as (bus, _):
        bus.chain.servos.clear()
        with pytest.raises(BusError, match=r"no servo answers on .* at 3000000 bit/s"), watched_line(opened(bus)):
            pass


# -- recordings without questions ------------------------------------------------------------------------------

STILL = np.tile(LYING, (30, 1))  # a second and a half


def still(posture: FloatArray, rows: int = 30) -> FloatArray:
    return np.tile(posture, (rows, 1))


def slow(*postures: FloatArray) -> FloatArray:
    """Return the rows of a motion of a second per part."""
    return np.vstack([np.linspace(a, b, 20) for a, b in pairwise(postures)])


def there_and_back(axis: int, degrees: float = 22.0, pause: int = 0) -> FloatArray:
    away = LYING + np.deg2rad(degrees) * np.eye(3)[axis]
    return np.vstack([slow(LYING, away), still(away, pause + 1), slow(away, LYING), STILL])


def timed(real: Robot, rows: FloatArray) -> HandMotions:
    """Return the recording of an arm that is moved along rows, one per sample."""
    with served(real) as (bus, plant):

        def hand(time_s: float) -> None:
            plant.q[:] = rows[min(round(time_s / hand_session.SAMPLE_S), len(rows) - 1)]

        with watched_line(opened(bus), InstantClock(hand)) as line:
            return record_for(line, len(rows) * hand_session.SAMPLE_S)


GOOD = np.vstack([STILL, *(there_and_back(axis) for axis in range(3)), slow(LYING, ZERO), still(ZERO)])


def test_motions_without_questions_are_separated_by_standstill(mine: Robot, tmp_path: Path) -> None:
    proposal = proposed(mine, timed(real_arm(tmp_path), GOOD))
    assert fields(proposal, *FOUND_FIELDS) == FOUND and not proposal.oddities
    assert proposal.blocks["joints"][2]["centre_count"] == pytest.approx(1500, abs=1)


def test_a_pause_before_the_return_does_not_split_the_motion(mine: Robot, tmp_path: Path) -> None:
    rows = np.vstack([STILL, there_and_back(0), there_and_back(1, pause=40), there_and_back(2), slow(LYING, ZERO)])
    proposal = proposed(mine, timed(real_arm(tmp_path), np.vstack([rows, still(ZERO)])))
    assert fields(proposal, *FOUND_FIELDS) == FOUND


def test_an_arm_already_in_the_pose_needs_no_last_motion(mine: Robot, tmp_path: Path) -> None:
    rows = np.vstack([STILL, *(there_and_back(axis) for axis in range(3))])
    proposal = proposed(mine, timed(real_arm(tmp_path), rows), LYING)
    assert fields(proposal, *FOUND_FIELDS) == FOUND
    assert proposal.blocks["joints"][2]["centre_count"] == pytest.approx(1500, abs=1)


WRONG = {
    "joint left out": (
        np.vstack([STILL, there_and_back(0), still(LYING)]),
        "the recording has 1 motions .of servos 3., and planar_3r has 3 joints: move each joint once and alone",
    ),
    "joint moved twice": (
        np.vstack([STILL, *(there_and_back(axis) for axis in (0, 1, 0, 1, 2))]),
        r"5 motions .of servos 3, 1, 3, 1, 2.",
    ),
    "still moving": (GOOD[: -len(still(ZERO))], "the arm moves at the end of the recording: hold it still"),
    "two at once": (
        np.vstack([STILL, there_and_back(0), slow(LYING, LYING + 0.4, LYING), STILL, there_and_back(2)]),
        "turned while joint 2 .* was to be moved alone: hold the other joints",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", WRONG)
def test_recordings_with_ambiguous_motions_are_refused(mine: Robot, tmp_path: Path, case: str) -> None:
    rows, said = WRONG[case]
    with pytest.raises(DataError, match=said):
        match_recording(mine, timed(real_arm(tmp_path), rows))


def test_a_recording_with_a_gap_is_refused() -> None:
    with pytest.raises(DataError, match=r"the recording has a gap of 0.40 s, expected at most 0.3 s"):
        moving_ranges(np.array([0.0, 0.1, 0.5, 0.6]), np.zeros((4, 1)))


def test_damaged_files_are_refused(mine: Robot, tmp_path: Path) -> None:
    good = guided(mine, real_arm(tmp_path))[0].model_dump(mode="json")
    wrongs = {
        "must have": {"counts": good["counts"][1:]},
        "must increase": {"time_s": [good["time_s"][1], *good["time_s"][1:]]},
        "is not a range": {"steps": [[5, 3]]},
        "must be unique": {"servos": [good["servos"][0]] * 3},
    }
    for said, wrong in wrongs.items():
        path = tmp_path / f"{len(said)}.yaml"
        path.write_text(yaml.safe_dump(good | wrong))
        with pytest.raises(Exception, match=said):
            load_hand_motions(path, mine)
    short = HandMotions.model_validate(good | {"steps": good["steps"][1:]})
    with pytest.raises(DataError, match="has 3 steps; planar_3r needs 3 joints and a pose"):
        match_recording(mine, short)


@pytest.mark.slow
def test_a_bag_of_the_driver_is_a_recording(tmp_path: Path) -> None:
    """Joints 2 and 1 are moved in this order, so their servos are swapped; joint 3 turns against its own direction."""
    robot = load_robot("openmanipulator_x")
    base, size = robot.rest_posture, np.deg2rad(20.0)
    steps = [np.eye(5)[1], np.eye(5)[0], -np.eye(5)[2], np.eye(5)[3], np.eye(5)[4]]
    points = np.array([base, *(point for one in steps for point in (base + size * one, base))])
    controller = load_controller(robot)
    motion = through("by_hand", robot.joint_names, points, np.full(5, 0.6), np.full(5, 3.0), dwell=1.3)
    run = simulate(robot, motion, FeedforwardPd(controller))
    write_bag(run, robot, controller, tmp_path / "bag", profile="limited")
    motions = load_hand_motions(tmp_path / "bag", robot)
    proposal = proposed(robot, motions, base)
    assert fields(proposal, "servo_id", "direction") == [(12, 1), (11, 1), (13, -1), (14, 1), (15, 1)]


# -- the command -----------------------------------------------------------------------------------------------


def saved(mine: Robot, tmp_path: Path) -> Path:
    guided(mine, real_arm(tmp_path))[0].save(tmp_path / "motions.yaml")
    return tmp_path / "motions.yaml"


def test_the_command_writes_blocks_into_a_new_file(mine: Robot, tmp_path: Path, dynid: Command) -> None:
    out = tmp_path / "blocks.yaml"
    arguments = ("robot", "match", "--robot", mine.folder, "--recording", saved(mine, tmp_path))
    before = (mine.folder / "robot.yaml").read_bytes()
    done = dynid(*arguments, "--out", out, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [one["servo_id"] for one in found["joints"]] == [3, 1, 2] and found["oddities"] == []
    assert yaml.safe_load(out.read_text()) == found["blocks"]
    assert (mine.folder / "robot.yaml").read_bytes() == before
    again = dynid(*arguments, "--out", out)
    assert again.returncode == 1 and "exists" in again.stderr
    shown = dynid(*arguments)
    assert shown.returncode == 0 and "robot.yaml differs at joint_1, joint_2, joint_3" in shown.stdout


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ((), 2, "give --port for an arm, or --recording"),
        (("--port", "/dev/null", "--recording", "x.yaml"), 2, "give --port for an arm, or --recording"),
        (("--recording", "x.yaml", "--seconds", "9"), 2, "--seconds, --baudrate and --record are for --port"),
        (("--recording", "x.yaml"), 1, "x.yaml does not exist: name a recording of hand motions"),
        (("--recording", "x.yaml", "--at", "joint_1:=far"), 1, "--at joint_1:=far: expected JOINT:=DEG"),
        (("--recording", "x.yaml", "--at", "joint_9:=1"), 1, "unknown joint 'joint_9'"),
        (("--port", "/dev/null"), 1, "there is no terminal to ask for motions: give --seconds"),
    ],
)
def test_wrong_options_are_refused(
    mine: Robot, dynid: Command, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], code: int, said: str
) -> None:
    with open(os.devnull) as empty:
        monkeypatch.setattr(sys, "stdin", empty)
        done = dynid("robot", "match", "--robot", mine.folder, *options)
    assert done.returncode == code and said in done.stderr


def test_arms_whose_joints_have_no_servo_of_their_own_are_refused(tmp_path: Path, dynid: Command) -> None:
    coupled = variant("coupled", tmp_path)
    done = dynid("robot", "match", "--robot", coupled.folder, "--recording", "x.yaml")
    assert done.returncode == 1 and "has a coupling: moving one joint by hand turns several servos" in done.stderr


class TypingHand(IndependentAxesPlant):
    """An arm that is moved a step at each reading, and a person who presses Enter after each joint's motion."""

    def __init__(self, robot: Robot, keyboard: int, key: bytes = b"\n") -> None:
        super().__init__(robot, q=LYING)
        self.robot, self._keyboard, self._key, self._script = robot, keyboard, key, self._moves()

    def _moves(self) -> Iterator[None]:
        idle = [LYING] * 60  # the servos' registers are read first
        for rows in (*(moved(axis, 22.0) for axis in range(3)), path(LYING, ZERO, ZERO)):
            for row in (*idle, *rows):
                self.q[:] = row
                yield
            os.write(self._keyboard, self._key)
            idle = [self.q.copy()] * 12  # Enter is seen within two samples
        for _ in range(400):
            yield
        os.write(self._keyboard, b"q")  # a missed Enter ends the test
        while True:
            yield

    def measure(self) -> Any:
        next(self._script)
        return super().measure()


def test_the_command_asks_at_a_terminal(
    mine: Robot, tmp_path: Path, dynid: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyboard, terminal = os.openpty()
    real = real_arm(tmp_path)
    monkeypatch.setattr(hand_session, "SAMPLE_S", 0.0)
    plant = TypingHand(real, keyboard)
    with (
        running_bus(EmulatedServoBus(real, plant, baudrate=BAUDRATE, lock_step=True)) as bus,
        os.fdopen(terminal) as stdin,
    ):
        monkeypatch.setattr(sys, "stdin", stdin)
        options = ("--port", bus.port, "--baudrate", BAUDRATE, "--record", tmp_path / "motions.yaml", "--json")
        done = dynid("robot", "match", "--robot", mine.folder, *options)
    os.close(keyboard)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [one["servo_id"] for one in found["joints"]] == [3, 1, 2]
    assert "joint 2 (joint_2): servo 1 turned by -22 deg" in done.stderr and "not accepted" not in done.stderr
    again = dynid("robot", "match", "--robot", mine.folder, "--recording", tmp_path / "motions.yaml", "--json")
    assert json.loads(again.stdout)["blocks"] == found["blocks"]


def test_q_ends_the_command_without_files(
    mine: Robot, tmp_path: Path, dynid: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyboard, terminal = os.openpty()
    plant = TypingHand(real_arm(tmp_path), keyboard, b"q")
    bus = EmulatedServoBus(plant.robot, plant, baudrate=BAUDRATE, lock_step=True)
    with running_bus(bus), os.fdopen(terminal) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        options = ("--port", bus.port, "--baudrate", BAUDRATE, "--record", tmp_path / "motions.yaml")
        done = dynid("robot", "match", "--robot", mine.folder, *options)
    os.close(keyboard)
    assert done.returncode == 130 and not (tmp_path / "motions.yaml").exists()
