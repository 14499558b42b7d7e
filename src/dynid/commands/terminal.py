"""Output of commands: results on standard output, progress on standard error, colour on terminals only.

At the level "quiet" only errors and requested JSON objects are printed. At the level "verbose" every stage is printed
with its duration.
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
    """Console that removes control characters from printed texts, since names may come from files and topics."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Return a rich text without control characters; text that is not valid markup is shown literally."""
        plain = "".join(one if one.isprintable() or one in "\n\t" else " " for one in text)
        try:
            return super().render_str(plain, **options)
        except MarkupError:
            return super().render_str(plain, **options | {"markup": False})

    def on_broken_pipe(self) -> None:
        """Print nothing more after a broken pipe on standard error, so that lost progress messages do not end a motion.

        After a broken pipe on standard output, the command ends with exit code 1, as by default in rich.
        """
        if not self.stderr:
            super().on_broken_pipe()
        self.quiet = True


def stdout() -> Console:
    """Return the console for results, on standard output."""
    return SafeConsole(quiet=is_quiet())


def say(*lines: str, markup: bool = True) -> None:
    """Print each text as one line on standard output; long lines are not wrapped, so that paths can be copied.

    `markup` is whether rich's markup in the text is applied.
    """
    console = stdout()
    for line in lines:
        console.print(line, soft_wrap=True, highlight=False, markup=markup)


def print_json(content: Mapping[str, Any] | Sequence[Mapping[str, Any]], *, by_name: bool = False) -> None:
    """Print JSON for programs on standard output; every object begins with its schema version.

    Args:
        content: one object, or a sequence of objects, which is printed as a list.
        by_name: whether `content` is a mapping of names to objects; then each of these objects has a schema version.
    """

    def versioned(row: Mapping[str, Any]) -> dict[str, Any]:
        return {"schema_version": SCHEMA_VERSION, **row}

    if not isinstance(content, Mapping):
        print(json.dumps([versioned(row) for row in content]))
    else:
        print(json.dumps({name: versioned(row) for name, row in content.items()} if by_name else versioned(content)))


def with_deviation(value: float, deviation: float) -> str:
    """Return a value and its standard deviation as text such as `0.123 +- 0.032`; the deviation has two digits."""
    if not (math.isfinite(value) and math.isfinite(deviation) and deviation > 0.0):
        return f"{value:.3g} +- {deviation:.2g}"
    places = 1 - math.floor(math.log10(float(f"{deviation:.1e}")))
    return " +- ".join(f"{round(one, places):.{max(places, 0)}f}" for one in (value, deviation))


def table(title: str | None, *headings: str, words: int = 1) -> Table:
    """Return an empty table with these headings; the first `words` columns are left-aligned, the rest right-aligned."""
    made = Table(title=title, title_justify="left")
    for place, heading in enumerate(headings):
        made.add_column(heading, justify="left" if place < words else "right")
    return made


def stderr() -> Console:
    """Return the console for progress, on standard error, so that a pipe contains only results."""
    return SafeConsole(stderr=True, quiet=is_quiet())


def flags_first(arguments: Sequence[str]) -> list[str]:
    """Return command-line arguments with the quiet and verbose flags moved to the front.

    Arguments after '--' are left where they are.
    """
    remaining = list(arguments)
    end = remaining.index("--") if "--" in remaining else len(remaining)
    flags = [word for word in remaining[:end] if word in FLAGS]
    return flags + [word for word in remaining[:end] if word not in FLAGS] + remaining[end:]


@contextmanager
def progress_bar(text: str, total: int) -> Iterator[Advance]:
    """Show a progress bar of `total` steps, and yield a function that advances it by one step.

    The function's argument names the finished step. The bar shows the remaining time.
    """
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
    """Show a progress bar of about `total` stages, and yield a function that begins a stage with a given name.

    Stages differ in length, so the remaining time is a rough estimate. At the level "verbose" each stage is printed
    with its duration.
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
    """Return a progress bar with these columns and the remaining time, disabled if standard error is not a terminal."""
    console = stderr()
    remaining = (progress.TextColumn("[dim]remaining[/dim]"), progress.TimeRemainingColumn(compact=True))
    return progress.Progress(*columns, *remaining, console=console, transient=True, disable=not console.is_terminal)


class _Stages:
    """Reporter that prints stages as text, on standard error.

    At the level "verbose" it prints the duration of each finished stage. At the level "normal" it prints each stage
    that begins more than `SILENT_S` after the reporter was created, unless standard error is a terminal, which shows a
    progress bar instead. At the level "quiet" it prints nothing.
    """

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
