"""Export of many arms for domain randomisation: one MJCF or URDF each, and a table of their base parameters."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from dynid.export.mjcf import PlantOptions, mjcf_text
from dynid.export.simple_friction import beyond_two_figures, simplified, whole_friction
from dynid.export.urdf import identified_urdf
from dynid.model.friction import FrictionLaw
from dynid.model.mdh import MdhChain
from dynid.model.parameters import StandardParameters
from dynid.model.standard import to_file
from dynid.robot import FloatArray, Robot

Format = Literal["mjcf", "urdf"]
SUFFIX: dict[Format, str] = {"mjcf": "xml", "urdf": "urdf"}
TABLE = "parameters.csv"


def write_arms(
    folder: Path,
    robot: Robot,
    mdh: MdhChain,
    arms: Iterable[StandardParameters],
    mount: str | None,
    form: Format,
    friction: FrictionLaw | None = None,
) -> list[str]:
    """Write one file per arm, `arm_0001` and so on, into a folder, and return the file names.

    A file has two values of friction per joint. They approximate all friction of the arm, see `simplified`.

    Args:
        folder: existing folder; files with the same names are overwritten.
        robot: robot of all arms.
        mdh: geometry of all arms.
        arms: physically consistent standard parameters of each arm.
        mount: mount that determines gravity; None is the default mount.
        form: format of the files. An MJCF holds rotor inertias, a URDF cannot.
        friction: friction law in addition to the friction terms of the arms' parameters; None if there is none.
    """
    names, options, note = [], PlantOptions(mount=mount, motors=True), ""
    for number, drawn in enumerate(arms, start=1):
        law, standard = whole_friction(robot, drawn, friction), drawn
        if friction is not None or "fs" in law.terms:  # else the arm's parameters are the two values themselves
            standard = simplified(robot, mdh, drawn, law, mount or robot.file.default_mount)
            note = beyond_two_figures(law)
        if form == "mjcf":
            content = to_file(standard, mdh, robot.name, robot.joint_names, "drawn from the posterior")
            text = mjcf_text(robot, content, options, note)
        else:
            text = identified_urdf(robot, mdh, standard, note)
        names.append(f"arm_{number:04d}.{SUFFIX[form]}")
        (folder / names[-1]).write_text(text, encoding="utf-8")
    return names


def write_table(folder: Path, files: Sequence[str], names: Sequence[str], values: FloatArray) -> None:
    """Write `parameters.csv` into a folder: a header, and a line per file with its parameters in SI units.

    Args:
        folder: folder of the files.
        files: names of the N files.
        names: names of the k parameters.
        values: values of the parameters, (N, k).
    """
    with (folder / TABLE).open("w", encoding="utf-8", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow(["file", *names])
        rows.writerows([file, *map(repr, line)] for file, line in zip(files, values.tolist(), strict=True))
