"""`dynid report`: one self-contained HTML file about an identified model, alone or compared with others."""

from pathlib import Path
from typing import Annotated

import typer

from dynid.commands.options import MappingOption, read_mapping, refuse_unused_mapping
from dynid.commands.terminal import print_json, say, stages


def report(
    result: Annotated[Path, typer.Argument(help="Result folder of identify, campaign or demo.")],
    compare: Annotated[list[Path] | None, typer.Option(help="Result folder to compare with; repeatable.")] = None,
    out: Annotated[Path | None, typer.Option(help="New file; default: RESULT/report.html.")] = None,
    motion: Annotated[
        list[Path] | None, typer.Option(help="Additional held-out bag, CSV or folder to predict; repeatable.")
    ] = None,
    tracking: Annotated[
        list[Path] | None, typer.Option(help="Bag of a motion with its reference, for the tracking error; repeatable.")
    ] = None,
    mapping: MappingOption = None,
    robot: Annotated[
        str | None, typer.Option("--robot", help="Robot name or folder; default: from model.yaml.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
) -> None:
    """Write an HTML report on whether a model can be trusted, and why; any browser opens it, without a network."""
    from dynid.reporting.report import FILE_NAME, write_report
    from dynid.reporting.result_folder import open_result
    from dynid.reporting.verdict_words import in_words
    from dynid.resources import refuse_existing

    path = out or result / FILE_NAME
    refuse_existing(path)
    columns = read_mapping(mapping)
    if columns is not None and not motion:
        raise typer.BadParameter("--mapping describes recordings of --motion, and there are none: leave it out")
    refuse_unused_mapping(columns, motion or ())
    folders, opened = (result, *(compare or ())), []
    with stages("report", len(folders) + 1) as begin:
        for one in folders:
            begin(f"reading {one}")
            opened.append(open_result(one, robot, recordings=motion or (), mapping=columns))
        begin("writing")
        first, *others = opened
        write_report(first, path, others, tracking or ())
    words = [in_words(one) for one in (first, *others)]
    if as_json:
        rows = [
            {"result": str(one.folder), "accepted": text.accepted, "headline": text.headline}
            for one, text in zip((first, *others), words, strict=True)
        ]
        print_json({"report": str(path), "bytes": path.stat().st_size, "results": rows})
        return
    say(*(text.headline for text in words), f"  {path}", markup=False)
