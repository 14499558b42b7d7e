"""`dynid identify`: a model from recorded motions, bags or CSV files."""

from pathlib import Path
from typing import Annotated

import typer

from dynid.commands.options import (
    DEFAULT_ROBOT,
    HoldOutOption,
    JsonOption,
    MappingOption,
    MethodOption,
    RobotOption,
    SkipOption,
    ValidateMappingOption,
    ValidateOption,
    read_mapping,
)
from dynid.commands.terminal import print_json, progress_bar, say, stages, stdout


def identify(
    recordings: Annotated[list[Path], typer.Argument(metavar="BAG_OR_CSV...", help="Recordings to identify from.")],
    out: Annotated[Path, typer.Option(help="New folder for the result.")],
    robot: RobotOption = DEFAULT_ROBOT,
    method: MethodOption = "regression",
    validate: ValidateOption = None,
    mapping: MappingOption = None,
    validate_mapping: ValidateMappingOption = None,
    hold_out: HoldOutOption = 0.0,
    skip_corrupt_rows: SkipOption = False,
    estimator: Annotated[str | None, typer.Option(help="Estimator; default: identification.yaml.")] = None,
    estimate_setup: Annotated[
        list[str] | None,
        typer.Option(
            help="Estimate what of the set-up is unknown: tilt, zeros, zero:JOINT, torque-constants, "
            "torque-constant:JOINT; repeatable."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Identify a model from recorded motions; exit code 1 if it is not accepted.

    With --method campaign it is the same as `dynid campaign`: finished runs are kept in OUT.runs until the campaign is
    complete, and the exit code is also 1 if a check of the whole campaign fails.
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
    if estimator is not None:
        settings = settings.model_copy(update={"estimator": estimator})
    bar = progress_bar("identifying", len(recordings) + 2) if method == "campaign" else None
    with bar or stages("identifying", len(recordings) + 6) as begin:
        result = run(
            loaded,
            recordings,
            method=method,
            runs=runs_folder(out) if method == "campaign" else None,
            validation=validate or [],
            settings=settings,
            progress=begin,
            mapping=read_mapping(mapping, skip_corrupt_rows),
            validation_mapping=read_mapping(validate_mapping, skip_corrupt_rows),
            held_out_share=hold_out,
            setup=estimate_setup or (),
        )
        begin("writing the result")
        report = write_result(result, out)
    if as_json:
        print_json(result.summary())
    else:
        print_verdict(stdout(), result.verdict, f"{loaded.file.title}: model from {len(recordings)} recording(s)")
        stdout().print(joint_table(result.motions, loaded.joint_names))
        if result.campaign is not None:
            print_verdict(stdout(), result.campaign.processing, "the campaign")
        how = result.refinement and f"closed-loop refinement: {result.refinement}"
        said = (how, result.simulated_sentence, result.torque_sentence, *result.notes, out / "model.yaml", report)
        say(*(f"  {one}" for one in said if one), markup=False)
        unseen = "" if result.validations else "; no motion was held out, so the error on unseen data is unknown"
        checks = (*result.verdict.checks, *(result.campaign.processing.checks if result.campaign else ()))
        say(f"{outcome(checks)}{unseen}", markup=False)
        say(*(f"  try: {one}" for one in advice(checks)), markup=False)
    raise typer.Exit(0 if result.passed else 1)
