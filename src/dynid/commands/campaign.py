"""`dynid campaign`: every bag at every sampling interval, then one accepted model."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dynid.commands.options import DEFAULT_ROBOT, JsonOption, RobotOption
from dynid.commands.terminal import print_json, progress_bar, say, stages, stdout, table

if TYPE_CHECKING:
    from dynid.identification.campaign.campaign import Campaign


def campaign(
    bags: Annotated[list[Path], typer.Argument(help="Bags to identify from, one trajectory each.")],
    out: Annotated[Path, typer.Option(help="New folder for the result.")],
    robot: RobotOption = DEFAULT_ROBOT,
    validate: Annotated[list[Path] | None, typer.Option(help="Held-out bag; repeatable.")] = None,
    settings: Annotated[Path | None, typer.Option(help="Identification settings; default: the robot's.")] = None,
    processes: Annotated[int | None, typer.Option(min=1, help="Number of processes; default: one per core.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Identify from every bag at every sampling interval, choose a representative, and accept one model.

    Finished runs are kept in OUT.runs until the campaign is complete, so the same call resumes an interrupted campaign.
    Exit code 1 if the model is not accepted, or a check of the whole campaign fails.
    """
    from dynid.identification.campaign.campaign import campaign as run
    from dynid.identification.settings import IdentificationSettings
    from dynid.reporting.campaign_files import summary, write_campaign
    from dynid.reporting.report import FILE_NAME
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
    with stages("writing", 1) as begin:
        begin("the result and the report")
        write_campaign(result, out, runs, report=True)
    if as_json:
        print_json(summary(result))
    else:
        _print(result, (out / "model.yaml", out / FILE_NAME))
    raise typer.Exit(0 if result.verdict.accepted and result.processing.accepted else 1)


def _print(result: "Campaign", written: tuple[Path, ...]) -> None:
    """Routing, failures, the representative, and the verdicts."""
    from dynid.reporting.tables import print_verdict
    from dynid.reporting.verdict_words import outcome

    headings = ("interval", "OLS-CLIE", "OLS-SDP-CLIE", "unrouted", "refused", "total")
    routes = table("runs by sampling interval", *headings, words=0)
    for interval, row in result.routing().items():
        routes.add_row(f"{interval * 1e3:g} ms", *map(str, row.values()))
    stdout().print(routes)
    if result.reused:
        say(f"reused {result.reused} of {len(result.runs)} runs from before")
    say(*(f"[bold red]x[/bold red] {name}: {reason}" for name, reason in result.failures.items()))
    refused = [run for run in result.runs if not run.accepted]
    say(*(f"[yellow]-[/yellow] {run.label} refused: {run.refusal}" for run in refused))
    say(f"representative: {result.cloud.representative.reason}")
    print_verdict(stdout(), result.processing, "the campaign")
    print_verdict(stdout(), result.verdict, f"{result.robot.file.title}: {result.representative.label}")
    say(outcome((*result.verdict.checks, *result.processing.checks)), result.result.simulated_sentence, markup=False)
    say(
        "[yellow]a URDF cannot hold rotor inertias, which dominate the wrist: simulate model.xml, or add "
        "rotor_inertias.yaml[/yellow]",
        *(f"  {path}" for path in written),
        f"{len(result.runs)} runs in {result.seconds['runs']:.1f} s, {result.seconds['all']:.1f} s in total",
    )
