"""`./run benchmark starts`: starts of the chain at the first try, under load of the machine."""

from typing import Annotated, Any

import typer

from dynid.commands.options import JsonOption, needs_ros
from dynid.commands.terminal import print_json, stages, stdout
from dynid.errors import UnknownNameError


def starts(
    runs: Annotated[int, typer.Option("--starts", min=1, help="Starts under each condition.")] = 20,
    condition: Annotated[
        list[str] | None, typer.Option(help="Condition by its name in the table; repeatable; default: all.")
    ] = None,
    seconds: Annotated[float, typer.Option(min=1.0, help="How long each counts cycles [s].")] = 5.0,
    as_json: JsonOption = False,
) -> None:
    """Start the chain with empty and with full caches, with busy processes beside it, and on one processor.

    The simulated arm follows the wall clock, as a real one. Exit code 1 if a start fails.
    """
    with needs_ros("starting the chain"):
        from benchmarks.starts.conditions import CONDITIONS, started
    import tempfile
    from pathlib import Path

    known = {one.name: one for one in CONDITIONS}
    if unknown := [name for name in condition or () if name not in known]:
        raise UnknownNameError("condition", unknown[0], list(known))
    chosen = [known[name] for name in condition or known]
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="dynid-starts-") as folder:
        full = Path(folder)
        with stages("benchmark", runs * len(chosen) + 1) as begin:
            begin("filling the caches")
            started(next(one for one in CONDITIONS if not one.cold), 1.0, full)
            for one in chosen:
                for k in range(runs):
                    begin(f"{one.name}: start {k + 1} of {runs}")
                    found.append(started(one, seconds, full))
    rows = [_row(one.name, [start for start in found if start["condition"] == one.name]) for one in chosen]
    if as_json:
        print_json({"rows": rows, "starts": found})
    else:
        for row in rows:
            stdout().print(
                f"{row['condition']:42} {row['up']:3} of {row['starts']} came up, {row['kept']:3} kept their rate; "
                f"median {row['median_s']:.1f} s, longest {row['longest_s']:.1f} s; rates {row['rates']}",
                soft_wrap=True,
            )
            for why in row["why"]:
                stdout().print(f"  {why}", soft_wrap=True)
    raise typer.Exit(0 if all(start["up"] for start in found) else 1)


def _row(name: str, found: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the figures of one condition."""
    times = sorted(one["seconds"] for one in found if one["up"])
    rates: dict[str, int] = {}
    for one in found:
        if one["up"]:
            rate = str(one["rate"]).split(":")[0]  # without the measured times
            rates[rate] = rates.get(rate, 0) + 1
    return {
        "condition": name,
        "starts": len(found),
        "up": sum(one["up"] for one in found),
        "kept": sum(one["kept"] for one in found),
        "median_s": times[len(times) // 2] if times else float("nan"),
        "longest_s": times[-1] if times else float("nan"),
        "rates": rates,
        "why": sorted({one["why"] for one in found if one["why"]}),
    }


def register(group: typer.Typer) -> None:
    """Add the benchmark."""
    group.command()(starts)
