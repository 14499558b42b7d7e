"""Reading and writing of the cycle with line faults, in lock-step with the emulated bus."""

import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from plain_bus import IndependentAxesPlant

from dynid.errors import BusError
from dynid.hardware.bus import control_table as table
from dynid.hardware.bus.clock import Clock
from dynid.hardware.bus.protocol import BROADCAST_ID, Packet, build_status
from dynid.hardware.bus.servo_bus import ServoBus
from dynid.hardware.bus.state_cycle import LONGEST_LEFT_OUT_READS, StateCycle
from dynid.hardware.servos.models import USUAL_UNIT_A
from dynid.robot import Robot
from dynid.simulation.bus.servo_bus import EmulatedServoBus

Fault = Callable[[list[bytes]], list[bytes]]


@pytest.fixture(params=[True, False], ids=["fast", "plain"])
def fast(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def cycle(robot: Robot, bus: EmulatedServoBus, fast: bool) -> Iterator[StateCycle]:
    line = ServoBus(bus.port, 3_000_000, robot.servo_ids)
    line.open()
    opened = StateCycle(line)
    assert opened.probe()
    opened.fast_read, opened.wire_timed = fast, False
    yield opened
    line.close()


def expected_positions(plant: IndependentAxesPlant) -> np.ndarray:
    return np.rint(plant.q * 4096 / (2 * np.pi)).astype(int) + 2048


def test_read_returns_the_state_of_the_plant(cycle: StateCycle, plant: IndependentAxesPlant) -> None:
    plant.dq[:] = np.linspace(-2, 2, 8)
    plant.q[3] = -1.0
    reading = cycle.read()
    assert reading.complete and reading.valid.all() and not reading.errors.any()
    assert (reading.position_count == expected_positions(plant)).all()
    assert (reading.velocity_count == np.rint(plant.dq / 0.0239808)).all()


def test_states_with_stuffed_bytes_are_read(
    cycle: StateCycle, bus: EmulatedServoBus, plant: IndependentAxesPlant
) -> None:
    plant.current_a[:], plant.dq[:] = -USUAL_UNIT_A, -3 * table.VELOCITY_RAD_S_PER_COUNT
    reading = cycle.read()
    assert reading.complete
    assert (reading.current_count == -1).all() and (reading.velocity_count == -3).all()


def test_writes_reach_the_motors(cycle: StateCycle, bus: EmulatedServoBus, plant: IndependentAxesPlant) -> None:
    for servo_id in cycle.bus.servo_ids:
        cycle.bus.write(servo_id, table.OPERATING_MODE, table.CURRENT_MODE)
    cycle.bus.sync_write(table.TORQUE_ENABLE, [1] * 8)
    goal = np.array([1, -1, 200, -200, 3, -3, 400, 0])
    cycle.write(goal)
    assert (cycle.read().current_count == goal).all()
    assert plant.time_s == pytest.approx(0.001)


def test_a_missing_servo_keeps_the_others(
    cycle: StateCycle, bus: EmulatedServoBus, plant: IndependentAxesPlant
) -> None:
    before = cycle.read().position_count.copy()
    bus.chain.servos.pop(5)
    plant.q += 0.1
    for _ in range(4):  # the fast read fails as a whole, until the cycle falls back to the plain one
        reading = cycle.read()
    assert reading.valid.tolist() == [True, True, True, False, True, True, True, True] and not reading.complete
    assert reading.position_count[3] == before[3]
    assert (np.delete(reading.position_count, 3) == np.delete(expected_positions(plant), 3)).all()
    assert cycle.counters.missing_by_servo[3] >= 4


def flip_last(frames: list[bytes]) -> list[bytes]:
    return [*frames[:-1], frames[-1][:-1] + bytes([frames[-1][-1] ^ 1])]


FAULTS: dict[str, Fault] = {
    "missing": lambda frames: [],
    "wrong crc": flip_last,
    "truncated": lambda frames: [b"".join(frames)[:-4]],
    "another servo's": lambda frames: [build_status(99, 0, bytes(10))],
    "too short": lambda frames: [*frames[:-1], build_status(9, 0, bytes(4))],
    "refused": lambda frames: [*frames[:-1], build_status(9, 4)],
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_bad_reply_is_marked_and_the_next_is_good(
    cycle: StateCycle, bus: EmulatedServoBus, plant: IndependentAxesPlant, name: str
) -> None:
    before = cycle.read().position_count.copy()
    plant.q += 0.2
    bus.line_fault = FAULTS[name]
    reading = cycle.read()
    assert not reading.complete and not reading.valid[-1]
    assert (reading.position_count[~reading.valid] == before[~reading.valid]).all()
    bus.line_fault = None
    assert cycle.read().complete
    assert (cycle.read().position_count == expected_positions(plant)).all()


def test_a_damaged_reply_is_counted_for_its_servo(cycle: StateCycle, bus: EmulatedServoBus, fast: bool) -> None:
    bus.line_fault = flip_last
    assert not cycle.read().complete
    assert cycle.bus.parser.crc_errors_by_id == {0xFE if fast else 9: 1}


def test_garbage_between_packets_is_skipped(cycle: StateCycle, bus: EmulatedServoBus) -> None:
    bus.line_fault = lambda frames: [b"\xff\xff\xfd\x00\x01\x02\xff\xff" + frame for frame in frames]
    assert cycle.read().complete


def test_the_late_answer_to_another_read_is_passed_over(cycle: StateCycle, bus: EmulatedServoBus) -> None:
    bus.line_fault = lambda frames: [build_status(2, 0, bytes(7)), *frames]
    assert cycle.read().complete and cycle.counters.status_errors == 1


def test_two_different_replies_of_one_servo_are_both_refused(
    cycle: StateCycle, bus: EmulatedServoBus, fast: bool
) -> None:
    bus.line_fault = lambda frames: [build_status(2, 0, bytes(10)), build_status(2, 0, bytes(10)), *frames]
    reading = cycle.read()
    if fast:  # to which no servo answers alone
        assert reading.complete and cycle.counters.stale == 2
    else:
        assert not reading.valid[0] and cycle.counters.duplicates >= 1


def test_a_late_reply_is_not_taken_for_the_next(
    cycle: StateCycle, bus: EmulatedServoBus, plant: IndependentAxesPlant
) -> None:
    cycle.quarantine_s = 0.3
    bus.line_fault = lambda frames: [0.05, *frames]  # after the deadline, within the quarantine
    assert not cycle.read().complete
    bus.line_fault = None
    plant.q += 0.3
    reading = cycle.read()
    assert reading.complete and (reading.position_count == expected_positions(plant)).all()


@pytest.fixture
def slow_wire(cycle: StateCycle, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wire so slow that every reply comes too early for it."""
    monkeypatch.setattr(cycle.bus, "wire_s", lambda *_: 10.0)
    cycle._ask(cycle._asked)  # requests made anew
    cycle.wire_timed = True


@pytest.mark.usefixtures("slow_wire")
def test_a_reply_quicker_than_the_wire_is_stale(cycle: StateCycle) -> None:
    reading = cycle.read()
    assert not reading.valid.any() and cycle.counters.stale == 1


@pytest.mark.usefixtures("slow_wire")
def test_replies_always_quicker_than_the_wire_are_accepted_in_the_end(cycle: StateCycle) -> None:
    assert [cycle.read().complete for _ in range(5)] == [False, False, False, True, True]


def test_reply_during_a_clock_pause_is_not_early(cycle: StateCycle, monkeypatch: pytest.MonkeyPatch) -> None:
    """A held time ends with its cycle, whatever is still on the wire."""
    now_ns = time.monotonic_ns()

    class Standing(Clock):
        def monotonic_ns(self) -> int:
            return now_ns

        def line_ns(self) -> int:
            return time.monotonic_ns()

    monkeypatch.setattr(cycle.bus, "clock", Standing())
    monkeypatch.setattr(cycle.bus, "wire_s", lambda *_: 1e-6)
    cycle._ask(cycle._asked)  # requests made anew
    cycle.wire_timed = True
    assert cycle.read().complete and cycle.counters.stale == 0


def test_alert_bits_are_collected(cycle: StateCycle, bus: EmulatedServoBus) -> None:
    bus.chain.servos[4].raise_hardware_error(1 << 2)
    reading = cycle.read()
    assert reading.complete and reading.errors.tolist() == [0, 0, table.ALERT_BIT, 0, 0, 0, 0, 0]


def test_servos_without_fast_read_are_read_plainly(robot: Robot, bus: EmulatedServoBus) -> None:
    bus.line_fault = lambda frames: [] if frames[0][4] == 0xFE else frames
    line = ServoBus(bus.port, 3_000_000, robot.servo_ids)
    line.open()
    cycle = StateCycle(line)
    assert not cycle.probe()
    assert cycle.read().complete
    line.close()


def test_a_pulled_cable_is_an_error_and_closes_the_port(robot: Robot, plant: IndependentAxesPlant) -> None:
    bus = EmulatedServoBus(robot, plant)
    line = ServoBus(bus.port, 3_000_000, robot.servo_ids)
    line.open()
    cycle = StateCycle(line)
    bus.close()
    with pytest.raises(BusError, match="lost"):
        cycle.read()
    assert not line.is_open


# -- what stays silent, comes late, or comes twice ---------------------------------------------------------------------


@pytest.mark.parametrize("chained", [True, False], ids=["chained", "each by itself"])
@pytest.mark.parametrize("servo_id", [2, 5, 9])
def test_a_servo_that_stays_silent_is_left_out_and_found_again(
    cycle: StateCycle, bus: EmulatedServoBus, plant: IndependentAxesPlant, servo_id: int, chained: bool
) -> None:
    bus.chain.replies_chained = chained
    silent = bus.chain.servos.pop(servo_id)
    axis = servo_id - 2
    others = np.arange(8) != axis
    seen = [cycle.read().valid.tolist() for _ in range(6)]
    assert seen[-1] == others.tolist() and not any(valid[axis] for valid in seen)
    asked: list[Packet] = []
    execute = bus.chain.execute
    bus.chain.execute = lambda packet: (asked.append(packet), execute(packet))[1]  # type: ignore[method-assign]
    plant.q += 0.1
    missing = cycle.counters.missing_by_servo[axis]
    reading = cycle.read()
    assert reading.valid.tolist() == others.tolist() and not reading.complete
    assert servo_id not in asked[0].payload[4:] and len(asked[0].payload) == 4 + 7
    assert (reading.position_count[others] == expected_positions(plant)[others]).all()
    assert cycle.counters.missing_by_servo[axis] == missing + 1  # left out is missing all the same
    bus.chain.servos[servo_id] = silent
    for _ in range(LONGEST_LEFT_OUT_READS + 1):
        reading = cycle.read()
    assert reading.complete and (reading.position_count == expected_positions(plant)).all()


@pytest.mark.parametrize("servo_id", [2, 5, 9])
def test_a_servo_whose_replies_stay_damaged_costs_the_others_no_time(
    cycle: StateCycle, bus: EmulatedServoBus, servo_id: int
) -> None:
    """What has arrived is not waited for: or every cycle took 9 ms, in which nothing brakes the arm."""

    def damage(frames: list[bytes]) -> list[bytes]:
        return [flip_last([frame])[0] if frame[4] in (servo_id, BROADCAST_ID) else frame for frame in frames]

    bus.line_fault = damage
    others = [one != servo_id for one in cycle.bus.servo_ids]
    cycle.read()
    cycle.read()  # after a fast one, which no servo is to blame for
    asked: list[Packet] = []
    execute = bus.chain.execute
    bus.chain.execute = lambda packet: (asked.append(packet), execute(packet))[1]  # type: ignore[method-assign]
    for k in range(5):
        assert cycle.read().valid.tolist() == others
        assert len(asked) == k + 1 and len(asked[-1].payload) == 4 + 8  # asked once, and nobody left out
        assert cycle._quarantine_until_ns <= cycle.bus.clock.monotonic_ns()
    bus.line_fault = None
    assert cycle.read().complete


@pytest.mark.parametrize("silent", [(2, 3), (2, 5, 6), (4, 9)], ids=str)
def test_answering_servos_are_read_despite_silent_ones(
    cycle: StateCycle, bus: EmulatedServoBus, silent: tuple[int, ...]
) -> None:
    """Behind a silent servo all are silent; of each it is found out whether it is itself."""
    for servo_id in silent:
        bus.chain.servos.pop(servo_id)
    there = [servo_id not in silent for servo_id in cycle.bus.servo_ids]
    assert there in [cycle.read().valid.tolist() for _ in range(4)]
    assert cycle.bus.sync_read(table.TORQUE_ENABLE)[1] == there


def test_single_lost_reply_affects_no_other_servo(cycle: StateCycle, bus: EmulatedServoBus) -> None:
    lost = iter([True])
    bus.line_fault = lambda frames: frames[:3] if len(frames) == 8 and next(lost, False) else frames
    cycle.fast_read = False
    first = cycle.read()
    assert first.valid.tolist() == [True, True, True, False, True, True, True, True]
    assert [cycle.read().complete for _ in range(5)][-1]


def test_silent_line_leaves_out_no_servo(cycle: StateCycle, bus: EmulatedServoBus) -> None:
    bus.line_fault = lambda frames: []
    for _ in range(6):
        assert not cycle.read().valid.any()
    bus.line_fault = None
    assert True in [cycle.read().complete for _ in range(6)]  # some ask nothing: late replies may still come


@pytest.mark.parametrize("reached", range(8))
def test_no_read_is_held_up_by_many_silent_servos(cycle: StateCycle, bus: EmulatedServoBus, reached: int) -> None:
    """While a read lasts nobody brakes: what is behind a cut cable is not looked for servo by servo."""
    silent = {servo_id: bus.chain.servos.pop(servo_id) for servo_id in cycle.bus.servo_ids[reached:]}
    asked: list[Packet] = []
    execute = bus.chain.execute
    bus.chain.execute = lambda packet: (asked.append(packet), execute(packet))[1]  # type: ignore[method-assign]
    there = [servo_id not in silent for servo_id in cycle.bus.servo_ids]
    requests, valid = [], []
    for _ in range(40):
        before = len(asked)
        valid.append(cycle.read().valid.tolist())
        requests.append(len(asked) - before)
    assert max(requests) <= 3  # of all, of all but the first silent one, and of one of those that are left out
    assert sum(requests) < 1.5 * len(requests)
    assert there in valid[:3] and valid[-1] == there
    bus.chain.servos.update(sorted({**bus.chain.servos, **silent}.items()))
    assert True in [cycle.read().complete for _ in range(LONGEST_LEFT_OUT_READS + 60)]


def test_behind_two_silent_neighbours_the_others_are_soon_found(cycle: StateCycle, bus: EmulatedServoBus) -> None:
    """The cable is not cut there: who is last answers, and is asked first."""
    ids = cycle.bus.servo_ids
    for servo_id in ids[3:5]:
        del bus.chain.servos[servo_id]
    there = [servo_id in bus.chain.servos for servo_id in ids]
    valid = [cycle.read().valid.tolist() for _ in range(40)]
    behind = [all(row[5:]) for row in valid]
    assert behind.index(True) <= 8 and all(behind[behind.index(True) + 1 :])
    assert all(all(row[:3]) for row in valid[1:]) and valid[-1] == there


def test_duplicate_reply_is_counted_and_not_used(cycle: StateCycle, bus: EmulatedServoBus) -> None:
    bus.line_fault = lambda frames: [*frames, frames[-1]]
    for _ in range(100):  # a busy machine may deliver the two one by one
        reading = cycle.read()
        if cycle.counters.duplicates_by_servo[-1]:
            break
    assert not reading.valid[-1] and cycle.counters.duplicates_by_servo[-1] == 1
    bus.line_fault = None
    assert cycle.read().complete


def test_unrequested_replies_are_counted(cycle: StateCycle, bus: EmulatedServoBus) -> None:
    before = cycle.bus.parser.skipped_bytes
    bus.line_fault = lambda frames: [*frames, 0.02, frames[-1]]
    assert cycle.read().complete
    bus.line_fault = None
    late = threading.Event()
    late.wait(0.1)  # until what nobody asked for is there
    assert cycle.read().complete and cycle.bus.parser.skipped_bytes > before


def test_the_stamp_of_a_late_reply_is_of_when_it_should_have_come(cycle: StateCycle, bus: EmulatedServoBus) -> None:
    cycle.bus.reply_margin_s = 5.0
    bus.line_fault = lambda frames: [0.01, *frames]
    began_ns = time.monotonic_ns() + cycle.bus.realtime_offset_ns
    reading = cycle.read()
    assert reading.complete and cycle.counters.late == 1
    assert (reading.stamp_ns - began_ns) * 1e-9 < 0.005  # a reply of 0.7 ms on the wire, found after more than 10
    bus.line_fault = lambda frames: [0.05, *frames]
    reading = cycle.read()
    assert not reading.valid.any() and cycle.counters.stale == 1  # too old for anybody


def test_a_state_that_repeats_although_the_arm_moves_is_marked(
    cycle: StateCycle, bus: EmulatedServoBus, plant: IndependentAxesPlant
) -> None:
    assert not cycle.read().repeated and not cycle.read().repeated  # an arm at rest repeats rightly
    plant.dq[:] = 1.0
    assert not cycle.read().repeated
    assert cycle.read().repeated and cycle.counters.repeated == 1
    plant.q += 0.1
    assert not cycle.read().repeated


def test_alerts_and_refusals_are_counted_by_servo(cycle: StateCycle, bus: EmulatedServoBus) -> None:
    bus.chain.servos[4].raise_hardware_error(1 << 2)
    cycle.read()
    assert cycle.counters.alerts_by_servo.tolist() == [0, 0, 1, 0, 0, 0, 0, 0]
    bus.line_fault = lambda frames: [*frames[:-1], build_status(9, 4)]
    cycle.read()
    assert cycle.counters.status_errors_by_servo.tolist() == [0] * 7 + [1]
