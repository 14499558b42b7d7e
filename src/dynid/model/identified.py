"""A model as one thing: an arm's base parameters and friction, which predict torques at any of its mounts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from dynid.errors import DataError, UnknownNameError
from dynid.model.drive import KINDS, of_kinds
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FrictionLaw
from dynid.model.model_file import ModelFile
from dynid.model.model_file import load_model as load_model_file
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray, Robot, load_robot
from dynid.verdict import Verdict


@dataclass(frozen=True, eq=False)
class Model:
    """An arm with the parameters that were identified for it.

    Attributes:
        robot: the arm.
        base: base parameters.
        friction: beside them; None without.
        mount: how the arm is mounted; None is the robot's default.
        torque_constants: that the parameters rest on [N m/A], (n,); () if they are not known or torques were measured.
        lengths_m: modified DH lengths that replace the robot's own.
        unconstrained: base parameters before the consistent projection, (p,); None if they are not known.
        accepted: whether the model passed its checks.
        verdict: the checks.
        arms: geometry at the mounts that were asked for so far.
    """

    robot: Robot
    base: BaseParameters
    friction: FrictionLaw | None = None
    mount: str | None = None
    torque_constants: tuple[float, ...] = ()
    lengths_m: Mapping[str, float] = field(default_factory=dict)
    unconstrained: FloatArray | None = None
    accepted: bool = False
    verdict: Verdict = field(default_factory=lambda: Verdict(()))
    arms: dict[str | None, ArmModel] = field(default_factory=dict, repr=False)

    @classmethod
    def of_file(cls, robot: Robot, content: ModelFile) -> "Model":
        """The model that a model.yaml holds.

        Raises:
            DataError: it is of another robot or structure.
        """
        arm = ArmModel.of(robot, mount=content.mount, lengths_m=content.geometry_overrides_m)
        before = content.provenance.get("unconstrained", {})
        return cls(
            robot=robot,
            base=content.base_parameters(arm),
            friction=content.friction(),
            mount=content.mount,
            torque_constants=content.torque_constants_nm_per_a,
            lengths_m=content.geometry_overrides_m,
            unconstrained=np.array([before[name] for name in arm.names]) if set(arm.names) <= set(before) else None,
            accepted=content.accepted,
            verdict=Verdict(content.verdict),
            arms={content.mount: arm},
        )

    def arm(self, mount: str | None = None) -> ArmModel:
        """Geometry, structure and gravity at a mount; None is the model's own."""
        chosen = mount or self.mount
        if chosen not in self.arms:
            self.arms[chosen] = ArmModel.of(self.robot, mount=chosen, lengths_m=dict(self.lengths_m))
        return self.arms[chosen]

    def torques(self, q: FloatArray, dq: FloatArray, ddq: FloatArray) -> FloatArray:
        """Joint torques (N, n) [N m] that states (N, n) [rad, rad/s, rad/s^2] need, friction included."""
        arm, still = self.arm(), 0.0 * np.asarray(ddq)
        tau = arm.inverse_dynamics(q, dq, ddq, self.base)
        if self.friction is None:
            return tau
        load = -arm.inverse_dynamics(q, dq, still, of_kinds(self.base, KINDS, others=True))
        return self.friction.motor_torque(np.atleast_2d(dq), tau, load)

    def gravity(self, q: FloatArray) -> FloatArray:
        """Torques (N, n) [N m] that hold the arm at positions (N, n) [rad]."""
        return self.arm().inverse_dynamics(q, 0.0 * np.asarray(q), 0.0 * np.asarray(q), self.base)

    def inertia_matrix(self, q: FloatArray) -> FloatArray:
        """M(q), (N, n, n) [kg m^2], at positions (N, n) [rad]."""
        return self.arm().inertia_matrix(q, self.base)


def load_model(path: Path | str, robot: Robot | None = None) -> Model:
    """Read a model.yaml, or the result folder that holds one.

    Args:
        path: the file or the folder.
        robot: that the model is of; None loads the one that the file names.

    Raises:
        InputNotFoundError, ConfigurationError: no such file, or it is no model.yaml.
        DataError: it is of another robot or structure.
    """
    path = Path(path)
    content = load_model_file(path / "model.yaml" if path.is_dir() else path)
    try:
        loaded = robot or load_robot(content.robot)
    except UnknownNameError as error:
        raise DataError(
            f"{path} is a model of '{content.robot}', which does not come with dynid: give the robot, too, such as "
            "load_model(path, load_robot('folder with its robot.yaml'))"
        ) from error
    if content.robot != loaded.name:
        raise DataError(f"{path} is a model of '{content.robot}', not of '{loaded.name}': name the robot of the model")
    return Model.of_file(loaded, content)
