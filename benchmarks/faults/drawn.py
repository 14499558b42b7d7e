"""Cases that are drawn by their number, in processes: what the tables of such cases share."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

from dynid.parallel import in_processes

Found = TypeVar("Found")


@dataclass(frozen=True)
class Drawn:
    """One case of a table: of a robot by name or folder, by its number and the seed of the table."""

    robot: str
    number: int
    seed: int


class DrawnRow(Protocol):
    """One row of such a table."""

    @property
    def title(self) -> str:
        """What its cases have in common."""

    @property
    def figures(self) -> tuple[str, ...]:
        """The columns behind the title."""

    @property
    def violations(self) -> int:
        """In how many cases something was not as it must be."""

    @property
    def findings(self) -> tuple[str, ...]:
        """Some of the violations, in words."""

    def as_dict(self) -> dict[str, object]:
        """Return it for JSON."""


def each_drawn(
    work: Callable[[Drawn], Found], robot: str, numbers: range, seed: int = 0, cores: int | None = None
) -> Iterator[Found]:
    """Run the cases of these numbers, each as it is finished; None is one process per core."""
    for _, found in in_processes(work, [Drawn(robot, number, seed) for number in numbers], cores):
        yield found
