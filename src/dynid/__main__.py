"""Entry point of the `dynid` command, also as `python -m dynid`."""

import atexit
import gc
import importlib
import sys

# Garbage-collection thresholds: with the defaults, collections during imports take a tenth of a short command's time.
COLLECT_EVERY = 500_000, 20, 20


def main() -> None:
    """Run the `dynid` command."""
    start("dynid.cli")


def start(module: str) -> None:
    """Import the module with this name and run its function `main`; Ctrl-C exits with code 130, also during import."""
    try:
        gc.set_threshold(*COLLECT_EVERY)
        atexit.register(gc.freeze)  # skips the last collection, which takes a quarter of a second
        importlib.import_module(module).main()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
