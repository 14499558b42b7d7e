"""Limits of the number of threads that linear-algebra libraries start, in a process or during a call.

The matrices of dynid are small, so several threads gain nothing. On a busy host they would wait for each other for
seconds.
"""

import os
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
Given = ParamSpec("Given")
Result = TypeVar("Result")


def one_thread_each() -> None:
    """Set environment variables that limit numerical libraries to one thread; variables that exist are not changed.

    The limit applies to libraries that this process loads later, and to its child processes. Use it in processes that
    belong to dynid. For functions that other programs call, use `on_one_thread`.
    """
    for variable in THREAD_VARIABLES:
        os.environ.setdefault(variable, "1")


def on_one_thread(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """Decorate a function so that linear-algebra libraries use one thread during a call, then the former number again.

    The limit applies to the whole process, so also to linear algebra in the caller's other threads during the call.
    """

    @wraps(function)
    def limited(*args: Given.args, **kwargs: Given.kwargs) -> Result:
        from threadpoolctl import threadpool_limits  # not before: `dynid --help` needs none of it

        with threadpool_limits(limits=1):
            return function(*args, **kwargs)

    return limited
