"""Friction that depends on load and speed, for simulations with MuJoCo.

MuJoCo has one `frictionloss` and one `damping` per joint. Before every step, `frictionloss` is computed anew from
speed, motor torque and load, as in BAM (github.com/Rhoban/bam):

    model = mujoco.MjModel.from_xml_path("runs/model/model.xml")
    data = mujoco.MjData(model)
    gears = MujocoFriction(model, law, joint_names)
    while True:
        data.ctrl[:] = ...
        gears.update(data)
        mujoco.mj_step(model, data)

or, once, `mujoco.set_mjcb_control(lambda _, data: gears.update(data))`. A step uses the friction computed
from the state before the step, so steps should be short, such as 1 ms. A friction offset is a constant torque. It is
written as a soft spring of the joint with a distant rest position, whose torque hardly depends on the joint's position.
"""

from collections.abc import Sequence

import mujoco
import numpy as np
from numpy.typing import NDArray

from dynid.errors import DataError, UnknownNameError
from dynid.model.friction import FrictionLaw
from dynid.robot import FloatArray

DOF_FRICTION = int(mujoco.mjtConstraint.mjCNSTR_FRICTION_DOF)
_DISABLE = mujoco.mjtDisableBit
SPRINGS_DISABLED = int(_DISABLE.mjDSBL_SPRING if hasattr(_DISABLE, "mjDSBL_SPRING") else _DISABLE.mjDSBL_PASSIVE)
# Maximum number of iterations, and relative tolerance of torques; each iteration scales the error by km + kms
MOST_ROUNDS, TORQUE_TOLERANCE = 200, 1e-10
OFFSET_STIFFNESS = 1e-9  # stiffness of the spring for an offset [N m/rad]: its torque varies by less than 1e-8 N m


class MujocoFriction:
    """Friction law that is written into the joints of a MuJoCo model.

    The load is the torque that gravity, springs, Coriolis forces, contact, limits and `xfrc_applied` exert on a joint.
    Torques of actuators and of `qfrc_applied` are motor torques.

    Args:
        model: MuJoCo model, which is modified.
        law: friction law of n axes.
        joints: names of the axes' joints in the model, (n,), each revolute or prismatic.

    Raises:
        UnknownNameError: the model lacks a joint.
        DataError: the numbers of joints and axes differ, or a joint's friction offset cannot be written, because the
            joint already has a spring or springs are disabled.
    """

    def __init__(self, model: mujoco.MjModel, law: FrictionLaw, joints: Sequence[str]) -> None:
        if len(joints) != law.axes:
            raise DataError(f"friction of {law.axes} axes for {len(joints)} joints; expected one joint per axis")
        known = [model.joint(number).name for number in range(model.njnt)]
        for name in joints:
            if name not in known:
                raise UnknownNameError("joint", name, known)
        self._model, self._law = model, law
        self._dofs = np.array([int(model.joint(name).dofadr[0]) for name in joints])
        self._loss = model.dof_frictionloss
        damping = model.dof_damping
        self._damping = damping if damping.ndim == 1 else damping[:, 0]  # newer MuJoCo stores polynomial coefficients
        self._damping[self._dofs] = law["fv"]
        self._loss[self._dofs] = law.budget(np.zeros(law.axes))
        for name, offset in zip(joints, law["of"], strict=True):
            self._write_offset(name, float(offset))

    @property
    def dofs(self) -> NDArray[np.int_]:
        """Indices of the axes in qvel and qfrc_applied, (n,)."""
        return self._dofs

    def update(self, data: mujoco.MjData) -> None:
        """Write the joints' friction for the next step into the MuJoCo model, from the state after the last step."""
        motor = data.qfrc_actuator[self._dofs] + data.qfrc_applied[self._dofs]
        self._loss[self._dofs] = self._law.budget(data.qvel[self._dofs], motor, self._load(data))

    def inverse(self, data: mujoco.MjData) -> FloatArray:
        """Return the motor torques (n,) [N m] that cause `data.qacc` at `data.qpos` and `data.qvel`.

        `mujoco.mj_inverse` computes these torques. Joint friction depends on them, so friction and torques are computed
        in turn until they agree. The friction of the last iteration stays in the model.

        Raises:
            DataError: torques and friction do not converge. This happens near states in which motor torque and load are
                equal, because the friction law is discontinuous there.
        """
        motor = np.zeros(len(self._dofs))
        for _ in range(MOST_ROUNDS):
            mujoco.mj_inverse(self._model, data)
            found = np.array(data.qfrc_inverse[self._dofs])
            if np.abs(found - motor).max() <= TORQUE_TOLERANCE * (1.0 + np.abs(found).max()):
                return found
            motor = found
            self._loss[self._dofs] = self._law.budget(data.qvel[self._dofs], motor, self._load(data))
        raise DataError(
            f"the motor torques {found.round(4).tolist()} N m and the friction that they cause do not settle within "
            f"{MOST_ROUNDS} rounds at {data.qvel[self._dofs].round(4).tolist()} rad/s: evaluate a state close to "
            "this one"
        )

    def _load(self, data: mujoco.MjData) -> FloatArray:
        """Return the loads on the joints, (n,) [N m], without joint friction and offsets.

        A load is the torque of gravity, springs, Coriolis forces, contact, limits and `xfrc_applied` on a joint.
        """
        whole = data.qfrc_constraint + data.qfrc_spring - data.qfrc_bias
        return np.asarray(whole[self._dofs]) + self._law["of"] - self._holding(data) + self._pushed(data)

    def _write_offset(self, name: str, offset: float) -> None:
        """Write a joint's friction offset, a constant torque [N m], as a soft spring with a distant rest position.

        The torque of such a spring hardly depends on the joint's position.

        Raises:
            DataError: the joint already has a spring, or springs are disabled.
        """
        number = self._model.joint(name).id
        stiffness = self._model.jnt_stiffness
        linear = stiffness if stiffness.ndim == 1 else stiffness[:, 0]
        if offset == 0.0 and linear[number] != OFFSET_STIFFNESS:
            return
        if linear[number] not in (0.0, OFFSET_STIFFNESS) or self._model.opt.disableflags & SPRINGS_DISABLED:
            raise DataError(
                f"joint '{name}' has an offset of {offset:.4g} N m, but a spring of its own, or springs are disabled "
                "in the MuJoCo model; an offset is written as a spring: enable springs, or remove that of the joint"
            )
        linear[number] = OFFSET_STIFFNESS
        self._model.qpos_spring[self._model.jnt_qposadr[number]] = -offset / OFFSET_STIFFNESS

    def _pushed(self, data: mujoco.MjData) -> FloatArray:
        """Return the joint torques of the external forces on bodies, `data.xfrc_applied`, (n,) [N m]."""
        whole = np.zeros(self._model.nv)
        for body in np.flatnonzero(data.xfrc_applied.any(axis=1)):
            force, torque = data.xfrc_applied[body, :3], data.xfrc_applied[body, 3:]
            mujoco.mj_applyFT(self._model, data, force, torque, data.xipos[body], body, whole)
        return np.asarray(whole[self._dofs])

    def _holding(self, data: mujoco.MjData) -> FloatArray:
        """Return the part of the constraint forces that is joint friction, (n,) [N m]."""
        whole = np.zeros(self._model.nv)
        friction = data.efc_type == DOF_FRICTION
        np.add.at(whole, data.efc_id[friction], data.efc_force[friction])
        return np.asarray(whole[self._dofs])
