"""`dynid essential`: base parameters that a motion excites, and standard parameters close to a-priori values."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from dynid.commands.options import (
    DEFAULT_ROBOT,
    JsonOption,
    MappingOption,
    RobotOption,
    SkipOption,
    read_mapping,
    refuse_unused_mapping,
)
from dynid.commands.terminal import print_json, say, stages, stdout, table

if TYPE_CHECKING:
    from dynid.identification.estimators.closest_standard import ClosestStandard
    from dynid.identification.estimators.essential import EssentialParameters


def essential(
    recordings: Annotated[
        list[Path], typer.Argument(metavar="BAG_OR_CSV...", help="Recordings with the same settings.")
    ],
    robot: RobotOption = DEFAULT_ROBOT,
    mapping: MappingOption = None,
    limit: Annotated[
        float, typer.Option(min=0.0, help="Largest relative standard deviation of an essential parameter.")
    ] = 0.1,
    out: Annotated[Path | None, typer.Option(help="New file for the standard parameters.")] = None,
    skip_corrupt_rows: SkipOption = False,
    as_json: JsonOption = False,
) -> None:
    """Drop base parameters that the motion does not excite, and find standard parameters that fit the rest.

    Many sets of standard parameters fit. The set closest to a-priori values (CAD) is chosen; without such values, the
    set of smallest norm.
    """
    from dynid.identification.comparison import a_priori
    from dynid.identification.data.recordings import load_recordings, rows_of, torque_sentence
    from dynid.identification.data.sample_sets import join
    from dynid.identification.estimators.closest_standard import closest_standard
    from dynid.identification.estimators.essential import essential_parameters, without_friction
    from dynid.identification.settings import load_identification
    from dynid.model.dynamics import ArmModel
    from dynid.model.standard import save_standard, to_file
    from dynid.resources import refuse_existing
    from dynid.robot import load_robot

    if out is not None:
        refuse_existing(out)
    columns = read_mapping(mapping, skip_corrupt_rows)
    refuse_unused_mapping(columns, recordings)
    loaded = load_robot(robot)
    settings = load_identification(loaded)
    with stages("essential", len(recordings)) as begin:
        sources = load_recordings(recordings, loaded, columns, begin)
    model = ArmModel.of(loaded, mount=sources[0].mount)
    settings = rows_of(sources, settings).settings(settings)
    samples = join([one.samples(settings) for one in sources])
    base_values, _, _ = without_friction(model, samples, settings.coulomb_friction)
    found = essential_parameters(model, base_values, limit)
    prior = a_priori(loaded, model, found.base)
    closest = closest_standard(model, base_values, prior, columns="essential", essential=found)
    if out is not None:
        source = f"{len(found.kept)} essential parameters of {', '.join(one.name for one in sources)} (eq. 32)"
        save_standard(out, to_file(closest.standard, model.mdh, loaded.name, loaded.joint_names, source))
    sentence = torque_sentence(sources[0].torque_constants, loaded)
    if as_json:
        print_json(_as_dict(found, closest, prior is not None) | {"torques": sentence})
        return
    _print(found, closest, prior is not None)
    say(sentence, *([] if out is None else [f"  {out}"]))


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


def _print(found: "EssentialParameters", closest: "ClosestStandard", has_prior: bool) -> None:
    rows = table("essential parameters", "name", "value", "relative standard deviation")
    for name, deviation in zip(found.base.names, found.relative_deviations, strict=True):
        if name in found.kept:
            rows.add_row(name, f"{found.base[name]:.4g}", f"{100 * deviation:.1f} %")
    stdout().print(rows)
    counted = f"{len(found.kept)} of {len(found.base.names)} parameters are essential"
    say(f"{counted}; relative torque error {100 * found.errors.relative:.2f} %")
    if found.cancelled:
        say(f"cancelled, the worst shown first: {', '.join(one.name for one in found.cancelled)}")
    kind = "closest to the a-priori ones" if has_prior else "of smallest norm (the robot has no a-priori ones)"
    links, size = closest.definite_links[0.0], closest.standard.chain_size
    say(
        f"standard parameters {kind}: relative torque error {100 * closest.errors.relative:.2f} %; "
        f"{links} of {size} links have a positive-definite inertia"
    )
