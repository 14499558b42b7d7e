"""Topics and metadata.yaml of a bag; the file is provisional while the bag is written and final once it is closed."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path, PurePath
from typing import Any, Literal

from dynid.documents import parse_yaml, read_yaml
from dynid.durable import new_file, sync_folder
from dynid.errors import DataError, cut, one_line
from dynid.recording.messages import type_store
from dynid.resources import yaml_text

BAG_VERSION = 9  # the schema of ROS 2 Jazzy
METADATA_NAME = "metadata.yaml"
STORAGE_SUFFIXES = {"mcap": ".mcap", "sqlite3": ".db3"}
Reliability = Literal["reliable", "best_effort", "latched"]
_PROVISIONAL = {"dynid_provisional": "true"}
_EMPTY_START_NS = 2**63 - 1  # start time that rosbag2 writes for a bag without messages
_FOREVER = {"sec": 9223372036, "nsec": 854775807}  # rmw's infinite duration
_TRANSIENT_LOCAL, _BEST_EFFORT = ("transient_local", 1), ("best_effort", 2)  # values in Jazzy and in older releases
MOST_FILES = 100_000  # maximum number of data files of one bag


@dataclass(frozen=True)
class Topic:
    """Topic of a bag: name, message type (such as "sensor_msgs/msg/JointState") and quality of service.

    The quality of service "latched" means reliable and transient local: a late subscriber still receives the last
    message, also when the bag is played. `depth` is the length of the publisher's message queue.
    """

    name: str
    message_type: str
    qos: Reliability = "reliable"
    depth: int = 10

    def offered_qos(self) -> list[dict[str, Any]]:
        """Return the quality of service in the form in which rosbag2 stores it."""
        durations = {name: dict(_FOREVER) for name in ("deadline", "lifespan", "liveliness_lease_duration")}
        return [
            {
                "history": "keep_last",
                "depth": self.depth,
                "reliability": "best_effort" if self.qos == "best_effort" else "reliable",
                "durability": "transient_local" if self.qos == "latched" else "volatile",
                "liveliness": "automatic",
                "avoid_ros_namespace_conventions": False,
                **durations,
            }
        ]


def topic_of(name: str, message_type: str, offered_qos: str) -> Topic:
    """Return a topic with its quality of service, parsed from a bag's YAML text.

    An empty text means "reliable" and a queue of 10 messages.

    Raises:
        DataError: the YAML is not what rosbag2 writes.
    """
    try:
        return Topic(name, message_type, *_quality(str(offered_qos)))
    except (DataError, KeyError, TypeError, ValueError, OverflowError) as error:
        reason = f"{type(error).__name__}: {cut(one_line(str(error)), 200)}"
        raise DataError(f"topic '{cut(name)}' has no valid quality of service in its bag: {reason}") from error


@lru_cache(maxsize=256)
def _quality(offered_qos: str) -> tuple[Reliability, int]:
    """Parse quality of service and queue depth from YAML text as written by rosbag2.

    Results are cached, because most topics of a bag have the same text.
    """
    profiles = parse_yaml(offered_qos, "its text", DataError) or []
    durabilities, reliabilities = ([one[key] for one in profiles] for key in ("durability", "reliability"))
    depth = int(profiles[0]["depth"]) if profiles else 10
    if any(one in _TRANSIENT_LOCAL for one in durabilities):
        return "latched", depth
    return "best_effort" if any(one in _BEST_EFFORT for one in reliabilities) else "reliable", depth


@cache
def definition(message_type: str) -> tuple[str, str]:
    """Return the definition text of a message type and its hash; both are '' if the type is not part of ROS 2 Jazzy."""
    if message_type not in type_store().types:
        return "", ""
    return type_store().generate_msgdef(message_type, ros_version=2)[0], type_store().hash_rihs01(message_type)


@dataclass(frozen=True)
class BagMetadata:
    """Fields of metadata.yaml that a reader needs.

    Attributes:
        storage: "mcap" or "sqlite3".
        files: names of the data files.
        packed: zstd compression: whole data files ("file"), single messages ("message"), or "none".
        provisional: whether the bag was still being written.
        messages: number of messages according to the file; None if the file contains no number.
    """

    storage: str
    files: tuple[str, ...]
    packed: Literal["none", "file", "message"]
    provisional: bool
    messages: int | None = None


def metadata_text(
    storage: str,
    file_name: str,
    topics: Iterable[Topic],
    counts: Mapping[str, int],
    span_ns: tuple[int, int] | None,
    *,
    provisional: bool,
) -> str:
    """Return the YAML content of `rosbag2_bagfile_information` for a bag with one data file.

    Args:
        storage: "mcap" or "sqlite3".
        file_name: name of the data file inside the bag's folder.
        topics: topics of the bag.
        counts: number of messages by topic name.
        span_ns: first and last log time [ns]; None for a bag without messages.
        provisional: whether the bag is still being written, so that counts and span are not final.
    """
    first, last = span_ns or (_EMPTY_START_NS, _EMPTY_START_NS)

    def extent() -> dict[str, Any]:  # a new dict per call, because YAML writes a repeated one as a reference
        return {
            "duration": {"nanoseconds": last - first},
            "starting_time": {"nanoseconds_since_epoch": first},
            "message_count": sum(counts.values()),
        }

    entries = [
        {
            "topic_metadata": {
                "name": topic.name,
                "type": topic.message_type,
                "serialization_format": "cdr",
                "offered_qos_profiles": topic.offered_qos(),
                "type_description_hash": definition(topic.message_type)[1],
            },
            "message_count": counts.get(topic.name, 0),
        }
        for topic in topics
    ]
    information = {
        "version": BAG_VERSION,
        "storage_identifier": storage,
        "relative_file_paths": [file_name],
        **extent(),
        "topics_with_message_count": entries,
        "compression_format": "",
        "compression_mode": "",
        "files": [{"path": file_name, **extent()}],
        "custom_data": dict(_PROVISIONAL) if provisional else None,
        "ros_distro": "rosbags",
    }
    return yaml_text(information)


def write_metadata(folder: Path, information: str, *, durable: bool = False) -> None:
    """Write metadata.yaml atomically; it replaces a provisional metadata.yaml.

    Args:
        folder: the bag's folder.
        information: text from `metadata_text`.
        durable: whether to wait until the file and the folder's list of files are safely on the disk.
    """
    indented = "\n  ".join(information.splitlines())
    handle, temporary = new_file(folder, METADATA_NAME)  # random name, at which no link can have been placed
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(f"rosbag2_bagfile_information:\n  {indented}\n")
            stream.flush()
            if durable:
                os.fsync(stream.fileno())
        os.replace(temporary, folder / METADATA_NAME)
    finally:
        temporary.unlink(missing_ok=True)
    if durable:
        sync_folder(folder)


def read_metadata(folder: Path) -> BagMetadata | None:
    """Read metadata.yaml of a bag's folder; return None if the file is missing or empty.

    Raises:
        DataError: the file is not a rosbag2 metadata file, or names an unknown storage.
    """
    path = folder / METADATA_NAME
    if not path.is_file() or not path.stat().st_size:
        return None
    content = read_yaml(path, DataError)
    try:
        information = content["rosbag2_bagfile_information"]
        # File names without their folders, so that a bag cannot refer to files outside its folder.
        files = tuple(PurePath(str(name)).name for name in information["relative_file_paths"])
        storage = str(information["storage_identifier"])
        mode = str(information.get("compression_mode") or "none").lower()
        form = str(information.get("compression_format") or "").lower()
        stated = information.get("message_count")
        custom = information.get("custom_data") or {}
        provisional = all(custom.get(key) == value for key, value in _PROVISIONAL.items())
    except (KeyError, TypeError, AttributeError) as error:
        reason = f"{type(error).__name__}: {cut(one_line(str(error)))}"
        raise DataError(f"{path} is not the metadata of a rosbag2 bag ({reason})") from error
    if storage not in STORAGE_SUFFIXES:
        raise DataError(f"{path} names the storage '{cut(storage)}'; readable are {', '.join(STORAGE_SUFFIXES)}")
    if mode not in ("none", "file", "message") or (mode != "none" and form != "zstd"):
        raise DataError(
            f"{path} names the compression '{cut(form)}' by '{cut(mode)}'; readable are files and messages by zstd"
        )
    if len(files) != len(set(files)) or len(files) > MOST_FILES:
        raise DataError(f"{path} names {len(files)} data files, one of them twice or more than {MOST_FILES}")
    messages = stated if isinstance(stated, int) else None
    return BagMetadata(storage, files, mode, provisional, messages)  # type: ignore[arg-type] # one of the three
