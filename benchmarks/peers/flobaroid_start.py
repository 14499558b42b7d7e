"""Start of FloBaRoID's program in its own Python: `python flobaroid_start.py PROGRAM ARGUMENTS`.

FloBaRoID expects that a new `Vector6` of iDynTree, its base acceleration, is zero. In iDynTree 15.1.0 it has what was
in memory before. So this script zeroes it, and runs the program unchanged.
"""

import importlib
import runpy
import sys
from pathlib import Path
from typing import Any


def zeroed(made: Any) -> Any:
    """Return a function that makes a vector like iDynTree's class, but with zeros if it is called without values."""

    def vector(*values: Any) -> Any:
        found = made(*values)
        if not values:
            found.zero()
        return found

    for name in ("FromPython", "from_python"):
        if hasattr(made, name):
            setattr(vector, name, getattr(made, name))
    return vector


def main() -> None:
    """Run the program that the command line names."""
    bindings: Any = importlib.import_module("idyntree.bindings")

    bindings.Vector6 = zeroed(bindings.Vector6)
    program = Path(sys.argv[1]).resolve()
    sys.argv = [str(program), *sys.argv[2:]]
    sys.path[0] = str(program.parent)
    runpy.run_path(str(program), run_name="__main__")


if __name__ == "__main__":
    main()
