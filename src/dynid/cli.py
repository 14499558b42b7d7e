"""Identify the dynamics of a robot arm from motor currents. Errors are one sentence, with a non-zero exit code."""

import contextlib
import io
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Annotated

import typer

from dynid import __version__
from dynid.commands import Commands
from dynid.commands.terminal import flags_first, set_level
from dynid.errors import DynidError, one_line

INTERRUPTED = 130
ENDING = (signal.SIGTERM, signal.SIGHUP)
NO_ARGUMENTS = ["--help"]  # arguments of `dynid` if none are given
# UsageError of the click version that typer uses, which is either the package or typer's own copy.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]
USAGE = 2


def options(
    context: typer.Context,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only errors and requested JSON.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Report every stage with its time on standard error.")
    ] = False,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.", is_eager=True)] = False,
) -> None:
    """Identify the dynamics of a robot arm from motor currents. Errors are one sentence, with a non-zero exit code."""
    if version:
        print(f"dynid {__version__}")
        raise typer.Exit()
    if quiet and verbose:
        raise typer.BadParameter("--quiet and --verbose exclude each other")
    if context.invoked_subcommand is None:
        raise typer.BadParameter("name a command", context)
    set_level("quiet" if quiet else "verbose" if verbose else "normal")


def app_of(commands: type[Commands]) -> typer.Typer:
    """Return the typer application with the commands of the given class."""
    made = typer.Typer(cls=commands, pretty_exceptions_enable=False, help=__doc__, rich_markup_mode="markdown")
    made.callback(invoke_without_command=True)(options)
    return made


app = app_of(Commands)


def main() -> None:
    """Run the `dynid` command; SIGTERM and SIGHUP end it without leaving half-written results."""
    with _ending_cleanly():
        run(app)


@contextlib.contextmanager
def _ending_cleanly() -> Iterator[None]:
    """Convert SIGTERM and SIGHUP in the `with` block to a SystemExit, so that the process cleans up before it ends.

    A signal that is ignored, as by nohup, stays ignored. Commands that must do more before they end, such as bring
    an arm to rest, set their own signal handlers.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    own = [number for number in ENDING if signal.getsignal(number) == signal.SIG_DFL]
    for number in own:
        signal.signal(number, _end)
    try:
        yield
    finally:
        for number in own:
            if signal.getsignal(number) == _end:
                signal.signal(number, signal.SIG_DFL)


def _end(number: int, _: FrameType | None) -> None:
    """Signal handler: raise SystemExit with code 128 + `number`.

    A second SIGTERM ends the process at once. A second SIGHUP is ignored, because a closing terminal may send two.
    """
    for one, after in ((signal.SIGHUP, signal.SIG_IGN), (signal.SIGTERM, signal.SIG_DFL)):
        if signal.getsignal(one) == _end:
            signal.signal(one, after)
    sys.exit(128 + number)


def run(app: typer.Typer, name: str | None = None) -> None:
    """Run a command-line application with the arguments of this process, then exit.

    An error that a user can fix is printed as one sentence, with exit code 1. Wrong arguments give exit code 2.

    Args:
        app: the application.
        name: name of the command in its help; None is the name of the program.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a character that the terminal lacks becomes '?'
            stream.reconfigure(errors="replace")
    try:
        code = app(args=flags_first(sys.argv[1:]) or NO_ARGUMENTS, prog_name=name, standalone_mode=False)
        sys.stdout.flush()  # an output that the system refuses is an error here, not a traceback when Python exits
    except DynidError as error:
        print(f"error: {one_line(str(error))}", file=sys.stderr)  # a message may quote a file, which holds anything
        sys.exit(1)
    except _UsageError as error:
        print(f"error: {_sentence(error)}", file=sys.stderr)
        sys.exit(USAGE)
    except OSError as error:
        sys.exit(_refused(error))
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    if code == INTERRUPTED:
        print("interrupted", file=sys.stderr)
    sys.exit(code if isinstance(code, int) else 0)  # typer returns the code of an Exit instead of raising it


def _refused(error: OSError) -> int:
    """Print one sentence on an error of the operating system, such as a full disk; return the exit code."""
    about = "what it prints" if error.filename is None else str(error.filename)
    print(f"error: {one_line(f'{about}: {error.strerror or error}')}", file=sys.stderr)
    # discard buffered output, which the system would refuse again when Python exits
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 1


def _sentence(error: Exception) -> str:
    """Return a sentence that states what is wrong with command-line arguments and how to show the command's help."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "dynid"
    message = one_line(error.format_message())  # type: ignore[attr-defined]
    return f"{message} (see '{command} --help')"


if __name__ == "__main__":
    main()
