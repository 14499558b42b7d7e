"""The smallest eigenvalue of M(q; phi) by few poses and a search from the worst, without compiled kernels.

For a model that is consistent already M is positive definite at every pose; what is left to say is how small its
eigenvalues get. Compiling kernels for millions of poses would take longer than everything else together.
"""

import numpy as np
from scipy.optimize import minimize

from dynid.identification.audit import AuditResult, Certificate
from dynid.identification.pose_kernels import InertiaFunctions
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray, read_only

MOST_POSES = 50_000  # beyond it the compiled audit is faster, its compilation included
SEARCHES = 12
CHUNK = 5_000


def quick_audit(
    model: ArmModel, phi: BaseParameters, lower: FloatArray, upper: FloatArray, *, limit: float = 0.0,
    poses: int = MOST_POSES, seed: int = 1,
) -> AuditResult:  # fmt: skip
    """Sample the box of chain poses lower to upper, (c,), and walk downhill from the lowest; as `audit` otherwise."""
    functions, c = InertiaFunctions(model), model.chain_size
    rng = np.random.default_rng(seed)
    q = np.zeros((poses, model.axes))
    q[:, :c] = rng.uniform(lower, upper, (poses, c))
    values = np.concatenate(
        [functions.smallest(q[first : first + CHUNK], phi.values)[0] for first in range(0, poses, CHUNK)]
    )
    order = np.argsort(values)[:SEARCHES]
    found = [_downhill(functions, q[k], phi.values, lower, upper) for k in order]
    reached = np.array([value for _, value in found])
    best = int(np.argmin(reached))
    lambda_min = float(reached[best])
    worst = np.array([found[k][0] for k in np.argsort(reached) if reached[k] < limit] or [found[best][0]])
    certificate: Certificate = "counterexample" if lambda_min < limit else "searched"
    return AuditResult(lambda_min, read_only(found[best][0]), poses, certificate, seed, limit, read_only(worst))


def _downhill(
    functions: InertiaFunctions, pose: FloatArray, phi: FloatArray, lower: FloatArray, upper: FloatArray
) -> tuple[FloatArray, float]:
    """The local minimum of the smallest eigenvalue next to a pose (n,), within the box, and its value."""
    q, c = np.array(pose)[None], len(lower)

    def smallest(x: FloatArray) -> tuple[float, FloatArray]:
        q[0, :c] = x
        values, vectors = functions.smallest(q, phi)
        return float(values[0]), functions.slopes(q, phi, vectors)[0, :c]

    bounds = list(zip(lower, upper, strict=True))
    found = minimize(smallest, pose[:c], jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 60})
    start, _ = smallest(pose[:c])
    if found.fun < start:
        start, _ = smallest(found.x)
    return q[0].copy(), start
