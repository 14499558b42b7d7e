"""From recorded signals to samples for the regression: time axis, zero-phase filter, derivatives, resampling.

The steps, in order:

1. Time axis. Stamps jitter about the cycle; signals are interpolated from their stamps onto an exact grid whose step
   divides the target interval and is at most about the recorded cycle: by straight lines where the recording is fast,
   else by a spline (`resampling`). Cycles that are missing are counted, and samples near a gap longer than the limit
   are dropped rather than invented.
2. Filter. Butterworth low-pass, run forwards and backwards (no phase), below the Nyquist frequency of the target
   interval. Both sides of tau = W phi (paper eq. 4) lose the same band: with `state_cutoff_ratio`, W is computed from
   states of more bandwidth and passes the low-pass itself, see `fine_states`; without, as in the paper, positions pass
   the torques' filter before W is computed from them, which is the same only as far as W is linear.
3. Derivatives. Velocity and acceleration are five-point central differences of the filtered position on the fine
   grid. The encoder's step (1.5 mrad for 12 bits) is far above the measured velocity's own resolution only after the
   low-pass has averaged many cycles, so differences come after the filter. Their own error, (w T)^4 / 30, is below
   2e-4 up to the cut-off of the states: the grid is made finer than the recording where it has to be. Unlike a velocity
   register they have no unknown delay.
4. Resampling. Only the samples on the target grid are kept. Samples between them would be almost copies.
5. Edges. Filter start-up reaches a few periods of the cut-off into the data. Where the recording goes on outside the
   window of interest nothing is lost; else that much is trimmed.

Delay: the present current is measured by the servo with the position of the same frame, so no shift is applied to it.
A goal current acts only after it has crossed the bus and then holds for a cycle; `goal_delay_s` shifts it.
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
from dynid.identification.data.zero_phase import butterworth_sections, filtered_both_ways
from dynid.identification.settings import FilterSettings, IdentificationSettings
from dynid.robot import FloatArray

MOST_OF_NYQUIST = 0.9


class LowPass:
    """The zero-phase anti-alias filter for one target interval, on one fine grid.

    Simulated torques that are compared with filtered measured ones must pass `apply` too.
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
        """The filtered signal, (N, n) as given, on the fine grid."""
        return filtered_both_ways(self.sections, signal)


def central_differences(q: FloatArray, step: float) -> tuple[FloatArray, FloatArray]:
    """First and second derivative of q (N, n) by five-point central differences; one-sided at the two ends."""
    dq, ddq = np.gradient(q, step, axis=0), np.empty_like(q)
    dq[2:-2] = (8.0 * (q[3:-1] - q[1:-3]) - (q[4:] - q[:-4])) / (12.0 * step)
    ddq[2:-2] = (16.0 * (q[3:-1] + q[1:-3]) - (q[4:] + q[:-4]) - 30.0 * q[2:-2]) / (12.0 * step**2)
    ddq[:2], ddq[-2:] = ddq[2], ddq[-3]
    return dq, ddq


def filtered_samples(signals: Signals, settings: IdentificationSettings, interval: float, axis: TimeAxis) -> Samples:
    """Samples of a recording, or a block of one; errors as in `preprocess`."""
    if not min(len(signals.time), len(signals.torque_time)):
        raise DataError(f"no data near the block {signals.window} [s]: it lies within a gap; record without gaps")
    steps, ratio = filter_grid(settings.filter, interval, axis.period)
    grid = interval / steps
    skip = 1 if ratio is None else decimation(steps, grid, settings.filter.cutoff_hz(interval))
    low_pass = LowPass(settings.filter, interval, grid * skip, axis.period)
    # the filter in front of the decimation; without a ratio it is the only one
    first_pass = LowPass(settings.filter, interval, grid, axis.period, ratio or 1.0)
    begin, end = signals.window or (signals.time[0], signals.time[-1])
    margin = settling_s(settings.filter, interval, ratio)
    covered = _covered(signals)
    # a few settling times beyond the window feed the filter; more would only cost time
    first = skip * int(np.ceil((max(covered[0], begin - 3 * margin) - begin) / (grid * skip) - 1e-9))
    last = int(np.floor((min(covered[1], end + 3 * margin) - begin) / grid + 1e-9))
    fine = np.asarray(begin + grid * np.arange(first, last + 1), dtype=np.float64)
    if len(fine) < 6 * settings.filter.order + 6 * steps:  # the filter's own padding needs some data
        raise DataError(
            f"only {max(len(fine), 0) * grid:.3g} s of data from {begin:.3f} s to {end:.3f} s; that is too short for a "
            f"target interval of {interval:.3g} s"
        )
    q = first_pass.apply(band_interpolated(fine, signals.time, signals.q, first_pass.cutoff_hz))
    torques, ripple, means = _torques(signals, fine, first_pass, skip)
    q, dq, ddq = (x[::skip] for x in (q, *central_differences(q, grid)))
    time, places = fine[::skip], np.arange(first, last + 1, skip)
    usable = (max(begin, time[0] + margin), min(end, time[-1] - margin))
    # target-grid samples only: the grid starts with the window, so equal windows give equal instants
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
    """Filtered torques of the chosen and the other current, ripple (M, R, n), and unfiltered means; (M, n) [N m]."""
    chosen = Torques(signals.torque_time, signals.tau, signals.torque_source, signals.torque_delay_s)
    recorded = [one for one in (chosen, signals.other) if one is not None]
    raw = [_on_grid(one, fine, low_pass.cutoff_hz) for one in recorded]
    written = next((one for one in recorded if one.source == "goal"), None)
    means = [decimated(one, skip) for one in raw]
    return [low_pass.apply(one)[::skip] for one in raw], _ripple(fine, raw[0], written, low_pass, skip), means


def _on_grid(torques: Torques, fine: FloatArray, cutoff_hz: float) -> FloatArray:
    """Torques at the instants `fine` (K,) [s], exact up to a cut-off, (K, n) [N m]."""
    time, tau = held_over_gaps(torques.time, torques.tau, torques.source)
    return band_interpolated(fine, time + torques.delay_s, tau, cutoff_hz)


def _where_covered(tau: FloatArray, time: FloatArray, torques: Torques, margin: float) -> FloatArray:
    """Samples tau (N, n) at time (N,), NaN where the record of these torques does not reach [s]."""
    begin, end = torques.time[0] + torques.delay_s + margin, torques.time[-1] + torques.delay_s - margin
    return np.where(((time >= begin) & (time <= end))[:, None], tau, np.nan)


def _ripple(fine: FloatArray, raw: FloatArray, written: Torques | None, low_pass: LowPass, skip: int) -> FloatArray:
    """What a low-pass takes off the torques, at the instants about every node that is kept, (M, R, n) [N m].

    A measured current has been averaged, so the written one is more accurate, if it was recorded.
    """
    if written is not None:
        place = np.searchsorted(written.time + written.delay_s, fine, side="right") - 1
        raw = written.tau[np.clip(place, 0, len(written.tau) - 1)]
    fast = raw - low_pass.apply(raw)
    return np.asarray(fast[around(len(fine), skip)])


def filter_grid(settings: FilterSettings, interval: float, period: float) -> tuple[int, float | None]:
    """Steps of the fine grid per target interval, and the cut-off of the states over that of the torques.

    The grid is as fine as the recording, since a coarser one would fold what lies above its own band into it before the
    filter acts, and fine enough for the differences up to the cut-off of the states.
    """
    recorded = max(1, round(interval / period))
    ratio = _state_cutoff_ratio(settings, interval, max(interval / recorded, period))
    finest = finest_step_s((ratio or 1.0) * settings.cutoff_hz(interval))
    return max(recorded, math.ceil(interval / finest - 1e-9)), ratio


def settling_s(settings: FilterSettings, interval: float, ratio: float | None) -> float:
    """Return how far filters reach [s]: the low-pass, and that of the states with `ratio` times its cut-off."""
    one = settings.settling_periods / settings.cutoff_hz(interval)
    return one if ratio is None else one + one / ratio


def _state_cutoff_ratio(settings: FilterSettings, interval: float, period: float) -> float | None:
    """The settings' ratio, or what slowly recorded data allow of it."""
    if settings.state_cutoff_ratio is None:
        return None
    allowed = MOST_OF_NYQUIST * 0.5 / (period * settings.cutoff_hz(interval))
    return min(settings.state_cutoff_ratio, max(allowed, 1.0))


def _covered(signals: Signals) -> tuple[float, float]:
    """The time that positions and torques both cover [s]."""
    delayed = signals.torque_time + signals.torque_delay_s
    return max(signals.time[0], delayed[0]), min(signals.time[-1], delayed[-1])


def _clear_of_gaps(
    time: FloatArray, axis: TimeAxis, settings: IdentificationSettings, margin: float
) -> NDArray[np.bool_]:
    """Which of the instants (N,) lie further from every long gap than the filter reaches."""
    clear = np.ones(len(time), dtype=bool)
    for begin, end in axis.gaps:
        if end - begin > settings.data.longest_gap_s:
            clear &= (time < begin - 0.5 * margin) | (time > end + 0.5 * margin)
    return clear
