"""Limit on the memory and disk that reading one bag may take, also as a protection against malicious bags.

Bytes are counted while the bag is unpacked, because the size that a compressed file states may be wrong.
"""

import os
import resource
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from dynid.errors import ConfigurationError, DataError, cut

VARIABLE = "DYNID_BAG_GIB"
BASE_BYTES, SIZE_FACTOR = 256 * 2**20, 100  # budget: base plus factor on file size; states at rest compress 60-fold
MEMORY_SHARE = 0.5  # largest budget, as a share of the memory that this process may use
_CGROUP = Path("/sys/fs/cgroup/memory.max")
GIB = 2**30


def process_memory() -> int:
    """Return the memory that this process may use [bytes]: the lowest limit of machine, container and process."""
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
    """Error for a bag that takes more memory or disk than its limit (`BagBudget`)."""


class BagBudget:
    """Limit on the bytes that reading one bag may take, memory and disk together, and a count of those taken so far.

    The default is 256 MiB plus 100 times the size of the bag's files, but at most half of the memory that this process
    may use. The environment variable DYNID_BAG_GIB replaces it [GiB].

    Args:
        path: path of the bag, for messages.
        files: the bag's data files on disk.

    Raises:
        ConfigurationError: DYNID_BAG_GIB is not a positive number.
    """

    def __init__(self, path: Path, files: Iterable[Path]) -> None:
        self.path, self.taken = path, 0
        self.packed = sum(file.stat().st_size for file in set(files))
        own = os.environ.get(VARIABLE)
        self.most = _own_limit(own) if own else self._usual_limit()

    def _usual_limit(self) -> int:
        return min(BASE_BYTES + SIZE_FACTOR * self.packed, int(MEMORY_SHARE * process_memory()))

    def take(self, size: int) -> None:
        """Count `size` more bytes of memory for reading the bag.

        Raises:
            BagBudgetError: the bag takes more than its limit; the message names the limit and how to raise it.
        """
        self.taken += size
        if self.taken > self.most:
            raise BagBudgetError(
                f"{self.path} of {self.packed} bytes takes more than {self.most / 2**20:.0f} MiB once unpacked: it is "
                f"larger than this machine reads, or made to fill it; if you trust it, set {VARIABLE} to the GiB that "
                "it may take"
            )

    def take_disk(self, size: int) -> None:
        """Count `size` more bytes in the temporary folder for reading the bag.

        Raises:
            BagBudgetError: the bag takes more than its limit, or more than the free space of the temporary folder.
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
