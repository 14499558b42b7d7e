"""Recording in progress: messages are collected in memory and can be read like the messages of a bag."""

import threading
from pathlib import Path

from dynid.recording.bag_reader import Bag, TopicContent
from dynid.recording.driver_recording import DriverRecording, driver_recording_of
from dynid.recording.messages import JOINT_STATE, STRING
from dynid.recording.raw_messages import from_list
from dynid.recording.series import strings
from dynid.recording.topics import APPLIED_COMMANDS, EXPERIMENT, HARDWARE_SETTINGS, JOINT_STATES
from dynid.robot import Robot

RECORDED_TYPES = {  # message type of each topic that identification reads
    JOINT_STATES: JOINT_STATE,
    APPLIED_COMMANDS: JOINT_STATE,
    HARDWARE_SETTINGS: STRING,
    EXPERIMENT: STRING,
}


class GrowingRecording:
    """Thread-safe buffer of the messages of a recording in progress.

    One thread appends serialized messages; another reads them like a bag in memory.
    """

    def __init__(self) -> None:
        self._messages: dict[str, list[bytes]] = {name: [] for name in RECORDED_TYPES}
        self._lock = threading.Lock()

    def append(self, topic: str, raw: bytes) -> None:
        """Append a serialized message of one of the topics in `RECORDED_TYPES`."""
        with self._lock:
            self._messages[topic].append(raw)

    def count(self, topic: str) -> int:
        """Return the number of messages of a topic received so far."""
        return len(self._messages[topic])

    def since(self, topic: str, first: int) -> TopicContent:
        """Return the messages of a topic, starting with the message with index `first`."""
        with self._lock:
            chosen = self._messages[topic][first:]
        return TopicContent(topic, RECORDED_TYPES[topic], messages=from_list(range(len(chosen)), chosen))

    def texts(self, topic: str) -> list[str]:
        """Return the texts of all messages of a topic of std_msgs/String."""
        return strings(self.since(topic, 0)) if self.count(topic) else []

    def recording(self, name: str, robot: Robot | None) -> DriverRecording:
        """Return the recording of all messages received so far, as if they were read from a bag.

        Args:
            name: name of the recording, for messages.
            robot: the expected robot; None accepts any.

        Raises:
            DataError: too few messages have arrived, or they are from another robot.
        """
        topics = {topic: self.since(topic, 0) for topic in RECORDED_TYPES if self.count(topic)}
        return driver_recording_of(Bag(Path(name), "memory", (), topics, ()), robot)
