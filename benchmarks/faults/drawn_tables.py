"""Tables of random cases that `./run benchmark faults` runs in addition to its faults."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.faults.contact_stop import contact_rows, run_touch
from benchmarks.faults.drawn import Drawn, DrawnRow
from benchmarks.faults.falls import fall_rows, land
from benchmarks.faults.guiding import guided_rows, run_guided
from benchmarks.faults.runaway import run_away, runaway_rows


@dataclass(frozen=True)
class DrawnTable:
    """Table of random cases.

    Attributes:
        work: function that draws and runs one case.
        rows: function that makes the table's rows from all results.
        columns: titles of the columns, that of the rows' titles first.
    """

    work: Callable[[Drawn], Any]
    rows: Callable[[Sequence[Any]], Sequence[DrawnRow]]
    columns: tuple[str, ...]


TABLES = {
    "falls": DrawnTable(
        land,
        fall_rows,
        (
            "stopped by",
            "runs",
            "violations",
            "torque off [s]",
            "latest [s]",
            "moved after [deg]",
            "tool [m/s]",
            "no rest found",
        ),
    ),
    "run away": DrawnTable(
        run_away, runaway_rows, ("cause, law", "cases", "refused", "left to the driver", "most off [deg]", "violations")
    ),
    "contact": DrawnTable(
        run_touch,
        contact_rows,
        (
            "what happens",
            "cases",
            "stopped in motion",
            "slowest [ms]",
            "goals refused",
            "false stops",
            "free motion [s]",
            "violations",
        ),
    ),
    "guiding": DrawnTable(
        run_guided, guided_rows, ("what happens", "cases", "held", "tool [m/s]", "way [m]", "violations")
    ),
}
