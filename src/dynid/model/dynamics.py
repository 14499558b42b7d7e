"""Identified model of a robot: tau = W(q, dq, ddq) phi, M(q; phi), inverse and forward dynamics.

`ArmModel` combines geometry (modified DH), structure (terms of the model) and mount (gravity), and evaluates eqs. 3 and
4 of arXiv:2605.15949. It is the readable reference; the generated fast kernels are tested against it.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import cached_property, lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from dynid.errors import ConfigurationError, DataError
from dynid.model.base_parameters import PRODUCTS, Regrouping, regroup
from dynid.model.chain import SerialChain
from dynid.model.drive import DriveTerms, DryTerms, is_smooth, kind_and_number
from dynid.model.mdh import MdhChain, derive_mdh
from dynid.model.parameters import BaseParameters, StandardParameters, parameter_unit
from dynid.model.regressor import fill_link_columns, link_torques, standard_regressor
from dynid.model.springs import SpringTerm, spring_terms
from dynid.robot import FloatArray, PhysicalBounds, Robot, Structure, read_only
from dynid.robot.link_limits import ArmLimits, Box, arm_limits, robot_shapes


class ArmModel:
    """Dynamics of n axes: `chain_size` chain joints, then decoupled axes that have rotor inertia and friction only.

    Args:
        mdh: geometry of the chain.
        axes: number of all axes n.
        structure: terms of the model, such as rotor inertia and friction.
        gravity: gravity vector in the URDF base link, (3,) [m/s^2].
        coupling: matrix C from joint to motor angles, (n, n) [-]; None if each motor moves its own joint.
        prismatic: whether each axis is prismatic, (n,); None means as in `mdh`.
        bounds: bounds of physically consistent parameters; None if the model is not used for estimation.
        gears: gear type of every axis, (n,). Axes of the same type share the friction parameters that depend on the
            gear's geometry, such as load-dependent friction; None gives each axis its own type.
        shapes: function that returns the boxes of the links' shapes, see `arm_limits`; called when limits are needed.
        springs: terms of springs at chain joints.
    """

    def __init__(
        self,
        mdh: MdhChain,
        axes: int,
        structure: Structure,
        gravity: FloatArray,
        coupling: FloatArray | None = None,
        prismatic: tuple[bool, ...] | None = None,
        bounds: PhysicalBounds | None = None,
        gears: tuple[str, ...] | None = None,
        shapes: Callable[[], Sequence[Box | str]] = tuple,
        springs: tuple[SpringTerm, ...] = (),
    ) -> None:
        self.prismatic = mdh.prismatic if prismatic is None else prismatic
        self.mdh, self.axes, self.structure = mdh, axes, structure
        self.gravity, self.bounds, self._shapes = read_only(gravity), bounds, shapes
        self.gears = gears or tuple(f"axis {k + 1}" for k in range(axes))
        self.drive = DriveTerms.of(axes, structure, coupling, springs)

    @classmethod
    def of(
        cls,
        robot: Robot,
        *,
        mount: str | None = None,
        structure: Structure | None = None,
        lengths_m: Mapping[str, float] | None = None,
    ) -> "ArmModel":
        """Return the model of a robot.

        Args:
            robot: the robot.
            mount: mount of the arm; None is the default of robot.yaml.
            structure: terms of the model, such as rotor inertia and friction; None means the terms in robot.yaml.
            lengths_m: modified DH lengths that replace those of the URDF, such as {"r3": 0.24} [m].

        Raises:
            ConfigurationError: the URDF cannot be used, or a joint is revolute in one of URDF and robot.yaml and
                prismatic in the other.
        """
        if structure is None and not lengths_m:
            return _as_described(robot, mount or robot.file.default_mount)
        return cls._of(robot, mount, structure or robot.file.structure, lengths_m or {})

    @classmethod
    def _of(cls, robot: Robot, mount: str | None, structure: Structure, lengths_m: Mapping[str, float]) -> "ArmModel":
        mdh = derive_mdh(SerialChain.from_robot(robot)).with_lengths(lengths_m)
        for name, says, is_so in zip(robot.joint_names, robot.prismatic, mdh.prismatic, strict=False):
            if says != is_so:
                kinds = ("revolute, with lower_deg and upper_deg", "prismatic, with lower_m and upper_m")
                raise ConfigurationError(
                    f"joint {name} is {kinds[is_so]} in the URDF, but not in robot.yaml; make both agree"
                )
        bounds = robot.file.physical_bounds
        gears = tuple(joint.servo_model or joint.name for joint in robot.file.joints)
        given = structure, robot.gravity(mount), robot.coupling, robot.prismatic, bounds, gears
        return cls(mdh, robot.size, *given, partial(robot_shapes, robot), spring_terms(robot))

    def under(self, gravity: FloatArray) -> "ArmModel":
        """Return a copy of this model with another gravity vector (3,) in the base link [m/s^2]."""
        other = copy(self)
        other.gravity = read_only(gravity)
        return other

    @property
    def chain_size(self) -> int:
        """Number of chain joints."""
        return self.mdh.size

    @cached_property
    def _shape_boxes(self) -> Sequence[Box | str]:
        return self._shapes()

    def limits(self, bounds: PhysicalBounds) -> ArmLimits:
        """Return the limits of the links' masses, centres of mass and extents, which follow from bounds in robot.yaml.

        Args:
            bounds: `physical_bounds` of robot.yaml.

        Raises:
            ConfigurationError: robot.yaml does not give the arm's mass, or the box that must contain a link has no room
                for the smallest spread of its mass, or excludes its centre of mass.
        """
        return arm_limits(self.mdh, bounds, self._shape_boxes)

    @cached_property
    def regrouping(self) -> Regrouping:
        """Map from standard to base parameters."""
        return regroup(self.mdh, self.drive, self.gravity)

    @property
    def names(self) -> tuple[str, ...]:
        """Base parameter names, (p,)."""
        return self.regrouping.names

    def unit(self, name: str) -> str:
        """Return the SI unit of a base or standard parameter of this arm."""
        return parameter_unit(name, self.prismatic)

    @cached_property
    def structure_hash(self) -> str:
        """Hash of parameter names, groupings and geometry; models with equal hashes can exchange parameters.

        The hash does not depend on the sign or magnitude of gravity, so it is equal for an upright and a hanging arm.
        """
        mdh = self.mdh
        geometry = np.concatenate([mdh.alpha, mdh.d, mdh.r, mdh.offset, mdh.base[:3, 2], self.regrouping.K.ravel()])
        text = repr((self.names, self.regrouping.standard, (np.round(geometry, 9) + 0.0).tolist()))
        text += repr(self.options) if self.options else ""
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @cached_property
    def options(self) -> tuple[object, ...]:
        """Settings of the model, besides its geometry and the names of its parameters, on which torques depend.

        These are the kinds of joints, the coupling, the Stribeck curve's shape and the springs. The tuple is empty for
        revolute joints without coupling, Stribeck friction and springs.
        """
        shape = self.structure.stribeck
        return (
            *([("prismatic", self.mdh.prismatic)] if any(self.mdh.prismatic) else []),
            *([("coupling", self.drive.coupling.tolist())] if self.drive.coupled else []),
            *([("stribeck", shape.velocity_rad_s, shape.exponent)] if shape else []),
            *(("spring", term.name, round(term.about, 9)) for term in self.drive.springs),
        )

    @cached_property
    def aperiodic(self) -> tuple[bool, ...]:
        """Whether the torque of each axis is not periodic in 2 pi of its position, (n,).

        This holds for prismatic axes and axes with a spring.
        """
        sprung = {term.joint for term in self.drive.springs}
        return tuple(slides or axis in sprung for axis, slides in enumerate(self.prismatic))

    def base_parameters(self, standard: StandardParameters) -> BaseParameters:
        """Return the base parameters phi = K pi of standard parameters pi.

        Raises:
            DataError: the standard parameters are of another model.
        """
        if standard.names != self.regrouping.standard:
            expected = len(self.regrouping.standard)
            raise DataError(
                f"these standard parameters belong to another robot: {len(standard.names)} names, not {expected}"
            )
        return BaseParameters(self.names, self.regrouping.K @ standard.values)

    def states(self, *arrays: FloatArray) -> list[FloatArray]:
        """Convert joint quantities such as positions, (N, n) or (n,), to contiguous arrays (N, n); units are kept.

        Raises:
            DataError: an array has another shape, or the arrays differ in N.
        """
        out = [np.ascontiguousarray(np.atleast_2d(a), dtype=np.float64) for a in arrays]
        if any(a.shape != out[0].shape or a.shape[1] != self.axes for a in out):
            raise DataError(f"states must be (N, {self.axes}) each, got {', '.join(str(a.shape) for a in out)}")
        return out

    def _with_link_columns(self, q: FloatArray, dq: FloatArray, ddq: FloatArray, gravity: FloatArray) -> FloatArray:
        """Return the regressor (N, n, p) with the columns of link-side base parameters; other columns are zero.

        Args:
            q: positions of all axes, (N, n) [rad; m if prismatic].
            dq: their velocities, (N, n).
            ddq: their accelerations, (N, n).
            gravity: gravity vector in the URDF base link, (3,) [m/s^2].
        """
        c, representatives = self.chain_size, np.array(self.regrouping.representatives[: self.regrouping.link_count])
        W = np.zeros((len(q), self.axes, len(self.names)))
        fill_link_columns(self.mdh, q[:, :c], dq[:, :c], ddq[:, :c], gravity, representatives, W)
        return W

    def regressor(self, q: FloatArray, dq: FloatArray, ddq: FloatArray) -> FloatArray:
        """Return the regressor W with tau = W phi, (N, n, p), at states (N, n) [rad, rad/s, rad/s^2].

        This is eq. 4 of arXiv:2605.15949.
        """
        q, dq, ddq = self.states(q, dq, ddq)
        W = self._with_link_columns(q, dq, ddq, self.gravity)
        self.drive.fill_columns(W[:, :, self.regrouping.link_count :], self.drive_names, q, dq, ddq)
        return W

    def standard_regressor(self, q: FloatArray, dq: FloatArray, ddq: FloatArray) -> FloatArray:
        """Return the regressor columns of all standard parameters, (N, n, s), at states q, dq and ddq, (N, n) each.

        The columns are in the order of `regrouping.standard`. Columns of terms that the model's structure lacks, such
        as products of inertia or friction terms, are zero.
        """
        q, dq, ddq = self.states(q, dq, ddq)
        c, names = self.chain_size, self.regrouping.standard
        W = np.zeros((len(q), self.axes, len(names)))
        W[:, :c, : 10 * c] = standard_regressor(self.mdh, q[:, :c], dq[:, :c], ddq[:, :c], self.gravity)
        W[:, :, 10 * c :] = self.drive.columns(names[10 * c :], q, dq, ddq)
        W[..., ~self.modelled] = 0.0
        return W

    @cached_property
    def modelled(self) -> NDArray[np.bool_]:
        """Mask (s,) of the standard parameters that the model's structure includes."""
        products = self.structure.products_of_inertia
        return np.array(
            [
                (products or kind_and_number(name)[0] not in PRODUCTS)
                if k < 10 * self.chain_size
                else name in self.drive.modelled_names
                for k, name in enumerate(self.regrouping.standard)
            ]
        )

    @cached_property
    def drive_names(self) -> tuple[str, ...]:
        """Names of the drive-side base parameters, which follow the link-side ones in `names`."""
        return tuple(self.regrouping.standard[k] for k in self.regrouping.representatives[self.regrouping.link_count :])

    @cached_property
    def dry_places(self) -> list[int]:
        """Indices of the base parameters of dry friction and offsets: kinds FC, FS, FCM and OF."""
        count = self.regrouping.link_count
        return [count + k for k, name in enumerate(self.drive_names) if not is_smooth(kind_and_number(name)[0])]

    @cached_property
    def _dry(self) -> DryTerms:
        return DryTerms(self.drive, [self.names[k] for k in self.dry_places])

    def dry_torque(self, dq: FloatArray, phi: BaseParameters, transition_rad_s: float = 0.0) -> FloatArray:
        """Return the torques of dry friction and offsets among the base parameters, (N, n) [N m].

        Args:
            dq: joint velocities, (N, n) [rad/s].
            phi: base parameters of this model.
            transition_rad_s: transition velocity v: tanh(dq / v) replaces sign(dq); 0 keeps sign(dq).
        """
        return self.dry_values_torque(dq, self.values_of(phi), transition_rad_s)

    def dry_values_torque(self, dq: FloatArray, values: FloatArray, transition_rad_s: float) -> FloatArray:
        """Return the torques of dry friction and offsets, (N, n) [N m], from the values (p,) of all base parameters.

        Args:
            dq: joint velocities, (N, n) [rad/s].
            values: values of the base parameters, (p,), SI.
            transition_rad_s: transition velocity v: tanh(dq / v) replaces sign(dq); 0 keeps sign(dq).
        """
        return self._dry.torque(values[self.dry_places], dq, transition_rad_s)

    def inertia_regressor(self, q: FloatArray) -> FloatArray:
        """Return the tensor B (N, n, n, p) with the inertia matrix M(q; phi) = B phi, at postures q (N, n) [rad]."""
        (q,) = self.states(q)
        none, still = np.zeros(3), np.zeros_like(q)
        B = np.zeros((len(q), self.axes, self.axes, len(self.names)))
        rotors = [k for k, name in enumerate(self.drive_names) if kind_and_number(name)[0] == "IA"]
        places = [self.regrouping.link_count + k for k in rotors]
        names = [self.drive_names[k] for k in rotors]
        for column in range(self.axes):
            unit = np.zeros_like(q)
            unit[:, column] = 1.0
            if column < self.chain_size:
                B[:, :, column] = self._with_link_columns(q, still, unit, none)
            B[:, :, column, places] = self.drive.columns(names, q, still, unit)
        return B

    def inertia_matrix(self, q: FloatArray, phi: BaseParameters) -> FloatArray:
        """Return the inertia matrix M(q; phi), (N, n, n) [kg m^2], at postures q (N, n) [rad]."""
        return self.inertia_regressor(q) @ self.values_of(phi)

    def inverse_dynamics(self, q: FloatArray, dq: FloatArray, ddq: FloatArray, phi: BaseParameters) -> FloatArray:
        """Return the torques (N, n) [N m] that cause accelerations ddq at states q, dq, (N, n) each.

        This is eq. 3 of arXiv:2605.15949.
        """
        q, dq, ddq = self.states(q, dq, ddq)
        c, values = self.chain_size, self.values_of(phi)
        tau = self.drive.torque(self.drive_names, values[self.regrouping.link_count :], q, dq, ddq)
        tau[:, :c] += self._link_torques(q[:, :c], dq[:, :c], ddq[:, :c], self.gravity, values)
        return np.asarray(tau)

    def _link_torques(
        self, q: FloatArray, dq: FloatArray, ddq: FloatArray, gravity: FloatArray, values: FloatArray
    ) -> FloatArray:
        """Return the torques (N, chain_size) [N m] of the link-side base parameters, without computing the regressor.

        Args:
            q: positions of the chain joints, (N, chain_size) [rad; m if prismatic].
            dq: their velocities, (N, chain_size).
            ddq: their accelerations, (N, chain_size).
            gravity: gravity vector in the URDF base link, (3,) [m/s^2].
            values: values of all base parameters, (p,), SI.
        """
        count, standard = self.regrouping.link_count, np.zeros(10 * self.chain_size)
        standard[list(self.regrouping.representatives[:count])] = values[:count]
        return link_torques(self.mdh, q, dq, ddq, gravity, standard.reshape(-1, 10))

    def gravity_torque(self, q: FloatArray, phi: BaseParameters, gravity: FloatArray) -> FloatArray:
        """Return the torques (N, n) [N m] that balance gravity at rest; torques of springs are not included.

        Args:
            q: positions, (N, n) [rad; m if prismatic].
            phi: base parameters of this model.
            gravity: gravity vector in the URDF base link, (3,) [m/s^2].
        """
        out, still = np.zeros_like(q), np.zeros((len(q), self.chain_size))
        at = q[:, : self.chain_size]
        out[:, : self.chain_size] = self._link_torques(at, still, still, gravity, self.values_of(phi))
        return out

    def forward_dynamics(self, q: FloatArray, dq: FloatArray, tau: FloatArray, phi: BaseParameters) -> FloatArray:
        """Return the accelerations (N, n) [rad/s^2] that torques tau (N, n) [N m] cause at states q, dq, (N, n)."""
        q, dq, tau = self.states(q, dq, tau)
        bias = self.inverse_dynamics(q, dq, np.zeros_like(q), phi)
        return np.asarray(
            np.linalg.solve(self.inertia_matrix(q, phi), (tau - bias)[..., None])[..., 0], dtype=np.float64
        )

    def values_of(self, phi: BaseParameters) -> FloatArray:
        """Return the values (p,) of base parameters, SI, after a check that they belong to this model.

        Raises:
            DataError: the parameters are of another model.
        """
        if phi.names != self.names:
            raise DataError(
                f"these parameters belong to another model: {phi.names[:4]}..., expected {self.names[:4]}..."
            )
        return phi.values


@lru_cache(maxsize=16)  # regrouping is slow, and one command needs the same model in several places
def _as_described(robot: Robot, mount: str) -> ArmModel:
    """Return the model of a robot at a mount: the structure is that of robot.yaml, the geometry that of the URDF."""
    return ArmModel._of(robot, mount, robot.file.structure, {})
