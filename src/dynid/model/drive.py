"""Torques of the drives in addition to those of the rigid links: rotor inertia, friction, offsets, coupled motors.

With a coupling matrix C, u = C q are the motors' angles divided by their gear ratios. A torque t_k at the output of
gear k acts on joint i as C[k, i] t_k. The rotors add C' diag(IA) C to the inertia matrix M. The friction of motor k
adds the torques

    C[k, :]' (FVM_k du_k + FCM_k sign(du_k)),   du = C dq

to the joints' own friction FV and FC (Gautier and Venture 2013, eqs. 34 and 35). If a motor moves only its own joint,
its friction cannot be separated from that of the joint. So FVM and FCM exist for coupled motors only.

    IA   rotor inertia     FV  viscous          FC  Coulomb, sign(dq)
    OF   constant offset   FS  Stribeck, sign(dq) exp(-(|dq| / v)^e) with fixed v and e
    KS   springs of single joints, see `dynid.model.springs`

`dynid.model.friction` defines sign(dq), or its smooth replacement, and the Stribeck factor exp(-(|dq| / v)^e).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dynid.model.friction import AS, FB, TERMS, WS, FrictionLaw, torques
from dynid.model.parameters import BaseParameters
from dynid.model.springs import SpringTerm, is_spring
from dynid.robot import FloatArray, Structure, read_only

ROWS = {term.prefix: row for row, term in enumerate(TERMS)}  # rows of a joint's own friction in the law's values
SMOOTH = ("IA", "FV", "FVM")  # kinds that are linear in dq and ddq, so their torques have derivatives everywhere


KINDS = ("IA", *SMOOTH[1:], "FC", "FS", "FCM", "OF")  # kinds except springs, which load a joint like gravity
RESISTING = ("FV", "FVM", "FC", "FS", "FCM")  # kinds that resist motion, unlike an offset


def of_kinds(phi: BaseParameters, kinds: Sequence[str], *, others: bool = False) -> BaseParameters:
    """Return base parameters in which all values are 0 except those of the given kinds of drive-side parameters.

    With `others`, only the values of the given kinds are set to 0 instead. For example, `KINDS` contains all kinds of
    drive-side parameters except springs. With `of_kinds(phi, KINDS, others=True)` and zero accelerations, inverse
    dynamics returns the torques of gravity, springs and Coriolis forces alone.

    Args:
        phi: base parameters.
        kinds: kinds of drive-side parameters, such as "FV".
        others: whether all parameters except the given kinds keep their values, those of links included.
    """
    kept = [(kind_and_number(name)[0] in kinds) is not others for name in phi.names]
    return BaseParameters(phi.names, phi.values * np.array(kept, dtype=np.float64))


def is_smooth(kind: str) -> bool:
    """Return whether the torques of a kind of drive-side parameters have derivatives everywhere.

    This holds for rotor inertia, viscous friction and springs. All other kinds are treated as dry friction; these
    include constant torque offsets.
    """
    return kind in SMOOTH or is_spring(kind)


def kind_and_number(name: str) -> tuple[str, int]:
    """Return the kind and the axis number in a drive parameter's name: ('FVM', 6) for 'FVM6'."""
    kind = name.rstrip("0123456789")
    return kind, int(name[len(kind) :])


def shared_joints(coupling: FloatArray) -> tuple[int, ...]:
    """Return the indices, from 0, of the joints whose torque several motors share.

    Args:
        coupling: matrix C (n, n) [-] from joint to motor angles; the torques at the joints are C' times the motors'.
    """
    return tuple(int(j) for j in np.flatnonzero(np.count_nonzero(coupling, axis=0) > 1))


@dataclass(frozen=True, eq=False)
class DriveTerms:
    """Drive-side parameters of n axes: rotor inertia, friction, offsets and springs.

    Attributes:
        axes: number of axes n.
        structure: terms that the model has.
        coupling: matrix C (n, n) from joint to motor angles; the identity if every motor moves its own joint alone.
        springs: terms of springs at chain joints.
    """

    axes: int
    structure: Structure
    coupling: FloatArray
    springs: tuple[SpringTerm, ...] = ()

    @classmethod
    def of(
        cls, axes: int, structure: Structure, coupling: FloatArray | None = None, springs: tuple[SpringTerm, ...] = ()
    ) -> "DriveTerms":
        """Return the drive terms of an arm with `axes` axes.

        Args:
            axes: number of axes n.
            structure: terms that the model has.
            coupling: matrix (n, n) [-] from joint to motor angles; None means the identity.
            springs: terms of springs at chain joints.
        """
        return cls(axes, structure, read_only(np.eye(axes) if coupling is None else coupling), springs)

    @cached_property
    def coupled(self) -> tuple[int, ...]:
        """Indices, from 0, of the coupled motors: those whose row of the coupling matrix differs from the identity."""
        return tuple(int(k) for k in np.flatnonzero((self.coupling != np.eye(self.axes)).any(axis=1)))

    def _numbered(self, kind: str) -> list[str]:
        return [f"{kind}{j + 1}" for j in range(self.axes)]

    @cached_property
    def _extra(self) -> tuple[str, ...]:
        """Names of all drive-side standard parameters except IA, FV and FC, which every axis has."""
        structure = self.structure
        names = self._numbered("OF") if structure.friction_offset else []
        names += self._numbered("FS") if structure.stribeck else []
        for kind, there in (("FVM", structure.viscous_friction), ("FCM", structure.coulomb_friction)):
            names += [f"{kind}{k + 1}" for k in self.coupled if there]
        return (*names, *(term.name for term in self.springs))

    @cached_property
    def standard_names(self) -> tuple[str, ...]:
        """Names of the drive-side standard parameters.

        Rotor inertia IA, viscous friction FV and Coulomb friction FC of every axis come first, then further terms that
        the model's structure includes.
        """
        return (*self._numbered("IA"), *self._numbered("FV"), *self._numbered("FC"), *self._extra)

    @cached_property
    def modelled_names(self) -> tuple[str, ...]:
        """Names of the drive-side standard parameters that the model includes.

        IA, FV and FC are missing if the model's structure excludes them, while `standard_names` always has them.
        """
        structure = self.structure
        there = {"IA": structure.rotor_inertia, "FV": structure.viscous_friction, "FC": structure.coulomb_friction}
        return tuple(name for name in self.standard_names if there.get(kind_and_number(name)[0], True))

    def columns(
        self, names: Sequence[str], q: FloatArray, dq: FloatArray, ddq: FloatArray, transition_rad_s: float = 0.0
    ) -> FloatArray:
        """Return the regressor columns of drive-side parameters, (N, n, len(names)) [N m per SI unit].

        Args:
            names: names of the parameters.
            q: joint positions, (N, n) [rad; m if prismatic].
            dq: joint velocities, (N, n) [rad/s; m/s].
            ddq: joint accelerations, (N, n) [rad/s^2; m/s^2].
            transition_rad_s: transition velocity v: tanh(dq / v) replaces sign(dq); 0 keeps sign(dq).
        """
        W = np.zeros((*dq.shape, len(names)))
        self.fill_columns(W, names, q, dq, ddq, transition_rad_s)
        return W

    def fill_columns(
        self,
        W: FloatArray,
        names: Sequence[str],
        q: FloatArray,
        dq: FloatArray,
        ddq: FloatArray,
        transition_rad_s: float = 0.0,
    ) -> None:
        """Write the regressor columns of drive-side parameters into an array.

        Args:
            W: result, (N, n, len(names)) [N m per SI unit]; zero on entry.
            names: names of the parameters.
            q: joint positions, (N, n) [rad; m if prismatic].
            dq: joint velocities, (N, n) [rad/s; m/s].
            ddq: joint accelerations, (N, n) [rad/s^2; m/s^2].
            transition_rad_s: transition velocity v: tanh(dq / v) replaces sign(dq); 0 keeps sign(dq).
        """
        for column, joint, torque in self._torques(names, q, dq, ddq, transition_rad_s):
            W[:, joint, column] = torque

    def torque(
        self, names: Sequence[str], values: FloatArray, q: FloatArray, dq: FloatArray, ddq: FloatArray
    ) -> FloatArray:
        """Return the torques of drive-side parameters, (N, n) [N m]: regressor columns times values.

        Args:
            names: names of the parameters, (k,).
            values: values of the parameters, (k,), SI.
            q: joint positions, (N, n) [rad; m if prismatic].
            dq: joint velocities, (N, n) [rad/s; m/s].
            ddq: joint accelerations, (N, n) [rad/s^2; m/s^2].
        """
        there, tau = np.flatnonzero(values), np.zeros(dq.shape)
        for one, joint, torque in self._torques([names[k] for k in there.tolist()], q, dq, ddq):
            tau[:, joint] += values[there[one]] * torque
        return tau

    def _torques(
        self, names: Sequence[str], q: FloatArray, dq: FloatArray, ddq: FloatArray, transition_rad_s: float = 0.0
    ) -> Iterator[tuple[int, int, FloatArray]]:
        """Yield the nonzero regressor entries of drive-side parameters: index in `names`, joint, torque per unit (N,).

        A parameter of a coupled motor has a torque at each joint that this motor moves.

        Args:
            names: names of the parameters.
            q: joint positions, (N, n) [rad; m if prismatic].
            dq: joint velocities, (N, n) [rad/s; m/s].
            ddq: joint accelerations, (N, n) [rad/s^2; m/s^2].
            transition_rad_s: transition velocity v: tanh(dq / v) replaces sign(dq); 0 keeps sign(dq).
        """
        terms, law = {term.name: term for term in self.springs}, self._shape(transition_rad_s)
        dry = not all(is_smooth(kind_and_number(name)[0]) for name in names)
        own, motors = (law.gradient(rates) if dry else np.empty(0) for rates in (dq, dq @ self.coupling.T))
        for column, name in enumerate(names):
            kind, number = kind_and_number(name)
            k = number - 1
            if name in terms:
                yield column, k, terms[name].torque(q[:, k])
            elif kind in ("IA", "FVM", "FCM"):
                if kind == "IA":
                    torque = ddq @ self.coupling[k] if k in self.coupled else ddq[:, k]
                else:
                    torque = dq @ self.coupling[k] if kind == "FVM" else motors[:, k, FB]
                for joint in np.flatnonzero(self.coupling[k]):
                    yield column, int(joint), self.coupling[k, joint] * torque
            else:
                yield column, k, dq[:, k] if kind == "FV" else own[:, k, ROWS[kind]]

    def _shape(self, transition_rad_s: float) -> FrictionLaw:
        """Return a friction law with the Stribeck velocity and exponent of the model; all other parameters are 0.

        Friction torques are linear in these other parameters. So the gradient of this law with respect to them gives
        their regressor columns. Without Stribeck friction, velocity and exponent are 0, too.

        Args:
            transition_rad_s: transition velocity v: tanh(dq / v) replaces sign(dq); 0 keeps sign(dq).
        """
        stribeck = self.structure.stribeck
        figures = {} if stribeck is None else {"ws": stribeck.velocity_rad_s, "a": stribeck.exponent}
        return FrictionLaw.of(self.axes, figures, transition_rad_s)

    def inertia(self, rotor_inertias: FloatArray) -> FloatArray:
        """Return C' diag(IA) C, the part of the inertia matrix that rotor inertias IA cause, (n, n) [kg m^2].

        C is the coupling matrix from joint to motor angles; `rotor_inertias` IA are (n,) [kg m^2].
        """
        return np.asarray(self.coupling.T @ (rotor_inertias[:, None] * self.coupling))


class DryTerms:
    """Calculator of the torques of dry friction and offsets of the drives, at one state or many.

    Args:
        drive: drive-side parameters of the arm.
        names: names of drive-side parameters, (k,); rotor inertia, viscous friction and springs are ignored.
    """

    def __init__(self, drive: DriveTerms, names: Sequence[str]) -> None:
        found = [(place, *kind_and_number(name)) for place, name in enumerate(names)]
        own = [one for one in found if one[1] in ROWS and one[1] not in SMOOTH]
        self._own = [place for place, _, _ in own]
        self._rows = [ROWS[kind] for _, kind, _ in own], [number - 1 for _, _, number in own]
        at_motors = [one for one in found if one[1] == "FCM"]
        self._motors = [place for place, _, _ in at_motors]
        self._coupling = drive.coupling[[number - 1 for _, _, number in at_motors]]
        self._blank, shape = np.zeros((len(TERMS), drive.axes)), drive.structure.stribeck
        if shape is not None:
            self._blank[WS], self._blank[AS] = shape.velocity_rad_s, shape.exponent

    def torque(self, values: FloatArray, dq: FloatArray, transition_rad_s: float = 0.0) -> FloatArray:
        """Return the torques of dry friction and offsets, (N, n) [N m].

        Args:
            values: parameter values in the order of `names`, (k,), SI.
            dq: joint velocities, (N, n) [rad/s].
            transition_rad_s: transition velocity v: tanh(dq / v) replaces sign(dq); 0 keeps sign(dq).
        """
        tau, none = np.zeros_like(dq), np.zeros_like(dq)
        if self._own:
            terms = self._blank.copy()
            terms[self._rows] = values[self._own]
            torques(terms, transition_rad_s, np.ascontiguousarray(dq), none, none, tau)
        if self._motors:
            terms, rates = np.zeros((len(TERMS), len(self._motors))), dq @ self._coupling.T
            terms[FB], none, lost = values[self._motors], np.zeros_like(rates), np.empty_like(rates)
            torques(terms, transition_rad_s, rates, none, none, lost)
            tau += lost @ self._coupling
        return tau
