"""Export of an identified model to the files that simulators and controllers load.

The MJCF is the primary export: it holds rotor inertias as armature. A URDF cannot, so they are in a separate file.
Neither format can hold friction that falls with speed or grows with load. The parameter files of BAM
(github.com/Rhoban/bam), one per joint, hold it.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np

from dynid.export.mjcf import STOP_MARGIN_M, STOP_MARGIN_RAD, PlantOptions, mjcf_text
from dynid.export.simple_friction import beyond_two_figures, simplified, whole_friction
from dynid.export.urdf import identified_urdf, rotor_inertias
from dynid.model.bam import bam_text
from dynid.model.friction import FrictionLaw
from dynid.model.mdh import MdhChain
from dynid.model.parameters import StandardParameters
from dynid.model.standard import to_file
from dynid.resources import write_whole
from dynid.robot import Robot
from dynid.robot.file import file_stem

RANGE_NOTE = (
    f"The range of every joint is {np.rad2deg(STOP_MARGIN_RAD):g} deg ({1000 * STOP_MARGIN_M:g} mm where it slides) "
    "wider on both sides than robot.yaml says, so that a controller can be seen to stop before the end stop."
)
MJCF_FILE, URDF_FILE, ROTOR_FILE, BAM_FOLDER = "model.xml", "model.urdf", "rotor_inertias.yaml", "bam"


def write_exports(
    folder: Path,
    robot: Robot,
    mdh: MdhChain,
    standard: StandardParameters,
    mount: str,
    friction: FrictionLaw | None = None,
    error_sentences: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Write MJCF, URDF, a file of rotor inertias, and friction files for BAM (github.com/Rhoban/bam) into a folder.

    Args:
        folder: target folder, in which none of the files may exist.
        robot: the robot.
        mdh: geometry of the chain.
        standard: physically consistent standard parameters, with their own friction terms.
        mount: mount that determines gravity in the MJCF.
        friction: friction law that is added to the friction terms of `standard`; None if there is none.
        error_sentences: for the names of the MJCF and the URDF, a sentence about the error of the torques that the
            file predicts. It is written into the header of the file. Files without an entry get no such sentence.

    Raises:
        OutputExistsError: a file exists.
    """
    for name, text in simulator_texts(robot, mdh, standard, mount, friction, error_sentences).items():
        write_whole(folder / name, text)
    write_whole(folder / ROTOR_FILE, rotor_inertias(robot, standard))
    for name, text in bam_files(robot, standard, whole_friction(robot, standard, friction)).items():
        write_whole(folder / BAM_FOLDER / name, text)


def simulator_texts(
    robot: Robot,
    mdh: MdhChain,
    standard: StandardParameters,
    mount: str,
    friction: FrictionLaw | None = None,
    error_sentences: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, str]:
    """Return the texts of an identified model as MJCF and as URDF, by file name.

    Args:
        robot: the robot.
        mdh: geometry of the chain.
        standard: physically consistent standard parameters, with their own friction terms.
        mount: mount that determines gravity in the MJCF.
        friction: friction law that is added to the friction terms of `standard`; None if there is none.
        error_sentences: by file name, a sentence about the error of the torques that the file predicts. It is written
            into the header of the file. Files without an entry get no such sentence.
    """
    law = whole_friction(robot, standard, friction)
    simple = simplified(robot, mdh, standard, law, mount)
    content = to_file(simple, mdh, robot.name, robot.joint_names, "identified")
    lacks = beyond_two_figures(law)
    notes = {
        name: _comment(error_sentences.get(name, ""), lacks, more)
        for name, more in ((MJCF_FILE, RANGE_NOTE), (URDF_FILE, ""))
    }
    return {
        MJCF_FILE: mjcf_text(robot, content, PlantOptions(mount, motors=True), notes[MJCF_FILE]),
        URDF_FILE: identified_urdf(robot, mdh, simple, notes[URDF_FILE]),
    }


def _comment(*sentences: str) -> str:
    """Join sentences to text that is valid in an XML comment, in which '--' is not allowed."""
    return re.sub("-(?=-)", "- ", " ".join(filter(None, sentences)))


def bam_files(robot: Robot, standard: StandardParameters, law: FrictionLaw) -> dict[str, str]:
    """Return the text of a parameter file of BAM (github.com/Rhoban/bam) for every joint, by file name.

    Args:
        robot: the robot.
        standard: standard parameters, which give the rotor inertias.
        law: friction law of all axes; it already contains the friction terms of `standard`.
    """
    rotors, constants = standard.axis("IA"), robot.joint_constants if robot.has_torque_constants else None
    return {
        f"{file_stem(joint.name)}.json": bam_text(
            law,
            axis,
            actuator=joint.servo_model or joint.name,
            rotor_inertia=float(rotors[axis]),
            torque_constant=None if constants is None else float(constants[axis]),
        )
        for axis, joint in enumerate(robot.file.joints)
    }
