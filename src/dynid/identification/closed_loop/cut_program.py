"""Positive-definiteness cuts: linear conditions on the base parameters phi that keep M(q; phi) positive definite.

M is the inertia matrix at a pose q. Each pose q and vector v gives the condition v' M(q; phi) v >= eps, which is linear
in phi and is called a cut.
"""

import clarabel
import numpy as np
from scipy import sparse

from dynid.errors import InfeasibleError
from dynid.identification.feasibility.pose_kernels import InertiaFunctions
from dynid.robot import FloatArray

RESERVE = 2e-6  # margin of cuts above eps [kg m^2]: without it, solutions stay just outside the feasible set
STEP_FRACTIONS = (0.99, 0.95, 0.9)  # fraction of the distance to the boundary per solver step; shorter if it stalls


class Cuts:
    """Growing set of linear conditions `rows @ phi >= bounds` that keep M(q; phi) >= eps I at the checked poses.

    A linear condition is called a cut. phi are the base parameters, and M is the inertia matrix.

    Args:
        functions: functions that compute M(q; phi) and the rows of cuts for poses q.
        eps: smallest permitted eigenvalue of M [kg m^2].
        fixed: rows (m, p) and bounds (m,) that always apply, such as bounds on parameters [SI].

    Attributes:
        rows: rows of all conditions, fixed ones first, (k, p).
        bounds: bounds of all conditions, (k,) [SI].
        count: number of conditions that are not fixed.
    """

    def __init__(self, functions: InertiaFunctions, eps: float, fixed: tuple[FloatArray, FloatArray]) -> None:
        self._functions, self._target = functions, eps + RESERVE
        self.rows, self.bounds = fixed
        self.count = 0

    def add(self, q: FloatArray, phi: FloatArray) -> int:
        """Add linear conditions (cuts) that exclude phi, for poses q at which M(q; phi) has too small eigenvalues.

        An eigenvalue is too small if it is below eps plus a small reserve. Each such eigenvalue adds one condition,
        which is computed from its eigenvector.

        Args:
            q: poses to check, (k, n) [rad].
            phi: base parameters, (p,) [SI].

        Returns:
            The number of added conditions.
        """
        values, vectors = np.linalg.eigh(self._functions.matrices(q, phi))
        pose, which = np.nonzero(values < self._target)
        if len(pose):
            self.rows = np.concatenate([self.rows, self._functions.cuts(q[pose], vectors[pose, :, which])])
            self.bounds = np.concatenate([self.bounds, np.full(len(pose), self._target)])
            self.count += len(pose)
        return len(pose)


def nearest_under_cuts(
    phi0: FloatArray, cuts: FloatArray, bounds: FloatArray, metric: FloatArray | None = None
) -> FloatArray:
    """Return the parameters phi (p,) [SI] nearest to phi0 that satisfy the linear conditions cuts @ phi >= bounds.

    Args:
        phi0: parameters before the projection, (p,) [SI].
        cuts: rows of the conditions, (m, p).
        bounds: bounds of the conditions, (m,).
        metric: matrix L of the norm || L (phi - phi0) ||, (k, p); None means the Euclidean norm.

    Raises:
        InfeasibleError: if no phi satisfies all conditions.
    """
    shortfall = bounds - cuts @ phi0
    scale = float(shortfall.max())
    if scale <= 0:
        return np.array(phi0)
    H = np.eye(len(phi0)) if metric is None else metric.T @ metric / np.linalg.norm(metric, 2) ** 2
    for fraction in STEP_FRACTIONS:
        # unknowns in units of the largest shortfall, so that the solver's tolerances are relative to the correction
        settings = clarabel.DefaultSettings()
        settings.verbose, settings.max_step_fraction = False, fraction
        settings.tol_feas = settings.tol_gap_abs = settings.tol_gap_rel = 1e-10
        solution = clarabel.DefaultSolver(
            sparse.triu(sparse.csc_matrix(H), format="csc"),
            np.zeros(len(phi0)),
            sparse.csc_matrix(-cuts),
            -shortfall / scale,
            [clarabel.NonnegativeConeT(len(cuts))],
            settings,
        ).solve()
        if solution.status in (clarabel.SolverStatus.Solved, clarabel.SolverStatus.AlmostSolved):
            return np.asarray(phi0 + scale * np.array(solution.x))
        if solution.status != clarabel.SolverStatus.NumericalError:
            break
    raise InfeasibleError(f"the projection's quadratic program with {len(cuts)} cuts failed: {solution.status}")
