"""Quick tests of small masks: on eight values, searching the bytes takes a fraction of the time of a numpy function."""

from typing import Any

from numpy.typing import NDArray


def any_set(values: NDArray[Any]) -> bool:
    """Return whether a mask or an array of bytes (n,) holds a value that is not zero."""
    return any(values.tobytes())


def all_set(mask: NDArray[Any]) -> bool:
    """Return whether a mask (n,) is true everywhere."""
    return 0 not in mask.tobytes()
