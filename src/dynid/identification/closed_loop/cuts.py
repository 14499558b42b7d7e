"""Positive-definiteness cuts inside an optimiser's step (paper eq. 10, met throughout instead of only at the end).

`CutSet` keeps those that some trial phi has violated: on the simulated path, on a sample of the audit domain, and where
an adversarial audit found them.
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
TOLERANCE, TIGHT = 1e-10, 1e-4  # of cuts scaled to unit length
ADDED = 40  # cuts that join a quadratic program at once
WORST = 32  # poses of the path that become cuts at once


class CutSet(Cuts):
    """Cuts along a path and in a domain.

    Args:
        model: the arm.
        eps: smallest eigenvalue of M to be kept [kg m^2].
        auditor: of the domain on which M must be positive definite; None for the path alone.
        fixed: rows (m, p) and bounds (m,) that always hold, such as bounds on parameters.
    """

    def __init__(
        self, model: ArmModel, eps: float, auditor: Auditor | None, fixed: tuple[FloatArray, FloatArray]
    ) -> None:
        super().__init__(auditor.functions if auditor else InertiaFunctions(model), eps, fixed)
        self._eps, self._auditor = eps, auditor
        self._kernels = auditor.kernels if auditor else compile_pose_kernels(model)
        self._path = np.zeros((0, model.axes))
        self._known = np.zeros((0, model.axes))
        self._tight = np.zeros(0, dtype=bool)  # cuts that held the last solution, by row

    def follow(self, path: FloatArray) -> None:
        """Look at these poses (k, n) [rad] from now on, those of the last simulated motion."""
        self._path = path

    def add_violated(self, phi: FloatArray) -> int:
        """Add cuts at poses where phi (p,) violates the condition; returns how many."""
        found = [self._path, self._known]
        if self._auditor is not None:
            base = BaseParameters(self._auditor.model.names, phi)
            found.append(self._auditor.screen(base, self._eps, SCREENED, BLOCKS, 1)[1])
        poses = np.concatenate(found)
        margin = self._kernels.margins(poses, phi, self._eps)
        worst = np.argsort(margin)[:WORST]
        return self.add(poses[worst[margin[worst] <= 0.0]], phi)

    def audit(self, base: BaseParameters) -> AuditResult | None:
        """An adversarial audit of the domain; what it finds becomes cuts. None without a domain."""
        if self._auditor is None:
            return None
        result = self._auditor.audit(base, limit=self._eps, searches=SEARCHES, extra=self._known)
        if not result.passed:
            self.add(result.worst_poses, base.values)
        return result

    def add(self, q: FloatArray, phi: FloatArray) -> int:
        """As of `Cuts`; the poses (k, n) stay in sight."""
        self._known = np.concatenate([q, self._known])[:512]
        return super().add(q, phi) if len(q) else 0

    def nearest(self, target: FloatArray, metric: FloatArray, scale: FloatArray) -> FloatArray:
        """phi (p,) with min || metric (phi - target) || within the cuts.

        Args:
            target: (p,).
            metric: (p, p).
            scale: (p,), size of a unit step of every parameter, for the solver's sake.

        Raises:
            InfeasibleError: the cuts exclude every phi.
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
        # most cuts are loose: solve with those that some iterate has violated, until it violates no others
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
