"""Numbers of a CSV file by column, with the line of every row, and what is wrong with which line."""

import gzip
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dynid.errors import DataError, InputNotFoundError
from dynid.robot import FloatArray

COMMENT = "#"
SEPARATORS = {",": ",", ";": ";", "tab": "\t", "space": None}


@dataclass(frozen=True)
class BadRow:
    """A data row that cannot be used: its place among the data rows, its line in the file, and why."""

    row: int
    line: int
    reason: str


@dataclass(frozen=True, eq=False)
class CsvTable:
    """The wanted columns of a CSV file.

    Attributes:
        values: (N, k), one column per wanted one; NaN where a row is bad.
        lines: line of every row in the file, counted from 1, (N,).
        bad: rows that cannot be used.
        width: how many columns the file has.
        notes: what a reader should know.
    """

    path: Path
    values: FloatArray
    lines: NDArray[np.int64]
    bad: tuple[BadRow, ...]
    width: int
    notes: tuple[str, ...]


def read_text(path: Path) -> str:
    """The text of a CSV file, which may be compressed (.gz).

    Raises:
        InputNotFoundError: no such file.
        DataError: no text, or a damaged archive.
    """
    try:
        raw = path.read_bytes()
        return (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8-sig")
    except (FileNotFoundError, IsADirectoryError):
        raise InputNotFoundError(f"no such CSV file: {path}") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text (byte {error.start}); expected a CSV file") from error
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} is a damaged archive: {error}; download it again") from error


class _Lines:
    """Data lines of a file with their numbers, and the header."""

    def __init__(self, path: Path, text: str, delimiter: str, decimal: str) -> None:
        self.path, self.separator = path, SEPARATORS[delimiter]
        self.ended = text.endswith(("\n", "\r"))
        lines = (text.replace(",", ".") if decimal == "," else text).splitlines()
        numbered = [(number, line) for number, line in enumerate(lines, 1) if not line.startswith(COMMENT)]
        filled = [place for place, (_, line) in enumerate(numbered) if line.strip()]
        if not filled:
            raise DataError(f"{path} holds no rows")
        numbered = numbered[filled[0] : filled[-1] + 1]
        first = self.split(numbered[0][1])
        self.width = len(first)
        self.header = None if any(_number(field) is not None for field in first) else first
        rows = numbered[self.header is not None :]
        if not rows:
            raise DataError(f"{path} holds a header but no rows")
        self.numbers = np.array([number for number, _ in rows], dtype=np.int64)
        self.data = [line for _, line in rows]

    def split(self, line: str) -> list[str]:
        return [field.strip().strip('"') for field in line.split(self.separator)]

    def place(self, column: str | int) -> int:
        """Index of a column."""
        if isinstance(column, int):
            if column > self.width:
                raise DataError(f"{self.path} has {self.width} columns; there is no column {column}")
            return column - 1
        if self.header is None:
            raise DataError(f"{self.path} has no header, so no column '{column}'; name columns by number, from 1")
        places = [k for k, name in enumerate(self.header) if name == column]
        if len(places) != 1:
            fault = f"has the column '{column}' twice" if places else f"has no column '{column}'"
            raise DataError(f"{self.path} {fault}; its columns are: {', '.join(self.header)}")
        return places[0]

    def name(self, place: int) -> str:
        return self.header[place] if self.header else f"{place + 1}"


def _number(field: str) -> float | None:
    """The number that a field holds, or None."""
    try:
        return float(field)
    except ValueError:
        return None


def read_table(
    path: Path,
    columns: Sequence[str | int],
    *,
    delimiter: str = ",",
    decimal: str = ".",
    rows: tuple[int, int | None] | None = None,
) -> CsvTable:
    """Read columns of a CSV file.

    Args:
        columns: names in the header, or numbers counted from 1.
        delimiter: ",", ";", "tab" or "space".
        decimal: the decimal sign.
        rows: first data row and the one after the last; None: all.

    Raises:
        InputNotFoundError: no such file.
        DataError: no CSV, a column that is not there, or rows that are not there.
    """
    lines = _Lines(path, read_text(path), delimiter, decimal)
    places = [lines.place(column) for column in columns]
    first, end = rows or (0, None)
    end = len(lines.data) if end is None else end
    if end > len(lines.data) or first >= end:
        raise DataError(f"{path} has {len(lines.data)} rows; the mapping asks for rows {first} to {end}")
    chosen = range(first, end)
    values, bad = _parse(lines, places, chosen)
    notes: list[str] = []
    if not lines.ended and end == len(lines.data) and not (bad and bad[-1].row == len(lines.data) - 1):
        notes.append(f"{path.name}: the last line has no newline, so its last number may be truncated")
    return CsvTable(path, values, lines.numbers[first:end], tuple(bad), lines.width, tuple(notes))


def _parse(lines: _Lines, places: list[int], chosen: range) -> tuple[FloatArray, list[BadRow]]:
    """Values of the chosen rows, and the bad rows among them; all at once where every row is in order."""
    separators = lines.width - 1
    text = lines.data[chosen.start : chosen.stop]
    even = lines.separator is None or all(line.count(lines.separator) == separators for line in text)
    if even and not any('"' in line for line in text):
        try:
            values = np.loadtxt(text, delimiter=lines.separator, usecols=places, ndmin=2, comments=None)
            if len(values) == len(text) and np.isfinite(values).all():
                return values, []
        except ValueError:
            pass  # row by row below, to say where
    values, bad = np.full((len(text), len(places)), np.nan), []
    for k, line in enumerate(text):
        if reason := _parse_row(lines, places, line, values[k]):
            cut = chosen[k] + 1 == len(lines.data) and not lines.ended
            reason += " (truncated: the file ends within this line)" if cut else ""
            bad.append(BadRow(chosen[k], int(lines.numbers[chosen[k]]), reason))
    values[[one.row - chosen.start for one in bad]] = np.nan
    return values, bad


def _parse_row(lines: _Lines, places: list[int], line: str, row: FloatArray) -> str:
    """Put the numbers of one line into a row, or say why it has none."""
    fields = lines.split(line)
    if len(fields) != lines.width:
        return "empty" if not line.strip() else f"{len(fields)} fields, expected {lines.width}"
    for k, place in enumerate(places):
        number = _number(fields[place])
        if number is None:
            return f"'{fields[place]}' in column {lines.name(place)} is not a number"
        if not np.isfinite(number):
            return f"{fields[place]} in column {lines.name(place)} is not finite"
        row[k] = number
    return ""
