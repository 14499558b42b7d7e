"""`dynid torque-constants`: check of the torque constants with a body of known mass."""

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from dynid.commands.options import DEFAULT_ROBOT, JsonOption, MappingOption, RobotOption, read_two_mappings
from dynid.commands.terminal import print_json, say, stages, with_deviation


def torque_constants(
    without: Annotated[Path, typer.Argument(help="Bag or CSV without the known body.")],
    carrying: Annotated[Path, typer.Argument(help="Bag or CSV with the known body.")],
    mass: Annotated[float, typer.Option(min=1e-6, help="Mass of the body [kg].")],
    at: Annotated[
        tuple[float, float, float] | None,
        typer.Option(help="Its centre of mass in the last link's URDF frame [m]; left out: it is found, too."),
    ] = None,
    radius: Annotated[float, typer.Option(min=0.0, help="Radius of a solid ball with the same inertia [m].")] = 0.0,
    robot: RobotOption = DEFAULT_ROBOT,
    mapping: MappingOption = None,
    mapping_carrying: Annotated[
        Path | None, typer.Option(help="Mapping of the second CSV file, if it differs.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check the torque constants of all joints with a body of known mass; exit code 1 if one of them is doubtful."""
    from dynid.identification.data.recordings import torque_sentence
    from dynid.identification.payload.known_mass import check_torque_constants, pooled
    from dynid.identification.payload.mass_alone import FAR_M, check_with_mass_alone
    from dynid.identification.payload.two_runs import load_two_runs
    from dynid.model.standard import LinkInertia
    from dynid.robot import load_robot

    loaded = load_robot(robot)
    mappings = read_two_mappings(mapping, mapping_carrying, [without], [carrying])
    with stages("torque-constants", 1) as begin:
        begin("reading")
        runs = load_two_runs(loaded, (without, carrying), mappings)
    used = loaded.motor_constants(runs.torque_constants)
    place_values: dict[str, list[float]] = {}
    if at is None:
        check = check_with_mass_alone(runs.model, *runs.samples, mass, radius, used)
        found = check.joints
        place_values = {"place_m": check.place_m.tolist(), "place_deviation_m": check.place_deviation_m.tolist()}
    else:
        body = LinkInertia(mass, np.array(at), 0.4 * mass * radius**2 * np.eye(3))
        found = check_torque_constants(runs.model, *runs.samples, body, used)
    pooled_constants = pooled(found)
    sentence = torque_sentence(runs.torque_constants, loaded)
    if as_json:
        rows = {
            one.joint: {
                "scale": one.scale if one.determined else None,
                "standard_deviation": one.deviation if one.determined else None,
                "known_torque_nm": one.known_torque,
                "torque_constant_nm_per_a": one.torque_constant,
                "corrected_nm_per_a": one.corrected[0] if one.corrected else None,
                "doubtful": one.doubtful,
                "shared": one.shared,
            }
            for one in found
        }
        types = {
            f"{constant:g}": {"scale": c, "standard_deviation": d} for constant, (c, d) in pooled_constants.items()
        }
        print_json(
            {"joints": rows, "by_torque_constant": types, "torques": sentence, "notes": list(runs.notes)} | place_values
        )
    else:
        for one in found:
            say(f"{'[bold red]?[/bold red]' if one.doubtful else ' '} {one.sentence()}")
        for constant, (scale, deviation) in pooled_constants.items():
            words = f"{scale:.3f} +- {deviation:.3f}, so {constant / scale:.4g} N m/A"
            say(f"  all joints with {constant:g} N m/A: {words}")
        if place_values:
            pairs = zip(*place_values.values(), strict=True)
            coordinates = ", ".join(
                "unseen" if spread > 0.8 * FAR_M else with_deviation(middle, spread) for middle, spread in pairs
            )
            say(f"  centre of mass found in the last link's frame: ({coordinates}) m")
        say(sentence, *runs.notes, markup=False)
    raise typer.Exit(1 if any(one.doubtful for one in found) else 0)
