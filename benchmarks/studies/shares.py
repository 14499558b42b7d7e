"""Share of cases for which something is true."""

from collections.abc import Iterable

import numpy as np


def share_of(values: Iterable[bool]) -> float:
    """Return the share of true values, 0 to 1; NaN without any value."""
    own = list(values)
    return float(np.mean(own)) if own else float("nan")
