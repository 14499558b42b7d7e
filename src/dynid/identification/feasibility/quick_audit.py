"""The smallest eigenvalue of M(q; phi) by few poses and a search from the worst, without compiled kernels.

For a model that is consistent already M is positive definite at every pose; what is left to say is how small its
eigenvalues get. Compiling kernels for millions of poses would take longer than everything else together.
"""

import numpy as np

from dynid.identification.feasibility.audit import AuditResult, Certificate
from dynid.identification.feasibility.pose_kernels import InertiaFunctions
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray, read_only

MOST_POSES = 50_000  # beyond it the compiled audit is faster, its compilation included
SEARCHES = 12
CHUNK = 5_000


def quick_audit(
    model: ArmModel,
    phi: BaseParameters,
    lower: FloatArray,
    upper: FloatArray,
    *,
    limit: float = 0.0,
    poses: int = MOST_POSES,
    seed: int = 1,
) -> AuditResult:
    """Sample the box of chain poses lower to upper, (c,), and walk downhill from the lowest; as `audit` otherwise."""
    functions, c = InertiaFunctions(model), model.chain_size
    rng = np.random.default_rng(seed)
    q = np.zeros((poses, model.axes))
    q[:, :c] = rng.uniform(lower, upper, (poses, c))
    values = np.concatenate(
        [functions.smallest(q[first : first + CHUNK], phi.values)[0] for first in range(0, poses, CHUNK)]
    )
    lowest, joints = q[np.argsort(values)[:SEARCHES]], range(c)
    found = [functions.local_minimum(pose, phi.values, joints, lower, upper) for pose in lowest]
    found.sort(key=lambda one: one[1])
    pose, lambda_min = found[0]
    worst = [one for one, value in found if value < limit] or [pose]
    certificate: Certificate = "counterexample" if lambda_min < limit else "searched"
    return AuditResult(lambda_min, read_only(pose), poses, certificate, seed, limit, read_only(worst))
