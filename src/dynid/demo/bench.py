"""Preparation of measurements on a robot's simulated arm, and identification of a model from the arm's motion."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dynid.control.controller import ControllerSettings, load_controller
from dynid.control.dynamics_kernel import SingleState, compile_single
from dynid.control.ff_pd import FeedforwardPd
from dynid.errors import DataError
from dynid.identification.pipeline import identify
from dynid.model.dynamics import ArmModel
from dynid.model.model_file import ModelFile
from dynid.robot import Robot
from dynid.simulation.lockstep.run import simulate
from dynid.simulation.lockstep.simulated_bag import write_bag
from dynid.trajectory.families import Excitation, load_excitation

IDENTIFICATION, PROFILE = "demo_identification", "limited"


@dataclass(frozen=True, eq=False)
class Bench:
    """Robot, model and settings for measurements on a robot's simulated arm.

    Attributes:
        robot: the robot.
        settings: settings of the robot's controller.
        excitation: trajectories and excitation profiles of the robot.
        arm: geometry and structure of the arm's model, with gravity according to the mount.
        dynamics: compiled inverse dynamics of `arm`, for one state at a time.
        mount: name of the arm's mount.
        seed: seed of the simulation.
    """

    robot: Robot
    settings: ControllerSettings
    excitation: Excitation
    arm: ArmModel
    dynamics: SingleState
    mount: str
    seed: int


def make_bench(robot: Robot, mount: str | None, seed: int) -> Bench:
    """Load a robot's files and compile its dynamics, for measurements on the robot's simulated arm.

    Args:
        robot: the robot.
        mount: name of the arm's mount; None is the robot's default.
        seed: seed of the simulation.
    """
    chosen = mount or robot.file.default_mount
    arm = ArmModel.of(robot, mount=chosen)
    return Bench(robot, load_controller(robot), load_excitation(robot), arm, compile_single(arm), chosen, seed)


def identified(bench: Bench, work: Path, without: Sequence[str] = ()) -> ModelFile:
    """Simulate the arm's identification motion, record it into a bag, and return the model identified from the bag.

    Args:
        bench: robot, model and settings of the arm.
        work: folder for the bag.
        without: names of effects of a real arm, such as noise or backlash, that the simulated arm shall not have; see
            `simulation.nuisances` of robot.yaml.

    Raises:
        DataError: the model failed one of its checks.
    """
    motion, folder = bench.excitation.trajectory(IDENTIFICATION, PROFILE), work / ("-".join(without) or "all")
    run = simulate(
        bench.robot, motion, FeedforwardPd(bench.settings), mount=bench.mount, seed=bench.seed, switched_off=without
    )
    write_bag(run, bench.robot, bench.settings, folder, profile=PROFILE)
    result = identify(bench.robot, [folder])
    if not result.verdict.accepted:
        failed = "; ".join(check.sentence() for check in result.verdict.failed)
        raise DataError(f"the model of the simulated arm was not accepted: {failed}")
    return result.model_file()
