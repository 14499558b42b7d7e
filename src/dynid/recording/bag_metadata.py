"""A rosbag2 folder's metadata.yaml: provisional ones while a bag is written, final ones after a repair."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from textwrap import indent
from typing import Any, Literal

import yaml
from rosbags.interfaces import Connection, ConnectionExtRosbag2
from rosbags.rosbag2.metadata import dump_qos_v9

from dynid.errors import DataError

BAG_VERSION: Literal[9] = 9  # the schema of ROS 2 Jazzy
METADATA_NAME = "metadata.yaml"
STORAGE_SUFFIXES = {"mcap": ".mcap", "sqlite3": ".db3"}
_PROVISIONAL = {"dynid_provisional": "true"}
_EMPTY_START_NS = 2**63 - 1  # rosbag2's own mark of a bag without messages
_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class BagMetadata:
    """What metadata.yaml says that a reader needs."""

    storage: str
    files: tuple[str, ...]
    compressed: bool
    provisional: bool


def bag_information(
    storage: str,
    file_name: str,
    connections: Iterable[Connection],
    counts: Mapping[int, int],
    span_ns: tuple[int, int] | None,
    *,
    provisional: bool,
) -> dict[str, Any]:
    """The content of `rosbag2_bagfile_information` for a bag of one file.

    Args:
        storage: "mcap" or "sqlite3".
        file_name: the data file's name inside the folder.
        connections: the topics.
        counts: messages by connection id.
        span_ns: first and last log time [ns]; None for a bag without messages.
        provisional: the bag is still being written, so counts and span are not final.
    """
    first, last = span_ns or (_EMPTY_START_NS, _EMPTY_START_NS)
    start, duration = {"nanoseconds_since_epoch": first}, {"nanoseconds": last - first}
    total = sum(counts.values())
    topics = []
    for connection in connections:
        assert isinstance(connection.ext, ConnectionExtRosbag2)
        topic = {
            "name": connection.topic,
            "type": connection.msgtype,
            "serialization_format": connection.ext.serialization_format,
            "offered_qos_profiles": dump_qos_v9(connection.ext.offered_qos_profiles),
            "type_description_hash": connection.digest,
        }
        topics.append({"topic_metadata": topic, "message_count": counts.get(connection.id, 0)})
    file = {"path": file_name, "starting_time": start, "duration": duration, "message_count": total}
    return {
        "version": BAG_VERSION,
        "storage_identifier": storage,
        "relative_file_paths": [file_name],
        "duration": dict(duration),
        "starting_time": dict(start),
        "message_count": total,
        "topics_with_message_count": topics,
        "compression_format": "",
        "compression_mode": "",
        "files": [file],
        "custom_data": dict(_PROVISIONAL) if provisional else None,
        "ros_distro": "rosbags",
    }


def dump_information(information: Mapping[str, Any]) -> str:
    """The YAML text of a `rosbag2_bagfile_information`."""
    text: str = yaml.dump(dict(information), Dumper=_Dumper, default_flow_style=False, sort_keys=False)
    return text


def write_metadata(folder: Path, information: str) -> None:
    """Write metadata.yaml whole, in place of a provisional one; the text is that of `dump_information`."""
    temporary = folder / f".{METADATA_NAME}.new"
    temporary.write_text("rosbag2_bagfile_information:\n" + indent(information, "  "), encoding="utf-8")
    os.replace(temporary, folder / METADATA_NAME)


def read_metadata(folder: Path) -> BagMetadata | None:
    """Read metadata.yaml; None where there is none, or an empty one.

    Raises:
        DataError: the file is not a rosbag2 metadata file, or names an unknown storage.
    """
    path = folder / METADATA_NAME
    if not path.is_file() or not path.stat().st_size:
        return None
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)  # noqa: S506 - a safe loader
        information = content["rosbag2_bagfile_information"]
        # Only names: a bag must not make us read outside its folder.
        files = tuple(PurePath(str(name)).name for name in information["relative_file_paths"])
        storage = str(information["storage_identifier"])
        mode = str(information.get("compression_mode") or "none").lower()
        custom = information.get("custom_data") or {}
        provisional = all(custom.get(key) == value for key, value in _PROVISIONAL.items())
    except (yaml.YAMLError, UnicodeDecodeError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path} is not the metadata of a rosbag2 bag ({type(error).__name__}: {error})") from error
    if storage not in STORAGE_SUFFIXES:
        raise DataError(f"{path} names the storage '{storage}'; readable are {', '.join(STORAGE_SUFFIXES)}")
    return BagMetadata(storage, files, mode != "none", provisional)
