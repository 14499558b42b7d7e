"""Recordings of random arms with one change during the recording: bodies, offsets, zeros, scales.

An arm is drawn and recorded once in lock-step. A fault then changes the recorded columns, as it would with other
software: torques and positions at the rate of its logger.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from benchmarks.studies.drawn_arms import DrawnArm, draw_arm, record
from benchmarks.studies.motion_classes import MotionClass, drawn_motion
from dynid.identification.data.arrays import recording_from_arrays
from dynid.identification.data.recordings import Recording
from dynid.identification.data.zero_phase import butterworth_sections, filtered_both_ways
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray, Robot

BAND_HZ = 10.0  # bandwidth of the motion whose accelerations act on a body [Hz]
REACH_M = 0.05  # distance of a body from the last link's origin [m]


@dataclass(frozen=True, eq=False)
class Log:
    """Columns of one recording at the control cycle.

    Attributes:
        time: times, (N,) [s].
        q, dq, ddq: (N, n); positions as encoders show them, rates from them.
        tau: recorded torques, (N, n) [N m].
    """

    time: FloatArray
    q: FloatArray
    dq: FloatArray
    ddq: FloatArray
    tau: FloatArray


@dataclass(frozen=True, eq=False)
class Subject:
    """Arm with its recording without a fault."""

    robot: Robot
    arm: DrawnArm
    model: ArmModel
    log: Log

    def standard(self, given: Mapping[str, float]) -> BaseParameters:
        """Return the base parameters (p,) of a body with these standard parameters."""
        names = self.model.regrouping.standard
        values = self.model.regrouping.K @ np.array([given.get(name, 0.0) for name in names])
        return BaseParameters(self.model.names, values)


def subject(robot: Robot, seed: int, gears: str, seconds: float) -> Subject:
    """Draw and record an arm, and return it with its recording.

    Raises:
        SafetyError: it does not follow its motion.
    """
    arm = draw_arm(robot, seed, gears)
    one = MotionClass("", seconds=seconds, gears=gears)
    run = record(robot, arm, drawn_motion(robot, one, seed), seed).run
    begin = int(np.searchsorted(run.stamps_ns, dict(run.phases)["trajectory"]))
    time = run.stamps_ns[begin:] / 1e9
    kept = time <= time[0] + run.trajectory_duration
    time, q, tau = time[kept], run.q[begin:][kept], run.torque_present[begin:][kept]
    even = float(np.median(np.diff(time)))
    smooth = filtered_both_ways(butterworth_sections(4, BAND_HZ, 1.0 / even), q)
    dq = np.gradient(smooth, even, axis=0)
    return Subject(robot, arm, ArmModel.of(robot), Log(time, q, dq, np.gradient(dq, even, axis=0), tau))


def _ramp(log: Log) -> FloatArray:
    """Return the time scaled from 0 to 1, (N, 1)."""
    return np.asarray((log.time - log.time[0]) / (log.time[-1] - log.time[0]))[:, None]


def _one(log: Log, axis: int) -> FloatArray:
    """Return 1 at one joint and 0 at the others, (n,)."""
    return np.asarray(np.arange(log.q.shape[1]) == axis, dtype=np.float64)


def _faulty(log: Log, q: FloatArray | None = None, tau: FloatArray | None = None) -> Log:
    """Return the recording with other positions or torques."""
    return Log(log.time, log.q if q is None else q, log.dq, log.ddq, log.tau if tau is None else tau)


def body_torque(one: Subject, mass_kg: float) -> FloatArray:
    """Return the torques (N, n) [N m] of a body at the last link."""
    last, log = one.model.chain_size, one.log
    body = one.standard({f"M{last}": mass_kg, f"MX{last}": REACH_M * mass_kg})
    return np.asarray(one.model.inverse_dynamics(log.q, log.dq, log.ddq, body))


def with_body(one: Subject, mass_kg: float, when: float = 0.5) -> Log:
    """Return the recording with a body at the last link from a moment on, given as a share of the time."""
    return _faulty(one.log, tau=one.log.tau + body_torque(one, mass_kg) * (_ramp(one.log) > when))


def with_zero(one: Subject, axis: int, size_rad: float) -> Log:
    """Return the recording with an encoder whose zero drifts by an angle [rad] until the end."""
    return _faulty(one.log, q=one.log.q + size_rad * _ramp(one.log) * _one(one.log, axis))


def with_scale(one: Subject, share: float) -> Log:
    """Return the recording with torque constants that fall by a share until the end, so that currents rise."""
    return _faulty(one.log, tau=one.log.tau * (1.0 - share * _ramp(one.log)))


def as_source(one: Subject, log: Log, rate_hz: float = 200.0, name: str = "log") -> Recording:
    """Return the recording as other software stores it, at a rate that divides the control rate."""
    even = float(np.median(np.diff(log.time)))
    step = max(1, round(1.0 / (rate_hz * even)))
    kept = slice(None, None, step)
    return recording_from_arrays(one.robot, log.time[kept], log.q[kept], log.tau[kept], name=name)
