"""`dynid posterior`: arms drawn from the posterior distribution of a model, as files for domain randomisation."""

import json
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from dynid.commands.options import JsonOption, read_model
from dynid.commands.terminal import SCHEMA_VERSION, print_json, say, stages
from dynid.errors import InputNotFoundError, UnknownNameError

if TYPE_CHECKING:
    from dynid.model.friction import FrictionLaw

QUANTILES = (0.05, 0.5, 0.95)


def posterior(
    result: Annotated[Path, typer.Argument(help="Folder that identify wrote.")],
    out: Annotated[Path, typer.Option(help="New folder for the arms.")],
    arms: Annotated[int, typer.Option(min=1, help="How many.")] = 1000,
    form: Annotated[str, typer.Option("--format", help="mjcf, or urdf (without rotor inertias).")] = "mjcf",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draws; the same seed gives the same arms.")] = 0,
    robot: Annotated[str | None, typer.Option(help="Name or folder of the robot; else the one of model.yaml.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Draw arms from the posterior distribution of an identified model's parameters, for domain randomisation.

    Each arm is physically consistent and is written as an MJCF or URDF file.
    """
    from dynid.export.arms import SUFFIX, write_arms, write_table
    from dynid.identification.feasibility.belief import Belief
    from dynid.identification.feasibility.posterior import possible_arms
    from dynid.identification.undetermined_groups import undetermined_sentence
    from dynid.model.dynamics import ArmModel
    from dynid.model.model_file import read_model_file
    from dynid.model.standard import from_file
    from dynid.resources import refuse_existing, whole_folder
    from dynid.robot import load_robot

    refuse_existing(out)
    if form not in SUFFIX:
        raise UnknownNameError("format", form, tuple(SUFFIX))
    model_folder = next((one for one in (result, result / "model") if (one / "model.yaml").is_file()), None)
    if model_folder is None:
        raise InputNotFoundError(f"{result} holds no model.yaml: name the folder that identify wrote (--out)")
    loaded = load_robot(robot or read_model_file(model_folder / "model.yaml").robot)
    content, belief = read_model(loaded, model_folder / "model.yaml"), Belief.load(model_folder)
    model = ArmModel.of(loaded, mount=content.mount, lengths_m=content.geometry_overrides_m)
    content.base_parameters(model)  # refuses a result of another structure
    friction = _undrawn(content.friction(), set(belief.names) - set(model.names))
    start = None if content.standard is None else from_file(content.standard, model.mdh, model.regrouping.standard)
    with stages("posterior", 2) as begin, whole_folder(out) as work:
        begin("drawing arms")
        bounds = loaded.file.physical_bounds
        values = None if start is None else start.values
        found = possible_arms(model, belief, bounds, arms, start=values, seed=seed)
        begin("writing them")
        files = write_arms(
            work,
            loaded,
            model.mdh,
            (found.arm(k) for k in range(arms)),
            content.mount,
            "urdf" if form == "urdf" else "mjcf",
            friction,
        )
        write_table(work, files, found.base_names, found.base)
        table = np.quantile(found.base, QUANTILES, axis=0).T.tolist()
        summary = {
            "schema_version": SCHEMA_VERSION,
            "robot": loaded.name,
            "result": str(result),
            "arms": arms,
            "seed": seed,
            "format": form,
            "accepted_trajectories": found.acceptance,
            "not_determined": [one.model_dump(mode="json") for one in content.not_determined],
            "quantiles": {
                name: dict(zip(map(str, QUANTILES), row, strict=True))
                for name, row in zip(found.base_names, table, strict=True)
            },
        }
        (work / "posterior.json").write_text(json.dumps(summary, indent=1), encoding="utf-8")
    if as_json:
        print_json(summary)
        return
    say(f"{out}: {arms} consistent arms as {form.upper()}, parameters.csv, posterior.json")
    _say_limits(friction, undetermined_sentence(content.not_determined))


def _undrawn(friction: "FrictionLaw | None", drawn: Collection[str]) -> "FrictionLaw | None":
    """Return a friction law without the Coulomb friction FC that the drawn arms have as parameters of their own."""
    if friction is None:
        return None
    own = [f"FC{axis + 1}" in drawn for axis in range(friction.axes)]
    return friction.with_values({"fb": np.where(own, 0.0, friction["fb"])})


def _say_limits(friction: "FrictionLaw | None", undetermined: str) -> None:
    """Print what the arms' files cannot hold, and what their spread does not come from."""
    from dynid.export.simple_friction import beyond_two_figures

    if friction is not None and (lacks := beyond_two_figures(friction)):
        say(lacks, markup=False)
    if undetermined:
        say(f"{undetermined}; their spread comes from the physical bounds rather than from the data", markup=False)
