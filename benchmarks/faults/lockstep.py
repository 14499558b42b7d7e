"""Faults in lock-step: the production driver on simulated time, with its line and arm, and the outcome.

All faults of one seed share the motion up to the fault. There the process branches, and each copy continues with one
fault.
"""

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NoReturn, TypeVar

import numpy as np

from benchmarks.faults.branch import Branch
from benchmarks.faults.judge import HOLD_S, STANDSTILL_S, Published
from benchmarks.faults.motion import Commander, Disturbance, JointCommand, Piece
from benchmarks.faults.servo_lockstep import START_NS, SimulatedClock, SimulatedLine
from dynid.errors import BusError, DataError
from dynid.hardware.arm.dynamixel_arm import ArmSample, DynamixelArm
from dynid.hardware.bus import control_table as table
from dynid.hardware.loop.cycle import ControlLoop
from dynid.hardware.loop.diagnostics import line_status, loop_status, state_text
from dynid.hardware.safety.guard import SafetyGuard
from dynid.hardware.safety.guard_states import GuardEvent, GuardState
from dynid.hardware.startup.servo_checks import HOLD_STILL
from dynid.robot import FloatArray, Robot
from dynid.simulation.faults.script import Fault, FaultInjector, FaultScript
from dynid.simulation.plant.arm import ArmPlant
from dynid.simulation.servo.chain import ServoChain
from dynid.simulation.servo.trace import ArmTrace, TracedArm

PORT = "the simulated line"
STOP_WINDOW_S = STANDSTILL_S + HOLD_S
MOTION_WINDOW_S = 0.3
FALL_WINDOW_S = 3.0  # time in which a falling arm reaches its stops [s]
LONGEST_START_S = 10.0
REOPEN_ATTEMPTS, REOPEN_AFTER_S = 8, 0.5  # number of attempts to reopen a port while the arm moves; interval [s]

Counters = dict[str, int]
Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class Disturbed:
    """Disturbance of a run.

    Attributes:
        faults: function that returns faults of servos and line for a moment on the servos' clock [s].
        commands: change of the commands from the fault on.
        world: event at the moment of the fault, such as a step of the clock.
        axes: axes of the affected servos; None are all.
        halved: axes that lose one of their servos, and so a part of their torque.
        unpowered: whether those servos lose their power, too.
        locked: joints that are fixed from the fault on, for a comparison.
        noticed_s: delay after which the driver may notice the fault [s]; more than 0 for data that it reads rarely.
        driver_gone_s: time for which the fault stops the driver [s].
        window_s: time for which the arm is watched from the fault on [s].
        reopen_s: time from the fault to the first attempt to reopen the port [s]; None for no attempt.
    """

    faults: Callable[[float], tuple[Fault, ...]] | None = None
    commands: Disturbance | None = None
    world: Callable[[SimulatedClock], None] | None = None
    axes: tuple[int, ...] = ()
    halved: tuple[int, ...] = ()
    unpowered: bool = False
    locked: tuple[int, ...] = ()
    noticed_s: float = 0.0
    driver_gone_s: float = 0.0
    window_s: float = STOP_WINDOW_S
    reopen_s: float | None = None

    @property
    def not_held(self) -> tuple[int, ...]:
        """Axes that the driver cannot be expected to hold."""
        return (*self.axes, *self.halved)


@dataclass(frozen=True, eq=False)
class LockstepRun:
    """Record of a run.

    Attributes:
        trace: motion of the arm.
        published: states published by the driver.
        fault_s: time of the fault on the arm's clock [s].
        noticed_s: time from which the driver no longer followed commands [s]; infinity if it always did.
        text: message of the driver's diagnostics at the end.
        before: the driver's counters at the fault.
        after: the driver's counters at the end.
        following: whether the driver still followed commands at the end.
        watchdog_s: the armed bus watchdog [s].
        injected: number of times that each fault took effect.
        reopened: error of reopening the port, "" for success; None without an attempt.
    """

    trace: ArmTrace
    published: Published
    fault_s: float
    noticed_s: float
    text: str
    before: Counters
    after: Counters
    following: bool
    watchdog_s: float
    injected: dict[str, int]
    reopened: str | None


@dataclass
class _Log:
    stamps_ns: list[int] = field(default_factory=list)
    q: list[FloatArray] = field(default_factory=list)


class LockstepChain:
    """Real driver in one process with a simulated wire, servos, arm and executor; runs once.

    Args:
        robot: the robot.
        piece: motion, and time of the fault.
        seed: seed of all random values.
        fast_read: whether the servos support the fast sync read.
        make_guard: creates the driver's guard, so that a test can use a faulty one.
    """

    def __init__(
        self,
        robot: Robot,
        piece: Piece,
        seed: int,
        *,
        fast_read: bool = True,
        make_guard: Callable[[Robot], SafetyGuard] = SafetyGuard,
    ) -> None:
        self.robot, self._piece, self._seed = robot, piece, seed
        self.clock = SimulatedClock(seed)
        self.arm = TracedArm(ArmPlant(robot, seed=seed, q0=piece.trajectory.start))
        self.chain = ServoChain(robot, self.arm)
        self.chain.knows_fast_read = fast_read
        self.line = SimulatedLine(self.chain, self.clock, seed=seed)
        self.driver = DynamixelArm(robot, PORT, allow_real_port=True, clock=self.clock, opener=self.line.open)
        self.guard = make_guard(robot)
        self.loop = ControlLoop(self.driver, self.guard, on_waiting=self._on_waiting)
        self._commander = Commander(robot, piece.trajectory)
        self._log = _Log()
        self._asked = self._begun = False
        self._fault_s, self._noticed_s = float("nan"), float("inf")
        self._end_s = LONGEST_START_S
        self._disturbed = Disturbed()
        self._at_fault: Callable[[], None] = lambda: None
        self._before: Counters = {}
        self._branch: Branch
        self._conclude: Callable[[LockstepRun], Any] | None = None

    def branch(
        self,
        disturbances: Sequence[Disturbed],
        conclude: Callable[[int, LockstepRun], Result],
        learn: Callable[[Result], None] = lambda _: None,
    ) -> list[Result]:
        """Open the port, enable and move; then inject each fault at the same moment and return the results.

        Everything runs in copies of this process, one for each fault.

        Args:
            disturbances: the faults.
            conclude: function from a fault's index and run to its result.
            learn: called with every result before the next fault, so that its `conclude` can use it.

        Raises:
            DataError: the moment of the fault was not reached, or a run failed.
        """
        trunk = Branch()
        if not trunk.is_copy:
            results: list[Result] = trunk.result()
            return results
        self._branch = trunk
        try:
            self._at_fault = partial(self._fork, disturbances, conclude, learn)
            self.driver.open()
            gc.freeze()  # the loop collects garbage at its start; existing objects are excluded
            self.loop.run()
            self._over()  # it ended by itself
        except BaseException as error:
            self._branch.give_up(error)

    def _fork(
        self,
        disturbances: Sequence[Disturbed],
        conclude: Callable[[int, LockstepRun], Result],
        learn: Callable[[Result], None],
    ) -> None:
        """Create a copy for each fault, one after the other, at the moment of the fault; only copies return."""
        results: list[Result] = []
        for index, disturbed in enumerate(disturbances):
            leaf = Branch()
            if leaf.is_copy:
                self._branch, self._conclude = leaf, partial(conclude, index)
                return self._disturb(disturbed)
            results.append(leaf.result())
            learn(results[-1])
        self._branch.hand_back(results)

    def _over(self) -> NoReturn:
        """Return the outcome of the fault to the original and end this copy without closing the driver."""
        text, after, following = self._report()
        if self._conclude is None:
            raise DataError(f"seed {self._seed}: the moment of the fault was not reached: {text}")
        reopened = self._reopen()
        end_ns = START_NS + round(self._end_s * 1e9)
        self.clock.advance_to(end_ns)
        self.line.settle(end_ns)
        run = LockstepRun(
            trace=self.arm.trace(),
            published=self._published(),
            fault_s=self._fault_s,
            noticed_s=self._noticed_s,
            text=text,
            before=self._before,
            after=after,
            following=following,
            watchdog_s=self.driver.watchdog_count * table.WATCHDOG_S_PER_COUNT,
            injected={} if self.line.faults is None else self.line.faults.injected,
            reopened=reopened,
        )
        self._branch.hand_back(self._conclude(run))

    def _reopen(self) -> str | None:
        """Act as a person after a lost port: plug in, support the arm, and reopen with torque left on."""
        if self._disturbed.reopen_s is None:
            return None
        moment_ns = START_NS + round((self._fault_s + self._disturbed.reopen_s) * 1e9)
        self.clock.advance_to(moment_ns)
        self.line.settle(moment_ns)
        self.driver.start = replace(self.driver.start, take_over=True)
        refused = ""
        for _ in range(REOPEN_ATTEMPTS):
            try:
                self.driver.open()
                sample = self.driver.read()
                self.driver.close()
            except BusError as error:
                refused = str(error)
                if HOLD_STILL not in refused:
                    return refused
                self.driver.bus.close()
                self.clock.sleep(REOPEN_AFTER_S)
                continue
            return "" if sample.complete else "opened again, but not all servos answer"
        return refused

    # -- in the control loop -----------------------------------------------------------------------------------

    def _on_waiting(self, sample: ArmSample, _: FloatArray) -> None:
        """Process a state as the nodes do: publish it and answer it with a command."""
        if self.clock.elapsed_s >= self._end_s:
            try:
                self._over()
            except BaseException as error:
                self._branch.give_up(error)
        if not sample.complete:
            return
        self._log.stamps_ns.append(sample.stamp_ns - self.driver.bus.realtime_offset_ns)
        self._log.q.append(sample.q)
        if not self._asked:
            self._asked = True
            self.loop.request(GuardEvent.ENABLE)
        if self.guard.state is GuardState.ENABLED and not self._begun:
            self._begun = True
            self._commander.begin(sample)
            self._fault_s = self.clock.elapsed_s + self._piece.fault_s
            self._end_s = self._fault_s + LONGEST_START_S
            self.clock.after(self._fault_s, self._happen)
        if self._begun:
            if self.guard.state is not GuardState.ENABLED:
                self._noticed_s = min(self._noticed_s, self.clock.elapsed_s)
            for command in self._commander.commands(sample):
                self._receive(command)

    def _happen(self, due_ns: int) -> None:
        """Inject the fault."""
        self.line.settle(due_ns)
        self._at_fault()

    def _disturb(self, disturbed: Disturbed) -> None:
        self._disturbed, self._before = disturbed, self._counters()
        self._end_s = self._fault_s + disturbed.driver_gone_s + disturbed.window_s
        if disturbed.faults is not None:
            script = FaultScript(seed=self._seed, faults=disturbed.faults(self.chain.time_s))
            self.line.faults = FaultInjector(script, self.chain)
            self.line.faults.advance()
        self.arm.plant.lock(disturbed.locked)
        self._commander.disturbance = disturbed.commands
        if disturbed.world is not None:
            disturbed.world(self.clock)

    def _receive(self, command: JointCommand) -> None:
        made_s = self.driver.bus.monotonic_s(command.stamp_ns)
        self.loop.set_command(command.tau, made_s)

    # -- reports of the driver ---------------------------------------------------------------------------------

    def _report(self) -> tuple[str, Counters, bool]:
        """Return text, counters, and whether commands are followed, as in the diagnostics."""
        following = self.guard.state is GuardState.ENABLED and self.loop.error is None
        return state_text(self.loop), self._counters(), following

    def _counters(self) -> Counters:
        """Return the driver's counters by status and name."""
        statuses = (loop_status(self.loop, 0, 0, 1), line_status(self.loop))
        return {
            f"{status.name}: {name}": int(value)
            for status in statuses
            for name, value in status.values.items()
            if value.isdigit()
        }

    def _published(self) -> Published:
        stamps = (np.array(self._log.stamps_ns, dtype=np.int64) - START_NS) * 1e-9
        q = np.array(self._log.q, dtype=np.float64).reshape(-1, self.robot.size)
        return Published(stamps.astype(np.float64), q)


@dataclass(frozen=True)
class StartRun:
    """Result of a start with faults: why it was refused (None if it was not), and the arm's record."""

    refused: str | None
    torque_was_enabled: bool
    max_abs_current_a: float


def run_start(robot: Robot, faults: tuple[Fault, ...], seed: int, *, enables: bool = False) -> StartRun:
    """Open the port of faulty servos and, if `enables`, switch torque on; return the result."""
    clock = SimulatedClock(seed)
    chain = ServoChain(robot, TracedArm(ArmPlant(robot, seed=seed)))
    line = SimulatedLine(chain, clock, FaultInjector(FaultScript(seed=seed, faults=faults), chain), seed=seed)
    driver = DynamixelArm(robot, PORT, allow_real_port=True, clock=clock, opener=line.open)
    refused = None
    try:
        driver.open()
        if enables:
            driver.enable()
        driver.close()
    except BusError as error:
        refused = str(error)
    every = [*chain.servos.values(), *chain.duplicate_id_servos.values()]
    return StartRun(refused, any(servo.torque_was_enabled for servo in every), float(chain.max_abs_current_a.max()))
