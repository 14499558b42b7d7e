"""Torques that depend on one joint's position alone: `springs` of robot.yaml, as columns behind an arm's own."""

import numpy as np

from dynid.model.dynamics import ArmModel
from dynid.robot import FloatArray, Robot


class SpringArm(ArmModel):
    """A model whose parameters are the base parameters of another, and the coefficients of its robot's springs.

    A coefficient of power k is called KS<k>0<joint>, in N m/rad^k.
    """

    def __init__(self, model: ArmModel, robot: Robot) -> None:
        self.__dict__.update(model.__dict__)
        self._model = model
        self._powers = [
            (robot.joint_names.index(spring.joint), float(np.deg2rad(spring.about_deg)), power)
            for spring in robot.file.springs
            for power in spring.powers
        ]

    @property
    def names(self) -> tuple[str, ...]:
        """Base parameters' names, then the springs' coefficients, (p + k,)."""
        return (*self._model.names, *(f"KS{power}0{joint + 1}" for joint, _, power in self._powers))

    def regressor(self, q: FloatArray, dq: FloatArray, ddq: FloatArray) -> FloatArray:
        """As of the model, with the springs' columns behind, (N, n, p + k)."""
        W = self._model.regressor(q, dq, ddq)
        more = np.zeros((len(W), W.shape[1], len(self._powers)))
        for k, (joint, about, power) in enumerate(self._powers):
            more[:, joint, k] = (np.asarray(q)[:, joint] - about) ** power
        return np.concatenate([W, more], axis=2)


def log_arm(robot: Robot, mount: str | None = None, *, springs: bool = True) -> ArmModel:
    """The model that logs of a robot are identified with."""
    model = ArmModel.of(robot, mount=mount)
    return SpringArm(model, robot) if springs and robot.file.springs else model
