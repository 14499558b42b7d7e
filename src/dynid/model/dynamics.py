"""The identified model of a robot: tau = W(q, dq, ddq) phi, M(q; phi), inverse and forward dynamics (paper eqs. 3, 4).

`ArmModel` joins geometry (modified DH), structure (which terms) and mount (gravity). It is the readable reference;
kernels that are generated for speed are tested against it.
"""

import hashlib
from collections.abc import Mapping
from functools import cached_property

import numpy as np

from dynid.errors import DataError
from dynid.model.base_parameters import Regrouping, regroup
from dynid.model.chain import SerialChain
from dynid.model.mdh import MdhChain, derive_mdh
from dynid.model.parameters import BaseParameters, StandardParameters
from dynid.model.regressor import link_columns, link_motions
from dynid.robot import FloatArray, Robot, Structure, read_only


class ArmModel:
    """Dynamics of n axes: `chain_size` chain joints, then decoupled axes that have IA, FV (and FC) only.

    Args:
        mdh: geometry of the chain.
        axes: number of all axes n.
        structure: which terms the model has.
        gravity: (3,) in the URDF base link [m/s^2].
    """

    def __init__(self, mdh: MdhChain, axes: int, structure: Structure, gravity: FloatArray) -> None:
        self.mdh, self.axes, self.structure = mdh, axes, structure
        self.gravity = read_only(gravity)

    @classmethod
    def of(
        cls, robot: Robot, *, mount: str | None = None, structure: Structure | None = None,
        lengths_m: Mapping[str, float] | None = None,
    ) -> "ArmModel":  # fmt: skip
        """The model of a robot; `lengths_m` replaces modified DH lengths, such as {"r3": 0.24}."""
        mdh = derive_mdh(SerialChain.from_robot(robot)).with_lengths(lengths_m or {})
        return cls(mdh, robot.size, structure or robot.file.structure, robot.gravity(mount))

    @property
    def chain_size(self) -> int:
        """Number of chain joints."""
        return self.mdh.size

    @cached_property
    def regrouping(self) -> Regrouping:
        """The map from standard to base parameters."""
        return regroup(self.mdh, self.axes, self.structure, self.gravity)

    @property
    def names(self) -> tuple[str, ...]:
        """Base parameter names, (p,)."""
        return self.regrouping.names

    @cached_property
    def structure_hash(self) -> str:
        """Identifies names, groupings and geometry: two models with one hash can exchange parameters.

        Gravity is not part of it where it only changes sign or size: the same arm upright and hanging is one model.
        """
        mdh = self.mdh
        geometry = np.concatenate([mdh.alpha, mdh.d, mdh.r, mdh.offset, mdh.base[:3, 2], self.regrouping.K.ravel()])
        text = repr((self.names, self.regrouping.standard, (np.round(geometry, 9) + 0.0).tolist()))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def base_parameters(self, standard: StandardParameters) -> BaseParameters:
        """phi = K pi."""
        if standard.names != self.regrouping.standard:
            expected = len(self.regrouping.standard)
            raise DataError(
                f"these standard parameters are of another robot: {len(standard.names)} names, not {expected}"
            )
        return BaseParameters(self.names, self.regrouping.K @ standard.values)

    def _check_states(self, *arrays: FloatArray) -> list[FloatArray]:
        out = [np.atleast_2d(np.asarray(a, dtype=np.float64)) for a in arrays]
        if any(a.shape != out[0].shape or a.shape[1] != self.axes for a in out):
            raise DataError(f"states must be (N, {self.axes}) each, got {', '.join(str(a.shape) for a in out)}")
        return out

    def _link_columns(self, q: FloatArray, dq: FloatArray, ddq: FloatArray, gravity: FloatArray) -> FloatArray:
        """Columns of the link-side base parameters for chain states (N, chain_size): (N, chain_size, link_count)."""
        representatives = np.array(self.regrouping.representatives[: self.regrouping.link_count])
        W = np.zeros((len(q), self.chain_size, len(representatives)))
        for j, motion in enumerate(link_motions(self.mdh, q, dq, ddq, gravity)):
            mine = np.flatnonzero(representatives // 10 == j)
            if len(mine):
                W[:, : j + 1, mine] = link_columns(motion)[..., representatives[mine] % 10]
        return W

    def regressor(self, q: FloatArray, dq: FloatArray, ddq: FloatArray) -> FloatArray:
        """W with tau = W phi; inputs (N, n) [rad, rad/s, rad/s^2], result (N, n, p). Paper eq. 4."""
        q, dq, ddq = self._check_states(q, dq, ddq)
        c = self.chain_size
        W = np.zeros((len(q), self.axes, len(self.names)))
        W[:, :c, : self.regrouping.link_count] = self._link_columns(q[:, :c], dq[:, :c], ddq[:, :c], self.gravity)
        self._add_axis_columns(W, {"IA": ddq, "FV": dq, "FC": np.sign(dq)})
        return W

    def _add_axis_columns(self, W: FloatArray, signals: Mapping[str, FloatArray]) -> None:
        for k in range(self.regrouping.link_count, len(self.names)):
            kind, axis = self.names[k][:2], int(self.names[k][2:]) - 1
            if kind in signals:
                W[:, axis, k] = signals[kind][:, axis]

    def inertia_regressor(self, q: FloatArray) -> FloatArray:
        """The (N, n, n, p) tensor B with M(q; phi) = B phi, for q (N, n) [rad]."""
        (q,) = self._check_states(q)
        c, none = self.chain_size, np.zeros(3)
        B = np.zeros((len(q), self.axes, self.axes, len(self.names)))
        still = np.zeros((len(q), c))
        for column in range(self.axes):
            unit = np.zeros_like(q)
            unit[:, column] = 1.0
            if column < c:
                B[:, :c, column, : self.regrouping.link_count] = self._link_columns(q[:, :c], still, unit[:, :c], none)
            self._add_axis_columns(B[:, :, column, :], {"IA": unit})
        return B

    def inertia_matrix(self, q: FloatArray, phi: BaseParameters) -> FloatArray:
        """M(q; phi), (N, n, n) [kg m^2], for q (N, n) [rad]."""
        return self.inertia_regressor(q) @ self._values(phi)

    def inverse_dynamics(self, q: FloatArray, dq: FloatArray, ddq: FloatArray, phi: BaseParameters) -> FloatArray:
        """Torques (N, n) [N m] for states (N, n). Paper eq. 3."""
        return self.regressor(q, dq, ddq) @ self._values(phi)

    def forward_dynamics(self, q: FloatArray, dq: FloatArray, tau: FloatArray, phi: BaseParameters) -> FloatArray:
        """Accelerations (N, n) [rad/s^2] for states and torques (N, n)."""
        q, dq, tau = self._check_states(q, dq, tau)
        bias = self.inverse_dynamics(q, dq, np.zeros_like(q), phi)
        return np.asarray(
            np.linalg.solve(self.inertia_matrix(q, phi), (tau - bias)[..., None])[..., 0], dtype=np.float64
        )

    def _values(self, phi: BaseParameters) -> FloatArray:
        if phi.names != self.names:
            raise DataError(f"these parameters are of another model: {phi.names[:4]}..., expected {self.names[:4]}...")
        return phi.values
