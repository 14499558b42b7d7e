"""`dynid identify`: identification of a model from recorded motions in bags or CSV files."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dynid.commands.mapping import mapping_or_draft
from dynid.commands.options import (
    DEFAULT_ROBOT,
    EffortOption,
    HoldOutOption,
    JsonOption,
    MappingOption,
    MethodOption,
    PositionOption,
    RobotOption,
    RowsOption,
    SkipOption,
    ValidateMappingOption,
    ValidateOption,
    read_mapping,
    read_validation_mapping,
    refuse_unused_mapping,
)
from dynid.commands.terminal import print_json, progress_bar, say, stages, stdout

if TYPE_CHECKING:
    from dynid.recording.mapping import Mappings
    from dynid.robot import Robot


def identify(
    recordings: Annotated[
        list[Path],
        typer.Argument(metavar="RECORDING...", help="Bags, CSV files, LeRobot data sets, or folders of them."),
    ],
    out: Annotated[Path, typer.Option(help="New folder for the result.")],
    robot: RobotOption = DEFAULT_ROBOT,
    method: MethodOption = "regression",
    validate: ValidateOption = None,
    mapping: MappingOption = None,
    validate_mapping: ValidateMappingOption = None,
    effort: EffortOption = None,
    position: PositionOption = None,
    hold_out: HoldOutOption = 0.0,
    skip_corrupt_rows: SkipOption = False,
    estimator: Annotated[str | None, typer.Option(help="Estimator; default: identification.yaml.")] = None,
    rows: RowsOption = None,
    estimate_setup: Annotated[
        list[str] | None,
        typer.Option(
            help="Estimate what of the set-up is unknown: tilt, delay, zeros, zero:JOINT, torque-constants, "
            "torque-constant:JOINT; repeatable."
        ),
    ] = None,
    from_s: Annotated[
        float | None, typer.Option("--from", help="Use rows from this second of each recording on.")
    ] = None,
    until_s: Annotated[
        float | None, typer.Option("--until", help="Use rows until this second of each recording.")
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(
            min=0, help="Processes that read and reduce recordings side by side; 0: one per core; default: one."
        ),
    ] = None,
    dask: Annotated[
        str | None, typer.Option(help="Spread the same over a Dask cluster: its scheduler's address, or local.")
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(help="Folder for finished work on many recordings: an interrupted command continues there."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Identify a model from recorded motions; exit code 1 if it is not accepted.

    A folder stands for all recordings in it, and their data may exceed the memory; dynid logs lists these recordings.
    With --method campaign the command does the same as `dynid campaign`: finished runs are kept in OUT.runs until the
    campaign is complete. Then the exit code is also 1 if a check of the whole campaign fails.
    """
    from dynid.identification.campaign.store import runs_folder
    from dynid.identification.methods import identify as run
    from dynid.identification.settings import load_identification
    from dynid.reporting.result_writer import write_result
    from dynid.reporting.tables import joint_table, print_verdict
    from dynid.reporting.verdict_words import advice, outcome
    from dynid.resources import refuse_existing
    from dynid.robot import load_robot

    refuse_existing(out)
    loaded = load_robot(robot)
    settings = load_identification(loaded)
    chosen = {"estimator": estimator, "rows": rows}
    settings = settings.model_copy(update={key: value for key, value in chosen.items() if value is not None})
    judges = validate or []
    own = read_validation_mapping(validate_mapping, judges, skip_corrupt_rows)
    stated = read_mapping(mapping, skip_corrupt_rows, position=position, effort=effort)
    columns = _used_mappings(stated, own, recordings, judges, loaded, out)
    validation_mappings = validate_mapping and read_mapping(validate_mapping, skip_corrupt_rows, otherwise=columns)
    recordings = [path.resolve() if dask else path for path in recordings]  # workers may run in another folder
    bar = progress_bar("identifying", len(recordings) + 2) if method == "campaign" else None
    with bar or stages("identifying", len(recordings) + 6) as begin:
        result = run(
            loaded,
            recordings,
            method=method,
            runs=runs_folder(out) if method == "campaign" else None,
            validation=judges,
            settings=settings,
            progress=begin,
            mapping=columns,
            validation_mapping=validation_mappings,
            held_out_share=hold_out,
            setup=estimate_setup or (),
            span=(from_s, until_s),
            processes=processes,
            dask=dask,
            keep=keep,
        )
        begin("writing the result")
        report = write_result(result, out)
    if as_json:
        print_json(result.summary())
    else:
        count = sum(used == "fitted" for _, _, used in result.sources)
        print_verdict(stdout(), result.verdict, f"{loaded.file.title}: model from {count} recording(s)")
        stdout().print(joint_table(result.motions, loaded.joint_names))
        if result.campaign is not None:
            print_verdict(stdout(), result.campaign.processing, "the campaign")
        refinement = result.refinement and f"closed-loop refinement: {result.refinement}"
        lines = (
            refinement,
            result.simulated_sentence,
            result.torque_sentence,
            *result.notes,
            out / "model.yaml",
            report,
        )
        say(*(f"  {one}" for one in lines if one), markup=False)
        checks = (*result.verdict.checks, *(result.campaign.processing.checks if result.campaign else ()))
        say(outcome(checks), markup=False)
        say(*(f"  try: {one}" for one in advice(checks, [path for path, *_ in result.sources])), markup=False)
    raise typer.Exit(0 if result.passed else 1)


def _used_mappings(
    stated: "Mappings | None",
    own: "Mappings | None",
    recordings: list[Path],
    validation: list[Path],
    robot: "Robot",
    out: Path,
) -> "Mappings | None":
    """Return the stated mappings, with one for CSV files drafted if they need it; refuse a mapping that is not used.

    Args:
        stated: mappings of all recordings; None without any.
        own: mappings that held-out recordings have instead; None without any.
        recordings: recordings to identify from.
        validation: held-out recordings.
        robot: the robot.
        out: output of the command, see `mapping_or_draft`.

    Raises:
        ConfigurationError: a mapping describes only recordings of which there are none, or a draft needs consent.
    """
    of_csv = [*recordings, *([] if own and own.csv else validation)]
    of_bags = [*recordings, *([] if own and own.bag else validation)]
    found = mapping_or_draft(stated, of_csv, robot, out)
    if found is not None:
        refuse_unused_mapping(replace(found, bag=None), of_csv)
        refuse_unused_mapping(replace(found, csv=None), of_bags)
    return found
