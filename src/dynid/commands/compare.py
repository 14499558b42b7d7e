"""`dynid compare`: comparison of several estimators on the same data."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from dynid.commands.options import (
    DEFAULT_ROBOT,
    HoldOutOption,
    JsonOption,
    MappingOption,
    RobotOption,
    SkipOption,
    ValidateMappingOption,
    ValidateOption,
    read_two_mappings,
)
from dynid.commands.terminal import print_json, say, stages, stdout, table
from dynid.errors import ConfigurationError

if TYPE_CHECKING:
    from dynid.identification.comparison import Row


def compare(
    recordings: Annotated[list[Path], typer.Argument(metavar="BAG_OR_CSV...", help="Recordings to fit.")],
    robot: RobotOption = DEFAULT_ROBOT,
    estimator: Annotated[list[str] | None, typer.Option(help="Estimator; repeatable; default: all.")] = None,
    validate: ValidateOption = None,
    mapping: MappingOption = None,
    validate_mapping: ValidateMappingOption = None,
    hold_out: HoldOutOption = 0.0,
    skip_corrupt_rows: SkipOption = False,
    plot: Annotated[Path | None, typer.Option(help="New figure of the errors: .svg, .png or .pdf.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Compare estimators on the same data: errors in and out of sample, physical consistency, run time."""
    from dynid.identification.comparison import Comparison
    from dynid.identification.data.recordings import load_recordings, torque_sentence
    from dynid.identification.data.sample_sets import join
    from dynid.identification.late_torques import in_time
    from dynid.identification.settings import load_identification
    from dynid.model.dynamics import ArmModel
    from dynid.reporting.bars import write_bars
    from dynid.reporting.trajectory_figure import check_output
    from dynid.robot import load_robot

    if validate and hold_out:
        raise ConfigurationError("--validate and --hold-out both choose validation data: give one of them")
    if plot is not None:
        check_output(plot)
    loaded = load_robot(robot)
    settings = load_identification(loaded)
    mappings, other = read_two_mappings(mapping, validate_mapping, recordings, validate or [], skip_corrupt_rows)
    sources = load_recordings(recordings, loaded, mappings)
    timed = in_time(loaded, sources, settings)
    split = [one.split(settings, hold_out) for one in timed.recordings]
    fitted_samples, held_out = ([one.samples for pair in split for one in pair[k]] for k in (0, 1))
    if validate:
        validation = load_recordings(validate, loaded, other)
        if validation[0].mount != sources[0].mount:
            raise ConfigurationError("fitted and validation recordings must have the same mount")
        held_out = [timed.setup.read(one).samples(settings) for one in validation]
    model = ArmModel.of(loaded, mount=sources[0].mount)
    with stages("compare", 1) as begin:
        begin("fitting every estimator")
        rows = Comparison(loaded, model, join(fitted_samples), join(held_out) if held_out else None, settings).rows(
            estimator or ()
        )
    sentence = torque_sentence(sources[0].torque_constants, loaded.joint_names)
    if plot is not None:
        write_bars(
            plot,
            loaded.file.title,
            "relative torque error, samples at rest included [%]",
            [row.name for row in rows],
            _errors(rows),
        )
    if as_json:
        found = {row.name: row.as_dict(loaded.joint_names) for row in rows}
        told = {"torques": sentence, "notes": list(timed.notes)}
        print_json({"estimators": found, "base_parameters": len(model.names)} | told)
        return
    stdout().print(_table(rows, len(model.names), loaded.file.title))
    say(*(f"[bold red]x[/bold red] {row.name}: {escape(row.failure)}" for row in rows if row.failure))
    say(sentence, *timed.notes, markup=False)


def _errors(rows: "list[Row]") -> dict[str, list[float | None]]:
    """Return the relative torque errors [%] of all estimators by kind: in sample, and out of sample if available."""
    found = {
        "in sample": [None if row.in_sample is None else 100 * row.in_sample.relative for row in rows],
        "out of sample": [None if row.out_of_sample is None else 100 * row.out_of_sample.relative for row in rows],
    }
    return {name: values for name, values in found.items() if any(one is not None for one in values)}


def _table(rows: "list[Row]", size: int, title: str) -> Table:
    headings = ("estimator", f"of {size}", "in sample", "out of sample", "feasible", "seconds")
    made = table(f"{escape(title)}: relative torque errors, samples at rest included", *headings)
    for row in rows:
        if row.outcome is None or row.in_sample is None:
            made.add_row(row.name, "-", "failed", "-", "-", f"{row.seconds:.2f}")
            continue
        errors = ("-" if one is None else f"{100 * one.relative:.2f} %" for one in (row.in_sample, row.out_of_sample))
        made.add_row(row.name, str(row.parameters), *errors, _feasibility(row), f"{row.seconds:.2f}")
    return made


def _feasibility(row: "Row") -> str:
    """Return a phrase on the physical consistency of an estimate.

    If the estimate is not consistent, the phrase states whether M(q) is positive definite, and how many links are
    physically possible.
    """
    assert row.outcome is not None
    if row.outcome.consistent:
        return "consistent"
    word = "M definite" if row.feasible else f"M indefinite ({row.lambda_min:.2g})"
    links = row.outcome.definite_links
    return word if links is None else f"{word}, {links} links possible"
