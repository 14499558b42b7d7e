"""Restriction of recordings to a span of their time."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np

from dynid.errors import DataError
from dynid.identification.data.recordings import Recording
from dynid.identification.data.signals import Signals
from dynid.identification.settings import IdentificationSettings


class Span(NamedTuple):
    """Span of time on a recording's time axis.

    Attributes:
        begin_s: start of the span [s]; None means the start of the recording.
        end_s: end of the span [s]; None means the end of the recording.
    """

    begin_s: float | None = None
    end_s: float | None = None

    @property
    def whole(self) -> bool:
        """Whether the span has no limits, so that it covers whole recordings."""
        return self.begin_s is None and self.end_s is None

    @property
    def words(self) -> str:
        """Description of the span in words, such as " from 2 s until 10 s"; "" for whole recordings."""
        begin = "" if self.begin_s is None else f" from {self.begin_s:g} s"
        return begin + ("" if self.end_s is None else f" until {self.end_s:g} s")


def parts_of(sources: Sequence[Recording], span: Span) -> list[Recording]:
    """Return the recordings restricted to a span of time.

    Raises:
        DataError: a limit of the span is not finite, the span ends before it begins, or a recording in memory has no
            rows within the span. A recording that is not in memory raises this error when its signals are read.
    """
    if span.whole:
        return list(sources)
    if not np.isfinite([one for one in span if one is not None]).all():
        raise DataError(f"the part{span.words} has no finite bounds: give seconds on the recording's axis")
    if span.begin_s is not None and span.end_s is not None and span.begin_s >= span.end_s:
        raise DataError(f"the part{span.words} ends before it begins: give a later end or an earlier begin")
    return [_part(one, span) for one in sources]


def _part(source: Recording, span: Span) -> Recording:
    """Return one recording restricted to a span of time."""

    def signals(settings: IdentificationSettings) -> Signals:
        return _cut(source.signals(settings), span, str(source.path))

    note = f"only rows{span.words} are used"
    rows = None if source.rows is None else _cut(source.rows, span, str(source.path))
    content = f"{source.content} {span.begin_s!r} {span.end_s!r}"
    return replace(source, signals=signals, rows=rows, driver=None, notes=(*source.notes, note), content=content)


def _cut(signals: Signals, span: Span, name: str) -> Signals:
    """Return the part of signals within a span of time; `name` is the recording's name for error messages."""
    begin, end = signals.window or (float(signals.time[0]), float(signals.time[-1]))
    begin = begin if span.begin_s is None else max(begin, span.begin_s)
    end = end if span.end_s is None else min(end, span.end_s)
    until: Literal["left", "right"] = "right" if span.end_s is None else "left"  # the last row belongs to the recording
    first, last = np.searchsorted(signals.time, begin), np.searchsorted(signals.time, end, side=until)
    if last - first < 2:
        raise DataError(
            f"{name} has no rows{span.words}; its motion lasts from {signals.time[0]:.3g} s to {signals.time[-1]:.3g} s"
        )
    own = slice(int(first), int(last))
    at = signals.torque_time
    torques = slice(int(np.searchsorted(at, begin)), int(np.searchsorted(at, end, side=until)))
    other = signals.other
    if other is not None:
        kept = slice(int(np.searchsorted(other.time, begin)), int(np.searchsorted(other.time, end, side=until)))
        other = replace(other, time=other.time[kept], tau=other.tau[kept])
    return replace(
        signals,
        time=signals.time[own],
        q=signals.q[own],
        torque_time=signals.torque_time[torques],
        tau=signals.tau[torques],
        window=None if signals.window is None else (begin, end),
        dq=None if signals.dq is None else signals.dq[own],
        q_read=None if signals.q_read is None else signals.q_read[own],
        goal=None if signals.goal is None else signals.goal[own],
        other=other,
    )
