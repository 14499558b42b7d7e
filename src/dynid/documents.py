"""Readers of YAML and JSON texts that check size, depth and aliases before they build any value.

A YAML loader recurses into nested brackets and expands aliases without limit, so a text of some kilobytes can crash the
process or fill the memory. A YAML parser that only yields events does neither, so its events are checked first.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from dynid.errors import ConfigurationError, DynidError, InputNotFoundError, cut, one_line

# PyYAML's safe loader in C if available: every command reads several files, and in Python each takes 50 ms.
_SAFE_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
MOST_YAML_BYTES = MOST_JSON_BYTES = 64 * 2**20
DEEPEST_YAML, MOST_YAML_ALIASES = 50, 100
MOST_DIGITS = 4300  # as Python has it since 3.10.7: the time that a conversion takes grows with their square
MOST_YAML_VALUES = 600_000  # maximum with aliases expanded; the longest trajectory of eight joints has 560,000


def parse_yaml(text: str, named: object, kind: type[DynidError] = ConfigurationError) -> Any:
    """Return the value of a YAML text, read with the safe loader.

    Args:
        text: the YAML text.
        named: name of the text for messages, usually its path.
        kind: class of the error that is raised.

    Raises:
        kind: the text is not valid YAML, repeats a key in a mapping, or is larger, more deeply nested or has more
            aliases than any file of dynid.
    """
    try:
        refuse_large(len(text), MOST_YAML_BYTES, named, "YAML", kind)
        _refuse_yaml_bomb(text, named, kind)
        return yaml.load(text, Loader=_SAFE_LOADER)  # noqa: S506 - it is a safe loader
    except DynidError:
        raise
    except Exception as error:
        # the loader does not catch errors that int(), datetime() and similar calls raise for invalid values
        raise kind(f"{named} is not a valid YAML file: {one_line(str(error))[:300]}") from error


@dataclass
class _Block:
    """YAML list or mapping whose end the parser has not reached yet.

    Attributes:
        anchor: YAML anchor of the block; None without one.
        before: number of values in the text before the block.
        keys: keys of a mapping so far; None for a list.
        key_due: whether the next value of a mapping is a key.
    """

    anchor: str | None
    before: int
    keys: set[str] | None
    key_due: bool = True


@dataclass
class _Size:
    """Size of a YAML text with aliases expanded, counted from the parser's events.

    Attributes:
        values: number of values so far.
        aliases: number of aliases so far.
        anchors: name of each anchor, with the number of values in the list, mapping or scalar that it marks.
        open: lists and mappings whose end the parser has not reached yet, outermost first.
        twice: last key that was found a second time in the same mapping; None if there is none.
    """

    values: int = 0
    aliases: int = 0
    anchors: dict[str, int] = field(default_factory=dict)
    open: list[_Block] = field(default_factory=list)
    twice: str | None = None

    def take(self, event: yaml.Event) -> None:
        """Count one event of the YAML parser."""
        if isinstance(event, yaml.CollectionEndEvent):
            block = self.open.pop()
            if block.anchor is not None:
                self.anchors[block.anchor] = self.values - block.before
        elif isinstance(event, yaml.NodeEvent):
            self._note_key(event)
            if isinstance(event, yaml.AliasEvent):
                self.aliases += 1
                self.values += self.anchors.get(str(event.anchor), 1)
                return
            if isinstance(event, yaml.CollectionStartEvent):
                keys: set[str] | None = set() if isinstance(event, yaml.MappingStartEvent) else None
                self.open.append(_Block(event.anchor, self.values, keys))
            elif event.anchor is not None:
                self.anchors[event.anchor] = 1
            self.values += 1

    def _note_key(self, event: yaml.NodeEvent) -> None:
        """Store a key in `twice` if its mapping already contains it; the loader would silently drop the first value."""
        block = self.open[-1] if self.open else None
        if block is None or block.keys is None:
            return
        if block.key_due and isinstance(event, yaml.ScalarEvent):
            if event.value in block.keys:
                self.twice = event.value
            block.keys.add(event.value)
        block.key_due = not block.key_due


def _refuse_yaml_bomb(text: str, named: object, kind: type[DynidError]) -> None:
    """Raise an error of class `kind` if a YAML text is nested too deep, too large, or repeats a key in a mapping.

    `named` is the name of the text for messages. Only the parser's events are checked, which take little memory.
    """
    size = _Size()
    for event in yaml.parse(text, Loader=_SAFE_LOADER):
        size.take(event)
        if isinstance(event, yaml.ScalarEvent) and event.implicit[0]:
            _refuse_long_number(event.value)
        if size.twice is not None:
            where = "" if event.start_mark is None else f", again in line {event.start_mark.line + 1}"
            raise kind(f"{named}: '{cut(one_line(size.twice))}' is given twice in one block{where}")
        if len(size.open) > DEEPEST_YAML:
            what = f"nested {len(size.open)} deep"
        elif size.aliases > MOST_YAML_ALIASES:
            what = f"with more than {MOST_YAML_ALIASES} aliases"
        elif size.values > MOST_YAML_VALUES:
            what = f"of more than {MOST_YAML_VALUES} values, aliases followed"
        else:
            continue
        raise kind(
            f"{named} is {what}; expected at most {DEEPEST_YAML} levels, {MOST_YAML_ALIASES} aliases and "
            f"{MOST_YAML_VALUES} values"
        )


def _refuse_long_number(text: str) -> None:
    """Raise ValueError if a text is an integer of more than `MOST_DIGITS` digits."""
    digits = text.lstrip("+-").replace("_", "")
    if len(digits) > MOST_DIGITS and digits.isdecimal():
        raise ValueError(f"a number has {len(digits)} digits, expected at most {MOST_DIGITS}")


def _short_integer(text: str) -> int:
    """Return the value of an integer in a JSON text; raise ValueError if it has more than `MOST_DIGITS` digits."""
    _refuse_long_number(text)
    return int(text)


def parse_json(text: str | bytes, named: object, kind: type[DynidError] = ConfigurationError) -> Any:
    """Return the value of a JSON text.

    Args:
        text: the JSON text.
        named: name of the text for messages, usually its path.
        kind: class of the error that is raised.

    Raises:
        kind: the text is not valid JSON, longer than `MOST_JSON_BYTES`, or nested deeper than Python's stack allows.
    """
    refuse_large(len(text), MOST_JSON_BYTES, named, "JSON", kind)
    try:
        return json.loads(text, parse_int=_short_integer)
    except RecursionError:
        raise kind(f"{named} is not valid JSON: it is nested too deep") from None
    except ValueError as error:
        raise kind(f"{named} is not valid JSON: {one_line(str(error))[:300]}") from error


def refuse_large(size: int, most: int, named: object, what: str, kind: type[DynidError]) -> None:
    """Raise an error of class `kind` if the size of a text exceeds `most` [bytes].

    `named` is the name of the text, and `what` the expected format, both for the message.
    """
    if size > most:
        raise kind(f"{named} has {size} bytes, expected {what} of at most {most}")


def read_text(path: Path, what: str, most: int, kind: type[DynidError] = ConfigurationError) -> str:
    """Return the text of a regular UTF-8 file of at most `most` bytes; `what` names the expected format.

    Raises:
        InputNotFoundError: the file does not exist.
        kind: the file is not regular, too large, or not UTF-8 text.
    """
    try:
        if not path.is_file() and path.exists() and not path.is_dir():
            raise kind(f"{path} is not a regular file; expected a {what} file")
        refuse_large(path.stat().st_size, most, path, f"a {what} file", kind)
        return path.read_text(encoding="utf-8-sig")  # Windows editors put a byte-order mark before the text
    except FileNotFoundError:
        raise InputNotFoundError(f"no such file: {path}; expected a {what} file") from None
    except DynidError:
        raise
    except (OSError, ValueError) as error:
        raise kind(f"{path} is not a valid {what} file: {one_line(str(error))[:300]}") from error


def read_yaml(path: Path, kind: type[DynidError] = ConfigurationError) -> Any:
    """Return the content of a YAML file.

    Raises:
        InputNotFoundError: the file does not exist.
        kind: the file cannot be read, or is not valid YAML.
    """
    return parse_yaml(read_text(path, "YAML", MOST_YAML_BYTES, kind), path, kind)


def read_json(path: Path, kind: type[DynidError] = ConfigurationError, what: str = "JSON") -> Any:
    """Return the content of a JSON file; `what` names the expected format in messages.

    Raises:
        InputNotFoundError: the file does not exist.
        kind: the file cannot be read, or is not valid JSON.
    """
    return parse_json(read_text(path, what, MOST_JSON_BYTES, kind), path, kind)
