"""Signals of recordings in memory, and of those that are read again when they are needed."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from dynid.errors import DataError
from dynid.identification.data.signals import Signals
from dynid.identification.settings import IdentificationSettings


class Recorded(Protocol):
    """A recording that was read."""

    @property
    def path(self) -> Path:
        """The file."""
        ...

    @property
    def sha256(self) -> str:
        """Hash of its data."""
        ...

    @property
    def signals(self) -> Callable[[IdentificationSettings], Signals]:
        """Return its signals."""
        ...


class Releasable(Recorded, Protocol):
    """A recording whose signals can be taken out of memory."""

    @property
    def row_count(self) -> int:
        """Number of rows in memory."""
        ...

    def out_of_memory(self: "Kept", read: "Callable[[], Kept]") -> "Kept":
        """Return the same, which is read again when it is needed."""
        ...


Kept = TypeVar("Kept", bound=Releasable)


@dataclass(frozen=True, eq=False)
class AsRead:
    """Signals in memory, which no setting changes."""

    signals: Signals

    def __call__(self, settings: IdentificationSettings) -> Signals:
        """Return them."""
        return self.signals


@dataclass(frozen=True, eq=False)
class ReadAgain:
    """Signals that are read from their file whenever they are asked for."""

    read: Callable[[], Recorded]
    sha256: str

    def __call__(self, settings: IdentificationSettings) -> Signals:
        """Return what the file holds.

        Raises:
            DataError: other data than it held before.
        """
        source = self.read()
        if source.sha256 != self.sha256:
            raise DataError(f"{source.path} has changed since it was found: run the command again")
        return source.signals(settings)


@dataclass
class Room:
    """Room for rows in memory; None: for any number."""

    rows: int | None

    def keep(self, source: Kept, read: Callable[[], Kept]) -> Kept:
        """Return a recording as it is while there is room, else one that is read again when it is needed."""
        if self.rows is None:
            return source
        self.rows -= source.row_count
        return source if self.rows >= 0 else source.out_of_memory(read)
