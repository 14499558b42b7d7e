"""`dynid campaign`: identify a model from each bag at each sampling interval, then choose and check one of them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dynid.commands.options import DEFAULT_ROBOT, JsonOption, RobotOption
from dynid.commands.terminal import print_json, progress_bar, say, stages, stdout, table

if TYPE_CHECKING:
    from dynid.identification.result import Identification


def campaign(
    bags: Annotated[list[Path], typer.Argument(help="Bags to identify from, one trajectory each.")],
    out: Annotated[Path, typer.Option(help="New folder for the result.")],
    robot: RobotOption = DEFAULT_ROBOT,
    validate: Annotated[
        list[Path] | None,
        typer.Option(
            help="Held-out bag; repeatable. Of several, every second one chooses the model, the others accept it."
        ),
    ] = None,
    settings: Annotated[Path | None, typer.Option(help="Identification settings; default: the robot's.")] = None,
    processes: Annotated[int | None, typer.Option(min=1, help="Number of processes; default: one per core.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Identify one model from each bag at each sampling interval, choose a representative one, and check it.

    Finished runs are kept in OUT.runs until the campaign is complete, so the same call resumes an interrupted campaign.
    Exit code 1 if the chosen model is not accepted, or a check of the whole campaign fails.
    """
    from dynid.identification.campaign.store import runs_folder
    from dynid.identification.methods import identify
    from dynid.identification.settings import IdentificationSettings
    from dynid.reporting.result_writer import write_result
    from dynid.resources import load_validated, refuse_existing
    from dynid.robot import load_robot

    refuse_existing(out)
    loaded = load_robot(robot)
    chosen = None if settings is None else load_validated(settings, IdentificationSettings)
    with progress_bar("identifying", len(bags) + 1) as advance:
        result = identify(
            loaded,
            bags,
            method="campaign",
            validation=validate or [],
            settings=chosen,
            processes=processes,
            progress=advance,
            runs=runs_folder(out),
        )
    with stages("writing", 1) as begin:
        begin("the result and the report")
        report = write_result(result, out)
    assert result.campaign is not None, "the method is campaign"
    if as_json:
        print_json(result.campaign.summary)
    else:
        _print(result, (out / "model.yaml", report))
    raise typer.Exit(0 if result.passed else 1)


def _print(result: "Identification", written: tuple[Path, ...]) -> None:
    """Print the outcome of a campaign: numbers of runs by sampling interval, failures, the chosen model and its checks.

    `written` are the paths of the result files.
    """
    from dynid.reporting.tables import print_verdict
    from dynid.reporting.verdict_words import outcome

    assert result.campaign is not None, "the method is campaign"
    found, processing = result.campaign.summary, result.campaign.processing
    headings = ("interval", "OLS-CLIE", "OLS-SDP-CLIE", "unrouted", "refused", "total")
    routes = table("runs by sampling interval", *headings, words=0)
    for interval, row in found["routing"].items():
        routes.add_row(f"{interval} ms", *map(str, row.values()))
    stdout().print(routes)
    if found["reused"]:
        say(f"reused {found['reused']} of {found['runs']} runs from before")
    say(*(f"[bold red]x[/bold red] {name}: {reason}" for name, reason in found["failures"].items()))
    say(*(f"[yellow]-[/yellow] {label} refused: {reason}" for label, reason in found["refusals"].items()))
    say(f"representative: {found['reason']}")
    print_verdict(stdout(), processing, "the campaign")
    print_verdict(stdout(), result.verdict, f"{result.robot.file.title}: {found['representative']['run']}")
    say(outcome((*result.verdict.checks, *processing.checks)), result.simulated_sentence, markup=False)
    seconds = found["seconds"]
    say(
        "[yellow]a URDF cannot hold rotor inertias, which dominate the wrist: simulate model.xml, or add "
        "rotor_inertias.yaml[/yellow]",
        *(f"  {path}" for path in written),
        f"{found['runs']} runs in {seconds['runs']:.1f} s, {seconds['all']:.1f} s in total",
    )
