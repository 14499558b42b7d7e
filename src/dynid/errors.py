"""Every error that dynid raises on purpose.

Each is a `DynidError` and also the builtin kind a caller would expect, so both `except DynidError` and
`except ValueError` work. A message names the thing, its value, what was expected and what to do. Values may come from
anybody's file: `shown` writes them.
"""

import reprlib

LONGEST_SHOWN = 80  # characters of a value in a message


class DynidError(Exception):
    """Base of all errors that a user can cause or can mend."""


class ConfigurationError(DynidError, ValueError):
    """A configuration file or setting is not usable."""


class UnknownNameError(DynidError, LookupError):
    """A robot, trajectory, joint or model name that does not exist."""

    def __init__(self, kind: str, name: str, known: "list[str] | tuple[str, ...]") -> None:
        super().__init__(f"unknown {kind} '{name}'; known: {', '.join(known) or 'none'}")
        self.kind, self.name, self.known = kind, name, tuple(known)


class DataError(DynidError, ValueError):
    """A recording or an array does not hold what is needed."""


class InputNotFoundError(DynidError, FileNotFoundError):
    """A file or folder that was named does not exist."""


class OutputExistsError(DynidError, FileExistsError):
    """An output that exists already; results are never overwritten."""


class OutputWriteError(DynidError, OSError):
    """An output cannot be written: disk full, no permission, a file where a folder is needed."""


class BagWriteError(DynidError, OSError):
    """A bag cannot be written: disk full, no permission, not open."""


class UndeterminedError(DataError):
    """Recordings that leave parameters open."""


class InfeasibleError(DynidError, ArithmeticError):
    """An optimisation or projection has no admissible solution."""


class BusError(DynidError, OSError):
    """The servo bus cannot be opened, or does not answer as it must."""


class BusTimeoutError(BusError, TimeoutError):
    """The servo bus did not answer in time."""


class MuteServoError(BusTimeoutError):
    """A servo answers pings, but no reads or no writes."""


class SilentLineError(BusTimeoutError):
    """No servo answers any more, though servos answered before."""


class SafetyError(DynidError, RuntimeError):
    """A motion or command was refused because it is not safe."""


class MissingLibraryError(DynidError, ImportError):
    """A library is missing: of the operating system, or a Python package that dynid itself does not need."""


class NodeError(DynidError, RuntimeError):
    """A ROS node or service did not do what it was asked."""


def refuse_other_kind(value: object, kind: "type | tuple[type, ...]", what: str, cure: str) -> None:
    """Raise ConfigurationError where a value that a caller gave is of another kind; `cure`: what to do."""
    if not isinstance(value, kind):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        expected = " or ".join(one.__name__ for one in kinds)
        raise ConfigurationError(
            f"{what} is {shown(value, 60)}, a {type(value).__name__}, expected a {expected}: {cure}"
        )


class _Short(reprlib.Repr):
    """`repr` of at most some entries and levels, whatever a value holds."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxlist, self.maxtuple, self.maxdict, self.maxset = 3, 8, 8, 8, 8
        self.maxstring = self.maxlong = self.maxother = LONGEST_SHOWN

    def repr_int(self, x: int, level: int) -> str:
        return super().repr_int(x, level) if abs(x) < 10**LONGEST_SHOWN else "a number of more than 80 digits"

    def repr_bytes(self, x: bytes, level: int) -> str:
        return repr(x[:LONGEST_SHOWN])


_SHORT = _Short()


def shown(value: object, most: int = LONGEST_SHOWN) -> str:
    """Return a value as Python writes it, in one line of at most `most` characters, without building more of it."""
    return cut(one_line(_SHORT.repr(value)), most)


def cut(text: str, most: int = LONGEST_SHOWN) -> str:
    """Return a text's first `most` characters, with an ellipsis in place of the rest."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def one_line(text: str) -> str:
    """Return a text without line breaks and control characters, which a file may have put into it."""
    return "".join(one if one.isprintable() else " " for one in " ".join(text.split()))
