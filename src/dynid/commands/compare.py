"""`dynid compare`: comparison of several estimators on the same data."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

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
    from dynid.identification.data.recordings import Recording
    from dynid.identification.data.samples import Samples
    from dynid.identification.settings import IdentificationSettings
    from dynid.recording.mapping import Mapping
    from dynid.robot import Robot


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
    from dynid.identification.data.recordings import torque_sentence
    from dynid.identification.data.sample_sets import join
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
    data = _read(loaded, settings, (recordings, validate or []), (mappings, other), hold_out)
    model = ArmModel.of(loaded, mount=data.sources[0].mount)
    with stages("compare", 1) as begin:
        begin("fitting every estimator")
        fitted, held_out = join(data.fitted), join(data.held_out) if data.held_out else None
        rows = Comparison(loaded, model, fitted, held_out, settings).rows(estimator or ())
    sentence = torque_sentence(data.sources[0].torque_constants, loaded)
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
        told = {"torques": sentence, "notes": list(data.notes)}
        print_json({"estimators": found, "base_parameters": len(model.names)} | told)
        return
    stdout().print(_table(rows, len(model.names), loaded.file.title))
    say(*(f"[bold red]x[/bold red] {row.name}: {escape(row.failure)}" for row in rows if row.failure))
    say(sentence, *data.notes, markup=False)


class _Data(NamedTuple):
    """Data of a comparison.

    Attributes:
        sources: the fitted recordings.
        fitted: samples that the estimators fit.
        held_out: samples on which the fits are checked; [] if there are none.
        notes: remarks about the recordings.
    """

    sources: "list[Recording]"
    fitted: "list[Samples]"
    held_out: "list[Samples]"
    notes: tuple[str, ...]


def _read(
    robot: "Robot",
    settings: "IdentificationSettings",
    paths: tuple[list[Path], list[Path]],
    mappings: "tuple[Mapping, Mapping]",
    hold_out: float,
) -> _Data:
    """Read the recordings of a comparison.

    Args:
        robot: the robot.
        settings: settings of the identification.
        paths: paths of the fitted recordings and of the held-out ones.
        mappings: mappings of the fitted recordings and of the held-out ones.
        hold_out: share of each fitted recording's time, at its end, that is held out if no recording is.

    Raises:
        DataError: a recording cannot be used, is given twice, or is both fitted and held out.
        ConfigurationError: fitted and held-out recordings differ in mount.
    """
    from dynid.identification.data.recordings import load_recordings, refuse_fitted, refuse_repeated
    from dynid.identification.late_torques import in_time

    sources, validation = (load_recordings(own, robot, how) for own, how in zip(paths, mappings, strict=True))
    refuse_repeated(sources)
    refuse_repeated(validation)
    if mappings[0] == mappings[1]:  # with different mappings, one file may hold fitted and held-out data
        refuse_fitted(*([(str(one.path), one.sha256) for one in own] for own in (sources, validation)))
    if validation and validation[0].mount != sources[0].mount:
        raise ConfigurationError("fitted and validation recordings must have the same mount")
    timed = in_time(robot, sources, settings)
    split = [one.split(settings, hold_out) for one in timed.recordings]
    fitted, held_out = ([one.samples for pair in split for one in pair[k]] for k in (0, 1))
    held_out += [timed.setup.read(one).samples(settings) for one in validation]
    notes = (f"{one.name}: {note}" for one in (*sources, *validation) for note in one.notes)
    return _Data(sources, fitted, held_out, (*notes, *timed.notes))


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
