"""Sqlite3 files of bags: with a write-ahead log, with messages of unknown topics, or larger than they look."""

import os
import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from benchmarks.hostile.files import growing_topics

from dynid.errors import DataError
from dynid.recording import bag_budget
from dynid.recording.bag_reader import read_bag
from dynid.recording.bag_repair import repair_bag
from dynid.recording.bag_storage import SqliteFile
from dynid.recording.bag_writer import BagWriter, Topic
from dynid.recording.messages import STRING, encode_string

RAW = encode_string("x" * 100)


def logged_bag(folder: Path) -> Path:
    """A bag as a killed recorder leaves it in WAL mode: 500 messages in the database, and 500 only in its log."""
    source = folder / "source"
    source.mkdir(parents=True)
    with closing(sqlite3.connect(source / "bag_0.db3")) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.executescript(SqliteFile.TABLES)
        database.execute("INSERT INTO topics VALUES (1, '/a', ?, 'cdr', '', '')", (STRING,))
        for first in (0, 500):
            rows = [(1, first + k, RAW) for k in range(500)]
            database.executemany("INSERT INTO messages (topic_id, timestamp, data) VALUES (?, ?, ?)", rows)
            database.commit()
            if not first:
                database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        shutil.copytree(source, folder / "bag")
    shutil.rmtree(source)
    return folder / "bag"


def contents(folder: Path) -> dict[str, bytes]:
    return {one.name: one.read_bytes() for one in folder.iterdir()}


def test_messages_of_a_write_ahead_log_are_read_and_repaired_into_the_database(tmp_path: Path) -> None:
    bag = logged_bag(tmp_path)
    before = contents(bag)
    found = read_bag(bag)
    assert found["/a"].messages.log_ns.tolist() == list(range(1000))
    said = "bag_0.db3 was not closed: the messages in bag_0.db3-wal were read as well"
    assert said in found.findings
    assert contents(bag) == before, "reading changed the bag"
    assert read_bag(bag / "bag_0.db3").counts == {"/a": 1000}
    repaired = repair_bag(bag)
    assert repaired.actions == ("bag_0.db3 completed from its write-ahead log", "metadata.yaml written")
    assert sorted(os.listdir(bag)) == ["bag_0.db3", "metadata.yaml"] and repaired.counts == {"/a": 1000}
    assert read_bag(bag).findings == () and repair_bag(bag).actions == ()


def test_log_beside_the_file_that_a_link_names_is_read(tmp_path: Path) -> None:
    bag = logged_bag(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    (other / "x.db3").symlink_to(bag / "bag_0.db3")
    assert read_bag(other).counts == {"/a": 1000}
    before = contents(bag)
    with pytest.raises(DataError, match=r"x\.db3 is a link to .*bag_0\.db3, which a repair would change"):
        repair_bag(other)
    assert contents(bag) == before


@pytest.mark.parametrize("end", ["-wal", "-shm", "-journal"])
def test_link_in_place_of_a_log_is_not_followed(tmp_path: Path, end: str) -> None:
    bag = logged_bag(tmp_path)
    victim = tmp_path / "victim"
    shutil.copy(bag / "bag_0.db3-wal", victim)
    before = victim.read_bytes()
    (bag / f"bag_0.db3{end}").unlink(missing_ok=True)
    (bag / f"bag_0.db3{end}").symlink_to(victim)
    for use in (read_bag, repair_bag):
        with pytest.raises(DataError, match=f"bag_0.db3{end} is a link or a folder, expected a file"):
            use(bag)
    assert victim.read_bytes() == before
    (bag / f"bag_0.db3{end}").unlink()
    os.mkfifo(bag / f"bag_0.db3{end}")
    with pytest.raises(DataError, match="expected a file"):
        read_bag(bag)


def test_write_ahead_log_is_charged_to_the_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bag = logged_bag(tmp_path)
    sizes = sum(file.stat().st_size for file in bag.iterdir() if not file.name.endswith("-shm"))
    for most, enough in ((sizes - 1, False), (sizes + 1000 * 400, True)):
        monkeypatch.setattr(bag_budget, "BASE_BYTES", most)
        monkeypatch.setattr(bag_budget, "SIZE_FACTOR", 0)
        if enough:
            assert read_bag(bag).counts == {"/a": 1000}
        else:
            with pytest.raises(DataError, match="takes more than"):
                read_bag(bag)


def test_bag_that_another_program_still_writes_is_not_repaired(tmp_path: Path) -> None:
    bag = logged_bag(tmp_path)
    with closing(sqlite3.connect(bag / "bag_0.db3", isolation_level=None)) as database:
        database.execute("BEGIN IMMEDIATE")
        database.execute("INSERT INTO messages (topic_id, timestamp, data) VALUES (1, 1000, ?)", (RAW,))
        with pytest.raises(DataError, match=r"bag_0\.db3"):
            repair_bag(bag)
        database.execute("COMMIT")
    assert read_bag(bag).counts == {"/a": 1001} and not (bag / "metadata.yaml").exists()


def test_topics_that_are_larger_than_their_file_are_refused(tmp_path: Path) -> None:
    """They were read before anything was charged to the budget: 300 kB of them took 3 GiB."""
    arguments = growing_topics(tmp_path, tmp_path / "victim", random.Random(0))
    with pytest.raises(DataError, match=r"x\.db3 holds more data than its size allows: \d+ bytes, expected at"):
        read_bag(arguments[-1])


def test_topics_are_charged_to_the_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bag = logged_bag(tmp_path)
    repair_bag(bag)
    with closing(sqlite3.connect(bag / "bag_0.db3")) as database:
        database.execute("DELETE FROM messages")
        database.execute("UPDATE topics SET offered_qos_profiles = ?", (" " * 100_000,))
        database.commit()
    (bag / "metadata.yaml").unlink()
    assert read_bag(bag).counts == {"/a": 0}
    monkeypatch.setattr(bag_budget, "BASE_BYTES", 150_000)
    monkeypatch.setattr(bag_budget, "SIZE_FACTOR", 0)
    with pytest.raises(DataError, match="takes more than"):
        read_bag(bag)


def test_messages_of_topics_that_a_database_does_not_describe_are_counted(tmp_path: Path) -> None:
    bag = logged_bag(tmp_path)
    repair_bag(bag)
    with closing(sqlite3.connect(bag / "bag_0.db3")) as database:
        database.execute("UPDATE messages SET topic_id = 7 WHERE timestamp < 200")
        database.commit()
    found = read_bag(bag)
    assert found.counts == {"/a": 800}
    assert found.findings == (
        "bag_0.db3 has 200 messages of channels that it does not describe, which were ignored",
        "metadata.yaml states 1000 messages, but 800 were read: messages or whole files are missing, or the file is of "
        "another bag",
    )


@pytest.mark.parametrize(("stated", "found"), [("1001", True), ("999", True), ("1000", False), ("x", False)])
def test_number_of_messages_that_metadata_states_is_compared(tmp_path: Path, stated: str, found: bool) -> None:
    bag = logged_bag(tmp_path)
    repair_bag(bag)
    text = (bag / "metadata.yaml").read_text()
    (bag / "metadata.yaml").write_text(text.replace("message_count: 1000", f"message_count: {stated}"))
    said = read_bag(bag).findings
    assert bool(said) == found
    assert not found or said[0].startswith(f"metadata.yaml states {stated} messages, but 1000 were read")


def test_files_of_another_storage_are_named(tmp_path: Path) -> None:
    bag = logged_bag(tmp_path)
    repair_bag(bag)
    writer = BagWriter(tmp_path / "other", [Topic("/b", STRING)])
    writer.open()
    writer.close()
    shutil.copy(tmp_path / "other" / "other.mcap", bag)
    assert read_bag(bag).findings == ()
    (bag / "metadata.yaml").unlink()
    assert read_bag(bag).findings == (
        "metadata.yaml is missing",
        "bag_0.db3 ignored: without metadata.yaml, a bag has files of one storage",
    )
