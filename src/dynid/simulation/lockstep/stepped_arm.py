"""Simulated arm that advances one control cycle at a time, for code that decides online, such as motion executors.

Mechanics, servo registers, delay and noise equal those of `dynid.simulation.lockstep.run`, which is faster because it
computes all references in advance.
"""

import math
from collections.abc import Callable, Collection

import numpy as np

from dynid.control.motion import MotionExecutor, MotionStep
from dynid.control.plan import Phase
from dynid.model.friction import FrictionLaw
from dynid.model.standard import StandardFile
from dynid.robot import FloatArray, Robot
from dynid.simulation.lockstep.kernels import actuate, sense
from dynid.simulation.lockstep.run import LONGEST_STEP_S, STAMP_STREAM, Records, Schedule, SimulatedRun, assembled
from dynid.simulation.plant.arm import SENSOR_NOISE, ArmPlant
from dynid.simulation.plant.nuisances import NoiseStream, quantise, stamps

BLOCK = 4096
RECORDED_ROWS = "position velocity q dq command goal in_force motor noise q_ref dq_ref ddq_ref".split()


class SteppedArm:
    """Simulated arm that is read and commanded once per control cycle.

    Args:
        robot: the robot.
        mount: name of a mount in robot.yaml; None is the default mount.
        seed: seed of all random nuisances (such as noise and jitter).
        switched_off: names of nuisances (such as noise or backlash) to leave out.
        q0: start posture at rest, (n,) [rad]; None is near the robot's rest posture.
        standard: standard parameters of the simulated arm; None is the set that robot.yaml names.
        friction: friction law of the gears, or its name; None is the choice of robot.yaml.

    Attributes:
        stamp_ns: timestamp of the last measurement [ns].
    """

    def __init__(
        self,
        robot: Robot,
        *,
        mount: str | None = None,
        seed: int = 0,
        switched_off: Collection[str] = (),
        q0: FloatArray | None = None,
        standard: StandardFile | None = None,
        friction: FrictionLaw | str | None = None,
    ) -> None:
        self.robot, self.mount, self._seed = robot, mount or robot.file.default_mount, seed
        self.plant = ArmPlant(
            robot,
            mount=mount,
            seed=seed,
            switched_off=switched_off,
            q0=q0,
            standard=standard,
            longest_step_s=LONGEST_STEP_S,
            friction=friction,
        )
        self._cycle = robot.file.bus.cycle_s
        self._late = math.ceil(self.plant.nuisances.delay / self._cycle - 1e-9)
        self._seen = self.plant.q.copy()
        self._count = 0
        self._rows = {name: np.zeros((0, robot.size)) for name in RECORDED_ROWS}
        self._stamps = np.zeros(0, dtype=np.int64)
        self.stamp_ns = 0
        self._seen_position = self._seen_velocity = np.zeros(robot.size)

    @property
    def position(self) -> FloatArray:
        """Last encoder readings, (n,) [rad]; zeros before the first measurement."""
        return self._seen_position

    @property
    def velocity(self) -> FloatArray:
        """Last readings of the velocity registers, (n,) [rad/s]; zeros before the first measurement."""
        return quantise(self._seen_velocity, self.plant.nuisances.velocity_step)

    def _grow(self) -> None:
        """Extend the records by a block of cycles, and draw the noise and timestamps of these cycles."""
        size = len(self._stamps) + BLOCK
        self._rows = {name: np.vstack([rows, np.zeros((BLOCK, self.robot.size))]) for name, rows in self._rows.items()}
        noise = [self.plant.drive_noise.row(k) for k in range(size - BLOCK, size)]
        self._rows["noise"][size - BLOCK :] = noise
        times = stamps(size, self._cycle, self.plant.nuisances.stamp_jitter, self._seed, STAMP_STREAM)
        self._stamps = np.rint((times - times[0]) * 1e9).astype(np.int64)

    def measure(self) -> FloatArray:
        """Return the encoder readings of this cycle, (n,) [rad]; call it once per cycle, before `command`."""
        if self._count == len(self._stamps):
            self._grow()
        rows, nuisances = self._rows, self.plant.nuisances
        sense(
            self._count,
            self.plant.q,
            self.plant.dq,
            self._seen,
            0.5 * nuisances.backlash,
            nuisances.position_step,
            rows["position"],
            rows["velocity"],
            rows["q"],
            rows["dq"],
        )
        self.stamp_ns = int(self._stamps[self._count])
        self._seen_position = np.asarray(rows["position"][self._count])
        self._seen_velocity = np.asarray(rows["velocity"][self._count])
        return self._seen_position

    def command(
        self, tau: FloatArray, push: FloatArray | None = None, reference: tuple[FloatArray, ...] | None = None
    ) -> None:
        """Send torques to the servos and advance the arm by one cycle.

        Args:
            tau: commanded torques, (n,) [N m].
            push: external joint torques during the cycle, (n,) [N m]; None is zero.
            reference: reference position, velocity and acceleration, (n,) each, which are only recorded.
        """
        rows, k = self._rows, self._count
        if reference is not None:
            rows["q_ref"][k], rows["dq_ref"][k], rows["ddq_ref"][k] = reference
        actuate(
            k,
            self._late,
            tau,
            self.robot.drive_constants,
            self.robot.drive_limits,
            self.plant.nuisances.current_step,
            rows["noise"],
            rows["command"],
            rows["goal"],
            rows["in_force"],
            rows["motor"],
        )
        self.plant.push(rows["motor"][k], self._cycle, push)
        self._count += 1

    def follow(self, motion: MotionExecutor, push: FloatArray | None = None) -> MotionStep | None:
        """Advance one cycle with the torques of a motion executor; return the executor's step.

        If the executor returns None instead of a step, all commanded torques are zero. Errors of the executor are
        raised to the caller. `push` is the external joint torque during the cycle, (n,) [N m]; None is zero.
        """
        q = self.measure()
        step = motion.update(self.stamp_ns, q)
        reference = None if step is None else (step.q_ref, step.dq_ref, step.ddq_ref)
        self.command(np.zeros(self.robot.size) if step is None else step.tau, push, reference)
        return step

    def run(self, motion: MotionExecutor, until: Callable[[], bool], longest_s: float) -> bool:
        """Control the arm by a motion executor until `until()` is true; return whether `until()` became true.

        The run stops after at most `longest_s` [s] of simulated time.
        """
        for _ in range(round(longest_s / self._cycle)):
            if until():
                return True
            self.follow(motion)
        self.plant.check()
        return until()

    def recorded(self, name: str, duration_s: float, phases: list[tuple[Phase, int]]) -> SimulatedRun:
        """Return the record of all cycles since the start as a simulated run; repeated calls are allowed.

        Args:
            name: name of the trajectory.
            duration_s: duration of the trajectory [s].
            phases: phases of the run, with the timestamp at which each began [ns].
        """
        noise = self.plant.nuisances.torque_noise / self.robot.drive_constants
        self.plant.sensor_noise = NoiseStream(noise, self._seed, SENSOR_NOISE)
        rows = {name: values[: self._count].copy() for name, values in self._rows.items()}
        q, dq, ddq, _ = (rows.pop(key) for key in ("q_ref", "dq_ref", "ddq_ref", "noise"))
        plan = Schedule(self._stamps[: self._count].copy(), q, dq, ddq, tuple(phases))
        return assembled(self.plant, name, duration_s, self.mount, plan, Records(**rows))
