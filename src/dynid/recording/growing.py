"""A recording that still grows: the messages that a bag will hold, kept in memory as they arrive."""

import threading
from pathlib import Path

from dynid.recording.bag_reader import Bag, TopicContent
from dynid.recording.messages import JOINT_STATE, STRING
from dynid.recording.raw_messages import from_list
from dynid.recording.recording import Recording, recording_of
from dynid.recording.series import strings
from dynid.recording.topics import APPLIED_COMMANDS, EXPERIMENT, HARDWARE_SETTINGS, JOINT_STATES
from dynid.robot import Robot

KEPT = {  # topic: message type; all that identification reads
    JOINT_STATES: JOINT_STATE,
    APPLIED_COMMANDS: JOINT_STATE,
    HARDWARE_SETTINGS: STRING,
    EXPERIMENT: STRING,
}


class GrowingRecording:
    """Takes serialized messages from one thread and gives them to another, as a bag in memory."""

    def __init__(self) -> None:
        self._messages: dict[str, list[bytes]] = {name: [] for name in KEPT}
        self._lock = threading.Lock()

    def append(self, topic: str, raw: bytes) -> None:
        """A message of one of the topics `KEPT`."""
        with self._lock:
            self._messages[topic].append(raw)

    def count(self, topic: str) -> int:
        """How many messages of a topic there are."""
        return len(self._messages[topic])

    def since(self, topic: str, first: int) -> TopicContent:
        """A topic's messages from number `first` on."""
        with self._lock:
            chosen = self._messages[topic][first:]
        return TopicContent(topic, KEPT[topic], messages=from_list(range(len(chosen)), chosen))

    def texts(self, topic: str) -> list[str]:
        """The texts of a topic of strings."""
        return strings(self.since(topic, 0)) if self.count(topic) else []

    def recording(self, name: str, robot: Robot | None) -> Recording:
        """All so far, as the same messages in a bag are read.

        Raises:
            DataError: there is too little of it yet, or it is of another robot.
        """
        topics = {topic: self.since(topic, 0) for topic in KEPT if self.count(topic)}
        return recording_of(Bag(Path(name), "memory", (), topics, ()), robot)
