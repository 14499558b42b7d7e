"""The `dynid` command, also as `python -m dynid`."""

import sys


def main() -> None:
    """Run the command; an interrupt while it is still being loaded ends it as any other does."""
    try:
        from dynid.cli import main as run

        run()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
