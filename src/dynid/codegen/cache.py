"""Location of the cache folder for generated modules.

This file does not import the code generator, which most processes do not need. If no folder is writable and owned by
the user, a temporary folder is used for this process only.
"""

import atexit
import os
import shutil
import tempfile
import warnings
from functools import lru_cache
from pathlib import Path

CACHE_VARIABLE = "DYNID_CACHE"
PRIVATE_PREFIX = "dynid-kernels-"


@lru_cache(maxsize=1)
def cache_folder() -> Path:
    """Return the cache folder of generated modules: $DYNID_CACHE, else $XDG_CACHE_HOME/dynid, else ~/.cache/dynid.

    If other users may write to the folder, or it cannot be used, the result is a temporary folder for this process.
    """
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    folder = Path(os.environ.get(CACHE_VARIABLE) or base / "dynid")
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        status = folder.stat()
        # the folder's modules are executed, so other users must not be able to write to it
        if status.st_uid == os.getuid() and not status.st_mode & 0o022 and os.access(folder, os.W_OK):
            return folder
        reason = "other users may write to it"
    except OSError as error:
        reason = str(error)
    private = Path(tempfile.mkdtemp(prefix=PRIVATE_PREFIX))
    atexit.register(shutil.rmtree, private, ignore_errors=True)
    warnings.warn(
        f"the kernel cache {folder} cannot be used ({reason}); this process compiles its kernels again. Set "
        f"{CACHE_VARIABLE} to a folder of your own",
        RuntimeWarning,
        stacklevel=2,
    )
    return private


def is_private(folder: Path) -> bool:
    """Return whether a cache folder is a temporary one for this process alone."""
    return folder.name.startswith(PRIVATE_PREFIX)
