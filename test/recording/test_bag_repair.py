"""Repair of bags of other recorders: nothing is lost, and a repair that cannot be finished changes nothing."""

import os
import shutil
from pathlib import Path

import pytest
from mcap.reader import make_reader
from mcap.writer import CompressionType, Writer

from dynid.errors import BagWriteError, DataError, DynidError
from dynid.recording import bag_repair
from dynid.recording.bag_metadata import METADATA_NAME
from dynid.recording.bag_reader import read_bag
from dynid.recording.bag_repair import repair_bag
from dynid.recording.bag_writer import BagWriter, Topic
from dynid.recording.messages import STRING, encode_string

CUSTOM = "my_msgs/msg/Force"


def foreign_bag(folder: Path, compression: CompressionType, share: float = 0.7) -> Path:
    """A cut file with a custom type, publish times of their own, an attachment and metadata; the bag's folder."""
    folder.mkdir()
    path = folder / "run_0.mcap"
    with path.open("wb") as stream:
        writer = Writer(stream, compression=compression, chunk_size=500)
        writer.start("ros2", "another recorder")
        writer.add_attachment(3, 4, "photo.jpg", "image/jpeg", b"photo")
        writer.add_metadata("operator", {"name": "A"})
        schema = writer.register_schema(CUSTOM, "ros2msg", b"float64 x\n")
        channel = writer.register_channel("/force", "cdr", schema, {"topic_type_hash": "RIHS01_ab"})
        for k in range(200):
            writer.add_message(channel, 10 * k, b"\0\1\0\0" + os.urandom(8), 10 * k - 7 if k else 0, sequence=k)
        writer.finish()
    os.truncate(path, int(path.stat().st_size * share))
    return folder


@pytest.mark.parametrize("compression", list(CompressionType), ids=lambda one: one.name)
def test_repair_keeps_what_dynid_does_not_know(tmp_path: Path, compression: CompressionType) -> None:
    bag = foreign_bag(tmp_path / "bag", compression)
    before = read_bag(bag)
    messages = list(before["/force"].messages)
    repaired = repair_bag(bag)
    assert repaired.counts == {"/force": len(messages)} and 20 < len(messages) < 200
    after = read_bag(bag)
    assert after.findings == () and list(after["/force"].messages) == messages
    with (bag / "run_0.mcap").open("rb") as stream:
        reader = make_reader(stream)
        assert (reader.get_header().profile, reader.get_header().library) == ("ros2", "another recorder")
        found = list(reader.iter_messages())
        (attachment,), metadata = reader.iter_attachments(), {one.name: one.metadata for one in reader.iter_metadata()}
    assert [(one.publish_time, one.log_time, one.sequence) for _, _, one in found] == [
        (10 * k - 7 if k else 0, 10 * k, k) for k in range(len(messages))
    ]
    schema, channel, _ = found[0]
    assert schema is not None and (schema.name, schema.encoding, schema.data) == (CUSTOM, "ros2msg", b"float64 x\n")
    assert channel.metadata == {"topic_type_hash": "RIHS01_ab"}
    assert (attachment.create_time, attachment.log_time, attachment.name, attachment.data) == (
        3,
        4,
        "photo.jpg",
        b"photo",
    )
    assert metadata["operator"] == {"name": "A"} and "message_count" in metadata["rosbag2"]["serialized_metadata"]


def split_bag(folder: Path) -> Path:
    """A bag of two files, the second of which is cut, without metadata.yaml."""
    folder.mkdir()
    for number in range(2):
        writer = BagWriter(folder.parent / f"part{number}", [Topic("/a", STRING)])
        writer.open()
        for k in range(200):
            writer.write("/a", 1000 * number + k, encode_string("x" * 50))
        writer.close()
        shutil.copy(folder.parent / f"part{number}" / f"part{number}.mcap", folder / f"split_{number}.mcap")
    os.truncate(folder / "split_1.mcap", (folder / "split_1.mcap").stat().st_size - 400)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {one.name: one.read_bytes() for one in folder.iterdir()}


def test_split_bag_that_cannot_be_finished_is_not_changed(tmp_path: Path) -> None:
    bag = split_bag(tmp_path / "split")
    before = contents(bag)
    with pytest.raises(DataError, match=r"split into 2 files .* nothing was changed: .* 'ros2 bag reindex .*split'"):
        repair_bag(bag)
    assert contents(bag) == before


def test_one_occupied_backup_name_leaves_all_files_unchanged(tmp_path: Path) -> None:
    bag = split_bag(tmp_path / "split")
    os.truncate(bag / "split_0.mcap", (bag / "split_0.mcap").stat().st_size - 400)
    text = (tmp_path / "part0" / METADATA_NAME).read_text().replace("- part0.mcap", "- split_0.mcap\n  - split_1.mcap")
    (bag / METADATA_NAME).write_text(text)
    (bag / "split_1.mcap.damaged").write_text("taken")
    before = contents(bag)
    with pytest.raises(DynidError, match=r"split_1\.mcap\.damaged exists"):
        repair_bag(bag)
    assert contents(bag) == before
    (bag / "split_1.mcap.damaged").unlink()
    assert len(repair_bag(bag).actions) == 2


@pytest.mark.parametrize("links", [True, False], ids=["links", "no links"])
@pytest.mark.parametrize("step", ["copy_mcap", "exchange"])
def test_repair_that_fails_names_the_bag_and_keeps_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, links: bool
) -> None:
    bag = foreign_bag(tmp_path / "bag", CompressionType.NONE)
    before = contents(bag)

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device", ".repair.abc/run_0.mcap")

    if not links:
        monkeypatch.setattr(os, "link", fail)
    with monkeypatch.context() as changed:
        if step == "copy_mcap":
            changed.setattr(bag_repair, "copy_mcap", fail)
        elif links:
            changed.setattr(os, "replace", fail)
        else:
            changed.setattr(bag_repair, "take_name", fail)
        with pytest.raises(BagWriteError) as caught:
            repair_bag(bag)
    assert str(caught.value).startswith(f"the bag {bag} cannot be repaired: run_0.mcap: No space left on device")
    assert contents(bag) == before
    assert repair_bag(bag).actions[-1] == "metadata.yaml written"
    assert (bag / "run_0.mcap.damaged").read_bytes() == before["run_0.mcap"] and not read_bag(bag).findings


def test_repair_that_was_interrupted_is_finished_by_the_next(tmp_path: Path) -> None:
    bag = foreign_bag(tmp_path / "bag", CompressionType.NONE)
    before = contents(bag)
    os.link(bag / "run_0.mcap", bag / "run_0.mcap.damaged")  # as a kill between both steps leaves it
    assert len(repair_bag(bag).actions) == 2
    assert (bag / "run_0.mcap.damaged").read_bytes() == before["run_0.mcap"]
