"""Completeness of a bag, judged by the driver's counters in it."""

from pathlib import Path

import numpy as np
import pytest

from dynid.errors import DataError, InputNotFoundError
from dynid.recording.bag_writer import BagWriter, Topic
from dynid.recording.completeness import completeness
from dynid.recording.messages import (
    DIAGNOSTIC_ARRAY,
    JOINT_STATE,
    DiagnosticStatus,
    JointStateEncoder,
    encode_diagnostics,
)

START = 1_700_000_000_000_000_000
MS = 1_000_000
TOPICS = (Topic("/joint_states", JOINT_STATE), Topic("/diagnostics", DIAGNOSTIC_ARRAY))


def report(published: int, stamp_ns: int, missed: int, name: str = "hardware") -> bytes:
    values = {"states_published": str(published), "last_state_stamp_ns": str(stamp_ns), "missed": str(missed)}
    return encode_diagnostics(stamp_ns, [DiagnosticStatus(name, 0, "enabled", "arm", values)])


def write(
    folder: Path,
    missed: tuple[int, ...] = (),
    lost: tuple[int, ...] = (),
    reports: tuple[int, ...] = (100, 1100, 2900),
    extra: tuple[tuple[int, bytes], ...] = (),
) -> Path:
    """Three seconds at 1 kHz.

    Args:
        folder: of the bag.
        missed: cycles in which the driver had no complete sample, and says so.
        lost: cycles whose state was published but is not in the bag.
        reports: cycles after which the driver reports.
        extra: further diagnostics with the cycle after which they come.
    """
    cycles = np.arange(3000)
    published = cycles[~np.isin(cycles, missed)]
    stamps = START + MS * cycles
    recorded = published[~np.isin(published, lost)]
    states = JointStateEncoder(("a", "b")).encode_many(
        stamps[recorded], **dict.fromkeys(("position", "velocity", "effort"), np.zeros((len(recorded), 2)))
    )
    messages = [(int(stamps[k]), "/joint_states", row.tobytes()) for k, row in zip(recorded, states, strict=True)]
    for cycle in reports:
        until = published[published <= cycle]
        last = int(stamps[until[-1]])
        count = 1000 + len(until)  # the driver ran before the bag began
        messages.append((int(stamps[cycle]), "/diagnostics", report(count, last, 7 + cycle + 1 - len(until))))
    messages += [(int(stamps[cycle]), "/diagnostics", raw) for cycle, raw in extra]
    writer = BagWriter(folder, TOPICS)
    writer.open()
    for stamp, topic, raw in sorted(messages, key=lambda message: message[0]):
        writer.write(topic, stamp, raw)
    writer.close()
    return folder


def test_a_complete_bag_has_lost_nothing(tmp_path: Path) -> None:
    found = completeness(write(tmp_path / "bag"))
    assert (found.recorded, found.published, found.missed, found.lost) == (2800, 2800, 0, 0)
    assert found.missed_fraction == 0.0


def test_missed_cycles_are_counted_and_nothing_is_lost(tmp_path: Path) -> None:
    found = completeness(write(tmp_path / "bag", missed=(500, 501, 1900)))
    assert (found.published, found.missed, found.lost) == (2797, 3, 0)
    assert found.missed_fraction == pytest.approx(3 / 2800)


def test_uncounted_missing_states_are_lost(tmp_path: Path) -> None:
    found = completeness(write(tmp_path / "bag", missed=(500,), lost=(1000, 1001, 2800)))
    assert (found.published, found.recorded, found.lost, found.missed) == (2799, 2796, 3, 1)
    assert found.missed_fraction == pytest.approx(4 / 2800)


def test_only_states_between_the_reports_count(tmp_path: Path) -> None:
    """Before the first and after the last report nobody says what was published."""
    found = completeness(write(tmp_path / "bag", missed=(50, 2950), lost=(40, 2960)))
    assert (found.published, found.missed, found.lost) == (2800, 0, 0)


@pytest.mark.parametrize(
    ("lost", "recorded", "absent"),
    [(range(103), 1800, 0), (range(2898, 3000), 1000, 0), (range(300), 2601, 199), (range(2700, 3000), 2599, 201)],
    ids=["first report early", "last report late", "late states", "states end early"],
)
def test_a_report_that_does_not_keep_step_with_the_states_is_left_out(
    tmp_path: Path, lost: range, recorded: int, absent: int
) -> None:
    """One that is out of step by little; more is a loss."""
    found = completeness(write(tmp_path / "bag", lost=tuple(lost)))
    assert (found.recorded, found.lost) == (recorded, absent)


def test_a_missed_cycle_at_a_report_is_not_lost(tmp_path: Path) -> None:
    found = completeness(write(tmp_path / "bag", missed=(100, 1100, 2900)))
    assert found.lost == 0 and found.missed == 2


def test_reports_of_others_and_of_an_idle_driver_are_left_alone(tmp_path: Path) -> None:
    idle = encode_diagnostics(START, [DiagnosticStatus("hardware", 1, "not active", "", {})])
    extra = ((20, idle), (1500, report(5, START, 0, name="another")))
    assert completeness(write(tmp_path / "bag", extra=extra)).lost == 0


def test_a_driver_that_has_not_published_yet_is_no_report(tmp_path: Path) -> None:
    """Its stamp is zero; states that were recorded before its next report must not be taken for lost or surplus."""
    extra = ((20, report(0, 0, 0)),)
    found = completeness(write(tmp_path / "bag", extra=extra))
    assert (found.published, found.lost) == (2800, 0)


@pytest.mark.parametrize(("published", "missed"), [(10, 0), (5000, 0)])
def test_a_driver_that_was_started_anew_is_refused(tmp_path: Path, published: int, missed: int) -> None:
    extra = ((2950, report(published, START + 2950 * MS, missed)),)
    with pytest.raises(DataError, match="restarted"):
        completeness(write(tmp_path / "bag", extra=extra))


@pytest.mark.parametrize("reports", [(), (1100,)])
def test_fewer_than_two_reports_are_refused(tmp_path: Path, reports: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match=f"holds {len(reports)} reports"):
        completeness(write(tmp_path / "bag", reports=reports))


@pytest.mark.parametrize("key", ["states_published", "last_state_stamp_ns", "missed"])
def test_a_report_that_is_damaged_is_refused(tmp_path: Path, key: str) -> None:
    values = {"states_published": "5", "last_state_stamp_ns": str(START), "missed": "0"}
    for damaged in ({**values, key: "many"}, {name: text for name, text in values.items() if name != key}):
        if "states_published" not in damaged:
            continue  # no report of the counters at all
        raw = encode_diagnostics(START, [DiagnosticStatus("hardware", 0, "enabled", "", damaged)])
        folder = tmp_path / f"bag{len(damaged)}"
        with pytest.raises(DataError, match=key):
            completeness(write(folder, extra=((1500, raw),)))


def test_a_bag_without_states_or_without_diagnostics_is_refused(tmp_path: Path) -> None:
    for topic in TOPICS:
        folder = tmp_path / topic.name.strip("/")
        writer = BagWriter(folder, [topic])
        writer.open()
        writer.close()
        with pytest.raises(DataError, match=r"diagnostics|joint_states"):
            completeness(folder)
    with pytest.raises(InputNotFoundError):
        completeness(tmp_path / "nowhere")
