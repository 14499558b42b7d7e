"""Positive-definiteness cuts in every step of an optimiser (eq. 10 of arXiv:2605.15949).

The paper, in contrast, applies cuts only after the optimisation.

A cut is a linear condition on the base parameters phi that keeps the inertia matrix M(q; phi) positive definite at one
pose q. `CutSet` collects the cuts that a trial phi has violated: on the simulated path, on a sample of the audit
domain, and at poses that an adversarial audit found.
"""

import numpy as np

from dynid.errors import InfeasibleError
from dynid.identification.closed_loop.cut_program import Cuts, nearest_under_cuts
from dynid.identification.feasibility.audit import Auditor, AuditResult
from dynid.identification.feasibility.pose_kernels import InertiaFunctions, compile_pose_kernels
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray

SCREENED, BLOCKS, SEARCHES = 8192, 32, 128
TOLERANCE, TIGHT = 1e-10, 1e-4  # violation, and slack of an active cut, for cuts scaled to unit length
ADDED = 40  # largest number of cuts added to a quadratic program at once
WORST = 32  # largest number of poses that become cuts at once


class CutSet(Cuts):
    """Positive-definiteness cuts on a simulated path and in a box of poses.

    A cut is a linear condition on the base parameters phi that keeps M(q; phi) >= eps I at one pose q.

    Args:
        model: the arm.
        eps: smallest permitted eigenvalue of M [kg m^2].
        auditor: searches a box of poses for those at which M has an eigenvalue below eps; with None, only the simulated
            path is checked.
        fixed: rows (m, p) and bounds (m,) that always apply, such as bounds on parameters [SI].
    """

    def __init__(
        self, model: ArmModel, eps: float, auditor: Auditor | None, fixed: tuple[FloatArray, FloatArray]
    ) -> None:
        super().__init__(auditor.functions if auditor else InertiaFunctions(model), eps, fixed)
        self._eps, self._auditor = eps, auditor
        self._kernels = auditor.kernels if auditor else compile_pose_kernels(model)
        self._path = np.zeros((0, model.axes))
        self._known = np.zeros((0, model.axes))
        self._tight = np.zeros(0, dtype=bool)  # mask of the cuts that were active in the last solution

    def follow(self, path: FloatArray) -> None:
        """Set the path whose poses are checked from now on, usually the path of the last simulated motion.

        Args:
            path: poses of the path, (k, n) [rad].
        """
        self._path = path

    def add_violated(self, phi: FloatArray) -> int:
        """Add linear conditions that exclude phi (p,) [SI] at poses with M(q; phi) < eps I, and return their number.

        Checked poses are those of the simulated motion, poses at which a condition was added before, and, if the set
        has an auditor, random poses within the audit's position limits.
        """
        found = [self._path, self._known]
        if self._auditor is not None:
            base = BaseParameters(self._auditor.model.names, phi)
            found.append(self._auditor.screen(base, self._eps, SCREENED, BLOCKS, 1)[1])
        poses = np.concatenate(found)
        margin = self._kernels.margins(poses, phi, self._eps)
        worst = np.argsort(margin)[:WORST]
        return self.add(poses[worst[margin[worst] <= 0.0]], phi)

    def audit(self, base: BaseParameters) -> AuditResult | None:
        """Search a box of poses for poses q with M(q; phi) < eps I, and add linear conditions that exclude phi.

        M is the inertia matrix, and phi the given base parameters.

        Args:
            base: base parameters.

        Returns:
            The result of the search by the auditor; None without an auditor.
        """
        if self._auditor is None:
            return None
        result = self._auditor.audit(base, limit=self._eps, searches=SEARCHES, extra=self._known)
        if not result.passed:
            self.add(result.worst_poses, base.values)
        return result

    def add(self, q: FloatArray, phi: FloatArray) -> int:
        """Add linear conditions that exclude phi at poses with M(q; phi) < eps I, and store the poses.

        Later checks of other parameters include the stored poses.

        Args:
            q: poses, (k, n) [rad].
            phi: base parameters, (p,) [SI].

        Returns:
            The number of added conditions.
        """
        self._known = np.concatenate([q, self._known])[:512]
        return super().add(q, phi) if len(q) else 0

    def nearest(self, target: FloatArray, metric: FloatArray, scale: FloatArray) -> FloatArray:
        """Return the phi (p,) [SI] that minimises || metric (phi - target) || under all conditions of this set.

        Args:
            target: parameters after an unconstrained step, (p,) [SI].
            metric: matrix of the norm, (p, p).
            scale: unit in which the solver computes each parameter, (p,) [SI]; it improves the conditioning.

        Raises:
            InfeasibleError: if the conditions exclude every phi.
        """
        rows, bounds = self.rows * scale, self.bounds
        length = np.linalg.norm(rows, axis=1)
        if np.any(length == 0.0):
            raise InfeasibleError("no parameter of this model changes the inertia at a pose")
        rows, bounds = rows / length[:, None], bounds / length
        start, scaled_metric = target / scale, metric * scale
        found = start
        working = np.zeros(len(rows), dtype=bool)
        working[: len(self._tight)] = self._tight
        # most cuts are inactive: the program starts with few of them, and adds violated cuts until none is violated
        while True:
            shortfall = np.where(working, 0.0, bounds - rows @ found)
            worst = np.argsort(-shortfall)[:ADDED]
            worst = worst[shortfall[worst] > TOLERANCE * (1.0 + np.abs(bounds[worst]))]
            if not (len(worst) or (found is start and working.any())):
                break
            working[worst] = True
            found = nearest_under_cuts(start, rows[working], bounds[working], scaled_metric)
        slack = rows @ found - bounds
        self._tight = working & (slack <= TIGHT * (1.0 + np.abs(bounds)))
        return np.asarray(found * scale)
