"""Output of commands: results on standard output, progress on standard error, colour on terminals only.

The level quiet prints only errors and requested JSON objects; verbose reports every stage with its duration.
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
SCHEMA_VERSION = 1  # version of every JSON object; increased when a field changes its name or meaning
SILENT_S = 10.0  # time after which a command without a visible bar prints its stages
FLAGS = ("-q", "--quiet", "-v", "--verbose")
_level: Level = "normal"


def set_level(level: Level) -> None:
    """Set how much the commands of this process print from now on."""
    global _level
    _level = level


def is_quiet() -> bool:
    """Return whether only errors and requested JSON are printed."""
    return _level == "quiet"


class SafeConsole(Console):
    """A console that prints names from files and topics safely: control characters in them have no effect."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Return a text without control characters; text that is not valid markup is shown literally."""
        plain = "".join(one if one.isprintable() or one in "\n\t" else " " for one in text)
        try:
            return super().render_str(plain, **options)
        except MarkupError:
            return super().render_str(plain, **options | {"markup": False})

    def on_broken_pipe(self) -> None:
        """Continue silently if the reader of messages is gone: a motion must not end because of its progress."""
        if not self.stderr:
            super().on_broken_pipe()
        self.quiet = True


def stdout() -> Console:
    """Return the console for results, on standard output."""
    return SafeConsole(quiet=is_quiet())


def say(*lines: str, markup: bool = True) -> None:
    """Print results, one line each, without line breaks, so that paths and figures can be copied."""
    console = stdout()
    for line in lines:
        console.print(line, soft_wrap=True, highlight=False, markup=markup)


def print_json(content: Mapping[str, Any] | Sequence[Mapping[str, Any]], *, by_name: bool = False) -> None:
    """Print JSON for programs: an object that begins with its schema version, or several such rows.

    Rows are printed as a list, or `by_name` as fields of an object.
    """

    def versioned(row: Mapping[str, Any]) -> dict[str, Any]:
        return {"schema_version": SCHEMA_VERSION, **row}

    if not isinstance(content, Mapping):
        print(json.dumps([versioned(row) for row in content]))
    else:
        print(json.dumps({name: versioned(row) for name, row in content.items()} if by_name else versioned(content)))


def with_deviation(value: float, deviation: float) -> str:
    """Return a value with its standard deviation to two digits: `34 +- 19`, `0.123 +- 0.032`."""
    if not (math.isfinite(value) and math.isfinite(deviation) and deviation > 0.0):
        return f"{value:.3g} +- {deviation:.2g}"
    places = 1 - math.floor(math.log10(float(f"{deviation:.1e}")))
    return " +- ".join(f"{round(one, places):.{max(places, 0)}f}" for one in (value, deviation))


def table(title: str | None, *headings: str, words: int = 1) -> Table:
    """Return a table whose first `words` columns hold left-aligned text and the others right-aligned figures."""
    made = Table(title=title, title_justify="left")
    for place, heading in enumerate(headings):
        made.add_column(heading, justify="left" if place < words else "right")
    return made


def stderr() -> Console:
    """Return the console for progress, on standard error, so that a pipe holds only results."""
    return SafeConsole(stderr=True, quiet=is_quiet())


def flags_first(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with quiet and verbose flags moved to the front, except for arguments after '--'."""
    remaining = list(arguments)
    end = remaining.index("--") if "--" in remaining else len(remaining)
    flags = [word for word in remaining[:end] if word in FLAGS]
    return flags + [word for word in remaining[:end] if word not in FLAGS] + remaining[end:]


@contextmanager
def progress_bar(text: str, total: int) -> Iterator[Advance]:
    """Yield a function that advances a bar by one and names the finished step; the bar shows the remaining time."""
    columns = (
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
    )
    with _bar(columns) as bar:
        task, printed = bar.add_task(text, total=total), _Stages()

        def advance(description: str) -> None:
            bar.update(task, advance=1, description=description)
            printed.done(description)

        yield advance


@contextmanager
def stages(text: str, total: int) -> Iterator[Advance]:
    """Yield a function that starts a stage by its name; `total` is the approximate number of stages.

    Stages differ in length, so the remaining time is a rough estimate; verbose prints each stage with its duration.
    """
    columns = (
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.TimeElapsedColumn(),
    )
    with _bar(columns) as bar:
        task, printed, current = bar.add_task(text, total=total), _Stages(), [""]

        def begin(description: str) -> None:
            if current[0]:
                printed.done(current[0])
                bar.advance(task)
            current[0] = description
            bar.update(task, description=description)
            printed.begun(description)

        yield begin
        if current[0]:
            printed.done(current[0])


def _bar(columns: tuple[progress.ProgressColumn, ...]) -> progress.Progress:
    """Return a bar with the remaining time; it is disabled if standard error is not a terminal."""
    console = stderr()
    remaining = (progress.TextColumn("[dim]remaining[/dim]"), progress.TimeRemainingColumn(compact=True))
    return progress.Progress(*columns, *remaining, console=console, transient=True, disable=not console.is_terminal)


class _Stages:
    """Reporter of stages without a bar: late stages as they begin, and with verbose the duration of each stage."""

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
