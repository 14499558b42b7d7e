"""All errors that dynid raises on purpose.

Each error is a `DynidError` and also a fitting builtin error, such as ValueError, so that a caller can catch either. A
message names the object, its value, what was expected and what to do. `shown` formats values from files for messages.
"""

import reprlib

LONGEST_SHOWN = 80  # maximum number of characters of a value in a message


class DynidError(Exception):
    """Base class of all errors that a user can cause or fix."""


class ConfigurationError(DynidError, ValueError):
    """Error for a configuration file or a setting that is not usable."""


class UnknownNameError(DynidError, LookupError):
    """Error for an unknown name, such as that of a robot, trajectory, joint or model.

    Args:
        kind: kind of the object, such as "robot".
        name: the unknown name.
        known: the known names, which the message lists.
    """

    def __init__(self, kind: str, name: str, known: "list[str] | tuple[str, ...]") -> None:
        super().__init__(one_line(f"unknown {kind} '{name}'; known: {', '.join(known) or 'none'}"))
        self.kind, self.name, self.known = kind, name, tuple(known)


class DataError(DynidError, ValueError):
    """Error for a recording or an array that does not contain the required data."""


class InputNotFoundError(DynidError, FileNotFoundError):
    """Error for an input file or folder that does not exist."""


class OutputExistsError(DynidError, FileExistsError):
    """Error for an output that exists already, since results are never overwritten."""


class OutputWriteError(DynidError, OSError):
    """Error for an output that cannot be written: disk full, no permission, or a file in place of a folder."""


class BagWriteError(DynidError, OSError):
    """Error for a bag that cannot be written: disk full, no permission, or not open."""


class UndeterminedError(DataError):
    """Error for recordings whose motion does not determine all parameters of the model."""


class InfeasibleError(DynidError, ArithmeticError):
    """Error for an optimisation that has no solution within its constraints."""


class BusError(DynidError, OSError):
    """Error for a servo bus that cannot be opened, or does not answer correctly."""


class BusTimeoutError(BusError, TimeoutError):
    """Error for a servo bus that did not answer in time."""


class MuteServoError(BusTimeoutError):
    """Error for a servo that answers pings, but does not answer reads or writes."""


class SilentLineError(BusTimeoutError):
    """Error for a servo bus on which no servo answers now, although servos answered before."""


class SafetyError(DynidError, RuntimeError):
    """Error for a motion or command that was refused because it is not safe."""


class MissingLibraryError(DynidError, ImportError):
    """Error for a missing library of the operating system, or a missing optional Python package."""


class NodeError(DynidError, RuntimeError):
    """Error for a ROS node or service that did not fulfil a request."""


def refuse_other_kind(value: object, kind: "type | tuple[type, ...]", what: str, cure: str) -> None:
    """Raise ConfigurationError if a caller's value is not of a given type.

    Args:
        value: the value.
        kind: the expected type, or several.
        what: name of the value in the message.
        cure: end of the message, which states what to do.
    """
    if not isinstance(value, kind):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        expected = " or ".join(one.__name__ for one in kinds)
        raise ConfigurationError(
            f"{what} is {shown(value, 60)}, a {type(value).__name__}, expected a {expected}: {cure}"
        )


class _Short(reprlib.Repr):
    """Variant of `repr` whose text is short for any value: it limits entries, levels of nesting and digits."""

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
    """Return a value's `repr` in one line of at most `most` characters, without building a longer text."""
    return cut(one_line(_SHORT.repr(value)), most)


def cut(text: str, most: int = LONGEST_SHOWN) -> str:
    """Return a text shortened to at most `most` characters, with "..." in place of the rest."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def one_line(text: str) -> str:
    """Return a text with spaces in place of line breaks and control characters, which may come from a file."""
    return "".join(one if one.isprintable() else " " for one in " ".join(text.split()))
