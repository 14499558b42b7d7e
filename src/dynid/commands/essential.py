"""`dynid essential`: which parameters a motion shows, and standard parameters close to a-priori ones."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from dynid.commands.options import DEFAULT_ROBOT, JsonOption, MappingOption, RobotOption, SkipOption, read_mapping
from dynid.commands.terminal import stages, stdout

if TYPE_CHECKING:
    from dynid.identification.closest_standard import ClosestStandard
    from dynid.identification.essential import EssentialParameters


def essential(
    recordings: Annotated[list[Path], typer.Argument(metavar="BAG_OR_CSV...", help="Recordings of one setting.")],
    robot: RobotOption = DEFAULT_ROBOT,
    mapping: MappingOption = None,
    limit: Annotated[float, typer.Option(min=0.0, help="Relative standard deviation up to which one is kept.")] = 0.1,
    out: Annotated[Path | None, typer.Option(help="New file for the standard parameters.")] = None,
    skip_corrupt_rows: SkipOption = False,
    as_json: JsonOption = False,
) -> None:
    """Cancel the base parameters that the motion does not show; move a-priori standard parameters by the rest only."""
    from dynid.identification.closest_standard import closest_standard, with_identified_drives
    from dynid.identification.essential import essential_parameters, without_friction
    from dynid.identification.pipeline import nominal_standard
    from dynid.identification.sample_sets import join
    from dynid.identification.settings import load_identification
    from dynid.identification.sources import load_sources, torque_sentence
    from dynid.model.dynamics import ArmModel
    from dynid.model.parameters import StandardParameters
    from dynid.model.standard import save_standard, to_file
    from dynid.resources import refuse_existing
    from dynid.robot import load_robot

    if out is not None:
        refuse_existing(out)
    loaded = load_robot(robot)
    settings = load_identification(loaded)
    with stages("essential", len(recordings)) as begin:
        sources = load_sources(recordings, loaded, settings, read_mapping(mapping, skip_corrupt_rows), begin)
    model = ArmModel.of(loaded, mount=sources[0].mount)
    samples = join([one.samples(settings) for one in sources])
    plain, _ = without_friction(model, samples, settings.coulomb_friction)
    found = essential_parameters(model, plain, limit)
    values, prior = nominal_standard(loaded, model), None
    if values is not None:
        links = StandardParameters(model.regrouping.standard, values, model.chain_size)
        prior = with_identified_drives(model, links, found.base)
    closest = closest_standard(model, plain, prior, columns="essential", essential=found)
    if out is not None:
        source = f"{len(found.kept)} essential parameters of {', '.join(one.name for one in sources)} (eq. 32)"
        save_standard(out, to_file(closest.standard, model.mdh, loaded.name, loaded.joint_names, source))
    sentence = torque_sentence(sources[0].torque_constants, loaded.joint_names)
    if as_json:
        print(json.dumps(_as_dict(found, closest, prior is not None) | {"torques": sentence}))
        return
    console = stdout()
    _print(console, found, closest, prior is not None)
    console.print(sentence, soft_wrap=True, highlight=False)
    if out is not None:
        console.print(f"  {out}", soft_wrap=True, highlight=False)


def _as_dict(found: "EssentialParameters", closest: "ClosestStandard", has_prior: bool) -> dict[str, Any]:
    deviations = dict(zip(found.base.names, found.relative_deviations.tolist(), strict=True))
    return {
        "essential": {
            name: {"value": found.base[name], "relative_standard_deviation": deviations[name]} for name in found.kept
        },
        "cancelled": {one.name: one.relative_deviation for one in found.cancelled},
        "base_parameters": len(found.base.names),
        "relative_torque_error": found.errors.relative,
        "standard": {
            "has_prior": has_prior,
            "relative_torque_error": closest.errors.relative,
            "distance": closest.distance if np.isfinite(closest.distance) else None,
            "definite_links": {f"{tolerance:g}": count for tolerance, count in closest.definite_links.items()},
        },
    }


def _print(console: Console, found: "EssentialParameters", closest: "ClosestStandard", has_prior: bool) -> None:
    table = Table(title="essential parameters", title_justify="left")
    for heading in ("name", "value", "relative deviation"):
        table.add_column(heading, justify="left" if heading == "name" else "right")
    for name, deviation in zip(found.base.names, found.relative_deviations, strict=True):
        if name in found.kept:
            table.add_row(name, f"{found.base[name]:.4g}", f"{100 * deviation:.1f} %")
    console.print(table)
    counted = f"{len(found.kept)} of {len(found.base.names)} parameters are essential"
    console.print(f"{counted}; relative torque error {100 * found.errors.relative:.2f} %", highlight=False)
    if found.cancelled:
        listed = ", ".join(one.name for one in found.cancelled)
        console.print(f"cancelled, the worst shown first: {listed}", soft_wrap=True, highlight=False)
    what = "closest to the robot's a-priori ones" if has_prior else "smallest (the robot has no a-priori ones)"
    links = ", ".join(f"{count} at {tolerance:g}" for tolerance, count in closest.definite_links.items())
    error = f"relative torque error {100 * closest.errors.relative:.2f} %"
    console.print(f"standard parameters {what}: {error}", soft_wrap=True, highlight=False)
    size = closest.standard.chain_size
    console.print(f"links with a definite inertia, of {size}, by Cholesky tolerance: {links}", highlight=False)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(essential)
