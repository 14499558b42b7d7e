"""Check of a robot's folder: everything that a simulated run needs is built, but nothing is simulated."""

from dynid.control.controller import load_controller
from dynid.errors import DynidError
from dynid.robot import Robot
from dynid.simulation.plant.arm import ArmPlant
from dynid.trajectory.families import load_excitation


def unusable_motions(robot: Robot) -> str:
    """Return the reason why the robot's gains or one of its motions cannot be used; '' if all are usable."""
    try:
        load_controller(robot)
        excitation = load_excitation(robot)
        for name in excitation.names:
            excitation.trajectory(name)
    except DynidError as error:
        return str(error)
    return ""


def unusable_plant(robot: Robot) -> str:
    """Return the reason why the robot's simulated arm cannot be built; '' if it can be built."""
    try:
        ArmPlant(robot)
    except DynidError as error:
        return str(error)
    return ""
