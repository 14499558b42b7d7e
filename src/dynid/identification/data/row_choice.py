"""Choice between filtered and averaged rows for a recording, by its sampling rate and the spacing of its timestamps.

A row is the torque equation of one joint at one sample. Filtered rows come from low-passed signals and their
differences, averaged rows from averages under test functions.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from dynid.identification.data.filtered_rows import NYQUIST_SHARE, filter_grid, settling_s
from dynid.identification.data.signals import Span, TimeAxis
from dynid.identification.data.weak_form import CUTOFF_OF_SUPPORT, HOPS
from dynid.identification.settings import IdentificationSettings

ROWS_OF_SUPPORT = 4.0  # smallest number of recorded rows under a test function

SLOWEST_S = 0.5  # longest row period for averaged rows [s]: a slower log misses an arm's motion


class RowChoice(NamedTuple):
    """Choice between filtered and averaged signals for the torque equations ("rows") of a regression.

    Attributes:
        kind: "filtered" for low-passed signals, "averaged" for averages under test functions.
        interval_s: sampling interval [s].
        reason: reason for averages, in words; "" if signals are filtered.
    """

    kind: Literal["filtered", "averaged"]
    interval_s: float
    reason: str = ""

    @property
    def sentence(self) -> str:
        """Sentence that describes whether the torque equations of the regression are filtered or averaged."""
        if self.kind == "filtered":
            return "Rows are filtered and decimated."
        support = 1e3 * HOPS * self.interval_s
        return (
            f"Rows are averages under test functions of {support:.0f} ms, every {1e3 * self.interval_s:.0f} ms: "
            f"{self.reason}."
        )

    def settings(self, settings: IdentificationSettings) -> IdentificationSettings:
        """Return the identification settings after applying this choice between filtered signals and averages.

        For averages, the result is a copy with the sampling interval of this choice. For filtered signals, the given
        settings are returned.
        """
        if self.kind == "filtered":
            return settings
        return settings.model_copy(update={"rows": self.kind, "sampling_interval_s": self.interval_s})


def row_choice(axis: TimeAxis, settings: IdentificationSettings, interval_s: float) -> RowChoice:
    """Choose between low-pass filtered signals and averages under test functions for one recording.

    Args:
        axis: time axis of the recording.
        settings: settings of the identification.
        interval_s: target sampling interval [s].
    """
    reason = "" if settings.rows == "filtered" else _refusal(axis, settings, interval_s)
    if settings.rows == "averaged":
        reason = "as was asked for"
    if not reason or axis.period > SLOWEST_S:  # filtering then raises an error about the timestamps' unit
        return RowChoice("filtered", interval_s)
    slowest = ROWS_OF_SUPPORT * axis.period, CUTOFF_OF_SUPPORT / settings.filter.cutoff_hz(interval_s)
    return RowChoice("averaged", max(interval_s, *(one / HOPS for one in slowest)), reason)


def common_choice(recordings: Sequence[Span], settings: IdentificationSettings) -> RowChoice:
    """Choose between low-pass filtered signals and averages under test functions for several recordings together.

    Averages are chosen if any recording needs them. The sampling interval is the longest one that a recording needs.
    """
    found = [row_choice(one.axis, settings, settings.sampling_interval_s) for one in recordings]
    averaged = [one for one in found if one.kind == "averaged"]
    return max(averaged or found, key=lambda one: one.interval_s)


def _refusal(axis: TimeAxis, settings: IdentificationSettings, interval_s: float) -> str:
    """Return the reason why a recording's signals cannot be low-pass filtered; "" if they can.

    Args:
        axis: time axis of the recording.
        settings: settings of the identification.
        interval_s: target sampling interval [s].
    """
    cutoff = settings.filter.cutoff_hz(interval_s)  # the states' higher cut-off is reduced with the rate
    if cutoff > NYQUIST_SHARE * 0.5 / axis.period:
        return f"{1.0 / axis.period:.3g} rows per second are too few for states up to {cutoff:.3g} Hz"
    if axis.uneven(settings.data.jitter_of_period):
        return f"steps between rows are uneven ({axis.irregular:.0%} are no cycle of {1e3 * axis.period:.3g} ms)"
    if (lost := _lost_to_gaps(axis, settings, interval_s)) > settings.data.dropped_samples_share:
        return f"a filter would lose {min(lost, 1.0):.0%} of the time to gaps"
    return ""


def _lost_to_gaps(axis: TimeAxis, settings: IdentificationSettings, interval_s: float) -> float:
    """Return the fraction of a recording's time that a filter would lose in and around long gaps.

    Args:
        axis: time axis of the recording.
        settings: settings of the identification.
        interval_s: target sampling interval [s].
    """
    gaps = [end - begin for begin, end in axis.gaps if end - begin > settings.data.longest_gap_s]
    _, ratio = filter_grid(settings.filter, interval_s, axis.period)
    margin = settling_s(settings.filter, interval_s, ratio)
    return sum(gap + margin for gap in gaps) / max(axis.cycles * axis.period, axis.period)
