"""Reader of numeric CSV columns that keeps the line number of every row and reports corrupt lines."""

import gzip
import re
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from itertools import chain, count, islice
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from dynid.errors import DataError, InputNotFoundError, cut, shown
from dynid.robot import FloatArray

COMMENT = "#"
ROWS_AT_ONCE = 50_000  # number of rows parsed at once
MOST_LINES_WITHOUT_DATA = 1_000_000  # maximum number of consecutive lines without data
BASE_BYTES, SIZE_FACTOR = 4 * 2**20, 50  # limit of the unpacked size: base plus factor; numbers compress 5- to 20-fold
LONGEST_LINE, MOST_EMPTY, MOST_NUMBERS = 1_000_000, 10_000, 60_000_000
_INSTANT = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?\s*(Z|z|[-+]\d\d:?\d\d)?", re.ASCII
)
SEPARATORS = {",": ",", ";": ";", "tab": "\t", "space": None}


@dataclass(frozen=True)
class BadRow:
    """Data row of a CSV file that cannot be used.

    Attributes:
        row: index of the row among the data rows.
        line: number of its line in the file, counted from 1.
        reason: reason why it cannot be used.
    """

    row: int
    line: int
    reason: str


@dataclass(frozen=True, eq=False)
class CsvTable:
    """Selected columns of a CSV file.

    Attributes:
        path: path of the file.
        values: numbers of the k selected columns, (N, k); NaN in corrupt rows.
        lines: number of each row's line in the file, counted from 1, (N,).
        bad: unusable rows, with reasons.
        width: number of all columns in the file.
        notes: remarks for the user, such as that the file may be truncated.
    """

    path: Path
    values: FloatArray
    lines: NDArray[np.int64]
    bad: tuple[BadRow, ...]
    width: int
    notes: tuple[str, ...]


@contextmanager
def _opened(path: Path) -> Iterator[IO[str]]:
    """Open a CSV file as text; .gz files are unpacked.

    Raises:
        InputNotFoundError: the file does not exist.
        DataError: it is not text in UTF-8, is a damaged archive, or cannot be read.
    """
    try:
        if not path.is_file():
            raise InputNotFoundError(f"no such CSV file: {path}; expected a regular file")
        with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8-sig") as stream:
            yield stream
    except InputNotFoundError:
        raise
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path} is not UTF-8 text ({error.reason}); expected a CSV file: save it as UTF-8, or convert it with "
            "iconv -f latin1 -t utf-8 (-f utf-16 if it was written so)"
        ) from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{path} is a damaged archive: {error}; download it again") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error


def text_lines(path: Path, most: int) -> list[str]:
    """Return the first `most` non-empty lines of a CSV file; errors are those of `read_table`."""
    with _opened(path) as stream:
        lines = iter(lambda: stream.readline(LONGEST_LINE), "")
        return list(islice((line.rstrip("\r\n") for line in islice(lines, MOST_EMPTY) if line.strip()), most))


def is_separator_line(line: str) -> bool:
    """Return whether a line is of the form "sep=;", by which spreadsheet programs state the delimiter."""
    return re.fullmatch(r"sep=.", line.strip(), re.IGNORECASE) is not None


class _Lines:
    """Reader of a CSV file's header and numbered data lines, chunk by chunk; .gz files are unpacked.

    Raises:
        InputNotFoundError: the file does not exist.
        DataError: not a text file, no rows, a line of more than `LONGEST_LINE` characters, or a damaged archive.
    """

    def __init__(self, path: Path, delimiter: str, decimal: str) -> None:
        self.path, self.separator, self._comma = path, SEPARATORS[delimiter], decimal == ","
        self.ended, self.count = True, 0
        self._numbered = self._read()
        first = next(self._numbered, None)
        if first is None:
            raise DataError(f"{path} holds no rows")
        fields = self.split(first[1])
        self.width = len(fields)
        valued = any(number(field) is not None or is_instant(field) for field in fields)
        self.header = None if valued else fields
        row = first if self.header is None else next(self._numbered, None)
        if row is None:
            raise DataError(f"{path} holds a header but no rows")
        self._rest = chain([row], self._numbered)

    def _read(self) -> Iterator[tuple[int, str]]:
        """Yield number and text of the file's lines, without comments and without empty lines at its start and end."""
        with _opened(self.path) as stream:
            packed = self.path.suffix == ".gz"
            most = BASE_BYTES + SIZE_FACTOR * self.path.stat().st_size if packed else sys.maxsize
            yield from self._filled(stream, most)

    def _filled(self, stream: IO[str], most: int) -> Iterator[tuple[int, str]]:
        """Yield line number and text of a stream's lines, without comments and without empty first and last lines.

        Raises:
            DataError: the stream has more than `most` characters, a line is too long, or too many consecutive lines are
                empty or comments.
        """
        empty: list[tuple[int, str]] = []
        begun, barren, size = False, 0, 0
        for at in count(1):
            if not (line := stream.readline(LONGEST_LINE)):
                return
            size, barren = size + len(line), barren + 1
            if size > most or barren > MOST_LINES_WITHOUT_DATA:
                what = f"more than {MOST_LINES_WITHOUT_DATA} lines in a row have no data"
                if size > most:
                    what = f"it becomes more than {most / 2**20:.0f} MiB: unpack it with gunzip if you trust it"
                raise DataError(f"{self.path} line {at}: {what}")
            self.ended = line.endswith("\n")
            if len(line) >= LONGEST_LINE and not self.ended:
                raise DataError(f"{self.path} line {at} has more than {LONGEST_LINE} characters: no CSV")
            line = line.rstrip("\n")
            if line.startswith(COMMENT) or (at == 1 and is_separator_line(line)):
                continue
            if line.strip():
                yield from empty
                yield at, line.replace(",", ".") if self._comma else line
                empty, begun, barren = [], True, 0
            elif begun and len(empty) < MOST_EMPTY:
                empty.append((at, line))

    def pieces(self) -> Iterator[tuple[NDArray[np.int64], list[str]]]:
        """Yield the numbers and the texts of the data lines, up to `ROWS_AT_ONCE` lines at a time."""
        while piece := list(islice(self._rest, ROWS_AT_ONCE)):
            self.count += len(piece)
            yield np.array([at for at, _ in piece], dtype=np.int64), [line for _, line in piece]

    def split(self, line: str) -> list[str]:
        return [field.strip().strip('"') for field in line.split(self.separator)]

    def place(self, column: str | int) -> int:
        """Return the index of a column, counted from 0, from its name in the header or its number, counted from 1."""
        if isinstance(column, int):
            if column > self.width:
                raise DataError(f"{self.path} has {self.width} columns; there is no column {column}")
            return column - 1
        if self.header is None:
            raise DataError(f"{self.path} has no header, so no column '{column}'; name columns by number, from 1")
        places = [k for k, name in enumerate(self.header) if name == column]
        if len(places) != 1:
            fault = f"has the column '{column}' twice" if places else f"has no column '{column}'"
            raise DataError(f"{self.path} {fault}; its columns are: {cut(', '.join(self.header), 300)}")
        return places[0]

    def name(self, place: int) -> str:
        return self.header[place] if self.header else f"{place + 1}"


def number(field: str) -> float | None:
    """Return the number in a field, or None if it is not a number.

    Notations that only Python uses, such as 0_5 for 5, are not accepted.
    """
    if not field.isascii() or "_" in field:
        return None
    try:
        return float(field)
    except ValueError:
        return None


def is_instant(field: str) -> bool:
    """Return whether a field is a date with a time, such as 2026-11-27T08:15:25.125Z."""
    return _INSTANT.fullmatch(field.strip()) is not None


def instant_s(field: str) -> float | None:
    """Convert a date with a time to seconds since 1970, in UTC if no time zone is given; return None for other text."""
    found = _INSTANT.fullmatch(field.strip())
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(found[k]) for k in range(1, 7))
    try:
        whole = datetime(year, month, day, hour, minute, second, tzinfo=timezone.utc).timestamp()
    except ValueError:
        return None
    zone = found[8]
    minutes = 0 if zone in (None, "Z", "z") else 60 * int(zone[1:3]) + int(zone[-2:])
    ahead = -minutes if zone is not None and zone.startswith("-") else minutes
    return whole + float(f"0.{found[7] or 0}") - 60.0 * ahead


def read_table(
    path: Path,
    columns: Sequence[str | int],
    *,
    delimiter: str = ",",
    decimal: str = ".",
    rows: tuple[int, int | None] | None = None,
    instants: str | int | None = None,
) -> CsvTable:
    """Read columns of a CSV file, with only a part of its text in memory at a time.

    Args:
        path: the file.
        columns: names in the header, or numbers counted from 1.
        delimiter: ",", ";", "tab" or "space".
        decimal: the decimal sign.
        rows: index of the first data row to read and of the row after the last, counted from 0; None reads all.
        instants: column that holds dates with times, which are converted to seconds since 1970; None if there is none.

    Raises:
        InputNotFoundError: the file does not exist.
        DataError: not a CSV file, a column or rows are missing, or there are more than `MOST_NUMBERS` numbers.
    """
    lines = _Lines(path, delimiter, decimal)
    dated = None if instants is None else lines.place(instants)
    places = [lines.place(column) for column in columns]
    for k, place in enumerate(places):
        if place in places[:k]:
            raise DataError(
                f"{path}: {shown(columns[places.index(place)])} and {shown(columns[k])} are the same column, "
                f"{place + 1}; expected another one for each value"
            )
    first, end = rows or (0, None)
    parts, numbers, bad = [], [], list[BadRow]()
    for place, (own, text) in zip(count(0, ROWS_AT_ONCE), lines.pieces(), strict=False):
        begin, stop = max(first - place, 0), len(text) if end is None else min(end - place, len(text))
        if begin < stop:
            values, wrong = _parse(lines, places, text[begin:stop], own[begin:stop], place + begin, dated)
            parts.append(values)
            numbers.append(own[begin:stop])
            bad += wrong
        if (lines.count - first) * len(places) > MOST_NUMBERS:
            raise DataError(
                f"{path} has more than {MOST_NUMBERS // len(places)} rows of {len(places)} columns: split it, or "
                "choose rows in the mapping"
            )
    whole = end is None or end == lines.count
    end = lines.count if end is None else end
    if end > lines.count or first >= end:
        raise DataError(f"{path} has {lines.count} rows; the mapping asks for rows {first} to {end}")
    notes: list[str] = []
    if not lines.ended and whole:
        if bad and bad[-1].row == lines.count - 1:
            bad[-1] = replace(bad[-1], reason=f"{bad[-1].reason} (truncated: the file ends within this line)")
        else:
            notes.append(f"{path.name}: the last line has no newline, so its last number may be truncated")
    return CsvTable(path, np.concatenate(parts), np.concatenate(numbers), tuple(bad), lines.width, tuple(notes))


def _parse(
    lines: _Lines, places: list[int], text: list[str], numbers: NDArray[np.int64], first: int, dated: int | None
) -> tuple[FloatArray, list[BadRow]]:
    """Parse the texts of N data rows; return their numbers (N, k) and the corrupt rows.

    Args:
        lines: reader of the file, which splits a row into fields.
        places: indices of the k selected columns.
        text: texts of the rows.
        numbers: line numbers of the rows, (N,).
        first: index of the first of these rows among the file's data rows.
        dated: index of the column that holds dates with times; None if there is none.
    """
    if lines.separator is None:
        even = all(len(line.split()) == lines.width for line in text)
    else:
        even = all(line.count(lines.separator) == lines.width - 1 for line in text)
    if dated is None and even and not any('"' in line or "_" in line or not line.isascii() for line in text):
        try:
            values = np.loadtxt(text, delimiter=lines.separator, usecols=places, ndmin=2, comments=None)
            if len(values) == len(text) and np.isfinite(values).all():
                return values, []
        except ValueError:
            pass  # the rows are parsed one by one below, to find the corrupt ones
    values, bad = np.full((len(text), len(places)), np.nan), []
    for k, line in enumerate(text):
        if reason := _parse_row(lines, places, line, values[k], dated):
            bad.append(BadRow(first + k, int(numbers[k]), reason))
    values[[one.row - first for one in bad]] = np.nan
    return values, bad


def _parse_row(lines: _Lines, places: list[int], line: str, row: FloatArray, dated: int | None) -> str:
    """Write the numbers of one data row into `row` (k,); return the reason if the row is corrupt, else "".

    Args:
        lines: reader of the file, which splits a row into fields.
        places: indices of the k selected columns.
        line: text of the row.
        row: array that receives the numbers, (k,).
        dated: index of the column that holds dates with times; None if there is none.
    """
    fields = lines.split(line)
    if len(fields) != lines.width:
        return "empty" if not line.strip() else f"{len(fields)} fields, expected {lines.width}"
    for k, place in enumerate(places):
        value = instant_s(fields[place]) if place == dated else number(fields[place])
        if value is None:
            what = "a date with a time" if place == dated else "a number"
            return f"'{fields[place]}' in column {lines.name(place)} is not {what}"
        if not np.isfinite(value):
            return f"{fields[place]} in column {lines.name(place)} is not finite"
        row[k] = value
    return ""
