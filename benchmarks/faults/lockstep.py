"""Faults in lock-step: the production driver on simulated time, with its line and its arm, and the outcome.

All faults of one seed share the way to their moment: there the process branches, and each copy continues with one
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
from dynid.robot import FloatArray, Robot
from dynid.simulation.faults.script import Fault, FaultInjector, FaultScript
from dynid.simulation.plant.arm import ArmPlant
from dynid.simulation.servo.chain import ServoChain
from dynid.simulation.servo.trace import ArmTrace, TracedArm

PORT = "the simulated line"
STOP_WINDOW_S = STANDSTILL_S + HOLD_S
MOTION_WINDOW_S = 0.3
FALL_WINDOW_S = 3.0  # an arm that falls has reached its stops by then
LONGEST_START_S = 10.0

Counters = dict[str, int]
Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class Disturbed:
    """What goes wrong in a run.

    Attributes:
        faults: of servos and line; called with the moment of the fault on the servos' clock [s].
        commands: what happens to commands from then on.
        world: what else happens then, to the clock.
        axes: whose servos are hit, where it is not all of them.
        unpowered: whether those servos lose their power, too.
        locked: joints that stand still from then on, whatever happens: for a comparison.
        noticed_s: delay after which the driver may notice the fault [s]; more than 0 for data that it reads rarely.
        driver_gone_s: for how long the fault keeps the driver from running [s].
        window_s: how long the arm is watched from then on [s].
        reopen_s: how long after the fault opening the port again is tried [s]; None does not.
    """

    faults: Callable[[float], tuple[Fault, ...]] | None = None
    commands: Disturbance | None = None
    world: Callable[[SimulatedClock], None] | None = None
    axes: tuple[int, ...] = ()
    unpowered: bool = False
    locked: tuple[int, ...] = ()
    noticed_s: float = 0.0
    driver_gone_s: float = 0.0
    window_s: float = STOP_WINDOW_S
    reopen_s: float | None = None


@dataclass(frozen=True, eq=False)
class LockstepRun:
    """What a run left behind.

    Attributes:
        trace: what the arm did.
        published: what the driver published.
        fault_s: the moment of the fault on the arm's time [s].
        noticed_s: from when on the driver did not follow commands any more [s]; infinity if it always did.
        text: what the driver says in its diagnostics at the end.
        before: its counters at the fault.
        after: its counters at the end.
        following: whether it still followed commands at the end.
        watchdog_s: the armed bus watchdog [s].
        injected: how often each fault took effect.
        reopened: what came of opening the port again, empty for success; None where that was not tried.
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
    """The real driver in one process with a simulated wire, servos, arm and executor; runs once.

    Args:
        robot: the robot.
        piece: the motion and the moment of the fault.
        seed: of everything random.
        fast_read: whether the servos support the fast sync read.
        make_guard: makes the driver's guard, so that a test can plant a bad one.
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
        """Open the port, enable, move; then let each of several faults happen at the same moment, and watch.

        Everything runs in copies of this process, one for each fault.

        Args:
            disturbances: the faults.
            conclude: makes of a fault's index and run what is returned of it.
            learn: called with every result before the next fault, whose `conclude` may then know it.

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
            gc.freeze()  # the loop collects garbage when it starts; what is here already is none
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
        """At the moment of the fault: a copy for each fault, one after the other; only the copies return."""
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
        """In a copy: the outcome of the fault; the driver is not asked to tidy up."""
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
        """What a person does after a lost port: plug in, support the arm, open again over the torque left on."""
        if self._disturbed.reopen_s is None:
            return None
        moment_ns = START_NS + round((self._fault_s + self._disturbed.reopen_s) * 1e9)
        self.clock.advance_to(moment_ns)
        self.line.settle(moment_ns)
        self.driver.start = replace(self.driver.start, take_over=True)
        try:
            self.driver.open()
            sample = self.driver.read()
            self.driver.close()
        except BusError as error:
            return str(error)
        return "" if sample.complete else "opened again, but not all servos answer"

    # -- in the control loop -----------------------------------------------------------------------------------

    def _on_waiting(self, sample: ArmSample, _: FloatArray) -> None:
        """What the nodes do with a state: publish it, and answer it with a command."""
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
        """The moment of the fault."""
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

    # -- what the driver says ----------------------------------------------------------------------------------

    def _report(self) -> tuple[str, Counters, bool]:
        """(text, counters, whether commands are followed) as the diagnostics have it."""
        following = self.guard.state is GuardState.ENABLED and self.loop.error is None
        return state_text(self.loop), self._counters(), following

    def _counters(self) -> Counters:
        """What the driver counts, by status and name."""
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
    """What came of opening the port with faults in place: why it was refused (None if not), and what the arm saw."""

    refused: str | None
    torque_was_enabled: bool
    max_abs_current_a: float


def run_start(robot: Robot, faults: tuple[Fault, ...], seed: int, *, enables: bool = False) -> StartRun:
    """Open the port of servos that are not as they should be, and switch their torque on if it `enables`."""
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
    every = [*chain.servos.values(), *chain.twins.values()]
    return StartRun(refused, any(servo.torque_was_enabled for servo in every), float(chain.max_abs_current_a.max()))
