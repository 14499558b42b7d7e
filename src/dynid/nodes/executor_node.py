"""Node that executes motions: for each message of joint_states it publishes torques and the reference.

`~/execute` runs the trajectory of parameters `trajectory` (a name, or a YAML file) and `profile`: a smooth approach,
the trajectory, a smooth return to the rest posture, then hold. A message on `joint_trajectory` runs that trajectory and
holds the arm at its end; the efforts of its points are added to the control law's torques. Every motion is checked
completely before the first torque is commanded. `~/cancel` brakes and holds, `~/hold` holds the arm at its present
posture, `~/release` stops commanding (disable the arm first). Parameter `controller` selects the control law. A model
is given by `model_file`, or completely by the parameters `model.*`, a payload by `payload.*`. With `contact` set to
"stop", contact stops every motion.
"""

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.node import Node
from rclpy.parameter import Parameter
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory

from dynid.control.control_model import ControlModel, from_model_file
from dynid.control.controller import TorqueLaw, load_controller
from dynid.control.effort_bounds import EffortBound
from dynid.control.holding_check import HoldingTorque
from dynid.control.missing_states import MissingStates
from dynid.control.model_laws import ComputedTorque, GravityCompensation, static_friction
from dynid.control.motion import MotionExecutor
from dynid.control.motion_check import MotionCheck, Torques, model_torques, nominal_torques, robot_limits
from dynid.control.open_loop import PREFIX, PROFILE
from dynid.control.plan import MotionPlan
from dynid.control.safe_box import NO_SCENE, box_of
from dynid.control.sag import Sag
from dynid.control.selection import CONTROLLERS, ControllerSelection
from dynid.control.self_collision import SelfCollision
from dynid.control.servo_loads import ServoLoads
from dynid.control.sway import MOST_RAD, checked_sway
from dynid.errors import ConfigurationError, DataError, DynidError, SafetyError
from dynid.hardware.loop.realtime import SWITCH_INTERVAL_S, prefer_latency
from dynid.hardware.safety.guard_states import GuardState
from dynid.model.model_file import read_model_file
from dynid.nodes.arm_interlocks import SinglePublisherSubscription, TorqueWatch
from dynid.nodes.common import (
    LATCHED,
    NEWEST,
    STREAM,
    check_parameters,
    compile_first,
    declare,
    run_node,
    serve_trigger,
    string,
)
from dynid.nodes.contact_link import ContactLink
from dynid.nodes.deferred import Answer, DeferredTrigger
from dynid.nodes.experiment import ExperimentReport
from dynid.nodes.model_parameters import declare_model, from_parameters
from dynid.nodes.motion_requests import (
    APPROACH_RAD,
    FROM_FILE,
    FROM_TOPIC,
    MotionRequests,
    positive_angle,
    trajectory_name,
)
from dynid.nodes.outputs import declare_output
from dynid.nodes.payload_parameters import PayloadOnModel
from dynid.recording.messages import DiagnosticStatus, JointStateDecoder, ReferenceEncoder, encode_diagnostics
from dynid.recording.settings import reported_settings
from dynid.rehearsal.arm import rehearse_messages
from dynid.rehearsal.motions import rehearse_motions
from dynid.robot import FloatArray, load_robot
from dynid.trajectory.families import load_excitation
from dynid.trajectory.files import is_file_name

STALE_STATE_S = 0.2
SWAY = ("sway_rad", "sway_hz")
POLL_S = 0.02  # interval at which the result of a motion check is polled if no states arrive [s]


class ExecutorNode(Node):
    """Node that moves the arm along motions with the selected control law."""

    _refused_settings: String | None = None  # the driver's last settings if their mount must wait: it sends them once

    def __init__(self) -> None:
        super().__init__("executor")
        self.robot = load_robot(declare(self, "robot", "crane_x7", "robot name or folder", fixed=True))
        declare(self, "trajectory", "", "motion for ~/execute: a name, a YAML file, or joint_excitation_<number>")
        declare(self, "profile", "limited", "excitation profile: 'limited' keeps the joint limits of the real arm")
        declare(self, "return_to_rest", True, "whether ~/execute returns to the rest posture after the trajectory")
        mount = declare(
            self,
            "mount",
            "",
            "how the arm is mounted; '' takes the hardware node's, or robot.yaml's default",
            fixed=True,
        )
        self._selection = ControllerSelection(self.robot, load_controller(self.robot), mount or None)
        excitation, names = load_excitation(self.robot), self.robot.joint_names
        self._collision = SelfCollision(self.robot)
        self._limits = robot_limits(self.robot, excitation.acceleration_limits)
        text = f"free space of all motions: a YAML file, '' for the robot's scene.yaml if it has one, or '{NO_SCENE}'"
        self._box = box_of(self.robot, str(declare(self, "scene", "", text)))
        self._motion, self._sway_rad = MotionExecutor(self.robot, self._selection.controller), 0.0
        self._motion.check = self._check()
        self._loads = ServoLoads(self.robot)
        self._requests = MotionRequests(excitation, self._motion, self._selection.settings, self._limits, self._loads)
        self._report = ExperimentReport(self, self._motion)
        self._waiting: list[Answer] = []  # answers of ~/release, due when the arm stands
        self._q = np.zeros(self.robot.size)
        self._stamp_ns, self._arrival_s, self._malformed = 0, -np.inf, 0
        self._last_condition: tuple[str, bool, bool, str, bool, str] | None = None  # condition last reported
        self._holding, self._settings_refusal = HoldingTorque(self.robot), ""
        self._output = declare_output(self, names)
        self._reference = self.create_publisher(JointTrajectory, "reference", STREAM)
        self._encode_reference = ReferenceEncoder(names)
        self._diagnostics = self.create_publisher(DiagnosticArray, "diagnostics", 10)
        self._decode_state = JointStateDecoder(names)
        self._declare_motions()
        self._declare_controller()
        self._sources = (
            SinglePublisherSubscription(
                self, String, "hardware_settings", self._on_hardware_settings, LATCHED, self._on_second_source
            ),
            SinglePublisherSubscription(
                self, JointState, "joint_states", self._on_state, NEWEST, self._on_second_source, raw=True
            ),
        )
        self.create_subscription(JointTrajectory, "joint_trajectory", self._on_trajectory, 10, raw=True)
        self._driver = TorqueWatch(self, self._on_torque_off, self._on_driver_stop, self._loads.report)
        self._missing, self._cycle_s = MissingStates(), 0.0  # cycle that the driver reports [s]; 0: unknown
        self._pushed: tuple[str, int] | None = None  # message of a pushed arm, number of the driver's reports then
        self._execute = DeferredTrigger(self, "~/execute", self._on_execute)
        self._release = DeferredTrigger(self, "~/release", self._on_release)
        self.create_service(Trigger, "~/cancel", self._on_cancel)
        serve_trigger(self, "~/hold", self._hold)
        self.create_timer(POLL_S, self._look)
        self.create_timer(1.0, self._publish_diagnostics)

    def rehearse(self) -> None:
        """Run a short motion with every control law on artificial states, so that compilation delays no real motion."""
        mount = self._selection.mount
        compile_first(self, self.robot, mount)
        self._selection.prepare()
        _ = self._motion.guiding.components
        rehearse_motions(self.robot, mount)
        rehearse_messages(self.robot)

    def shut_down(self) -> None:
        """Stop commanding; the driver's command timeout then brings the arm to rest."""
        self._motion.release()
        self._output.end()

    def _declare_motions(self) -> None:
        """Declare and apply the parameters `path_tolerance_rad`, `approach_rad` and `series`, which concern motions."""
        tolerance = self._motion.tolerance.tolist()
        tolerance = declare(self, "path_tolerance_rad", tolerance, "error of each joint that brakes a trajectory [rad]")
        self._motion.tolerance = self._tolerance(tolerance)
        text = "how far from the arm a motion of joint_trajectory may begin; the way there is planned and checked [rad]"
        self._requests.approach_rad = positive_angle(declare(self, "approach_rad", APPROACH_RAD, text))
        text = "motions of one series in a bag are one recording; '' for each on its own"
        self._report.series = declare(self, "series", "", text)

    # -- controller and model ------------------------------------------------------------------------------------

    def _declare_controller(self) -> None:
        """Declare the parameters of control law, model and payload; check and apply their initial values."""
        declare(self, "controller", CONTROLLERS[0], f"active control law: {', '.join(CONTROLLERS)}")
        declare(self, "model_file", "", "model.yaml of an accepted model, for laws that need one")
        share = self._selection.friction_share
        declare(
            self, "friction_share", share, "how much of the friction gravity_compensation takes off the hand, 0 to 1"
        )
        self._declare_sway()
        declare_model(self, self._selection.arm_model)
        self._payload, self._contact = PayloadOnModel(self, self.robot), ContactLink(self, self._motion)
        path, name = string(self, "model_file"), string(self, "controller")
        model = self._read_model(path) if path else None
        given = model is not None or name != CONTROLLERS[0]
        self._payload.taken((), model, self._selection.arm_model)
        self._exchange(name if given else None, model, self.get_parameter("friction_share").value)
        self._keep_payload()
        check_parameters(self, self._on_set)

    def _keep_payload(self) -> None:
        """Activate the model and payload that were set last and have passed all checks.

        Both are published for contact detection.
        """
        self._payload.keep()
        self._contact.share(self._selection.arm_model, *self._payload.kept)

    def _declare_sway(self) -> None:
        settings = self._selection.settings
        text = f"amplitude by which a held arm sways, so that it feels [rad]; 0: it stands, at most {MOST_RAD}"
        amplitude = declare(self, SWAY[0], settings.sway_rad, text)
        self._selection.controller.sway(amplitude, declare(self, SWAY[1], settings.sway_hz, "how often it sways [Hz]"))
        self._sway_rad = float(amplitude)
        self._renew_check()

    def _read_model(self, path: str) -> ControlModel:
        return from_model_file(read_model_file(Path(path)), self._selection.arm_model)

    def _on_set(self, parameters: list[Parameter]) -> None:
        """Apply all parameter values of one call from the next cycle on, or refuse all of them by raising an error."""
        given = {one.name: one.value for one in parameters}
        tolerance = self._tolerance(given.get("path_tolerance_rad"))
        box = (box_of(self.robot, str(given["scene"])),) if "scene" in given else None
        approach_rad = positive_angle(given.get("approach_rad", self._requests.approach_rad))
        sway = [given.get(name, self.get_parameter(name).value) for name in SWAY]
        checked_sway(*sway)  # raises an error for an excessive amplitude or frequency
        contact = given.get("contact", string(self, "contact"))
        self._contact.check(contact)
        model = from_parameters(parameters, self._selection.arm_model)
        if given.get("model_file"):
            if model is not None:
                raise SafetyError("set either model_file or model.*, not both in one call")
            model = self._read_model(str(given["model_file"]))
        model, held = self._payload.taken(parameters, model, self._selection.arm_model)
        name, share = given.get("controller"), given.get("friction_share")
        if model is not None or name is not None or share is not None:
            self._exchange(None if name is None else str(name), model, share, gated=held)
        self._keep_payload()
        self._contact.set(contact)
        self._motion.tolerance = tolerance
        if box is not None or sway[0] != self._sway_rad:
            self._box, self._sway_rad = self._box if box is None else box[0], float(sway[0])
            self._renew_check()
        self._requests.approach_rad = approach_rad
        self._selection.controller.sway(*sway)
        self._report.series = str(given.get("series", self._report.series))

    def _tolerance(self, given: Sequence[float] | None) -> FloatArray:
        """Check and return the given path tolerances of all joints, (n,) [rad]; return the present tolerances for None.

        Raises:
            ConfigurationError: the tolerance is not one positive angle for each joint.
        """
        if given is None:
            return self._motion.tolerance
        tolerance = np.array(given, dtype=float)
        if tolerance.shape != (self.robot.size,) or not (tolerance > 0.0).all():
            raise ConfigurationError(
                f"path_tolerance_rad is {tolerance.tolist()}; expected {self.robot.size} positive angles"
            )
        return tolerance

    def _exchange(
        self, name: str | None, model: ControlModel | None, share: float | None, *, gated: bool = False
    ) -> None:
        before = self._motion.controller.law
        self._selection.exchange(name=name, model=model, friction_share=share, switch=self._take_over, gated=gated)
        law = self._motion.controller.law
        if model is not None or law is not before:  # the model predicts torques, the law decides how far the arm sags
            self._renew_check()
        if law is not before:
            self._report.law_changed(law)
            self.get_logger().info(f"controller {law.name}{' with a new model' if model else ''}")

    def _renew_check(self) -> None:
        """Let every motion pass the check of the present settings, one that was being checked with former ones, too."""
        self._motion.check = self._check()
        text = "mount, scene, cycle rate, control law, sway, model or payload changed while it was being checked"
        self._requests.preparation.withdraw(SafetyError(f"{text}; start it again"))

    def _check(self) -> MotionCheck:
        """Return the check that every motion must pass.

        It predicts torques with the present model or, if there is none, with the robot's nominal parameters.
        """
        model, mount = self._selection.model, self._selection.mount
        if model is None:
            try:
                torques: Torques | None = nominal_torques(self.robot, mount)
            except DynidError as error:
                self.get_logger().warning(f"currents of motions cannot be predicted without a model: {error}")
                torques = None
        else:
            torques = model_torques(self._selection.arm_model, model.phi, model.friction)
        efforts = EffortBound(self.robot, self._selection.settings)
        sag = Sag.of(self._selection.settings, self._motion.controller.law, self._sway_rad)
        return MotionCheck(self._motion.robot, self._limits, torques, self._collision, efforts, self._box, sag)

    def _on_hardware_settings(self, message: String) -> None:
        """Apply mount and cycle time that the hardware node reports; the mount sets the direction of gravity.

        Control laws and checks are compiled now, before any motion.
        """
        self._refused_settings = None
        try:
            reported = reported_settings(message.data, self.robot)
            mount = reported.mount
            self._cycle_s = reported.cycle_s
            slower = reported.cycle_s != self._motion.robot.file.bus.cycle_s
            self._motion.robot = self.robot.at_cycle(reported.cycle_s)
            if slower:  # the check refuses points closer than a cycle
                self._renew_check()
            if mount != self._selection.mount:
                if self._motion.active:
                    self._refused_settings = message
                    raise SafetyError(f"the mount changed to '{mount}' while the arm is commanded; release it first")
                self._selection.set_mount(mount)
                self._renew_check()
        except DynidError as error:
            self._settings_refusal = str(error)
            self.get_logger().error(str(error))
            return
        self._settings_refusal = ""
        self._selection.prepare()

    # -- states ----------------------------------------------------------------------------------------------------

    def callback_failed(self, text: str) -> None:
        """Cancel the present motion because a callback of this node failed; `text` describes the error."""
        self._motion.cancel(self._stamp_ns)
        self._report.update(text)

    def _on_second_source(self, text: str) -> None:
        """Stop commanding because two publishers send the arm's states or settings.

        The driver then brakes and holds the arm.
        """
        self.get_logger().error(text)
        if self._motion.active:
            self._motion.release()
            self._output.end()
            self._report.update(text)

    def _refuse_second_source(self) -> None:
        for source in self._sources:
            if source.refusal:
                raise SafetyError(source.refusal)
        if self._settings_refusal:
            raise SafetyError(f"the settings of the arm's driver are unknown: {self._settings_refusal}")

    def _on_state(self, raw: bytes) -> None:
        try:
            state = self._decode_state.decode(raw)
        except DataError as error:
            self._malformed += 1
            self.get_logger().warning(f"joint_states: left out, {error}", throttle_duration_sec=1.0)
            return
        if state is None:
            return  # not this arm's states
        self._stamp_ns, self._q = state[0], state[1]["position"]
        self._holding.note(self._stamp_ns, self._q, state[1]["velocity"], state[1]["effort"])
        self._loads.note(self._stamp_ns, state[1]["effort"])
        self._arrival_s = time.monotonic()
        self._missing.note(self._stamp_ns)
        if self._driver.off or self._driver.drives:
            self._motion.follow_limp(self._q, self._stamp_ns)
        self._contact.watch(self._stamp_ns)
        reason, moving, left_before = "", self._motion.moving, self._motion.left_tolerance
        try:
            step = self._motion.update(self._stamp_ns, self._q)
            if step is not None:
                self._output.send(self._stamp_ns, step.tau, step.q_ref if step.holds else None)
                if self._reference.get_subscription_count():  # encode only for subscribers
                    self._reference.publish(
                        self._encode_reference.encode(self._stamp_ns, step.q_ref, step.dq_ref, step.ddq_ref)
                    )
        except DynidError as error:
            reason = str(error)
            if moving:
                reason = self._complaint() + reason
                self.get_logger().error(reason)
            else:  # pushed while held, or lowered: the driver's next report decides
                self._pushed = reason, self._driver.reports
            if not self._motion.active:
                self._output.end()
        if self._motion.left_tolerance and not left_before:
            self._motion.stopped_itself = self._complaint() + self._motion.stopped_itself
        self._report.update(reason)
        if self._waiting or self._pushed is not None or self._requests.preparation.busy:
            self._poll()

    def _complaint(self) -> str:
        """Return a clause about the missing joint states of an aborted motion, to precede the reason of the abort.

        Return "" if few states were missing, or if the driver's cycle time is unknown.
        """
        return self._missing.complaint(self._cycle_s, self._driver.incomplete) if self._cycle_s else ""

    def _log_push(self) -> None:
        """Log that a held arm was pushed, unless the driver itself moved the arm.

        The driver's first report after the push shows whether it moved the arm. So the log entry waits for this report,
        unless the driver publishes no reports.
        """
        if self._pushed is None or 0 < self._driver.reports <= self._pushed[1]:
            return
        if not (self._driver.off or self._driver.drives):
            self.get_logger().warning(self._pushed[0])
        self._pushed = None

    def _on_driver_stop(self, text: str) -> None:
        """End the present motion because the driver brakes, holds and lowers the arm; `text` is its status message."""
        if not self._motion.moving:
            return
        not_cancelled = self._motion.phase != "cancelled"
        requested = text in (GuardState.STOPPING.value, GuardState.DISABLED.value)
        reason = "torque was switched off" if requested else f"the driver stops the arm: {text}"
        if not requested:  # log before the report: clients quote the log's last error
            self.get_logger().error(f"the motion ended: {reason}")
        elif not_cancelled:
            self.get_logger().warning(f"the motion ended: {reason}")
        self._motion.forget(self._stamp_ns)
        self._output.end()
        self._report.update(reason)

    def _on_torque_off(self) -> None:
        if self._motion.active:
            self._motion.forget(self._stamp_ns)
            self._output.end()
            self._report.update("torque was switched off")
            self.get_logger().info("torque was switched off: the held posture is discarded")

    def _end_silence(self) -> None:
        """Stop commanding an arm whose states have stopped arriving, since its position is unknown."""
        silent_s = time.monotonic() - self._arrival_s
        if not self._motion.active or silent_s <= self._output.silence_s:
            return
        reason = f"no joint_states for {silent_s:.1f} s: nothing is commanded any more"
        self.get_logger().error(reason)
        self._motion.forget(self._stamp_ns)
        self._output.end()
        self._report.update(reason)

    def _look(self) -> None:
        """Begin a planned motion, stop commanding if states are missing, and publish changed diagnostics.

        A timer calls this function, so that it runs even while no joint states arrive.
        """
        try:
            self._poll()
        finally:
            self._report_change()

    def _poll(self) -> None:
        self._log_push()
        self._end_silence()
        if self._refused_settings is not None and not self._motion.active:
            self._on_hardware_settings(self._refused_settings)  # a motion checked for the former mount does not begin
        self._requests.preparation.poll()
        if self._waiting and not (self._motion.moving and self._fresh()):
            answers, self._waiting = self._waiting, []
            for answer in answers:
                self._stop_commands(answer)

    def _fresh(self) -> bool:
        return time.monotonic() - self._arrival_s <= STALE_STATE_S

    def _refuse_contradiction(self, law: TorqueLaw) -> None:
        """Raise SafetyError if the torques that now hold the arm contradict the model of the control law `law`.

        Only gravity compensation and computed torque are checked.
        """
        if isinstance(law, GravityCompensation | ComputedTorque):
            self._holding.refuse_contradiction(law, static_friction(law, self._holding.q))

    def _take_over(self, law: TorqueLaw) -> None:
        if self._motion.active:
            self._refuse_contradiction(law)
        self._motion.switch_to(law)

    def _refuse_stale(self) -> None:
        self._refuse_second_source()
        age = time.monotonic() - self._arrival_s
        if age > STALE_STATE_S:
            age_text = "yet" if np.isinf(age) else f"for {age:.1f} s, allowed are {STALE_STATE_S} s"
            raise SafetyError(f"no joint_states {age_text}: is the arm active?")

    # -- motions -----------------------------------------------------------------------------------------------------

    def _on_execute(self, answer: Answer) -> None:
        name, profile = string(self, "trajectory"), string(self, "profile")
        origin = PROFILE if name.startswith(PREFIX) else FROM_FILE if is_file_name(name) else profile

        def done(plan: MotionPlan | DynidError) -> None:
            refusal = self._begin(plan, origin, "")
            duration = plan.duration if isinstance(plan, MotionPlan) else 0.0
            answer.give(not refusal, refusal or f"executing {name} ({origin}), {duration:.1f} s")

        try:
            self._refuse_busy()
            to_rest = bool(self.get_parameter("return_to_rest").value)
            self._requests.by_name(name, profile, self._q, done, to_rest=to_rest)
        except DynidError as error:
            answer.give(False, str(error))

    def _on_trajectory(self, raw: bytes) -> None:
        name = trajectory_name(raw)

        def done(plan: MotionPlan | DynidError) -> None:
            refusal = self._begin(plan, FROM_TOPIC, name)
            if refusal:
                self.get_logger().error(refusal)
                self._report.refused(name, refusal, name)

        try:
            self._refuse_busy()
            self._requests.from_message(raw, self._q, done)
        except DynidError as error:
            self.get_logger().error(str(error))
            self._report.refused(name, str(error), name)

    def _refuse_busy(self) -> None:
        if self._motion.moving:
            raise SafetyError(f"a motion is running (phase {self._motion.phase}); cancel it first")

    def _begin(self, plan: MotionPlan | DynidError, origin: str, identifier: str) -> str:
        """Begin a motion that was planned and checked; return the reason for a refusal, or '' if it began.

        Args:
            plan: the plan, or the error of planning and checking.
            origin: name of the motion's excitation profile, or the source of a motion without profile, such as "file".
            identifier: identifier that the client chose for the motion; "" without one.
        """
        if isinstance(plan, DynidError):
            return str(plan)
        try:
            self._refuse_stale()
            self._driver.refuse_idle()
            self._contact.refuse(self._stamp_ns)
            self._refuse_contradiction(self._motion.controller.law)
            self._motion.begin(plan, self._q, self._stamp_ns)
            self._missing.begin(self._driver.incomplete)
        except DynidError as error:
            return str(error)
        own = next((part.law for part in plan.parts if part.law is not None), None)
        law = own or self._motion.controller.law
        self._report.begin(plan.name, origin, plan.duration, law, identifier)
        return ""

    def _on_cancel(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        checked = self._requests.preparation.busy
        self._requests.preparation.withdraw(SafetyError("cancelled while it was being checked"))
        response.success = self._motion.moving or checked
        response.message = "braking, then holding" if self._motion.moving else "nothing is moving"
        response.message += ", and the motion being checked does not start" if checked else ""
        self._motion.cancel(self._stamp_ns)
        return response

    def _hold(self) -> str:
        self._refuse_stale()
        self._driver.refuse_stopped("held")
        self._refuse_contradiction(self._motion.controller.law)
        self._motion.hold(self._q, self._stamp_ns)
        return f"holding with {self._motion.controller.law.name}"

    def _on_release(self, answer: Answer) -> None:
        if self._motion.moving and self._motion.phase != "cancelled":
            answer.give(False, f"a motion is running (phase {self._motion.phase}); cancel it first")
            return
        self._requests.preparation.withdraw(SafetyError("released while it was being checked"))
        if self._motion.moving and self._fresh():
            self._waiting.append(answer)  # braking; commands stop when the arm stands
        else:
            self._stop_commands(answer)

    def _stop_commands(self, answer: Answer) -> None:
        self._motion.release()
        self._output.end()
        answer.give(True, "torque commands have stopped")

    def _report_change(self) -> None:
        """Publish diagnostics at once if the node's condition changed, so that clients need not wait up to a second."""
        if self._condition() != self._last_condition:
            held_before = self._last_condition[-1] if self._last_condition else ""
            self._publish_diagnostics()
            held = self._motion.guiding.held
            if held and held != held_before:
                self.get_logger().warning(f"hand guiding ended, the arm is held until executor/hold is called: {held}")

    def _condition(self) -> tuple[str, bool, bool, str, bool, str]:
        """Return the node's condition for the diagnostics.

        Returns:
            Phase of the motion or "idle", whether the arm moves, whether states are missing although torque is
                commanded, a problem with the arm's publishers or settings ("" without one), whether states arrive, and
                why hand guiding ended ("" if it did not).
        """
        lost = self._motion.active and not self._fresh()
        doubt = next((source.refusal for source in self._sources if source.refusal), self._settings_refusal)
        held = self._motion.guiding.held
        return self._motion.phase or "idle", self._motion.moving, lost, doubt, self._fresh(), held

    def _publish_diagnostics(self) -> None:
        motion = self._motion
        self._last_condition = phase, moving, lost, doubt, _, held = self._condition()
        age = time.monotonic() - self._arrival_s
        values = self._output.report() | {
            "state_age_s": f"{age:.3f}",
            "malformed_states": str(self._malformed),
            "phase": phase,
            "elapsed_s": f"{motion.elapsed(self._stamp_ns):.3f}" if motion.phase else "",
            "moving": str(moving).lower(),
            "progress": f"{motion.progress(self._stamp_ns):.3f}",
            "controller": motion.controller.law.name,
            "guiding_held": held,
            "payload_kg": f"{self._payload.mass_kg:.3f}",
        }
        tracking = motion.tracking.summary(self.robot.joint_names)
        values |= {f"tracking_{key}": str(value) for key, value in tracking.items()}
        text = f"no joint_states for {age:.1f} s: has the hardware node ended?" if lost else phase
        text = text if lost or not held else f"held: {held}"
        level = 2 if lost or doubt else int(bool(held))
        report = [DiagnosticStatus("executor", level, doubt or text, "", values)]
        self._diagnostics.publish(encode_diagnostics(time.time_ns(), report))


def main() -> None:
    """Run the executor node."""
    prefer_latency()
    sys.setswitchinterval(SWITCH_INTERVAL_S)  # control continues while the next motion is checked
    run_node(ExecutorNode, events=True)


if __name__ == "__main__":
    main()
