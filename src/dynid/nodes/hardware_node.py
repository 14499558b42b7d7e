"""Lifecycle node that owns the servo bus: joint_states out and joint_commands in at 1 kHz, current mode.

configure opens the port and checks every servo; activate starts the cycle (states flow, torque is off); `~/enable`
switches torque on and off. Whatever ends the process, currents go to zero and torque off first.
"""

import dataclasses
import time

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from rcl_interfaces.msg import SetParametersResult
from rclpy.lifecycle import LifecycleState, TransitionCallbackReturn
from rclpy.parameter import Parameter
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import SetBool, Trigger

from dynid import __version__
from dynid.errors import DynidError
from dynid.hardware import control_table
from dynid.hardware.cycle import ControlLoop
from dynid.hardware.dynamixel_arm import ArmSample, DynamixelArm
from dynid.hardware.port import is_pseudo_terminal
from dynid.hardware.realtime import prefer_latency
from dynid.hardware.safety import GuardState, SafetyGuard
from dynid.nodes.common import LATCHED, NEWEST, STREAM, ManagedNode, declare, run_node, string
from dynid.recording.messages import DiagnosticStatus, JointStateDecoder, JointStateEncoder, encode_diagnostics
from dynid.recording.settings import HardwareSettings
from dynid.robot import FloatArray, load_robot

OK, WARN, ERROR = 0, 1, 2
OWN_CLOCK_S = 10.0  # a stamp farther back than this is of another clock


class HardwareNode(ManagedNode):
    """The arm as ROS topics; see the module."""

    def __init__(self) -> None:
        super().__init__("hardware")
        self.robot = load_robot(declare(self, "robot", "crane_x7", "robot name or folder", fixed=True))
        declare(self, "port_name", self.robot.file.bus.port, "serial port of the servo bus")
        declare(self, "baudrate", self.robot.file.bus.baudrate, "bit/s")
        declare(self, "mount", self.robot.file.default_mount, "how the arm is mounted: which way gravity points")
        declare(self, "allow_real_port", False, "must be true for a port behind which a real arm moves")
        declare(self, "realtime_priority", 0, "SCHED_FIFO priority of the bus thread; 0 does not ask for one")
        self._arm: DynamixelArm | None = None
        self._loop: ControlLoop | None = None
        self._sent = (0, 0)  # how many joint_states were published, and the stamp of the last; replaced as one
        self._encode_state = JointStateEncoder(self.robot.joint_names)
        self._encode_applied = JointStateEncoder(self.robot.joint_names, fields=("effort",))
        self._states = self.create_publisher(JointState, "joint_states", STREAM)
        self._applied = self.create_publisher(JointState, "applied_commands", STREAM)
        self._settings = self.create_publisher(String, "hardware_settings", LATCHED)
        self._diagnostics = self.create_publisher(DiagnosticArray, "diagnostics", 10)
        self._decode_command = JointStateDecoder(self.robot.joint_names)
        self.add_on_set_parameters_callback(self._on_set)
        self.create_subscription(JointState, "joint_commands", self._on_command, NEWEST, raw=True)
        self.create_service(SetBool, "~/enable", self._on_enable)
        self.create_service(Trigger, "~/clear_fault", self._on_clear_fault)
        self.create_timer(1.0, self._publish_diagnostics)

    def _on_set(self, parameters: list[Parameter]) -> SetParametersResult:
        """What is read when the port is opened cannot be changed behind an open port."""
        late = [one.name for one in parameters if self._arm is not None]
        if late:
            reason = f"{', '.join(late)}: takes effect at configure; clean the node up first"
            return SetParametersResult(successful=False, reason=reason)
        return SetParametersResult(successful=True)

    # -- lifecycle ---------------------------------------------------------------------------------------------

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Open the port, check and set up the servos."""
        port = string(self, "port_name")
        try:
            self.robot.gravity(string(self, "mount"))
            arm = DynamixelArm(
                self.robot,
                port,
                allow_real_port=bool(self.get_parameter("allow_real_port").value),
                baudrate=int(self.get_parameter("baudrate").value),
            )
            arm.open()
        except DynidError as error:
            self.get_logger().error(str(error))
            return TransitionCallbackReturn.FAILURE
        for line in arm.changed:
            self.get_logger().info(f"servo set up: {line}")
        self._arm = arm
        self._settings.publish(String(data=self._hardware_settings(port).model_dump_json()))
        return TransitionCallbackReturn.SUCCESS

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Start the cycle; torque stays off."""
        assert self._arm is not None
        priority = int(self.get_parameter("realtime_priority").value) or None
        guard = SafetyGuard(self.robot)
        self._loop = ControlLoop(
            self._arm,
            guard,
            on_waiting=self._publish,
            on_end=self._on_end,
            realtime_priority=priority,
        )
        self._loop.start()
        return super().on_activate(state)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Stop the arm damped, torque off, end the cycle."""
        self._stop_loop()
        return super().on_deactivate(state)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Close the port."""
        self._close_arm()
        return TransitionCallbackReturn.SUCCESS

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Stop and close."""
        self.shut_down()
        return TransitionCallbackReturn.SUCCESS

    def shut_down(self) -> None:
        """Zero current, torque off, port closed; more than once does no harm."""
        self._stop_loop()
        self._close_arm()

    def _stop_loop(self) -> None:
        if self._loop is None:
            return
        try:
            self._loop.stop()
        except DynidError as error:
            self.get_logger().fatal(str(error))
        finally:
            self._loop = None  # only now: what the end of the loop has to say needs it

    def _close_arm(self) -> None:
        arm, self._arm = self._arm, None
        if arm is None:
            return
        try:
            arm.close()
        except DynidError as error:
            self.get_logger().fatal(str(error))

    # -- the cycle's thread ------------------------------------------------------------------------------------

    def _publish(self, sample: ArmSample, applied_a: FloatArray) -> None:
        """Called while the next request is on the wire, where publishing costs the cycle no time."""
        if not sample.complete:  # counted as missed; an old value must not look like a new one
            return
        self._states.publish(
            self._encode_state.encode(sample.stamp_ns, position=sample.q, velocity=sample.dq, effort=sample.tau_present)
        )
        effort = applied_a * self.robot.torque_constants
        self._applied.publish(self._encode_applied.encode(sample.stamp_ns, effort=effort))
        self._sent = (self._sent[0] + 1, sample.stamp_ns)

    def _on_end(self, error: BaseException | None) -> None:
        loop = self._loop
        if loop is not None and loop.torque_off_unconfirmed is not None:
            self.get_logger().fatal(f"TORQUE MAY STILL BE ON, switch the arm's power off: {error}")
        elif error is not None:
            self.get_logger().error(f"the control loop ended, torque is off: {error}")

    # -- topics and services -----------------------------------------------------------------------------------

    def _on_command(self, raw: bytes) -> None:
        loop = self._loop
        if loop is None:
            return
        command = self._decode_command.decode(raw)
        effort = None if command is None else command[1]["effort"]
        if command is None or effort is None or not np.isfinite(effort).all():
            self.get_logger().warning(
                f"joint_commands refused: expected one finite effort for each of {', '.join(self.robot.joint_names)}",
                throttle_duration_sec=1.0,
            )
        if command is not None and effort is not None:
            # what is not finite, the guard takes for the end of the commands
            loop.set_command(effort, self._command_time(command[0]))

    def _command_time(self, stamp_ns: int) -> float | None:
        """When a command was made, on the monotonic clock [s]: the stamp of the state that it answers.

        A command that waited in a queue is as old as its state. None, for the time of receipt, where a stamp is not on
        the arm's clock: zero, in the future, or from another machine's clock.
        """
        if self._arm is None:
            return None
        made_s = (stamp_ns - self._arm.bus.realtime_offset_ns) * 1e-9
        return made_s if 0.0 <= time.monotonic() - made_s <= OWN_CLOCK_S else None

    def _on_enable(self, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        if self._loop is None:
            response.message = "the hardware node is not active; configure and activate it first"
            return response
        try:
            self._loop.enable() if request.data else self._loop.disable()
        except DynidError as error:
            response.message = str(error)
            return response
        response.success, response.message = True, "torque is on" if request.data else "torque is off"
        return response

    def _on_clear_fault(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        if self._loop is None:
            response.message = "the hardware node is not active"
            return response
        try:
            self._loop.clear_fault()
        except DynidError as error:
            response.message = str(error)
            return response
        response.success, response.message = True, "no fault"
        return response

    def _hardware_settings(self, port: str) -> HardwareSettings:
        mount = string(self, "mount")
        gravity = self.robot.gravity(mount)
        return HardwareSettings(
            robot=self.robot.name,
            joint_names=self.robot.joint_names,
            torque_constants_nm_per_a=tuple(self.robot.torque_constants.tolist()),
            mount=mount,
            gravity_m_s2=(float(gravity[0]), float(gravity[1]), float(gravity[2])),
            current_unit_a=control_table.CURRENT_A_PER_COUNT,
            cycle_s=self.robot.file.bus.cycle_s,
            simulated=is_pseudo_terminal(port),
            port=port,
            dynid_version=__version__,
        )

    def _publish_diagnostics(self) -> None:
        loop, sent = self._loop, self._sent
        if loop is None:
            status = DiagnosticStatus("hardware", WARN, "not active", "", {})
        else:
            # counters stay whole numbers: the completeness of a bag is judged by them
            values = {
                key: str(value) if isinstance(value, int) else f"{value:.6g}"
                for key, value in dataclasses.asdict(loop.statistics()).items()
            }
            values |= {"states_published": str(sent[0]), "last_state_stamp_ns": str(sent[1])}
            level = ERROR if loop.error or loop.guard.state is GuardState.FAULT else OK
            text = (
                str(loop.error)
                if loop.error
                else loop.guard.fault_text or loop.guard.stop_text or loop.guard.state.value
            )
            status = DiagnosticStatus("hardware", level, text, self.robot.name, values)
        self._diagnostics.publish(encode_diagnostics(time.time_ns(), [status]))


def main() -> None:
    """Run the hardware node."""
    prefer_latency()  # before any thread is started: they inherit it
    run_node(HardwareNode, events=True)


if __name__ == "__main__":
    main()
