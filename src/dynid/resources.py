"""Where shipped files are, and how files are read and written: safely, whole or not at all."""

import contextlib
import difflib
import errno
import os
import shutil
import sysconfig
import tempfile
import zipfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import yaml
from pydantic import BaseModel, ValidationError

from dynid.documents import read_yaml
from dynid.durable import make_folders, new_file, sync_tree, take_name
from dynid.errors import (
    ConfigurationError,
    DataError,
    DynidError,
    InputNotFoundError,
    OutputExistsError,
    OutputWriteError,
    cut,
    one_line,
    shown,
)

Schema = TypeVar("Schema", bound=BaseModel)
MOST_ARRAY_BYTES = 256 * 2**20  # an hour of eight joints at 200 Hz has 80 MiB
LEAST_FREE_BYTES = 16 * 2**20  # of a disk that a result is to be written to; results have some MiB
_SAFE_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def share_folder() -> Path:
    """The folder that holds config/, urdf/ and launch/.

    A source tree (editable installs run from it) wins over installed copies, so that an edit takes effect;
    then every ament prefix, then the data path of this Python environment.

    Raises:
        InputNotFoundError: dynid was installed without its share files.
    """
    source_tree = Path(__file__).resolve().parents[2]
    prefixes = [Path(p) / "share" / "dynid" for p in os.environ.get("AMENT_PREFIX_PATH", "").split(":") if p]
    installed = Path(sysconfig.get_path("data")) / "share" / "dynid"
    for folder in (source_tree, *prefixes, installed):
        if (folder / "config").is_dir() and (folder / "package.xml").is_file():
            return folder
    raise InputNotFoundError(
        f"dynid's share files (config/, urdf/) are neither in {source_tree} nor in an ament prefix nor in {installed}; "
        "reinstall the package with 'pip install .'"
    )


@contextlib.contextmanager
def guarded(path: Path | str, what: str, kind: type[DynidError] = DataError) -> Iterator[None]:
    """The one entry of a file format: whatever libraries make of a strange file becomes one error that names it.

    Raises:
        kind: an error that is none of dynid's left the block.
    """
    try:
        yield
    except DynidError as error:
        error.args = (one_line(str(error)),)
        raise
    except Exception as error:
        reason = one_line(str(error))[:300] or type(error).__name__
        raise kind(f"{path} is not a valid {what}, or is damaged: {reason}") from error


@contextlib.contextmanager
def stored_arrays(path: Path, most: int = MOST_ARRAY_BYTES) -> Iterator["np.lib.npyio.NpzFile"]:
    """Give the arrays of an .npz file to the block.

    Raises:
        DataError: it is damaged, or its arrays take more than `most` bytes once unpacked.
    """
    with guarded(path, "file of arrays"):
        with zipfile.ZipFile(path) as packed:
            size = sum(one.file_size for one in packed.infolist())
        if size > most:
            raise DataError(f"{path} becomes {size} bytes once unpacked, expected at most {most}")
        with np.load(path, allow_pickle=False) as arrays:
            yield arrays


def yaml_text(content: Any, width: int = 140) -> str:
    """Plain values as YAML, in their order."""
    return str(yaml.dump(content, Dumper=_SAFE_DUMPER, sort_keys=False, width=width, allow_unicode=True))


def load_validated(path: Path, schema: type[Schema]) -> Schema:
    """Read a YAML file into a pydantic schema; errors name the file, the field, the value and what was expected."""
    try:
        return schema.model_validate(read_yaml(path))
    except ValidationError as error:
        raise ConfigurationError(f"{path}: {invalid_fields(error, schema)}") from error


MOST_LISTED = 20  # wrong fields in one message
_KINDS = {"dict": "a block of fields", "model": "a block of fields", "tuple": "a list", "list": "a list"}


def invalid_fields(error: ValidationError, schema: type[BaseModel]) -> str:
    """What is wrong with the fields of a file, in words: field, value, what was expected, and a name that is close."""
    parts = schema.model_json_schema()
    known = {name for part in (parts, *parts.get("$defs", {}).values()) for name in part.get("properties", {})}
    lines, errors = [], error.errors(include_url=False)
    for one in errors[:MOST_LISTED]:
        field, value = cut(".".join(cut(str(part)) for part in one["loc"])) or "file", one["input"]
        close = difflib.get_close_matches(cut(str(one["loc"][-1])), known, 1) if one["loc"] else []
        if one["type"] == "missing":
            lines.append(f"{field} is missing")
        elif one["type"] == "extra_forbidden":
            lines.append(f"{field} is unknown" + (f", did you mean '{close[0]}'?" if close else ""))
        else:
            kind = _KINDS.get(one["type"].split("_")[0]) if one["type"].endswith("_type") else None
            expected = cut(one["msg"].replace("Input should be", "expected").replace("Value error, ", ""), 300)
            given = "a block of fields" if isinstance(value, dict) else shown(value)
            lines.append(f"{field}: {f'expected {kind}' if kind else expected} (got {given})")
    more = len(errors) - MOST_LISTED
    return "; ".join(lines) + (f"; and {more} more" if more > 0 else "")


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Raise OutputWriteError where the system cannot write what belongs to `path`."""
    try:
        yield
    except DynidError:
        raise
    except OSError as error:
        advice = {errno.ENOSPC: "free some space", errno.EDQUOT: "free some space"}.get(error.errno or 0, "see --out")
        reason = (error.strerror or str(error)).lower()
        raise OutputWriteError(f"{path} cannot be written, and nothing of it was kept: {reason}; {advice}") from error


def _refuse_below_a_file(path: Path) -> None:
    above = next(one for one in path.absolute().parents if one.exists())
    if not above.is_dir():
        raise OutputWriteError(f"nothing can be written below {above}, a file: choose another folder")


def make_folder(path: Path) -> None:
    """Make a folder and those above it where they are missing; their names outlive a loss of power.

    Raises:
        OutputWriteError: that is not possible.
    """
    _refuse_below_a_file(path / "-")
    with _writing(path):
        make_folders(path)


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file, text as UTF-8, whole or not at all; never over an existing one. It outlives a loss of power.

    Raises:
        OutputExistsError: the file exists.
        OutputWriteError: the disk is full, or the system refuses.
    """
    make_folder(path.parent)
    with _writing(path):
        handle, temporary = new_file(path.parent, path.name)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(content.encode() if isinstance(content, str) else content)
                stream.flush()
                os.fsync(stream.fileno())
            take_name(temporary, path)
        except FileExistsError:
            raise OutputExistsError(f"{path} exists; choose another name or remove it first") from None
        finally:
            temporary.unlink(missing_ok=True)


def new_path(path: Path) -> Path:
    """The path with the first number appended that is not taken."""
    numbered = (path.with_name(f"{path.name}-{number}") for number in count(1))
    return next(one for one in numbered if not one.exists())


def refuse_existing(path: Path) -> None:
    """Look, before the work begins, whether an output can be written; leaves nothing behind.

    Raises:
        OutputExistsError: it exists already.
        OutputWriteError: it would lie below a file, or the system refuses the name, the folder or `LEAST_FREE_BYTES`.
    """
    _refuse_taken(path)
    with _writing(path):
        above = next(one for one in path.absolute().parents if one.exists())
        descriptor, probe = new_file(above, path.name if above == path.absolute().parent else "dynid")
        os.close(descriptor)
        probe.unlink()
        free = shutil.disk_usage(above).free
    if free < LEAST_FREE_BYTES:
        raise OutputWriteError(
            f"{path} cannot be written: {free / 2**20:.1f} MiB are free in {above}, expected at least "
            f"{LEAST_FREE_BYTES / 2**20:.0f}; free some space"
        )


def _refuse_taken(path: Path) -> None:
    with _writing(path):  # a name may be too long, or a folder closed to us
        _refuse_below_a_file(path)
        exists = path.exists() or path.is_symlink()
    if exists:
        raise OutputExistsError(
            f"output {path} exists; dynid never overwrites results: choose another name or remove it"
        )


def move_to_output(made: Path, path: Path) -> None:
    """Give a folder or file, already on the disk, the name of an output.

    Raises:
        OutputExistsError: the name is taken.
        OutputWriteError: the system refuses.
    """
    with _writing(path):
        try:
            take_name(made, path)
        except FileExistsError:
            _refuse_taken(path)
            raise


@contextlib.contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A folder that appears under its name only when the block ends without an error, and outlives a loss of power.

    Yields a working folder beside it; on an error the working folder is removed and `path` stays untouched.

    Raises:
        OutputExistsError: `path` exists.
        OutputWriteError: the disk is full, or the system refuses.
    """
    refuse_existing(path)
    make_folder(path.parent)
    with (
        _writing(path),
        tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.", ignore_cleanup_errors=True) as name,
    ):
        work = Path(name) / path.name
        work.mkdir()
        try:
            yield work
        except OutputWriteError as error:
            error.args = (str(error).replace(str(work), str(path)),)
            raise
        sync_tree(work)
        move_to_output(work, path)
