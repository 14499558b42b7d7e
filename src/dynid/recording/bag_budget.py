"""The budget of one bag: how much memory and temporary disk it may take, whatever it contains.

What is taken is counted while the bag is unpacked, since what a compressed file says of its size may be anything.
"""

import os
import resource
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from dynid.errors import ConfigurationError, DataError, cut

VARIABLE = "DYNID_BAG_GIB"
BASE_BYTES, TIMES_PACKED = 256 * 2**20, 100  # states of an arm that stands still become a 60th of their size
SHARE = 0.5  # of the memory that this process may have
_CGROUP = Path("/sys/fs/cgroup/memory.max")
GIB = 2**30


def process_memory() -> int:
    """Return the memory that this process may have [bytes]: the machine's, the container's or its own limit."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    own, _ = resource.getrlimit(resource.RLIMIT_AS)
    if own != resource.RLIM_INFINITY:
        limits.append(own)
    try:
        limits.append(int(_CGROUP.read_text(encoding="ascii")))
    except (OSError, ValueError):
        pass  # no container, or one without a limit ("max")
    return min(limits)


class BagBudgetError(DataError):
    """A bag takes more than its budget."""


class BagBudget:
    """Bytes that one bag may still take; the environment variable DYNID_BAG_GIB replaces the limit.

    Args:
        path: of the bag, for messages.
        files: its data files, as they are on the disk.

    Raises:
        ConfigurationError: DYNID_BAG_GIB is no positive number.
    """

    def __init__(self, path: Path, files: Iterable[Path]) -> None:
        self.path, self.taken = path, 0
        self.packed = sum(file.stat().st_size for file in set(files))
        own = os.environ.get(VARIABLE)
        self.most = _own_limit(own) if own else self._usual_limit()

    def _usual_limit(self) -> int:
        return min(BASE_BYTES + TIMES_PACKED * self.packed, int(SHARE * process_memory()))

    def take(self, size: int) -> None:
        """Count bytes that are needed now.

        Raises:
            BagBudgetError: the bag takes more than its budget; names the figure and what raises it.
        """
        self.taken += size
        if self.taken > self.most:
            raise BagBudgetError(
                f"{self.path} of {self.packed} bytes takes more than {self.most / 2**20:.0f} MiB once unpacked: it is "
                f"larger than this machine reads, or made to fill it; if you trust it, set {VARIABLE} to the GiB that "
                "it may take"
            )

    def take_disk(self, size: int) -> None:
        """Count bytes of the temporary folder, which are of the same budget.

        Raises:
            BagBudgetError: the bag takes more than its budget, or than there is room.
        """
        self.take(size)
        free = shutil.disk_usage(tempfile.gettempdir()).free
        if size > free:
            raise BagBudgetError(
                f"{self.path} needs {size / 2**20:.0f} MiB in {tempfile.gettempdir()}, which has {free / 2**20:.0f}: "
                "free some space, or name another folder in TMPDIR"
            )


def _own_limit(text: str) -> int:
    try:
        limit = float(text) * GIB
    except ValueError:
        limit = -1.0
    if not 0.0 < limit < 2**60:
        raise ConfigurationError(f"{VARIABLE} is '{cut(text)}', expected a number of GiB above 0: correct or unset it")
    return int(limit)
