"""Limit of the number of threads that linear-algebra libraries start, in a process or during a call.

Matrices here are small: threads of a linear-algebra library only wait for each other, on a busy host for seconds.
"""

import os
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
Given = ParamSpec("Given")
Result = TypeVar("Result")


def one_thread_each() -> None:
    """Limit libraries that are loaded later to one thread, unless the environment already sets a number.

    It is for processes that dynid starts itself, whose libraries then start no threads at all. `on_one_thread` serves
    calls from other processes.
    """
    for variable in THREAD_VARIABLES:
        os.environ.setdefault(variable, "1")


def on_one_thread(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """Return the function with linear algebra limited to one thread during a call; afterwards the old limit applies.

    The limit applies to the whole process, so the caller's other threads are limited during the call, too.
    """

    @wraps(function)
    def limited(*args: Given.args, **kwargs: Given.kwargs) -> Result:
        from threadpoolctl import threadpool_limits  # not before: `dynid --help` needs none of it

        with threadpool_limits(limits=1):
            return function(*args, **kwargs)

    return limited
