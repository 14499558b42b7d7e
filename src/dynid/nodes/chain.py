"""Processes of the whole chain: simulated arm (or a real port), hardware, executor, recorder, identification.

This module starts the processes without ROS launch, for machines on which only the Python wheels are installed.
"""

import contextlib
import signal
import tempfile
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Protocol

from dynid.errors import NodeError
from dynid.nodes.collect import LOG_HINT, Report, begin_recording, end_recording, execute, wait_for_arm
from dynid.nodes.domain import PrivateDomain, reserve_chain
from dynid.nodes.processes import Process, ProcessGroup, signals_handled
from dynid.nodes.supervisor import Supervisor
from dynid.rehearsal.compiling import ensure_compiled
from dynid.robot import Robot
from dynid.simulation.plant.motor import ALL_EFFECTS

PORT_TIMEOUT_S = 30.0
DISCOVERY_S = 2.0  # time in which running nodes are discovered [s]
ENDING = (signal.SIGTERM, signal.SIGHUP)
NODE_NAMES = ("hardware", "executor", "recorder", "identification")


class Layout(Protocol):
    """Assignment of the chain's processes to processors and priorities."""

    @property
    def driver_parameters(self) -> dict[str, str]:
        """Parameters of the hardware node that this layout requires."""
        ...

    def place(self, name: str, pid: int) -> None:
        """Set processors and priority of a process that has just been started."""
        ...


@dataclass(frozen=True)
class ChainOptions:
    """Options of a chain, which is the set of processes that drive one arm: simulated arm and ROS nodes.

    Attributes:
        robot: name of the robot, or path of the robot's folder, as in the parameter `robot` of the nodes.
        real_port: serial port of a real arm; None starts a simulated arm.
        mount: name of a mount in robot.yaml; None uses the default mount.
        switched_off: disturbances that the simulated arm leaves out, such as noise or backlash; see
            `dynid.simulation.plant.nuisances.NUISANCES`.
        seed: seed of the simulated arm's noise.
        friction: friction model of the simulated arm's gears, see `dynid.simulation.plant.gear_friction`; None uses
            that of robot.yaml.
        link: path of a symbolic link to the simulated arm's port; None creates no link.
        trace: new file for the true states of the simulated arm; None writes no file.
        identification: whether the identification node is started.
        driver: full name of the hardware node's module.
        layout: assignment of the started processes to processors and priorities; None changes neither.
        wire_time: whether simulated servos take as long to answer as servos on a real serial line. The host also needs
            time to compute the simulation, so transmission and computation together may exceed the cycle time.
        paused_clock: whether a simulated arm's clock pauses while a busy host delays the driver or the program that
            sends torque commands. Otherwise the simulated arm moves on during the delay, as a real arm does.
        adapter: adapter between the simulated servos and the driver, see `dynid.simulation.bus.adapter`. All adapters
            except uart imply `wire_time`.
        motor: effects of the simulated arm's motors, see `dynid.simulation.plant.motor`.
        rate_hz: rate of the control cycle [Hz]; 0 lets the driver find the highest rate that servo line and host allow.
        lead: trajectory along which a simulated hand guides the arm, see `dynid.simulation.plant.hand`; None simulates
            no hand.
        held_kg: mass of a body that the simulated arm picks up on SIGUSR1 and puts down on SIGUSR2 [kg]; None simulates
            no body.
        scene: path of the file with the space in which the arm may move, "" for the robot's own file, or "none" for no
            limits.
        consented: whether the user has consented to motions of the real arm on `real_port`. Without consent the driver
            refuses the port, unless it recognises the servos as simulated.
    """

    robot: str
    real_port: str | None = None
    mount: str | None = None
    switched_off: tuple[str, ...] = ()
    seed: int = 0
    link: Path | None = None
    trace: Path | None = None
    identification: bool = True
    driver: str = "dynid.nodes.hardware_node"
    layout: Layout | None = None
    wire_time: bool = False
    paused_clock: bool = True
    friction: str | None = None
    adapter: str = "uart"
    rate_hz: int = 0
    motor: tuple[str, ...] = ()
    lead: str | None = None
    held_kg: float | None = None
    scene: str = ""
    consented: bool = False

    @property
    def trips(self) -> bool:
        """Whether simulated servos switch themselves off at overload; if so, the driver limits currents to avoid it."""
        return bool({"overload", ALL_EFFECTS}.intersection(self.motor))


def _interrupt(number: int, _: FrameType | None) -> None:
    """Raise KeyboardInterrupt, as the handler of SIGTERM and SIGHUP while a chain runs.

    These signals then act like Ctrl-C: the `with` block of the chain is left, which brings the arm to rest before this
    process ends.
    """
    raise KeyboardInterrupt


def refuse_running_nodes(domain: str) -> None:
    """Raise NodeError if nodes of a chain, for example from a launch file, already run in this process's ROS domain.

    Two chains would command each other's arm. `domain` is the number of the domain, for the message.
    """
    with Supervisor() as call:
        end_s = call.now() + DISCOVERY_S
        call.wait(lambda: call.now() >= end_s or bool(_running_nodes(call)), 10 * DISCOVERY_S, "the passing of time")
        if found := _running_nodes(call):
            raise NodeError(
                f"{', '.join(found)} already run in ROS domain {domain}: end them, or choose another ROS_DOMAIN_ID"
            )


def _running_nodes(call: Supervisor) -> list[str]:
    return sorted(name for name in call.node.get_node_names() if name in NODE_NAMES)


class Chain:
    """Context manager that runs an arm and its nodes: simulated arm, hardware, executor, recorder, identification.

    Leaving it ends all processes. A simulated arm ends last, after the hardware node has brought it to rest. The nodes
    use the ROS domain that ROS_DOMAIN_ID names; without this variable, the chain reserves a free domain.

    Args:
        robot: robot of the arm.
        options: options of the arm and its nodes.
        logs: folder for the log files of the processes.

    Attributes:
        arm: process of the simulated arm; None for a real arm, and before the start.
        hardware: process of the hardware node; None before the start.
        executor: process of the executor node; None before the start.
        recorder: process of the recorder node; None before the start.

    Raises:
        NodeError: another chain runs in the domain of ROS_DOMAIN_ID, or this is not set and no domain is free.
    """

    def __init__(self, robot: Robot, options: ChainOptions, logs: Path) -> None:
        self.robot, self.options = robot, options
        self._domain = PrivateDomain()
        try:
            self._only = reserve_chain(self._domain.number)
        except NodeError:
            self._domain.release()
            raise
        self._signals = contextlib.ExitStack()
        self._group = ProcessGroup(logs, {}, None if options.layout is None else options.layout.place)
        held = options.paused_clock and options.real_port is None
        self._clock = Path(tempfile.gettempdir()) / f"dynid-clock-{uuid.uuid4().hex}" if held else None
        self._port_file = Path(tempfile.gettempdir()) / f"dynid-port-{uuid.uuid4().hex}"  # created by the arm
        self.arm: Process | None = None
        self.hardware: Process | None = None
        self.executor: Process | None = None
        self.recorder: Process | None = None
        self._supervisor: Supervisor | None = None

    @property
    def supervisor(self) -> Supervisor:
        """Client for the services and parameters of the running nodes."""
        assert self._supervisor is not None, "the chain is not started"
        return self._supervisor

    def __enter__(self) -> "Chain":
        self._signals.enter_context(signals_handled(dict.fromkeys(ENDING, _interrupt)))
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        with self._group:  # ends the processes
            pass
        self._signals.close()
        if self._supervisor is not None:
            self._supervisor.__exit__()
            self._supervisor = None
        self._only.close()
        self._domain.release()

    def _start(self) -> None:
        robot = self.options.robot
        ensure_compiled(self.robot, self.options.mount)
        if self._domain.chosen:
            refuse_running_nodes(self._domain.number)
        if self.options.real_port is None:
            self.arm = self._group.start("simulated_arm", self._simulated_arm_arguments())
        self.recorder = self._group.start_node("recorder_node", "recorder", {"robot": robot})
        if self.options.identification:
            self._group.start_node("identification_node", "identification", {"robot": robot})
        scene = {"scene": self.options.scene} if self.options.scene else {}
        self.executor = self._group.start_node("executor_node", "executor", {"robot": robot, **scene})
        port = self.options.real_port or self._simulated_port()
        parameters = {"robot": robot, "port_name": port, "mount": self.options.mount or self.robot.file.default_mount}
        if self.options.real_port is None:
            parameters["baudrate"] = self._simulated_baudrate()
        else:
            parameters["allow_real_port"] = str(self.options.consented).lower()
        if self._clock is not None:
            parameters["clock_file"] = str(self._clock)
        if self.options.rate_hz:
            parameters["rate_hz"] = str(self.options.rate_hz)
        if self.options.trips:
            parameters["overload_limits"] = "true"
        if self.options.layout is not None:
            parameters |= self.options.layout.driver_parameters
        self.hardware = self._group.start_module(self.options.driver, "hardware", parameters)
        self._supervisor = Supervisor(self._group.check)

    def _simulated_arm_arguments(self) -> list[str]:
        options = self.options
        arguments = ["-m", "dynid", "simulated-arm", "--robot", options.robot, "--seed", str(options.seed)]
        arguments += [
            "--wire-time" if options.wire_time or options.adapter != "uart" else "--no-wire-time",
            "--baudrate",
            self._simulated_baudrate(),
            "--adapter",
            options.adapter,
        ]
        named: dict[str, object] = {
            "--mount": options.mount,
            "--link": options.link,
            "--trace": options.trace,
            "--clock": self._clock,
            "--port-file": self._port_file,
        }
        named |= {"--friction": options.friction, "--lead": options.lead, "--held-kg": options.held_kg}
        for name, value in named.items():
            arguments += [name, str(value)] if value else []
        arguments += [text for name in options.motor for text in ("--motor", name)]
        return arguments + [text for name in options.switched_off for text in ("--without", name)]

    def _simulated_baudrate(self) -> str:
        return str(self.robot.file.simulation.baudrate or self.robot.file.bus.baudrate)

    def _simulated_port(self) -> str:
        """Wait until the simulated arm serves its port, and return the port's path."""
        deadline = time.monotonic() + PORT_TIMEOUT_S
        while not self._port_file.exists():
            self._group.check()
            if time.monotonic() > deadline:
                raise NodeError(f"the simulated arm did not start within {PORT_TIMEOUT_S:.0f} s")
            time.sleep(0.05)
        return self._port_file.read_text(encoding="utf-8").strip()

    def add_node(self, module: str, name: str, parameters: Mapping[str, str]) -> Process:
        """Start another node, which ends with the chain, and return its process.

        Args:
            module: name of the node's module in dynid.nodes.
            name: name of the process and its log file.
            parameters: ROS parameters by name, in addition to `robot`.
        """
        return self._group.start_node(module, name, {"robot": self.options.robot, **parameters})

    def kill(self, process: Process) -> None:
        """Kill one process of the chain immediately; the other processes continue."""
        self._group.kill(process)

    def bring_up(self) -> None:
        """Configure and activate the lifecycle nodes, then switch torque on.

        Raises:
            NodeError: a node refused, or the arm's states do not arrive.
        """
        self.activate()
        self.supervisor.set_enabled("hardware", True)

    def activate(self) -> None:
        """Configure and activate the lifecycle nodes, and wait for the arm's states; torque stays off.

        Raises:
            NodeError: a node refused, or the arm's states do not arrive; the message gives the reason.
        """
        call = self.supervisor
        for node in ("recorder", "hardware"):
            for step in ("configure", "activate"):
                try:
                    call.transition(node, step)
                except NodeError as error:
                    reason = self._reason(node)
                    raise NodeError(reason) if reason else error from None
        wait_for_arm(call)

    def _reason(self, name: str) -> str:
        return next((p.last_error() for p in self._group.processes if p.name == name), "")

    def run_trajectory(self, name: str, profile: str, bag: Path, report: Report) -> float:
        """Execute one trajectory, from the approach to the return to rest, and record it into a bag.

        Torque must be on, and stays on.

        Args:
            name: name of the trajectory, or path of its file.
            profile: name of the excitation profile, a set of motion limits in excitation.yaml, such as "limited".
            bag: folder of the new bag.
            report: function that receives the progress.

        Returns:
            The trajectory's duration [s].

        Raises:
            NodeError: the motion was refused, cancelled, or not done in time.
        """
        call = self.supervisor
        begin_recording(call, name, profile, bag)
        try:
            duration = execute(call, name, report)
        except NodeError as error:
            if "cancelled" not in str(error) or not (reason := self._reason("executor")):
                raise
            raise NodeError(f"{error.args[0].removesuffix(LOG_HINT)}: {reason}") from None
        end_recording(call)
        return duration
