"""Fast any() and all() of small numpy masks.

For about eight values, Python's search in the array's bytes is much faster than a call of numpy.
"""

from typing import Any

from numpy.typing import NDArray


def any_set(values: NDArray[Any]) -> bool:
    """Return whether any value of a mask or of an array of bytes (n,) is true or nonzero."""
    return any(values.tobytes())


def all_set(mask: NDArray[Any]) -> bool:
    """Return whether all values of a mask (n,) are true."""
    return 0 not in mask.tobytes()
