"""Fourth-order ARX model of one joint, fitted to show effects that the joint's first-order model neglects.

The model is A(z) v = B(z) u over intervals of a few samples. v is the mean velocity in an interval, measured by the
encoder. u is the mean net torque. Both are averaged in the same way, so B/A is the joint's response. Only sections are
used in which the joint keeps moving in one direction. There, Coulomb friction and the effect of backlash are constant,
so the friction of the first-order model can be subtracted. Figure 2b of arXiv:2605.15949 compares such a model with the
first-order model (eq. 1).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.ndimage import minimum_filter1d

from dynid.errors import DataError
from dynid.identification.data.zero_phase import butterworth_sections, filtered_both_ways
from dynid.identification.joint_level.first_order import LEAD, FirstOrderFit, Segment
from dynid.robot import FloatArray, read_only

ORDER = 4
AVERAGE_S = 0.005
MOVING_RAD_S = 0.3
CLEAR_S = 0.005  # time on both sides of an interval in which the joint must also keep moving [s]
SMOOTH_HZ = 30.0  # cut-off frequency of the speed that determines the direction [Hz]
# Cut-off of the zero-phase filter of both signals, which keeps their ratio, so that encoder steps do not bias the fit.
FILTER_HZ = 40.0
SHORTEST = 64  # smallest number of samples of a section
FEWEST_ROWS = 100


@dataclass(frozen=True, eq=False)
class ArxFit:
    """Model v_k + a_1 v_{k-1} + ... + a_4 v_{k-4} = b_0 u_k + ... + b_4 u_{k-4} of one joint; arrays are read-only.

    The velocity v and the net torque u are means over intervals of equal length.

    Attributes:
        a: coefficients a_1 to a_4, (4,).
        b: coefficients b_0 to b_4, (5,) [rad/s per N m].
        interval_s: length of an interval [s].
        rows: number of equations in the least-squares fit.
    """

    a: FloatArray
    b: FloatArray
    interval_s: float
    rows: int

    def response(self, frequency_hz: FloatArray) -> FloatArray:
        """Return the joint's complex frequency response from torque to velocity, (F,), at frequencies (F,) [Hz]."""
        z = np.exp(-2j * np.pi * np.asarray(frequency_hz) * self.interval_s)
        powers = z[:, None] ** np.arange(ORDER + 1)
        return np.asarray((powers @ self.b) / (powers @ np.concatenate([[1.0], self.a])))


def fit_arx(segments: Sequence[Segment], dt: float, first_order: FirstOrderFit) -> ArxFit:
    """Fit a fourth-order ARX model to all usable open-loop sections of one joint by least squares.

    Args:
        segments: sections of the joint's motion without feedback.
        dt: time between two samples [s].
        first_order: first-order model of the joint, from which friction, load and dead time are taken.

    Raises:
        DataError: the joint does not keep moving for long enough in any section.
    """
    size = max(1, round(AVERAGE_S / dt))
    whole = [piece for one in segments for piece in _complete(one) if len(piece.q) >= SHORTEST]
    blocks = [_rows(*_averages(one, dt, size, first_order)) for one in whole]
    count = sum(len(v) for _, v in blocks)
    if count < FEWEST_ROWS:
        raise DataError(
            f"the joint kept moving in {count} intervals of {1e3 * size * dt:.0f} ms only, but {FEWEST_ROWS} are "
            "needed: excite it with more torque"
        )
    regressor, v = (np.concatenate(part) for part in zip(*blocks, strict=True))
    solution = np.linalg.lstsq(regressor, v, rcond=None)[0]
    return ArxFit(read_only(solution[:ORDER]), read_only(solution[ORDER:]), size * dt, count)


def _complete(segment: Segment) -> Iterator[Segment]:
    """Yield the parts of a segment in which no encoder reading is missing."""
    read = np.concatenate([[False], np.isfinite(segment.q), [False]])
    edges = np.flatnonzero(np.diff(read.astype(np.int8))).tolist()
    for begin, end in zip(edges[::2], edges[1::2], strict=True):
        yield Segment(segment.q[begin:end], segment.torque[begin : end + LEAD])


def _averages(
    segment: Segment, dt: float, size: int, known: FirstOrderFit
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return mean net torque and mean velocity of a joint in n intervals, and marks of continuous motion, (n,) each.

    The mark of an interval is 1 if the joint keeps moving during the whole interval, else 0.

    Args:
        segment: open-loop section without missing readings.
        dt: time between two samples [s].
        size: number of samples per interval.
        known: first-order model of the joint, whose friction and load are subtracted from the torque.
    """
    q, samples = segment.q, len(segment.q)
    smooth = butterworth_sections(2, SMOOTH_HZ, 1.0 / dt)
    speed = np.gradient(filtered_both_ways(smooth, q), dt)
    clear = minimum_filter1d((np.abs(speed) > MOVING_RAD_S).astype(np.uint8), 2 * round(CLEAR_S / dt) + 1)
    load = known.coulomb.value * np.sign(speed) + known.offset + known.stiffness * (q - known.centre)
    # a command acts after the dead time, so the load at that later time is subtracted
    grid = np.arange(samples)
    net = segment.torque[LEAD:] - np.interp(grid + known.dead_time.value / dt, grid, load)
    quiet = butterworth_sections(2, FILTER_HZ, 1.0 / dt)
    net, q = filtered_both_ways(quiet, net), filtered_both_ways(quiet, q)
    n = (samples - 1) // size
    u = net[: n * size].reshape(n, size).mean(axis=1)
    v = np.diff(q[: n * size + 1 : size]) / (size * dt)
    return u, v, clear[: n * size].reshape(n, size).min(axis=1)


def _rows(u: FloatArray, v: FloatArray, clear: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return coefficients (k, 9) and right-hand sides (k,) of the ARX equations for k intervals of continuous motion.

    Each of the k intervals follows at least `ORDER` other intervals of continuous motion. The right-hand side is the
    velocity.

    Args:
        u: mean net torque of each interval, (n,).
        v: mean velocity of each interval, (n,).
        clear: 1 for intervals of continuous motion, else 0, (n,).
    """
    k = np.arange(ORDER, len(v))
    k = k[np.all([clear[k - lag] > 0 for lag in range(ORDER + 1)], axis=0)]
    columns = [-v[k - lag] for lag in range(1, ORDER + 1)] + [u[k - lag] for lag in range(ORDER + 1)]
    return np.array(columns).T, v[k]
