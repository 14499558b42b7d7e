"""Count of missing states since a motion began."""

from dynid.control.missing_states import MissingStates

MS = 1_000_000
EPOCH_NS = 1_700_000_000 * 10**9


def counted(stamps_ms: list[int]) -> MissingStates:
    missing = MissingStates()
    missing.note(EPOCH_NS)  # before the motion
    missing.begin(incomplete=7)
    for stamp in stamps_ms:
        missing.note(EPOCH_NS + stamp * MS)
    return missing


def test_missing_cycles_are_attributed_to_the_machine() -> None:
    every_second = counted(list(range(10_000, 12_001, 2)))
    assert every_second.complaint(0.001, 7) == (
        "of 2000 cycles at 1000 Hz since the motion began, 1000 were missing: this machine is too busy or too slow; "
    )
    assert not every_second.complaint(0.002, 7)


def test_lost_replies_are_attributed_to_the_servos() -> None:
    assert "servos do not reply in time" in counted(list(range(10_000, 12_001, 2))).complaint(0.001, 907)


def test_a_motion_with_all_its_states_is_not_excused() -> None:
    assert not counted(list(range(10_000, 12_001))).complaint(0.001, 7)
    assert not counted([10_000]).complaint(0.001, 7) and not counted([]).complaint(0.001, 7)
