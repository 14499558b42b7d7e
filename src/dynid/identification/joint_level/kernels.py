"""Kalman filter that predicts one joint's motion from its torque, for the joint-level identification."""

import math

import numba
import numpy as np

from dynid.robot import FloatArray

# Speed below which friction is proportional to speed, so that its slope is steep but finite at standstill.
STICKING_RAD_S = 0.01
SUBSTEPS = 6  # integration steps per sample, needed if friction changes sign within one


@numba.njit(cache=True)
def advance(
    state: FloatArray,
    step: float,
    commanded: float,
    inertia: float,
    damping: float,
    friction: float,
    offset: float,
    stiffness: float,
    centre: float,
) -> None:
    """Advance a joint's predicted state and its covariance, in place, by a time step with constant commanded torque.

    Args:
        state: position q [rad], velocity v [rad/s], and the covariances qq, qv and vv, (5,).
        step: time step [s].
        commanded: commanded torque [N m].
        inertia: inertia of the joint [kg m^2].
        damping: viscous damping [N m s/rad].
        friction: Coulomb friction [N m].
        offset: constant load, which is subtracted from the commanded torque [N m].
        stiffness: additional load per angle from `centre` [N m/rad].
        centre: angle at which the load is `offset` [rad].
    """
    q, v, qq, qv, vv = state
    torque = commanded - offset - stiffness * (q - centre)
    after = (v + step / inertia * torque) / (1.0 + step / inertia * (damping + friction / max(abs(v), STICKING_RAD_S)))
    slope = damping if abs(v) > STICKING_RAD_S else damping + friction / STICKING_RAD_S
    a_vv = 1.0 / (1.0 + step / inertia * slope)
    a_vq = -step / inertia * stiffness * a_vv
    a_qv, a_qq = 0.5 * step * (1.0 + a_vv), 1.0 + 0.5 * step * a_vq
    state[0], state[1] = q + 0.5 * step * (v + after), after
    state[2] = a_qq * a_qq * qq + 2.0 * a_qq * a_qv * qv + a_qv * a_qv * vv
    state[3] = a_qq * a_vq * qq + (a_qq * a_vv + a_qv * a_vq) * qv + a_qv * a_vv * vv
    state[4] = a_vq * a_vq * qq + 2.0 * a_vq * a_vv * qv + a_vv * a_vv * vv


@numba.njit(cache=True)
def predict_errors(
    y: FloatArray, u: FloatArray, dt: float, model: FloatArray, noise: FloatArray, error: FloatArray, spread: FloatArray
) -> None:
    """Compute one-step prediction errors of a joint with M dv/dt = u(t - delay) - D v - F sign(v) - c - k (q - q0).

    u is the torque, q the position and v the velocity of the joint. Between joint and encoder there is backlash. While
    the joint crosses the gap, the encoder's reading is constant and contains no information about the joint.

    Args:
        y: measured positions, (N,) [rad]; NaN for missing readings. The first reading must not be missing.
        u: commanded torques, each constant for dt, (N + lead,) [N m]. The last N torques belong to y; the others
            precede y.
        dt: time between two samples [s].
        model: inertia M [kg m^2], viscous damping D [N m s/rad], delay [s], Coulomb friction F [N m], constant load c
            [N m], load per angle k [N m/rad], angle q0 [rad], and half the backlash [rad], (8,).
        noise: standard deviations (3,) of a random torque that differs from sample to sample [N m], of a measured
            position [rad], and of the speed at the first sample [rad/s].
        error: output array for measured minus predicted positions, (N,) [rad]; NaN for missing readings.
        spread: output array for the standard deviations of the errors that the noise causes, (N,) [rad].
    """
    inertia, damping, delay, friction, offset, stiffness, centre, gap = model
    lead, late = len(u) - len(y), delay / dt
    whole = math.floor(late)
    lengths = (late - whole, 1.0 - (late - whole))  # the older command acts until the newer one arrives
    drive, seen = (noise[0] * dt / inertia) ** 2, noise[1] ** 2
    state, shown = np.array([y[0], 0.0, seen, 0.0, noise[2] ** 2]), y[0]
    for k in range(len(y)):
        engaged = abs(state[0] - shown) >= gap
        shown = min(max(shown, state[0] - gap), state[0] + gap)
        variance = state[2] + seen if engaged else seen
        error[k], spread[k] = y[k] - shown, math.sqrt(variance)
        if engaged and not math.isnan(y[k]):
            gain_q, gain_v = state[2] / variance, state[3] / variance
            state[0] += gain_q * error[k]
            state[1] += gain_v * error[k]
            shown += gain_q * error[k]
            state[4] -= gain_v * state[3]
            state[3] -= gain_v * state[2]
            state[2] -= gain_q * state[2]
        for piece in range(2):
            count = math.ceil(lengths[piece] * SUBSTEPS)
            commanded = u[max(lead + k - whole - (1 - piece), 0)]
            for _ in range(count):
                step = lengths[piece] * dt / count
                advance(state, step, commanded, inertia, damping, friction, offset, stiffness, centre)
        state[4] += drive
        state[3] += 0.5 * dt * drive
        state[2] += 0.25 * dt * dt * drive
    if not np.isfinite(state[0]):
        error[:] = np.inf
