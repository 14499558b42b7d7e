"""The one door for YAML and JSON texts, which are looked at before anything is built from them.

A loader follows brackets into the stack and aliases without end: a text of some kilobytes ends the process, or fills
the memory. Its events take neither.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from dynid.errors import ConfigurationError, DynidError, InputNotFoundError, one_line

# The same safe loader in C where PyYAML has it: every command reads several files, and in Python each takes 50 ms.
_SAFE_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
MOST_YAML_BYTES = MOST_JSON_BYTES = 64 * 2**20
DEEPEST_YAML, MOST_YAML_ALIASES = 50, 100
MOST_YAML_VALUES = 600_000  # aliases followed; the longest trajectory of eight joints has 560,000


def parse_yaml(text: str, named: object, kind: type[DynidError] = ConfigurationError) -> Any:
    """Return the value of a YAML text, read with the safe loader.

    Args:
        named: what the text is, for messages; usually its path.
        kind: of the error.

    Raises:
        kind: not valid YAML, or larger, deeper or more often repeated by aliases than any file of the product is.
    """
    try:
        _refuse_large(len(text), MOST_YAML_BYTES, named, "YAML", kind)
        _refuse_yaml_bomb(text, named, kind)
        return yaml.load(text, Loader=_SAFE_LOADER)  # noqa: S506 - it is a safe loader
    except DynidError:
        raise
    except Exception as error:
        # the loader's constructors let through what int(), datetime() and the like make of a strange value
        raise kind(f"{named} is not a valid YAML file: {one_line(str(error))[:300]}") from error


@dataclass
class _Size:
    """Size of a YAML text whose aliases are followed: values so far, values of each anchor, and open blocks."""

    values: int = 0
    aliases: int = 0
    anchors: dict[str, int] = field(default_factory=dict)
    open: list[tuple[str | None, int]] = field(default_factory=list)

    def take(self, event: yaml.Event) -> None:
        """Count one event."""
        if isinstance(event, yaml.AliasEvent):
            self.aliases += 1
            self.values += self.anchors.get(str(event.anchor), 1)
        elif isinstance(event, yaml.CollectionStartEvent):
            self.open.append((event.anchor, self.values))
            self.values += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = self.open.pop()
            if anchor is not None:
                self.anchors[anchor] = self.values - before
        elif isinstance(event, yaml.ScalarEvent):
            self.values += 1
            if event.anchor is not None:
                self.anchors[event.anchor] = 1


def _refuse_yaml_bomb(text: str, named: object, kind: type[DynidError]) -> None:
    """Look at the events alone, which take no memory: the loader would follow nesting and aliases without end."""
    size = _Size()
    for event in yaml.parse(text, Loader=_SAFE_LOADER):
        size.take(event)
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


def parse_json(text: str | bytes, named: object, kind: type[DynidError] = ConfigurationError) -> Any:
    """Return the value of a JSON text.

    Args:
        named: what the text is, for messages; usually its path.
        kind: of the error.

    Raises:
        kind: not valid JSON, longer than `MOST_JSON_BYTES`, or nested deeper than Python's stack allows.
    """
    _refuse_large(len(text), MOST_JSON_BYTES, named, "JSON", kind)
    try:
        return json.loads(text)
    except RecursionError:
        raise kind(f"{named} is not valid JSON: it is nested too deep") from None
    except ValueError as error:
        raise kind(f"{named} is not valid JSON: {one_line(str(error))[:300]}") from error


def _refuse_large(size: int, most: int, named: object, what: str, kind: type[DynidError]) -> None:
    if size > most:
        raise kind(f"{named} has {size} bytes, expected {what} of at most {most}")


def read_text(path: Path, what: str, most: int, kind: type[DynidError] = ConfigurationError) -> str:
    """Return the text of a regular UTF-8 file of at most `most` bytes; `what` it is expected to be, for messages.

    Raises:
        InputNotFoundError: no such file.
        kind: not a regular file, too large, or not UTF-8 text.
    """
    try:
        if not path.is_file() and path.exists() and not path.is_dir():
            raise kind(f"{path} is not a regular file; expected a {what} file")
        _refuse_large(path.stat().st_size, most, path, f"a {what} file", kind)
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputNotFoundError(f"no such file: {path}; expected a {what} file") from None
    except DynidError:
        raise
    except (OSError, ValueError) as error:
        raise kind(f"{path} is not a valid {what} file: {one_line(str(error))[:300]}") from error


def read_yaml(path: Path, kind: type[DynidError] = ConfigurationError) -> Any:
    """Return the content of a YAML file; see `read_text` and `parse_yaml` for errors."""
    return parse_yaml(read_text(path, "YAML", MOST_YAML_BYTES, kind), path, kind)


def read_json(path: Path, kind: type[DynidError] = ConfigurationError, what: str = "JSON") -> Any:
    """Return the content of a JSON file; see `read_text` and `parse_json` for errors."""
    return parse_json(read_text(path, what, MOST_JSON_BYTES, kind), path, kind)
