"""`dynid regressor`: the base regressor for states from a file, for use in other programs."""

import io
import json
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from dynid.commands.options import DEFAULT_ROBOT, JsonOption, MountOption, RobotOption
from dynid.commands.terminal import print_json, say, stages
from dynid.errors import ConfigurationError, DataError


def regressor(
    states: Annotated[
        Path | None, typer.Argument(help="CSV with q of all joints, then dq, then ddq, one state per row.")
    ] = None,
    robot: RobotOption = DEFAULT_ROBOT,
    out: Annotated[Path | None, typer.Option(help="New .npz file for regressor, names and groupings.")] = None,
    mount: MountOption = None,
    standard: Annotated[bool, typer.Option("--standard", help="Write columns for all standard parameters.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Compute the regressor W of tau = W phi; without states, only list the parameters phi.

    The list has the name and unit of each base parameter, and the standard parameters that it combines.
    """
    from dynid.model.base_regressor import base_regressor
    from dynid.resources import refuse_existing, write_whole
    from dynid.robot import load_robot

    if (states is None) != (out is None):
        raise ConfigurationError("give both states and --out, or neither to list the parameters")
    loaded = load_robot(robot)
    if out is not None:
        if out.suffix != ".npz":
            raise ConfigurationError(f"--out {out} must end with .npz")
        refuse_existing(out)
    q, dq, ddq = _states(states, loaded.size) if states else np.zeros((3, 1, loaded.size))
    with stages("regressor", 1) as begin:
        begin(f"{len(q)} states")
        found = base_regressor(loaded, q, dq, ddq, mount=mount, standard=standard)
    formulas = {name: dict(terms) for name, terms in found.groupings.items()}
    if out is not None:
        stream = io.BytesIO()
        np.savez(
            stream,
            regressor=found.regressor,
            names=np.array(found.names),
            units=np.array(found.units),
            joint_names=np.array(found.joint_names),
            groupings=json.dumps(formulas),
            structure_hash=found.structure_hash,
        )
        write_whole(out, stream.getvalue())
    if as_json:
        rows = [
            {"name": name, "unit": unit, "grouping": formulas[name]}
            for name, unit in zip(found.names, found.units, strict=True)
        ]
        print_json({"joints": found.joint_names, "parameters": rows, "structure_hash": found.structure_hash})
        return
    for name, unit in zip(found.names, found.units, strict=True):
        terms = " + ".join(f"{factor:g} {term}" for term, factor in formulas[name].items())
        say(f"{name:8} {unit:12} {terms}")
    if out is not None:
        samples, joints, columns = found.regressor.shape
        say(f"{out}: {samples} states, {joints} joints, {columns} columns")


def _states(path: Path, size: int) -> np.ndarray:
    """Return positions q, velocities dq and accelerations ddq of N states from a CSV file, (3, N, size) in SI.

    Raises:
        DataError: a row is corrupt, or the number of columns is wrong.
    """
    from dynid.recording.csv_table import read_table

    table = read_table(path, range(1, 3 * size + 1))
    if table.width != 3 * size:
        raise DataError(f"{path} has {table.width} columns; expected {3 * size}: q, dq and ddq of {size} joints each")
    if table.bad:
        first = table.bad[0]
        raise DataError(f"{path} has {len(table.bad)} corrupt rows: line {first.line}: {first.reason}; repair them")
    return np.asarray(table.values.reshape(-1, 3, size).swapaxes(0, 1))
