"""An identified model as files that simulators and controllers load.

The MJCF is the primary export: it holds rotor inertias as armature. A URDF cannot, so they lie beside it.
"""

from pathlib import Path

from dynid.model.mdh import MdhChain
from dynid.model.parameters import StandardParameters
from dynid.model.standard import to_file
from dynid.model.urdf import identified_urdf, rotor_inertias
from dynid.resources import write_whole
from dynid.robot import Robot
from dynid.simulation.mjcf import PlantOptions, mjcf_text

MJCF_FILE, URDF_FILE, ROTOR_FILE = "model.xml", "model.urdf", "rotor_inertias.yaml"


def write_exports(folder: Path, robot: Robot, mdh: MdhChain, standard: StandardParameters, mount: str) -> None:
    """Write MJCF with armature, URDF and the URDF's rotor side file into a folder.

    Args:
        folder: where; none of the files may exist.
        robot: the robot.
        mdh: geometry that the parameters belong to.
        standard: consistent standard parameters.
        mount: decides on gravity in the MJCF.

    Raises:
        OutputExistsError: a file exists.
    """
    content = to_file(standard, mdh, robot.name, robot.joint_names, "identified")
    write_whole(folder / MJCF_FILE, mjcf_text(robot, content, PlantOptions(mount=mount, motors=True)))
    write_whole(folder / URDF_FILE, identified_urdf(robot, mdh, standard))
    write_whole(folder / ROTOR_FILE, rotor_inertias(robot, standard))
