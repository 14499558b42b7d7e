"""Cases that are drawn by their number, in processes: what the tables of such cases share."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from dynid.parallel import in_processes

Found = TypeVar("Found")


@dataclass(frozen=True)
class Drawn:
    """One case of a table: of a robot by name or folder, by its number and the seed of the table."""

    robot: str
    number: int
    seed: int


def each_drawn(
    work: Callable[[Drawn], Found], robot: str, numbers: range, seed: int = 0, cores: int | None = None
) -> Iterator[Found]:
    """Run the cases of these numbers, each as it is finished; None is one process per core."""
    for _, found in in_processes(work, [Drawn(robot, number, seed) for number in numbers], cores):
        yield found
