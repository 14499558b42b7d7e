"""dynid itself, by its Python interface and with default settings."""

from benchmarks.peers.exchange import Given


def identify(given: Given) -> None:
    """Identify from the bag, and write the result folder, which the judge loads."""
    import dynid

    place = (given.folder / "recording.txt").read_text(encoding="utf-8").splitlines()
    robot = dynid.load_robot(place[0])
    mapping = place[2] if len(place) > 2 and place[2] else None
    dynid.write_result(dynid.identify(robot, [place[1]], mapping=mapping), given.folder / "dynid")
