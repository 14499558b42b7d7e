"""`dynid robot minimal-set`: minimal parameter set of a robot's links, by a different method than `robot check`."""

from typing import Annotated

import typer

from dynid.commands.options import JsonOption
from dynid.commands.terminal import print_json, stdout


def minimal_set(
    robot: Annotated[str, typer.Argument(help="Robot name, or a folder with a robot.yaml.")],
    sets: Annotated[
        int, typer.Option(min=1, help="Number of sets of random states that must give the same result.")
    ] = 10,
    as_json: JsonOption = False,
) -> None:
    """Derive the minimal parameter set of a robot's links by screws and full-rank decomposition.

    Several sets of random states must give the same result; exit code 1 if they do not. Names match `robot check`, but
    the link frames differ: they are at the URDF's joints, with z along the joint axis. Friction and rotors are left
    out.
    """
    import numpy as np

    from dynid.model.regressor import LINK_PARAMETERS
    from dynid.model.screws import ScrewChain, same
    from dynid.robot import load_robot

    chain = ScrewChain.of(load_robot(robot))
    found = [chain.minimal_set(seed) for seed in range(sets)]
    invariant = all(same(found[0], other) for other in found[1:])
    names = [f"{kind}{j + 1}" for j in range(chain.size) for kind in LINK_PARAMETERS]
    terms = {
        names[pivot]: {names[k]: round(float(row[k]), 9) for k in np.flatnonzero(row)}
        for pivot, row in zip(found[0].pivots, found[0].R, strict=True)
    }
    if as_json:
        print_json({"rank": len(terms), "sets": sets, "invariant": invariant, "parameters": terms})
    else:
        console = stdout()
        for name, parts in terms.items():
            text = " + ".join(f"{factor:g} {part}" for part, factor in parts.items())
            console.print(f"{name:6} {text}", soft_wrap=True, highlight=False)
        comparison = "the same" if invariant else "[bold red]not the same[/bold red]"
        console.print(f"{len(terms)} of {len(names)} parameters, {comparison} over {sets} sets of random states")
    raise typer.Exit(0 if invariant else 1)
