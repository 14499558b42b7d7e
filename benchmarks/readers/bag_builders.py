"""Generators of bags of each storage and compression, and of LeRobot data sets, from valid and invalid parts."""

import gzip
import io
import sqlite3
import tempfile
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import yaml
import zstandard
from hypothesis import reject
from hypothesis import strategies as st
from mcap.writer import CompressionType, Writer
from pyarrow import parquet

from benchmarks.readers.builders import NUMBERS, WORDS, Built, Draw, documents, spoiled
from dynid.recording.bag_metadata import Topic, metadata_text
from dynid.recording.bag_storage import SqliteFile
from dynid.recording.messages import JOINT_STATE, STRING, JointStateEncoder, encode_string

STATES = 40
Message = tuple[str, int, bytes]
STAMPS = st.sampled_from([0, 1, 10**18, 2**63 - 1, -1])
QOS = st.one_of(
    st.just(yaml.safe_dump(Topic("/a", STRING).offered_qos())),
    st.sampled_from(["", "[]", "[" * 60_000, "{" * 5000, "- {depth: 1}", "&a [*a]", "x: " * 200]),
    documents(Topic("/a", STRING).offered_qos()).map(lambda data: data.decode(errors="replace")),
)


@st.composite
def messages(draw: Draw, names: tuple[str, ...]) -> dict[str, tuple[str, list[Message]]]:
    """Draw topics with type and messages: states of an arm, settings, and unexpected ones."""
    own = draw(st.one_of(st.just(names), st.permutations(names).map(tuple), st.lists(WORDS, max_size=4).map(tuple)))
    fields = draw(st.sampled_from([("position", "velocity", "effort"), ("position", "effort"), ("position",)]))
    time = np.arange(STATES) * 0.01
    wave = 0.3 * np.sin(time[:, None] * (1.0 + np.arange(len(own))))
    states: list[Message] = []
    if len(own):
        stamps = (time * 1e9).astype(np.int64) + draw(st.sampled_from([0, 10**18]))
        rows = JointStateEncoder(own, fields=fields).encode_many(stamps, **dict.fromkeys(fields, wave))
        states = [("/joint_states", int(t), row.tobytes()) for t, row in zip(stamps, rows, strict=True)]
    if draw(st.booleans()):
        raw = draw(spoiled(states[0][2] if states else b"\0\1\0\0", binary=True))
        states.append(("/joint_states", abs(draw(STAMPS)), raw))
    words = draw(st.lists(WORDS, max_size=2))
    texts = [("/hardware_settings", 5, encode_string(word.replace("\x00", ""))) for word in words]
    kind = draw(st.sampled_from([JOINT_STATE, JOINT_STATE, JOINT_STATE, STRING, "", "x/msg/Y"]))
    return {"/joint_states": (kind, states), "/hardware_settings": (STRING, texts)}


def _mcap(draw: Draw, topics: dict[str, tuple[str, list[Message]]], compression: CompressionType) -> bytes:
    stream = io.BytesIO()
    writer = Writer(stream, compression=compression, chunk_size=draw(st.sampled_from([100, 10**6])))
    writer.start("ros2")
    for name, (kind, rows) in topics.items():
        schema = writer.register_schema(kind, "ros2msg", b"")
        encoding = "cdr" if draw(st.integers(0, 9)) else draw(WORDS)
        channel = writer.register_channel(name, encoding, schema, {"offered_qos_profiles": draw(QOS)})
        for _, stamp, raw in rows:
            writer.add_message(channel, stamp, raw, stamp)
    bomb = draw(st.sampled_from([0, 0, 0, 0, 0, 40]))
    if bomb and compression != CompressionType.NONE:
        channel = writer.register_channel("/zeros", "cdr", writer.register_schema(STRING, "ros2msg", b""))
        for stamp in range(bomb):
            writer.add_message(channel, stamp, bytes(16 * 2**20), stamp)
    writer.finish()
    return stream.getvalue()


def _sqlite(draw: Draw, topics: dict[str, tuple[str, list[Message]]]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.db3"
        with closing(sqlite3.connect(path)) as database:
            database.executescript(SqliteFile.TABLES)
            for key, (name, (kind, rows)) in enumerate(topics.items()):
                qos = draw(st.one_of(QOS, st.none(), st.integers(0, 5)))
                form = "cdr" if draw(st.integers(0, 9)) else draw(WORDS)
                database.execute("INSERT INTO topics VALUES (?, ?, ?, ?, ?, '')", (key, name, kind, form, qos or ""))
                database.executemany(
                    "INSERT INTO messages (topic_id, timestamp, data) VALUES (?, ?, ?)",
                    [(key, stamp, raw) for _, stamp, raw in rows],
                )
            database.commit()
        return path.read_bytes()


@cache
def _bomb() -> bytes:
    """Return a gigabyte of zeros, compressed by zstd."""
    packer = zstandard.ZstdCompressor().compressobj()
    return b"".join(packer.compress(bytes(2**20)) for _ in range(1024)) + packer.flush()


@st.composite
def bags(draw: Draw, names: tuple[str, ...]) -> Built:
    """Draw a bag's folder: storage and compression, a valid or edited metadata.yaml, one or two files."""
    storage = draw(st.sampled_from(["mcap", "sqlite3"]))
    mode = draw(st.sampled_from(["none", "none", "file", "message"]))
    topics = draw(messages(names))
    if mode == "message":
        topics = {
            name: (kind, [(one, stamp, zstandard.compress(raw)) for one, stamp, raw in rows])
            for name, (kind, rows) in topics.items()
        }
    suffix = {"mcap": ".mcap", "sqlite3": ".db3"}[storage] + (".zstd" if mode == "file" else "")
    files: dict[str, bytes] = {}
    for k in range(draw(st.integers(1, 2))):
        form = draw(st.sampled_from(list(CompressionType)))
        try:
            data = _mcap(draw, topics, form) if storage == "mcap" else _sqlite(draw, topics)
        except MemoryError:  # this process, which reads with little memory, has too little left to build the bag
            reject()
        if mode == "file":
            data = zstandard.compress(data) if draw(st.integers(0, 5)) else _bomb()
        files[f"x{k}{suffix}"] = draw(spoiled(data, binary=True))
    text = metadata_text(storage, "x0" + suffix, [Topic("/joint_states", JOINT_STATE)], {}, None, provisional=False)
    content = yaml.safe_load(text) | {"relative_file_paths": list(files)}
    content |= {"compression_mode": mode.upper(), "compression_format": "zstd"} if mode != "none" else {}
    if draw(st.integers(0, 9)) or mode != "none":
        whole = {"rosbag2_bagfile_information": content}
        files["metadata.yaml"] = draw(documents(whole)) if draw(st.booleans()) else yaml.safe_dump(whole).encode()
    return Built(files)


def _column(draw: Draw, usual: Any) -> Any:
    """Draw the usual column, or another one of the same length."""
    count = len(usual)
    return draw(
        st.one_of(
            st.just(usual),
            st.just(usual),
            st.just(usual),
            st.lists(st.floats(), min_size=count, max_size=count),
            st.lists(WORDS, min_size=count, max_size=count),
            st.lists(st.lists(st.floats(), max_size=4), min_size=count, max_size=count),
            st.just([[[1.0]]] * count),
            st.just([None] * count),
            st.just([2**62] * count),
        )
    )


@st.composite
def lerobot_sets(draw: Draw, joints: tuple[str, ...]) -> Built:
    """Draw a LeRobot data set of one file."""
    time = np.arange(STATES) / 30.0
    state = (0.3 * np.sin(time[:, None] * (1.0 + np.arange(len(joints))))).tolist()
    rows = {"timestamp": time.tolist(), "observation.state": state, "observation.effort": state, "action": state}
    rows["episode_index"] = [0] * (STATES // 2) + [1] * (STATES - STATES // 2)
    rows = {name: _column(draw, values) for name, values in rows.items() if draw(st.integers(0, 9))}
    stream = io.BytesIO()
    form = draw(st.sampled_from(["none", "snappy", "zstd", "gzip"]))
    parquet.write_table(pyarrow.table(rows), stream, compression=form)
    names = {"observation.state": {"names": [f"{joint}.pos" for joint in joints]}}
    info = draw(documents({"fps": 30, "features": names}, "json"))
    data = draw(spoiled(stream.getvalue(), binary=True))
    return Built({"meta/info.json": info, "data/chunk-000/file-000.parquet": data})


@st.composite
def array_files(draw: Draw) -> Built:
    """Draw predictions.npz and belief.npz: arrays of any kind, and headers with any shape."""
    stream = io.BytesIO()
    shape = draw(st.sampled_from([(1,), (2, 2), (0,), (10**12,), (-1,), (3, 0)]))
    arrays: dict[str, Any] = {}
    for name in ("names", "values", "covariance", "0_names", "0_time", "0_dq", "0_measured", "0_predicted", "0_moved"):
        size = draw(st.integers(0, 3))
        arrays[name] = np.full(size, float(size))
    if draw(st.booleans()):
        arrays |= {"names": np.array(["a"]), "values": np.ones(1), "covariance": np.ones((1, 1))}
    np.savez_compressed(stream, **arrays)
    data = stream.getvalue().replace(b"(1,)", str(shape).encode()) if draw(st.booleans()) else stream.getvalue()
    data = draw(spoiled(data, binary=True))
    return Built({"predictions.npz": data, "belief.npz": data})


@st.composite
def tables(draw: Draw, names: tuple[str, ...]) -> Built:
    """Draw a CSV file, compressed or not."""
    usual = st.floats(-0.05, 0.05).map(lambda x: f"{x:.4f}")
    field = st.one_of(usual, usual, usual, usual, NUMBERS.map(str), WORDS) if draw(st.booleans()) else usual
    lines = [",".join(("t", *names))]
    lines += [
        ",".join([f"{0.01 * k:.2f}", *(draw(field) for _ in names)]) for k in range(draw(st.sampled_from([0, 1, 30])))
    ]
    text = "\n".join(lines) + draw(st.sampled_from(["", "\n", "\n" * 50, "\n#" * 50, "\n\x00"]))
    data = draw(spoiled(text.encode(errors="replace")))
    if not draw(st.integers(0, 3)):
        return Built({"x.csv.gz": draw(spoiled(gzip.compress(data), binary=True))}, "x.csv.gz")
    return Built({"x.csv": data}, "x.csv")
