"""Rehearsal of a recorder: a bag of one message is written to import the recorder's modules."""

import tempfile
from pathlib import Path

from dynid.recording.bag_writer import BagWriter
from dynid.recording.messages import encode_string
from dynid.simulation.lockstep.simulated_bag import TOPICS


def rehearse_recording() -> None:
    """Write a bag of one message in each storage format (mcap, sqlite3) into a temporary folder, then remove it."""
    with tempfile.TemporaryDirectory(prefix="dynid-rehearsal-") as folder:
        for storage in ("mcap", "sqlite3"):
            writer = BagWriter(Path(folder) / storage, TOPICS, storage)
            writer.open()
            writer.write("/experiment", 1, encode_string("{}"))
            writer.close()
