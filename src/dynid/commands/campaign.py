"""`dynid campaign`: every bag at every sampling interval, then one accepted model."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from dynid.commands.options import DEFAULT_ROBOT, JsonOption, RobotOption
from dynid.commands.terminal import progress_bar, stages, stdout

if TYPE_CHECKING:
    from dynid.identification.campaign import Campaign
    from dynid.robot import Robot


def campaign(
    bags: Annotated[list[Path], typer.Argument(help="Bags to identify from, one trajectory each.")],
    out: Annotated[Path, typer.Option(help="New folder for the result.")],
    robot: RobotOption = DEFAULT_ROBOT,
    validate: Annotated[list[Path] | None, typer.Option(help="Held-out bag; repeatable.")] = None,
    settings: Annotated[Path | None, typer.Option(help="Identification settings; else the robot's own.")] = None,
    processes: Annotated[int | None, typer.Option(min=1, help="Processes; else one per core.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Identify from every bag at every sampling interval, choose a representative, and accept one model.

    Finished runs lie in OUT.runs until the campaign is complete: started again after an interruption, it goes on where
    it was. Exit code 1 if the model is not accepted, or a check of the campaign as a whole fails.
    """
    from dynid.identification.campaign import campaign as run
    from dynid.identification.campaign_files import summary, write_campaign
    from dynid.identification.settings import IdentificationSettings
    from dynid.resources import load_validated, refuse_existing
    from dynid.robot import load_robot

    refuse_existing(out)
    loaded = load_robot(robot)
    chosen = None if settings is None else load_validated(settings, IdentificationSettings)
    runs = out.with_name(f"{out.name}.runs")
    with progress_bar("identifying", len(bags) + 1) as advance:
        result = run(
            loaded, bags, runs, validation_bags=validate or [], settings=chosen, processes=processes, advance=advance
        )
    with stages("writing", 2) as begin:
        begin("the result")
        write_campaign(result, out, runs)
        begin("the report")
        report = _add_report(loaded, out, result, bags, validate or [])
    if as_json:
        print(json.dumps(summary(result)))
    else:
        _print(stdout(), result, (out / "model.yaml", report))
    raise typer.Exit(0 if result.verdict.accepted and result.processing.accepted else 1)


def _add_report(robot: "Robot", out: Path, result: "Campaign", bags: list[Path], held_out: list[Path]) -> Path:
    """The report on the representative's own bag and the held-out ones."""
    from dynid.reporting.beside_result import Recorded, add_report

    run = result.representative
    own = next(bag for bag in bags if bag.name == run.bag)
    fitted = Recorded(own, "fitted", interval_s=run.interval_s)
    return add_report(robot, out, [fitted, *(Recorded(bag, "held out") for bag in held_out)])


def _print(console: Console, result: "Campaign", written: tuple[Path, ...]) -> None:
    """Routing, failures, the representative, and the verdicts."""
    from dynid.reporting.tables import print_verdict

    table = Table(title="runs by sampling interval", title_justify="left")
    for heading in ("interval", "OLS-CLIE", "OLS-SDP-CLIE", "unrouted", "refused", "total"):
        table.add_column(heading, justify="right")
    for interval, row in result.routing().items():
        table.add_row(f"{interval * 1e3:g} ms", *map(str, row.values()))
    console.print(table)
    if result.reused:
        console.print(f"{result.reused} of {len(result.runs)} runs were stored already and were reused")
    for name, reason in result.failures.items():
        console.print(f"[bold red]x[/bold red] {name}: {reason}", highlight=False)
    for run in result.runs:
        if not run.accepted:
            console.print(f"[yellow]-[/yellow] {run.label} refused: {run.refusal}", highlight=False)
    console.print(f"representative: {result.cloud.representative.reason}", highlight=False)
    print_verdict(console, result.processing, "the campaign")
    print_verdict(console, result.verdict, f"{result.robot.file.title}: {result.representative.label}")
    console.print(
        "[yellow]a URDF cannot hold rotor inertias, which dominate the wrist: simulate with model.xml, or add "
        "rotor_inertias.yaml[/yellow]"
    )
    for path in written:
        console.print(f"  {path}", soft_wrap=True, highlight=False)
    console.print(f"{len(result.runs)} runs in {result.seconds['runs']:.1f} s, {result.seconds['all']:.1f} s in all")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(campaign)
