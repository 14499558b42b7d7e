"""Samples with torques shifted in time, to find an unknown delay between positions and torques."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynid.identification.data.fine_states import FineStates, grid_step_s
from dynid.identification.data.preprocessing import Samples
from dynid.robot import FloatArray


def with_shifted_torques(samples: Samples, delays_s: FloatArray) -> Samples:
    """Return a copy of samples in which each torque is the one recorded `delays_s` after the sample.

    Each recording is shifted separately; its first or last torque is repeated where no torque was recorded. In the
    copy, the torques from the other recorded current (`other_tau`) are None.

    Args:
        samples: N samples of n axes.
        delays_s: delay of each axis, (n,) [s]; a negative delay means earlier torques.
    """
    fine = tuple(_later(one, delays_s, grid_step_s(samples.settings.interval_s, one)) for one in samples.fine)
    if fine:
        tau = np.concatenate([one.low_pass(one.tau) for one in fine])
    else:
        tau = interpolate_later(samples.time, samples.tau, delays_s)
    return replace(samples, tau=tau, fine=fine, other_tau=None)


def interpolate_later(time: FloatArray, values: FloatArray, delays_s: FloatArray | float) -> FloatArray:
    """Return values (N, n), any unit, interpolated at time + delay, separately for each recording.

    Args:
        time: timestamps (N,) [s] of several recordings in sequence; a decrease marks the start of the next recording.
        values: values (N, n), any unit.
        delays_s: delay of each column, (n,) [s], or one delay for all columns.
    """
    starts = np.flatnonzero(np.diff(time) <= 0.0) + 1
    parts = zip(np.split(time, starts), np.split(values, starts), strict=True)
    return np.concatenate([_read(own, stamps, delays_s) for stamps, own in parts])


def _later(states: FineStates, delays_s: FloatArray, step: float) -> FineStates:
    time = step * np.arange(len(states.q))
    tau, raw, ripple = (
        _read(own, time, delays_s) if len(own) else own for own in (states.tau, states.raw, states.ripple)
    )
    return replace(states, tau=tau, raw=raw, ripple=ripple, other_raw=None)


def _read(values: FloatArray, time: NDArray[np.floating[Any]], delays_s: FloatArray | float) -> FloatArray:
    """Return values (M, ..., n), any unit, interpolated at time + delay.

    Args:
        values: values at the given times, (M, ..., n), any unit.
        time: times, (M,) [s].
        delays_s: delay of each of the n columns, (n,) [s], or one delay for all columns.
    """
    columns = values.reshape(len(values), -1)
    delays = np.broadcast_to(delays_s, values.shape[1:]).ravel()
    read = [np.interp(time + delay, time, own) for own, delay in zip(columns.T, delays, strict=True)]
    return np.stack(read, axis=1).reshape(values.shape)
