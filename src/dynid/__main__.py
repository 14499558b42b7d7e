"""`python -m dynid` is the `dynid` command."""

from dynid.cli import main

main()
