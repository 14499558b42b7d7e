"""Fault of a commander that claims to hold the arm while a joint runs away; the driver itself must stop it.

The executor holds the arm in a drawn posture, torque on. Then a torque pushes one joint away, and its sender claims
that the arm is held. The production driver runs in lock-step with simulated line, servos and arm.
"""

import numpy as np

from benchmarks.faults.driver_cases import DriverCase
from benchmarks.faults.servo_lockstep import SimulatedClock, SimulatedLine
from dynid.control.controller import load_controller
from dynid.control.ff_pd import FeedforwardPd
from dynid.control.motion import MotionExecutor
from dynid.hardware.arm.dynamixel_arm import ArmSample, DynamixelArm
from dynid.hardware.loop.cycle import ControlLoop
from dynid.hardware.safety.claim_watch import DISPLACEMENT_LIMIT_RAD
from dynid.hardware.safety.guard import SafetyGuard
from dynid.hardware.safety.guard_states import GuardEvent, GuardState
from dynid.robot import FloatArray, Robot
from dynid.simulation.plant.arm import ArmPlant
from dynid.simulation.servo.chain import ServoChain
from dynid.simulation.servo.trace import TracedArm

PORT = "the simulated line"
HELD_S, PUSHED_S, STANDS_S = 1.5, 4.0, 1.0  # time of holding, longest push, time from fault to standstill [s]
WATCHED_S = 0.2  # time in which the arm must stand still [s]
ROOM_RAD = 1.4  # distance of the joint from its limit on the pushed side [rad]
OVERSHOOT_RAD = 0.35
STANDSTILL_RAD = float(np.deg2rad(1.0))  # largest movement of a standing joint, within its backlash
WORDS = "commander says that the arm is held"


class ClaimRun:
    """Run of the driver with a held arm that its commander then pushes; runs once.

    Args:
        robot: the robot.
        seed: seed of posture, joint and torque.
        claims: whether the commander claims that the arm is held while it pushes.
    """

    def __init__(self, robot: Robot, seed: int, *, claims: bool = True) -> None:
        random = np.random.default_rng([seed, 55])
        self._robot, self._claims = robot, claims
        self.axis = int(random.integers(robot.chain_size))
        side = float(random.choice((-1.0, 1.0)))
        edge = (robot.upper - robot.lower) * 0.15
        q0 = random.uniform(robot.lower + edge, robot.upper - edge)
        near = robot.lower[self.axis] + 0.2 if side > 0.0 else robot.upper[self.axis] - 0.2
        room = (robot.upper - robot.lower)[self.axis] - 0.4
        q0[self.axis] = near + side * random.uniform(0.0, max(0.0, room - ROOM_RAD))
        self._push = np.zeros(robot.size)
        self._push[self.axis] = side * random.uniform(0.6, 1.0) * robot.torque_limits[self.axis]
        self._clock, self.arm = SimulatedClock(seed), TracedArm(ArmPlant(robot, seed=seed, q0=q0))
        line = SimulatedLine(ServoChain(robot, self.arm), self._clock, seed=seed)
        self._driver = DynamixelArm(robot, PORT, allow_real_port=True, clock=self._clock, opener=line.open)
        self.guard = SafetyGuard(robot)
        self._loop = ControlLoop(self._driver, self.guard, on_waiting=self._on_waiting)
        self._executor = MotionExecutor(robot, FeedforwardPd(load_controller(robot)))
        self.pushed_s = self.fault_s = np.inf
        self.text = ""
        self._enabled_s: float | None = None

    def run(self) -> None:
        """Hold and push, then wait until the arm stands again or `PUSHED_S` have passed."""
        self._driver.open()
        self._loop.run()

    def _on_waiting(self, sample: ArmSample, _: FloatArray) -> None:
        now_s = self._clock.elapsed_s
        if self._enabled_s is None:
            self._loop.request(GuardEvent.ENABLE)
            self._enabled_s = now_s
            self._executor.hold(sample.q, sample.stamp_ns)
        if self.guard.state is GuardState.FAULT and not np.isfinite(self.fault_s):
            self.fault_s, self.text = now_s, self.guard.fault_text
        if now_s - self.fault_s > STANDS_S + WATCHED_S or now_s - self._enabled_s > HELD_S + PUSHED_S:
            self.arm.plant.check()
            self._loop.stop()
            self.guard.abandon_stop()
            return
        if not sample.complete or self.guard.state is not GuardState.ENABLED:
            return
        made_s = self._driver.bus.monotonic_s(sample.stamp_ns)
        if now_s - self._enabled_s < HELD_S:
            step = self._executor.update(sample.stamp_ns, sample.q)
            if step is not None:
                self._loop.set_command(step.tau, made_s, step.holds)
            return
        self.pushed_s = min(self.pushed_s, now_s)
        self._loop.set_command(self._push, made_s, self._claims)


def moves_while_held(robot: Robot, seed: int) -> list[str]:
    """Return violations if a joint moves that its commander claims to hold: a fault must name and stop it."""
    run = ClaimRun(robot, seed)
    run.run()
    named = WORDS in run.text and any(name in run.text for name in robot.joint_names)  # others, without torque, fall
    if not np.isfinite(run.fault_s) or not named:
        return [f"the driver did not name it; its text: {run.text}"]
    return claim_violations(run)


def claim_violations(run: ClaimRun) -> list[str]:
    """Return sentences about forbidden behaviour of the arm in a run."""
    found = []
    trace = run.arm.trace()
    if run.fault_s < run.pushed_s:
        found.append("a fault while the arm was really held")
    pushed = trace.between(run.pushed_s, run.fault_s + STANDS_S).q[:, run.axis]
    way = float(np.abs(pushed - pushed[0]).max())
    most = DISPLACEMENT_LIMIT_RAD + OVERSHOOT_RAD
    if way > most:
        found.append(f"the joint moved by {way:.2f} rad, expected at most {most:.2f} rad")
    late = trace.between(run.fault_s + STANDS_S, run.fault_s + STANDS_S + WATCHED_S).q  # until the run ends
    crept = float(np.abs(late - late[0]).max())
    if crept > STANDSTILL_RAD:
        found.append(f"a joint moved by {crept:.3f} rad later than {STANDS_S:g} s after the fault")
    return found


CLAIM_CASES = (DriverCase("joint moves while its commander says it is held", "arm stops", moves_while_held),)
