"""Linear algebra runs on one thread within dynid's calls, and afterwards on the caller's number of threads."""

from collections.abc import Iterator

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from dynid.errors import DataError
from dynid.identification.data.arrays import recording_from_arrays
from dynid.identification.methods import identify
from dynid.robot import Robot
from dynid.threads import on_one_thread

THEIRS = 2


def threads() -> set[int]:
    """Return the numbers of threads of all linear-algebra libraries in this process."""
    return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def theirs() -> Iterator[set[int]]:
    """Yield the caller's numbers; a library that began on one processor keeps one thread."""
    np.eye(2) @ np.eye(2)
    with threadpool_limits(limits=THEIRS):
        assert threads() <= {1, THEIRS}
        yield threads()


def test_limit_ends_with_the_function(theirs: set[int]) -> None:
    assert on_one_thread(threads)() == {1}
    assert threads() == theirs


def test_nested_limit_keeps_the_outer_one(theirs: set[int]) -> None:
    @on_one_thread
    def outer() -> tuple[set[int], set[int]]:
        return on_one_thread(threads)(), threads()

    assert outer() == ({1}, {1})
    assert threads() == theirs


def test_error_gives_the_callers_number_back(theirs: set[int]) -> None:
    @on_one_thread
    def fails() -> None:
        raise DataError("no")

    with pytest.raises(DataError):
        fails()
    assert threads() == theirs


def test_identify_from_python_computes_on_one_thread(robot: Robot, theirs: set[int]) -> None:
    seen: list[set[int]] = []

    class Enough(Exception):
        pass

    def stop(stage: str) -> None:
        seen.append(threads())
        raise Enough(stage)

    time = np.arange(0.0, 3.0, 0.001)
    q = 0.3 * np.sin(2.0 * time)[:, None] + np.zeros(robot.size)
    with pytest.raises(Enough):
        identify(robot, recording_from_arrays(robot, time, q, 0.1 * q), progress=stop)
    assert seen == [{1}]
    assert threads() == theirs
