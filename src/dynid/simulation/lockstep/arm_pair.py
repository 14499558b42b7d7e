"""Two simulated arms in lock-step, each with its own safety guard, under one bilateral controller.

Each cycle reads both arms. Simulated faults may delay, freeze or drop the states that the controller receives
(`Lines`). The controller then computes torques, and each guard limits the torques of its arm. Both arms advance under
these torques and under the forces of a hand and a wall.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dynid.control.bilateral.law import BilateralLaw, BilateralSettings
from dynid.control.bilateral.pair import SIDES, ArmPair, Reading
from dynid.control.control_model import ControlModel
from dynid.control.dynamics_kernel import SingleState
from dynid.hardware.safety.guard import SafetyGuard
from dynid.hardware.safety.guard_states import GuardEvent, GuardState
from dynid.robot import FloatArray, Robot
from dynid.simulation.lockstep.hand_and_wall import Tool, ToolState
from dynid.simulation.lockstep.stepped_arm import SteppedArm
from dynid.simulation.plant.nuisances import quantise

START_DEG = (0.0, 30.0, 0.0, -90.0, 0.0, -30.0, 0.0, 0.0)
DELAY_CYCLES = 1  # cycles from the sending of a torque to its effect
REACTION_S = 0.005  # time from the end of a pair until both drivers are disabled, for a service call [s]
RECORDED_ROWS = ("q", "dq", "push", "external", "command", "torque", "energy")


class Pusher(Protocol):
    """Interface of a source of external forces on an arm's tool, such as a hand or a wall."""

    def wrench(self, time_s: float, tool: ToolState) -> FloatArray:
        """Return the wrench on the tool at a time [s], in the base frame: force, then torque, (6,) [N, N m]."""


@dataclass
class Lines:
    """Simulated faults of the connection between one arm and the controller; none by default.

    Attributes:
        late_cycles: delay after which a state reaches the controller [cycles].
        silent_from_s: time from which no state reaches the controller [s].
        frozen_from_s: time from which positions and velocities no longer change, although timestamps do [s].
        still_from_s: time from which the encoders are stuck [s]: positions no longer change, and velocities are 0.
        mute_from_s: time from which commands do not reach the arm [s].
        position_sign: factors on the joints' positions and velocities, (n,) or one number [-].
        command_sign: factors on the joints' torque commands and torque readings, (n,) or one number [-].
    """

    late_cycles: int = 0
    silent_from_s: float = np.inf
    frozen_from_s: float = np.inf
    still_from_s: float = np.inf
    mute_from_s: float = np.inf
    position_sign: FloatArray | float = 1.0
    command_sign: FloatArray | float = 1.0
    _seen: list[Reading] = field(default_factory=list)

    def distorted_reading(self, time_s: float, reading: Reading) -> Reading:
        """Return the reading that the controller receives at a time [s] instead of the true reading.

        Signs of positions, velocities and torques are changed, and positions and velocities are frozen, as the
        attributes require. Then the reading is delayed by `late_cycles`. From `silent_from_s` on, all further readings
        are lost, and the last received one is returned in each cycle, with its old timestamp. The first reading always
        arrives, since the controller cannot start without it.
        """
        if time_s < self.silent_from_s or not self._seen:
            seen = self._state(time_s, reading)
            self._seen = [*self._seen, replace(seen, tau=self._torque(reading))][-self.late_cycles - 1 :]
        return self._seen[0]

    def _state(self, time_s: float, reading: Reading) -> Reading:
        """Return the reading at a time [s] with faults in positions and velocities, but with its true timestamp."""
        if self._seen and time_s >= self.still_from_s:
            return replace(self._seen[-1], stamp_ns=reading.stamp_ns, dq=np.zeros_like(reading.q))
        if self._seen and time_s >= self.frozen_from_s:
            return replace(self._seen[-1], stamp_ns=reading.stamp_ns)
        dq = None if reading.dq is None else reading.dq * self.position_sign
        return replace(reading, q=reading.q * self.position_sign, dq=dq)

    def _torque(self, reading: Reading) -> FloatArray | None:
        return None if reading.tau is None else reading.tau * self.command_sign


@dataclass(frozen=True, eq=False)
class PairRun:
    """Record of two arms over N cycles; in arrays, index 0 of the first axis is the leader, index 1 the follower.

    Attributes:
        time_s: simulated time, (N,) [s].
        rows: quantities of all joints by name, (2, N, n) each in SI. `q` and `dq` are true joint positions and
            velocities. `push` is the joint torque of hand and wall, and `external` is the estimate of `push` by the
            arm's observer. `command` is the controller's torque, and `torque` is the torque that the guard permitted.
        force: forces of hand and wall on the tools, (2, N, 3) [N].
        kinetic_j: kinetic energies of the arms, (2, N) [J].
        stopped: reason why the bilateral controller has stopped; "" if it has not.
        stopped_s: time at which the controller stopped [s]; infinity if it has not stopped.
        fell_back: reason why the controller left the requested mode; "" if it did not.
        torque_on: whether each arm's guard requires at the end of the run that the torque of the servos stays enabled.
        measured: encoder readings, (2, N, n) [rad].
        stamps_ns: timestamp of each cycle, (N,) [ns]: the later of the timestamps of the two arms' states.
    """

    time_s: FloatArray
    rows: dict[str, FloatArray]
    force: FloatArray
    kinetic_j: FloatArray
    stopped: str
    stopped_s: float
    fell_back: str
    torque_on: tuple[bool, bool]
    measured: FloatArray
    stamps_ns: NDArray[np.int64]


class LockstepPair:
    """Two simulated arms of the same robot under one bilateral controller; `run` advances them.

    Args:
        robot: the robot of both arms.
        dynamics: inverse dynamics function for the controller.
        models: models of leader and follower, for the controller.
        settings: settings of the bilateral controller; None is its defaults.
        q0: start posture of both arms, (n,) [rad], or one posture each, (2, n) [rad]; None is `START_DEG`.
        seed: seed of the leader's nuisances (such as noise); the follower's seed is one larger.
        lines: faults of the connections of leader and follower; None is no faults.
        mount: name of a mount in robot.yaml for both arms; None is the default mount.
    """

    def __init__(
        self,
        robot: Robot,
        dynamics: SingleState,
        models: Sequence[ControlModel],
        settings: BilateralSettings | None = None,
        *,
        q0: FloatArray | None = None,
        seed: int = 0,
        lines: Sequence[Lines] | None = None,
        mount: str | None = None,
    ) -> None:
        self.robot, self.tool = robot, Tool(robot)
        start = np.deg2rad(START_DEG) if q0 is None else np.asarray(q0)
        starts = np.broadcast_to(start, (2, robot.size))
        self.arms = [SteppedArm(robot, mount=mount, seed=seed + k, q0=starts[k]) for k in range(2)]
        self.guards = [SafetyGuard(robot) for _ in SIDES]
        self.lines = tuple(lines or (Lines(), Lines()))
        self.pair = ArmPair(robot, BilateralLaw(robot, models[0], models[1], dynamics, settings))
        self._dynamics, self._phi = dynamics, models[0].phi.values
        self._cycle = robot.file.bus.cycle_s
        self._commands: list[tuple[FloatArray | None, float]] = [(None, 0.0), (None, 0.0)]
        self._sent: tuple[deque[FloatArray], ...] = tuple(deque(maxlen=DELAY_CYCLES + 1) for _ in SIDES)
        self.time_s, self._stopped_s = 0.0, np.inf

    def tool_at_start(self) -> ToolState:
        """Return the present state of the leader's tool; before `run`, this is the state at the start."""
        return self.tool.state(self.arms[0].plant.q, self.arms[0].plant.dq)

    def run(self, seconds: float, hand: Pusher | None, wall: Pusher | None = None) -> PairRun:
        """Advance both arms for `seconds` [s] of simulated time and return the record.

        The hand acts on the leader's tool, and the wall on the follower's tool.

        Raises:
            SafetyError: the bilateral controller refuses to start.
            DataError: a simulated arm has diverged.
        """
        count, n = round(seconds / self._cycle), self.robot.size
        rows = {name: np.zeros((2, count, n)) for name in RECORDED_ROWS[:-1]}
        force, kinetic, measured = np.zeros((2, count, 3)), np.zeros((2, count)), np.zeros((2, count, n))
        times, stamps = np.zeros(count), np.zeros(count, dtype=np.int64)
        for k in range(count):
            readings = self._measure()
            stamps[k], times[k] = max(one.stamp_ns for one in readings), self.time_s
            self._control(readings)
            observers = (self.pair.law.leader, self.pair.law.follower)
            for side, (arm, pusher) in enumerate(zip(self.arms, (hand, wall), strict=True)):
                q, dq = arm.plant.q.copy(), arm.plant.dq.copy()
                tool = self.tool.state(q, dq)
                wrench = np.zeros(6) if pusher is None else pusher.wrench(self.time_s, tool)
                push, torque = tool.jacobian.T @ wrench, self._guarded(side, readings[side])
                command = self._commands[side][0]
                values = (q, dq, push, observers[side].external, torque if command is None else command, torque)
                for name, value in zip(RECORDED_ROWS, values, strict=False):
                    rows[name][side, k] = value
                force[side, k], measured[side, k] = wrench[:3], readings[side].q
                kinetic[side, k] = self._kinetic(q, dq)
                still = np.zeros(n)
                arm.command(torque, push, (readings[0].q, still, still))  # both follow the leader's posture
                self._sent[side].append(torque)
            self.time_s += self._cycle
        for arm in self.arms:
            arm.plant.check()
        return PairRun(
            time_s=times,
            rows=rows,
            force=force,
            kinetic_j=kinetic,
            stopped=self.pair.stopped,
            stopped_s=self._stopped_s,
            fell_back=self.pair.fell_back,
            torque_on=(self.guards[0].torque_needed, self.guards[1].torque_needed),
            measured=measured,
            stamps_ns=stamps,
        )

    def _kinetic(self, q: FloatArray, dq: FloatArray) -> float:
        """Return the kinetic energy [J] of an arm at q (n,) [rad] and dq (n,) [rad/s], by the leader's model."""
        still = np.zeros_like(q)
        momentum, gravity = (self._dynamics(q, still, one, self._phi) for one in (dq, still))
        return float(0.5 * dq @ (momentum - gravity))

    def _measure(self) -> list[Reading]:
        found = []
        for arm, sent in zip(self.arms, self._sent, strict=True):
            q = arm.measure().copy()
            found.append(Reading(arm.stamp_ns, q, sent[0] if len(sent) > DELAY_CYCLES else None, arm.velocity))
        return found

    def _control(self, readings: Sequence[Reading]) -> None:
        """Update the controller with this cycle's readings of both arms, and store the resulting torque commands."""
        now_ns = max(one.stamp_ns for one in readings)
        seen = [line.distorted_reading(self.time_s, one) for line, one in zip(self.lines, readings, strict=True)]
        if self.pair.stopped == "not started":
            self.pair.start(now_ns - round(self._cycle * 1e9), *[Reading(now_ns, one.q) for one in seen])
            for guard in self.guards:
                guard.handle(GuardEvent.ENABLE)
        torques = self.pair.update(now_ns, seen[0], seen[1])
        if self.pair.stopped:
            self._disable_guards()
        for side, (tau, line) in enumerate(zip(torques or (), self.lines, strict=False)):
            if self.time_s < line.mute_from_s:
                self._commands[side] = (tau * line.command_sign, self.time_s)

    def _disable_guards(self) -> None:
        """Disable the guard of each arm `REACTION_S` after the controller has stopped.

        If commands no longer reach an arm (`Lines.mute_from_s`), its guard stays enabled.
        """
        self._stopped_s = min(self._stopped_s, self.time_s)
        for guard, line in zip(self.guards, self.lines, strict=True):
            due = self._stopped_s + REACTION_S <= self.time_s < line.mute_from_s
            if due and guard.state is GuardState.ENABLED:
                guard.handle(GuardEvent.DISABLE)

    def _guarded(self, side: int, reading: Reading) -> FloatArray:
        """Return the torque that the guard of arm `side` permits for the last command to this arm, (n,) [N m].

        `side` is 0 for the leader and 1 for the follower.
        """
        arm, (tau, since) = self.arms[side], self._commands[side]
        dq = quantise(arm.plant.dq, arm.plant.nuisances.velocity_step)
        result = self.guards[side].filter(tau, self.time_s - since, reading.q, dq)
        return np.asarray(result.current_a * self.robot.joint_constants)
