"""Header of a CSV file: column names, delimiter and decimal sign, determined from the file's first lines."""

import re
from dataclasses import dataclass
from pathlib import Path

from dynid.errors import DataError
from dynid.recording.csv_table import COMMENT, is_instant, is_separator_line, text_lines

SAMPLE_LINES = 40  # number of lines from which delimiter and decimal sign are determined
LEAST_COLUMNS = 3
DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+(e[-+]?\d+)?", re.IGNORECASE)
DELIMITERS = ((";", ";"), ("tab", "\t"), (",", ","), ("space", None))
Column = str | int


@dataclass(frozen=True)
class Header:
    """Header of a CSV file.

    A mapping file refers to a column by its number if the name is empty or repeated, or if the header is a comment.

    Attributes:
        names: names of the columns.
        delimiter: ",", ";", "tab" or "space".
        decimal: the decimal sign, "." or ",".
        first: fields of the first data row.
        commented: whether the names are in a comment line.
    """

    names: tuple[str, ...]
    delimiter: str
    decimal: str
    first: tuple[str, ...]
    commented: bool

    def column(self, place: int) -> Column:
        """Return the name or number of a column for a mapping file; `place` is the column's index from 0."""
        name = self.names[place]
        plain = not self.commented and name and self.names.count(name) == 1
        return name if plain else place + 1


def header_of(csv: Path) -> Header:
    """Determine the header of a CSV file from its first lines.

    Raises:
        InputNotFoundError: the file does not exist.
        DataError: the file is not text, has no header or too few columns, or has units in its second line.
    """
    lines = [line for line in text_lines(csv, SAMPLE_LINES) if line.strip() and not is_separator_line(line)]
    commented = [one for one in lines if one.startswith(COMMENT)]
    data = [one for one in lines if not one.startswith(COMMENT)]
    for delimiter, sign in DELIMITERS:
        rows = [_fields(one, sign) for one in data]
        if len(rows) < 2 or len(rows[1]) < LEAST_COLUMNS:
            continue
        decimal = "," if sign != "," and any(DECIMAL_COMMA.fullmatch(one) for one in rows[1]) else "."
        if not any(_is_value(one) for one in rows[0]) and len(rows[0]) == len(rows[1]):
            _refuse_units_line(csv, rows)
            return Header(tuple(rows[0]), delimiter, decimal, tuple(rows[1]), commented=False)
        named = _fields(commented[-1].lstrip("# "), sign) if commented else []
        if len(named) == len(rows[0]):
            return Header(tuple(named), delimiter, decimal, tuple(rows[0]), commented=True)
    raise _without_header(csv, data)


def _refuse_units_line(csv: Path, rows: list[list[str]]) -> None:
    """Raise DataError if a CSV file's second line has no numbers or dates, but its third line has some.

    Such a second line usually contains the units of the columns.

    Args:
        csv: path of the file.
        rows: fields of the first lines.
    """
    if len(rows) > 2 and not any(_is_value(one) for one in rows[1]) and any(_is_value(one) for one in rows[2]):
        raise DataError(
            f"{csv} has a second line without numbers ({', '.join(rows[1][:4])}, ...): if it holds units, write them "
            f"into the names above, such as '{rows[0][1]} [{rows[1][1]}]', and delete the line"
        )


def _without_header(csv: Path, data: list[str]) -> DataError:
    """Return the error for a CSV file without a usable header; its message suggests how to correct the file.

    Args:
        csv: path of the file.
        data: first lines of the file, without comments.
    """
    if any('"[' in one for one in data):
        return DataError(f"{csv} holds lists in its fields: write one column for each joint, such as q1,q2,...")
    if any(re.search(r'"[-+]?\d+,\d+"', one) for one in data):
        return DataError(
            f"{csv} holds decimal commas between commas: save it with semicolons between the fields, or with decimal "
            "points"
        )
    for _, sign in DELIMITERS:
        rows = [_fields(one, sign) for one in data[:2]]
        named = len(rows) == 2 and len(rows[0]) >= LEAST_COLUMNS and not any(_is_value(one) for one in rows[0])
        if named and len(rows[1]) >= LEAST_COLUMNS:
            return DataError(
                f"{csv} has {len(rows[0])} names in its header and {len(rows[1])} fields in its first row: give every "
                "column a name, and every row as many fields"
            )
    return DataError(
        f"{csv} has no header with a name for every column: add one, such as t,q1,q2,...,tau1,tau2,..., or write the "
        "mapping by hand, columns by number from 1"
    )


def _fields(line: str, sign: str | None) -> list[str]:
    return [one.strip().strip('"') for one in line.split(sign)]


def _is_value(text: str) -> bool:
    return re.fullmatch(r"[-+]?[\d.,]+(e[-+]?\d+)?", text, re.IGNORECASE) is not None or is_instant(text)
