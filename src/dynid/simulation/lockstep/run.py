"""Simulation of the complete control loop in lock-step, that is, cycle by cycle and faster than real time.

Each control cycle does what the real-time driver does: it reads the servos (quantised by their registers), computes the
torque and sends it. A command takes effect some time after the state was read, because the wire and the processes take
time. This delay is rounded up to whole cycles. For CRANE-X7 it is 0.9 ms, so one cycle of 1 ms. A servo then keeps the
goal current for one cycle (zero-order hold), which adds half a cycle on average. So the total delay is 1.5 ms, as in
arXiv:2605.15949, section III-B.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from dynid.control.controller import Controller
from dynid.control.motion import MAX_TRACKING_ERROR_RAD, SETTLE_S, Phase
from dynid.control.motion_check import MotionCheck, MotionLimits
from dynid.errors import DataError, SafetyError
from dynid.export.mjcf import default_stops
from dynid.model.friction import FrictionLaw
from dynid.model.standard import StandardFile
from dynid.robot import FloatArray, Robot, read_only
from dynid.simulation.lockstep.kernels import actuate, compiled_law, sense
from dynid.simulation.plant.arm import ArmPlant
from dynid.simulation.plant.nuisances import quantise, stamps
from dynid.trajectory.motion import Motion
from dynid.trajectory.trajectory import Trajectory, approach

STAMP_STREAM = 3
CHECK_CYCLES = 200
# Torque is constant over a cycle, so one integration step per cycle is accurate (1e-8 rad over a run).
LONGEST_STEP_S = 0.001
PHASES: tuple[Phase, ...] = ("approach", "trajectory", "rest", "done")


@dataclass(frozen=True, eq=False)
class SimulatedRun:
    """Record of one simulated run over N cycles and n axes; all arrays are read-only.

    The fields up to `ddq_ref` are written to a bag. `q_true`, `dq_true` and `torque_motor` are true values of the
    simulation, for tests and figures only.

    Attributes:
        trajectory: name of the trajectory.
        trajectory_duration: duration of the trajectory without approach and return [s].
        joint_names: names of the axes, (n,).
        mount: name of the arm's mount.
        phases: names of the phases of the run, such as "approach", with the timestamp at which each began [ns].
        stamps_ns: timestamp of each state, from 0, (N,) [ns].
        q: encoder readings, (N, n) [rad].
        dq: readings of the velocity registers, (N, n) [rad/s].
        torque_present: present current times torque constant, (N, n) [N m].
        torque_command: torque that the controller computed from each state, (N, n) [N m].
        torque_goal: torque that takes effect right after each state, computed from an earlier state, (N, n) [N m].
        q_ref: reference positions, (N, n) [rad].
        dq_ref: reference velocities, (N, n) [rad/s].
        ddq_ref: reference accelerations, (N, n) [rad/s^2].
        torque_motor: true motor torque from each state to the next, noise included, (N, n) [N m].
        q_true: true joint angles, (N, n) [rad].
        dq_true: true joint velocities, (N, n) [rad/s].
    """

    trajectory: str
    trajectory_duration: float
    joint_names: tuple[str, ...]
    mount: str
    phases: tuple[tuple[Phase, int], ...]
    stamps_ns: NDArray[np.int64]
    q: FloatArray
    dq: FloatArray
    torque_present: FloatArray
    torque_command: FloatArray
    torque_goal: FloatArray
    q_ref: FloatArray
    dq_ref: FloatArray
    ddq_ref: FloatArray
    torque_motor: FloatArray
    q_true: FloatArray
    dq_true: FloatArray

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, np.ndarray):
                value.flags.writeable = False

    def window(self, phase: str) -> slice:
        """Return the slice of cycles that belong to one of `PHASES`; it is empty if the run has no such phase.

        The slice of "trajectory" excludes the standstill after the trajectory.
        """
        for index, (name, begin) in enumerate(self.phases):
            if name == phase:
                later = self.phases[index + 1][1] if index + 1 < len(self.phases) else self.stamps_ns[-1] + 1
                end = begin + round(self.trajectory_duration * 1e9) if phase == "trajectory" else later
                first, last = np.searchsorted(self.stamps_ns, [begin, end])
                return slice(int(first), int(last))
        return slice(0, 0)


@dataclass(frozen=True, eq=False)
class Schedule:
    """References of all N cycles of a run.

    Attributes:
        stamps_ns: timestamps, (N,) [ns].
        q: reference positions, (N, n) [rad].
        dq: reference velocities, (N, n) [rad/s].
        ddq: reference accelerations, (N, n) [rad/s^2].
        phases: names of the phases of the run, such as "approach", with the timestamp at which each begins [ns].
    """

    stamps_ns: NDArray[np.int64]
    q: FloatArray
    dq: FloatArray
    ddq: FloatArray
    phases: tuple[tuple[Phase, int], ...]


def schedule(
    robot: Robot, trajectory: Motion, q0: FloatArray, jitter: float, seed: int, *, to_rest: bool = True
) -> Schedule:
    """Return the references of a whole run: approach, trajectory and return to the rest posture.

    The references equal those of `dynid.control.motion.MotionExecutor`, sampled at the timestamps of all cycles.

    Args:
        robot: the robot.
        trajectory: the motion.
        q0: measured start posture, (n,) [rad].
        jitter: standard deviation of timestamp errors [s].
        seed: seed of the timestamp errors.
        to_rest: whether the arm returns to the rest posture; if not, the run ends with the standstill after the
            trajectory.
    """
    names = robot.joint_names
    plan: list[Motion] = [approach(q0, trajectory.start, names), trajectory]
    if to_rest:
        plan.append(approach(trajectory.end, robot.rest_posture, names, name="rest"))
    lengths = [part.duration + SETTLE_S for part in plan]
    cycle = robot.file.bus.cycle_s
    times = stamps(math.ceil(sum(lengths) / cycle), cycle, jitter, seed, STAMP_STREAM)
    stamps_ns = np.rint((times - times[0]) * 1e9).astype(np.int64)
    begins = np.concatenate([[0], np.cumsum(np.rint(np.array(lengths) * 1e9)).astype(np.int64)])
    cuts = [*np.searchsorted(stamps_ns, begins[:-1]).tolist(), len(stamps_ns)]
    samples = [
        part.sample_all((stamps_ns[first:last] - begin) / 1e9)
        for part, begin, first, last in zip(plan, begins[:-1].tolist(), cuts[:-1], cuts[1:], strict=True)
    ]
    q, dq, ddq = (read_only(np.concatenate(block)) for block in zip(*samples, strict=True))
    phases = list(zip(PHASES, begins[:-1].tolist(), strict=False))
    if to_rest:
        end = begins[-2] + plan[-1].duration * 1e9
        phases.append(("done", int(stamps_ns[np.searchsorted(stamps_ns, end)])))
    return Schedule(stamps_ns, q, dq, ddq, tuple(phases))


@dataclass(frozen=True, eq=False)
class Records:
    """Record of the control loop, (N, n) each. Readings of velocities and currents are derived from it later.

    Attributes:
        position: encoder readings with quantisation [rad].
        velocity: encoder velocities without quantisation [rad/s].
        command: torques that the controller computed [N m].
        goal: limited and quantised goal currents [A].
        in_force: currents in effect from each cycle to the next [A].
        motor: motor torques with noise [N m].
        q: true joint angles [rad].
        dq: true joint velocities [rad/s].
    """

    position: FloatArray
    velocity: FloatArray
    command: FloatArray
    goal: FloatArray
    in_force: FloatArray
    motor: FloatArray
    q: FloatArray
    dq: FloatArray


def _run(plant: ArmPlant, controller: Controller, plan: Schedule, cycle: float, name: str) -> Records:
    """Run the control loop over a whole schedule and return its record.

    An `ArmPlant` rests on a stand until its first current. Here the stand is removed before the first cycle, so the arm
    moves freely from then on. Torque noise is drawn once per cycle.

    Args:
        plant: the simulated arm.
        controller: controller of the arm, which is reset first.
        plan: references and timestamps of all cycles.
        cycle: duration of a cycle [s].
        name: name of the trajectory, for messages.

    Raises:
        SafetyError: the arm does not follow its reference.
        DataError: the arm diverged.
    """
    robot, nuisances = plant.robot, plant.nuisances
    count, n = plan.q.shape
    out = Records(*(np.zeros((count, n)) for _ in range(8)))
    noise = plant.drive_noise.rows(count)
    late = math.ceil(nuisances.delay / cycle - 1e-9)
    intervals = np.diff(plan.stamps_ns / 1e9, prepend=-cycle).tolist()
    seen, half_play, resolution = plant.q.copy(), 0.5 * nuisances.backlash, nuisances.position_step
    controller.reset(quantise(seen, resolution))
    for k, (q_ref, dq_ref, ddq_ref) in enumerate(zip(plan.q, plan.dq, plan.ddq, strict=True)):
        sense(k, plant.q, plant.dq, seen, half_play, resolution, out.position, out.velocity, out.q, out.dq)
        wanted = controller.update(intervals[k], out.position[k], q_ref, dq_ref, ddq_ref)
        actuate(
            k,
            late,
            wanted,
            robot.drive_constants,
            robot.drive_limits,
            nuisances.current_step,
            noise,
            out.command,
            out.goal,
            out.in_force,
            out.motor,
        )
        plant.push(out.motor[k], cycle)
        if (k + 1) % CHECK_CYCLES == 0 or k == count - 1:
            plant.check()
            _refuse_lost(robot, name, plan, out.position, range(k - k % CHECK_CYCLES, k + 1))
    return out


def simulate(
    robot: Robot,
    trajectory: Motion,
    controller: Controller,
    *,
    mount: str | None = None,
    seed: int = 0,
    switched_off: Collection[str] = (),
    q0: FloatArray | None = None,
    stops: tuple[FloatArray, FloatArray] | None = None,
    standard: StandardFile | None = None,
    to_rest: bool = True,
    friction: FrictionLaw | str | None = None,
) -> SimulatedRun:
    """Simulate one trajectory: approach, trajectory and, if `to_rest`, the return to the rest posture.

    Args:
        robot: the robot.
        trajectory: motion of all axes of the robot.
        controller: controller of the arm. A `FeedforwardPd` is replaced by a compiled copy and not changed. Any other
            controller is reset and then used.
        mount: name of a mount in robot.yaml; None is the default mount.
        seed: seed of all random nuisances (such as noise and jitter).
        switched_off: names of nuisances (such as noise or backlash) to leave out.
        q0: start posture at rest, (n,) [rad]; None is near the robot's rest posture.
        stops: lower and upper joint stops, (n,) each [rad]; None is slightly beyond the joint limits.
        standard: standard parameters of the simulated arm; None is the set that robot.yaml names.
        to_rest: whether the arm returns to the rest posture at the end.
        friction: friction law of the gears, or its name; None is the choice of robot.yaml.

    Raises:
        SafetyError: the trajectory exceeds the joint stops, or the arm does not follow it. The trajectory families of
            arXiv:2605.15949 need wider stops than the default.
        DataError: the trajectory is for other joints, or the arm diverged.
        UnknownNameError: an unknown nuisance or mount.
    """
    if trajectory.joint_names != robot.joint_names:
        raise DataError(
            f"trajectory '{trajectory.name}' moves {', '.join(trajectory.joint_names)}; robot '{robot.name}' has "
            f"{', '.join(robot.joint_names)}"
        )
    walls = stops or default_stops(robot)
    _refuse_beyond(trajectory, walls, robot)
    plant = ArmPlant(
        robot,
        mount=mount,
        seed=seed,
        switched_off=switched_off,
        q0=q0,
        stops=walls,
        standard=standard,
        longest_step_s=LONGEST_STEP_S,
        friction=friction,
    )
    start = quantise(plant.q, plant.nuisances.position_step)
    plan = schedule(robot, trajectory, start, plant.nuisances.stamp_jitter, seed, to_rest=to_rest)
    raw = _run(plant, compiled_law(controller), plan, robot.file.bus.cycle_s, trajectory.name)
    return assembled(plant, trajectory.name, trajectory.duration, mount or robot.file.default_mount, plan, raw)


def _refuse_beyond(trajectory: Motion, walls: tuple[FloatArray, FloatArray], robot: Robot) -> None:
    """Raise SafetyError if a trajectory exceeds the joint stops `walls`, lower and upper, (n,) each [rad].

    The check is exact, also between samples: the extreme positions of a `Trajectory` are its waypoints, and any other
    motion is checked as a piecewise polynomial.
    """
    if isinstance(trajectory, Trajectory):
        trajectory.check_limits(*walls, np.full(robot.size, np.inf))
        return
    MotionCheck(robot, MotionLimits(*walls, *np.full((3, robot.size), np.inf))).check([trajectory])


def _refuse_lost(robot: Robot, name: str, plan: Schedule, position: FloatArray, cycles: range) -> None:
    """Raise SafetyError if a joint is too far from its reference; the limit is that of the driver's `MotionExecutor`.

    Args:
        robot: the robot.
        name: name of the trajectory, for the message.
        plan: references of all N cycles.
        position: encoder readings, (N, n) [rad].
        cycles: cycles to check.
    """
    part = slice(cycles.start, cycles.stop)
    error = np.abs(position[part] - plan.q[part])
    if error.max() > MAX_TRACKING_ERROR_RAD:
        k, j = (int(i) for i in np.argwhere(error > MAX_TRACKING_ERROR_RAD)[0])
        limit = np.rad2deg(MAX_TRACKING_ERROR_RAD)
        raise SafetyError(
            f"trajectory '{name}': {robot.joint_names[j]} is {np.rad2deg(error[k, j]):.1f} deg off its reference at "
            f"{plan.stamps_ns[cycles[k]] / 1e9:.3f} s, at most {limit:.0f} deg are allowed"
        )


def assembled(
    plant: ArmPlant, trajectory: str, duration_s: float, mount: str, plan: Schedule, raw: Records
) -> SimulatedRun:
    """Return a simulated run from the control loop's record, with velocities and currents quantised.

    Args:
        plant: the simulated arm, for its constants and sensor noise.
        trajectory: name of the trajectory.
        duration_s: duration of the trajectory alone [s].
        mount: name of the mount.
        plan: references of all cycles.
        raw: record of the loop.
    """
    constants, nuisances = plant.robot.drive_constants, plant.nuisances
    # The current changes at the moment of reading. So the current before a reading lags by half a cycle, and the
    # current after it leads by half a cycle. Their mean has no such shift, as on a real arm, where writes are between
    # readings.
    before = np.vstack([np.zeros_like(raw.in_force[:1]), raw.in_force[:-1]])
    current = 0.5 * (before + raw.in_force) + plant.sensor_noise.rows(len(before))
    return SimulatedRun(
        trajectory=trajectory,
        trajectory_duration=duration_s,
        joint_names=plant.robot.joint_names,
        mount=mount,
        phases=plan.phases,
        stamps_ns=plan.stamps_ns,
        q=raw.position,
        dq=quantise(raw.velocity, nuisances.velocity_step),
        torque_present=quantise(current, nuisances.current_step) * constants,
        torque_command=raw.command,
        torque_goal=raw.in_force * constants,
        q_ref=plan.q,
        dq_ref=plan.dq,
        ddq_ref=plan.ddq,
        torque_motor=raw.motor,
        q_true=raw.q,
        dq_true=raw.dq,
    )
