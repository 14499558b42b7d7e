"""Lifecycle node that owns the servo bus: it publishes joint_states and executes joint_commands in current mode.

The transition configure opens the port, checks every servo and finds the cycle rate that the line allows. The
transition activate starts the cycle: states are published, torque is off. The service `~/enable` switches torque on and
off; it switches it on only after the machine has kept the cycle rate, see `dynid.hardware.loop.cycle_pace`. Before
the process ends because of a signal or an error, the arm is stopped and lowered, then torque goes off. If the process
is killed by SIGKILL, the servos' own watchdogs stop the motors. A message on the topic `estop` and a second publisher
of `joint_commands` also stop the arm. `~/clear_fault` ends the fault state if the cause is gone, `~/reboot` restarts
servos that report an error, and `~/reopen` opens the port again after the cable was unplugged.
"""

import time
from pathlib import Path

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.lifecycle import LifecycleState, TransitionCallbackReturn
from rclpy.parameter import Parameter
from sensor_msgs.msg import JointState
from std_msgs.msg import String

from dynid.errors import DataError, DynidError, SafetyError
from dynid.hardware.arm.cycle_rate import CycleRate, find_rate
from dynid.hardware.arm.dynamixel_arm import ArmSample, DynamixelArm
from dynid.hardware.bus.clock import SYSTEM_CLOCK, Clock
from dynid.hardware.loop.cycle import ControlLoop
from dynid.hardware.loop.cycle_pace import CyclePace
from dynid.hardware.loop.diagnostics import (
    FOUND_AGAIN,
    RATE,
    WARN,
    driver_settings,
    line_status,
    loop_status,
    servo_status,
    state_text,
)
from dynid.hardware.loop.paused_clock import PausedClock, open_paused_clock
from dynid.hardware.loop.realtime import prefer_latency
from dynid.hardware.loop.realtime_limit import ShareMeter, room_warning
from dynid.hardware.safety.guard import GuardState, SafetyGuard
from dynid.hardware.safety.limit_kernels import all_finite
from dynid.hardware.safety.load_history import LoadHistory, history_file
from dynid.hardware.safety.settings import SafetySettings, load_safety
from dynid.hardware.startup.bring_up import StartOptions
from dynid.hardware.startup.realtime_permission import read_limit
from dynid.nodes.arm_interlocks import SingleCommander
from dynid.nodes.common import (
    LATCHED,
    STREAM,
    ManagedNode,
    check_parameters,
    compile_first,
    declare,
    in_words,
    run_node,
    serve_trigger,
    string,
)
from dynid.nodes.deferred import Answer, DeferredSetBool
from dynid.nodes.emergency_stop import EmergencyStop
from dynid.parallel import cores
from dynid.recording.messages import DiagnosticStatus, JointStateDecoder, JointStateEncoder, encode_diagnostics
from dynid.rehearsal.arm import rehearse_arm, rehearse_messages
from dynid.robot import FloatArray, Robot, load_robot

DIAGNOSTICS_S = 1.0
STATE_POLL_S = 0.1  # longest delay of the report about a new state
DETAILS_EVERY = 5  # reports per detailed report of line and servos, whose values change slowly
REBOOT_TIMEOUT_S = 30.0
OWN_CLOCK_S = 10.0  # greatest age of a timestamp; an older one is from another clock


class HardwareNode(ManagedNode):
    """Lifecycle node that drives the servos of one arm, and offers the arm as ROS topics and services."""

    def __init__(self) -> None:
        super().__init__("hardware")
        self.robot = load_robot(declare(self, "robot", "crane_x7", "robot name or folder", fixed=True))
        declare(self, "port_name", self.robot.file.bus.port, "serial port of the servo bus")
        declare(self, "baudrate", self.robot.file.bus.baudrate, "bit/s")
        declare(
            self, "mount", self.robot.file.default_mount, "how the arm is mounted, which sets the direction of gravity"
        )
        declare(self, "allow_real_port", False, "must be true for the port of a real arm")
        declare(self, "write_eeprom", False, "allow writing settings that differ to a real arm's servos")
        declare(self, "take_over", False, "allow a start with torque on; torque goes off, so support the arm")
        declare(self, "reboot_servos", False, "allow rebooting servos that report a hardware error at startup")
        declare(
            self, "rate_hz", 0, "cycle rate: 1000, 500, 333 or 250 Hz; 0 finds the highest that line and machine keep"
        )
        declare(self, "overload_limits", False, "limit servos near their overload, whatever safety.yaml says")
        declare(self, "realtime_priority", 0, "SCHED_FIFO priority of the bus thread; 0 for none")
        declare(
            self,
            "clock_file",
            "",
            "paused clock of a simulated arm, which stops while this node or the commander is late",
        )
        self._zero_ends = bool(
            declare(
                self,
                "zero_is_no_command",
                False,
                "take efforts that are all zero for no command: a controller manager sends them when a controller ends",
                fixed=True,
            )
        )
        declare(self, "disable_cpu_idle", False, "disable CPU idle states while the arm is active, if permitted")
        self._arm: DynamixelArm | None = None
        self._paused_clock: PausedClock | None = None
        self._loop: ControlLoop | None = None
        self._rate: CycleRate | None = None
        self._pace: CyclePace | None = None
        self._times_off = 0  # how often torque went off in all loops, so that the commander notices a new loop
        self._history: LoadHistory | None = None
        self._history_port = self._logged_problem = ""
        self._sent = (0, 0)  # number of joint_states published, timestamp of the last; one tuple for thread safety
        self._encode_state = JointStateEncoder(self.robot.joint_names)
        self._encode_applied = JointStateEncoder(self.robot.joint_names, fields=("effort",))
        self._states = self.create_publisher(JointState, "joint_states", STREAM)
        self._applied = self.create_publisher(JointState, "applied_commands", STREAM)
        self._settings = self.create_publisher(String, "hardware_settings", LATCHED)
        self._diagnostics = self.create_publisher(DiagnosticArray, "diagnostics", 10)
        self._decode_command = JointStateDecoder(self.robot.joint_names)
        check_parameters(self, self._on_set)
        self._emergency = EmergencyStop(self, self._stop_arm)
        self._commander = SingleCommander(self, self._on_command, self._stop_enabled_arm)
        self._enable = DeferredSetBool(self, "~/enable", self._on_enable)
        self._waiting: list[Answer] = []  # pending enable requests, until the cycle rate is decided
        for name, serve in {"clear_fault": self._clear_fault, "reboot": self._reboot, "reopen": self._reopen}.items():
            serve_trigger(self, f"~/{name}", serve)
        self._reports, self._reported, self._share = 0, "", ShareMeter()
        self.create_timer(DIAGNOSTICS_S, self._publish_diagnostics)
        self.create_timer(STATE_POLL_S, self._look)

    def rehearse(self) -> None:
        """Drive a simulated arm in this process for some cycles, so that compilation never delays the real loop."""
        compile_first(self, self.robot, string(self, "mount"))
        rehearse_arm(self.robot)
        rehearse_messages(self.robot)

    def _on_set(self, parameters: list[Parameter]) -> None:
        """Raise SafetyError if parameters change while the port is open; they take effect in transition configure."""
        late = [one.name for one in parameters if self._arm is not None]
        if late:
            raise SafetyError(f"{', '.join(late)}: takes effect at configure; clean the node up first")

    # -- lifecycle ---------------------------------------------------------------------------------------------

    def _safety(self, robot: Robot) -> SafetySettings:
        settings = load_safety(robot)
        limits = settings.overload_limits or bool(self.get_parameter("overload_limits").value)
        return settings.model_copy(update={"overload_limits": limits})

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Open the port, check and set up the servos, and find the cycle rate."""
        port = string(self, "port_name")
        try:
            self.robot.gravity(string(self, "mount"))
            arm = DynamixelArm(
                self.robot,
                port,
                allow_real_port=bool(self.get_parameter("allow_real_port").value),
                baudrate=int(self.get_parameter("baudrate").value),
                clock=self._time_of(port),
                start=self._start_options(),
            )
            self._arm = arm  # assigned first, so that the arm is closed below after an error
            arm.open()
            self._rate = find_rate(arm, int(self.get_parameter("rate_hz").value))
        except Exception as error:  # a parameter may have any value, and an error must not end the node
            self._close_arm()
            self.get_logger().error(in_words(error))
            return TransitionCallbackReturn.FAILURE
        if self._rate.too_fast:
            self.get_logger().warning(f"cycle rate {self._rate}")
        else:
            self.get_logger().info(f"cycle rate {self._rate}")
        for line in arm.changed:
            self.get_logger().info(f"servo set up: {line}")
        if arm.bus.dialogue.late:
            self.get_logger().info(arm.bus.dialogue.lateness)
        self._pace = CyclePace(self._rate, held=self._paused_clock is not None)
        self._restore_history(arm, port)
        self._publish_settings(arm)
        return TransitionCallbackReturn.SUCCESS

    def _publish_settings(self, arm: DynamixelArm) -> None:
        offset_ns = arm.bus.realtime_offset_ns if self._paused_clock is None else None
        settings = driver_settings(
            arm.robot,
            string(self, "mount"),
            string(self, "port_name"),
            simulated=arm.simulated,
            stamp_offset_ns=offset_ns,
        )
        self._settings.publish(String(data=settings.model_dump_json()))

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Start the control cycle; torque stays off."""
        assert self._arm is not None
        self._start_loop(self._arm)
        return super().on_activate(state)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Stop the arm, lower it, switch torque off and end the control cycle."""
        return super().on_deactivate(state) if self._stop_loop() else TransitionCallbackReturn.FAILURE

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """End the control cycle and close the port."""
        if not self._stop_loop():
            return TransitionCallbackReturn.FAILURE
        self._close_arm()
        return TransitionCallbackReturn.SUCCESS

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """End the control cycle and close the port, as `shut_down` does."""
        self.shut_down()
        return TransitionCallbackReturn.SUCCESS

    def shut_down(self) -> None:
        """Stop and lower the arm, switch torque off and close the port; repeated calls have no effect.

        If the control loop does not end, the port stays open, because the loop's thread still uses it.
        """
        if self._stop_loop():
            self._close_arm()

    def _start_options(self) -> StartOptions:
        """Return the actions that the parameters permit at the start.

        They are to correct settings in the EEPROM, to switch off torque that is already on, and to reboot servos with a
        hardware error. The EEPROM of simulated servos may always be written.
        """
        names = ("write_eeprom", "take_over", "reboot_servos")
        write, take_over, reboot = (bool(self.get_parameter(name).value) for name in names)
        return StartOptions(write_eeprom=write or None, take_over=take_over, reboot_servos=reboot)

    def _time_of(self, port: str) -> Clock:
        path, cycle_s = string(self, "clock_file"), self.robot.file.bus.cycle_s
        self._paused_clock = open_paused_clock(Path(path), port, cycle_s) if path else None
        return self._paused_clock or SYSTEM_CLOCK

    def _restore_history(self, arm: DynamixelArm, port: str) -> None:
        """Load the used overload capacity of the servos at this port, which earlier runs have stored in a file.

        Nothing is done if it is loaded already. A simulated arm has no such file.
        """
        if self._history is None or self._history_port != port:
            self._history = LoadHistory(arm.robot, None if arm.simulated else history_file(arm.robot, port))
            self._history_port = port
        self._log_history_problem()

    def _log_history_problem(self) -> None:
        problem = "" if self._history is None else self._history.problem
        if problem and problem != self._logged_problem:
            self.get_logger().warning(problem)
        self._logged_problem = problem

    def _start_loop(self, arm: DynamixelArm) -> None:
        guard = SafetyGuard(arm.robot, self._safety(arm.robot), string(self, "mount"))
        assert self._history is not None
        guard.restore_load(self._history.now())
        self._loop = ControlLoop(
            arm,
            guard,
            take_commands=self._take_commands,
            on_waiting=self._publish,
            on_end=self._on_end,
            realtime_priority=int(self.get_parameter("realtime_priority").value) or None,
            disable_cpu_idle=bool(self.get_parameter("disable_cpu_idle").value),
            aligned=True,
            times_off=self._times_off,
        )
        self._loop.start()
        assert self._pace is not None, "the arm is configured"
        self._pace.restart()
        self._share = ShareMeter()  # the share of the former rate says nothing about this one
        if self._emergency.pressed:
            self._loop.fault(self._emergency.text)

    def _stop_loop(self) -> bool:
        """Stop the control loop and return whether it has ended; True if there was none."""
        loop = self._loop
        if loop is None:
            return True
        try:
            loop.stop(meanwhile=self._report_change)
        except DynidError as error:
            self.get_logger().fatal(str(error))
        if loop.running:
            return False
        self._loop = None  # only now: `_on_end` needs the loop
        return True

    def _close_arm(self) -> None:
        arm, self._arm = self._arm, None
        try:
            if arm is not None:
                arm.close()
        except DynidError as error:
            self.get_logger().fatal(str(error))
        if self._paused_clock is not None:
            self._paused_clock.close()
            self._paused_clock = None

    # -- the cycle's thread ------------------------------------------------------------------------------------

    def _publish(self, sample: ArmSample, applied_a: FloatArray) -> None:
        """Publish a state of the arm, and the applied currents (n,) [A] as torques.

        The control loop calls this in its own thread while the next request is on the wire.
        """
        if not sample.complete:  # counted as missed; old values must not be published as new ones
            return
        self._states.publish(
            self._encode_state.encode(sample.stamp_ns, position=sample.q, velocity=sample.dq, effort=sample.tau_present)
        )
        if self._applied.get_subscription_count():  # skip the encoding without a subscriber
            effort = applied_a * self.robot.joint_constants
            self._applied.publish(self._encode_applied.encode(sample.stamp_ns, effort=effort))
        self._sent = (self._sent[0] + 1, sample.stamp_ns)

    def _on_end(self, error: BaseException | None) -> None:
        loop = self._loop
        if loop is not None and self._history is not None:
            self._times_off = loop.times_off + 1
            self._history.keep(loop.guard.load)
        if loop is not None and loop.torque_off_unconfirmed is not None:
            self.get_logger().fatal(f"{error}; {FOUND_AGAIN}")
        elif error is not None:
            self.get_logger().error(f"the control loop ended, torque is off: {error}")

    # -- topics and services -----------------------------------------------------------------------------------

    def _take_commands(self) -> None:
        """Pass the received joint commands to the control loop, in the loop's thread; log exceptions, and continue."""
        try:
            self._commander.take(self._sent[1])
        except Exception as error:
            text = f"joint_commands were not taken: {in_words(error)}"
            self.get_logger().error(text, throttle_duration_sec=1.0)

    def _on_command(self, received: tuple[bytes, int]) -> None:
        loop = self._loop
        if loop is None:
            return
        try:
            command = self._decode_command.decode(received[0])
        except DataError:
            command = None
        effort = None if command is None else command[1]["effort"]
        if effort is not None and self._zero_ends and not effort.any():
            effort = np.full_like(effort, np.nan)
        if effort is None or not all_finite(effort):
            self._tell_refused(effort)
        if command is not None and effort is not None:
            # the guard takes an effort that is not finite for the end of the commands
            held = all_finite(command[1]["position"])  # positions are finite only while the arm is held
            loop.set_command(effort, self._command_time(loop, command[0], received[1]), held)

    def _tell_refused(self, effort: FloatArray | None) -> None:
        text = f"joint_commands refused: expected one finite effort for each of {', '.join(self.robot.joint_names)}"
        if effort is not None and np.isnan(effort).all():  # sent by a controller manager without active controller
            self.get_logger().warning(text, once=True)
        else:
            self.get_logger().warning(text, throttle_duration_sec=1.0)

    def _command_time(self, loop: ControlLoop, stamp_ns: int, received_ns: int) -> float:
        """Return the time from which the age of a command counts, on the arm's monotonic clock [s].

        This is the command's timestamp, which is that of the state from which it was computed. So the age includes the
        time in queues. If the timestamp cannot be of the arm's clock (zero, in the future, or of another machine's
        clock), the time of receipt counts.

        Args:
            loop: loop that gets the command.
            stamp_ns: timestamp of the command [ns].
            received_ns: time of receipt on the wall clock [ns].
        """
        bus = loop.arm.bus
        made_s, now_s = bus.monotonic_s(stamp_ns), bus.clock.monotonic_ns() * 1e-9
        if 0.0 <= now_s - made_s <= OWN_CLOCK_S:
            return made_s
        return now_s - max(0, time.time_ns() - received_ns) * 1e-9

    def _stop_arm(self, text: str) -> None:
        """Report a fault from outside the driver to the control loop, which stops the arm; `text` is the message."""
        self.get_logger().error(text)
        if self._loop is not None:
            self._loop.fault(text)

    def _stop_enabled_arm(self, text: str) -> None:
        """Report a fault to the control loop if torque is on, else only log a warning; `text` is the message.

        Without torque nothing has to be stopped, and `~/enable` is refused while the cause persists.
        """
        if self._loop is not None and self._loop.guard.state is not GuardState.DISABLED:
            self._stop_arm(text)
        else:
            self.get_logger().warning(text)

    def _active_loop(self) -> ControlLoop:
        if self._loop is None:
            raise SafetyError("the hardware node is not active; configure and activate it first")
        return self._loop

    def _on_enable(self, wanted: bool, answer: Answer) -> None:
        if wanted:
            self._waiting.append(answer)
            self._switch_on()
            return
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            one.give(False, "torque stays off: it was switched off while the cycle rate was on trial")
        try:
            self._active_loop().disable(meanwhile=self._report_change)
        except DynidError as error:
            answer.give(False, str(error))
            return
        answer.give(True, "torque is off")

    def _switch_on(self) -> None:
        """Switch torque on and answer the pending enable requests, once the cycle rate is decided.

        If torque must not be switched on, all requests are refused.
        """
        if not self._waiting:
            return
        success, text = False, ""
        try:
            loop = self._active_loop()
            if refusal := self._emergency.refusal or self._commander.refusal:
                raise SafetyError(f"cannot enable: {refusal}")
            if loop.running and loop.guard.state is GuardState.DISABLED and self._pace is not None:
                if not self._pace.may_enable() or (loop.fifo and not self._share.share):
                    return
                for warning in filter(None, (self._pace.warning, self._room_warning(loop))):
                    self.get_logger().warning(warning)
            loop.enable()
            self._report_change()  # before the answer: the caller may ask other nodes, which know torque from reports
            success, text = True, "torque is on"
        except DynidError as error:
            text = str(error)
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            one.give(success, text)

    def _room_warning(self, loop: ControlLoop) -> str:
        """Return a warning if the driver leaves too little processor time for other real-time programs, else ""."""
        return room_warning(self._share.share, cores(), read_limit()) if loop.fifo else ""

    def _lower_rate(self, loop: ControlLoop, pace: CyclePace) -> None:
        """Restart the control loop at a lower cycle rate if the machine does not keep the present rate.

        Torque must be off. The rate is not lowered while no node publishes commands and no request to enable torque is
        pending: other programs are then probably still starting, and delay the loop only for a while.

        Args:
            loop: running control loop.
            pace: trial that determines whether the machine keeps the cycle rate.

        Raises:
            SafetyError: the loop at the former rate does not end.
        """
        if not (self._commander.count or self._waiting) or not pace.lower(unasked=not self._waiting):
            return
        if not self._stop_loop():
            raise SafetyError(f"{pace.lowered}; but the loop at the former rate does not end")
        self._rate = pace.rate
        loop.arm.robot = loop.arm.robot.at_cycle(pace.rate.cycle_s)
        self.get_logger().warning(pace.lowered)
        self._start_loop(loop.arm)
        self._publish_settings(loop.arm)

    def _clear_fault(self) -> str:
        loop = self._active_loop()
        if refusal := self._emergency.clear_refusal:
            raise SafetyError(f"cannot clear a fault: {refusal}")
        loop.clear_fault()
        self._emergency.forget_absent()
        return "no fault"

    def _reboot(self) -> str:
        """Restart the servos that report a hardware error, and return a message about them; torque must be off."""
        loop, lines = self._active_loop(), list[str]()
        loop.between_cycles(lambda: lines.extend(loop.arm.reboot_servos()), REBOOT_TIMEOUT_S)
        return "; ".join(lines) or "no servo reports a hardware error"

    def _reopen(self) -> str:
        """Open a lost port again, check all servos, start the control loop and return a message; torque stays off."""
        loop = self._active_loop()
        if loop.running:
            raise SafetyError("nothing to reopen: the port is open and the cycle runs")
        self._stop_loop()
        try:
            loop.arm.bus.close()
            loop.arm.open()
        except DynidError:
            self._loop = loop  # keep the ended loop: its error stays in the diagnostics, and reopen can be retried
            raise
        self._start_loop(loop.arm)
        self._publish_settings(loop.arm)  # opening the port changed the offset of the timestamps
        return "the port is open again; torque is off"

    def _look(self) -> None:
        """Lower the cycle rate if it is not kept, and answer pending enable requests; called by a timer.

        The rate is lowered only while torque is off. If the state of the control loop has changed, diagnostics are
        published.
        """
        loop, pace = self._loop, self._pace
        if loop is not None and pace is not None and loop.running:
            if loop.guard.state is GuardState.DISABLED:
                self._share.note()
                pace.evaluate(loop, self._share.share / cores())
                self._lower_rate(loop, pace)
            else:
                pace.restart()
                self._share.restart()
        self._switch_on()
        self._report_change()

    def _report_change(self) -> None:
        """Publish diagnostics immediately if the state of the control loop has changed."""
        if self._loop is not None and state_text(self._loop) != self._reported:
            self._publish_diagnostics()

    def _publish_diagnostics(self) -> None:
        loop = self._loop
        if loop is None:
            statuses = [DiagnosticStatus("hardware", WARN, "not active", "", {})]
        else:
            statuses = [loop_status(loop, *self._sent, self._commander.count)]
            statuses[0].values[RATE] = self._pace.text if self._pace is not None else ""
            if self._reports % DETAILS_EVERY == 0:
                statuses += [line_status(loop, str(self._rate)), servo_status(loop.arm, loop.guard)]
            self._reports += 1
            if loop.running and self._history is not None:  # saved here too, in case the driver is killed
                self._history.keep(loop.guard.load)
                self._log_history_problem()
            self._reported = statuses[0].message
        self._diagnostics.publish(encode_diagnostics(time.time_ns(), statuses))


def main() -> None:
    """Run the hardware node in this process."""
    prefer_latency()  # before any thread is started, since threads inherit the setting
    run_node(HardwareNode, events=True)


if __name__ == "__main__":
    main()
