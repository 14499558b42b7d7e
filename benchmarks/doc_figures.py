"""List of pages of the documentation whose figures were measured on an earlier version of the simulated arm.

python benchmarks/doc_figures.py

docs/figures.yaml names each page with figures of the simulated CRANE-X7, the command that makes them, and the
fingerprint of the arm on which they were measured. After a new measurement, write the fingerprint printed here into
that file. A page with figures of an earlier arm must say so; a test compares both.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field
from rich.console import Console
from rich.table import Table

from dynid.documents import read_yaml
from dynid.resources import load_validated
from dynid.robot import Robot, Strict, load_robot

DOCS = Path(__file__).parents[1] / "docs"
FILE = DOCS / "figures.yaml"
EARLIER = "measured on an earlier simulated arm"
DIGITS = 12


class Figures(Strict):
    """Figures of one page, the command that makes them, and the fingerprint of the arm on which they were measured."""

    page: str
    command: str
    arm: Annotated[str, Field(pattern=rf"^[0-9a-f]{{{DIGITS}}}$")]


class FiguresFile(Strict):
    """Schema of figures.yaml."""

    schema_version: Literal[1]
    figures: Annotated[tuple[Figures, ...], Field(min_length=1)]


def fingerprint(robot: Robot) -> str:
    """Return a hash of the simulated arm's links, rotors, gears, nuisances and servos; comments do not change it."""
    simulated = robot.file.simulation
    plant = simulated.plant_parameters or simulated.standard_parameters
    contents = [read_yaml(robot.folder / name) for name in (plant, "friction.yaml")]
    parts = [repr({name: value for name, value in one.items() if name != "source"}) for one in contents]
    nuisances = simulated.nuisances
    parts += ["" if nuisances is None else nuisances.model_dump_json(), simulated.friction]
    parts += [model.model_dump_json() for model in robot.file.servos.values()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:DIGITS]


def wrong_pages(figures: Sequence[Figures], arm: str, docs: Path = DOCS) -> list[str]:
    """Return a sentence for each page that hides, or wrongly states, that its figures are of an earlier arm."""
    found = []
    for page in sorted({one.page for one in figures}):
        earlier = [one.command for one in figures if one.page == page and one.arm != arm]
        says = EARLIER in " ".join((docs / page).read_text(encoding="utf-8").split())
        if earlier and not says:
            found.append(f"{page}: figures of '{', '.join(earlier)}' are older than the simulated arm: measure again")
        if says and not earlier:
            found.append(f"{page} says '{EARLIER}', but its figures are of the present one")
    return found


def main() -> None:
    """Print the table of pages."""
    arm = fingerprint(load_robot("crane_x7"))
    table = Table("page", "command", "simulated arm", title=f"present arm: {arm}", title_justify="left")
    for one in load_validated(FILE, FiguresFile).figures:
        table.add_row(one.page, one.command, "present" if one.arm == arm else f"earlier ({one.arm})")
    Console().print(table)


if __name__ == "__main__":
    main()
