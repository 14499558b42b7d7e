"""Node that executes a named trajectory: joint_states in, joint_commands and reference out, one for each state.

`~/execute` runs the trajectory of parameters `trajectory` and `profile`: smooth approach, the trajectory, a smooth way
to the rest posture, then hold. `~/cancel` brakes and holds. `~/release` stops commanding (disable the arm first).
"""

import time

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.node import Node
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory

from dynid.control.controller import load_controller
from dynid.control.ff_pd import FeedforwardPd
from dynid.control.motion import MotionExecutor
from dynid.errors import DynidError, SafetyError
from dynid.hardware.realtime import prefer_latency
from dynid.nodes.common import LATCHED, NEWEST, STREAM, declare, run_node, string
from dynid.recording.messages import (
    DiagnosticStatus,
    JointStateDecoder,
    JointStateEncoder,
    ReferenceEncoder,
    encode_diagnostics,
)
from dynid.recording.settings import ExperimentSettings, Phase
from dynid.robot import load_robot
from dynid.trajectory.families import load_excitation

STALE_STATE_S = 0.2


class ExecutorNode(Node):
    """Drives the arm along trajectories with the FF+PD law of the paper's eq. 2."""

    def __init__(self) -> None:
        super().__init__("executor")
        robot_name = declare(self, "robot", "crane_x7", "robot name or folder", fixed=True)
        declare(self, "trajectory", "", "name of the trajectory that ~/execute runs")
        declare(self, "profile", "limited", "excitation profile: limited keeps the real joint limits")
        self.robot = load_robot(robot_name)
        self._excitation = load_excitation(self.robot)
        self._settings = load_controller(self.robot)
        self._motion = MotionExecutor(self.robot, FeedforwardPd(self._settings))
        self._encode_command = JointStateEncoder(self.robot.joint_names, fields=("effort",))
        self._encode_reference = ReferenceEncoder(self.robot.joint_names)
        self._experiment: ExperimentSettings | None = None
        self._published_phases = 0
        self._q = np.zeros(self.robot.size)
        self._stamp_ns = 0
        self._arrival_s = -np.inf
        self._commands = self.create_publisher(JointState, "joint_commands", STREAM)
        self._reference = self.create_publisher(JointTrajectory, "reference", STREAM)
        self._experiments = self.create_publisher(String, "experiment", LATCHED)
        self._diagnostics = self.create_publisher(DiagnosticArray, "diagnostics", 10)
        self._decode_state = JointStateDecoder(self.robot.joint_names)
        self.create_subscription(JointState, "joint_states", self._on_state, NEWEST, raw=True)
        self.create_service(Trigger, "~/execute", self._on_execute)
        self.create_service(Trigger, "~/cancel", self._on_cancel)
        self.create_service(Trigger, "~/release", self._on_release)
        self.create_timer(1.0, self._publish_diagnostics)

    def shut_down(self) -> None:
        """Stop commanding; the hardware's command timeout brings the arm to rest."""
        self._motion.release()

    def _on_state(self, raw: bytes) -> None:
        state = self._decode_state.decode(raw)
        if state is None:
            return  # states of something else on the same topic
        self._stamp_ns, self._q = state[0], state[1]["position"]
        self._arrival_s = time.monotonic()
        try:
            step = self._motion.update(self._stamp_ns, self._q)
        except SafetyError as error:
            self.get_logger().error(str(error))
            self._end_experiment()
            return
        if step is not None:
            self._commands.publish(self._encode_command.encode(self._stamp_ns, effort=step.tau))
            self._reference.publish(
                self._encode_reference.encode(self._stamp_ns, step.q_ref, step.dq_ref, step.ddq_ref)
            )
        if len(self._motion.phases) != self._published_phases:
            self._publish_experiment()

    def _on_execute(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        name, profile = string(self, "trajectory"), string(self, "profile")
        age = time.monotonic() - self._arrival_s
        try:
            trajectory = self._excitation.trajectory(name, profile)
            if age > STALE_STATE_S:
                since = "yet" if np.isinf(age) else f"for {age:.1f} s, at most {STALE_STATE_S} s are allowed"
                raise SafetyError(f"no joint_states {since}: is the arm active?")
            self._motion.begin(trajectory, self._q, self._stamp_ns)
        except DynidError as error:
            response.message = str(error)
            return response
        self._experiment = ExperimentSettings(
            trajectory=name,
            profile=profile,
            controller="ff_pd",
            gains=self._settings.gains(),
            duration_s=trajectory.duration,
        )
        self._publish_experiment()
        response.success = True
        response.message = f"executing {name} ({profile}), {trajectory.duration:.1f} s"
        return response

    def _on_cancel(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        response.success = self._motion.moving
        response.message = "braking, then holding" if self._motion.moving else "nothing is moving"
        self._motion.cancel(self._stamp_ns)
        return response

    def _on_release(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        if self._motion.moving:
            response.message = f"a motion is under way (phase {self._motion.phase}); cancel it first"
            return response
        self._motion.release()
        response.success, response.message = True, "no torque is commanded any more"
        return response

    def _end_experiment(self) -> None:
        if self._experiment is not None:
            self._experiment = self._experiment.entered("cancelled", self._stamp_ns)
            self._experiments.publish(String(data=self._experiment.model_dump_json()))

    def _publish_experiment(self) -> None:
        self._published_phases = len(self._motion.phases)
        if self._experiment is not None:
            phases = tuple(Phase(name=name, stamp_ns=stamp) for name, stamp in self._motion.phases)
            self._experiment = self._experiment.model_copy(update={"phases": phases})
            self._experiments.publish(String(data=self._experiment.model_dump_json()))

    def _publish_diagnostics(self) -> None:
        phase = self._motion.phase or "idle"
        age = time.monotonic() - self._arrival_s
        values = {"state_age_s": f"{age:.3f}"} | {
            "phase": phase,
            "elapsed_s": f"{self._motion.elapsed(self._stamp_ns):.3f}" if self._motion.phase else "",
        }
        self._diagnostics.publish(
            encode_diagnostics(time.time_ns(), [DiagnosticStatus("executor", 0, phase, "", values)])
        )


def main() -> None:
    """Run the executor node."""
    prefer_latency()
    run_node(ExecutorNode, events=True)


if __name__ == "__main__":
    main()
