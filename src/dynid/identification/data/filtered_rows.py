"""Samples for the regression from recorded signals: time axis, zero-phase filter, derivatives, resampling.

The steps, in order:

1. Time axis. Signals are interpolated from their jittery timestamps onto an even time grid. Its step divides the
   target sampling interval and is at most about the recorded cycle. Interpolation is linear if the recording is fast,
   else by a spline (`resampling`). Missing cycles are counted. Samples near a long gap are dropped.
2. Filter. A Butterworth low-pass with a cut-off below the Nyquist frequency of the target interval is run forwards and
   backwards, without phase shift. It is applied to both sides of tau = W phi, with torques tau, regressor W and
   parameters phi (arXiv:2605.15949, eq. 4). With the setting `state_cutoff_ratio`, W is computed from states of higher
   bandwidth and then filtered, see `fine_states`. Without this setting, as in that paper, positions are filtered before
   W is computed from them. This is equivalent only if W is linear in the states.
3. Derivatives. Velocity and acceleration are five-point central differences of the filtered positions on the grid. The
   encoder's step (1.5 mrad for 12 bits) is too coarse for differences of unfiltered positions. The relative error of
   the differences at the angular frequency w on a grid with step T, (w T)^4 / 30, is below 2e-4 up to the cut-off
   frequency of the states. If necessary, the grid is finer than the recording. Velocities that a servo reports are not
   used here, as their delay is unknown.
4. Resampling. Only samples at the target interval are used, because samples between them contain hardly any additional
   information.
5. Edges. The start-up of the filter affects a few periods of the cut-off frequency. If the recording continues outside
   the window of interest, no samples are lost. Otherwise, samples in these periods are dropped.

Delay: the servo reports the present (measured) current and the position together, so this current is not shifted. A
goal (commanded) current acts only after its transmission over the bus, and then for one cycle. So it is shifted to
later times by the setting `goal_delay_s`.
"""

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dynid.errors import DataError
from dynid.identification.data.fine_states import FineStates, decimation
from dynid.identification.data.resampling import around, band_interpolated, decimated, finest_step_s
from dynid.identification.data.samples import Samples, SampleSettings
from dynid.identification.data.signals import Signals, TimeAxis, Torques, data_quality, held_over_gaps
from dynid.identification.data.slowest import slowest_velocities
from dynid.identification.data.zero_phase import butterworth_sections, filtered_both_ways
from dynid.identification.settings import FilterSettings, IdentificationSettings
from dynid.robot import FloatArray

NYQUIST_SHARE = 0.9


class LowPass:
    """Zero-phase anti-alias filter for a target sampling interval; it acts on signals on a finer time grid.

    Simulated torques must also be filtered by `apply` before they are compared with filtered measured torques.

    Args:
        settings: settings of the filter.
        interval_s: target sampling interval [s].
        grid_s: step of the finer time grid [s].
        recorded_s: time between recorded rows [s]; None means the step of the grid.
        ratio: factor, at least 1, by which the cut-off frequency of the settings is multiplied.

    Raises:
        DataError: the recording or the grid is too slow for the cut-off frequency.
    """

    def __init__(
        self,
        settings: FilterSettings,
        interval_s: float,
        grid_s: float,
        recorded_s: float | None = None,
        ratio: float = 1.0,
    ) -> None:
        self.cutoff_hz = ratio * settings.cutoff_hz(interval_s)
        slowest = max(grid_s, recorded_s or grid_s)
        if self.cutoff_hz >= 0.5 / slowest:
            raise DataError(
                f"data every {slowest:.4g} s cannot be filtered at {self.cutoff_hz:.4g} Hz for a target interval of "
                f"{interval_s:.4g} s; are the stamps seconds? Then choose a longer interval, record faster, or "
                "let rows be averaged (--rows averaged)"
            )
        self.settling_s = settings.settling_periods / self.cutoff_hz
        self.sections = butterworth_sections(settings.order, self.cutoff_hz, 1.0 / grid_s)

    def apply(self, signal: FloatArray) -> FloatArray:
        """Return a signal after zero-phase low-pass filtering, (N, n), any unit.

        Args:
            signal: signal on the time grid of the filter, (N, n), any unit.
        """
        return filtered_both_ways(self.sections, signal)


def central_differences(q: FloatArray, step: float) -> tuple[FloatArray, FloatArray]:
    """Return first and second time derivatives of q (N, n) by five-point differences, (N, n) each.

    In the first two and last two rows, the first derivative is less accurate, and the second derivative repeats the
    nearest inner value.

    Args:
        q: positions, (N, n), any unit.
        step: time between rows [s].
    """
    dq, ddq = np.gradient(q, step, axis=0), np.empty_like(q)
    dq[2:-2] = (8.0 * (q[3:-1] - q[1:-3]) - (q[4:] - q[:-4])) / (12.0 * step)
    ddq[2:-2] = (16.0 * (q[3:-1] + q[1:-3]) - (q[4:] + q[:-4]) - 30.0 * q[2:-2]) / (12.0 * step**2)
    ddq[:2], ddq[-2:] = ddq[2], ddq[-3]
    return dq, ddq


def filtered_samples(signals: Signals, settings: IdentificationSettings, interval: float, axis: TimeAxis) -> Samples:
    """Return samples of a recording that are computed from low-pass filtered signals.

    Args:
        signals: raw signals; if they have a window, only this part of the recording gives samples.
        settings: settings of the identification.
        interval: target sampling interval [s].
        axis: time axis of the whole recording.

    Raises:
        DataError: the window lies within a gap or is too short, there are too few samples, or the recording is too slow
            for the filter.
    """
    if not min(len(signals.time), len(signals.torque_time)):
        raise DataError(f"no data near the block {signals.window} [s]: it lies within a gap; record without gaps")
    steps, ratio = filter_grid(settings.filter, interval, axis.period)
    grid = interval / steps
    skip = 1 if ratio is None else decimation(steps, grid, settings.filter.cutoff_hz(interval))
    low_pass = LowPass(settings.filter, interval, grid * skip, axis.period)
    # filter of the states, before the decimation; without a ratio of cut-offs, it is the only filter
    first_pass = LowPass(settings.filter, interval, grid, axis.period, ratio or 1.0)
    begin, end = signals.window or (signals.time[0], signals.time[-1])
    margin = settling_s(settings.filter, interval, ratio)
    covered = _covered(signals)
    # the filter uses a few settling times of data beyond the window; more data would only take time
    first = skip * int(np.ceil((max(covered[0], begin - 3 * margin) - begin) / (grid * skip) - 1e-9))
    last = int(np.floor((min(covered[1], end + 3 * margin) - begin) / grid + 1e-9))
    fine = np.asarray(begin + grid * np.arange(first, last + 1), dtype=np.float64)
    if len(fine) < 6 * settings.filter.order + 6 * steps:  # the filter's padding needs this much data
        raise DataError(
            f"only {max(len(fine), 0) * grid:.3g} s of data from {begin:.3f} s to {end:.3f} s; that is too short for a "
            f"target interval of {interval:.3g} s"
        )
    q = first_pass.apply(band_interpolated(fine, signals.time, signals.q, first_pass.cutoff_hz))
    torques, ripple, means = _torques(signals, fine, first_pass, skip)
    q, dq, ddq = (x[::skip] for x in (q, *central_differences(q, grid)))
    time, places = fine[::skip], np.arange(first, last + 1, skip)
    usable = (max(begin, time[0] + margin), min(end, time[-1] - margin))
    # only samples of the target grid, which starts with the window, so that equal windows give equal instants
    target = np.flatnonzero(places % steps == 0)
    target = target[(time[target] >= usable[0] - 1e-9) & (time[target] <= usable[1] + 1e-9)]
    keep = _clear_of_gaps(time[target], axis, settings, margin)
    dropped = int((~keep).sum())
    target = target[keep]
    if len(target) < settings.data.minimum_samples:
        raise DataError(
            f"{len(target)} usable samples every {interval:.3g} s from {begin:.3f} s to {end:.3f} s; at least "
            f"{settings.data.minimum_samples} are needed: record longer or choose a shorter interval"
        )
    parts: tuple[FineStates, ...] = ()
    if ratio is not None:
        wide = LowPass(settings.filter, interval, grid * skip, axis.period, ratio).sections
        parts = (
            FineStates(
                q,
                dq,
                ddq,
                low_pass.sections,
                target,
                torques[0],
                ripple,
                wide,
                means[0],
                means[1] if len(means) > 1 else None,
                slowest=None if signals.dq is None else slowest_velocities(time, dq, signals.time, signals.dq),
            ),
        )
    q, dq, ddq, tau, *other = (parts[0].low_pass(x) if parts else x[target] for x in (q, dq, ddq, *torques))
    if signals.other is not None:
        other = [_where_covered(other[0], time[target], signals.other, margin)]
    record = SampleSettings(
        rows="filtered",
        interval_s=interval,
        grid_s=grid,
        filter_order=settings.filter.order,
        cutoff_hz=low_pass.cutoff_hz,
        state_cutoff_hz=None if ratio is None else first_pass.cutoff_hz,
        torque_source=signals.torque_source,
        torque_delay_s=signals.torque_delay_s,
        window_s=(float(begin), float(end)),
        trimmed_s=(float(usable[0] - begin), float(end - usable[1])),
        missed_cycles=axis.missed,
        dropped_samples=dropped,
        samples=len(target),
    )
    quality = data_quality(signals, axis, settings.data, dropped / (dropped + len(target)), (time[target], dq))
    states = Samples(signals.joint_names, time[target], q, dq, ddq, tau, record, (quality,), parts)
    more = other[0] if other else None
    return replace(states, other_tau=more, torque_limits=signals.torque_limits, prior=signals.prior)


def _torques(
    signals: Signals, fine: FloatArray, low_pass: LowPass, skip: int
) -> tuple[list[FloatArray], FloatArray, list[FloatArray]]:
    """Return low-passed torques, the part of the torques that the low-pass removes, and unfiltered mean torques.

    All three are given at the instants of a coarser time grid.

    Args:
        signals: raw signals.
        fine: instants of the fine grid, (K,) [s].
        low_pass: filter on the fine grid.
        skip: number of steps of the fine grid per step of the coarser grid.

    Returns:
        Three items. First, the filtered torques at the M instants of the coarser grid, (M, n) [N m]. Second, the part
        that the filter removes, at R fine instants around each coarse instant, (M, R, n) [N m]. Third, means of the
        unfiltered torques around each coarse instant, (M, n) [N m]. The first and the third item are lists, which
        contain the torques from the chosen current (present or goal), followed by those from the other current if it
        was recorded.
    """
    chosen = Torques(signals.torque_time, signals.tau, signals.torque_source, signals.torque_delay_s)
    recorded = [one for one in (chosen, signals.other) if one is not None]
    raw = [_on_grid(one, fine, low_pass.cutoff_hz) for one in recorded]
    written = next((one for one in recorded if one.source == "goal"), None)
    means = [decimated(one, skip) for one in raw]
    return [low_pass.apply(one)[::skip] for one in raw], _ripple(fine, raw[0], written, low_pass, skip), means


def _on_grid(torques: Torques, fine: FloatArray, cutoff_hz: float) -> FloatArray:
    """Return recorded torques interpolated to given instants, (K, n) [N m], accurate up to a cut-off frequency.

    Args:
        torques: recorded torques.
        fine: the given instants, (K,) [s].
        cutoff_hz: cut-off frequency [Hz].
    """
    time, tau = held_over_gaps(torques.time, torques.tau, torques.source)
    return band_interpolated(fine, time + torques.delay_s, tau, cutoff_hz)


def _where_covered(tau: FloatArray, time: FloatArray, torques: Torques, margin: float) -> FloatArray:
    """Return torques (N, n) [N m] with NaN instead of values that were extrapolated beyond the recording.

    Args:
        tau: torques interpolated or extrapolated from a recording, (N, n) [N m].
        time: times of these torques, (N,) [s].
        torques: the recording of these torques, whose first and last timestamp limit the valid time.
        margin: time after the first and before the last timestamp in which values also become NaN [s].
    """
    begin, end = torques.time[0] + torques.delay_s + margin, torques.time[-1] + torques.delay_s - margin
    return np.where(((time >= begin) & (time <= end))[:, None], tau, np.nan)


def _ripple(fine: FloatArray, raw: FloatArray, written: Torques | None, low_pass: LowPass, skip: int) -> FloatArray:
    """Return the high-frequency part of the torques, which the low-pass removes, (M, R, n) [N m].

    A coarse time grid consists of M instants, which are every `skip`-th instant of a fine grid. Values are returned for
    the R fine instants nearest to each coarse instant, with R the smallest odd number that is at least `skip`. At both
    ends of the fine grid, its first or last value is repeated. The torques come from the goal (commanded) current if
    it was recorded, because a measured current is an average over time and lacks fast changes.

    Args:
        fine: instants of the fine grid, (K,) [s].
        raw: unfiltered torques at the instants of the fine grid, (K, n) [N m].
        written: torques of the goal current; None if it was not recorded.
        low_pass: filter on the fine grid.
        skip: number of fine steps per coarse step.
    """
    if written is not None:
        place = np.searchsorted(written.time + written.delay_s, fine, side="right") - 1
        raw = written.tau[np.clip(place, 0, len(written.tau) - 1)]
    fast = raw - low_pass.apply(raw)
    return np.asarray(fast[around(len(fine), skip)])


def filter_grid(settings: FilterSettings, interval: float, period: float) -> tuple[int, float | None]:
    """Return the number of fine-grid steps per sampling interval, and the ratio of two filters' cut-off frequencies.

    The ratio is the cut-off frequency of the states' filter divided by that of the torques' filter. It is None if
    states and torques pass the same filter. The grid is at least as fine as the recording, because a coarser grid would
    cause aliasing before the filter acts. The grid is also fine enough for accurate differences up to the cut-off
    frequency of the states.

    Args:
        settings: settings of the filter.
        interval: target sampling interval [s].
        period: time between recorded rows [s].
    """
    recorded = max(1, round(interval / period))
    ratio = _state_cutoff_ratio(settings, interval, max(interval / recorded, period))
    finest = finest_step_s((ratio or 1.0) * settings.cutoff_hz(interval))
    return max(recorded, math.ceil(interval / finest - 1e-9)), ratio


def settling_s(settings: FilterSettings, interval: float, ratio: float | None) -> float:
    """Return the settling time of all filters that the torques pass [s].

    This is the settling time of the torques' low-pass. If the states have a filter of their own, its settling time is
    added, because the torques pass this filter, too.

    Args:
        settings: settings of the filter.
        interval: target sampling interval [s].
        ratio: cut-off frequency of the states' filter divided by that of the torques' low-pass; None if states and
            torques pass the same filter.
    """
    one = settings.settling_periods / settings.cutoff_hz(interval)
    return one if ratio is None else one + one / ratio


def _state_cutoff_ratio(settings: FilterSettings, interval: float, period: float) -> float | None:
    """Return the cut-off frequency of the states' filter divided by that of the torques' filter, or None.

    The ratio is that of the settings, but smaller if recorded rows are too far apart for it. It is None if the settings
    contain no ratio.

    Args:
        settings: settings of the filter.
        interval: target sampling interval [s].
        period: time between recorded rows [s].
    """
    if settings.state_cutoff_ratio is None:
        return None
    allowed = NYQUIST_SHARE * 0.5 / (period * settings.cutoff_hz(interval))
    return min(settings.state_cutoff_ratio, max(allowed, 1.0))


def _covered(signals: Signals) -> tuple[float, float]:
    """Return start and end [s] of the time for which both positions and torques were recorded."""
    delayed = signals.torque_time + signals.torque_delay_s
    return max(signals.time[0], delayed[0]), min(signals.time[-1], delayed[-1])


def _clear_of_gaps(
    time: FloatArray, axis: TimeAxis, settings: IdentificationSettings, margin: float
) -> NDArray[np.bool_]:
    """Return a mask (N,) of the instants whose filtered values are not affected by a long gap.

    Args:
        time: instants, (N,) [s].
        axis: time axis with the gaps.
        settings: settings, which define the length of a long gap.
        margin: settling time of the filter [s]; affected instants are at most half a settling time away from a long
            gap.
    """
    clear = np.ones(len(time), dtype=bool)
    for begin, end in axis.gaps:
        if end - begin > settings.data.longest_gap_s:
            clear &= (time < begin - 0.5 * margin) | (time > end + 0.5 * margin)
    return clear
