"""Audit of the inertia matrix M(q; phi) at thousands of random poses, without compiled kernels.

M of a physically consistent model is positive definite at every pose. So the audit need not detect rare poses at which
M is indefinite, but only determine the smallest eigenvalue, for which thousands of poses suffice. An audit of millions
of poses needs compiled code, and the compilation would take longer than the rest of an identification.
"""

import numpy as np

from dynid.identification.feasibility.audit import AuditResult, Certificate
from dynid.identification.feasibility.pose_kernels import InertiaFunctions
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray, read_only

MOST_POSES = 50_000  # number of poses above which the compiled audit is faster, including compilation
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
    """Return the result of a search for the smallest eigenvalue of the inertia matrix M(q; phi) over a box of poses.

    The eigenvalues are computed at random poses. From each of the `SEARCHES` poses with the smallest eigenvalues, a
    descent leads to a local minimum.

    Args:
        model: model of the arm.
        phi: base parameters.
        lower: lower corner of the box of poses, with one limit for each joint of the kinematic chain, (c,) [rad].
        upper: upper corner of the box, (c,) [rad].
        limit: required smallest eigenvalue [kg m^2]; the result states whether a pose has a smaller one.
        poses: number of poses to sample.
        seed: seed of the sample.
    """
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
