"""Location of the files that are installed with dynid, and file operations that are safe and atomic."""

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
MOST_ARRAY_BYTES = 256 * 2**20  # maximum size of unpacked arrays; an hour of eight joints at 200 Hz takes 80 MiB
LEAST_FREE_BYTES = 16 * 2**20  # minimum free space before a result is written; results take some MiB
_SAFE_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def share_folder() -> Path:
    """Return the folder that contains dynid's folders config/, urdf/ and launch/.

    A source tree, from which editable installs run, has priority, so that edits take effect. Then the ament prefixes
    and the data path of this Python environment are searched.

    Raises:
        InputNotFoundError: the folder is not found, because dynid was installed without these files.
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
    """Convert any error in the `with` block except a `DynidError` to an error of class `kind` that names the file.

    Args:
        path: the file.
        what: description of a valid file, such as "CSV table", for the message.
        kind: class of the error that is raised.

    Raises:
        kind: an error other than a `DynidError` was raised in the `with` block.
    """
    try:
        yield
    except DynidError as error:
        error.args = (one_line(str(error)),)
        raise
    except MemoryError as error:
        raise kind(
            f"{path} takes more memory than this machine has free: split it, or read it on a larger machine; if it is "
            f"small, it is a damaged {what}"
        ) from error
    except Exception as error:
        reason = one_line(str(error))[:300] or type(error).__name__
        raise kind(f"{path} is not a valid {what}, or is damaged: {reason}") from error


@contextlib.contextmanager
def stored_arrays(path: Path, most: int = MOST_ARRAY_BYTES) -> Iterator["np.lib.npyio.NpzFile"]:
    """Open an .npz file and yield its arrays.

    Raises:
        DataError: the file is damaged, or its unpacked arrays take more than `most` bytes.
    """
    with guarded(path, "file of arrays"):
        with zipfile.ZipFile(path) as packed:
            size = sum(one.file_size for one in packed.infolist())
        if size > most:
            raise DataError(f"{path} becomes {size} bytes once unpacked, expected at most {most}")
        with np.load(path, allow_pickle=False) as arrays:
            yield arrays


def yaml_text(content: Any, width: int = 140, rows: bool = False) -> str:
    """Return plain values as YAML text, with keys in their original order and lines of up to `width` characters.

    With `rows`, a list or mapping that contains no other list or mapping is written in one line, in brackets.
    """
    style = None if rows else False
    return str(
        yaml.dump(
            content, Dumper=_SAFE_DUMPER, sort_keys=False, width=width, allow_unicode=True, default_flow_style=style
        )
    )


def load_validated(path: Path, schema: type[Schema]) -> Schema:
    """Return the content of a YAML file as an object of a pydantic schema.

    Raises:
        InputNotFoundError: the file does not exist.
        ConfigurationError: the content does not fit the schema. The message states file, field, value and
            expected value.
    """
    try:
        return schema.model_validate(read_yaml(path))
    except ValidationError as error:
        raise ConfigurationError(f"{path}: {invalid_fields(error, schema)}") from error


MOST_LISTED = 20  # maximum number of invalid fields in one message
_KINDS = {"dict": "a block of fields", "model": "a block of fields", "tuple": "a list", "list": "a list"}


def invalid_fields(error: ValidationError, schema: type[BaseModel]) -> str:
    """Return a sentence on the invalid fields of a file, from pydantic's error for a schema.

    The sentence states each field, its value and the expected value, and for an unknown field a similar known name.
    """
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
    return one_line("; ".join(lines)) + (f"; and {more} more" if more > 0 else "")  # names of fields hold anything


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Convert an OSError in the `with` block to an OutputWriteError that names `path`."""
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
    """Create a folder and its missing parents so that they survive a loss of power; do nothing if it exists.

    Raises:
        OutputWriteError: the folder cannot be created.
    """
    _refuse_below_a_file(path / "-")
    with _writing(path):
        make_folders(path)


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a new file completely or not at all, text as UTF-8; the written file survives a loss of power.

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
    """Return the first of the paths `path`-1, `path`-2 and so on at which no file or folder exists yet."""
    numbered = (path.with_name(f"{path.name}-{number}") for number in count(1))
    return next(one for one in numbered if not one.exists())


def refuse_existing(path: Path) -> None:
    """Check that an output can be written to a path, before a long computation.

    The check creates a file in the nearest existing parent folder, and removes it again.

    Raises:
        OutputExistsError: the output exists already.
        OutputWriteError: a parent of the path is a file, the system refuses the name or the folder, or less than
            `LEAST_FREE_BYTES` are free.
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
    with _writing(path):  # the name may be too long, or the folder not accessible
        _refuse_below_a_file(path)
        exists = path.exists() or path.is_symlink()
    if exists:
        raise OutputExistsError(
            f"output {path} exists; dynid never overwrites results: choose another name or remove it"
        )


def move_to_output(made: Path, path: Path) -> None:
    """Rename the complete folder or file `made` to the output path `path`, without overwriting.

    Raises:
        OutputExistsError: a file or folder with this name exists.
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
    """Yield a temporary working folder, which is renamed to `path` if the `with` block ends without an error.

    The finished folder survives a loss of power. After an error the working folder, which is next to `path`, is
    removed, and `path` does not exist.

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
