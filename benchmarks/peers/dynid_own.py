"""Peer dynid, by its Python interface and with default settings."""

from benchmarks.peers.exchange import Given


def identify(given: Given) -> None:
    """Identify from the bag, and write the result folder, which the judge loads."""
    from dynid.identification.methods import identify as run
    from dynid.reporting.result_writer import write_result
    from dynid.robot import load_robot

    place = (given.folder / "recording.txt").read_text(encoding="utf-8").splitlines()
    robot = load_robot(place[0])
    mapping = place[2] if len(place) > 2 and place[2] else None
    write_result(run(robot, [place[1]], mapping=mapping), given.folder / "dynid")
