"""Control laws by name, and the model that feeds them, exchanged as a whole while they run."""

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
    """One arm's controller: which law runs, and with which model.

    Every change is checked whole, then takes effect between two cycles; what is refused changes nothing.

    Args:
        mount: how the arm is mounted; None is robot.yaml's default.
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
        """What a model must pass."""
        return ModelGate(self.robot, self.arm_model)

    @cached_property
    def inverse_dynamics(self) -> InverseDynamics:
        """Of the arm as it is mounted."""
        return compile_single(self.arm_model)

    def prepare(self) -> None:
        """Compile what models need; to be called while nothing moves."""
        _ = self.gate, self.inverse_dynamics

    def set_mount(self, mount: str) -> None:
        """The arm is mounted otherwise than was thought; to be called while nothing moves.

        Raises:
            UnknownNameError: no such mount.
        """
        if mount == self.mount:
            return
        self.arm_model = ArmModel.of(self.robot, mount=mount)
        self.mount = mount
        vars(self).pop("inverse_dynamics", None)  # the gate does not know gravity
        self.exchange()

    def make(self, name: str, model: ControlModel | None = None, share: float | None = None) -> TorqueLaw:
        """A law by its name, with the present model and share of friction unless others are given.

        Raises:
            UnknownNameError: no such law.
            SafetyError: the law needs a model and there is none.
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
        """Another law, another model, or both, from the next cycle on; all or nothing.

        Args:
            name: of the law; None keeps the one that runs.
            model: what feeds the laws; None keeps the present one.
            friction_share: how much of the friction gravity compensation gives, 0 to 1; None keeps what it was.
            switch: hands the law over and may refuse; None is the controller's own `switch_to`.
            gated: the model is one that passed the gate, and a body in its hand: the sum passes, too.

        Raises:
            UnknownNameError: no such law.
            ConfigurationError: a share that is not between 0 and 1.
            SafetyError: the gate refuses the model, the law needs one and there is none, or `switch` refuses.
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
