"""Faults of the servo bus: scripts as data, damaged replies, servos that misbehave."""

from pathlib import Path

import numpy as np
import pytest
from plain_bus import IndependentAxesPlant

from dynid.errors import ConfigurationError
from dynid.hardware.bus import control_table as table
from dynid.hardware.bus.protocol import (
    PacketParser,
    build_fast_reply,
    build_ping,
    build_read,
    build_status,
    build_sync_read,
    build_sync_write,
    build_write,
)
from dynid.robot import Robot
from dynid.simulation.faults.line import LINE_FAULTS, with_fault
from dynid.simulation.faults.script import FaultInjector, FaultScript, LineFault, load_faults
from dynid.simulation.servo.chain import ServoChain, superposed

PLAIN = [build_status(servo_id, 0, bytes([servo_id] * 10)) for servo_id in (2, 3, 4)]
FAST = [build_fast_reply([2, 3, 4], [0, 0, 0], [bytes([servo_id] * 10) for servo_id in (2, 3, 4)])]


@pytest.fixture
def chain(robot: Robot) -> ServoChain:
    """Return servos in current mode with torque on and 0.269 A."""
    made = ServoChain(robot, IndependentAxesPlant(robot))
    for servo in made.servos.values():
        servo.set(table.OPERATING_MODE, table.CURRENT_MODE)
    send(made, build_sync_write(robot.servo_ids, table.TORQUE_ENABLE.address, [b"\1"] * robot.size))
    send(made, build_sync_write(robot.servo_ids, table.GOAL_CURRENT.address, [b"\x64\0"] * robot.size))
    return made


def send(chain: ServoChain, frame: bytes) -> list[bytes]:
    (packet,) = PacketParser().feed(frame)
    return chain.execute(packet)


def heard(pieces: list[bytes | float]) -> list[tuple[int, bytes]]:
    packets = PacketParser().feed(b"".join(piece for piece in pieces if isinstance(piece, bytes)))
    return [(packet.packet_id, packet.parameters) for packet in packets]


# -- spoiled replies -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("frames", [PLAIN, FAST], ids=["plain", "fast"])
@pytest.mark.parametrize("kind", LINE_FAULTS)
@pytest.mark.parametrize("servo_id", [None, 3])
def test_every_line_fault_changes_the_reply(frames: list[bytes], kind: str, servo_id: int | None) -> None:
    for seed in range(20):
        pieces = with_fault(kind, frames, servo_id, np.random.default_rng(seed), 0.008)  # type: ignore[arg-type]
        assert pieces != frames
        others = [packet for packet in heard(pieces) if packet[0] in (2, 4)]
        if frames is PLAIN and servo_id == 3 and kind not in ("truncated", "wrong_crc", "missing_reply"):
            assert others == [(2, bytes([2] * 10)), (4, bytes([4] * 10))]  # a wrong length may swallow what follows


def test_each_fault_changes_the_replies_as_described() -> None:
    random = np.random.default_rng(1)
    assert heard(with_fault("missing_reply", PLAIN, 3, random, 0.0)) == heard([PLAIN[0]])  # and so are all behind it
    assert heard(with_fault("missing_reply", PLAIN, 3, random, 0.0, chained=False)) == heard([PLAIN[0], PLAIN[2]])
    assert (
        with_fault("missing_reply", FAST, 3, random, 0.0) == with_fault("missing_reply", PLAIN, None, random, 0.0) == []
    )
    assert with_fault("late_reply", PLAIN, None, random, 0.008) == [0.008, *PLAIN]
    assert heard(with_fault("duplicated", PLAIN, 2, random, 0.0))[:2] == heard([PLAIN[0], PLAIN[0]])
    assert heard(with_fault("garbage", PLAIN, 4, random, 0.0))[:2] == heard(PLAIN)[:2]
    assert len(heard(with_fault("wrong_crc", FAST, None, random, 0.0))) == 0
    stranger = heard(with_fault("wrong_id", PLAIN, 4, random, 0.0))[2]
    assert stranger[0] >= 100 and stranger[1] == bytes([4] * 10)
    (fast,) = with_fault("wrong_id", FAST, 4, random, 0.0)
    assert isinstance(fast, bytes) and len(fast) == len(FAST[0]) and len(heard([fast])) == 1
    for frames in (PLAIN, FAST):
        assert with_fault("wrong_crc", frames, 77, random, 0.0) == frames  # a servo that did not answer


# -- scripts ---------------------------------------------------------------------------------------------------

SCRIPT = """
schema_version: 1
seed: 7
clock: first_current
faults:
  - {kind: missing_reply, at_s: 2.0, servo: 4, replies: 3}
  - {kind: hardware_error, at_s: 3.0, servo: 3, error: overload}
  - {kind: unplugged, at_s: 4.0, for_s: 1.0}
random: {probability: 0.01, kinds: [wrong_crc]}
"""


def test_a_script_is_read_with_all_its_faults(tmp_path: Path) -> None:
    path = tmp_path / "faults.yaml"
    path.write_text(SCRIPT)
    script = load_faults(path)
    assert script.seed == 7 and script.unplugs and [fault.kind for fault in script.faults][1] == "hardware_error"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{kind: missing_reply, at_s: -1}", "at_s"),
        ("{kind: no_such_fault}", "no_such_fault"),
        ("{kind: hardware_error, error: overload}", "servo"),
        ("{kind: hardware_error, servo: 3, error: boredom}", "error"),
        ("{kind: unplugged, servo: 3}", "servo"),
        ("{kind: baud_rate, baudrate: 12}", "baudrate"),
        ("{kind: cable_cut, for_s: 1.0}", "for_s"),
    ],
)
def test_invalid_scripts_are_named(tmp_path: Path, line: str, words: str) -> None:
    path = tmp_path / "faults.yaml"
    path.write_text(f"faults:\n  - {line}\n")
    with pytest.raises(ConfigurationError, match=words):
        load_faults(path)


def test_a_servo_that_is_not_there_is_refused(chain: ServoChain) -> None:
    with pytest.raises(ConfigurationError, match="no servo 77"):
        FaultInjector(FaultScript(faults=(LineFault(kind="garbage", servo=77),)), chain)


def injector(chain: ServoChain, *faults: dict[str, object], **options: object) -> FaultInjector:
    return FaultInjector(FaultScript.model_validate({"faults": faults, **options}), chain)


def test_the_stated_number_of_replies_is_missing_from_the_stated_time(chain: ServoChain) -> None:
    spoiler = injector(chain, {"kind": "missing_reply", "at_s": 0.01, "servo": 3, "replies": 2})
    assert spoiler.line(PLAIN) == PLAIN
    chain.advance(0.02)
    assert [len(spoiler.line(PLAIN)) for _ in range(4)] == [1, 1, 3, 3]
    assert spoiler.injected == {"missing_reply": 2}


def test_replies_are_missing_for_the_stated_time(chain: ServoChain) -> None:
    spoiler = injector(chain, {"kind": "missing_reply", "at_s": 0.0, "for_s": 0.005})
    assert spoiler.line(PLAIN) == [] and spoiler.line(PLAIN) == []
    chain.advance(0.006)
    assert spoiler.line(PLAIN) == PLAIN


def test_random_faults_have_the_stated_rate_and_repeat_by_seed(chain: ServoChain) -> None:
    counts = []
    for _ in range(2):
        spoiler = injector(chain, random={"probability": 0.1}, seed=3)
        counts.append([spoiler.line(PLAIN) != PLAIN for _ in range(2000)])
    assert counts[0] == counts[1] and sum(counts[0]) == pytest.approx(200, abs=45)
    assert set(spoiler.injected) == set(LINE_FAULTS)


def test_fault_times_may_count_from_the_first_current(robot: Robot) -> None:
    chain = ServoChain(robot, IndependentAxesPlant(robot))
    spoiler = injector(chain, {"kind": "missing_reply"}, clock="first_current")
    chain.advance(1.0)
    assert spoiler.line(PLAIN) == PLAIN
    chain.max_abs_current_a[0] = 0.1
    assert spoiler.line(PLAIN) == []


# -- servos ----------------------------------------------------------------------------------------------------


def test_hardware_errors_and_reboots_come_in_time(chain: ServoChain, robot: Robot) -> None:
    faults = injector(
        chain,
        {"kind": "hardware_error", "at_s": 0.005, "servo": 3, "error": "overload"},
        {"kind": "hardware_error", "at_s": 0.005, "servo": 4, "error": "input voltage"},
        {"kind": "reboot", "at_s": 0.01, "servo": 2, "absent_s": 0.02},
    )
    plant = chain.plant
    assert isinstance(plant, IndependentAxesPlant)
    faults.advance()
    assert plant.current_a.all()
    chain.advance(0.006)
    faults.advance()
    assert plant.current_a[1] == 0.0 and plant.current_a[2] > 0.0  # voltage does not switch torque off
    assert chain.servos[3].alert and chain.servos[4].alert
    chain.advance(0.005)
    faults.advance()
    assert plant.current_a[0] == 0.0 and chain.servos[2].get(table.OPERATING_MODE) == table.CURRENT_MODE
    assert send(chain, build_ping(2)) == []
    chain.advance(0.025)
    assert len(send(chain, build_ping(2))) == 1


def test_the_cable_is_unplugged_for_the_stated_time(chain: ServoChain) -> None:
    faults = injector(chain, {"kind": "unplugged", "at_s": 0.01, "for_s": 0.01})
    seen = []
    for _ in range(4):
        faults.advance()
        seen.append(faults.plugged)
        chain.advance(0.008)
    assert seen == [True, True, False, True] and faults.injected == {"unplugged": 1}


@pytest.mark.parametrize("powered", [True, False])
def test_servos_behind_a_cut_cable_hear_nothing_and_stop_by_their_watchdogs(chain: ServoChain, powered: bool) -> None:
    plant = chain.plant
    assert isinstance(plant, IndependentAxesPlant)
    for servo_id in chain.servos:
        send(chain, build_write(servo_id, table.BUS_WATCHDOG.address, bytes([5])))  # 0.1 s
    faults = injector(chain, {"kind": "cable_cut", "at_s": 0.01, "servo": 4, "powered": powered})
    carried = plant.current_a.copy()
    chain.advance(0.02)
    faults.advance()
    assert faults.injected == {"cable_cut": 1}
    assert [len(send(chain, build_ping(servo_id))) for servo_id in range(2, 10)] == [1, 1, 1, 0, 0, 0, 0, 0]
    assert (plant.current_a[:3] == carried[:3]).all()
    assert (plant.current_a[3:] == (carried[3:] if powered else 0.0)).all()
    for _ in range(12):  # those that are reached are fed
        chain.advance(0.01)
        send(chain, build_ping(2))
    assert (plant.current_a[:3] == carried[:3]).all() and not plant.current_a[3:].any()


def test_a_cable_may_be_cut_before_all_servos(chain: ServoChain) -> None:
    injector(chain, {"kind": "cable_cut"}).advance()
    assert not any(send(chain, build_ping(servo_id)) for servo_id in chain.servos)


def test_factory_fresh_servos_answer_at_57600_only(chain: ServoChain) -> None:
    injector(chain, {"kind": "factory_fresh"})
    chain.line_code = 5
    assert send(chain, build_ping(2)) == []
    chain.line_code = 1
    assert len(send(chain, build_ping(2))) == 1
    fresh = ServoChain(chain.robot, chain.plant).servos[2]
    assert fresh.get(table.OPERATING_MODE) == table.POSITION_MODE and fresh.get(table.RETURN_DELAY_TIME) == 250


def test_servo_at_another_baud_rate_does_not_answer(chain: ServoChain, robot: Robot) -> None:
    injector(chain, {"kind": "baud_rate", "servo": 5, "baudrate": 1_000_000})
    chain.line_code = 5
    assert len(send(chain, build_sync_read(robot.servo_ids, 126, 10))) == 3  # those before it in the chain of replies
    chain.replies_chained = False
    assert len(send(chain, build_sync_read(robot.servo_ids, 126, 10))) == robot.size - 1
    assert send(chain, build_sync_read(robot.servo_ids, 126, 10, fast=True)) == []
    before = chain.servos[5].get(table.GOAL_CURRENT)
    send(chain, build_sync_write(robot.servo_ids, 102, [b"\1\0"] * robot.size))
    assert chain.servos[5].get(table.GOAL_CURRENT) == before and chain.servos[4].get(table.GOAL_CURRENT) == 1


@pytest.mark.parametrize("servo", [3, None])
def test_two_servos_with_one_id_collide(chain: ServoChain, robot: Robot, servo: int | None) -> None:
    injector(chain, {"kind": "same_id", "servo": servo, "of": 2})
    (frame,) = send(chain, build_read(2, 132, 4))
    twin_position = chain.duplicate_id_servos[2].get(table.PRESENT_POSITION)
    if twin_position != chain.servos[2].get(table.PRESENT_POSITION):
        assert PacketParser().feed(frame) == []
    frames = send(chain, build_sync_read(robot.servo_ids, 126, 10))
    assert len(frames) == (robot.size if servo is None else 1)  # behind a servo that is not there all are silent
    assert send(chain, build_sync_read(robot.servo_ids, 126, 10, fast=True)) == []


def test_equal_frames_survive_a_collision_and_different_ones_do_not() -> None:
    assert superposed(PLAIN[0], PLAIN[0]) == PLAIN[0]
    assert PacketParser().feed(superposed(PLAIN[0], PLAIN[1])) == []
