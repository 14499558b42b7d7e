"""The whole loop in lock-step: plant, servo registers, delay and controller, as fast as the processor allows.

Each control cycle does what the real-time chain does: read the servos (with their register steps), compute the
torque, send it. The delay from reading a state to its answer being in force is the wire's and the processes' time,
rounded up to whole cycles, because a servo holds one goal current for one cycle. For CRANE-X7 that is 0.9 ms, so one
cycle; with the half cycle that the hold takes by itself it is the 1.5 ms of arXiv:2605.15949, section III-B.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from dynid.control.controller import Controller
from dynid.errors import DataError
from dynid.model.standard import StandardFile
from dynid.robot import FloatArray, Robot, read_only
from dynid.simulation.lockstep_kernels import actuate, sense
from dynid.simulation.mjcf import default_stops
from dynid.simulation.nuisances import Magnitudes, quantise, stamps
from dynid.simulation.plant import ArmPlant
from dynid.trajectory.trajectory import Trajectory, approach

STAMP_STREAM = 3
SETTLE_S = 0.5
CHECK_CYCLES = 200
PHASES = ("approach", "settle", "trajectory", "rest", "return")


@dataclass(frozen=True, eq=False)
class SimulatedRun:
    """One run, N cycles of n axes; all arrays read-only, torques in N m.

    The first block is what a bag holds. `q_true`, `dq_true` and `torque_applied` are the simulation's own and are for
    tests and figures only.

    Attributes:
        joint_names: (n,).
        stamps: when each state was read, by the recorder's clock, (N,) [s].
        q: encoder readings, (N, n) [rad].
        dq: velocity registers, (N, n) [rad/s].
        torque_present: present current times torque constant, (N, n).
        torque_command: what the controller asked for, (N, n).
        torque_goal: the same within the current limits and in register steps: what was sent, (N, n).
        q_ref: reference, (N, n) [rad].
        dq_ref: reference, (N, n) [rad/s].
        ddq_ref: reference, (N, n) [rad/s^2].
        phase: index into PHASES, (N,).
        torque_applied: what the motors did from this stamp to the next, noise included, (N, n).
        q_true: joint angles, (N, n) [rad].
        dq_true: joint velocities, (N, n) [rad/s].
    """

    joint_names: tuple[str, ...]
    stamps: FloatArray
    q: FloatArray
    dq: FloatArray
    torque_present: FloatArray
    torque_command: FloatArray
    torque_goal: FloatArray
    q_ref: FloatArray
    dq_ref: FloatArray
    ddq_ref: FloatArray
    phase: NDArray[np.int8]
    torque_applied: FloatArray
    q_true: FloatArray
    dq_true: FloatArray

    def __post_init__(self) -> None:
        for item in fields(self)[1:]:
            getattr(self, item.name).flags.writeable = False

    def window(self, phase: str) -> slice:
        """The cycles of one of PHASES, which are adjacent."""
        found = np.flatnonzero(self.phase == PHASES.index(phase))
        return slice(int(found[0]), int(found[-1]) + 1) if len(found) else slice(0, 0)


@dataclass(frozen=True, eq=False)
class Schedule:
    """References of all cycles: stamps (N,), q, dq, ddq (N, n) each, and phase (N,)."""

    stamps: FloatArray
    q: FloatArray
    dq: FloatArray
    ddq: FloatArray
    phase: NDArray[np.int8]


def schedule(
    robot: Robot, trajectory: Trajectory, q0: FloatArray, jitter: float, seed: int, *, to_rest: bool = True
) -> Schedule:
    """Approach, settle, trajectory and, with `to_rest`, the way back to the rest posture, sampled at the stamps."""
    names = robot.joint_names
    hold = approach(trajectory.start, trajectory.start, names, name="settle")
    end = approach(trajectory.end, trajectory.end, names, name="rest")
    back = approach(trajectory.end, robot.rest_posture, names, name="return")
    parts = [(approach(q0, trajectory.start, names), 0.0), (hold, SETTLE_S), (trajectory, 0.0), (end, SETTLE_S)]
    parts += [(back, 0.0)] if to_rest else []
    cycle = robot.file.bus.cycle_s
    counts = [math.ceil((part.duration + extra) / cycle - 1e-9) for part, extra in parts]
    times = stamps(sum(counts), cycle, jitter, seed, STAMP_STREAM)
    starts = np.concatenate([[0], np.cumsum(counts)])
    samples = [
        part.sample_all(times[first : first + count] - first * cycle)
        for (part, _), first, count in zip(parts, starts[:-1].tolist(), counts, strict=True)
    ]
    q, dq, ddq = (read_only(np.concatenate(block)) for block in zip(*samples, strict=True))
    return Schedule(times, q, dq, ddq, np.repeat(np.arange(len(parts), dtype=np.int8), counts))


@dataclass(frozen=True, eq=False)
class _Recorded:
    """Raw readings of the loop, (N, n) each; register steps are applied afterwards, all at once."""

    position: FloatArray
    current: FloatArray
    command: FloatArray
    goal: FloatArray
    applied: FloatArray
    q: FloatArray
    dq: FloatArray


def _run(plant: ArmPlant, controller: Controller, plan: Schedule, cycle: float) -> _Recorded:
    """The 1 kHz loop; torque noise is drawn once per cycle."""
    robot, nuisances = plant.robot, plant.nuisances
    count, n = plan.q.shape
    out = _Recorded(*(np.zeros((count, n)) for _ in range(7)))
    noise = plant.drive_noise.rows(count)
    late = math.ceil(nuisances.delay / cycle - 1e-9)
    steps = round(cycle / robot.file.simulation.step_s)
    intervals = np.diff(plan.stamps, prepend=plan.stamps[0] - cycle).tolist()
    seen, half_play, resolution = plant.q.copy(), 0.5 * nuisances.backlash, nuisances.position_step
    controller.reset(quantise(seen, resolution))
    for k, (q_ref, dq_ref, ddq_ref) in enumerate(zip(plan.q, plan.dq, plan.ddq, strict=True)):
        sense(k, plant.q, plant.dq, seen, half_play, resolution, out.position, out.q, out.dq)
        wanted = controller.update(intervals[k], out.position[k], q_ref, dq_ref, ddq_ref)
        flows = actuate(
            k, late, wanted, robot.torque_constants, robot.current_limits, nuisances.current_step, noise,
            out.command, out.goal, out.applied,
        )  # fmt: skip
        if flows or not plant.held:
            plant.push(out.applied[k], steps)
        else:
            plant.advance_steps(steps)
            out.applied[k] = 0.0
        if k % CHECK_CYCLES == 0:
            plant.check()
    plant.check()
    out.current[late + 1 :] = out.goal[: count - late - 1]
    out.current[:] += plant.sensor_noise.rows(count)
    return out


def simulate(
    robot: Robot,
    trajectory: Trajectory,
    controller: Controller,
    *,
    mount: str | None = None,
    seed: int = 0,
    switched_off: Collection[str] = (),
    q0: FloatArray | None = None,
    stops: tuple[FloatArray, FloatArray] | None = None,
    standard: StandardFile | None = None,
    to_rest: bool = True,
) -> SimulatedRun:
    """Run one trajectory on the simulated arm, from its rest posture and, with `to_rest`, back to it.

    Args:
        robot: the robot.
        trajectory: for all axes of the robot.
        controller: its `reset` is called first.
        mount, seed, switched_off, q0, stops, standard: as in `ArmPlant`.
        to_rest: return to the rest posture at the end.

    Raises:
        SafetyError: the trajectory leaves the joint stops; the paper's families need wider ones.
        DataError: the trajectory is for other joints, or the arm diverged.
        UnknownNameError: an unknown nuisance or mount.
    """
    if trajectory.joint_names != robot.joint_names:
        raise DataError(
            f"trajectory '{trajectory.name}' moves {', '.join(trajectory.joint_names)}; robot '{robot.name}' has "
            f"{', '.join(robot.joint_names)}"
        )
    walls = stops or default_stops(robot)
    trajectory.check_limits(*walls, np.full(robot.size, np.inf))
    plant = ArmPlant(
        robot, mount=mount, seed=seed, switched_off=switched_off, q0=q0, stops=walls, standard=standard
    )
    plan = schedule(robot, trajectory, plant.q.copy(), plant.nuisances.stamp_jitter, seed, to_rest=to_rest)
    raw = _run(plant, controller, plan, robot.file.bus.cycle_s)
    return _assemble(robot, plan, raw, plant.nuisances)


def _assemble(robot: Robot, plan: Schedule, raw: _Recorded, nuisances: Magnitudes) -> SimulatedRun:
    constants = robot.torque_constants
    return SimulatedRun(
        joint_names=robot.joint_names,
        stamps=plan.stamps,
        q=raw.position,
        dq=quantise(raw.dq, nuisances.velocity_step),
        torque_present=quantise(raw.current, nuisances.current_step) * constants,
        torque_command=raw.command,
        torque_goal=raw.goal * constants,
        q_ref=plan.q,
        dq_ref=plan.dq,
        ddq_ref=plan.ddq,
        phase=plan.phase,
        torque_applied=raw.applied,
        q_true=raw.q,
        dq_true=raw.dq,
    )
