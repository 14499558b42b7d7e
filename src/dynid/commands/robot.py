"""`dynid robot`: a robot of your own as a folder, drafted from its URDF and checked."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dynid.commands.options import JsonOption
from dynid.commands.terminal import stdout

if TYPE_CHECKING:
    from dynid.model.robot_check import RobotCheck

app = typer.Typer(help="Make a robot of your own from its URDF, and check a robot's folder.", no_args_is_help=True)


@app.command("new")
def new(
    name: Annotated[str, typer.Argument(help="Name of the robot, and of the new folder.")],
    urdf: Annotated[Path, typer.Option(help="The arm's URDF; it is copied.")],
    out: Annotated[Path | None, typer.Option(help="The new folder; else NAME here.")] = None,
    tip: Annotated[str | None, typer.Option(help="Last link of the chain, where the URDF has several arms.")] = None,
    decoupled: Annotated[list[str] | None, typer.Option(help="A joint of the hand; repeatable.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Draft a robot's folder from its URDF, with questions where only a person can decide."""
    from dynid.model.robot_draft import draft_robot, write_draft
    from dynid.resources import refuse_existing

    folder = out or Path(name)
    refuse_existing(folder)
    draft = draft_robot(name, urdf, tip, decoupled or ())
    write_draft(draft, urdf, folder)
    if as_json:
        found = {"folder": str(folder), "chain": list(draft.chain), "decoupled": list(draft.decoupled)}
        print(json.dumps(found | {"questions": dict(draft.questions)}))
        return
    console = stdout()
    counted = f"{len(draft.chain)} chain joints, {len(draft.decoupled)} decoupled"
    console.print(f"{folder / 'robot.yaml'}: {counted}", soft_wrap=True, highlight=False)
    _print_questions(console, draft.questions)
    console.print(f"decide, then: dynid robot check {folder}", soft_wrap=True, highlight=False)


@app.command("check")
def check(
    robot: Annotated[str, typer.Argument(help="Robot name, or a folder that holds a robot.yaml.")],
    as_json: JsonOption = False,
) -> None:
    """Say what a robot is ready for, what is missing or undecided, and list its base parameters; 1 if not complete."""
    from dynid.model.robot_check import check_robot
    from dynid.robot import load_robot

    loaded = load_robot(robot)
    found = check_robot(loaded)
    if as_json:
        print(json.dumps(found.as_dict()))
    else:
        _print(stdout(), found, loaded.file.title)
    raise typer.Exit(0 if found.complete else 1)


@app.command("minimal-set")
def minimal_set(
    robot: Annotated[str, typer.Argument(help="Robot name, or a folder that holds a robot.yaml.")],
    sets: Annotated[int, typer.Option(min=1, help="Sets of random states that must all give the same.")] = 10,
    as_json: JsonOption = False,
) -> None:
    """The minimal set of the links by screws and full-rank decomposition; 1 if it depends on the data.

    Names are those of `robot check`, frames are not: at the URDF's joint, z along its axis. Drives are left out.
    """
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
        print(json.dumps({"rank": len(terms), "sets": sets, "invariant": invariant, "parameters": terms}))
    else:
        console = stdout()
        for name, parts in terms.items():
            text = " + ".join(f"{factor:g} {part}" for part, factor in parts.items())
            console.print(f"{name:6} {text}", soft_wrap=True, highlight=False)
        word = "the same" if invariant else "[bold red]not the same[/bold red]"
        console.print(f"{len(terms)} of {len(names)} parameters, {word} over {sets} sets of random states")
    raise typer.Exit(0 if invariant else 1)


def _print_questions(console: Console, questions: dict[str, str]) -> None:
    for field, question in questions.items():
        console.print(f"  [yellow]?[/yellow] [bold]{escape(field)}[/bold]: {escape(question)}", soft_wrap=True)


def _print(console: Console, found: "RobotCheck", title: str) -> None:
    regrouping = found.model.regrouping
    table = Table(title=f"{escape(title)}: base parameters", title_justify="left")
    for heading in ("name", "standard parameters that it stands for"):
        table.add_column(heading, overflow="fold")
    for name, terms in found.groupings().items():
        table.add_row(name, terms)
    console.print(table)
    counted = f"{len(regrouping.standard)} standard parameters, {len(regrouping.names)} base parameters"
    console.print(f"{counted} (groups by {regrouping.method})", highlight=False)
    if found.silent:
        console.print(f"without effect on any torque: {', '.join(found.silent)}", soft_wrap=True, highlight=False)
    for note in found.notes:
        console.print(f"  [yellow]{escape(note)}[/yellow]", soft_wrap=True, highlight=False)
    for use in found.uses:
        state = "[green]ready[/green]" if use.ready else f"not ready: {escape(use.missing)}"
        console.print(f"  {use.name}: {state}", soft_wrap=True, highlight=False)
    if found.undecided:
        console.print("[bold red]undecided[/bold red] in robot.yaml:")
        _print_questions(console, found.undecided)


def register(parent: typer.Typer) -> None:
    """Add the commands."""
    parent.add_typer(app, name="robot")
