"""What commands print, and how much: results on standard output, progress on standard error, colour on terminals only.

Quiet leaves errors, the exit code, and the JSON object that was asked for; verbose reports every stage with its time.
"""

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from rich import progress
from rich.console import Console
from rich.errors import MarkupError
from rich.table import Table
from rich.text import Text

Level = Literal["quiet", "normal", "verbose"]
Advance = Callable[[str], None]
SCHEMA_VERSION = 1  # of every JSON object; it grows when a field changes its name or meaning
SILENT_S = 10.0  # a command that takes longer says what it does where no bar can be seen
FLAGS = ("-q", "--quiet", "-v", "--verbose")
_level: Level = "normal"


def set_level(level: Level) -> None:
    """How much the commands of this process print from now on."""
    global _level
    _level = level


def is_quiet() -> bool:
    """Return whether only errors and requested JSON are printed."""
    return _level == "quiet"


class SafeConsole(Console):
    """A console for texts that files, folders and topics name: none of them commands the terminal or ends a command."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Return a text without control characters; one whose brackets are no markup is shown as it is."""
        plain = "".join(one if one.isprintable() or one in "\n\t" else " " for one in text)
        try:
            return super().render_str(plain, **options)
        except MarkupError:
            return super().render_str(plain, **options | {"markup": False})


def stdout() -> Console:
    """Where results go: standard output."""
    return SafeConsole(quiet=_level == "quiet")


def say(*lines: str, markup: bool = True) -> None:
    """Results, a line each, never broken: paths and figures are copied from them."""
    console = stdout()
    for line in lines:
        console.print(line, soft_wrap=True, highlight=False, markup=markup)


def print_json(content: Mapping[str, Any] | Sequence[Mapping[str, Any]], *, by_name: bool = False) -> None:
    """JSON for a program: an object whose first field is the version of its fields, or rows that have one each.

    Rows are a list, or stand `by_name` in an object.
    """

    def versioned(row: Mapping[str, Any]) -> dict[str, Any]:
        return {"schema_version": SCHEMA_VERSION, **row}

    if not isinstance(content, Mapping):
        print(json.dumps([versioned(row) for row in content]))
    else:
        print(json.dumps({name: versioned(row) for name, row in content.items()} if by_name else versioned(content)))


def with_deviation(value: float, deviation: float) -> str:
    """A value and its deviation, to the second digit of the deviation: `34 +- 19`, `0.123 +- 0.032`."""
    if not (math.isfinite(value) and math.isfinite(deviation) and deviation > 0.0):
        return f"{value:.3g} +- {deviation:.2g}"
    places = 1 - math.floor(math.log10(float(f"{deviation:.1e}")))
    return " +- ".join(f"{round(one, places):.{max(places, 0)}f}" for one in (value, deviation))


def table(title: str | None, *headings: str, words: int = 1) -> Table:
    """A table whose first columns, so many, hold words and stand left; the others hold figures and stand right."""
    made = Table(title=title, title_justify="left")
    for place, heading in enumerate(headings):
        made.add_column(heading, justify="left" if place < words else "right")
    return made


def stderr() -> Console:
    """Where progress goes: standard error, so that a pipe holds results only."""
    return SafeConsole(stderr=True, quiet=_level == "quiet")


def flags_first(arguments: Sequence[str]) -> list[str]:
    """The arguments with quiet and verbose before the command, wherever they were written; not those after '--'."""
    words = list(arguments)
    end = words.index("--") if "--" in words else len(words)
    flags = [word for word in words[:end] if word in FLAGS]
    return flags + [word for word in words[:end] if word not in FLAGS] + words[end:]


@contextmanager
def progress_bar(text: str, total: int) -> Iterator[Advance]:
    """Yields a function that advances a bar by one and says what was done; the bar shows the remaining time."""
    columns = (
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
    )
    with _bar(columns) as bar:
        task, told = bar.add_task(text, total=total), _Stages()

        def advance(description: str) -> None:
            bar.update(task, advance=1, description=description)
            told.done(description)

        yield advance


@contextmanager
def stages(text: str, total: int) -> Iterator[Advance]:
    """Yields a function that names the stage that begins; about `total` of them make the bar's length.

    Stages differ in length, so the time that remains is a guess; verbose prints each with the time that it took.
    """
    columns = (
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.TimeElapsedColumn(),
    )
    with _bar(columns) as bar:
        task, told, current = bar.add_task(text, total=total), _Stages(), [""]

        def begin(description: str) -> None:
            if current[0]:
                told.done(current[0])
                bar.advance(task)
            current[0] = description
            bar.update(task, description=description)
            told.begun(description)

        yield begin
        if current[0]:
            told.done(current[0])


def _bar(columns: tuple[progress.ProgressColumn, ...]) -> progress.Progress:
    """A bar with the time that remains; none where nobody could see it move."""
    console = stderr()
    remaining = (progress.TextColumn("[dim]remaining[/dim]"), progress.TimeRemainingColumn(compact=True))
    return progress.Progress(*columns, *remaining, console=console, transient=True, disable=not console.is_terminal)


class _Stages:
    """Reports each stage as it begins where no bar can be seen, and when it is finished with its time if verbose."""

    def __init__(self) -> None:
        self._console, self._began = stderr(), time.monotonic()
        self._first = self._began

    def begun(self, text: str) -> None:
        late = time.monotonic() - self._first > SILENT_S
        if late and _level == "normal" and not self._console.is_terminal:
            self._console.print(f"{text} ...", highlight=False, markup=False, soft_wrap=True)

    def done(self, text: str) -> None:
        now = time.monotonic()
        if _level == "verbose":
            self._console.print(f"{now - self._began:8.2f} s  {text}", highlight=False, markup=False, soft_wrap=True)
        self._began = now
