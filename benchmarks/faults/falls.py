"""The table "falls": whether a stopped arm ends where it stays without torque, from any posture.

Random postures, a third of them near a balance, with a payload and on three mounts, are stopped in five ways. The
production driver runs in lock-step with simulated line, servos and arm.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import mujoco
import numpy as np

from benchmarks.faults.drawn import Drawn
from benchmarks.faults.servo_lockstep import SimulatedClock, SimulatedLine
from dynid.control.controller import load_controller
from dynid.control.ff_pd import FeedforwardPd
from dynid.control.motion import MotionExecutor
from dynid.errors import BusError, DataError
from dynid.hardware.arm.dynamixel_arm import ArmSample, DynamixelArm
from dynid.hardware.loop.cycle import ControlLoop
from dynid.hardware.safety.guard import SafetyGuard, load_safety
from dynid.hardware.safety.guard_states import GuardEvent, GuardState
from dynid.hardware.safety.posture import Posture
from dynid.hardware.safety.settings import SafetySettings
from dynid.robot import FloatArray, Robot, load_robot
from dynid.simulation.faults.script import FaultInjector, FaultScript, ServoError
from dynid.simulation.plant.arm import ArmPlant
from dynid.simulation.plant.held import holding
from dynid.simulation.servo.chain import ServoChain
from dynid.simulation.servo.trace import ArmTrace, TracedArm

CAUSES = ("disable", "fault", "estop", "SIGTERM", "lost executor")
MOUNTS = {"upright": (0.0, 0.0, -9.80665), "wall": (9.80665, 0.0, 0.0), "inverted": (0.0, 0.0, 9.80665)}
FRICTIONS = ("M6", "viscous")
# cycle of a usual adapter and of the fastest one [s]; number of cases per fast one
CYCLES_S, FAST_EVERY = (0.002, 0.001), 7
HEAVIEST_KG = 0.5
NEAR_RAD, EDGE_RAD, SCAN_RAD = np.deg2rad([10.0, 4.0, 2.0])
HELD_S = 0.7  # time from torque on to the stop [s]
SETTLED_S = 5.0  # time for which the arm is watched after torque off [s]
LONGEST_S, MOST_RAD, FASTEST_M_S = 30.0, float(np.deg2rad(3.0)), 0.7
LOOKED_EVERY_S, SLOWEST_M_S = 0.002, 1e-3
NEARLY_NOTHING_A = 1e-9
GIVEN_UP_S = 45.0  # longest run if torque never goes off [s]


@dataclass(frozen=True)
class Fall:
    """Random stop.

    Attributes:
        q_deg: posture, (n,) [deg].
        payload_kg: mass in the hand.
        mount: a name of `MOUNTS`.
        cause: a name of `CAUSES`.
        friction: friction model of the simulated arm's gears.
        balanced: whether the posture was drawn near a balance.
        seed: seed of all random values in the run.
        cycle_s: cycle of the driver [s].
    """

    q_deg: tuple[float, ...]
    payload_kg: float = 0.0
    mount: str = "upright"
    cause: str = "disable"
    friction: str = "M6"
    balanced: bool = True
    seed: int = 0
    cycle_s: float = CYCLES_S[0]

    @property
    def text(self) -> str:
        """Description of the case in one line."""
        where = "near a balance" if self.balanced else "anywhere"
        angles = ", ".join(f"{angle:.1f}" for angle in self.q_deg)
        return f"{self.mount}, {where}, {self.payload_kg:.2f} kg, {self.friction}, seed {self.seed}: [{angles}] deg"


@dataclass(frozen=True)
class Landing:
    """Result of a stop.

    Attributes:
        fall: the case.
        off_s: time from the stop to torque off [s]; infinite if it never went off.
        moved_rad: largest movement of a joint after torque off [rad].
        tool_m_s: largest speed of the tool from the stop on [m/s].
        rested: whether the driver reports that the arm came to rest.
    """

    fall: Fall
    off_s: float
    moved_rad: float
    tool_m_s: float
    rested: bool

    @property
    def violations(self) -> tuple[str, ...]:
        """Sentences about violated requirements."""
        found = []
        if self.off_s > LONGEST_S:
            found.append(f"torque went off after {self.off_s:.1f} s")
        if self.moved_rad > MOST_RAD:
            found.append(f"a joint moved by {np.rad2deg(self.moved_rad):.1f} deg after torque off")
        if self.tool_m_s > FASTEST_M_S:
            found.append(f"the tool moved at {self.tool_m_s:.2f} m/s")
        return tuple(found)


@dataclass(frozen=True)
class FallRow:
    """Row of the table: number of runs of one cause, violations and worst values."""

    cause: str
    runs: int
    violations: int
    median_off_s: float
    longest_off_s: float
    moved_deg: float
    tool_m_s: float
    unrested: int
    findings: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Common property of the row's cases."""
        return self.cause

    @property
    def figures(self) -> tuple[str, ...]:
        """Columns after the cause, as text for a table."""
        off = (f"{self.median_off_s:.1f}", f"{self.longest_off_s:.1f}")
        worst = (f"{self.moved_deg:.2f}", f"{self.tool_m_s:.2f}")
        return (str(self.runs), str(self.violations), *off, *worst, str(self.unrested))

    def as_dict(self) -> dict[str, object]:
        """Return the row's figures for JSON."""
        return {name: value for name, value in asdict(self).items() if name != "findings"}


def mounted(robot: Robot) -> Robot:
    """Return the robot with the mounts of this table."""
    file = robot.file.model_copy(update={"mounts_gravity_m_s2": MOUNTS, "default_mount": "upright"})
    return Robot(file, robot.folder)


def draw(robot: Robot, index: int, seed: int = 0) -> Fall:
    """Return the case with this number; every third case is near a balance.

    Raises:
        DataError: no balance was found.
    """
    random = np.random.default_rng([seed, index])
    mount, cause = tuple(MOUNTS)[index // 3 % 3], CAUSES[index % len(CAUSES)]
    payload = float(random.uniform(0.0, HEAVIEST_KG)) * float(random.random() < 0.8)
    balanced = index % 3 == 0
    q = _near_balance(robot, mount, payload, random) if balanced else _anywhere(robot, random)
    angles = tuple(float(round(angle, 2)) for angle in np.rad2deg(q))
    friction, cycle_s = FRICTIONS[int(random.random() < 0.3)], CYCLES_S[int(index % FAST_EVERY == 0)]
    return Fall(angles, payload, mount, cause, friction, balanced, index, cycle_s)


def _anywhere(robot: Robot, random: np.random.Generator) -> FloatArray:
    return np.asarray(random.uniform(robot.lower + EDGE_RAD, robot.upper - EDGE_RAD))


def _near_balance(robot: Robot, mount: str, payload_kg: float, random: np.random.Generator) -> FloatArray:
    """Return a posture (n,) with a joint within 10 deg of its balance; every second one stretches upwards."""
    robot = mounted(robot)
    lower, upper = robot.lower + EDGE_RAD, robot.upper - EDGE_RAD
    if mount == "upright" and random.random() < 0.5:
        q = random.uniform(-NEAR_RAD, NEAR_RAD, robot.size)
        return np.asarray(np.clip(q, robot.lower + 0.01, robot.upper - 0.01))
    standard = holding(robot, payload_kg) if payload_kg else None
    model = ArmPlant(robot, mount=mount, standard=standard).compiled.model
    data = mujoco.MjData(model)

    def load(q: FloatArray) -> FloatArray:
        data.qpos[:] = q
        mujoco.mj_forward(model, data)
        return np.array(data.qfrc_bias)

    for _ in range(100):
        q = random.uniform(lower, upper)
        axis = int(random.integers(robot.chain_size))
        angles = np.arange(lower[axis], upper[axis], SCAN_RAD)
        loads = np.array([load(np.where(np.arange(robot.size) == axis, angle, q))[axis] for angle in angles])
        steep = np.ptp(loads) > 0.3  # a joint with little gravity load has no distinct balance
        # unstable balance: the load falls with the angle
        tops = np.flatnonzero((loads[:-1] > 0.0) & (loads[1:] <= 0.0))
        if steep and len(tops):
            q[axis] = angles[random.choice(tops)] + random.uniform(-NEAR_RAD, NEAR_RAD)
            return np.asarray(np.clip(q, lower, upper))
    raise DataError(f"no balance of robot '{robot.name}' was found on the mount '{mount}'")


class FallRun:
    """Run of the driver with a simulated arm in one posture, until 5 s after torque off; runs once.

    Args:
        robot: the robot.
        fall: the case.
        settings: settings of the guard; None are those of the robot.
    """

    def __init__(self, robot: Robot, fall: Fall, settings: SafetySettings | None = None) -> None:
        self._robot, self._fall = mounted(robot).at_cycle(fall.cycle_s), fall
        self._posture = Posture(self._robot, fall.mount)
        standard = holding(self._robot, fall.payload_kg) if fall.payload_kg else None
        q0 = np.deg2rad(fall.q_deg)
        plant = ArmPlant(
            self._robot, mount=fall.mount, seed=fall.seed, q0=q0, standard=standard, friction=fall.friction
        )
        self._clock, self._arm = SimulatedClock(fall.seed), TracedArm(plant)
        self._chain = ServoChain(self._robot, self._arm)
        self._line = SimulatedLine(self._chain, self._clock, seed=fall.seed)
        driver = DynamixelArm(self._robot, "line", allow_real_port=True, clock=self._clock, opener=self._line.open)
        self._driver, self._guard = driver, SafetyGuard(self._robot, settings or load_safety(self._robot), fall.mount)
        self._loop = ControlLoop(driver, self._guard, on_waiting=self._on_waiting)
        self._executor = MotionExecutor(self._robot, FeedforwardPd(load_controller(self._robot)))
        self._asked = self._commands = False
        self._stop_s = self._off_s = np.inf

    def run(self) -> Landing:
        """Hold and stop the arm, and return the result.

        Raises:
            DataError: the driver failed.
        """
        self._driver.open()
        self._loop.run()
        if self._loop.error is not None or not np.isfinite(self._stop_s):
            raise DataError(f"{self._fall.text}: the driver ended before the stop: {self._loop.error}")
        end_s = self._clock.elapsed_s + SETTLED_S
        self._clock.advance_to(self._clock.now_ns + round(SETTLED_S * 1e9))
        self._line.settle(self._clock.now_ns)
        trace = self._arm.trace()
        after = trace.between(min(self._off_s, end_s), end_s).q
        return Landing(
            self._fall,
            self._off_s - self._stop_s,
            float(np.abs(after - after[0]).max()) if len(after) else np.inf,
            self._tool_speed(trace.between(self._stop_s, end_s)),
            not self._guard.stop_text.startswith("torque went off"),
        )

    def _tool_speed(self, trace: ArmTrace) -> float:
        """Return the largest speed of the tool, or of another link's end [m/s]."""
        slowest, last_s = 1.0, -np.inf
        for time_s, q, dq in zip(trace.time_s, trace.q, trace.dq, strict=True):
            if time_s - last_s >= LOOKED_EVERY_S:
                last_s = time_s
                self._posture.place(q)
                slowest = min(slowest, self._posture.pace(dq, SLOWEST_M_S, SLOWEST_M_S, 1.0))
        return SLOWEST_M_S / slowest

    def _on_waiting(self, sample: ArmSample, _: FloatArray) -> None:
        """Process a state as the nodes do, and inject the event that is due."""
        now_s = self._clock.elapsed_s
        if self._loop.times_off and not np.isfinite(self._off_s):
            self._off_s = now_s
            self._loop.stop()
        if now_s - self._stop_s > GIVEN_UP_S:
            raise BusError("torque did not go off")
        if not sample.complete:
            return
        if not self._asked:
            self._asked = True
            self._loop.request(GuardEvent.ENABLE)
            self._stop_s = np.inf
            self._clock.after(now_s + HELD_S, self._happen)
        if self._arm.plant.held and self._guard.state is GuardState.ENABLED:
            # the stand no longer supports the arm
            self._arm.plant.set_currents(np.full(self._robot.size, NEARLY_NOTHING_A))
        if self._guard.state is GuardState.ENABLED and self._fall.cause == "lost executor" and now_s < self._stop_s:
            self._command(sample)

    def _command(self, sample: ArmSample) -> None:
        """Send the command of an executor that holds the arm."""
        if not self._commands:
            self._commands = True
            self._executor.hold(sample.q, sample.stamp_ns)
        step = self._executor.update(sample.stamp_ns, sample.q)
        if step is not None:
            self._loop.set_command(step.tau, self._driver.bus.monotonic_s(sample.stamp_ns))

    def _happen(self, due_ns: int) -> None:
        """Inject the stop."""
        self._line.settle(due_ns)
        self._stop_s = self._clock.elapsed_s
        match self._fall.cause:
            case "disable":
                self._loop.request(GuardEvent.DISABLE)
            case "estop":
                self._loop.fault("emergency stop: true on topic estop")
            case "SIGTERM":
                self._loop.stop()
            case "fault":
                servo = self._robot.servo_ids[self._fall.seed % self._robot.size]
                alert = ServoError(kind="hardware_error", at_s=self._chain.time_s, servo=servo, error="input voltage")
                self._line.faults = FaultInjector(FaultScript(seed=self._fall.seed, faults=(alert,)), self._chain)
                self._line.faults.advance()


def land(case: Drawn) -> Landing:
    """Draw a case, run it and return its result."""
    robot = load_robot(case.robot)
    return FallRun(robot, draw(robot, case.number, case.seed)).run()


def fall_rows(found: Sequence[Landing]) -> list[FallRow]:
    """Return one row for each cause that occurs."""
    rows = []
    for cause in CAUSES:
        own = [one for one in found if one.fall.cause == cause]
        if own:
            off = np.array([one.off_s for one in own])
            bad = [one for one in own if one.violations]
            rows.append(
                FallRow(
                    cause,
                    len(own),
                    len(bad),
                    float(np.median(off)),
                    float(off.max()),
                    float(np.rad2deg(max(one.moved_rad for one in own))),
                    max(one.tool_m_s for one in own),
                    sum(not one.rested for one in own),
                    tuple(f"{one.fall.text}: {'; '.join(one.violations)}" for one in bad),
                )
            )
    return rows
