"""Control laws by name, and the model that feeds them, exchanged as a whole while they run."""

from collections.abc import Callable
from functools import cached_property

from dynid.control.arm_controller import ArmController
from dynid.control.control_model import ControlModel, ModelGate
from dynid.control.controller import ControllerSettings, TorqueLaw
from dynid.control.dynamics_kernel import InverseDynamics, compile_single
from dynid.control.ff_pd import FeedforwardPdLaw
from dynid.control.model_laws import ComputedTorque, GravityCompensation
from dynid.errors import SafetyError, UnknownNameError
from dynid.model.dynamics import ArmModel
from dynid.robot import Robot


class ControllerSelection:
    """One arm's controller: which law runs, and with which model.

    Every change is checked whole, then takes effect between two cycles; what is refused changes nothing.

    Args:
        robot: the robot.
        settings: of its controller.
        mount: how the arm is mounted; None is robot.yaml's default.
    """

    def __init__(self, robot: Robot, settings: ControllerSettings, mount: str | None = None) -> None:
        self.robot, self.settings = robot, settings
        self._arm_model = ArmModel.of(robot, mount=mount)
        self.model: ControlModel | None = None
        law = FeedforwardPdLaw(settings)
        self.controller = ArmController(law, settings.pseudo_differentiation_s, settings.size)

    @property
    def names(self) -> tuple[str, ...]:
        """The laws that can be chosen."""
        return tuple(self._makers)

    @property
    def arm_model(self) -> ArmModel:
        """Structure and geometry that a model must be of."""
        return self._arm_model

    @cached_property
    def gate(self) -> ModelGate:
        """What a model must pass."""
        return ModelGate(self.robot, self._arm_model)

    @cached_property
    def inverse_dynamics(self) -> InverseDynamics:
        """Of the arm as it is mounted."""
        return compile_single(self._arm_model)

    @property
    def _makers(self) -> dict[str, Callable[[], TorqueLaw]]:
        return {
            FeedforwardPdLaw.name: lambda: FeedforwardPdLaw(self.settings),
            GravityCompensation.name: lambda: GravityCompensation(self._model(), self.inverse_dynamics),
            ComputedTorque.name: lambda: ComputedTorque(self.settings, self._model(), self.inverse_dynamics),
        }

    def _model(self) -> ControlModel:
        if self.model is None:
            raise SafetyError(
                "this controller needs an accepted model and has none yet: identify, or set the parameter model_file"
            )
        return self.model

    def prepare(self) -> None:
        """Compile what models need; to be called while nothing moves."""
        _ = self.gate, self.inverse_dynamics

    def make(self, name: str) -> TorqueLaw:
        """A law by its name, with the present model.

        Raises:
            UnknownNameError: no such law.
            SafetyError: the law needs a model and there is none.
        """
        if name not in self._makers:
            raise UnknownNameError("controller", name, self.names)
        return self._makers[name]()

    def select(self, name: str) -> None:
        """Run the law of that name from the next cycle on; errors as of `make`."""
        self.controller.switch_to(self.make(name))

    def set_model(self, candidate: ControlModel) -> None:
        """Feed the controllers another model from the next cycle on.

        Raises:
            SafetyError: the gate refuses it; the former model stays.
        """
        self.gate.check(candidate)
        self.model = candidate
        running = self.controller.law.name
        if running != FeedforwardPdLaw.name:
            self.controller.switch_to(self.make(running))
