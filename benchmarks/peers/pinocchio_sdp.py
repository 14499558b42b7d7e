"""Peer like a longer script: the same rows with every link's pseudo-inertia positive definite, by cvxpy."""

import numpy as np

from benchmarks.peers.exchange import Found, Given
from benchmarks.peers.pinocchio_least_squares import weighted
from benchmarks.peers.rows import found_of, prior

LEAST, PULL = 1e-6, 1e-3  # smallest eigenvalue and mass [SI]; weight of the distance from the URDF


def identify(given: Given) -> Found:
    """Return the least-squares solution under linear matrix inequalities; undetermined values stay near the URDF."""
    import cvxpy

    W, tau = weighted(given)
    n, start = len(given.joints), prior(given)
    Q, R = np.linalg.qr(W)
    x = cvxpy.Variable(R.shape[1])
    limits = [x[10 * n : 11 * n] >= LEAST, x[11 * n : 13 * n] >= 0.0]
    for j in range(n):
        m, hx, hy, hz, xx, xy, yy, xz, yz, zz = (x[10 * j + k] for k in range(10))
        half = 0.5 * (xx + yy + zz)
        rows = [[half - xx, -xy, -xz, hx], [-xy, half - yy, -yz, hy], [-xz, -yz, half - zz, hz], [hx, hy, hz, m]]
        limits.append(cvxpy.bmat(rows) >> LEAST * np.eye(4))
    size = np.maximum(np.abs(start), 1e-3)
    away = cvxpy.sum_squares(cvxpy.multiply(1.0 / size, x[: 10 * n] - start))
    problem = cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(R @ x - Q.T @ tau) + PULL * away), limits)
    problem.solve(solver=cvxpy.CLARABEL)
    if x.value is None:
        raise ValueError(f"cvxpy ended with {problem.status}")
    return found_of(np.asarray(x.value), n, "" if problem.status == "optimal" else problem.status)
