"""Reports of the executor about a motion: latched topics `experiment` (for bags) and `motion_status` (for clients)."""

from typing import Annotated, Literal

from pydantic import Field
from rclpy.node import Node
from std_msgs.msg import String

from dynid.control.controller import TorqueLaw
from dynid.control.motion import MotionExecutor
from dynid.nodes.common import LATCHED
from dynid.recording.settings import ExperimentSettings, Phase, PhaseName, parse_settings
from dynid.robot import Strict

MOTION_STATUS = "motion_status"
SHORTEST_S = 0.001  # least duration in the settings, which must be positive; a motion to a single posture lasts 0 s
LONGEST_IDENTIFIER = 200


class Tracking(Strict):
    """Tracking error of a motion.

    Attributes:
        states: number of joint states from which the errors were computed; if it is 0, the errors are None.
        rms_deg: root mean square of the error over all states and joints [deg].
        largest_deg: largest error [deg].
        largest_at: name of the joint with the largest error.
    """

    states: Annotated[int, Field(ge=0)] = 0
    rms_deg: float | None = None
    largest_deg: float | None = None
    largest_at: str = ""


class MotionStatus(Strict):
    """Message of topic `motion_status` (latched), published when a motion is refused, enters a new phase or ends early.

    Attributes:
        id: identifier of the motion, chosen by the client; "" without one.
        trajectory: name of the motion.
        state: present phase ("approach", "trajectory", "rest", "done" or "cancelled"), or "refused"; None if the
            message has none.
        reason: reason why the motion was refused or ended early; "" without one.
        left_tolerance: whether the executor braked because the arm left its path.
        tracking: tracking error of the motion.
    """

    id: Annotated[str, Field(max_length=LONGEST_IDENTIFIER)]
    trajectory: str = ""
    state: PhaseName | Literal["refused"] | None = None
    reason: str = ""
    left_tolerance: bool = False
    tracking: Tracking = Tracking()


def read_status(text: str) -> MotionStatus:
    """Return the validated content of a `motion_status` message, which any program may have sent.

    Raises:
        DataError: the message is not valid; the error names the field, its value and what was expected.
    """
    return parse_settings(MOTION_STATUS, text, MotionStatus)


class ExperimentReport:
    """Publisher of each motion's settings (such as name, control law and duration) and status, at every new phase.

    Attributes:
        series: name of the series to which the next motions belong; a series forms one recording in a bag. "" for none.
    """

    def __init__(self, node: Node, motion: MotionExecutor) -> None:
        self._motion = motion
        self._settings: ExperimentSettings | None = None
        self._identifier = ""
        self._published = 0
        self.series = ""
        self._experiments = node.create_publisher(String, "experiment", LATCHED)
        self._statuses = node.create_publisher(String, MOTION_STATUS, LATCHED)

    def begin(self, name: str, profile: str, duration_s: float, law: TorqueLaw, identifier: str) -> None:
        """Publish the settings and the status of a motion that has begun.

        Args:
            name: name of the motion.
            profile: name of the excitation profile, or the source of a motion without profile, such as "file" or
                "topic".
            duration_s: duration of the motion [s].
            law: control law of the motion.
            identifier: identifier that the client chose for the motion; "" without one.
        """
        self._identifier = identifier
        self._settings = ExperimentSettings(
            trajectory=name,
            profile=profile,
            controller=law.name,
            gains=law.gains(),
            duration_s=max(duration_s, SHORTEST_S),
            series=self.series,
        )
        self._publish()

    def refused(self, name: str, reason: str, identifier: str) -> None:
        """Publish the status of a motion that was refused, with its name, the reason and the client's identifier."""
        status = MotionStatus(id=identifier, trajectory=name, state="refused", reason=reason)
        self._statuses.publish(String(data=status.model_dump_json(exclude_none=True)))

    def law_changed(self, law: TorqueLaw) -> None:
        """Publish that another control law or model took over during a motion.

        The gains are removed from the published settings, since one set would describe only a part of the motion.
        """
        if self._settings is not None and self._motion.moving:
            both = f"{self._settings.controller} then {law.name}"
            self._settings = self._settings.model_copy(update={"controller": both, "gains": {}})
            self._publish()

    def update(self, reason: str = "") -> None:
        """Publish settings and status if the motion has entered a new phase or ended early.

        `reason` is why the motion ended early; "" if it did not.
        """
        if reason or len(self._motion.phases) != self._published:
            self._publish(reason)

    def _publish(self, reason: str = "") -> None:
        self._published = len(self._motion.phases)
        if self._settings is None or not self._motion.phases:
            return
        phases = tuple(Phase(name=name, stamp_ns=stamp) for name, stamp in self._motion.phases)
        self._settings = self._settings.model_copy(update={"phases": phases})
        self._experiments.publish(String(data=self._settings.model_dump_json()))
        status = MotionStatus(
            id=self._identifier,
            trajectory=self._settings.trajectory,
            state=self._settings.state,
            reason=reason or self._motion.stopped_itself,
            left_tolerance=self._motion.left_tolerance,
            tracking=Tracking.model_validate(self._motion.tracking.summary(self._motion.robot.joint_names)),
        )
        self._statuses.publish(String(data=status.model_dump_json(exclude_none=True)))
