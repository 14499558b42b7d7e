"""Times from stamps of which none is later than the one before."""

import numpy as np
import pytest

from dynid.errors import DataError
from dynid.recording.message_times import increasing_times


@pytest.mark.filterwarnings("error")
def test_stamps_that_only_go_back_are_refused_in_one_sentence() -> None:
    stamps = np.arange(10, dtype=np.int64)[::-1] * 600_000_000
    with pytest.raises(DataError, match=r"the stamps of 10 messages only go back, by 0\.6 s at most, expected"):
        increasing_times(stamps, [])
    notes: list[str] = []
    time, later = increasing_times(np.r_[stamps, stamps[-1] + 1], notes)
    assert later.all() and time[0] == 0.0 and notes[0].startswith("the stamps are set back 9 times")
