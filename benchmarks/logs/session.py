"""Session of teleoperation on the simulated arm, whose servos follow hand-like goals by their own position loop."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.logs.position_servos import FACTORY, STEP_RAD, Gains, PositionServos
from benchmarks.logs.teleoperation import hand_motion
from dynid.export.mjcf import default_stops
from dynid.model.friction import FrictionLaw
from dynid.model.standard import StandardFile
from dynid.recording.log import Log
from dynid.robot import FloatArray, Robot
from dynid.simulation.lockstep.run import LONGEST_STEP_S
from dynid.simulation.plant.arm import ArmPlant

CYCLE_S, GOAL_HZ = 0.001, 50.0
CHECK_CYCLES = 1000
Counts = NDArray[np.int16]


@dataclass(frozen=True)
class SessionJob:
    """Job of one session: its duration [s], and the seed of its motion and of the arm's nuisances."""

    robot: Robot
    duration_s: float
    seed: int
    gains: Gains = FACTORY
    friction: FrictionLaw | str | None = None
    standard: StandardFile | None = None
    without: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Session:
    """Values of the servos' registers at every millisecond: position, goal and current, (N, n) counts each."""

    position: Counts
    goal: Counts
    current: Counts

    def rows(self, chosen: slice) -> "Session":
        """Return the chosen rows as a session."""
        return Session(self.position[chosen], self.goal[chosen], self.current[chosen])


def run_session(job: SessionJob) -> Session:
    """Simulate a session; goals come every 20 ms and are held.

    Raises:
        DataError: the arm diverged.
    """
    robot, count = job.robot, round(job.duration_s / CYCLE_S)
    plant = ArmPlant(
        robot,
        seed=job.seed,
        switched_off=job.without,
        q0=robot.rest_posture,
        stops=default_stops(robot),
        longest_step_s=LONGEST_STEP_S,
        friction=job.friction,
        standard=job.standard,
    )
    goals = np.rint(hand_motion(robot, job.duration_s + 1.0, GOAL_HZ, job.seed) / STEP_RAD)
    noises = (plant.drive_noise, plant.sensor_noise)
    every = round(1.0 / (GOAL_HZ * CYCLE_S))
    servos = PositionServos(robot, job.gains, plant.q, plant.nuisances.backlash)
    position, goal, current = out = np.empty((3, count, robot.size), dtype=np.int16)
    torque = np.empty(robot.size)
    for first in range(0, count, CHECK_CYCLES):
        last = min(first + CHECK_CYCLES, count)
        drive, sensor = (np.array([one.row(k) for k in range(first, last)]) for one in noises)
        for k in range(first, last):
            row = k - first
            servos.step(goals[k // every], plant.q, plant.dq, drive[row], sensor[row], position[k], current[k], torque)
            plant.push(torque, CYCLE_S)
        goal[first:last] = goals[np.arange(first, last) // every]
        plant.check()
    return Session(*out)


@dataclass(frozen=True)
class Logger:
    """Logger with a clock of its own.

    rate_hz: rows per second.
    drift: drift of its clock relative to the goals' clock, as a share.
    jitter_s: standard deviation of the rows' sampling times.
    torque_delay_s: age of the torques in a row.
    goal_delay_s: time from logging a goal until it reaches the servos.
    """

    rate_hz: float
    drift: float = 2e-4
    jitter_s: float = 0.001
    torque_delay_s: float = 0.0
    goal_delay_s: float = 0.0


def log_of(session: Session, robot: Robot, logger: Logger, name: str, seed: int) -> Log:
    """Return the log that a logger writes of a session; it begins a second late and ends a second early."""
    count = len(session.position)
    time = np.arange(1.0, count * CYCLE_S - 1.0, (1.0 + logger.drift) / logger.rate_hz)
    wait = np.random.default_rng([seed, 7]).standard_normal(len(time)) * logger.jitter_s
    time = time + np.clip(wait, -0.4 / logger.rate_hz, 0.4 / logger.rate_hz)

    def rows(later_s: float) -> NDArray[np.int64]:
        return np.clip(np.rint((time + later_s) / CYCLE_S).astype(np.int64), 0, count - 1)

    tau = _times(session.current[rows(-logger.torque_delay_s)], robot.current_units) * robot.drive_constants
    goal = _times(session.goal[rows(logger.goal_delay_s)], STEP_RAD)
    return Log(name, robot.joint_names, time, _times(session.position[rows(0.0)], STEP_RAD), tau, goal)


def log_at_1_khz(session: Session, robot: Robot, rows: slice, name: str) -> Log:
    """Return a part of a session as a log at 1 kHz."""
    tau = _times(session.current[rows], robot.current_units) * robot.drive_constants
    time = np.asarray(CYCLE_S * np.arange(len(session.position))[rows], dtype=np.float64)
    return Log(name, robot.joint_names, time, _times(session.position[rows], STEP_RAD), tau)


def _times(counts: Counts, unit: FloatArray | float) -> FloatArray:
    return np.asarray(counts * unit, dtype=np.float64)
