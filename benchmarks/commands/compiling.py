"""`./run benchmark compiling`: functions compiled before a start, their compile times, and their users."""

from dataclasses import asdict

import typer

from dynid.commands.options import JsonOption
from dynid.commands.terminal import print_json, stdout


def compiling(as_json: JsonOption = False) -> None:
    """Compile everything with empty caches; list each function with its time and its users."""
    from benchmarks.starts.compile_times import compile_times

    found = compile_times()
    total = sum(one.seconds for one in found)
    if as_json:
        print_json({"total_s": total, "functions": [asdict(one) for one in found]})
        return
    for one in found:
        stdout().print(f"{one.seconds:6.2f} s  {one.variants}  {one.name:60} {', '.join(one.users)}", soft_wrap=True)
    stdout().print(f"{total:6.2f} s  {len(found)} functions")


def register(group: typer.Typer) -> None:
    """Add the benchmark."""
    group.command()(compiling)
