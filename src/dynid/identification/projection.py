"""Projection onto positive-definite models by cutting planes (paper eqs. 8 and 12; design 5.2).

    min || L (phi - phi0) ||   subject to   M(q; phi) >= eps I   for all q in the audit domain.

M is linear in phi, so every pose q and vector v gives the linear condition v' M(q; phi) v >= eps, a cut. The infinite
family of them is met by adding only those that the current phi violates: an audit looks for violating poses, their
eigenvectors become cuts, a quadratic program finds the nearest phi that meets all cuts so far, and so on until the
audit, with its adversarial search, finds none. Every cut is valid, so the result is the nearest feasible phi up to
`RESERVE`: the program aims that much inside, because cuts approach the boundary from outside without touching it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import clarabel
import numpy as np
from scipy import sparse

from dynid.errors import DataError, InfeasibleError
from dynid.identification.audit import CHUNK, SEARCHES, Auditor, AuditResult
from dynid.model.parameters import MINIMUM_ROTOR_INERTIA, BaseParameters
from dynid.robot import FloatArray, read_only

RESERVE = 2e-6  # kg m^2
KNOWN_POSES = 512
BOUND_TOLERANCE = 1e-9  # of the quadratic program, on single parameters
MAXIMUM_ROUNDS = 60
STEP_FRACTIONS = (0.99, 0.95, 0.9)  # of the way to the boundary; the solver stalls rarely, and then shorter steps help
LADDER = (0.001, 0.002, 0.005, 0.01)  # kg m^2, before CLIE (paper IV-B)


@dataclass(frozen=True, eq=False)
class ProjectionResult:
    """Outcome of a projection.

    Attributes:
        base: the projected parameters; their covariance is that of the parameters before.
        eps: margin that was asked for [kg m^2].
        distance: || phi - phi0 ||, in the mixed SI units of the parameters.
        cuts: number of cuts in the last quadratic program; 0 if phi0 was feasible already.
        rounds: number of quadratic programs.
        audit: of the result, with limit eps; passed.
    """

    base: BaseParameters
    eps: float
    distance: float
    cuts: int
    rounds: int
    audit: AuditResult


def nearest_under_cuts(
    phi0: FloatArray, cuts: FloatArray, bounds: FloatArray, metric: FloatArray | None = None
) -> FloatArray:
    """phi (p,) nearest to phi0 with cuts phi >= bounds; cuts (m, p), bounds (m,), metric (k, p) or None.

    Raises:
        InfeasibleError: no phi meets all cuts.
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
            sparse.triu(sparse.csc_matrix(H), format="csc"), np.zeros(len(phi0)), sparse.csc_matrix(-cuts),
            -shortfall / scale, [clarabel.NonnegativeConeT(len(cuts))], settings,
        ).solve()  # fmt: skip
        if solution.status in (clarabel.SolverStatus.Solved, clarabel.SolverStatus.AlmostSolved):
            return np.asarray(phi0 + scale * np.array(solution.x))
        if solution.status != clarabel.SolverStatus.NumericalError:
            break
    raise InfeasibleError(f"the projection's quadratic program with {len(cuts)} cuts ended: {solution.status}")


def project(
    auditor: Auditor, phi0: BaseParameters, eps: float, *, metric: FloatArray | None = None,
    lower: FloatArray | None = None, poses: int = CHUNK, searches: int = SEARCHES, seed: int = 1,
    maximum_rounds: int = MAXIMUM_ROUNDS,
) -> ProjectionResult:  # fmt: skip
    """The model nearest to phi0 whose inertia matrix is at least eps I over the audit domain.

    Args:
        auditor: the arm and the domain.
        phi0: base parameters to project.
        eps: margin [kg m^2]; 0 stops at the boundary, as the paper's rescue does.
        metric: (k, p) matrix L of the norm, such as the R factor of a regressor; None is the Euclidean one.
        lower: (p,) lower bounds of the parameters themselves, -inf where there is none; None for no bounds.
        poses, searches, seed: of the audits.
        maximum_rounds: quadratic programs before giving up.

    Raises:
        InfeasibleError: no feasible model was found within the rounds, or none exists under the bounds.
    """
    if not np.isfinite(eps) or eps < 0:
        raise DataError(f"the margin eps is {eps} kg m^2; expected a number of at least 0")
    found = _Cuts(auditor, eps, phi0, lower)
    phi, audit = phi0, auditor.audit(phi0, limit=eps, poses=poses, searches=searches, seed=seed)
    known = audit.worst_poses
    for rounds in range(maximum_rounds + 1):
        within = lower is None or bool((phi.values >= lower - BOUND_TOLERANCE).all())
        if audit.passed and within:
            distance = float(np.linalg.norm(phi.values - phi0.values))
            return ProjectionResult(phi, eps, distance, found.count, rounds, audit)
        if rounds == maximum_rounds:
            break
        found.add(known, phi)
        phi = phi0.with_values(nearest_under_cuts(phi0.values, *found.arrays(), metric))
        audit = auditor.audit(phi, limit=eps, poses=poses, searches=searches, seed=seed, extra=known)
        # earlier findings stay in sight: a new phi may fail again close to an old pose
        known = np.concatenate([audit.worst_poses, known])[:KNOWN_POSES]
    raise InfeasibleError(
        f"the projection with eps = {eps:.3g} kg m^2 found no positive-definite model in {maximum_rounds} rounds and "
        f"{found.count} cuts; the smallest eigenvalue was still {audit.lambda_min:.3g} kg m^2"
    )


class _Cuts:
    """The cuts found so far, bounds on single parameters among them."""

    def __init__(self, auditor: Auditor, eps: float, phi0: BaseParameters, lower: FloatArray | None) -> None:
        self._functions, self._eps = auditor.functions, eps
        identity = np.eye(len(phi0.names))
        bounded = np.zeros(0, dtype=int) if lower is None else np.flatnonzero(np.isfinite(lower))
        self._rows = [identity[bounded]]
        self._bounds = [np.zeros(0) if lower is None else np.asarray(lower, dtype=np.float64)[bounded]]

    @property
    def count(self) -> int:
        """Number of cuts."""
        return sum(len(rows) for rows in self._rows)

    def arrays(self) -> tuple[FloatArray, FloatArray]:
        """All cuts (m, p) and their bounds (m,)."""
        return np.concatenate(self._rows), np.concatenate(self._bounds)

    def add(self, q: FloatArray, phi: BaseParameters) -> None:
        """Cuts from every eigenvector below the target at the poses (k, n)."""
        target = self._eps + RESERVE
        values, vectors = np.linalg.eigh(self._functions.matrices(q, phi.values))
        pose, which = np.nonzero(values < target)
        if len(pose):
            self._rows.append(self._functions.cuts(q[pose], vectors[pose, :, which]))
            self._bounds.append(np.full(len(pose), target))


def project_ladder(
    auditor: Auditor, phi0: BaseParameters, ladder: Sequence[float] = LADDER, *, metric: FloatArray | None = None,
    lower: FloatArray | None = None, poses: int = CHUNK, searches: int = SEARCHES, seed: int = 1,
    maximum_rounds: int = MAXIMUM_ROUNDS,
) -> ProjectionResult:  # fmt: skip
    """The projection with the smallest margin of the ladder that succeeds (paper Algorithm 1, lines 8 to 14).

    Raises:
        InfeasibleError: every margin failed.
    """
    reasons = []
    for eps in sorted(ladder):
        try:
            return project(
                auditor, phi0, eps, metric=metric, lower=lower, poses=poses, searches=searches, seed=seed,
                maximum_rounds=maximum_rounds,
            )  # fmt: skip
        except InfeasibleError as error:
            reasons.append(str(error))
    raise InfeasibleError(f"no margin of the ladder {tuple(ladder)} gives a positive-definite model: {reasons[-1:]}")


def physical_lower_bounds(names: tuple[str, ...]) -> FloatArray:
    """Lower bounds (p,) that every arm meets on single base parameters: rotor inertias positive, friction not negative.

    Only parameters that are no sums have such bounds; all others get -inf.
    """
    by_kind = {"IA": MINIMUM_ROTOR_INERTIA, "FV": 0.0, "FC": 0.0}
    return read_only([by_kind.get(name.rstrip("0123456789"), -np.inf) for name in names])
