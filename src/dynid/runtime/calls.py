"""Compiled functions of one arm with one set of parameters, for many states at once."""

from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from dynid.model.drive import KINDS, RESISTING, ROWS, SMOOTH, kind_and_number, of_kinds
from dynid.model.dynamics import ArmModel
from dynid.model.friction import AS, TERMS, WS, FrictionLaw
from dynid.model.parameters import BaseParameters
from dynid.model.springs import is_spring
from dynid.robot import FloatArray
from dynid.runtime import kernels
from dynid.runtime.programs import load_coriolis, load_jacobian, load_state_programs


@dataclass(frozen=True, eq=False)
class Constants:
    """Parameters of an arm as the arrays that the compiled functions take, in SI units.

    Attributes:
        turns: 1 for revolute axes, whose pose repeats after a turn, 0 for prismatic ones, (n,).
        springs: joint, power, zero position and coefficient of every spring term, (k, 4).
        phi: base parameters with spring parameters set to zero, (p,).
        links: base parameters of links, with drive and spring parameters set to zero, (p,).
        drag: base parameters of viscous friction, all others set to zero, (p,).
        dry: sign-dependent friction of the joints that is given by base parameters, (terms, n), with one row per term
            of a friction law; (terms, 0) without such friction.
        motors: Coulomb friction of motors that move several joints, (m,).
        coupling: rotation of these motors per rotation of the joints, (m, n).
        law: values of the additional friction law, whose friction is not given by base parameters, (terms, n);
            (terms, 0) without one.
        transition: transition velocity of the friction law, below which the sign of a velocity is smoothed [rad/s].
    """

    turns: FloatArray
    springs: FloatArray
    phi: FloatArray
    links: FloatArray
    drag: FloatArray
    dry: FloatArray
    motors: FloatArray
    coupling: FloatArray
    law: FloatArray
    transition: float

    @classmethod
    def of(cls, arm: ArmModel, base: BaseParameters, law: FrictionLaw | None) -> "Constants":
        """Build the arrays from base parameters `base` and an additional friction law `law` (None without one).

        Raises:
            DataError: the parameters belong to another model structure.
        """
        phi = np.array(arm.values_of(base))
        about = {term.name: term for term in arm.drive.springs}
        sprung = [(about[name], value) for name, value in zip(arm.names, phi, strict=True) if is_spring(name)]
        springs = np.array([[t.joint, t.power, t.about, value] for t, value in sprung]).reshape(-1, 4)
        phi[[is_spring(name) for name in arm.names]] = 0.0
        bare = base.with_values(phi)
        viscous = tuple(kind for kind in RESISTING if kind in SMOOTH)
        dry, motors, coupling = _dry(arm, bare)
        return cls(
            turns=np.where(arm.prismatic, 0.0, 1.0),
            springs=springs,
            phi=phi,
            links=np.array(of_kinds(bare, KINDS, others=True).values),
            drag=np.array(of_kinds(bare, viscous).values),
            dry=dry,
            motors=motors,
            coupling=coupling,
            law=np.zeros((len(TERMS), 0)) if law is None else np.array(law.values),
            transition=0.0 if law is None else law.transition_rad_s,
        )

    @property
    def loaded(self) -> bool:
        """Whether the friction of the additional friction law depends on motor torque or load."""
        return bool(self.law.size) and FrictionLaw(self.law).depends_on_load


def _dry(arm: ArmModel, base: BaseParameters) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the sign-dependent friction that is given by base parameters, as three arrays.

    Returns:
        The friction of joints, (terms, n), with one row per term of a friction law; (terms, 0) without any.
        The Coulomb friction of m motors that move several joints, (m,).
        The rotation of these motors per rotation of the joints, (m, n).
    """
    own, motors, rows = np.zeros((len(TERMS), arm.axes)), [], []
    for place in arm.dry_places:
        kind, number = kind_and_number(arm.names[place])
        if kind == "FCM":
            motors.append(base.values[place])
            rows.append(arm.drive.coupling[number - 1])
        else:
            own[ROWS[kind], number - 1] = base.values[place]
    shape = arm.structure.stribeck
    if not own.any():
        own = own[:, :0]
    elif shape is not None:
        own[WS], own[AS] = shape.velocity_rad_s, shape.exponent
    return np.array(own), np.array(motors, dtype=np.float64), np.array(rows, dtype=np.float64).reshape(-1, arm.axes)


class Calls:
    """Compiled functions of one arm.

    Arguments of the methods must be C-contiguous, writable float64 arrays; results are new arrays.

    Args:
        arm: the arm as mounted.
        base: base parameters of the arm.
        law: additional friction law, whose friction is not given by base parameters; None without one.
        tool: point in the URDF frame of the last chain joint, (3,) [m].
    """

    def __init__(self, arm: ArmModel, base: BaseParameters, law: FrictionLaw | None, tool: FloatArray) -> None:
        self.arm, self.tool = arm, tool
        self.constants = Constants.of(arm, base, law)
        self.programs = load_state_programs(arm).addresses
        self._coriolis = self._jacobian = 0
        one = self.constants
        self._geometry = one.turns, one.springs, one.phi, one.links
        self._friction = one.dry, one.motors, one.coupling
        self._loaded, self._transition = one.loaded, one.transition

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "compiled calls exist only in their own process: let the other process create them from the model"
        )

    def torques(self, states: FloatArray) -> FloatArray:
        """Return the motor torques of N states, friction included, (N, n), in SI units.

        `states` (3, N, n) are positions, velocities and accelerations.
        """
        out, law = np.empty(states.shape[1:]), self.constants.law
        kernels.torques_of_states(
            self.programs["torques"], self._loaded, self._transition, states, *self._geometry, *self._friction, law, out
        )
        return out

    def gravity(self, q: FloatArray) -> FloatArray:
        """Return the torques (N, n) that hold the arm at rest at positions q (N, n), in SI units."""
        out = np.empty(q.shape)
        turns, springs, phi, _ = self._geometry
        kernels.gravity_of_states(self.programs["gravity"], q, turns, springs, phi, *self._friction, out)
        return out

    def inertia(self, q: FloatArray) -> FloatArray:
        """Return the inertia matrices (N, n, n) at positions q (N, n), in SI units."""
        out = np.empty((*q.shape, q.shape[1]))
        kernels.inertia_of_states(self.programs["inertia"], q, self.constants.turns, self.constants.phi, out)
        return out

    def coriolis(self, q: FloatArray, dq: FloatArray) -> FloatArray:
        """Return the Coriolis matrices (N, n, n) at positions q and velocities dq, (N, n) each, in SI units."""
        self._coriolis = self._coriolis or load_coriolis(self.arm).addresses["coriolis"]
        out = np.empty((*q.shape, q.shape[1]))
        kernels.coriolis_of_states(self._coriolis, q, dq, self.constants.turns, self.constants.phi, out)
        return out

    def jacobian(self, q: FloatArray) -> FloatArray:
        """Return the tool's Jacobians (N, 6, n), linear rows first, at positions q (N, n), in SI units."""
        self._jacobian = self._jacobian or load_jacobian(self.arm, self.tool).addresses["jacobian"]
        out = np.empty((len(q), 6, q.shape[1]))
        kernels.jacobian_of_states(self._jacobian, q, self.constants.turns, out)
        return out

    def friction(self, states: FloatArray) -> FloatArray:
        """Return the friction torques of N states, (N, n), in SI units.

        `states` (2, N, n) are joint velocities, and the load torques that the motors deliver to the links.
        """
        out, one = np.empty(states.shape[1:]), self.constants
        kernels.friction_of_states(
            self.programs["torques"], self._transition, states, one.drag, *self._friction, one.law, out
        )
        return out

    def accelerations(self, states: FloatArray) -> FloatArray:
        """Return the accelerations of N states under motor torques, (N, n), in SI units.

        `states` (3, N, n) are positions, velocities and motor torques.
        """
        out, programs = np.empty(states.shape[1:]), self.programs
        both = programs["torques"], programs["inertia"]
        law = self.constants.law
        kernels.accelerations_of_states(*both, self._transition, states, *self._geometry, *self._friction, law, out)
        return out
