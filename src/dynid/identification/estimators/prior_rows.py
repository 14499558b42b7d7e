"""Rows of a least-squares problem that keep base parameters near prior values."""

import numpy as np

from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray

LIKELY_RESIDUAL = 0.05  # likely residual relative to the torques, before any fit


def prior_unit(torques: FloatArray) -> float:
    """Return a guess, without a fit, of the residuals' standard deviation [N m], for use as `unit` of `prior_rows`.

    The result is a fixed fraction of the root mean square of `torques` (N, n) [N m].
    """
    return LIKELY_RESIDUAL * float(np.sqrt(np.mean(torques**2)))


def prior_rows(prior: BaseParameters, unit: float, before: int, after: int = 0) -> FloatArray:
    """Return least-squares rows (p, before + p + after + 1) that keep base parameters near prior values.

    The last column is the right-hand side. Columns of other parameters, before and after the base parameters, are zero.

    Args:
        prior: prior base parameters, with a diagonal covariance.
        unit: standard deviation of the residuals of all other rows, in the unit of these rows.
        before: number of columns before those of the base parameters.
        after: number of columns between those of the base parameters and the right-hand side.
    """
    deviations = prior.standard_deviations
    assert deviations is not None, "what is known has deviations"
    size = len(deviations)
    rows = np.zeros((size, before + size + after + 1))
    rows[:, before : before + size] = np.diag(unit / deviations)
    rows[:, -1] = unit * prior.values / deviations
    return rows
