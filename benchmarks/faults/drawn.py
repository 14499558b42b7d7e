"""Random cases that are drawn by number and run in processes, as shared by several tables."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

from dynid.parallel import in_processes

Found = TypeVar("Found")


@dataclass(frozen=True)
class Drawn:
    """Case of a table: robot by name or folder, number of the case, and seed of the table."""

    robot: str
    number: int
    seed: int


class DrawnRow(Protocol):
    """Row of a table of random cases."""

    @property
    def title(self) -> str:
        """Common property of the row's cases."""

    @property
    def figures(self) -> tuple[str, ...]:
        """Columns after the title."""

    @property
    def violations(self) -> int:
        """Number of cases with a violation."""

    @property
    def findings(self) -> tuple[str, ...]:
        """Examples of the violations, as sentences."""

    def as_dict(self) -> dict[str, object]:
        """Return the row for JSON."""


def each_drawn(
    work: Callable[[Drawn], Found], robot: str, numbers: range, seed: int = 0, cores: int | None = None
) -> Iterator[Found]:
    """Run the cases of these numbers and yield each result; cores=None starts one process per core."""
    for _, found in in_processes(work, [Drawn(robot, number, seed) for number in numbers], cores):
        yield found
