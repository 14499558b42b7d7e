"""Finishes bags that a killed recorder left behind."""

import os
import sqlite3
import tempfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from rosbags.interfaces import (
    Connection,
    ConnectionExtRosbag2,
    MessageDefinition,
    MessageDefinitionFormat,
    QosDurability,
)

from dynid.errors import DataError
from dynid.recording.bag_metadata import bag_information, dump_information, read_metadata, write_metadata
from dynid.recording.bag_reader import Bag, read_bag
from dynid.recording.bag_writer import BagWriter, Topic, lock_folder
from dynid.recording.mcap_scan import scan_mcap
from dynid.recording.messages import type_store
from dynid.resources import refuse_existing


@dataclass(frozen=True)
class Repair:
    """What a repair did: its actions (none for a bag in order), and the messages per topic that the bag now has."""

    folder: Path
    actions: tuple[str, ...]
    counts: dict[str, int]


def repair_bag(folder: Path | str) -> Repair:
    """Finish an unfinished bag in its folder, so that every reader opens it.

    An MCAP file without index is written anew; the old one is kept beside it with the suffix `.damaged`. A sqlite3
    file is rolled back to its last commit. A missing or provisional metadata.yaml is replaced by a final one.

    Raises:
        InputNotFoundError: no such folder.
        DataError: not a bag folder, still being recorded, or more than unfinished.
        OutputExistsError: the name for the old file is taken.
    """
    folder = Path(folder)
    if folder.is_file():
        raise DataError(f"{folder} is a single file; repair needs the bag's folder")
    bag = read_bag(folder)
    if not bag.findings:
        return Repair(folder, (), bag.counts)
    lock = lock_folder(folder)
    if lock is None:
        raise DataError(f"the bag {folder} is still being recorded; stop the recorder first")
    try:
        actions = [action for path in bag.files for action in _finish_file(path, bag)]
        metadata = read_metadata(folder)
        if metadata is None or metadata.provisional:
            _write_final_metadata(folder)
            actions.append("metadata.yaml written")
    finally:
        os.close(lock)
    return Repair(folder, tuple(actions), read_bag(folder).counts)


def _finish_file(path: Path, bag: Bag) -> list[str]:
    if bag.storage == "sqlite3":
        return _roll_back(path)
    if scan_mcap(path).complete:
        return []
    return _write_anew(path)


def _roll_back(path: Path) -> list[str]:
    journal = path.with_name(path.name + "-journal")
    if not journal.is_file():
        return []
    with closing(sqlite3.connect(path)) as database:
        database.execute("SELECT COUNT(*) FROM topics").fetchone()  # opening alone does not read the journal
    if journal.is_file() and journal.stat().st_size:
        raise DataError(f"{path.name}: its journal could not be rolled back")
    return [f"{path.name} rolled back to its last commit"]


def _write_anew(path: Path) -> list[str]:
    old = path.with_name(path.name + ".damaged")
    refuse_existing(old)
    source = read_bag(path)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".repair.") as work:
        writer = BagWriter(Path(work) / path.stem, [_topic(source, name) for name in source.topics])
        writer.open()
        try:
            for name, stamp, raw in _in_order(source):
                writer.write(name, stamp, raw)
        finally:
            writer.close()
        path.rename(old)
        (Path(work) / path.stem / f"{path.stem}.mcap").rename(path)
    return [f"{path.name} written anew with an index; the old file is {old.name}"]


def _topic(bag: Bag, name: str) -> Topic:
    content = bag[name]
    latched = any(qos.durability == QosDurability.TRANSIENT_LOCAL for qos in content.qos)
    depth = content.qos[0].depth if content.qos else 10
    return Topic(name, content.message_type, "latched" if latched else "reliable", depth)


def _in_order(bag: Bag) -> list[tuple[str, int, bytes]]:
    entries = [
        (name, int(stamp), raw)
        for name, topic in bag.topics.items()
        for stamp, raw in zip(topic.messages.log_ns, topic.messages, strict=True)
    ]
    return sorted(entries, key=lambda entry: entry[1])


def _write_final_metadata(folder: Path) -> None:
    bag = read_bag(folder)
    if len(bag.files) != 1:
        raise DataError(f"the bag {folder} is split into {len(bag.files)} files; its metadata.yaml cannot be rebuilt")
    connections = [_connection(index, bag, name) for index, name in enumerate(bag.topics, start=1)]
    counts = {connection.id: bag.counts[connection.topic] for connection in connections}
    logs = [topic.messages.log_ns for topic in bag.topics.values() if len(topic.messages)]
    span = (min(int(log[0]) for log in logs), max(int(log[-1]) for log in logs)) if logs else None
    information = bag_information(bag.storage, bag.files[0].name, connections, counts, span, provisional=False)
    write_metadata(folder, dump_information(information))


def _connection(identifier: int, bag: Bag, name: str) -> Connection:
    content = bag[name]
    known = content.message_type in type_store().types
    return Connection(
        id=identifier,
        topic=name,
        msgtype=content.message_type,
        msgdef=MessageDefinition(MessageDefinitionFormat.NONE, ""),
        digest=type_store().hash_rihs01(content.message_type) if known else "",
        msgcount=len(content.messages),
        ext=ConnectionExtRosbag2("cdr", list(content.qos)),
        owner=None,
    )
