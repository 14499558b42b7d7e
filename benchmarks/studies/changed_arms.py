"""Recordings of random arms with one change: bodies, zeros, scales, offsets, friction, the mount, meaning of efforts.

An arm is drawn and recorded once in lock-step. A fault then changes the recorded columns, as it would with other
software: torques and positions at the rate of its logger.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.studies.drawn_arms import DrawnArm, draw_arm, record
from benchmarks.studies.motion_classes import MotionClass, drawn_motion
from dynid.identification.data.arrays import recording_from_arrays
from dynid.identification.data.recordings import Recording
from dynid.identification.data.zero_phase import butterworth_sections, filtered_both_ways
from dynid.identification.diagnosis.nuisance_columns import perpendicular_axes
from dynid.model.drive import KINDS, RESISTING, of_kinds
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters
from dynid.model.standard import load_nominal
from dynid.robot import FloatArray, Robot

BAND_HZ = 10.0  # bandwidth of the motion whose accelerations act on a body [Hz]
REACH_M = 0.05  # distance of a body from the last link's origin [m]
TRANSITION_RAD_S = 0.01  # velocity over which added friction changes its sign, so that encoder noise does not show


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


def course(log: Log, kind: str, when: float = 0.5) -> FloatArray:
    """Return a function of time of a change, (N, 1) [-], from 0 to 1.

    Args:
        log: the recording.
        kind: "drift" (straight line), "step" (from a moment on), "until" (until a moment) or "constant".
        when: the moment, as a share of the time.
    """
    ramp = np.asarray((log.time - log.time[0]) / (log.time[-1] - log.time[0]))[:, None]
    after = np.asarray(ramp > when, dtype=np.float64)
    return {"drift": ramp, "step": after, "until": 1.0 - after, "constant": np.ones_like(ramp)}[kind]


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


def with_body(one: Subject, mass_kg: float, over: FloatArray) -> Log:
    """Return the recording with a body at the last link.

    Args:
        one: the arm with its recording.
        mass_kg: mass of the body [kg].
        over: function of time (N, 1) [-] that multiplies the mass.
    """
    return _faulty(one.log, tau=one.log.tau + body_torque(one, mass_kg) * over)


def with_zero(one: Subject, axis: int, size_rad: float, over: FloatArray) -> Log:
    """Return the recording with an encoder whose zero moves.

    Args:
        one: the arm with its recording.
        axis: the joint, from 0.
        size_rad: largest angle [rad].
        over: function of time (N, 1) [-] that multiplies the angle.
    """
    return _faulty(one.log, q=one.log.q + size_rad * over * _one(one.log, axis))


def with_scale(one: Subject, share: float, over: FloatArray, axis: int | None = None) -> Log:
    """Return the recording with torques that fall by a share, as if the scale of the measured torques changed.

    Args:
        one: the arm with its recording.
        share: share by which the recorded torques fall; negative if they rise, as with weaker magnets.
        over: function of time (N, 1) [-] that multiplies the share.
        axis: the joint, from 0; None changes all joints.
    """
    which = 1.0 if axis is None else _one(one.log, axis)
    return _faulty(one.log, tau=one.log.tau * (1.0 - share * over * which))


def with_offset(one: Subject, axis: int, size_nm: float, over: FloatArray) -> Log:
    """Return the recording with an offset of one joint's torque.

    Args:
        one: the arm with its recording.
        axis: the joint, from 0.
        size_nm: largest offset [N m].
        over: function of time (N, 1) [-] that multiplies the offset.
    """
    return _faulty(one.log, tau=one.log.tau + size_nm * over * _one(one.log, axis))


def with_friction(one: Subject, axis: int, factor: float, over: FloatArray) -> Log:
    """Return the recording with friction of one joint that is multiplied.

    Args:
        one: the arm with its recording.
        axis: the joint, from 0.
        factor: factor of the friction of cold gears.
        over: function of time (N, 1) [-]; friction is multiplied where it is 1, and as recorded where it is 0.
    """
    rubs = friction_torque(one, one.arm.base)
    return _faulty(one.log, tau=one.log.tau + (factor - 1.0) * rubs * over * _one(one.log, axis))


def friction_torque(one: Subject, base: FloatArray) -> FloatArray:
    """Return the torques (N, n) [N m] of cold gears' friction, with the load of base parameters (p,) [SI]."""
    log = one.log
    links = of_kinds(BaseParameters(one.arm.names, base), KINDS, others=True)
    load = np.asarray(one.model.inverse_dynamics(log.q, log.dq, log.ddq, links))
    law = replace(one.arm.friction, transition_rad_s=TRANSITION_RAD_S)
    return law.torque(log.dq, log.tau, load)


def with_tilt(one: Subject, angle_rad: float, direction_rad: float, over: FloatArray) -> Log:
    """Return the recording with a mount that tilts.

    Args:
        one: the arm with its recording.
        angle_rad: angle by which gravity tilts [rad].
        direction_rad: direction of the tilt in the plane perpendicular to gravity [rad].
        over: function of time (N, 1) [-] that is 1 where the mount is tilted.
    """
    gravity, base = one.model.gravity, BaseParameters(one.arm.names, one.arm.base)
    first, second = perpendicular_axes(gravity)
    towards = np.cos(direction_rad) * first + np.sin(direction_rad) * second
    tilted = np.cos(angle_rad) * gravity + np.sin(angle_rad) * float(np.linalg.norm(gravity)) * towards
    change = one.model.gravity_torque(one.log.q, base, tilted) - one.model.gravity_torque(one.log.q, base, gravity)
    return _faulty(one.log, tau=one.log.tau + change * over)


def net_of_gravity(one: Subject) -> Log:
    """Return the recording of a driver that subtracts the gravity of the nominal arm."""
    nominal = one.model.gravity_torque(one.log.q, _nominal(one), one.model.gravity)
    return _faulty(one.log, tau=one.log.tau - nominal)


def external(one: Subject) -> Log:
    """Return the recording of a driver that subtracts the torques of the nominal arm and of cold gears' friction."""
    log = one.log
    links = of_kinds(_nominal(one), RESISTING, others=True)
    own = one.model.inverse_dynamics(log.q, log.dq, log.ddq, links)
    return _faulty(log, tau=log.tau - own - friction_torque(one, _nominal(one).values))


def unsigned(one: Subject) -> Log:
    """Return the recording of a driver that reports torques without their sign."""
    return _faulty(one.log, tau=np.abs(one.log.tau))


def held(one: Subject, rate_hz: float) -> Log:
    """Return the recording of a driver that renews torques at a rate [Hz], and positions in every row."""
    log = one.log
    renewed = np.floor((log.time - log.time[0]) * rate_hz) / rate_hz + log.time[0]
    at = np.minimum(np.searchsorted(log.time, renewed - 1e-9), len(log.time) - 1)
    return _faulty(log, tau=log.tau[at])


def _nominal(one: Subject) -> BaseParameters:
    """Return the base parameters (p,) of the robot's nominal arm."""
    return one.model.base_parameters(load_nominal(one.robot, one.model.mdh, one.model.regrouping.standard))


def as_source(one: Subject, log: Log, rate_hz: float = 200.0, name: str = "log") -> Recording:
    """Return the recording as other software stores it, at a rate that divides the control rate."""
    even = float(np.median(np.diff(log.time)))
    step = max(1, round(1.0 / (rate_hz * even)))
    kept = slice(None, None, step)
    return recording_from_arrays(one.robot, log.time[kept], log.q[kept], log.tau[kept], name=name)
