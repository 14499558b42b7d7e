"""Limit of the number of threads that linear-algebra libraries start in a process."""

import os

THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def one_thread_each() -> None:
    """Limit libraries that are loaded later to one thread, unless the environment already sets a number.

    Matrices here are small: threads of a linear-algebra library only wait for each other, on a busy host for seconds.
    """
    for variable in THREAD_VARIABLES:
        os.environ.setdefault(variable, "1")
