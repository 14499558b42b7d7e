"""Simulated arm under computed torque that is touched at its tool, with several contact detectors.

All nuisances and the friction of its gears are on. A force F at the tool is J(q)' F at the joints, by pinocchio's
Jacobian at the true positions. Every detector gets the same encoder positions and torque commands.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pinocchio

from benchmarks.studies.drawn_arms import DrawnArm
from dynid.contact.contact_sense import ContactSense
from dynid.contact.scale import Scale
from dynid.control.arm_controller import ArmController
from dynid.control.control_model import ControlModel, from_model_file
from dynid.control.controller import ControllerSettings, TorqueLaw, load_controller
from dynid.control.dynamics_kernel import InverseDynamics, compile_single
from dynid.control.ff_pd import FeedforwardPd
from dynid.control.model_laws import ComputedTorque
from dynid.control.motion import MotionExecutor
from dynid.control.sway import SwayingController
from dynid.errors import DataError
from dynid.identification.data.simulated_recording import source_of
from dynid.identification.pipeline import identify
from dynid.model.chain import SerialChain
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FrictionLaw
from dynid.model.model_file import ModelFile
from dynid.model.standard import StandardFile, load_nominal
from dynid.robot import FloatArray, Robot
from dynid.simulation.lockstep.run import simulate
from dynid.simulation.lockstep.stepped_arm import SteppedArm
from dynid.trajectory.families import Excitation, load_excitation

IDENTIFICATION, PROFILE = "demo_identification", "limited"
SEED = 0  # seed of the recording that the model is identified from; scenes use others
Pull = Callable[[float], FloatArray]  # force at the tool (3,) [N] at a time [s]


@dataclass(frozen=True, eq=False)
class Scene:
    """Common parts of all scenes, and two models: the identified one, and the nominal one without friction."""

    robot: Robot
    settings: ControllerSettings
    excitation: Excitation
    arm: ArmModel
    dynamics: InverseDynamics
    file: ModelFile
    identified: ControlModel
    nominal: ControlModel
    drawn: DrawnArm | None = None

    @classmethod
    def of(cls, robot: Robot, drawn: DrawnArm | None = None) -> "Scene":
        """Identify the simulated arm, or a drawn arm, from one motion.

        Raises:
            DataError: the model was not accepted.
        """
        settings, excitation, arm = load_controller(robot), load_excitation(robot), ArmModel.of(robot)
        motion, law = excitation.trajectory(IDENTIFICATION, PROFILE), FeedforwardPd(settings)
        run = simulate(
            robot,
            motion,
            law,
            seed=SEED if drawn is None else drawn.seed,
            standard=None if drawn is None else drawn.standard,
            friction=None if drawn is None else drawn.friction,
        )
        result = identify(robot, [source_of(robot, run, IDENTIFICATION)])
        if not result.verdict.accepted:
            failed = "; ".join(check.sentence() for check in result.verdict.failed)
            raise DataError(f"the model that the benchmark identified was not accepted: {failed}")
        file = result.model_file()
        identified = from_model_file(file, arm)
        phi = arm.base_parameters(load_nominal(robot, arm.mdh))
        nominal = ControlModel(robot.name, arm.structure_hash, phi, FrictionLaw.of(robot.size, {}), False)
        return cls(robot, settings, excitation, arm, compile_single(arm), file, identified, nominal, drawn)

    @property
    def torque_delay_s(self) -> float:
        """Delay of torques in lock-step, a whole number of cycles [s]."""
        cycle = self.robot.file.bus.cycle_s
        return float(cycle * np.ceil(self.robot.nuisances.communication_delay_s / cycle - 1e-9))

    def sense(self, model: ControlModel) -> ContactSense:
        """Return a detector with this model; deviations are the identified model's, since the nominal one has none."""
        given = self.file.torque_deviations
        return ContactSense(self.robot, self.arm, model, given, torque_delay_s=self.torque_delay_s)

    def scales(self) -> tuple[Scale, Scale]:
        """Return payload estimators of the identified and of the nominal model, in the order of `senses`."""
        first, second = (
            Scale(self.robot, self.arm, model, self.file.torque_deviations, self.torque_delay_s)
            for model in (self.identified, self.nominal)
        )
        return first, second

    def senses(self) -> tuple[ContactSense, ContactSense]:
        """Return contact detectors of the identified and of the nominal model."""
        return self.sense(self.identified), self.sense(self.nominal)


class Touched:
    """Simulated arm that is commanded, touched and observed cycle by cycle.

    `commanded` is the torque that the detectors got last.
    """

    def __init__(
        self,
        scene: Scene,
        senses: Sequence[ContactSense],
        seed: int,
        q0: FloatArray | None = None,
        law: TorqueLaw | None = None,
        standard: StandardFile | None = None,
        sways: bool = False,
    ) -> None:
        robot = scene.robot
        self.scene, self.senses, self.commanded = scene, senses, np.zeros(robot.size)
        drawn = scene.drawn
        self.plant = SteppedArm(
            robot,
            seed=seed,
            q0=q0,
            standard=standard or (drawn.standard if drawn else None),
            friction=drawn.friction if drawn else None,
        )
        chosen = law or ComputedTorque(scene.settings, scene.identified, scene.dynamics)
        filter_s = scene.settings.pseudo_differentiation_s
        controller = (
            SwayingController(chosen, filter_s, robot) if sways else ArmController(chosen, filter_s, robot.size)
        )
        self.motion = MotionExecutor(robot, controller)
        self._chain = SerialChain.from_robot(robot).model
        self._data, self._tau = self._chain.createData(), np.zeros(robot.size)
        self.cycle_s = robot.file.bus.cycle_s
        for sense in senses:
            sense.observer.reset()

    @property
    def time_s(self) -> float:
        """Simulated time [s]."""
        return self.plant.stamp_ns * 1e-9

    def push_of(self, force: FloatArray) -> FloatArray:
        """Return J' F (n,) [N m] of a force (3,) [N] at the tool."""
        count, robot = self._chain.nq, self.scene.robot
        tool = pinocchio.SE3(np.eye(3), np.array(robot.file.tool_m))
        q = np.array(self.plant.plant.q[:count])
        place = pinocchio.LOCAL_WORLD_ALIGNED
        pinocchio.computeJointJacobians(self._chain, self._data, q)
        lever = self._data.oMi[count].rotation @ tool.translation
        J = pinocchio.getJointJacobian(self._chain, self._data, count, place)
        push = np.zeros(robot.size)
        push[:count] = (J[:3] - pinocchio.skew(lever) @ J[3:]).T @ force
        return push

    def start(self) -> None:
        """Read the arm once, and hold it at its posture."""
        self.motion.hold(self.plant.measure(), self.plant.stamp_ns)
        self.plant.command(np.zeros(self.scene.robot.size))

    def cycle(self, force: FloatArray | None = None) -> list[bool]:
        """Advance by one cycle with a force (3,) [N] at the tool; return which detectors report contact."""
        push = None if force is None or not force.any() else self.push_of(force)
        return self.pushed(push)

    def pushed(self, push: FloatArray | None = None) -> list[bool]:
        """Advance by one cycle with torques (n,) [N m] at the joints; return which detectors report contact."""
        before = self.commanded = self._tau
        step = self.plant.follow(self.motion, push)
        self._tau = np.zeros_like(before) if step is None else step.tau.copy()
        stamp, q = self.plant.stamp_ns, np.array(self.plant.position)
        return [sense.update(stamp, q, before) for sense in self.senses]
