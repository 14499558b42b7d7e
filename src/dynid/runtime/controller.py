"""Computed-torque controller for a user's own control loop; one compiled step needs no allocation and no locks.

    controller = model.controller(500.0)          # 500 Hz, gains of the robot's controller.yaml
    controller.reset(q)
    while True:
        tau = controller.step(q, q_ref, dq_ref, ddq_ref)

The control law is that of `dynid.control.model_laws.ComputedTorque`: friction and Coriolis torques are computed from
the reference velocity. Friction feed-forward from the measured velocity, which the encoder quantises, would chatter,
and would never start a joint in stiction.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dynid.control.control_model import ControlModel, ModelGate, friction_or_zero
from dynid.control.controller import load_controller
from dynid.control.dynamics_kernel import TRANSITION_RAD_S
from dynid.errors import ConfigurationError, DataError, SafetyError
from dynid.model.drive import RESISTING, kind_and_number
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FrictionLaw
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray, Robot
from dynid.runtime.calls import Constants
from dynid.runtime.controller_step import controller_step
from dynid.runtime.programs import load_state_programs

INPUTS = ("q", "dq", "q_ref", "dq_ref", "ddq_ref")
SETTING_NAMES = ("proportional_gain_1_s2", "velocity_gain_1_s", "torque_limits_nm", "velocity_filter_s")
CYCLES_PER_TIME_CONSTANT = 2.0  # minimum number of cycles per time constant of the velocity loop; fewer oscillate
SHORTEST_FILTER_S = 1e-6
PerJoint = FloatArray | float  # one value for all joints, or (n,)


@dataclass(frozen=True, eq=False)
class ControlledModel:
    """Model of an arm as input of a controller.

    Attributes:
        robot: the robot.
        arm: geometry, model structure and gravity of the arm as mounted.
        base: base parameters.
        law: additional friction law, whose friction is not given by base parameters; None without one.
        accepted: whether the model passed its checks.
        torque_constants: torque constants with which the identification converted currents to torques, (n,) [N m/A].
    """

    robot: Robot
    arm: ArmModel
    base: BaseParameters
    law: FrictionLaw | None
    accepted: bool
    torque_constants: tuple[float, ...] = ()

    def refuse_unfit(self) -> None:
        """Raise SafetyError if the model was not accepted, or if it must not move this arm.

        A model must not move the arm, for example, if its inertia matrix is not positive definite, or if it predicts
        torques far beyond the limits; `ModelGate` checks this.
        """
        if not self.accepted:
            raise SafetyError(
                f"the model of {self.robot.name} did not pass its checks: identify again, or give rejected=True to "
                "study it without an arm"
            )
        law, name = friction_or_zero(self.law, self.arm.axes), self.robot.name
        constants = self.torque_constants
        candidate = ControlModel(name, self.arm.structure_hash, self.base, law, self.accepted, constants)
        ModelGate(self.robot, self.arm).check(candidate)

    def constants(self, share: float) -> Constants:
        """Return the constants for the compiled functions, with friction multiplied by `share`.

        Only friction that opposes the motion is multiplied; constant friction offsets do not change.
        """
        resisting = np.array([kind_and_number(name)[0] in RESISTING for name in self.base.names])
        base = self.base.with_values(np.where(resisting, share, 1.0) * self.base.values)
        law = None if self.law is None else self.law.scaled(share).with_values({"of": self.law["of"]})
        return Constants.of(self.arm, base, law)


class LoopController:
    """Computed-torque controller of one control loop, created by `Model.controller`.

    The controller has internal state, so only one thread may use it.

    Attributes:
        tau: torques of the last step, (n,) [N m]; each step overwrites this array.
        limited: 1 for the joints whose torque was limited in the last step, else 0, (n,).
        velocity: velocity estimate of the last step, (n,) [rad/s].
        rate_hz: steps per second.
        limits: torque limits, (n,) [N m].
    """

    def __init__(self, fed: ControlledModel, settings: "LoopSettings") -> None:
        """Create the controller of an arm, and compile its step in advance, so that the first cycle is not delayed."""
        self._n = n = fed.arm.axes
        self.rate_hz, self.limits, self._names = settings.rate_hz, settings.gains[2], fed.robot.joint_names
        addresses, one = load_state_programs(fed.arm).addresses, fed.constants(settings.friction_share)
        self._programs = addresses["torques"], addresses["gravity"]
        self._geometry = one.turns, one.springs, one.phi, one.links
        self._friction = one.dry, one.motors, one.coupling, one.law
        self._inputs, self._memory, self._work = np.zeros((5, n)), np.zeros((2, n)), np.zeros((4, n))
        decay = math.exp(-1.0 / (settings.rate_hz * settings.filter_s))
        scalars = [decay, (1.0 - decay) * settings.rate_hz, settings.gravity_share, TRANSITION_RAD_S]
        self._scalars, self._loaded, self._gains = np.array(scalars), one.loaded, settings.gains
        self.tau, self.limited, self.velocity = np.zeros(n), np.zeros(n), self._memory[1]
        still = np.zeros(n)
        self.reset(still)
        self.step(still, still, still, still)
        self.tau[:], self._started = 0.0, False

    def reset(self, q: FloatArray) -> None:
        """Reset the controller at measured positions q, (n,) [rad]; the velocity estimate starts at 0.

        Raises:
            DataError: q is not an array (n,) of numbers.
        """
        self._fill(q, q, q, q, q)
        self._memory[0], self._memory[1] = self._inputs[0], 0.0
        self._started = True

    def step(
        self, q: FloatArray, q_ref: FloatArray, dq_ref: FloatArray, ddq_ref: FloatArray, dq: FloatArray | None = None
    ) -> FloatArray:
        """Return the array `tau` with the motor torques of this cycle, (n,) [N m]; the next step overwrites it.

        Args:
            q: measured positions, (n,) [rad].
            q_ref: reference positions, (n,) [rad].
            dq_ref: reference velocities, (n,) [rad/s].
            ddq_ref: reference accelerations, (n,) [rad/s^2].
            dq: measured velocities, (n,) [rad/s]; None estimates them from q at `rate_hz`.

        Raises:
            DataError: an input is not an array (n,) of numbers, or `dq` is None and `reset` was never called.
            SafetyError: an input or a torque is not finite; `tau` keeps the torques of the last step.
        """
        estimated = dq is None
        if estimated and not self._started:
            raise DataError("the controller has no start posture: call reset(q) before the first step")
        self._fill(q, dq_ref if dq is None else dq, q_ref, dq_ref, ddq_ref)
        bad = controller_step(
            *self._programs, self._loaded, estimated, self._inputs, self._memory, self._gains, self._scalars,
            *self._geometry, *self._friction, self._work, self.tau, self.limited,
        )  # fmt: skip
        if bad:
            self._refuse(bad - 1)
        return self.tau

    def _fill(self, *given: FloatArray) -> None:
        try:
            for k, one in enumerate(given):
                if len(one) != self._n:
                    raise ValueError
                self._inputs[k] = one
        except (TypeError, ValueError):
            shapes = ", ".join(f"{name} {np.shape(one)}" for name, one in zip(INPUTS, given, strict=True))
            raise DataError(f"a step got {shapes}; expected ({self._n},) numbers each") from None

    def _refuse(self, joint: int) -> None:
        values = ", ".join(f"{name} {self._inputs[k, joint]:.4g}" for k, name in enumerate(INPUTS))
        raise SafetyError(
            f"{self._names[joint]} has no finite torque, at {values}: hold the arm by its servos, and stop the loop"
        )


@dataclass(frozen=True, eq=False)
class LoopSettings:
    """Settings of a control loop.

    Attributes:
        rate_hz: steps per second [Hz].
        gains: rows of proportional gains K_P [1/s^2], velocity gains K_V [1/s] and torque limits [N m], (3, n).
        filter_s: time constant of the velocity estimate [s].
        gravity_share: fraction of the gravity torque that is fed forward, 0 to 1.
        friction_share: fraction of friction that is fed forward, 0 to 1.
    """

    rate_hz: float
    gains: FloatArray
    filter_s: float
    gravity_share: float
    friction_share: float

    @classmethod
    def of(
        cls, robot: Robot, rate_hz: float, stated: Mapping[str, PerJoint | None], shares: Mapping[str, float]
    ) -> "LoopSettings":
        """Build the settings of a robot's control loop from stated values and the defaults in the robot's folder.

        Args:
            robot: the robot.
            rate_hz: steps per second [Hz].
            stated: value of each name in `SETTING_NAMES`; None selects the value in the robot's folder.
            shares: values of `gravity_share` and `friction_share` by name.

        Raises:
            ConfigurationError: a value is out of range, or is neither stated nor in the robot's folder.
        """
        if not (math.isfinite(rate_hz) and rate_hz > 0.0):
            raise ConfigurationError(f"rate_hz is {rate_hz}; expected the steps per second of your loop, such as 500")
        for name, share in shares.items():
            if not 0.0 <= share <= 1.0:
                raise ConfigurationError(f"{name} is {share}; expected 0 to 1: more would drive the arm")
        found = {key: usual if stated[key] is None else stated[key] for key, usual in _defaults(robot, stated).items()}
        sizes = {**dict.fromkeys(SETTING_NAMES, robot.size), "velocity_filter_s": 1}
        values = [_per_joint(key, found[key], sizes[key]) for key in SETTING_NAMES]
        gains, fastest = np.array(values[:3]), float(values[1].max())
        if rate_hz < CYCLES_PER_TIME_CONSTANT * fastest:
            raise ConfigurationError(
                f"rate_hz is {rate_hz:g} and velocity_gain_1_s up to {fastest:g} 1/s; expected at least "
                f"{CYCLES_PER_TIME_CONSTANT * fastest:g} Hz: lower the gain, or step faster"
            )
        return cls(rate_hz, gains, float(values[3][0]), shares["gravity_share"], shares["friction_share"])


def _defaults(robot: Robot, stated: Mapping[str, PerJoint | None]) -> dict[str, PerJoint | None]:
    """Return the default values of all settings in `SETTING_NAMES`, by name, from the robot's folder.

    The default of a setting with a value in `stated` is not needed and may be None.

    Raises:
        ConfigurationError: a value is not stated, and the folder has no default.
    """
    usual: dict[str, PerJoint | None] = dict.fromkeys(SETTING_NAMES)
    if stated["torque_limits_nm"] is None:
        usual["torque_limits_nm"] = robot.torque_limits
    if any(stated[key] is None for key in SETTING_NAMES if key != "torque_limits_nm"):
        if not (robot.folder / "controller.yaml").is_file():
            raise ConfigurationError(
                f"'{robot.name}' has no controller.yaml: give proportional_gain_1_s2, velocity_gain_1_s and "
                "velocity_filter_s"
            )
        own = load_controller(robot)
        usual |= {"proportional_gain_1_s2": np.array(own.proportional_gain_1_s2)}
        usual |= {"velocity_gain_1_s": np.array(own.velocity_gain_1_s)}
        usual |= {"velocity_filter_s": own.pseudo_differentiation_s}
    return usual


def _per_joint(name: str, value: PerJoint | None, size: int) -> FloatArray:
    """Return a setting as one value per joint, (size,); `value` is one number for all joints, or one per joint.

    Raises:
        ConfigurationError: the setting `name` has another size, or a value that is not finite or too small.
    """
    least = SHORTEST_FILTER_S if name == "velocity_filter_s" else 0.0
    try:
        found = np.broadcast_to(np.asarray(value, dtype=np.float64), (size,))
    except (TypeError, ValueError):
        found = np.full(size, np.nan)
    if not (np.isfinite(found) & (found >= least)).all():
        raise ConfigurationError(f"{name} is {value}; expected {size} finite numbers of at least {least:g}, or one")
    return np.array(found)
