"""What the executor says of a motion: the latched topics `experiment` (for bags) and `motion_status` (for clients)."""

import json

from rclpy.node import Node
from std_msgs.msg import String

from dynid.control.controller import TorqueLaw
from dynid.control.motion import MotionExecutor
from dynid.nodes.common import LATCHED
from dynid.recording.settings import ExperimentSettings, Phase

SHORTEST_S = 0.001  # an experiment has a length; a motion to a single posture has none


class ExperimentReport:
    """Publishes the settings of one motion after the other, again at every new phase.

    Attributes:
        series: of the motions that begin from now on, see `ExperimentSettings`.
    """

    def __init__(self, node: Node, motion: MotionExecutor) -> None:
        self._motion = motion
        self._settings: ExperimentSettings | None = None
        self._identifier = ""
        self._published = 0
        self.series = ""
        self._experiments = node.create_publisher(String, "experiment", LATCHED)
        self._statuses = node.create_publisher(String, "motion_status", LATCHED)

    def begin(self, name: str, profile: str, duration_s: float, law: TorqueLaw, identifier: str) -> None:
        """A motion has begun; `identifier` is whatever its client called it."""
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
        """A motion was refused before it began."""
        status = {"id": identifier, "trajectory": name, "state": "refused", "reason": reason}
        self._statuses.publish(String(data=json.dumps(status)))

    def law_changed(self, law: TorqueLaw) -> None:
        """Another law, or one with another model, took over: the gains so far are not those of the whole motion."""
        if self._settings is not None and self._motion.moving:
            both = f"{self._settings.controller} then {law.name}"
            self._settings = self._settings.model_copy(update={"controller": both, "gains": {}})
            self._publish()

    def update(self, reason: str = "") -> None:
        """Publish if there is a new phase since the last time, or a reason why a motion was given up."""
        if reason or len(self._motion.phases) != self._published:
            self._publish(reason)

    def _publish(self, reason: str = "") -> None:
        self._published = len(self._motion.phases)
        if self._settings is None or not self._motion.phases:
            return
        phases = tuple(Phase(name=name, stamp_ns=stamp) for name, stamp in self._motion.phases)
        self._settings = self._settings.model_copy(update={"phases": phases})
        self._experiments.publish(String(data=self._settings.model_dump_json()))
        status = {
            "id": self._identifier,
            "trajectory": self._settings.trajectory,
            "state": self._settings.state,
            "reason": reason or self._motion.stopped_itself,
            "left_tolerance": self._motion.left_tolerance,
            "tracking": self._motion.tracking.summary(self._motion.robot.joint_names),
        }
        self._statuses.publish(String(data=json.dumps(status)))
