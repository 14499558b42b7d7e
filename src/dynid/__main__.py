"""The `dynid` command, also as `python -m dynid`."""

import atexit
import gc
import importlib
import sys

# While modules load, the default looks through all objects again and again: a tenth of what a short command takes.
COLLECT_EVERY = 500_000, 20, 20


def main() -> None:
    """Run the command."""
    start("dynid.cli")


def start(module: str) -> None:
    """Run `main` of a module; an interrupt while it is still being loaded ends it as any other does."""
    try:
        gc.set_threshold(*COLLECT_EVERY)
        atexit.register(gc.freeze)  # what is left goes with the process; looking through it takes a quarter of a second
        importlib.import_module(module).main()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
