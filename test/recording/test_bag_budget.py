"""Memory budget of bags: kept for every compression and every stated size; real bags are read."""

import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import lz4.frame
import mcap.records
import numpy as np
import pytest
import yaml
import zstandard
from mcap.data_stream import RecordBuilder
from mcap.opcode import Opcode
from mcap.writer import MCAP0_MAGIC, CompressionType, Writer

from dynid.errors import ConfigurationError, DataError
from dynid.recording import bag_budget
from dynid.recording.bag_budget import VARIABLE, BagBudget, process_memory
from dynid.recording.bag_metadata import metadata_text, write_metadata
from dynid.recording.bag_reader import read_bag
from dynid.recording.unpack import unpacked_chunk

MIB = 2**20
STRING = "std_msgs/msg/String"
QOS = "[" * 60_000


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> int:
    """Bags of some bytes may take 8 MiB."""
    monkeypatch.setattr(bag_budget, "BASE_BYTES", 8 * MIB)
    return 8 * MIB


def chunk(content: bytes, compression: str, stated: int | None = None) -> mcap.records.Chunk:
    packers = {"zstd": zstandard.compress, "lz4": lz4.frame.compress, "lz4 unsized": unsized_lz4, "": bytes}
    packers["zstd unsized"] = unsized_zstd
    size = len(content) if stated is None else stated
    return mcap.records.Chunk(
        compression.split()[0] if compression else "", packers[compression](content), 0, 0, 0, size
    )


def unsized_zstd(content: bytes) -> bytes:
    packer = zstandard.ZstdCompressor().compressobj()
    return packer.compress(content) + packer.flush()


def unsized_lz4(content: bytes) -> bytes:
    return bytes(lz4.frame.compress(content, store_size=False))


def budget(tmp_path: Path) -> BagBudget:
    (tmp_path / "x").write_bytes(b"")
    return BagBudget(tmp_path / "x", [tmp_path / "x"])


PACKED = ["zstd", "zstd unsized", "lz4", "lz4 unsized"]


@pytest.mark.parametrize("compression", ["", *PACKED])
def test_chunk_is_unpacked_to_the_size_that_it_states(tmp_path: Path, compression: str) -> None:
    content = np.random.default_rng(0).bytes(50_000) + bytes(50_000)
    found = budget(tmp_path)
    assert bytes(unpacked_chunk(chunk(content, compression), found)) == content
    assert found.taken == (100_000 if compression else 0)
    for stated in (99_999, 100_001, 0):
        with pytest.raises(DataError, match="another size than the"):
            unpacked_chunk(chunk(content, compression, stated), found)


@pytest.mark.parametrize("compression", PACKED)
def test_chunk_that_expands_hugely_is_not_unpacked(tmp_path: Path, compression: str) -> None:
    huge = bytes(100 * MIB)
    with pytest.raises(DataError, match="expected at most"):
        unpacked_chunk(chunk(huge, compression), budget(tmp_path))
    with pytest.raises(DataError, match="another size than the 1000 bytes that it states"):
        unpacked_chunk(chunk(huge, compression, 1000), budget(tmp_path))


def test_chunk_that_is_damaged_or_unknown_is_refused(tmp_path: Path) -> None:
    wrong = chunk(b"abc", "zstd")
    wrong.uncompressed_crc = 7
    with pytest.raises(DataError, match="checksum"):
        unpacked_chunk(wrong, budget(tmp_path))
    with pytest.raises(DataError, match="compressed by 'xz'"):
        unpacked_chunk(mcap.records.Chunk("xz", b"", 0, 0, 0, 0), budget(tmp_path))


def mcap_of_chunks(path: Path, count: int, size: int) -> Path:
    """A file of chunks of one message each, whose payload is zeros."""
    with path.open("wb") as stream:
        writer = Writer(stream, chunk_size=1000, compression=CompressionType.ZSTD)
        writer.start("ros2")
        channel = writer.register_channel("/a", "cdr", writer.register_schema(STRING, "ros2msg", b""))
        for stamp in range(count):
            writer.add_message(channel, stamp, bytes(size), stamp)
        writer.finish()
    return path


def test_expanding_chunks_share_one_memory_budget(tmp_path: Path, small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    good = mcap_of_chunks(tmp_path / "good.mcap", 2, MIB)
    assert len(read_bag(good)["/a"].messages) == 2
    path = mcap_of_chunks(tmp_path / "x.mcap", 20, MIB)
    with pytest.raises(DataError, match=rf"takes more than 8 MiB .* set {VARIABLE} to the GiB"):
        read_bag(path)
    monkeypatch.setenv(VARIABLE, "0.1")
    assert len(read_bag(path)["/a"].messages) == 20
    for text in ("0", "-1", "nan", "much", "1e300"):
        monkeypatch.setenv(VARIABLE, text)
        with pytest.raises(ConfigurationError, match=f"{VARIABLE} is '{text}'"):
            read_bag(good)


def test_budget_grows_with_the_file_up_to_half_of_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x"
    path.write_bytes(bytes(1000))
    assert BagBudget(path, [path, path]).most == bag_budget.BASE_BYTES + 100_000
    monkeypatch.setattr(bag_budget, "process_memory", lambda: 1000)
    assert BagBudget(path, [path]).most == 500
    assert 2**28 < process_memory() < 2**50


def packed_bag(folder: Path, storage: str, mode: str, size: int = 100) -> Path:
    """A bag of three messages of zeros, compressed as rosbag2 does."""
    from dynid.recording.bag_writer import BagWriter, Topic

    writer = BagWriter(folder, [Topic("/a", STRING, "latched", 7)], storage)  # type: ignore[arg-type]
    writer.open()
    for stamp in range(3):
        raw = bytes(size)
        writer.write("/a", stamp, zstandard.compress(raw) if mode == "message" else raw)
    writer.close()
    text = yaml.safe_load((folder / "metadata.yaml").read_text())
    information = text["rosbag2_bagfile_information"]
    information |= {"compression_mode": mode.upper(), "compression_format": "zstd"}
    if mode == "file":
        (name,) = information["relative_file_paths"]
        (folder / f"{name}.zstd").write_bytes(unsized_zstd((folder / name).read_bytes()))
        (folder / name).unlink()
        information["relative_file_paths"] = [f"{name}.zstd"]
    (folder / "metadata.yaml").write_text(yaml.safe_dump(text))
    return folder


@pytest.mark.parametrize("storage", ["mcap", "sqlite3"])
@pytest.mark.parametrize("mode", ["file", "message"])
def test_compressed_bag_is_read_within_its_budget(
    tmp_path: Path, small: int, storage: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    bag = read_bag(packed_bag(tmp_path / "good", storage, mode))
    assert [bytes(raw) for raw in bag["/a"].messages] == [bytes(100)] * 3 and not bag.findings
    assert (bag["/a"].qos, bag["/a"].depth, bag["/a"].message_type) == ("latched", 7, STRING)
    huge = packed_bag(tmp_path / "huge", storage, mode, 4 * MIB)
    packed = sum(one.stat().st_size for one in huge.iterdir() if one.name != "metadata.yaml")
    most = (small + bag_budget.SIZE_FACTOR * packed) / MIB
    with pytest.raises(DataError, match=rf"of {packed} bytes takes more than {most:.0f} MiB"):
        read_bag(huge)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["good", "huge"]


@pytest.mark.parametrize("change", [{"compression_format": "xz"}, {"compression_mode": "half"}])
def test_other_compression_is_refused_by_name(tmp_path: Path, change: dict[str, str]) -> None:
    folder = packed_bag(tmp_path / "bag", "mcap", "message")
    text = yaml.safe_load((folder / "metadata.yaml").read_text())
    text["rosbag2_bagfile_information"] |= change
    (folder / "metadata.yaml").write_text(yaml.safe_dump(text))
    with pytest.raises(DataError, match=f"'{next(iter(change.values()))}'"):
        read_bag(folder)


def test_damaged_compression_is_one_sentence(tmp_path: Path) -> None:
    folder = packed_bag(tmp_path / "bag", "mcap", "file")
    (file,) = folder.glob("*.zstd")
    file.write_bytes(b"no zstd")
    with pytest.raises(DataError, match="not a zstd file"):
        read_bag(folder)


def mcap_with(path: Path, records: Iterator[bytes]) -> Path:
    path.write_bytes(MCAP0_MAGIC + b"".join(records))
    return path


def channel_record(identifier: int, qos: str) -> bytes:
    builder = RecordBuilder()
    mcap.records.Channel(
        id=identifier,
        schema_id=0,
        topic=f"/{identifier}",
        message_encoding="cdr",
        metadata={"offered_qos_profiles": qos},
    ).write(builder)
    return builder.end()


def sqlite_with(path: Path, qos: str) -> Path:
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE topics(id, name, type, serialization_format, offered_qos_profiles)")
        database.execute("CREATE TABLE messages(id, topic_id, timestamp, data)")
        database.execute("INSERT INTO topics VALUES (1, '/a', ?, 'cdr', ?)", (STRING, qos))
        database.commit()
    return path


def test_nested_quality_of_service_is_refused_not_followed(tmp_path: Path) -> None:
    """The C loader follows brackets into its stack: 60 kB of them ended the process."""
    for path in (mcap_with(tmp_path / "x.mcap", iter([channel_record(1, QOS)])), sqlite_with(tmp_path / "x.db3", QOS)):
        with pytest.raises(DataError, match="quality of service in its bag: DataError: its text is nested 51 deep"):
            read_bag(path)
    assert read_bag(mcap_with(tmp_path / "y.mcap", iter([channel_record(1, "")])))["/1"].depth == 10
    assert read_bag(sqlite_with(tmp_path / "y.db3", "[]"))["/a"].qos == "reliable"


@pytest.mark.parametrize("text", [QOS, "rosbag2_bagfile_information: " + QOS, "a: &a [*a, " + "*a, " * 200 + "]"])
def test_nested_metadata_is_refused_not_followed(tmp_path: Path, text: str) -> None:
    (tmp_path / "metadata.yaml").write_text(text)
    with pytest.raises(DataError, match="expected at most 50 levels"):
        read_bag(tmp_path)


def test_metadata_that_names_a_file_twice_is_refused(tmp_path: Path) -> None:
    text = metadata_text("mcap", "x.mcap", [], {}, None, provisional=False)
    write_metadata(tmp_path, text.replace("- x.mcap", "- x.mcap\n- x.mcap"))
    mcap_of_chunks(tmp_path / "x.mcap", 1, 10)
    with pytest.raises(DataError, match="one of them twice"):
        read_bag(tmp_path)
    write_metadata(tmp_path, text)
    assert len(read_bag(tmp_path)["/a"].messages) == 1


def test_metadata_of_a_long_recording_is_read(tmp_path: Path) -> None:
    names = [f"bag_{k}.mcap" for k in range(2000)]
    text = metadata_text("mcap", names[0], [], {}, None, provisional=False)
    content: dict[str, Any] = yaml.safe_load(text)
    content |= {"relative_file_paths": names, "files": [{"path": name, "message_count": 7} for name in names]}
    write_metadata(tmp_path, yaml.safe_dump(content))
    with pytest.raises(DataError, match=r"lacks the data file bag_0\.mcap"):
        read_bag(tmp_path)


def test_channels_without_end_are_refused(tmp_path: Path) -> None:
    few = (channel_record(k, "") for k in range(200))
    assert len(read_bag(mcap_with(tmp_path / "few.mcap", few)).topics) == 200
    again = (channel_record(1, "") for _ in range(20_000))  # as in every chunk of some recorders
    assert list(read_bag(mcap_with(tmp_path / "again.mcap", again)).topics) == ["/1"]
    with pytest.raises(DataError, match="more than 10000 channels"):
        read_bag(mcap_with(tmp_path / "x.mcap", (channel_record(k, "") for k in range(10_001))))


def test_unused_records_between_messages_are_skipped(tmp_path: Path) -> None:
    """One by one in Python, a million of them took a minute."""
    message = bytes([Opcode.MESSAGE]) + (22 + 4).to_bytes(8, "little")
    message += (1).to_bytes(2, "little") + bytes(4) + (5).to_bytes(8, "little") * 2 + b"\0\1\0\0"
    other = bytes([Opcode.STATISTICS]) + (3).to_bytes(8, "little") + b"xyz"
    path = mcap_with(tmp_path / "x.mcap", iter([channel_record(1, ""), *[other, message] * 3000, other, b"\x05\xff"]))
    bag = read_bag(path)
    assert len(bag["/1"].messages) == 3000 and bag["/1"].messages[0] == b"\0\1\0\0"
    assert "2 bytes of an unfinished record" in bag.findings[0]


def test_a_table_with_computed_columns_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.db3"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE topics(id, name, type, serialization_format, offered_qos_profiles)")
        database.execute("CREATE TABLE messages(topic_id, timestamp, data AS (zeroblob(900000000)))")
        database.execute("INSERT INTO messages VALUES (1, 1)")
        database.commit()
    with pytest.raises(DataError, match="computes columns of its table 'messages'"):
        read_bag(path)
