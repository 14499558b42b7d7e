"""Import of pinocchio, whose wheel needs a library that minimal systems lack."""

import re

from dynid.errors import MissingLibraryError


def missing_library(error: ImportError) -> ImportError:
    """Return an error with one sentence about a missing system library, or `error` itself if it has another cause."""
    found = re.match(r"(\S+\.so\S*): cannot open shared object file", str(error))
    if found is None:
        return error
    return MissingLibraryError(
        f"pinocchio needs the system library {found[1]}, which is not installed: install the package that contains it"
        " (on Debian and Ubuntu, libgomp.so.1 is in libgomp1: apt install libgomp1)"
    )


try:
    import pinocchio as pinocchio
except ImportError as error:
    raise missing_library(error) from error
