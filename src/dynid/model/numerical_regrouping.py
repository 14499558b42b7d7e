"""Numerical regrouping: independent columns of a regressor, and factors that express its other columns by them.

Columns are examined in a given order, so that rounding errors do not affect the choice; in a factorisation with
pivoting, they would decide between columns of equal length. Columns that are zero within rounding are excluded first:
normalised to unit length, they would be rounding noise, which is linearly independent of all other columns.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dynid.robot import FloatArray

RANK_TOLERANCE = 1e-8  # residual of a dependent column / its length; entries of a zero column / the largest entry
FACTOR_DIGITS = 10  # decimals to which factors are rounded; further digits are rounding errors
FACTOR_TOLERANCE = 1e-9


def is_zero_column(W: FloatArray) -> NDArray[np.bool_]:
    """Return whether each column of W (m, s) [N m per SI unit] is zero within rounding, (s,)."""
    strength = np.abs(W).max(axis=0)
    return np.asarray(strength <= RANK_TOLERANCE * strength.max())


def independent_columns(W: FloatArray, order: Sequence[int]) -> list[int]:
    """Return the indices of columns of W (m, s) that are linearly independent of the columns selected before them.

    Args:
        W: regressor, (m, s) [N m per SI unit].
        order: indices in the order in which columns are examined; all others are ignored.
    """
    silent = is_zero_column(W)
    basis = np.zeros((len(W), 0))
    kept = []
    for k in order:
        if silent[k]:
            continue
        length = np.linalg.norm(W[:, k])
        rest = W[:, k] / length
        for _ in range(2):  # the second pass removes rounding errors of the first
            rest = rest - basis @ (basis.T @ rest)
        left = np.linalg.norm(rest)
        if left > RANK_TOLERANCE:
            kept.append(k)
            basis = np.column_stack([basis, rest / left])
    return kept


def grouping(kept: FloatArray, others: FloatArray) -> FloatArray:
    """Return the factors B (b, s) that express columns by independent columns: others = kept B.

    Args:
        kept: independent columns, (m, b) [N m per SI unit].
        others: columns that depend on them, (m, s) [N m per SI unit].
    """
    factors = np.linalg.lstsq(kept, others, rcond=None)[0]
    factors[:, is_zero_column(np.column_stack([kept, others]))[kept.shape[1] :]] = 0.0
    factors[np.abs(factors) < FACTOR_TOLERANCE] = 0.0
    return np.round(factors, FACTOR_DIGITS) + 0.0
