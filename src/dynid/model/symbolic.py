"""Equations of motion of an arm in CasADi symbols (arXiv:2605.15949, eq. 3).

Torques follow from the recursive Newton-Euler algorithm, and M(q) from composite rigid bodies, in the modified DH
frames. Each base parameter has the same effect on torques as one standard parameter, its representative. So the
representative gets the value of the base parameter, and all other standard parameters of the links are zero. This makes
tau a function of phi, in which no terms of these other parameters appear.
"""

from dataclasses import dataclass

import casadi as ca
import numpy as np

from dynid.model.dynamics import ArmModel

Vector = ca.SX  # (3, 1)
ROUNDING = 1e-12  # sines and cosines of constant angles below this are exact zeros


def _clean(value: float) -> float:
    return 0.0 if abs(value) < ROUNDING else float(value)


@dataclass
class LinkBody:
    """Symbolic inertia of one link, or of several links that move together.

    Attributes:
        inertia: inertia about the origin of the frame, (3, 3).
        moment: first moments, (3, 1).
        mass: mass.
    """

    inertia: ca.SX
    moment: ca.SX
    mass: ca.SX

    def force(self, dw: Vector, w: Vector, a: Vector) -> Vector:
        """Return the force (3, 1) that a motion of the body requires.

        Args:
            dw: angular acceleration, (3, 1).
            w: angular velocity, (3, 1).
            a: acceleration of the frame's origin minus gravity, (3, 1).
        """
        return self.mass * a + ca.cross(dw, self.moment) + ca.cross(w, ca.cross(w, self.moment))

    def torque(self, dw: Vector, w: Vector, a: Vector) -> Vector:
        """Return the torque (3, 1) about the frame's origin that a motion of the body requires.

        Args:
            dw: angular acceleration, (3, 1).
            w: angular velocity, (3, 1).
            a: acceleration of the frame's origin minus gravity, (3, 1).
        """
        return self.inertia @ dw + ca.cross(w, self.inertia @ w) + ca.cross(self.moment, a)

    def moved(self, rotation: ca.SX, position: ca.SX) -> "LinkBody":
        """Return this body expressed in another frame, such as that of the link before.

        Args:
            rotation: rotation of the present frame in the other frame, (3, 3).
            position: origin of the present frame in the other frame, (3, 1).
        """
        moment = rotation @ self.moment
        lever, turned = ca.skew(position), ca.skew(moment)
        inertia = rotation @ self.inertia @ rotation.T - lever @ turned - turned @ lever - self.mass * lever @ lever
        return LinkBody(inertia, moment + self.mass * position, self.mass)

    def plus(self, other: "LinkBody") -> "LinkBody":
        """Return this body and another one combined into one body; both are in the same frame."""
        return LinkBody(self.inertia + other.inertia, self.moment + other.moment, self.mass + other.mass)


class SymbolicArm:
    """CasADi symbols and equations of motion of an `ArmModel` with c chain joints, n axes and p base parameters.

    Attributes:
        q: chain positions, (c, 1) [rad].
        dq, ddq, tau: velocities, accelerations and torques of all axes, (n, 1).
        phi: base parameters, (p, 1).
    """

    def __init__(self, model: ArmModel) -> None:
        self.model = model
        c, n = model.chain_size, model.axes
        self.q = ca.SX.sym("q", c)
        self.dq, self.ddq, self.tau = (ca.SX.sym(name, n) for name in ("dq", "ddq", "tau"))
        self.phi = ca.SX.sym("phi", len(model.names))
        self.positions = [self._position(j) for j in range(c)]
        self.rotations = [self._rotation(j) for j in range(c)]
        self.bodies = [self._body(j) for j in range(c)]
        self._gravity = ca.DM([_clean(x) for x in -model.mdh.base[:3, :3].T @ model.gravity])

    def _position(self, j: int) -> ca.SX:
        """Return the origin of frame j in frame j-1, (3, 1) [m]."""
        mdh = self.model.mdh
        start, along = mdh.relative_positions()[j], mdh.prismatic_axes()[j]
        return ca.SX(ca.DM([_clean(x) for x in start])) + ca.DM([_clean(x) for x in along]) * self.q[j]

    def _rotation(self, j: int) -> ca.SX:
        """Return the rotation of frame j in frame j-1, (3, 3)."""
        mdh = self.model.mdh
        ca_, sa = _clean(np.cos(mdh.alpha[j])), _clean(np.sin(mdh.alpha[j]))
        co, so = _clean(np.cos(mdh.offset[j])), _clean(np.sin(mdh.offset[j]))
        cq, sq = (1.0, 0.0) if mdh.prismatic[j] else (ca.cos(self.q[j]), ca.sin(self.q[j]))
        ct, st = cq * co - sq * so, sq * co + cq * so
        return ca.vertcat(
            ca.horzcat(ct, -st, 0), ca.horzcat(ca_ * st, ca_ * ct, -sa), ca.horzcat(sa * st, sa * ct, ca_)
        )

    def _body(self, j: int) -> LinkBody:
        """Return the inertia of link j, expressed by the base parameters phi.

        Each base parameter has the same effect on torques as one standard parameter, its representative. So the
        representative gets the value of the base parameter, and all other standard parameters of the link are zero.
        """
        values = [ca.SX(0)] * 10
        regrouping = self.model.regrouping
        for k, place in enumerate(regrouping.representatives[: regrouping.link_count]):
            if place // 10 == j:
                values[place % 10] = self.phi[k]
        xx, xy, xz, yy, yz, zz, mx, my, mz, mass = values
        inertia = ca.vertcat(ca.horzcat(xx, xy, xz), ca.horzcat(xy, yy, yz), ca.horzcat(xz, yz, zz))
        return LinkBody(inertia, ca.vertcat(mx, my, mz), mass)

    def _axis_terms(self, kind: str) -> ca.SX:
        """Return the drive-side parameters of one kind for every axis, (n, 1); zero if the model has none."""
        regrouping = self.model.regrouping
        names = [regrouping.standard[k] for k in regrouping.representatives]
        wanted = [f"{kind}{i + 1}" for i in range(self.model.axes)]
        return ca.vertcat(*(self.phi[names.index(name)] if name in names else ca.SX(0) for name in wanted))

    def _rotors(self) -> ca.SX:
        """Return C' diag(IA) C, (n, n), the contribution of the rotor inertias IA to the inertia matrix.

        C is the coupling matrix from joint to motor angles.
        """
        C = ca.sparsify(ca.DM(self.model.drive.coupling))
        return C.T @ ca.diag(self._axis_terms("IA")) @ C

    def _viscous(self) -> ca.SX:
        """Return the viscous torques of joints and coupled motors, (n, 1)."""
        C = ca.sparsify(ca.DM(self.model.drive.coupling))
        return self._axis_terms("FV") * self.dq + C.T @ (self._axis_terms("FVM") * (C @ self.dq))

    def _springs(self) -> ca.SX:
        """Return the torques (n, 1) that balance the springs of robot.yaml."""
        regrouping, tau = self.model.regrouping, ca.SX(self.model.axes, 1)
        names = [regrouping.standard[k] for k in regrouping.representatives]
        for term in self.model.drive.springs:
            if term.name in names:  # otherwise another parameter of its group represents it
                power = ca.SX(1)
                for _ in range(term.power):
                    power = power * (self.q[term.joint] - term.about)
                tau[term.joint] += self.phi[names.index(term.name)] * power
        return tau

    def inverse_dynamics(self, ddq: ca.SX, gravity: bool = True) -> ca.SX:
        """Return torques (n, 1) of rigid links, rotors, springs and viscous friction.

        Dry friction (`ArmModel.dry_torque`) is not included, because sign(dq) has no derivative at 0.

        Args:
            ddq: accelerations, (n, 1).
            gravity: whether torques against gravity are included.
        """
        z = ca.DM([0, 0, 1])
        w, dw = ca.SX(3, 1), ca.SX(3, 1)
        a = ca.SX(self._gravity) if gravity else ca.SX(3, 1)
        loads = []
        for j, body in enumerate(self.bodies):
            back, p = self.rotations[j].T, self.positions[j]
            a = back @ (a + ca.cross(dw, p) + ca.cross(w, ca.cross(w, p)))
            w, dw = back @ w, back @ dw
            rate = z * self.dq[j]
            if self.model.mdh.prismatic[j]:
                a = a + z * ddq[j] + 2 * ca.cross(w, rate)
            else:
                dw = dw + z * ddq[j] + ca.cross(w, rate)
                w = w + rate
            loads.append((body.force(dw, w, a), body.torque(dw, w, a)))
        tau = self._rotors() @ ddq + self._viscous() + self._springs()
        force, torque = ca.SX(3, 1), ca.SX(3, 1)
        for j in reversed(range(len(loads))):
            force, torque = force + loads[j][0], torque + loads[j][1]
            tau[j] += force[2] if self.model.mdh.prismatic[j] else torque[2]
            force = self.rotations[j] @ force
            torque = self.rotations[j] @ torque + ca.cross(self.positions[j], force)
        return tau

    def inertia_matrix(self) -> ca.SX:
        """Return the inertia matrix M(q; phi), (n, n), by the composite-rigid-body algorithm."""
        c, n = self.model.chain_size, self.model.axes
        M = ca.SX(self._rotors())
        prismatic = self.model.mdh.prismatic
        composite = self.bodies[-1]
        z = ca.DM([0, 0, 1])
        for j in reversed(range(c)):
            if j < c - 1:
                composite = self.bodies[j].plus(composite.moved(self.rotations[j + 1], self.positions[j + 1]))
            if prismatic[j]:
                force, torque = composite.mass * z, ca.cross(composite.moment, z)
            else:
                force, torque = ca.cross(z, composite.moment), composite.inertia[:, 2]
            M[j, j] += force[2] if prismatic[j] else torque[2]
            for i in reversed(range(j)):
                force = self.rotations[i + 1] @ force
                torque = self.rotations[i + 1] @ torque + ca.cross(self.positions[i + 1], force)
                along = force[2] if prismatic[i] else torque[2]
                M[i, j], M[j, i] = M[i, j] + along, M[j, i] + along
        assert M.shape == (n, n)
        return M


@dataclass
class Factors:
    """Factors U D U' of a symmetric matrix.

    Attributes:
        pivots: diagonal entries of D, from the first row to the last.
        U: unit upper triangular matrix, (n, n).
    """

    pivots: list[ca.SX]
    U: ca.SX

    @classmethod
    def of(cls, matrix: ca.SX) -> "Factors":
        """Return the factors of a symmetric matrix (n, n), by elimination from the last row up.

        Rows are not permuted; a definite matrix needs no permutation.
        """
        n = matrix.shape[0]
        rest, U = ca.SX(matrix), ca.SX.eye(n)
        for k in reversed(range(n)):
            inverse = 1 / rest[k, k]
            for i in range(k):
                U[i, k] = rest[i, k] * inverse
            for i in range(k):
                for j in range(i, k):
                    rest[i, j] = rest[j, i] = rest[i, j] - U[i, k] * rest[j, k]
        return cls([rest[k, k] for k in range(n)], U)

    def solve(self, right: ca.SX) -> ca.SX:
        """Return the solution x (n, 1) of U D U' x = right, for a right-hand side (n, 1)."""
        n = len(self.pivots)
        x = ca.SX(right)
        for i in reversed(range(n)):
            for k in range(i + 1, n):
                x[i] = x[i] - self.U[i, k] * x[k]
        for i in range(n):
            x[i] = x[i] / self.pivots[i]
            for k in range(i):
                x[i] = x[i] - self.U[k, i] * x[k]
        return x
