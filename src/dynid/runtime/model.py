"""Identified model: an arm's base parameters and friction, with compiled functions for one state or many."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from statistics import NormalDist
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from dynid.errors import DataError, UnknownNameError
from dynid.model.dynamics import ArmModel
from dynid.model.friction import TERMS, FrictionLaw
from dynid.model.model_file import ModelFile, read_model_file
from dynid.model.parameters import BaseParameters, StandardParameters
from dynid.robot import FloatArray, Robot, load_robot
from dynid.runtime.calls import Calls
from dynid.runtime.controller import SETTING_NAMES, ControlledModel, LoopController, LoopSettings, PerJoint
from dynid.verdict import Verdict

if TYPE_CHECKING:
    import mujoco
    import pinocchio

    from dynid.export.mujoco_friction import MujocoFriction
    from dynid.model.friction_arrays import ArrayFriction


@dataclass(frozen=True, eq=False, repr=False)
class Model:
    """Arm with identified parameters, and methods that compute torques, accelerations and matrices.

    The methods take one state (n,) or many states (N, n), in SI units, and return results for one or N states. The
    first call compiles the functions, which takes some seconds once per arm; later processes load them from the cache.

    Attributes:
        robot: the arm.
        base: base parameters.
        friction_law: additional friction law, whose friction is not given by base parameters; None without one. The
            method `friction` returns the sum of all friction.
        mount: name of the arm's mount; None is the robot's default.
        torque_constants: torque constants with which the identification converted currents to torques, (n,) [N m/A]; ()
            if unknown or if torques were measured.
        lengths_m: modified DH lengths that replace those of the robot [m], by name.
        unconstrained: base parameters before the projection to physically consistent ones, (p,); None if unknown.
        accepted: whether the model passed its checks.
        verdict: results of all checks of the model.
        arms: cache of geometry and structure, by mount.
        standard: physically consistent standard parameters of the links; None if they are not known.
    """

    robot: Robot
    base: BaseParameters
    friction_law: FrictionLaw | None = None
    mount: str | None = None
    torque_constants: tuple[float, ...] = ()
    lengths_m: Mapping[str, float] = field(default_factory=dict)
    unconstrained: FloatArray | None = None
    accepted: bool = False
    verdict: Verdict = field(default_factory=lambda: Verdict(()))
    arms: dict[str | None, ArmModel] = field(default_factory=dict, repr=False)
    standard: StandardParameters | None = None

    @classmethod
    def of_file(cls, robot: Robot, content: ModelFile) -> "Model":
        """Return the model of a robot from the content of its model.yaml.

        Raises:
            DataError: the content belongs to another robot or model structure.
        """
        arm = ArmModel.of(robot, mount=content.mount, lengths_m=content.geometry_overrides_m)
        before = content.provenance.get("unconstrained", {})
        return cls(
            robot=robot,
            base=content.base_parameters(arm),
            friction_law=content.friction(),
            mount=content.mount,
            torque_constants=content.torque_constants_nm_per_a,
            lengths_m=content.geometry_overrides_m,
            unconstrained=np.array([before[name] for name in arm.names]) if set(arm.names) <= set(before) else None,
            accepted=content.accepted,
            verdict=Verdict(content.verdict),
            arms={content.mount: arm},
            standard=None if content.standard is None else content.standard_parameters(arm),
        )

    def __repr__(self) -> str:
        law = self.friction_law
        friction_text = (
            "" if law is None else ", friction " + " ".join(t.prefix for t in TERMS if t.symbol in law.terms)
        )
        state = "accepted" if self.accepted else "not accepted"
        mount = self.mount or self.robot.file.default_mount
        return (
            f"Model({self.robot.name}, {state}, {len(self.base.names)} base parameters{friction_text}, mounted {mount})"
        )

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes to pickle: all except `calls`, which contains addresses of compiled code."""
        return {key: value for key, value in vars(self).items() if key != "calls"}

    def arm(self, mount: str | None = None) -> ArmModel:
        """Return the arm's geometry, model structure and gravity at a mount; None is the model's own mount."""
        chosen = mount or self.mount
        if chosen not in self.arms:
            self.arms[chosen] = ArmModel.of(self.robot, mount=chosen, lengths_m=dict(self.lengths_m))
        return self.arms[chosen]

    def mounted(self, mount: str) -> "Model":
        """Return this model with another mount, whose gravity direction differs."""
        self.arm(mount)
        return replace(self, mount=mount, arms=dict(self.arms))

    @cached_property
    def calls(self) -> Calls:
        """Compiled functions of this model, which the methods call."""
        return Calls(self.arm(), self.base, self.friction_law, np.array(self.robot.file.tool_m))

    def torques(self, q: FloatArray, dq: FloatArray, ddq: FloatArray) -> FloatArray:
        """Return the motor torques of a motion, including friction, (n,) or (N, n) [N m].

        Args:
            q: positions, (n,) or (N, n) [rad].
            dq: velocities, of the same shape [rad/s].
            ddq: accelerations, of the same shape [rad/s^2].
        """
        states, shape = self._states(q, dq, ddq)
        return self.calls.torques(states).reshape(shape)

    def gravity(self, q: FloatArray) -> FloatArray:
        """Return the torques that hold the arm at rest at q [rad] against gravity and springs, (n,) or (N, n) [N m].

        Constant friction offsets are added if they are base parameters, but not those of `friction_law`.
        """
        states, shape = self._states(q)
        return self.calls.gravity(states[0]).reshape(shape)

    def inertia_matrix(self, q: FloatArray) -> FloatArray:
        """Return the inertia matrix M(q), rotors included, (n, n) or (N, n, n) [kg m^2], at q (n,) or (N, n) [rad]."""
        states, shape = self._states(q)
        return self.calls.inertia(states[0]).reshape(*shape, shape[-1])

    def coriolis(self, q: FloatArray, dq: FloatArray) -> FloatArray:
        """Return the Coriolis matrix C(q, dq), (n, n) or (N, n, n) [N m s/rad], at q [rad] and dq [rad/s].

        C dq is the Coriolis and centrifugal torque, and dM/dt - 2 C is skew-symmetric.
        """
        states, shape = self._states(q, dq)
        return self.calls.coriolis(states[0], states[1]).reshape(*shape, shape[-1])

    def friction(self, dq: FloatArray, load: FloatArray) -> FloatArray:
        """Return the friction torques of joints under a load, (n,) or (N, n) [N m].

        Args:
            dq: velocities, (n,) or (N, n) [rad/s]; at 0 the direction is unknown, and sign-dependent friction is 0.
            load: torques that the motors deliver to the links, such as `gravity(q)`, of the same shape [N m].
        """
        states, shape = self._states(dq, load)
        return self.calls.friction(states).reshape(shape)

    def forward_dynamics(self, q: FloatArray, dq: FloatArray, tau: FloatArray) -> FloatArray:
        """Return the accelerations under motor torques, (n,) or (N, n) [rad/s^2]; the inverse of `torques`.

        Stiction is not modelled: sign-dependent friction is 0 at zero velocity.

        There is an exception to the inverse: `friction_law` may contain terms that are quadratic in torque. They are
        discontinuous where motor torque and load have equal magnitudes, so there may be accelerations that no motor
        torque produces. For these, `torques` returns a motor torque at the discontinuity.

        Args:
            q: positions, (n,) or (N, n) [rad].
            dq: velocities, of the same shape [rad/s].
            tau: motor torques, of the same shape [N m].
        """
        states, shape = self._states(q, dq, tau)
        return self.calls.accelerations(states).reshape(shape)

    def jacobian(self, q: FloatArray) -> FloatArray:
        """Return the tool's Jacobian, (6, n) or (N, 6, n), in the base link's frame at positions [rad].

        Rows are the linear velocity [m/s] of the point `tool_m` of robot.yaml, then the angular velocity [rad/s].
        """
        states, shape = self._states(q)
        return self.calls.jacobian(states[0]).reshape(*shape[:-1], 6, shape[-1])

    def intervals(self, level: float = 0.95) -> dict[str, tuple[float, float]]:
        """Return the confidence interval of each parameter at level `level`, by name, as (lower, upper) in SI units.

        Parameters of the friction law are named by term and axis, such as FC3. Parameters without a standard deviation
        are omitted.

        Raises:
            DataError: no parameter has a standard deviation, or `level` is not between 0 and 1.
        """
        if not 0.0 < level < 1.0:
            raise DataError(f"the level of intervals is {level}; expected a probability between 0 and 1, such as 0.95")
        factor, found = NormalDist().inv_cdf(0.5 + 0.5 * level), {}
        if (deviations := self.base.standard_deviations) is not None:
            rows = zip(self.base.names, self.base.values, deviations, strict=True)
            found = {name: (value - factor * sd, value + factor * sd) for name, value, sd in rows}
        if self.friction_law is not None and self.friction_law.deviations is not None:
            middle, half = self.friction_law.values, factor * self.friction_law.deviations
            for row, axis in np.argwhere(np.isfinite(half)):
                around = middle[row, axis] - half[row, axis], middle[row, axis] + half[row, axis]
                found[f"{TERMS[row].prefix}{axis + 1}"] = around
        if not found:
            raise DataError(f"the model of {self.robot.name} has no standard deviations: identify it from recordings")
        return {name: (float(low), float(high)) for name, (low, high) in found.items()}

    def controller(
        self,
        rate_hz: float,
        *,
        proportional_gain_1_s2: PerJoint | None = None,
        velocity_gain_1_s: PerJoint | None = None,
        torque_limits_nm: PerJoint | None = None,
        velocity_filter_s: float | None = None,
        gravity_share: float = 1.0,
        friction_share: float = 1.0,
        rejected: bool = False,
    ) -> LoopController:
        """Return a computed-torque controller for your own loop; see `dynid.runtime.controller`.

        Values per joint are one number for all joints, or an array (n,).

        Args:
            rate_hz: steps of your loop per second [Hz].
            proportional_gain_1_s2: proportional gain K_P per joint [1/s^2]; None: from controller.yaml.
            velocity_gain_1_s: velocity gain K_V per joint [1/s]; None: from controller.yaml.
            torque_limits_nm: torque limit per joint [N m]; None: the drives' limits in robot.yaml.
            velocity_filter_s: time constant of the velocity estimate [s]; None: from controller.yaml.
            gravity_share: fraction of the gravity torque that is fed forward, 0 to 1; below 1 if something else
                carries the arm.
            friction_share: fraction of friction that is fed forward, 0 to 1.
            rejected: whether to accept a model that did not pass its checks, for study without an arm.

        Raises:
            SafetyError: the model did not pass its checks, or it must not move this arm, for example because its
                inertia matrix is not positive definite or its torques are far beyond the limits.
            ConfigurationError: a value is out of range, or is neither given nor in the robot's folder.
        """
        stated = (proportional_gain_1_s2, velocity_gain_1_s, torque_limits_nm, velocity_filter_s)
        shares = {"gravity_share": gravity_share, "friction_share": friction_share}
        settings = LoopSettings.of(self.robot, rate_hz, dict(zip(SETTING_NAMES, stated, strict=True)), shares)
        constants = self.torque_constants
        fed = ControlledModel(self.robot, self.arm(), self.base, self.friction_law, self.accepted, constants)
        if not rejected:
            fed.refuse_unfit()
        return LoopController(fed, settings)

    def pinocchio(self) -> "pinocchio.Model":
        """Return a pinocchio model of the chain joints, with rotor inertias as armature and without friction.

        Use the method `friction` for friction torques.

        Raises:
            DataError: the model has no standard parameters, replaces lengths of the URDF, or has rotors that couple
                joints.
        """
        from dynid.runtime.to_pinocchio import pinocchio_model

        return pinocchio_model(self.robot, self.arm(), self.standard, self.lengths_m)

    def mujoco_friction(self, plant: "mujoco.MjModel") -> "MujocoFriction":
        """Return an object that writes this model's friction into the MuJoCo model `plant` before each step.

        `plant` may be loaded from the model.xml of the result folder.

        Raises:
            UnknownNameError: `plant` lacks a joint of the robot.
            DataError: a joint has both a spring and a friction offset, or springs are disabled in `plant`.
        """
        from dynid.export.mujoco_friction import MujocoFriction
        from dynid.export.simple_friction import whole_friction

        law = whole_friction(self.robot, self.base, self.friction_law)
        return MujocoFriction(plant, law, self.robot.joint_names)

    def friction_arrays(self, xp: ModuleType) -> "ArrayFriction":
        """Return functions for all friction of the model, on arrays of the module `xp`, such as numpy or jax.numpy.

        Raises:
            DataError: the model has friction of motors that move several joints.
        """
        from dynid.export.simple_friction import refuse_coupled_motors, whole_friction
        from dynid.model.friction_arrays import ArrayFriction

        refuse_coupled_motors(self.base, "friction on arrays")
        return ArrayFriction.of(whole_friction(self.robot, self.base, self.friction_law), xp)

    def _states(self, *given: FloatArray) -> tuple[FloatArray, tuple[int, ...]]:
        """Stack k arrays, such as q and dq, into a new array (k, N, n); return it with their common original shape.

        Raises:
            DataError: the arrays are not numbers, or their shapes are not all (n,) or all (N, n).
        """
        try:
            arrays = [np.asarray(one, dtype=np.float64) for one in given]
        except (TypeError, ValueError) as error:
            raise DataError(f"a state of {self.robot.name} is no array of numbers: {error}") from error
        shape, n = arrays[0].shape, self.robot.size
        if not shape or len(shape) > 2 or shape[-1] != n or any(one.shape != shape for one in arrays):
            shapes = ", ".join(str(one.shape) for one in arrays)
            raise DataError(f"states of {self.robot.name} have the shapes {shapes}; expected ({n},) or (N, {n}) each")
        states = np.empty((len(arrays), shape[0] if len(shape) == 2 else 1, n))
        for k, one in enumerate(arrays):
            states[k] = one
        return states, shape


def load_model(path: Path | str, robot: Robot | None = None) -> Model:
    """Read an identified model from a model.yaml.

    Args:
        path: the file, or a result folder that contains it.
        robot: robot of the model; None loads the robot that the file names.

    Raises:
        InputNotFoundError: the file does not exist.
        ConfigurationError: the file is not a valid model.yaml.
        DataError: the model belongs to another robot or model structure.
    """
    path = Path(path)
    content = read_model_file(path / "model.yaml" if path.is_dir() else path)
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
