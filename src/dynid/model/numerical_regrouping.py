"""Base parameters from the regressor itself: which columns are independent, and how the others follow from them.

Columns are looked at one after the other in a given order, so the choice does not depend on the last bits of a sum, as
the ties of a pivoted factorisation do. A column that is zero to rounding stays out before anything is divided by its
length: a normalised zero column is noise of full size, and counts as independent of everything.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dynid.robot import FloatArray

RANK_TOLERANCE = 1e-8  # of a column's own length, or of the longest column for one that is zero
FACTOR_DIGITS = 10  # factors are sums and products of lengths and sines; what is beyond is rounding
FACTOR_TOLERANCE = 1e-9


def is_silent(W: FloatArray) -> NDArray[np.bool_]:
    """Which columns of W (m, s) [N m per SI unit] are zero to rounding, (s,): no torque depends on their parameters."""
    strength = np.abs(W).max(axis=0)
    return np.asarray(strength <= RANK_TOLERANCE * strength.max())


def independent_columns(W: FloatArray, order: Sequence[int]) -> list[int]:
    """Columns of W (m, s) [N m per SI unit], in the given order, that do not follow from those before them."""
    silent = is_silent(W)
    basis = np.zeros((len(W), 0))
    kept = []
    for k in order:
        if silent[k]:
            continue
        length = np.linalg.norm(W[:, k])
        rest = W[:, k] / length
        for _ in range(2):  # once more removes what rounding left
            rest = rest - basis @ (basis.T @ rest)
        left = np.linalg.norm(rest)
        if left > RANK_TOLERANCE:
            kept.append(k)
            basis = np.column_stack([basis, rest / left])
    return kept


def grouping(kept: FloatArray, others: FloatArray) -> FloatArray:
    """Factors B (b, s) with others = kept B, for W's independent columns (m, b) and columns (m, s) that follow; SI."""
    factors = np.linalg.lstsq(kept, others, rcond=None)[0]
    factors[:, is_silent(np.column_stack([kept, others]))[kept.shape[1] :]] = 0.0
    factors[np.abs(factors) < FACTOR_TOLERANCE] = 0.0
    return np.round(factors, FACTOR_DIGITS) + 0.0
