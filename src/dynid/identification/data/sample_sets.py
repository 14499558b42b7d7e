"""Joining of the samples of several recordings, and splitting of samples into a fitted and a held-out part."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynid.errors import DataError
from dynid.identification.data.fine_states import chosen
from dynid.identification.data.samples import Samples, SampleSettings
from dynid.identification.data.weak_form import HOPS
from dynid.identification.settings import FilterSettings

ARRAYS = ("time", "q", "dq", "ddq", "tau")


def join(parts: Sequence[Samples]) -> Samples:
    """Join the samples of several recordings to one set, in sequence.

    The settings are those of the first recording. Times are not changed, so they restart with each recording.
    """
    others = [one.other_tau for one in parts if one.other_tau is not None]
    arrays: dict[str, Any] = {name: np.concatenate([getattr(one, name) for one in parts]) for name in ARRAYS}
    return replace(
        parts[0],
        **arrays,
        quality=tuple(one for part in parts for one in part.quality),
        fine=tuple(states for one in parts for states in one.fine),
        other_tau=np.concatenate(others) if len(others) == len(parts) else None,
    )


def part(samples: Samples, which: NDArray[np.bool_]) -> Samples:
    """Return the samples that a mask selects.

    Args:
        samples: N samples.
        which: mask of the selected samples, (N,).
    """
    kept = {name: getattr(samples, name)[which] for name in ARRAYS}
    other = None if samples.other_tau is None else samples.other_tau[which]
    return replace(samples, **kept, fine=chosen(samples.fine, which), other_tau=other)


def counted_from(piece: Samples, origin_s: float) -> Samples:
    """Return a copy of samples whose friction drift is zero at the instant `origin_s` [s] of the recording's time axis.

    Friction drift is a relative change of friction in proportion to the time since an origin. Without this function,
    the origin is the middle of the recording.
    """
    later = 0.5 * float(piece.time[0] + piece.time[-1]) - origin_s
    return replace(piece, fine=tuple(replace(one, later_s=later) for one in piece.fine))


def hold_out(samples: Samples, share: float, settings: FilterSettings) -> tuple[Samples, Samples]:
    """Return the first part of one recording's samples for the fit, and the last part for validation.

    Samples near the boundary belong to neither part, because the low-pass computes them from data on both sides.

    Args:
        samples: samples of one recording.
        share: fraction of the recording's time that is held out, between 0 and 1.
        settings: settings of the filter.

    Raises:
        DataError: share is not between 0 and 1, or too few samples remain on one side.
    """
    if not 0.0 < share < 1.0:
        raise DataError(f"the held-out share is {share:g}, expected a number between 0 and 1, such as 0.3")
    begin, end = samples.settings.window_s
    cut = end - share * (end - begin)
    reach = mixing_reach_s(samples.settings, settings)
    fitted = part(samples, samples.time < cut - reach)
    held = part(samples, samples.time >= cut + reach)
    if min(len(fitted), len(held)) < 10:
        raise DataError(f"holding out {share:g} of {end - begin:.3g} s leaves {len(fitted)} and {len(held)} samples")
    return fitted, held


def mixing_reach_s(how: SampleSettings, settings: FilterSettings) -> float:
    """Return the time before and after a sample in which raw data affect this sample [s].

    Args:
        how: settings of the samples' preprocessing.
        settings: settings of the filter.
    """
    if how.rows == "averaged":
        return (0.5 * HOPS + 1.0) * how.interval_s  # half the support, plus the reach of the splines
    periods = 1.0 / how.cutoff_hz + (0.0 if how.state_cutoff_hz is None else 1.0 / how.state_cutoff_hz)
    return 0.5 * settings.settling_periods * periods
