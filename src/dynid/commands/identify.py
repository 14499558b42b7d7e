"""`dynid identify`: a model from recorded motions, bags or CSV files."""

from pathlib import Path
from typing import Annotated

import typer

from dynid.commands.options import DEFAULT_ROBOT, JsonOption, MappingOption, RobotOption, SkipOption, read_mapping
from dynid.commands.terminal import stages, stdout


def identify(
    recordings: Annotated[list[Path], typer.Argument(metavar="BAG_OR_CSV...", help="Recordings to identify from.")],
    out: Annotated[Path, typer.Option(help="New folder for the result.")],
    robot: RobotOption = DEFAULT_ROBOT,
    validate: Annotated[list[Path] | None, typer.Option(help="Held-out bag or CSV; repeatable.")] = None,
    mapping: MappingOption = None,
    validate_mapping: Annotated[Path | None, typer.Option(help="Mapping of held-out CSVs, where it differs.")] = None,
    hold_out: Annotated[
        float, typer.Option(min=0.0, max=0.9, help="Share of each recording, at its end, to judge by.")
    ] = 0.0,
    skip_corrupt_rows: SkipOption = False,
    estimator: Annotated[str | None, typer.Option(help="Estimator; else identification.yaml's.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Identify a model from recorded motions; exit code 1 if it is not accepted."""
    from dynid.identification.pipeline import identify as run
    from dynid.identification.pipeline import write_result
    from dynid.identification.settings import load_identification
    from dynid.reporting.beside_result import Recorded, add_report
    from dynid.reporting.tables import print_verdict
    from dynid.resources import refuse_existing
    from dynid.robot import load_robot

    refuse_existing(out)
    loaded = load_robot(robot)
    settings = load_identification(loaded)
    if estimator is not None:
        settings = settings.model_copy(update={"estimator": estimator})
    own = read_mapping(mapping, skip_corrupt_rows)
    other = read_mapping(validate_mapping, skip_corrupt_rows)
    with stages("identifying", len(recordings) + 6) as begin:
        result = run(
            loaded, recordings, validation_bags=validate or [], settings=settings, progress=begin,
            mapping=own, validation_mapping=other, held_out_share=hold_out,
        )  # fmt: skip
        write_result(result, out)
        begin("writing the report")
        used = [Recorded(path, "fitted", own, hold_out) for path in recordings]
        report = add_report(loaded, out, used + [Recorded(path, "held out", other or own) for path in validate or []])
    if as_json:
        print(result.summary_json())
    else:
        console = stdout()
        print_verdict(console, result.verdict, f"{loaded.file.title}: model from {len(recordings)} recording(s)")
        for note in (result.torque_sentence, *result.notes):
            console.print(f"  {note}", soft_wrap=True, highlight=False, markup=False)
        for path in (out / "model.yaml", report):
            console.print(f"  {path}", soft_wrap=True, highlight=False)
    raise typer.Exit(0 if result.verdict.accepted else 1)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(identify)
