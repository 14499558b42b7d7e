"""Simulated experiment on an arm with elastic joints: spline reference, PD control of the motors, Stribeck friction."""

from dataclasses import dataclass

import numpy as np

from dynid.excitation.series import Series
from dynid.identification.elastic.model import ElasticModel
from dynid.identification.elastic.mujoco_arm import MujocoElasticArm
from dynid.identification.elastic.settings import STEP_S, ElasticFile, Stribeck
from dynid.model.parameters import StandardParameters
from dynid.robot import FloatArray, read_only

CHECK_INTERVAL_S = 0.05  # time between the instants at which candidates are evaluated [s]


@dataclass(frozen=True, eq=False)
class ElasticRecording:
    """Samples of an experiment on an arm with elastic joints, at a fixed rate.

    Attributes:
        rate_hz: sampling rate [Hz].
        q: link positions, (N, n) [rad].
        theta: motor positions divided by the gear ratio, (N, n) [rad].
        tau: motor torques on the joint side of the gear, (N, n) [N m].
    """

    rate_hz: float
    q: FloatArray
    theta: FloatArray
    tau: FloatArray


@dataclass(frozen=True, eq=False)
class Reference:
    """Spline motion of n joints.

    Attributes:
        series: basis functions of time.
        coefficients: coefficients of the k basis functions for each joint, (k, n) [rad].
    """

    series: Series
    coefficients: FloatArray

    def sample_all(self, times: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return positions, velocities and accelerations at times (N,) [s], (N, n) each [rad, rad/s, rad/s^2]."""
        position, velocity, acceleration = (one @ self.coefficients for one in self.series.functions(times))
        return position, velocity, acceleration


def drawn_reference(model: ElasticModel) -> Reference:
    """Draw random spline motions, and return the one whose rigid-body regressor has the smallest condition number.

    Number and size of the motions are settings of elastic.yaml. A motion that exceeds a velocity limit is scaled down.
    """
    spline = model.file.spline
    series = Series.of("spline", spline.duration_s, spline.control_points)
    rng, times = np.random.default_rng(spline.seed), np.arange(0.0, spline.duration_s, CHECK_INTERVAL_S)
    centre, amplitude = np.deg2rad(spline.centre_deg), np.deg2rad(spline.amplitude_deg)
    fit = np.linalg.pinv(series.rest)
    best, smallest = None, np.inf
    for _ in range(spline.candidates):
        points = centre + amplitude * rng.uniform(-1.0, 1.0, (spline.control_points, model.size))
        points[:3], points[-3:] = centre, centre
        reference = Reference(series, read_only(fit @ points))
        dq = reference.sample_all(times)[1]
        excess = float((np.abs(dq).max(axis=0) / model.robot.velocity_limits).max())
        if excess > 1.0:
            reference = Reference(series, read_only(fit @ (centre + (points - centre) / excess)))
        q, dq, ddq = reference.sample_all(times)
        W = model.rigid.regressor(q, dq, ddq).reshape(-1, len(model.rigid.names))
        found = float(np.linalg.cond(W / np.linalg.norm(W, axis=0)))
        if best is None or found < smallest:
            best, smallest = reference, found
    assert best is not None
    return best


def friction(rate: FloatArray, coulomb: FloatArray, viscous: FloatArray, shape: Stribeck) -> FloatArray:
    """Return the Stribeck friction of motors on the joint side of their gears, (n,) [N m].

    Args:
        rate: motor velocities divided by the gear ratios, (n,) [rad/s].
        coulomb: Coulomb friction, (n,) [N m].
        viscous: viscous friction, (n,) [N m s/rad].
        shape: Stribeck curve, which is the same for all motors.
    """
    excess = (shape.breakaway_ratio - 1.0) * np.exp(-((rate / shape.velocity_rad_s) ** 2))
    return np.asarray(coulomb * (1.0 + excess) * np.tanh(rate / shape.smoothing_rad_s) + viscous * rate)


def run(model: ElasticModel, reference: Reference, parameters: FloatArray | None = None) -> ElasticRecording:
    """Simulate a run along a reference, and return its recording.

    The controller is PD on the motors with gravity compensation at the reference: tau = Kp (theta_d - theta) + Kd (dq_d
    - dtheta) + g(q_d). q_d is the reference, g the gravity torque, and theta_d = q_d + g(q_d) / K the motor position
    whose spring deflection balances g. Torques and friction are constant for `STEP_S`.

    Args:
        model: arm with elastic joints.
        reference: motion to follow.
        parameters: true parameters of the simulated arm, (14 n,); None uses the nominal parameters.

    Raises:
        DataError: if the number of parameters is wrong.
        ConfigurationError: if MuJoCo rejects the arm.
    """
    true = model.nominal if parameters is None else parameters
    file, n = model.file, model.size
    arm = MujocoElasticArm(model, true, STEP_S)
    every = round(1.0 / (file.measurement.rate_hz * STEP_S))
    steps = round(reference.series.duration / STEP_S)
    q_ref, dq_ref, weight = _reference_tables(model, reference, true, steps)
    theta0 = q_ref[0] + weight[0] / true[model.place("K")]
    arm.set_state(q_ref[0], theta0, np.zeros(n), np.zeros(n))
    gains = np.array(file.proportional_nm_per_rad), np.array(file.derivative_nm_s_per_rad)
    coulomb, viscous = true[model.place("FC")], true[model.place("FV")]
    stretch = weight / true[model.place("K")]
    kept: list[list[FloatArray]] = [[], [], []]
    qpos, qvel, links, rotors, ratio = arm.data.qpos, arm.data.qvel, arm.links, arm.rotors, arm.gears
    for k in range(steps):
        theta, dtheta = qpos[rotors] / ratio, qvel[rotors] / ratio
        tau = gains[0] * (q_ref[k] + stretch[k] - theta) + gains[1] * (dq_ref[k] - dtheta) + weight[k]
        if k % every == 0:
            for store, one in zip(kept, (qpos[links].copy(), theta, tau), strict=True):
                store.append(one)
        arm.apply(tau - friction(dtheta, coulomb, viscous, file.stribeck))
        arm.step()
    return ElasticRecording(file.measurement.rate_hz, *(read_only(np.array(store)) for store in kept))


def _reference_tables(
    model: ElasticModel, reference: Reference, parameters: FloatArray, steps: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return reference position [rad], velocity [rad/s] and gravity torque [N m] at every step, (steps, n) each.

    Args:
        model: arm with elastic joints.
        reference: motion to follow.
        parameters: parameters for the gravity torque, (14 n,).
        steps: number of simulation steps.
    """
    times = np.arange(steps, dtype=np.float64) * STEP_S
    q, dq, _ = reference.sample_all(times)
    ten, still = 10 * model.size, np.zeros_like(q[::20])
    names = model.rigid.regrouping.standard
    values = np.concatenate([parameters[:ten], np.zeros(len(names) - ten)])
    phi = model.rigid.base_parameters(StandardParameters(names, values, model.size))
    coarse = model.rigid.inverse_dynamics(q[::20], still, still, phi)
    weight = np.stack([np.interp(times, times[::20], column) for column in coarse.T], axis=1)
    return q, dq, weight


def measured(recording: ElasticRecording, file: ElasticFile) -> ElasticRecording:
    """Return a copy of a recording whose positions are rounded to whole encoder counts.

    Args:
        recording: recording with exact positions.
        file: content of elastic.yaml, with the counts per turn.
    """
    count = 2.0 * np.pi / file.measurement.counts_per_turn
    q, theta = (read_only(np.round(one / count) * count) for one in (recording.q, recording.theta))
    return ElasticRecording(recording.rate_hz, q, theta, recording.tau)
