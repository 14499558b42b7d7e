"""Conversion between serialised ROS messages and the states and torques of one bilaterally controlled arm, without ROS.

Two arms, the leader and the follower, form a pair.
"""

from collections import deque
from collections.abc import Sequence

import numpy as np

from dynid.control.bilateral.checks import finite
from dynid.control.bilateral.pair import Reading
from dynid.recording.messages import JointStateDecoder, JointStateEncoder
from dynid.robot import FloatArray

STORED_ANSWERS = 8  # number of stored driver answers; includes the answer to the previous state


class ArmMessages:
    """Decoder and encoder of serialised sensor_msgs/JointState for one of two bilaterally controlled arms.

    Args:
        names: joint names, (n,).

    Attributes:
        state: arrays "position", "velocity" and "effort" of the newest state, (n,) each, SI; empty before the first
            state.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._decode_state, self._decode_applied = JointStateDecoder(names), JointStateDecoder(names)
        self._encode = JointStateEncoder(names, fields=("effort",))
        self._applied: deque[tuple[int, FloatArray]] = deque(maxlen=STORED_ANSWERS)
        self._stamp_ns = 0
        self.state: dict[str, FloatArray] = {}
        finite(np.zeros(len(names)))  # compile before the control loop starts

    def applied(self, raw: bytes) -> None:
        """Store the torques that the arm's driver applied in answer to a state.

        The message is ignored if the effort of a joint is missing or not finite.

        Args:
            raw: serialised JointState with the applied torques as efforts.

        Raises:
            DataError: the bytes are not a JointState.
        """
        decoded = self._decode_applied.decode(raw)
        if decoded is not None and finite(decoded[1]["effort"]):
            self._applied.append((decoded[0], decoded[1]["effort"]))

    def reading(self, raw: bytes) -> Reading | None:
        """Decode a measured state of the arm, and add the torques that acted on the arm before this state.

        These are the newest torques stored by `applied` that answer an earlier state.

        Args:
            raw: serialised JointState of the driver.

        Returns:
            The state, with None as torques if they are unknown; None if a position is missing or not finite.

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
        """Return a serialised JointState with torques (n,) [N m] as efforts and the time stamp of the newest state."""
        return self._encode.encode(self._stamp_ns, effort=torques)
