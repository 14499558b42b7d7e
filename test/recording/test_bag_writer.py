"""Bags read by rosbags' own reader, also after the recorder was killed."""

import errno
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from child import Child
from mcap.reader import make_reader
from mcap.writer import CompressionType
from mcap.writer import Writer as McapWriter
from rosbags.interfaces import QosDurability, QosReliability
from rosbags.rosbag2 import Reader, StoragePlugin, Writer

from dynid.errors import (
    BagWriteError,
    ConfigurationError,
    DataError,
    OutputExistsError,
    OutputWriteError,
    UnknownNameError,
)
from dynid.recording import mcap_reader
from dynid.recording.bag_reader import read_bag
from dynid.recording.bag_repair import repair_bag
from dynid.recording.bag_writer import BagWriter, Topic
from dynid.recording.driver_recording import load_driver_recording
from dynid.recording.messages import JOINT_STATE, STRING, JointStateEncoder, encode_string, type_store

STATES = Topic("/joint_states", JOINT_STATE)
NOTES = Topic("/notes", STRING, "latched", 1)
FIELDS = ("position", "velocity", "effort")
RAW = JointStateEncoder(["a", "b"]).encode(5, position=[1, 2], velocity=[3, 4], effort=[5, 6])

RECORDER = """
import signal, sys
from dynid.recording.bag_writer import BagWriter, Topic
from dynid.recording.messages import JOINT_STATE, JointStateEncoder
raw = JointStateEncoder([f"joint_{k}" for k in range(40)], fields=["effort"]).encode(1, effort=[0.0] * 40)
writer = BagWriter(sys.argv[1], [Topic("/joint_states", JOINT_STATE)], sys.argv[2], flush_interval_s=3600)
writer.open()
print(0, flush=True)
stamp = 0
while True:
    for _ in range(int(sys.argv[3])):
        stamp += 1
        writer.write("/joint_states", stamp, raw)
    if len(sys.argv) > 4:
        print("unflushed", flush=True)
        signal.pause()  # until it is killed
    writer.flush()
    print(stamp, flush=True)
"""


def kill_recorder(bag: Path, storage: str, messages: int, lines: int, *more: str) -> str:
    """Run a recorder, kill it after it printed some lines; the last of them."""
    command = [sys.executable, "-c", RECORDER, str(bag), storage, str(messages), *more]
    with Child(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        last = [process.stdout.readline() for _ in range(lines)][-1]
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    return last.strip()


def test_rosbags_reads_the_written_bag(experiment, storage: str, tmp_path: Path) -> None:
    bag = experiment.write(tmp_path / "bag", storage)
    with Reader(bag) as reader:
        found: dict[str, list[tuple[int, bytes]]] = {}
        for connection, stamp, raw in reader.messages():
            found.setdefault(connection.topic.strip("/"), []).append((stamp, bytes(raw)))
        by_topic = {connection.topic: connection for connection in reader.connections}
    assert found == experiment.messages
    text, digest = by_topic["/joint_states"].msgdef.data, type_store().hash_rihs01(JOINT_STATE)
    assert "float64[] effort" in text and "MSG: std_msgs/Header" in text
    assert by_topic["/joint_states"].digest == digest
    latched = by_topic["/robot_description"].ext.offered_qos_profiles[0]
    assert (latched.durability, latched.reliability, latched.depth) == (
        QosDurability.TRANSIENT_LOCAL,
        QosReliability.RELIABLE,
        1,
    )
    assert by_topic["/joint_states"].ext.offered_qos_profiles[0].durability == QosDurability.VOLATILE
    information = yaml.safe_load((bag / "metadata.yaml").read_text())["rosbag2_bagfile_information"]
    assert information["version"] == 9 and information["storage_identifier"] == storage
    assert information["message_count"] == sum(map(len, experiment.messages.values()))


def test_wrong_use_of_the_writer_is_refused(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(OutputExistsError, match="there exists"):
        BagWriter(tmp_path / "there")
    with pytest.raises(ConfigurationError, match="unknown bag storage 'zip'; expected one of mcap, sqlite3"):
        BagWriter(tmp_path / "bag", storage="zip")  # type: ignore[arg-type]
    with pytest.raises(UnknownNameError, match="unknown message type 'std_msgs/msg/Strong'; known: std_msgs/msg/Bool"):
        BagWriter(tmp_path / "bag", [Topic("/x", "std_msgs/msg/Strong")])
    with pytest.raises(ConfigurationError, match="topic '/joint_states' is in the bag"):
        BagWriter(tmp_path / "bag", [STATES, STATES])
    assert not (tmp_path / "bag").exists()
    writer = BagWriter(tmp_path / "bag", [STATES])
    with pytest.raises(BagWriteError, match="is not open"):
        writer.write("/joint_states", 1, RAW)
    writer.open()
    with pytest.raises(UnknownNameError, match="unknown topic '/nothing'; known: /joint_states"):
        writer.write("/nothing", 1, RAW)
    with pytest.raises(BagWriteError, match="is open already"):
        writer.open()
    writer.close()
    writer.close()
    assert not writer.is_open and writer.counts == {"/joint_states": 0}
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputWriteError, match="nothing can be written below"):
        BagWriter(tmp_path / "file" / "bag").open()


def test_folder_that_appears_before_opening_stays(tmp_path: Path) -> None:
    writer = BagWriter(tmp_path / "bag")
    (tmp_path / "bag").mkdir()
    with pytest.raises(OutputExistsError):
        writer.open()
    assert list((tmp_path / "bag").iterdir()) == []


@pytest.mark.parametrize("interval_s", [0.0, 3600.0])
def test_the_writer_flushes_at_its_interval(storage: str, tmp_path: Path, interval_s: float) -> None:
    writer = BagWriter(tmp_path / "bag", [STATES, NOTES], storage, interval_s)  # type: ignore[arg-type]
    writer.open()
    try:
        for stamp in range(1, 30):
            writer.write("/joint_states", stamp, RAW)
        flushed = 29 if interval_s == 0 else 0
        seen = read_bag(tmp_path / "bag").counts
        assert seen == ({"/joint_states": flushed, "/notes": 0} if flushed or storage == "sqlite3" else {})
    finally:
        writer.close()


def test_topics_and_messages_added_between_flushes_are_complete(storage: str, tmp_path: Path) -> None:
    """Every chunk replaces the index of the flush before it, whatever their sizes."""
    writer = BagWriter(tmp_path / "bag", [STATES], storage)  # type: ignore[arg-type]
    writer.open()
    stamp = 0
    for size in (300, 1, 0, 2500, 1):
        for _ in range(size):
            stamp += 1
            writer.write("/joint_states", stamp, RAW)
        writer.flush()
        writer.flush()
    writer.add_topic(NOTES)
    writer.flush()
    writer.write("/notes", stamp + 1, encode_string("late"))
    writer.close()
    bag = read_bag(tmp_path / "bag")
    assert bag.counts == writer.counts == {"/joint_states": 2802, "/notes": 1} and bag.findings == ()
    with Reader(tmp_path / "bag") as reader:
        assert [stamp for _, stamp, _ in reader.messages()] == list(range(1, 2804))


def test_bulk_writing_gives_the_messages_of_single_writing(storage: str, tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    stamps = 10**18 + np.sort(random.integers(0, 3 * 10**9, 2000))
    values = dict.fromkeys(FIELDS, random.standard_normal((2000, 2)))
    states = JointStateEncoder(["a", "b"]).encode_many(stamps, **values)
    efforts = JointStateEncoder(["a"], fields=["effort"]).encode_many(stamps[:900], effort=np.ones((900, 1)))
    topics = [STATES, Topic("/joint_commands", JOINT_STATE), NOTES]
    batches = {"/joint_states": (stamps, states), "/joint_commands": (stamps[:900], efforts)}
    writer = BagWriter(tmp_path / "bulk", topics, storage)  # type: ignore[arg-type]
    writer.open()
    writer.write("/notes", 10**18 - 1, encode_string("first"))
    writer.write_many(batches)
    writer.write_many({"/joint_commands": (stamps[:0], efforts[:0])})
    writer.write("/notes", int(stamps[-1]) + 1, encode_string("last"))
    with pytest.raises(UnknownNameError, match="unknown topic '/x'"):
        writer.write_many({"/x": (stamps, states)})
    writer.close()
    found: dict[str, list[tuple[int, bytes]]] = {}
    with Reader(tmp_path / "bulk") as reader:
        assert reader.message_count == 2902 and reader.start_time == 10**18 - 1
        previous = 0
        for connection, stamp, raw in reader.messages():
            assert stamp >= previous
            previous = stamp
            found.setdefault(connection.topic, []).append((stamp, bytes(raw)))
    for topic, (times, rows) in batches.items():
        assert found[topic] == [(int(t), row.tobytes()) for t, row in zip(times, rows, strict=True)]
    assert writer.counts == read_bag(tmp_path / "bulk").counts


def test_bulk_writing_of_messages_made_slice_by_slice(storage: str, tmp_path: Path) -> None:
    stamps = 10**18 + 10**6 * np.arange(1500)
    encoder, values = JointStateEncoder(["a"], fields=["effort"]), np.arange(1500.0)[:, None]
    rows = encoder.encode_many(stamps, effort=values)
    found = []
    for name, content in (
        ("whole", rows),
        ("slices", lambda part: encoder.encode_many(stamps[part], effort=values[part])),
    ):
        (tmp_path / name).mkdir()
        writer = BagWriter(tmp_path / name / "bag", [STATES], storage)  # type: ignore[arg-type]
        writer.open()
        writer.write_many({"/joint_states": (stamps, content)})
        writer.close()
        found.append(read_bag(tmp_path / name / "bag").sha256())
    assert found[0] == found[1]


@pytest.mark.slow
def test_mcap_file_equals_that_of_the_rosbags_writer(tmp_path: Path) -> None:
    ours = BagWriter(tmp_path / "ours", [STATES, NOTES], flush_interval_s=3600)
    theirs = Writer(tmp_path / "theirs", version=9, storage_plugin=StoragePlugin.MCAP)
    ours.open()
    theirs.open()
    connections = {
        topic.name: theirs.add_connection(topic.name, topic.message_type, typestore=type_store())
        for topic in (STATES, NOTES)
    }
    for stamp in range(1, 16_000):  # several chunks; stamps of one topic go back
        late = ("/notes", 20_000 - stamp, encode_string(f"note {stamp}"))
        for topic, at, raw in ([late] if stamp % 7 == 0 else []) + [("/joint_states", stamp, RAW)]:
            ours.write(topic, at, raw)
            theirs.write(connections[topic], at, raw)
    ours.close()
    theirs.close()
    found = []
    for name in ("ours", "theirs"):
        with (tmp_path / name / f"{name}.mcap").open("rb") as stream:
            summary = make_reader(stream).get_summary()
            messages = [
                (schema.name, schema.encoding, schema.data, channel.topic, message.log_time, message.data)
                for schema, channel, message in make_reader(stream).iter_messages()
                if schema is not None
            ]
        assert summary is not None and summary.statistics is not None and len(summary.chunk_indexes) > 2
        statistics = summary.statistics
        found.append((statistics.message_count, statistics.message_start_time, statistics.message_end_time, messages))
    assert found[0] == found[1] and found[0][0] == len(found[0][3])
    bags = [read_bag(tmp_path / name) for name in ("ours", "theirs")]
    for name in ("/joint_states", "/notes"):
        one, other = (bag[name].messages for bag in bags)
        assert list(one) == list(other) and (one.log_ns == other.log_ns).all()


@pytest.mark.slow
@pytest.mark.parametrize("lines", [1, 4])
def test_killed_recorder_leaves_a_bag_that_opens(storage: str, tmp_path: Path, lines: int) -> None:
    bag = tmp_path / "bag"
    flushed = int(kill_recorder(bag, storage, 700, lines))
    files = {file.name: file.read_bytes() for file in bag.iterdir()}
    unrepaired = read_bag(bag)
    count = unrepaired.counts.get("/joint_states", 0)
    assert count >= flushed and count % 700 == 0
    assert any("provisional" in finding for finding in unrepaired.findings)
    assert any("truncated" in finding for finding in unrepaired.findings) == (storage == "mcap")
    assert {file.name: file.read_bytes() for file in bag.iterdir()} == files, "reading changed the bag"
    repaired = repair_bag(bag)
    assert repaired.counts.get("/joint_states", 0) == count and "metadata.yaml written" in repaired.actions
    assert read_bag(bag).findings == () and repair_bag(bag).actions == ()
    with Reader(bag) as reader:
        assert reader.message_count == count == len(list(reader.messages()))


@pytest.mark.slow
def test_the_mcap_reader_opens_the_repaired_bag_of_a_killed_recorder(tmp_path: Path) -> None:
    bag = tmp_path / "bag"
    flushed = int(kill_recorder(bag, "mcap", 700, 4))
    left = (bag / "bag.mcap").read_bytes()
    repair_bag(bag)
    with (bag / "bag.mcap").open("rb") as stream:
        messages = sum(1 for _ in make_reader(stream).iter_messages())
    assert messages == read_bag(bag).counts["/joint_states"] >= flushed > 0
    assert (bag / "bag.mcap.damaged").read_bytes() == left


@pytest.mark.parametrize("partly", [False, True], ids=["nothing written", "half written"])
def test_a_write_that_fails_loses_nothing_flushed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, partly: bool
) -> None:
    """Each write of a short recording fails once, the disk being full, and the recording goes on."""
    pwrite, number, failing = os.pwrite, 0, 0

    def put(descriptor: int, content: memoryview, position: int) -> int:
        nonlocal number
        number += 1
        if number != failing:
            return pwrite(descriptor, content, position)
        if partly:
            pwrite(descriptor, content[: len(content) // 2], position)
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(os, "pwrite", put)
    while number >= failing:  # until there is no such write any more
        failing, number = failing + 1, 0
        bag = tmp_path / f"bag{failing}"
        flushed = written = failures = 0
        writer = BagWriter(bag, [STATES], flush_interval_s=3600)
        try:
            writer.open()
        except BagWriteError:
            assert failing == 1  # of the magic bytes and the header
            continue
        for count in (0, 1, 300, 0, 700):
            for _ in range(count):
                written += 1
                writer.write("/joint_states", written, RAW)
            try:
                writer.flush()
                flushed = written
            except BagWriteError:
                failures += 1
            found = read_bag(bag)
            assert found.counts.get("/joint_states", 0) == flushed, f"write {failing}"
            assert any(" 0 bytes of an unfinished record" in finding for finding in found.findings)
        try:
            writer.close()
            assert read_bag(bag).findings == ()
            flushed = written
        except BagWriteError:
            failures += 1
        assert read_bag(bag).counts["/joint_states"] == flushed and failures <= 1, f"write {failing}"
    assert failing > 5


@pytest.mark.slow
def test_a_transaction_cut_off_by_a_kill_is_rolled_back(tmp_path: Path) -> None:
    """More than sqlite's cache holds: a part of the transaction is in the file, and must be rolled back."""
    bag = tmp_path / "bag"
    assert kill_recorder(bag, "sqlite3", 30_000, 2, "announce") == "unflushed"
    assert (bag / "bag.db3-journal").stat().st_size > 0
    files = {file.name: file.read_bytes() for file in bag.iterdir()}
    found = read_bag(bag)
    assert found.counts["/joint_states"] % 30_000 == 0
    assert any("unfinished transaction" in finding for finding in found.findings)
    assert {file.name: file.read_bytes() for file in bag.iterdir()} == files, "reading changed the bag"
    assert repair_bag(bag).actions == ("bag.db3 rolled back to its last commit", "metadata.yaml written")
    assert read_bag(bag).counts == found.counts and read_bag(bag).findings == ()


def test_an_mcap_cut_anywhere_is_read_up_to_the_cut(experiment, tmp_path: Path) -> None:
    bag = experiment.write(tmp_path / "bag")
    path = bag / "bag.mcap"
    whole = path.read_bytes()
    (bag / "metadata.yaml").unlink()
    complete = read_bag(bag)
    assert complete.findings == ("metadata.yaml is missing",)
    last = -1
    for end in [8, 20, *range(30, len(whole), len(whole) // 40), len(whole) - 1]:
        path.write_bytes(whole[:end])
        found = read_bag(bag)
        assert any("truncated" in finding for finding in found.findings)
        total = sum(found.counts.values())
        assert total >= last
        last = total
        for name, topic in found.topics.items():
            assert list(topic.messages) == list(complete[name].messages)[: len(topic.messages)]
    assert last == sum(complete.counts.values())


def test_repair_of_a_cut_mcap_restores_the_recording(experiment, tmp_path: Path) -> None:
    bag = experiment.write(tmp_path / "bag")
    path = bag / "bag.mcap"
    expected = load_driver_recording(bag)
    cut = path.read_bytes()[:-20]
    path.write_bytes(cut)
    assert any("truncated" in note for note in load_driver_recording(bag).notes)
    (bag / "bag.mcap.damaged").write_text("taken")
    with pytest.raises(OutputExistsError, match="damaged"):
        repair_bag(bag)
    assert path.read_bytes() == cut
    (bag / "bag.mcap.damaged").unlink()
    actions = repair_bag(bag).actions
    assert actions == ("bag.mcap rewritten with an index; the old file is bag.mcap.damaged",)
    assert (bag / "bag.mcap.damaged").read_bytes() == cut
    repaired = load_driver_recording(bag)
    assert repaired.notes == () and repaired.counts == expected.counts
    assert (repaired.q == expected.q).all() and repaired.experiments == expected.experiments
    with Reader(bag) as reader:
        latched = next(c for c in reader.connections if c.topic == "/robot_description")
        assert latched.ext.offered_qos_profiles[0].durability == QosDurability.TRANSIENT_LOCAL


def test_repair_refuses_open_and_foreign_bags(tmp_path: Path, storage: str) -> None:
    with pytest.raises(DataError, match="not a rosbag2 bag"):
        repair_bag(tmp_path)
    writer = BagWriter(tmp_path / "bag", [STATES], storage)  # type: ignore[arg-type]
    writer.open()
    writer.write("/joint_states", 1, RAW)
    writer.flush()
    with pytest.raises(DataError, match="still being recorded"):
        repair_bag(tmp_path / "bag")
    writer.close()
    assert repair_bag(tmp_path / "bag").actions == ()
    with pytest.raises(DataError, match="is a single file"):
        repair_bag(next((tmp_path / "bag").glob("bag.*")))


def test_a_full_disk_is_named_and_loses_nothing_written_before(storage: str, tmp_path: Path) -> None:
    writer = BagWriter(tmp_path / "bag", [STATES], storage)  # type: ignore[arg-type]
    writer.open()
    writer.write("/joint_states", 1, RAW)
    writer.flush()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, hard))
    try:
        with pytest.raises(BagWriteError, match=r"cannot (flush|write)"):
            for stamp in range(2, 3000):
                writer.write("/joint_states", stamp, RAW)
            writer.flush()
        kept = read_bag(tmp_path / "bag")
        assert kept.counts["/joint_states"] >= 1 and any(" 0 bytes of" in one for one in kept.findings) == (
            storage == "mcap"
        )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    writer.close()
    assert read_bag(tmp_path / "bag").counts["/joint_states"] >= kept.counts["/joint_states"]
    with Reader(tmp_path / "bag") as reader:
        assert len(list(reader.messages())) >= 1


def test_metadata_cannot_name_a_file_outside_the_bag(experiment, tmp_path: Path) -> None:
    bag = experiment.write(tmp_path / "bag")
    experiment.write(tmp_path / "other")
    text = (bag / "metadata.yaml").read_text()
    (bag / "metadata.yaml").write_text(text.replace("bag.mcap", "../other/other.mcap"))
    with pytest.raises(DataError, match=r"lacks the data file other\.mcap"):
        read_bag(bag)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("metadata.yaml", "- 1", "is not the metadata of a rosbag2 bag"),
        ("metadata.yaml", "a: [", "is not a valid YAML file"),
        ("bag.mcap", "hello, this is no mcap", "is not an MCAP file"),
        ("bag.mcap", "", "is not an MCAP file"),
    ],
)
def test_damaged_metadata_and_mcap_files_are_refused(
    experiment, tmp_path: Path, name: str, content: str, message: str
) -> None:
    bag = experiment.write(tmp_path / "bag")
    (bag / name).write_text(content)
    with pytest.raises(DataError, match=message):
        read_bag(bag)


@pytest.mark.parametrize("compression", list(CompressionType), ids=lambda one: one.name)
def test_compressed_files_of_other_recorders_are_read(tmp_path: Path, compression: CompressionType) -> None:
    """Compressed chunks with checksums are read; a wrong checksum or encoding is refused."""

    def written(encoding: str = "cdr", qos: str = "") -> Path:
        path = tmp_path / f"{encoding}{len(qos)}.mcap"
        with path.open("wb") as stream:
            writer = McapWriter(stream, compression=compression)
            writer.start("ros2")
            schema = writer.register_schema(JOINT_STATE, "ros2msg", b"")
            channel = writer.register_channel("/joint_states", encoding, schema, {"offered_qos_profiles": qos})
            for stamp in range(50):
                writer.add_message(channel, stamp, RAW, stamp)
            writer.finish()
        return path

    latched = "- {durability: 1, reliability: 1, depth: 3}"
    path = written(qos=latched)
    found = read_bag(path)["/joint_states"]
    assert list(found.messages) == [RAW] * 50 and (found.qos, found.depth) == ("latched", 3)
    assert read_bag(written(qos="- {durability: 2, reliability: 2, depth: 3}"))["/joint_states"].qos == "best_effort"
    whole = bytearray(path.read_bytes())
    whole[8 + 9 + int.from_bytes(whole[9:17], "little") + 9 + 24] ^= 1  # the chunk's checksum, behind the header
    path.write_bytes(whole)
    with pytest.raises(DataError, match=r"mcap is damaged"):
        read_bag(path)
    with pytest.raises(DataError, match="is encoded as 'json', expected 'cdr'"):
        read_bag(written("json"))
    for wrong in ("- {depth: 3}", "- 5", "["):
        with pytest.raises(DataError, match="'/joint_states' has no valid quality of service"):
            read_bag(written(qos=wrong))


def test_damaged_cache_of_compiled_code_is_not_called_a_damaged_bag(
    experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(*_: object) -> None:
        raise EOFError("Ran out of input")

    damaged.stats = mcap_reader.message_run.stats  # type: ignore[attr-defined]
    bag = experiment.write(tmp_path / "bag")
    mcap_reader._load_compiled.cache_clear()
    with monkeypatch.context() as changed:
        changed.setattr(mcap_reader, "message_run", damaged)
        with pytest.raises(ConfigurationError) as caught:
            read_bag(bag)
    folder, said = mcap_reader.message_run.stats.cache_path, str(caught.value)
    assert str(caught.value).startswith(
        f"the cache of compiled code in {folder} is damaged or cannot be read (EOFError"
    )
    assert said.endswith("delete that folder and try again")
    assert read_bag(bag).findings == ()


def test_a_damaged_sqlite_file_is_refused(experiment, tmp_path: Path) -> None:
    bag = experiment.write(tmp_path / "bag", "sqlite3")
    (bag / "bag.db3").write_text("no database, but long enough to be looked at")
    with pytest.raises(DataError, match=r"bag\.db3 is not a rosbag2 sqlite3 file"):
        read_bag(bag)


def test_single_files_and_split_bags_are_read(experiment, storage: str, tmp_path: Path) -> None:
    bag = experiment.write(tmp_path / "bag", storage)
    data = next(file for file in bag.iterdir() if file.suffix in (".mcap", ".db3"))
    expected = read_bag(bag)
    assert read_bag(data).counts == expected.counts
    second = bag / f"bag_1{data.suffix}"
    second.write_bytes(data.read_bytes())
    (bag / "metadata.yaml").unlink()
    both = read_bag(bag)
    assert both.counts == {name: 2 * count for name, count in expected.counts.items()}
    assert (both["/joint_states"].messages.log_ns[1:] >= both["/joint_states"].messages.log_ns[:-1]).all()
    before = {path.name: path.read_bytes() for path in bag.iterdir()}
    with pytest.raises(DataError, match="split into 2 files"):
        repair_bag(bag)
    assert {path.name: path.read_bytes() for path in bag.iterdir()} == before
