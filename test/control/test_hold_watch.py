"""Detection of an arm that repeatedly leaves the reference at which it should be held."""

from dynid.control.hold_watch import BRAKED_S, RESET_S, HoldWatch


def losses(times_s: list[float], by_model: bool) -> list[bool]:
    """Return whether the hold is given up at each loss of the reference."""
    watch = HoldWatch()
    return [bool(watch.lost(round(1e9 * one), by_model)) for one in times_s]


def test_losses_while_an_arm_is_braked_without_a_model_do_not_end_its_hold() -> None:
    assert losses([5.0, 5.3, 5.0 + BRAKED_S], by_model=False) == [False, False, False]
    assert losses([5.0, 5.3, 5.1 + BRAKED_S], by_model=False) == [False, False, True]


def test_the_second_loss_of_a_hold_by_a_models_torques_ends_it() -> None:
    assert losses([5.0, 5.1], by_model=True) == [False, True]


def test_a_loss_counts_as_the_first_after_a_while_and_after_a_new_request() -> None:
    assert losses([5.0, 5.1 + RESET_S], by_model=True) == [False, False]
    watch = HoldWatch()
    assert not watch.lost(0, by_model=True)
    watch.clear()
    assert not watch.lost(1, by_model=True)
