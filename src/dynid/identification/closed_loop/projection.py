"""Projection onto positive-definite models by cutting planes (arXiv:2605.15949, eqs. 8 and 12).

    min || L (phi - phi0) ||   subject to   M(q; phi) >= eps I   for all q in the audit domain.

The inertia matrix M is linear in phi, so every pose q and vector v gives a linear condition v' M(q; phi) v >= eps,
which is called a cut. There are infinitely many cuts, but only cuts that the current phi violates are added. An audit
searches for poses at which M has an eigenvalue below eps, and the eigenvectors give cuts. Then a quadratic program
finds the nearest phi that satisfies all cuts so far. Both steps are repeated until the audit, with its adversarial
search, finds no violation. Every feasible phi satisfies all cuts, so the result is the nearest feasible phi, except for
a small margin: the computed cuts require at least eps + `RESERVE` instead of eps. Without this margin, the solutions
would approach the boundary of the feasible set from outside without reaching it.
"""

from dataclasses import dataclass

import numpy as np

from dynid.errors import DataError, InfeasibleError
from dynid.identification.closed_loop.cut_program import Cuts, nearest_under_cuts
from dynid.identification.feasibility.audit import CHUNK, SEARCHES, Auditor, AuditResult
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray

KNOWN_POSES = 512
BOUND_TOLERANCE = 1e-9  # tolerance of the quadratic program for bounds of parameters [SI]
MAXIMUM_ROUNDS = 60


@dataclass(frozen=True, eq=False)
class ProjectionResult:
    """Outcome of a projection onto positive-definite models.

    Attributes:
        base: projected parameters, with the covariance before the projection.
        eps: requested margin, the smallest permitted eigenvalue of M [kg m^2].
        distance: || phi - phi0 ||, in the mixed SI units of the parameters.
        cuts: number of linear conditions at the end, including bounds on single parameters.
        rounds: number of solved quadratic programs; 0 if phi0 was already feasible.
        audit: result of the final audit, which found no eigenvalue of M below eps for the projected parameters.
    """

    base: BaseParameters
    eps: float
    distance: float
    cuts: int
    rounds: int
    audit: AuditResult


def project(
    auditor: Auditor,
    phi0: BaseParameters,
    eps: float,
    *,
    metric: FloatArray | None = None,
    lower: FloatArray | None = None,
    poses: int = CHUNK,
    searches: int = SEARCHES,
    seed: int = 1,
    maximum_rounds: int = MAXIMUM_ROUNDS,
) -> ProjectionResult:
    """Return the model nearest to phi0 whose inertia matrix is at least eps I over the audit domain.

    Args:
        auditor: auditor of the arm's inertia matrix in a box of poses, the audit domain.
        phi0: base parameters to project.
        eps: smallest permitted eigenvalue of the inertia matrix [kg m^2]; 0 in the final projection of arXiv:2605.15949
            (eq. 12).
        metric: matrix L of the norm || L (phi - phi0) ||, (k, p), such as the R factor of a regressor; None means the
            Euclidean norm.
        lower: lower bounds of the parameters, (p,) [SI]; -inf for unbounded parameters; None if no parameter is
            bounded.
        poses: number of poses of each audit.
        searches: number of adversarial searches of each audit.
        seed: seed of the audits.
        maximum_rounds: largest number of quadratic programs.

    Raises:
        InfeasibleError: if no feasible model was found within `maximum_rounds`, or none exists within the bounds.
        DataError: if eps is negative or not finite.
    """
    if not np.isfinite(eps) or eps < 0:
        raise DataError(f"the margin eps is {eps} kg m^2; expected a number of at least 0")
    bounded = np.zeros(0, dtype=int) if lower is None else np.flatnonzero(np.isfinite(lower))
    fixed = np.zeros(0) if lower is None else np.asarray(lower, dtype=np.float64)[bounded]
    found = Cuts(auditor.functions, eps, (np.eye(len(phi0.names))[bounded], fixed))
    phi, audit = phi0, auditor.audit(phi0, limit=eps, poses=poses, searches=searches, seed=seed)
    known = audit.worst_poses
    for rounds in range(maximum_rounds + 1):
        within = lower is None or bool((phi.values >= lower - BOUND_TOLERANCE).all())
        if audit.passed and within:
            distance = float(np.linalg.norm(phi.values - phi0.values))
            return ProjectionResult(phi, eps, distance, len(found.bounds), rounds, audit)
        if rounds == maximum_rounds:
            break
        found.add(known, phi.values)
        phi = phi0.with_values(nearest_under_cuts(phi0.values, found.rows, found.bounds, metric))
        audit = auditor.audit(phi, limit=eps, poses=poses, searches=searches, seed=seed, extra=known)
        # earlier poses are checked again: a new phi may violate the condition close to them
        known = np.concatenate([audit.worst_poses, known])[:KNOWN_POSES]
    raise InfeasibleError(
        f"the projection with eps = {eps:.3g} kg m^2 found no positive-definite model in {maximum_rounds} rounds and "
        f"{len(found.bounds)} cuts; the smallest eigenvalue was still {audit.lambda_min:.3g} kg m^2"
    )
