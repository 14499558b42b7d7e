"""What the drives add to the rigid links: rotor inertia, friction and offsets, also where motors move several joints.

With a coupling matrix C the motors turn, in units of their own joint, by u = C q, and a torque t_k at motor k acts on
joint i as C[k, i] t_k. So the rotor of motor k adds C' diag(IA) C to M, and its friction

    C[k, :]' (FVM_k du_k + FCM_k sign(du_k)),   du = C dq

comes beside the joints' own FV, FC (Gautier and Venture 2013, eqs. 34 and 35). For a motor that moves its own joint
alone the two cannot be told apart, so FVM and FCM exist for coupled motors only.

    IA   rotor inertia     FV  viscous          FC  Coulomb, sign(dq)
    OF   constant offset   FS  Stribeck, sign(dq) exp(-(|dq| / v)^e), v and e given
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dynid.robot import FloatArray, Structure, read_only

SMOOTH = ("IA", "FV", "FVM")  # the kinds that are linear in dq and ddq, so that they have derivatives everywhere


def kind_and_number(name: str) -> tuple[str, int]:
    """('FVM', 6) of 'FVM6'."""
    kind = name.rstrip("0123456789")
    return kind, int(name[len(kind) :])


@dataclass(frozen=True, eq=False)
class DriveTerms:
    """The drive-side parameters of n axes.

    Attributes:
        axes: n.
        structure: which terms the model has.
        coupling: C, (n, n); the identity where every motor moves its own joint alone.
    """

    axes: int
    structure: Structure
    coupling: FloatArray

    @classmethod
    def of(cls, axes: int, structure: Structure, coupling: FloatArray | None = None) -> "DriveTerms":
        """Terms of `axes` axes; no coupling is the identity."""
        return cls(axes, structure, read_only(np.eye(axes) if coupling is None else coupling))

    @cached_property
    def coupled(self) -> tuple[int, ...]:
        """Motors that move more than their own joint, counted from 0."""
        return tuple(int(k) for k in np.flatnonzero((self.coupling != np.eye(self.axes)).any(axis=1)))

    def _numbered(self, kind: str) -> list[str]:
        return [f"{kind}{j + 1}" for j in range(self.axes)]

    @cached_property
    def _extra(self) -> tuple[str, ...]:
        """Standard parameters beyond IA, FV and FC, which every axis has."""
        structure = self.structure
        names = self._numbered("OF") if structure.friction_offset else []
        names += self._numbered("FS") if structure.stribeck else []
        for kind, there in (("FVM", structure.viscous_friction), ("FCM", structure.coulomb_friction)):
            names += [f"{kind}{k + 1}" for k in self.coupled if there]
        return tuple(names)

    @cached_property
    def standard_names(self) -> tuple[str, ...]:
        """Names of the drive-side standard parameters: IA, FV and FC of every axis, then what the structure adds."""
        return (*self._numbered("IA"), *self._numbered("FV"), *self._numbered("FC"), *self._extra)

    @cached_property
    def modelled_names(self) -> tuple[str, ...]:
        """Those of the standard names that the structure has as terms."""
        structure = self.structure
        there = {"IA": structure.rotor_inertia, "FV": structure.viscous_friction, "FC": structure.coulomb_friction}
        return tuple(name for name in self.standard_names if there.get(kind_and_number(name)[0], True))

    def columns(self, names: Sequence[str], dq: FloatArray, ddq: FloatArray) -> FloatArray:
        """Torques per unit of each named parameter, (N, n, len(names)), for rates (N, n)."""
        W = np.zeros((*dq.shape, len(names)))
        for column, name in enumerate(names):
            kind, number = kind_and_number(name)
            k = number - 1
            if kind == "IA":
                self._at_motor(W, column, k, ddq @ self.coupling[k] if k in self.coupled else ddq[:, k])
            elif kind in ("FVM", "FCM"):
                rate = dq @ self.coupling[k]
                self._at_motor(W, column, k, rate if kind == "FVM" else np.sign(rate))
            else:
                W[:, k, column] = self._friction(kind, dq[:, k])
        return W

    def _at_motor(self, W: FloatArray, column: int, motor: int, torque: FloatArray) -> None:
        """Put a motor's torque (N,) on the joints that it moves."""
        for joint in np.flatnonzero(self.coupling[motor]):
            W[:, joint, column] = self.coupling[motor, joint] * torque

    def _friction(self, kind: str, rate: FloatArray) -> FloatArray | float:
        """Torque per unit of a joint's own friction at rates (N,)."""
        if kind == "FV":
            return rate
        if kind == "FC":
            return np.sign(rate)
        stribeck = self.structure.stribeck
        if kind == "FS" and stribeck is not None:
            fading = np.exp(-((np.abs(rate) / stribeck.velocity_rad_s) ** stribeck.exponent))
            return np.asarray(np.sign(rate) * fading)
        return 1.0  # OF

    def inertia(self, rotor_inertias: FloatArray) -> FloatArray:
        """C' diag(IA) C, (n, n) [kg m^2]."""
        return np.asarray(self.coupling.T @ (rotor_inertias[:, None] * self.coupling))
