"""`dynid bag`: summary and repair of bags."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from dynid.commands import options as opt
from dynid.commands.terminal import print_json, say, stages


def bag(
    action: Annotated[str, typer.Argument(help="info or repair")],
    path: Annotated[Path, typer.Argument(help="The bag.")],
    as_json: opt.JsonOption = False,
) -> None:
    """Summarise a bag (info), or restore the metadata of a bag whose recorder was killed (repair)."""
    from dynid.errors import UnknownNameError, one_line
    from dynid.recording.bag_info import bag_info
    from dynid.recording.bag_repair import repair_bag

    if action not in ("info", "repair"):
        raise UnknownNameError("action", action, ("info", "repair"))
    with stages("bag", 2) as begin:
        if action == "repair":
            begin(f"repairing {path.name}")
            repair_bag(path)
        begin(f"reading {path.name}")
        info = bag_info(path)
    if as_json:
        print_json(info.as_dict())
        return
    say(f"{info.path}  {info.storage}, {info.duration_s:.1f} s", markup=False)
    for topic in info.topics:
        rate = f"{topic.rate_hz:.1f} Hz" if topic.rate_hz else ""
        missed = f", {topic.drops.missed} of {topic.drops.expected} cycles missing" if topic.drops else ""
        name, kind = one_line(topic.name), one_line(topic.message_type)  # names from the bag may contain line breaks
        say(f"  {name}  {topic.count} x {kind}  {rate}{missed}", markup=False)
    say(*(f"  [yellow]{escape(one_line(finding))}[/yellow]" for finding in info.findings))
