"""Reader of numeric columns of a parquet file; limits their size, as a small compressed file can expand enormously.

Reading requires pyarrow, `pip install dynid[lerobot]`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynid.errors import ConfigurationError, DataError, cut
from dynid.resources import guarded
from dynid.robot import FloatArray

MOST_NUMBERS = 20_000_000  # maximum values of a row group's column, and of one call: 13 h of 14 joints at 30 Hz
MOST_KEPT = 20_000_000  # maximum values of row groups that are kept between calls; more are read anew for each episode
_ROWS = 8192  # number of rows read at once


def read_columns(file: Path, wanted: Sequence[str], only: tuple[str, float] | None = None) -> dict[str, FloatArray]:
    """Read columns of a parquet file as arrays, (N,) for numbers or (N, k) for lists of k numbers.

    Missing numbers become NaN. Columns that the file lacks are left out.

    Args:
        file: the parquet file.
        wanted: names of the columns to read.
        only: name of a column and a value; only rows with this value in this column are read. None reads all rows.

    Raises:
        ConfigurationError: pyarrow is not installed.
        DataError: the file is damaged or has more than `MOST_NUMBERS` values; a column holds no numbers, or lists of
            different lengths.
    """
    try:
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise ConfigurationError("LeRobot data sets need pyarrow: pip install 'dynid[lerobot]'") from error
    with guarded(file, "parquet file"), file.open("rb") as stream:
        parquet = ParquetFile(stream)
        names = [name for name in wanted if name in parquet.schema_arrow.names]
        if only is not None and only[0] not in names:
            raise DataError(f"{file} has no column {only[0]}")
        groups = [k for k in range(parquet.num_row_groups) if _may_hold(parquet, k, only)]
        if only is not None and _count(parquet, groups, names) <= MOST_KEPT:
            status = file.stat()
            kept = _kept(file, status.st_mtime_ns, status.st_size, tuple(groups), tuple(names), only[0])
            return kept.rows_of(only[1])
        parts: dict[str, list[FloatArray]] = {name: [] for name in names}
        total = 0
        for batch in _batches(file, parquet, groups, names):
            arrays = {name: _numbers(file, name, batch.column(name)) for name in names}
            if only is not None:
                keep = arrays[only[0]] == only[1]
                arrays = {name: values[keep] for name, values in arrays.items()}
            total += sum(values.size for values in arrays.values())
            _refuse_many(file, total)
            for name, values in arrays.items():
                parts[name].append(values)
        return {name: _joined(file, name, part) for name, part in parts.items()}


@dataclass(frozen=True, eq=False)
class _Kept:
    """Cached columns of some row groups of a parquet file, with sorted indices for a fast search by a key column.

    Attributes:
        columns: arrays (N,) or (N, k) by column name, in the order of the file.
        order: indices of the rows in ascending order of the key column, (N,).
        values: values of the key column in ascending order, (N,).
    """

    columns: dict[str, FloatArray]
    order: NDArray[np.int64]
    values: FloatArray

    def rows_of(self, value: float) -> dict[str, FloatArray]:
        """Return the columns of all rows in which the key column has the given value, in the order of the file."""
        first, end = np.searchsorted(self.values, [value, np.nextafter(value, np.inf)])
        rows = self.order[first:end]
        return {name: column[rows] for name, column in self.columns.items()}


@lru_cache(maxsize=1)
def _kept(file: Path, changed_ns: int, size: int, groups: tuple[int, ...], names: tuple[str, ...], key: str) -> _Kept:
    """Read columns of row groups into a cache, from which the rows of several episodes can be selected.

    Args:
        file: the parquet file.
        changed_ns: time of the file's last change [ns]; with `size`, it ensures that a changed file is read anew.
        size: size of the file [bytes].
        groups: indices of the row groups.
        names: names of the columns.
        key: name of the column by which rows are selected.
    """
    from pyarrow.parquet import ParquetFile

    with file.open("rb") as stream:
        parts: dict[str, list[FloatArray]] = {name: [] for name in names}
        for batch in _batches(file, ParquetFile(stream), groups, names):
            for name in names:
                parts[name].append(_numbers(file, name, batch.column(name)))
    columns = {name: _joined(file, name, part) for name, part in parts.items()}
    order = np.argsort(columns[key], kind="stable")
    return _Kept(columns, order, columns[key][order])


def _count(parquet: Any, groups: Sequence[int], names: Sequence[str]) -> int:
    """Return the number of values that the named columns have in the given row groups of a parquet file."""
    rows = [parquet.metadata.row_group(group) for group in groups]
    columns = [one.column(k) for one in rows for k in range(one.num_columns)]
    return sum(one.num_values for one in columns if one.path_in_schema.partition(".")[0] in names)


def _may_hold(parquet: Any, group: int, only: tuple[str, float] | None) -> bool:
    """Return whether a row group may contain requested rows, from the minimum and maximum that the file states.

    Args:
        parquet: the opened `ParquetFile`.
        group: index of the row group.
        only: name of a column and its value in the requested rows; None requests all rows.
    """
    if only is None:
        return True
    rows = parquet.metadata.row_group(group)
    for column in (rows.column(k) for k in range(rows.num_columns)):
        if column.path_in_schema == only[0] and column.is_stats_set and column.statistics.has_min_max:
            return bool(column.statistics.min <= only[1] <= column.statistics.max)
    return True


def _batches(file: Path, parquet: Any, groups: Sequence[int], names: Sequence[str]) -> Iterator[Any]:
    for group in groups:
        rows = parquet.metadata.row_group(group)
        for column in (rows.column(k) for k in range(rows.num_columns)):
            if column.path_in_schema.partition(".")[0] in names:
                _refuse_many(file, column.num_values)
    yield from parquet.iter_batches(_ROWS, row_groups=list(groups), columns=list(names)) if groups else ()


def _refuse_many(file: Path, count: int) -> None:
    if count > MOST_NUMBERS:
        raise DataError(f"{file} has more than {MOST_NUMBERS} numbers in one row group or episode: split it")


def _numbers(file: Path, name: str, column: Any) -> FloatArray:
    """Return the values (N,) of a numeric column, or (N, k) of a column of lists of equal length."""
    from pyarrow import types

    kind, shape = column.type, [len(column)]
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        flat = column.flatten()
        width = len(flat) // max(len(column), 1)
        lengths = () if types.is_fixed_size_list(kind) else column.value_lengths().to_pylist()
        if width * len(column) != len(flat) or any(one != width for one in lengths):
            raise DataError(f"{file}: column {cut(name)} has lists of different lengths")
        column, kind, shape = flat, kind.value_type, [len(column), width]
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
        raise DataError(f"{file}: column {cut(name)} holds {cut(str(kind))}, expected numbers or lists of them")
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64).reshape(shape)


def _joined(file: Path, name: str, parts: list[FloatArray]) -> FloatArray:
    if not parts:
        return np.zeros(0)
    if len({part.shape[1:] for part in parts if len(part)}) > 1:
        raise DataError(f"{file}: column {cut(name)} has lists of different lengths")
    filled = [part for part in parts if len(part)] or parts[:1]
    return np.concatenate(filled)
