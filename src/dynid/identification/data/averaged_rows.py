"""Samples computed as averages under test functions, for slowly or unevenly sampled recordings.

Below about 100 Hz, differences of neighbouring recorded rows are too inaccurate as derivatives, and a filter needs
evenly spaced rows. Therefore penalised splines are fitted to the rows between gaps (`curves`). The splines give states
and torques on a fine time grid. Both sides of the torque equation tau = W phi are averaged under test functions
(`weak_form`) whose support is four sampling intervals.
"""

import math
from itertools import pairwise

import numpy as np

from dynid.errors import DataError
from dynid.identification.data.curves import DEGREE, SHORTEST_KNOTS_S, curves_through
from dynid.identification.data.fine_states import FineStates
from dynid.identification.data.samples import Samples, SampleSettings
from dynid.identification.data.signals import Signals, TimeAxis, Torques, data_quality
from dynid.identification.data.weak_form import CUTOFF_OF_SUPPORT, HOPS, cubic_spline
from dynid.identification.settings import IdentificationSettings
from dynid.robot import FloatArray

GRID_S = 0.01  # longest step of the fine grid [s]
FEWEST_STEPS = 5  # smallest number of grid steps per sampling interval
FEWEST_ROWS = DEGREE + 3  # smallest number of rows of a piece to which a spline is fitted
FEWEST_SHARE = 0.2  # smallest number of averages / smallest number of samples: an average contains several rows
GAP_PERIODS = 2.5  # longest pause, in row periods, that a spline bridges: across a longer one it would invent motion


def averaging_grid(interval_s: float) -> int:
    """Return the number of steps per sampling interval, for the time grid from which averaged samples are computed.

    Args:
        interval_s: sampling interval [s].
    """
    return max(FEWEST_STEPS, math.ceil(interval_s / GRID_S - 1e-9))


def averaged_samples(signals: Signals, settings: IdentificationSettings, interval: float, axis: TimeAxis) -> Samples:
    """Return samples of a recording that are averages under test functions.

    Args:
        signals: raw signals; if they have a window, only this part of the recording gives samples.
        settings: settings of the identification.
        interval: time between the centres of neighbouring test functions [s].
        axis: time axis of the whole recording.

    Raises:
        DataError: there are too few samples.
    """
    if not len(signals.time) or not len(signals.torque_time):
        raise DataError("no positions or no torques were recorded in this part: record without such pauses")
    begin, end = signals.window or (signals.time[0], signals.time[-1])
    steps = averaging_grid(interval)
    grid, edge = interval / steps, 0.5 * HOPS * interval
    knots = max(axis.period, min(SHORTEST_KNOTS_S, interval))
    longest = max(GAP_PERIODS * axis.period, settings.data.longest_gap_s)
    chosen = Torques(signals.torque_time, signals.tau, signals.torque_source, signals.torque_delay_s)
    recorded = [chosen] if signals.other is None else [chosen, signals.other]
    parts, times = [], []
    for first, last in _pieces(signals, chosen, longest):
        places = np.arange(math.ceil((first - begin) / grid - 1e-9), math.floor((last - begin) / grid + 1e-9) + 1)
        if len(places) < HOPS * steps:
            continue
        fine = np.asarray(begin + grid * places, dtype=np.float64)
        nodes = np.flatnonzero(places % steps == 0)
        nodes = nodes[(nodes >= 2 * steps - 1) & (nodes <= len(places) - 2 * steps)]
        nodes = nodes[(fine[nodes] >= begin - 1e-9) & (fine[nodes] <= end + 1e-9)]
        inside = (signals.time >= first) & (signals.time <= last)
        if not len(nodes) or inside.sum() < FEWEST_ROWS:
            continue
        q, dq, ddq = curves_through(signals.time[inside], signals.q[inside], knots).states(fine)
        tau = [_torques(one, fine, knots, longest) for one in recorded]
        parts.append(
            FineStates(
                q,
                dq,
                ddq,
                np.zeros((0, 6)),
                nodes,
                tau[0],
                np.zeros((len(fine), 1, q.shape[1])),
                raw=tau[0],
                other_raw=tau[1] if len(tau) > 1 else None,
                later_s=0.5 * float(fine[nodes[0]] + fine[nodes[-1]] - begin - end),
                kernel=cubic_spline(steps),
            )
        )
        times.append(fine[nodes])
    count = sum(len(one) for one in times)
    fewest = math.ceil(FEWEST_SHARE * settings.data.minimum_samples)
    if count < fewest:
        raise DataError(
            f"{count} usable averages every {interval:.3g} s from {begin:.3f} s to {end:.3f} s; at least "
            f"{fewest} are needed: record longer, faster, or without gaps"
        )
    time = np.concatenate(times)
    q, dq, ddq, tau_seen = (
        np.concatenate([one.low_pass(getattr(one, key)) for one in parts]) for key in ("q", "dq", "ddq", "tau")
    )
    other = None
    if signals.other is not None:
        other = np.concatenate([one.low_pass(one.other_raw) for one in parts if one.other_raw is not None])
    reach = (max(begin, signals.time[0] + edge), min(end, signals.time[-1] - edge))
    expected = max(count, math.floor((reach[1] - reach[0]) / interval))
    record = SampleSettings(
        rows="averaged",
        interval_s=interval,
        grid_s=grid,
        filter_order=0,
        cutoff_hz=CUTOFF_OF_SUPPORT / (HOPS * interval),
        torque_source=signals.torque_source,
        torque_delay_s=signals.torque_delay_s,
        window_s=(float(begin), float(end)),
        trimmed_s=(float(max(0.0, reach[0] - begin)), float(max(0.0, end - reach[1]))),
        missed_cycles=axis.missed,
        dropped_samples=expected - count,
        samples=count,
    )
    quality = data_quality(signals, axis, settings.data, 1.0 - count / expected, (time, dq), averaged=True)
    return Samples(
        signals.joint_names,
        time,
        q,
        dq,
        ddq,
        tau_seen,
        record,
        (quality,),
        tuple(parts),
        other,
        torque_limits=signals.torque_limits,
        prior=signals.prior,
    )


def _pieces(signals: Signals, torques: Torques, longest: float) -> list[tuple[float, float]]:
    """Return start and end [s] of each interval of a recording without gaps in positions or torques.

    Args:
        signals: signals of the recording.
        torques: torques with their timestamps.
        longest: longest time between rows that does not count as a gap [s].
    """
    bounds, gaps = [], []
    for time in (signals.time, torques.time + torques.delay_s):
        at = np.flatnonzero(np.diff(time) > longest)
        bounds.append((float(time[0]), float(time[-1])))
        gaps += list(zip(time[at].tolist(), time[at + 1].tolist(), strict=True))
    first, last = max(one for one, _ in bounds), min(one for _, one in bounds)
    edges = [first]
    for begin, end in sorted(gaps):
        edges += [max(first, begin), max(edges[-1], end)]
    edges.append(last)
    return [(a, b) for a, b in list(pairwise(edges))[::2] if b > a]


def _torques(torques: Torques, fine: FloatArray, knots: float, longest: float) -> FloatArray:
    """Return torques (M, n) [N m] at given instants, from splines; NaN outside the recorded time.

    Args:
        torques: recorded torques.
        fine: the given instants, (M,) [s].
        knots: time between knots of the spline [s].
        longest: torques recorded up to this time before the first or after the last instant are also used [s].
    """
    time = torques.time + torques.delay_s
    near = slice(*np.searchsorted(time, [fine[0] - longest, fine[-1] + longest]))
    stamps, kept = np.unique(time[near], return_index=True)
    if len(stamps) < FEWEST_ROWS:
        return np.full((len(fine), torques.tau.shape[1]), np.nan)
    spline = curves_through(stamps, torques.tau[near][kept], knots)
    covered = (fine >= stamps[0] - 1e-9) & (fine <= stamps[-1] + 1e-9)
    return np.where(covered[:, None], spline.states(fine)[0], np.nan)
