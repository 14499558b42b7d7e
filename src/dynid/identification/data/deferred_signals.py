"""Signals of recordings that either stay in memory or are read from their file on each use."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from dynid.errors import DataError
from dynid.identification.data.signals import Signals
from dynid.identification.settings import IdentificationSettings


class Recorded(Protocol):
    """Interface of a recording that returns its signals for given identification settings."""

    @property
    def path(self) -> Path:
        """Path of the recording's file."""
        ...

    @property
    def sha256(self) -> str:
        """Hash of the recording's data."""
        ...

    @property
    def signals(self) -> Callable[[IdentificationSettings], Signals]:
        """Function that returns the recording's signals for given settings."""
        ...


class Releasable(Recorded, Protocol):
    """Interface of a recording whose rows can be removed from memory and read again from its file."""

    @property
    def row_count(self) -> int:
        """Number of recorded rows in memory."""
        ...

    def out_of_memory(self: "Kept", read: "Callable[[], Kept]") -> "Kept":
        """Return a copy of this recording whose signals are read from its file on each use.

        Args:
            read: function that reads the recording again on each use.
        """
        ...


Kept = TypeVar("Kept", bound=Releasable)


@dataclass(frozen=True, eq=False)
class SignalsInMemory:
    """Callable that returns signals from memory, regardless of the settings."""

    signals: Signals

    def __call__(self, settings: IdentificationSettings) -> Signals:
        """Return the signals from memory; the settings have no effect."""
        return self.signals


@dataclass(frozen=True, eq=False)
class SignalsOnDisk:
    """Callable that reads signals from their file on each use.

    Attributes:
        read: function that reads the recording.
        sha256: hash of the recording's data when it was first read.
    """

    read: Callable[[], Recorded]
    sha256: str

    def __call__(self, settings: IdentificationSettings) -> Signals:
        """Read the file and return its signals for the given settings.

        Raises:
            DataError: the data in the file have changed since the recording was first read.
        """
        source = self.read()
        if source.sha256 != self.sha256:
            raise DataError(f"{source.path} has changed since it was found: run the command again")
        return source.signals(settings)


@dataclass
class MemoryBudget:
    """Number of recorded rows that may still be kept in memory.

    Attributes:
        rows: remaining number of rows; None means unlimited.
    """

    rows: int | None

    def keep(self, source: Kept, read: Callable[[], Kept]) -> Kept:
        """Return the recording with its rows in memory if they fit, else one that is read from its file on each use.

        Args:
            source: the recording, with its rows in memory.
            read: function that reads the recording again.
        """
        if self.rows is None:
            return source
        self.rows -= source.row_count
        return source if self.rows >= 0 else source.out_of_memory(read)
