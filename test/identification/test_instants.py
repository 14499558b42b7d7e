"""Stamps that differ from the instants of their rows, corrected from the positions of all joints."""

import numpy as np
import pytest

from dynid.identification.data.instants import interpolated_at_stamps, stamp_errors

PERIOD_S, COUNT, JOINTS = 0.001, 6000, 5
EVEN = PERIOD_S * np.arange(COUNT)


def motion(time: np.ndarray) -> np.ndarray:
    """Five joints on sines of their own, (N, 5) [rad]; below 2 Hz."""
    rates = 2.0 * np.pi * np.array([0.31, 0.47, 0.73, 1.1, 1.7])
    return np.sin(rates * time[:, None] + np.arange(JOINTS)) / np.sqrt(rates)


def late(seed: int = 0, rms_s: float = 3e-4) -> np.ndarray:
    """Return the delays of a busy logger, (N,) [s]."""
    return np.abs(np.random.default_rng(seed).normal(0.0, 1.6 * rms_s, COUNT)).clip(max=0.9 * PERIOD_S)


def read_before(off: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Stamps, and when the rows were really read: even cycles, stamped `off` later."""
    return EVEN + off, EVEN


def test_a_late_stamp_is_found_from_all_joints() -> None:
    off = late()
    stamps, read = read_before(off)
    found = stamp_errors(stamps, motion(read))
    inside = slice(600, -600)  # the low-pass has no data beyond the ends
    wrong = found[inside] + off[inside] - np.mean(off)  # a delay of all rows is none of its business
    assert np.std(wrong) < 0.2 * np.std(off)  # what errors have in the band of the motion stays


def test_values_are_moved_to_their_stamps() -> None:
    stamps, read = read_before(late())
    q = motion(read)
    at, tau, dq, words = interpolated_at_stamps(stamps, q, 2.0 * q, -q)
    mean = float(np.mean(stamps - read))
    inside, right = slice(600, -600), motion(stamps - mean)
    assert np.abs(at - right)[inside].max() < 0.3 * np.abs(q - right)[inside].max()
    assert np.std((at - right)[inside]) < 0.2 * np.std((q - right)[inside])
    assert dq is not None
    np.testing.assert_allclose(tau, 2.0 * at, atol=1e-12)
    np.testing.assert_allclose(dq, -at, atol=1e-12)
    assert "ms (rms) off the instants" in words


def test_a_row_that_was_stamped_twice_is_one_instant() -> None:
    place = np.arange(COUNT)
    place[500::40] -= 1  # the logger came before the next row was there, and wrote the last one again
    q = motion(EVEN)[place]
    at, _, _, words = interpolated_at_stamps(EVEN, q, q, None)
    assert words
    assert np.abs(np.diff(at, n=2, axis=0))[600:-600].max() < 0.1 * np.abs(np.diff(q, n=2, axis=0))[600:-600].max()


@pytest.mark.parametrize("noise_rad", [0.0, 2e-4])
def test_even_rows_stay_as_they_are(noise_rad: float) -> None:
    q = motion(EVEN) + noise_rad * np.random.default_rng(1).normal(size=(COUNT, JOINTS))
    at, tau, dq, words = interpolated_at_stamps(EVEN, q, q, None)
    assert at is q
    assert tau is q
    assert dq is None
    assert words == ""


def test_ripple_in_a_single_joint_is_no_stamp_error() -> None:
    q = motion(EVEN)
    q[:, 2] += 0.002 * np.sin(2.0 * np.pi * 25.0 * EVEN)
    assert not stamp_errors(EVEN, q).any()
    alone = np.zeros_like(q)
    alone[:, 2] = q[:, 2]
    assert not stamp_errors(EVEN, alone).any()


def test_coarse_encoder_steps_are_not_corrected() -> None:
    stamps, read = read_before(late(rms_s=5e-5))
    q = np.round(motion(read) / 1.5e-3) * 1.5e-3
    assert not stamp_errors(stamps, q).any()


def test_few_rows_or_one_joint_give_no_stamp_errors() -> None:
    stamps, read = read_before(late())
    q = motion(read)
    assert not stamp_errors(stamps[:100], q[:100]).any()
    assert not stamp_errors(stamps, q[:, :1]).any()


def in_step(period_s: float, acceleration: float) -> tuple[np.ndarray, np.ndarray]:
    """Exact stamps (N,) and positions (N, 6) of an arm that goes from point to point, all joints in step."""
    random, times, ways, begin, start = np.random.default_rng(0), [], [], 0.0, np.zeros(6)
    for _ in range(8):
        way = random.uniform(-1.0, 1.0, 6)
        length = float(np.abs(way).max())
        speed = min(1.0, np.sqrt(length * acceleration))
        ramp, end = speed / acceleration, length / speed + speed / acceleration
        t = np.arange(0.0, end + 0.4, period_s)
        left = np.maximum(end - t, 0.0)
        along = np.select(
            [t < ramp, t < end - ramp],
            [0.5 * acceleration * t**2, speed * (t - 0.5 * ramp)],
            length - 0.5 * acceleration * left**2,
        )
        ways.append(start + np.outer(along / length, way))
        times.append(begin + t)
        begin, start = times[-1][-1] + period_s, ways[-1][-1]
    return np.concatenate(times), np.concatenate(ways)


@pytest.mark.parametrize("acceleration", [6.0, 20.0, 60.0])
@pytest.mark.parametrize("period_s", [0.001, 0.002, 0.004, 0.01, 0.05])
def test_simultaneous_corners_of_all_joints_are_no_stamp_errors(period_s: float, acceleration: float) -> None:
    """What all joints of a point-to-point motion show alike is the way's, and the stamps are right."""
    assert not stamp_errors(*in_step(period_s, acceleration)).any()


@pytest.mark.parametrize("rate_hz", [20.0, 100.0])
@pytest.mark.parametrize("period_s", [0.001, 0.002])
def test_linear_setpoint_interpolation_is_no_stamp_error(period_s: float, rate_hz: float) -> None:
    time, corners = period_s * np.arange(COUNT), np.arange(0.0, COUNT * period_s + 1.0, 1.0 / rate_hz)
    q = np.stack([np.interp(time, corners, joint) for joint in motion(corners).T], axis=1)
    assert not stamp_errors(time, q).any()
    together = np.interp(time, corners, np.sin(2.0 * corners))[:, None] * np.array([1.0, -0.6, 0.3, 0.8, -0.2])
    assert not stamp_errors(time, together).any()


def test_a_pause_of_the_logger_is_no_motion() -> None:
    """Beside it nothing is known of stamps, and far from it all is found as without."""
    stamps, read = read_before(late())
    pause = 2.0 * (np.arange(COUNT) >= COUNT // 2)
    found = stamp_errors(stamps + pause, motion(read + pause))
    assert found.any() and np.abs(found).max() < 3.0 * PERIOD_S
    assert not found[COUNT // 2 - 200 : COUNT // 2 + 200].any()
