"""Compiled functions of a cycle against numpy."""

import numpy as np
import pytest

from dynid.hardware.bus import protocol
from dynid.hardware.bus.masks import all_set, any_set
from dynid.hardware.bus.servo_units import ServoUnits
from dynid.hardware.bus.state_kernels import goal_counts, states_in_si, take_states, take_whole_reply
from dynid.hardware.safety import limit_kernels as kernels
from dynid.hardware.safety.limit_kernels import all_finite, farthest, limit_currents, used_capacity, within
from dynid.robot import load_robot

SIZE, STOPPING, CASES = 8, 0.05, 3000


def _by_numpy(drive, braking, commanded, q, dq, last, caps, limits):
    """The same limits, joint by joint as arrays, with the names of what was done in order."""
    did, speed, braked = [], np.abs(dq), None
    lower, upper, velocity, step, damping, stiffness = limits
    reach = q + dq * speed * STOPPING
    low, high = np.minimum(q, reach) < lower, np.maximum(q, reach) > upper
    if (low | high).any():
        did.append("near" if ((q >= lower) & (q <= upper)).all() else "inside")
        spring = commanded * (stiffness * (np.clip(q, lower, upper) - q))
        drive = np.where(low, np.maximum(drive, spring), drive)
        drive = np.where(high, np.minimum(drive, spring), drive)
        braked = (low & (dq < 0.0)) | (high & (dq > 0.0))
    fast = speed > velocity
    if fast.any():
        did.append("fast")
        drive = np.where(fast & (drive * dq > 0.0), 0.0, drive)
        braked = fast if braked is None else braked | fast
    brake = np.clip(damping * dq, -caps, caps)
    if braked is not None:
        drive = drive - np.where(braked, 1.0, braking) * brake
    elif braking:
        drive = drive - braking * brake
    if not (np.abs(drive) <= caps).all():
        did.append("capped")
        drive = np.clip(np.nan_to_num(drive), -caps, caps)
    change = drive - last
    if (np.abs(change) > step).any():
        did.append("sudden")
        drive = np.clip(last + np.clip(change, -step, step), -caps, caps)
    return drive, did


def _words(did):
    zone = ("near" if did & kernels.WITHIN_ZONES else "inside") if did & kernels.SOFT_ZONE else ""
    rest = {kernels.TOO_FAST: "fast", kernels.CAPPED: "capped", kernels.TOO_SUDDEN: "sudden"}
    return [word for word in (zone, *(word for bit, word in rest.items() if did & bit)) if word]


def _drawn(random):
    """One state, reaching every limit about as often as not, sometimes with a current that is no number."""
    q, dq = random.uniform(-1.2, 1.2, SIZE) * random.choice([0.5, 1.0]), random.uniform(-3, 3, SIZE)
    drive, last = random.uniform(-2, 2, (2, SIZE)) * random.choice([0.2, 1.0], (2, 1))
    if random.random() < 0.1:
        drive[random.integers(SIZE)] = random.choice([np.nan, np.inf, -np.inf])
    dq = dq * random.choice([0.1, 1.0])
    braking, commanded = random.choice([0.0, 0.3, 1.0]), random.choice([0.0, 1.0])
    caps = random.uniform(0.5, 1.5, SIZE)
    limits = np.vstack([np.full(SIZE, -1.0), np.full(SIZE, 1.0), random.uniform(1, 4, (1, SIZE))[0]])
    limits = np.vstack([limits, random.uniform(0.1, 3, SIZE), random.uniform(0, 1, SIZE), random.uniform(0, 5, SIZE)])
    return drive, float(braking), float(commanded), q, dq, last, caps, limits


def test_compiled_limits_equal_numpy_to_the_bit():
    random = np.random.default_rng(0)
    seen = set()
    for _ in range(CASES):
        case = _drawn(random)
        wanted, words = _by_numpy(*case)
        current, did = limit_currents(*case, STOPPING)
        np.testing.assert_array_equal(current, wanted)
        assert _words(did) == words
        seen.update(words)
    assert seen == {"near", "inside", "fast", "capped", "sudden"}


def test_drive_current_of_the_caller_stays_unchanged():
    case = _drawn(np.random.default_rng(1))
    before = case[0].copy()
    limit_currents(*case, STOPPING)
    np.testing.assert_array_equal(case[0], before)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_values_that_are_no_numbers_are_neither_finite_nor_within_limits(wrong):
    values, limits = np.array([0.0, wrong]), np.array([1.0, 1.0])
    assert not all_finite(values)
    assert not within(values, limits)
    assert all_finite(np.array([1e308, -1e308]))
    assert within(np.array([1.0, -1.0]), limits)
    assert not within(np.array([1.0, -1.1]), limits)


def test_farthest_considers_only_joints_that_were_read():
    places = np.array([[0.0, 0.0, 0.0], [0.1, 0.0, 0.0]])
    assert farthest(np.array([-0.1, 0.15, 9.0]), places, np.array([True, True, False])) == (0, pytest.approx(0.2))
    assert farthest(np.zeros(3), places, np.zeros(3, dtype=bool)) == (0, 0.0)


def test_compiled_conversions_equal_those_of_the_units():
    robot, random = load_robot("crane_x7"), np.random.default_rng(2)
    units, size = ServoUnits(robot), robot.size
    rows, caps = units.rows(robot), units.current_caps(robot.current_limits)
    unseen = np.zeros(size, dtype=bool)
    unseen[2] = True
    for _ in range(200):
        position, velocity, current = (random.integers(-5000, 5000, size) for _ in range(3))
        q, dq, amperes, torque = states_in_si(position, velocity, current, rows)
        np.testing.assert_array_equal(q, units.positions(position) + robot.zero_offsets)
        np.testing.assert_array_equal(dq, units.velocities(velocity))
        np.testing.assert_array_equal(amperes, units.currents(current))
        np.testing.assert_array_equal(torque, amperes * robot.joint_constants)
        wanted = random.uniform(-2.0, 2.0, size) * robot.current_limits
        counts, applied = goal_counts(wanted, unseen, caps, rows)
        expected = np.clip(units.current_counts(np.where(unseen, 0.0, wanted)), -caps, caps)
        np.testing.assert_array_equal(counts, expected)
        np.testing.assert_array_equal(applied, units.currents(expected))
    counts, _ = goal_counts(np.full(size, 1e300), unseen, caps, rows)
    np.testing.assert_array_equal(np.abs(counts), np.where(unseen, 0, caps))


def test_registers_are_read_little_endian_of_valid_servos_only():
    kind = np.dtype([("current", "<i2"), ("velocity", "<i4"), ("position", "<i4")])
    sent = np.array([(-3, -1, 2**31 - 1), (2**15 - 1, 1, -(2**31)), (7, 100, 5)], dtype=kind)
    blocks = np.frombuffer(bytearray(sent.tobytes()), dtype=np.uint8).reshape(3, 10)
    position, velocity, current = np.zeros((3, 3), dtype=np.int64)
    valid = np.array([True, True, False])
    assert not take_states(blocks, valid, position, velocity, current)
    np.testing.assert_array_equal(current, [-3, 2**15 - 1, 0])
    np.testing.assert_array_equal(velocity, [-1, 1, 0])
    np.testing.assert_array_equal(position, [2**31 - 1, -(2**31), 0])
    assert take_states(blocks, np.ones(3, dtype=bool), position, velocity, current)


IDS, REGISTERS = (2, 3, 200), 10


def _fast_reply(random, errors=(0, 0, 0), ids=IDS):
    """A reply to a fast read, and the registers in it."""
    data = random.integers(0, 256, (len(ids), REGISTERS), dtype=np.uint8)
    return protocol.build_fast_reply(ids, errors, [row.tobytes() for row in data]), data


def _take(reply):
    """The registers that are taken from bytes; None if they are left to the parser."""
    blocks = np.full((len(IDS), REGISTERS), 77, dtype=np.uint8)
    taken = take_whole_reply(np.frombuffer(reply, dtype=np.uint8), np.array(IDS, dtype=np.uint8), blocks)
    assert taken or (blocks == 77).all()
    return blocks if taken else None


def test_whole_reply_equals_the_parsers_result():
    random = np.random.default_rng(3)
    for _ in range(200):
        reply, data = _fast_reply(random)
        (packet,) = protocol.PacketParser().feed(reply)
        found = _take(reply)
        assert [bytes(row) for row in found] == [block for _, _, block in protocol.split_fast_reply(packet, REGISTERS)]
        np.testing.assert_array_equal(found, data)


def test_any_other_bytes_are_left_to_the_parser():
    random = np.random.default_rng(4)
    reply, _ = _fast_reply(random)
    assert _take(reply) is not None
    for at in range(len(reply)):  # a byte that is wrong, everywhere
        damaged = bytearray(reply)
        damaged[at] ^= int(random.integers(1, 256))
        assert _take(bytes(damaged)) is None, at
    for piece in (b"", reply[:-1], reply + b"x", reply[1:], reply * 2, protocol.build_status(2, 0, bytes(REGISTERS))):
        assert _take(piece) is None
    assert _take(_fast_reply(random, errors=(0, 128, 0))[0]) is None
    assert _take(_fast_reply(random, ids=(3, 2, 200))[0]) is None
    assert _take(_fast_reply(random, ids=(2, 3, 4))[0]) is None
    assert _take(_fast_reply(random, errors=(0, 0), ids=(2, 3))[0]) is None


def test_used_capacity_is_that_of_numpy():
    random = np.random.default_rng(5)
    for _ in range(500):
        share, current = random.uniform(0.0, 1.0, SIZE), random.normal(size=SIZE) * random.choice([0.01, 3.0])
        nominal, trips, step_s = random.uniform(0.1, 1.0, SIZE), random.uniform(0.1, 9.0, SIZE), random.uniform(0, 5)
        expected = np.maximum(0.0, share + (current * current - nominal) * (step_s / trips))
        np.testing.assert_array_equal(used_capacity(share, current, nominal, trips, step_s), expected)


@pytest.mark.parametrize("values", [[], [0, 0], [0, 1], [1, 1], [0, 128]])
def test_masks_are_tested_as_numpy_does(values: list[int]) -> None:
    whole = np.array(values, dtype=np.uint8)
    assert (any_set(whole), all_set(whole != 0)) == (whole.any(), whole.all())
    assert any_set(whole != 0) == whole.any()
