"""Selection of a control law by name, and of the model that the law uses; both can be exchanged at run time."""

from collections.abc import Callable
from functools import cached_property

from dynid.control.control_model import ControlModel, ModelGate
from dynid.control.controller import ControllerSettings, TorqueLaw
from dynid.control.dynamics_kernel import InverseDynamics, compile_single
from dynid.control.ff_pd import FeedforwardPdLaw
from dynid.control.model_laws import ComputedTorque, GravityCompensation
from dynid.control.sway import SwayingController
from dynid.errors import ConfigurationError, SafetyError, UnknownNameError
from dynid.model.dynamics import ArmModel
from dynid.robot import Robot

CONTROLLERS = (FeedforwardPdLaw.name, GravityCompensation.name, ComputedTorque.name)
Switch = Callable[[TorqueLaw], None]


class ControllerSelection:
    """Controller of one arm, with its present control law and model, which can be exchanged at run time.

    Every change is checked as a whole and takes effect between two cycles. A refused change changes nothing.

    Args:
        robot: the robot.
        settings: settings of the robot's controller.
        mount: name of the arm's mount; None means the default of robot.yaml.
    """

    def __init__(self, robot: Robot, settings: ControllerSettings, mount: str | None = None) -> None:
        self.robot, self.settings = robot, settings
        self.mount = mount or robot.file.default_mount
        self.arm_model = ArmModel.of(robot, mount=mount)
        self.model: ControlModel | None = None
        self.friction_share = settings.friction_share
        law = FeedforwardPdLaw(settings)
        filter_s = settings.pseudo_differentiation_s
        self.controller = SwayingController(law, filter_s, robot, settings.sway_rad, settings.sway_hz)

    @cached_property
    def gate(self) -> ModelGate:
        """Safety gate that a model must pass before it may move the arm."""
        return ModelGate(self.robot, self.arm_model)

    @cached_property
    def inverse_dynamics(self) -> InverseDynamics:
        """The compiled inverse dynamics of the arm as mounted."""
        return compile_single(self.arm_model)

    def prepare(self) -> None:
        """Compile the functions for the safety gate and the inverse dynamics; call it while nothing moves."""
        _ = self.gate, self.inverse_dynamics

    def set_mount(self, mount: str) -> None:
        """Change the arm's mount; call it while nothing moves.

        Other base parameters may determine gravity at the new mount. A model of the former ones is then dropped.

        Raises:
            UnknownNameError: the robot has no such mount.
            SafetyError: the active control law needs the model that would be dropped.
        """
        if mount == self.mount:
            return
        arm = ArmModel.of(self.robot, mount=mount)
        if arm.structure_hash != self.arm_model.structure_hash:
            if self.model is not None and self.controller.law.uses_model:
                raise SafetyError(
                    f"the model does not determine gravity at mount '{mount}': choose the controller "
                    f"{FeedforwardPdLaw.name}, and identify the arm at this mount"
                )
            self.model = None
            vars(self).pop("gate", None)
        self.arm_model, self.mount = arm, mount
        vars(self).pop("inverse_dynamics", None)
        self.exchange()

    def make(self, name: str, model: ControlModel | None = None, share: float | None = None) -> TorqueLaw:
        """Return a new control law, chosen by its name.

        Args:
            name: one of `CONTROLLERS`.
            model: model for the law; None means the present model.
            share: fraction of friction that gravity compensation compensates, 0 to 1; None means the present fraction.

        Raises:
            UnknownNameError: there is no such law.
            SafetyError: the law needs a model, and there is no model.
        """
        if name == FeedforwardPdLaw.name:
            return FeedforwardPdLaw(self.settings)
        if name not in CONTROLLERS:
            raise UnknownNameError("controller", name, CONTROLLERS)
        feeding = model or self.model
        if feeding is None:
            raise SafetyError(f"{name} needs an accepted model: identify one, or set model_file")
        if name == GravityCompensation.name:
            return GravityCompensation(feeding, self.inverse_dynamics, self.friction_share if share is None else share)
        return ComputedTorque(self.settings, feeding, self.inverse_dynamics)

    def exchange(
        self,
        *,
        name: str | None = None,
        model: ControlModel | None = None,
        friction_share: float | None = None,
        switch: Switch | None = None,
        gated: bool = False,
    ) -> None:
        """Exchange the control law, the model, or both from the next cycle on; a refused exchange changes nothing.

        Args:
            name: name of the law; None keeps the present law.
            model: model for the laws; None keeps the present model.
            friction_share: fraction of friction that gravity compensation compensates, 0 to 1; None keeps the present
                fraction.
            switch: function that switches to the law, and may refuse; None means the controller's own `switch_to`.
            gated: whether the model needs no check by the safety gate, because it differs only by a payload from a
                model that has passed this check.

        Raises:
            UnknownNameError: there is no such law.
            ConfigurationError: the fraction is not between 0 and 1.
            SafetyError: the gate refuses the model, the law needs a model and there is no model, or `switch` refuses.
        """
        if friction_share is not None and not 0.0 <= friction_share <= 1.0:
            raise ConfigurationError(f"friction_share is {friction_share}; expected 0 to 1: more would drive the arm")
        if model is not None and not gated:
            self.gate.check(model)
        wanted = self.controller.law.name if name is None else name
        concerned = {GravityCompensation.name} if friction_share is not None and model is None else set(CONTROLLERS[1:])
        if name is not None or wanted in concerned:
            (switch or self.controller.switch_to)(self.make(wanted, model, friction_share))
        self.model = model or self.model
        self.friction_share = self.friction_share if friction_share is None else friction_share
