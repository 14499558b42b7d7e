"""A bag's topics and its metadata.yaml: provisional ones while a bag is written, final ones at its end."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePath
from typing import Any, Literal

import yaml

from dynid.errors import DataError
from dynid.recording.messages import type_store

BAG_VERSION = 9  # the schema of ROS 2 Jazzy
METADATA_NAME = "metadata.yaml"
STORAGE_SUFFIXES = {"mcap": ".mcap", "sqlite3": ".db3"}
Reliability = Literal["reliable", "best_effort", "latched"]
_PROVISIONAL = {"dynid_provisional": "true"}
_EMPTY_START_NS = 2**63 - 1  # rosbag2's own mark of a bag without messages
_FOREVER = {"sec": 9223372036, "nsec": 854775807}  # rmw's infinite duration
_TRANSIENT_LOCAL, _BEST_EFFORT = ("transient_local", 1), ("best_effort", 2)  # as of Jazzy, and before
_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class Topic:
    """A topic of a bag: name, message type ("sensor_msgs/msg/JointState"), quality of service.

    "latched" is reliable and transient local: late subscribers get the last message, also when a bag is played.
    """

    name: str
    message_type: str
    qos: Reliability = "reliable"
    depth: int = 10

    def offered_qos(self) -> list[dict[str, Any]]:
        """The quality of service as rosbag2 stores it."""
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
    """A topic from the quality of service that its bag states (YAML, may be empty).

    Raises:
        DataError: it is not what rosbag2 writes.
    """
    try:
        profiles = yaml.load(offered_qos, Loader=_Loader) or []  # noqa: S506 - a safe loader
        durabilities, reliabilities = ([one[key] for one in profiles] for key in ("durability", "reliability"))
        depth = int(profiles[0]["depth"]) if profiles else 10
    except (yaml.YAMLError, KeyError, TypeError, ValueError) as error:
        raise DataError(f"topic '{name}' has no valid quality of service in its bag: {error!r}") from error
    if any(one in _TRANSIENT_LOCAL for one in durabilities):
        return Topic(name, message_type, "latched", depth)
    best_effort = any(one in _BEST_EFFORT for one in reliabilities)
    return Topic(name, message_type, "best_effort" if best_effort else "reliable", depth)


@cache
def definition(message_type: str) -> tuple[str, str]:
    """The text that defines a message type, and its hash; both '' where ROS 2 Jazzy has no such type."""
    if message_type not in type_store().types:
        return "", ""
    return type_store().generate_msgdef(message_type, ros_version=2)[0], type_store().hash_rihs01(message_type)


@dataclass(frozen=True)
class BagMetadata:
    """What metadata.yaml says that a reader needs."""

    storage: str
    files: tuple[str, ...]
    compressed: bool
    provisional: bool


def metadata_text(
    storage: str,
    file_name: str,
    topics: Iterable[Topic],
    counts: Mapping[str, int],
    span_ns: tuple[int, int] | None,
    *,
    provisional: bool,
) -> str:
    """The content of `rosbag2_bagfile_information` for a bag of one file, as YAML.

    Args:
        storage: "mcap" or "sqlite3".
        file_name: the data file's name inside the folder.
        counts: messages by topic name.
        span_ns: first and last log time [ns]; None for a bag without messages.
        provisional: the bag is still being written, so counts and span are not final.
    """
    first, last = span_ns or (_EMPTY_START_NS, _EMPTY_START_NS)

    def extent() -> dict[str, Any]:  # a new one each time, or YAML would write a reference
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
    return to_yaml(information)


def to_yaml(content: Any) -> str:
    """YAML text, keys in their order."""
    return str(yaml.dump(content, Dumper=_Dumper, default_flow_style=False, sort_keys=False))


def write_metadata(folder: Path, information: str) -> None:
    """Write metadata.yaml whole, in place of a provisional one; the text is that of `metadata_text`."""
    temporary = folder / f".{METADATA_NAME}.new"
    indented = "\n  ".join(information.splitlines())
    temporary.write_text(f"rosbag2_bagfile_information:\n  {indented}\n", encoding="utf-8")
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
