"""`dynid compare`: several estimators on the same data."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from dynid.commands.options import DEFAULT_ROBOT, JsonOption, MappingOption, RobotOption, SkipOption, read_mapping
from dynid.commands.terminal import stages, stdout
from dynid.errors import ConfigurationError

if TYPE_CHECKING:
    from dynid.identification.comparison import Row


def compare(
    recordings: Annotated[list[Path], typer.Argument(metavar="BAG_OR_CSV...", help="Recordings to fit.")],
    robot: RobotOption = DEFAULT_ROBOT,
    estimator: Annotated[list[str] | None, typer.Option(help="An estimator; repeatable; else all.")] = None,
    validate: Annotated[list[Path] | None, typer.Option(help="Held-out bag or CSV; repeatable.")] = None,
    mapping: MappingOption = None,
    validate_mapping: Annotated[Path | None, typer.Option(help="Mapping of held-out CSVs, where it differs.")] = None,
    hold_out: Annotated[
        float, typer.Option(min=0.0, max=0.9, help="Share of each recording, at its end, to judge by.")
    ] = 0.0,
    skip_corrupt_rows: SkipOption = False,
    as_json: JsonOption = False,
) -> None:
    """Tabulate errors in and out of sample, feasibility and time of several estimators."""
    from dynid.identification.comparison import Comparison
    from dynid.identification.sample_sets import hold_out as split
    from dynid.identification.sample_sets import join
    from dynid.identification.settings import load_identification
    from dynid.identification.sources import load_sources, torque_sentence
    from dynid.model.dynamics import ArmModel
    from dynid.robot import load_robot

    if validate and hold_out:
        raise ConfigurationError("--validate and --hold-out both name data to judge by: choose one")
    loaded = load_robot(robot)
    settings = load_identification(loaded)
    own = read_mapping(mapping, skip_corrupt_rows)
    other = read_mapping(validate_mapping or mapping, skip_corrupt_rows)
    sources = load_sources(recordings, loaded, settings, own)
    fitted, held = [one.samples(settings) for one in sources], []
    if hold_out:
        pairs = [split(one, hold_out, settings.filter) for one in fitted]
        fitted, held = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    elif validate:
        judges = load_sources(validate, loaded, settings, other)
        if judges[0].mount != sources[0].mount:
            raise ConfigurationError("recordings to fit and to judge by must have one mount")
        held = [one.samples(settings) for one in judges]
    model = ArmModel.of(loaded, mount=sources[0].mount)
    with stages("compare", 1) as begin:
        begin("fitting every estimator")
        rows = Comparison(loaded, model, join(fitted), join(held) if held else None, settings).rows(estimator or ())
    sentence = torque_sentence(sources[0].torque_constants, loaded.joint_names)
    if as_json:
        found = {row.name: row.as_dict(loaded.joint_names) for row in rows}
        print(json.dumps({"estimators": found, "base_parameters": len(model.names), "torques": sentence}))
        return
    console = stdout()
    console.print(_table(rows, len(model.names), loaded.file.title))
    for row in rows:
        if row.failure:
            console.print(f"[bold red]x[/bold red] {row.name}: {escape(row.failure)}", soft_wrap=True, highlight=False)
    console.print(sentence, soft_wrap=True, highlight=False)


def _table(rows: "list[Row]", size: int, title: str) -> Table:
    table = Table(title=f"{escape(title)}: relative torque errors", title_justify="left")
    for heading in ("estimator", f"of {size}", "in sample", "out of sample", "feasible", "seconds"):
        words = heading in ("estimator", "feasible")
        table.add_column(heading, justify="left" if words else "right", no_wrap=heading == "estimator")
    for row in rows:
        if row.outcome is None or row.in_sample is None:
            table.add_row(row.name, "-", "failed", "-", "-", f"{row.seconds:.2f}")
            continue
        out = "-" if row.out_of_sample is None else f"{100 * row.out_of_sample.relative:.2f} %"
        table.add_row(
            row.name, str(row.parameters), f"{100 * row.in_sample.relative:.2f} %", out, _feasibility(row),
            f"{row.seconds:.2f}",
        )  # fmt: skip
    return table


def _feasibility(row: "Row") -> str:
    """In words: consistent, or what the poses that were looked at say, and how many links some body has."""
    assert row.outcome is not None
    if row.outcome.consistent:
        return "consistent"
    word = "M definite" if row.feasible else f"M indefinite ({row.lambda_min:.2g})"
    links = row.outcome.definite_links
    return word if links is None else f"{word}, {links} links"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(compare)
