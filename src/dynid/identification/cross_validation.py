"""Cross-validation over blocks of time, which estimates errors on unseen data without a held-out motion.

The torques of each block of time are predicted by a fit to all other blocks. If a block is omitted, the change of a
least-squares fit is computed from the rows of this block alone. A row is the torque equation of one joint at one
sample. X are the weighted rows of all blocks, with the R factor R'R = X'X. X_b are the rows of the omitted block, and
r_b are their residuals. With P = R^-T X_b' X_b R^-1,

    theta_without - theta = -(X'X - X_b' X_b)^-1 X_b' r_b = -R^-1 (I - P)^-1 R^-T X_b' r_b

An eigenvalue of P is the share of the information in one direction that comes from this block. If the share is nearly
1, the other blocks hardly contain information in that direction. The parameters then keep their fitted values in this
direction, and a note names the parameters that dominate it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr, solve_triangular

from dynid.identification.data.recordings import Portion
from dynid.identification.estimators.regression import Regression
from dynid.identification.prediction import Motion
from dynid.robot import FloatArray

MOST, FEWEST = 10, 2  # largest and smallest number of blocks of time
SHORTEST_S = 1.0  # least length of a block, about the time over which residuals are correlated [s]
ALONE = 0.9  # least share of the information in a direction with which one block alone determines the direction
DOMINANT = 0.7  # least correlation of a named parameter's estimate with such a direction


class CrossValidation(NamedTuple):
    """Fitted motions in which each block of time is predicted by a fit to all other blocks.

    Attributes:
        motions: fitted motions with cross-validated predictions.
        alone: names of base parameters that only the data of one block determine, so that a fit to all other blocks
            cannot predict the torques of this block.
    """

    motions: tuple[Motion, ...] = ()
    alone: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """One message, which lists the parameters that only one block of time determines; () if there are none."""
        if not self.alone:
            return ()
        return (
            f"one block of time alone determines {', '.join(self.alone)}, so cross-validation does not judge them: "
            "hold out another motion",
        )


def cross_validated(motions: Sequence[Motion], portions: Sequence[Portion], regression: Regression) -> CrossValidation:
    """Return fitted motions with cross-validated torques: each block of time is predicted by a fit to all other blocks.

    Args:
        motions: fitted motions with the torques that the identified model predicts.
        portions: the fitted portions of recordings, in the order of the motions.
        regression: the regression of the samples of all portions.
    """
    ends = np.cumsum([len(one.samples) for one in portions])
    folds = _Folds.of(regression)
    changes, alone = np.zeros((int(ends[-1]), regression.axes)), np.zeros(len(folds.names), dtype=bool)
    blocks = int(np.clip(ends[-1] * regression.interval_s / SHORTEST_S, FEWEST, MOST))
    for block in np.array_split(np.arange(ends[-1]), blocks):
        changes[block], only = folds.change(block, int(ends[-1]))
        alone |= only
    found = tuple(
        replace(
            one,
            name=f"{one.name}, cross-validated",
            kind="cross-validated",
            predicted=one.predicted + change,
            moved=float("nan"),
        )
        for one, change in zip(motions, np.split(changes, ends[:-1]), strict=True)
    )
    return CrossValidation(found, tuple(np.array(folds.names)[alone & (np.array(folds.names) != "")].tolist()))


@dataclass(frozen=True, eq=False)
class _Folds:
    """Linearised least-squares problem of a regression, for fits that omit one block of time.

    A row contains the torque equations of all n axes at one sample. The first N rows, one per sample, contain the
    states in motion, or all states if no joint can stick. N more rows may follow, which contain the states near
    standstill.

    Attributes:
        names: names of the free parameters, (k,). Friction parameters come first and have the name "".
        free: mask of the columns of the regression whose parameters are not at a bound, (parameters,).
        R: R factor of the QR decomposition of all weighted equations, in the free columns, (k, k).
        columns: regressor of all rows: torques per unit of each friction and base parameter, (rows, n, parameters).
        weights: weights of all equations, (rows, n).
        residual: weighted residuals, (rows, n).
        judged: regressor that predicts the torques of all N samples, in motion or not, (N, n, parameters).
    """

    names: tuple[str, ...]
    free: NDArray[np.bool_]
    R: FloatArray
    columns: FloatArray
    weights: FloatArray
    residual: FloatArray
    judged: FloatArray

    @classmethod
    def of(cls, regression: Regression) -> "_Folds":
        """Return the weighted least-squares problem of a regression, with the residuals of its solution."""
        solution, n, size = regression.weighted_solution, regression.axes, regression.friction_size
        inside = np.diag(solution.inverse) > 0.0  # false for base parameters at a bound; such friction is left out
        free = np.concatenate([solution.sliding[:size], np.ones(len(regression.names), dtype=bool)])
        free[free] = inside
        R = qr(solution.triangle[:, :-1][:, inside], mode="r", check_finite=False)[0][: int(inside.sum())]
        weights = np.ones(len(regression.tau)) if regression.row_weights is None else regression.row_weights
        weights = weights if regression.trust is None else weights * regression.trust
        residual = regression.residual(solution.phi, solution.friction).ravel() * weights
        names = np.array(["" for _ in range(size)] + list(regression.names))[free]
        return cls(
            tuple(names.tolist()),
            free,
            R,
            regression.columns().reshape(-1, n, len(free)),
            weights.reshape(-1, n),
            residual.reshape(-1, n),
            regression.judged_rows()[:, :-1].reshape(-1, n, len(free)),
        )

    def change(self, block: NDArray[np.int64], count: int) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Compute the change of a block's predicted torques if the fit omits this block.

        Parameters that only this block determines keep their fitted values.

        Args:
            block: indices of the samples in the omitted block of time, (M,).
            count: number N of all samples; the rows of sample k are k, k + N, k + 2 N, ... in `columns`.

        Returns:
            The change of the torques in the block, (M, n) [N m], and a mask (k,) of the parameters that only the rows
            of this block determine.
        """
        own = np.concatenate([block + first for first in range(0, len(self.columns), count)])
        rows = (self.columns[own][..., self.free] * self.weights[own][..., None]).reshape(-1, len(self.R))
        within = solve_triangular(self.R, rows.T, trans="T", check_finite=False)
        shares, directions = np.linalg.eigh(within @ within.T)
        others = shares < ALONE
        along = directions[:, others].T @ (within @ self.residual[own].ravel()) / (1.0 - shares[others])
        theta = -solve_triangular(self.R, directions[:, others] @ along, check_finite=False)
        inverse = solve_triangular(self.R, np.eye(len(self.R)), check_finite=False)
        likeness = np.abs(inverse @ directions[:, ~others]) / np.linalg.norm(inverse, axis=1)[:, None]
        return self.judged[block][..., self.free] @ theta, (likeness > DOMINANT).any(axis=1)
