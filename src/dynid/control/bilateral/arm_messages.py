"""Conversion between the ROS messages of one arm and the readings and torques of a pair, without ROS."""

from collections import deque
from collections.abc import Sequence

import numpy as np

from dynid.control.bilateral.checks import finite
from dynid.control.bilateral.pair import Reading
from dynid.recording.messages import JointStateDecoder, JointStateEncoder
from dynid.robot import FloatArray

STORED_ANSWERS = 8  # number of stored driver answers; includes the answer to the previous state


class ArmMessages:
    """Decoder and encoder of serialised sensor_msgs/JointState for one arm of a pair.

    Args:
        names: joint names, (n,).

    Attributes:
        state: position, velocity and effort of the newest state, (n,) each, SI; empty before the first state.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._decode_state, self._decode_applied = JointStateDecoder(names), JointStateDecoder(names)
        self._encode = JointStateEncoder(names, fields=("effort",))
        self._applied: deque[tuple[int, FloatArray]] = deque(maxlen=STORED_ANSWERS)
        self._stamp_ns = 0
        self.state: dict[str, FloatArray] = {}
        finite(np.zeros(len(names)))  # compile before the control loop starts

    def applied(self, raw: bytes) -> None:
        """Store the torques that the driver wrote in answer to a state.

        Raises:
            DataError: the bytes are not a JointState.
        """
        decoded = self._decode_applied.decode(raw)
        if decoded is not None and finite(decoded[1]["effort"]):
            self._applied.append((decoded[0], decoded[1]["effort"]))

    def reading(self, raw: bytes) -> Reading | None:
        """Return a state with the torques that were in force until then; None if a position is missing or not a number.

        Raises:
            DataError: the bytes are not a JointState.
        """
        decoded = self._decode_state.decode(raw)
        if decoded is None or not finite(decoded[1]["position"]):
            return None
        stamp_ns, self.state = decoded
        self._stamp_ns = stamp_ns
        # the driver's answer to the previous state is in force until this state
        in_force = next((tau for at, tau in reversed(self._applied) if at < stamp_ns), None)
        return Reading(stamp_ns, self.state["position"], in_force, self.state["velocity"])

    def answer(self, torques: FloatArray) -> bytes:
        """Return a message with torques (n,) [N m] that answers the newest state."""
        return self._encode.encode(self._stamp_ns, effort=torques)
