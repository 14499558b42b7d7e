"""Complete control loop in lock-step: plant, servo registers, delay and controller, as fast as possible.

Each control cycle does what the real-time chain does: read the servos (quantised by their registers), compute the
torque, send it. The delay from reading a state to the effect of its answer is the time of wire and processes,
rounded up to whole cycles, because a servo holds one goal current for one cycle. For CRANE-X7 that is 0.9 ms, so one
cycle; with the half cycle of the hold itself it is the 1.5 ms of arXiv:2605.15949, section III-B.
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
    """One run, N cycles of n axes; all arrays read-only, torques in N m.

    The fields up to `ddq_ref` are those of a bag, with the same meaning. `q_true`, `dq_true` and `torque_motor` are the
    simulation's own and are for tests and figures only.

    Attributes:
        trajectory_duration: length of the trajectory alone [s].
        joint_names: names of the axes, (n,).
        phases: the phases, with the timestamp at which each began [ns].
        stamps_ns: time of reading of each state by the recorder's clock, from 0, (N,) [ns].
        q: encoder readings, (N, n) [rad].
        dq: velocity registers, (N, n) [rad/s].
        torque_present: present current times torque constant, (N, n).
        torque_command: the controller's answer to each state, (N, n).
        torque_goal: torque sent to the servos right after each state, the answer to an earlier one, (N, n).
        q_ref: reference, (N, n) [rad].
        dq_ref: reference, (N, n) [rad/s].
        ddq_ref: reference, (N, n) [rad/s^2].
        torque_motor: true motor torque from each state to the next, noise included, (N, n).
        q_true: joint angles, (N, n) [rad].
        dq_true: joint velocities, (N, n) [rad/s].
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
        """Return the cycles of one of PHASES; "trajectory" excludes the standstill that ends it."""
        for index, (name, begin) in enumerate(self.phases):
            if name == phase:
                later = self.phases[index + 1][1] if index + 1 < len(self.phases) else self.stamps_ns[-1] + 1
                end = begin + round(self.trajectory_duration * 1e9) if phase == "trajectory" else later
                first, last = np.searchsorted(self.stamps_ns, [begin, end])
                return slice(int(first), int(last))
        return slice(0, 0)


@dataclass(frozen=True, eq=False)
class Schedule:
    """References of all cycles: timestamps (N,) [ns], q, dq, ddq (N, n) each, and the phases with their start [ns]."""

    stamps_ns: NDArray[np.int64]
    q: FloatArray
    dq: FloatArray
    ddq: FloatArray
    phases: tuple[tuple[Phase, int], ...]


def schedule(
    robot: Robot, trajectory: Motion, q0: FloatArray, jitter: float, seed: int, *, to_rest: bool = True
) -> Schedule:
    """Return the references that `dynid.control.motion.MotionExecutor` would follow, sampled at all timestamps.

    Args:
        robot: the robot.
        trajectory: the motion.
        q0: measured start posture, (n,) [rad].
        jitter: standard deviation of timestamp errors [s].
        seed: seed of these errors.
        to_rest: return to the rest posture; otherwise the run ends with the standstill after the trajectory.
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
    """Raw readings of the loop, (N, n) each; they are quantised afterwards, all at once."""

    position: FloatArray
    velocity: FloatArray
    command: FloatArray
    goal: FloatArray
    in_force: FloatArray
    motor: FloatArray
    q: FloatArray
    dq: FloatArray


def _run(plant: ArmPlant, controller: Controller, plan: Schedule, cycle: float, name: str) -> Records:
    """Run the 1 kHz loop of a trajectory; the arm leaves its stand at once.

    Torque noise is drawn once per cycle.
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
    """Run one trajectory on the simulated arm: approach, trajectory and, with `to_rest`, the return to rest.

    Args:
        robot: the robot.
        trajectory: motion of all axes of the robot.
        controller: controller of the arm, which is reset first; a `FeedforwardPd` is unchanged, since a compiled copy
            runs.
        mount: a mount of robot.yaml; None is the default one.
        seed: seed of all random nuisances.
        switched_off: names of nuisances to leave out.
        q0: start posture at rest, (n,) [rad]; None is near the robot's rest posture.
        stops: lower and upper joint stops, (n,) each [rad]; None is slightly beyond the joint limits.
        standard: standard parameters of the arm; None is the set that the robot's file names.
        to_rest: return to the rest posture at the end.
        friction: friction law of the gears, or its name; None is the choice of robot.yaml.

    Raises:
        SafetyError: the trajectory leaves the joint stops (the paper's families need wider ones), or the arm does not
            follow it.
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
    """Refuse a trajectory beyond the stops.

    The check is exact if the motion's extremes are its waypoints; for other motions it covers all cycles of the loop.
    """
    if isinstance(trajectory, Trajectory):
        trajectory.check_limits(*walls, np.full(robot.size, np.inf))
        return
    MotionCheck(robot, MotionLimits(*walls, *np.full((3, robot.size), np.inf))).check([trajectory])


def _refuse_lost(robot: Robot, name: str, plan: Schedule, position: FloatArray, cycles: range) -> None:
    """Raise SafetyError if the arm does not follow, as the executor of the real-time chain does."""
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
    """Return the run from readings, references and the name and length of its trajectory."""
    constants, nuisances = plant.robot.drive_constants, plant.nuisances
    # The current changes at the moment of reading, so its previous value lags by half a cycle and the next one leads by
    # half a cycle. The mean does neither, as on the real chain, which writes between readings.
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
