"""`./run benchmark callers`: processor times of child processes without dynid's limit on threads."""

import os
import sys

import pytest
from benchmarks.speed.callers import processor_seconds

from dynid.errors import DataError

PRINTS_VARIABLE = "import os, sys; sys.exit(0 if 'OMP_NUM_THREADS' not in os.environ else 7)"


def test_a_child_inherits_no_thread_limit_and_its_time_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "OMP_NUM_THREADS", "1")
    assert processor_seconds([sys.executable, "-c", PRINTS_VARIABLE]) > 0.0


def test_child_that_fails_is_refused() -> None:
    with pytest.raises(DataError, match="ValueError"):
        processor_seconds([sys.executable, "-c", "raise ValueError"])
