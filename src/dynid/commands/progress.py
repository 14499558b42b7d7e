"""A progress bar on standard error, so that standard output holds results only."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

Advance = Callable[[str], None]


@contextmanager
def progress_bar(text: str, total: int) -> Iterator[Advance]:
    """Yields a function that advances the bar by one and says what was done."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(text, total=total)
        yield lambda description: bar.update(task, advance=1, description=description)
