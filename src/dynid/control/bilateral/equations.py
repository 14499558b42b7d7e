"""The equations of observer and law in machine code, one function each; the modules `observer` and `law` explain them.

An arm is a matrix (rows, n) of vectors that have the names below, in SI units; so is what the law knows beside both
arms: every array that a call takes costs time. All functions stand in one file with the rows' names, for numba's cache
notices a change of a function's own file alone.
"""

import numba
import numpy as np

from dynid.model.friction import FV, OF, budget_of
from dynid.robot import FloatArray

# An arm: estimates, directions of friction and where it last turned; torques; what was measured, torques in force
Q, DQ, D, Z, ANCHOR, BIAS, RIGID, FRICTION, EXTERNAL, MEASURED, IN_FORCE = range(11)
ARM_ROWS = 11
# The law: c, what the follower still has to be led, y; where the spring before the limits begins; torque limits
CENTRE, OFFSET, DIFFERENCE, LOWER, UPPER, MOST = range(6)
LAW_ROWS = 6

TURN_RAD = 0.002  # the path on which friction turns round
PLAY_RAD = 0.001  # of a slow joint: less than an encoder count
FAST_RAD_S = 0.1  # beyond that the estimated velocity is sure
FADE_S, SLOW_RAD_S = 0.2, 0.05
ALIGN_RAD_S = 0.3  # how fast the follower is led to where the leader is when both are engaged
STOP_1_S2, STOP_1_S = 400.0, 20.0  # a spring before the limit where the guard takes the current

Gains = tuple[float, float, float, float, float, float, float, float, float]  # alpha ... share_pressed, see `law`
FOUR_CHANNEL, FORCE_REFLECTING, UNILATERAL = range(3)


@numba.njit(cache=True, error_model="numpy")
def solve(M: FloatArray, b: FloatArray) -> FloatArray:
    """x of M x = b, (n,), any unit; M (n, n) is positive definite, so elimination may take its rows in their order.

    numba's `np.linalg.solve` raises where anything is not finite; here it arrives at the pair's checks, which stop it.
    """
    n, U, x = len(b), M.copy(), b.copy()
    for k in range(n):
        for i in range(k + 1, n):
            factor = U[k, i] / U[k, k]
            x[i] -= factor * x[k]
            for j in range(i, n):
                U[i, j] -= factor * U[k, j]
    for k in range(n - 1, -1, -1):
        for j in range(k + 1, n):
            x[k] -= U[k, j] * x[j]
        x[k] /= U[k, k]
    return x


@numba.njit(cache=True)
def directed_friction(
    p: FloatArray, z: FloatArray, dq: FloatArray, tm: FloatArray, te: FloatArray, out: FloatArray
) -> None:
    """Friction torques (n,) [N m] into `out`, of parameters p (terms, n), in the directions z (n,) from -1 to 1."""
    for i in range(dq.shape[0]):
        out[i] = p[FV, i] * dq[i] + p[OF, i] + z[i] * budget_of(p, i, z[i], dq[i], tm[i], te[i])


@numba.njit(cache=True)
def predict(arm: FloatArray, inertia: FloatArray, dt: float, w: float) -> None:
    """States q, dq, d of an arm (rows, n) one cycle, dt [s], on; inertia (n, n) [kg m^2], poles at -w [1/s]."""
    q, dq, d, error = arm[Q], arm[DQ], arm[D], arm[MEASURED] - arm[Q]
    u = solve(inertia, arm[IN_FORCE] - arm[BIAS] - arm[FRICTION])
    q += dt * (dq + 3.0 * w * error)
    dq += dt * (u + d + 3.0 * w * w * error)
    d += dt * w * w * w * error


@numba.njit(cache=True)
def turn_friction(arm: FloatArray, dt: float, pressed: float) -> None:
    """Directions z of friction of an arm (rows, n) one cycle, dt [s], on; `pressed` as in `ArmObserver.update`."""
    q, dq, z, anchors = arm[Q], arm[DQ], arm[Z], arm[ANCHOR]
    for i in range(len(q)):
        speed = abs(dq[i])
        anchor = min(max(anchors[i], q[i] - PLAY_RAD), q[i] + PLAY_RAD)
        step = (dt * dq[i] if speed > FAST_RAD_S else anchor - anchors[i]) / TURN_RAD
        faded = max(0.0, 1.0 - speed / SLOW_RAD_S) * (1.0 - pressed) * (dt / FADE_S)
        anchors[i], z[i] = anchor, (z[i] + step) / (1.0 + abs(step)) * (1.0 - faded)


@numba.njit(cache=True)
def feel(arm: FloatArray, inertia: FloatArray, p: FloatArray, dt: float, pressed: float) -> None:
    """Torque from outside M d of an arm (rows, n), and friction of parameters p (terms, n), SI, under that load."""
    turn_friction(arm, dt, pressed)
    arm[EXTERNAL] = inertia @ arm[D]
    directed_friction(p, arm[Z], arm[DQ], arm[IN_FORCE], arm[EXTERNAL] - arm[RIGID], arm[FRICTION])


@numba.njit(cache=True)
def apart(law: FloatArray, alpha: float, leader: FloatArray, follower: FloatArray) -> FloatArray:
    """alpha (q_l - c) - (q_f - c), (n,) [rad], of arms and law (rows, n)."""
    return np.asarray(alpha * (leader[Q] - law[CENTRE]) - (follower[Q] - law[CENTRE]))


@numba.njit(cache=True)
def coupled(
    y: FloatArray, gains: Gains, leader: FloatArray, M_l: FloatArray, follower: FloatArray, M_f: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """a_l and a_f of four-channel control, (n,) each [rad/s^2], of arms (rows, n) that are apart by y (n,) [rad]."""
    alpha, beta, K_P, K_V, k, r, b, _, _ = gains
    own = 1.0 + alpha * alpha
    u = K_P * y + K_V * (alpha * leader[DQ] - follower[DQ]) + r * (alpha * leader[D] - follower[D])
    s = k * solve(M_l + alpha * beta * M_f, leader[EXTERNAL] + beta * follower[EXTERNAL])
    s -= (leader[D] + alpha * follower[D]) / own + b * leader[DQ]
    return s - alpha / own * u, alpha * s + u / own


@numba.njit(cache=True)
def servoed(
    y: FloatArray, gains: Gains, reflected: float, leader: FloatArray, M_l: FloatArray, follower: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The same, (n,) each [rad/s^2], where the follower servoes the leader, which feels `reflected` t_f."""
    alpha, _, K_P, K_V, _, r, b, _, _ = gains
    u = K_P * y + K_V * (alpha * leader[DQ] - follower[DQ])
    s = solve(M_l, leader[EXTERNAL] + reflected * follower[EXTERNAL]) - b * leader[DQ]
    return s - leader[D], alpha * s + u - r * follower[D]


@numba.njit(cache=True)
def limited(vector: FloatArray, lower: FloatArray, upper: FloatArray) -> FloatArray:
    """A vector between two others, (n,) each, any unit; NaN stays. numba's `np.clip` takes several times as long."""
    return np.asarray(np.minimum(np.maximum(vector, lower), upper))


@numba.njit(cache=True)
def torque(law: FloatArray, arm: FloatArray, inertia: FloatArray, acceleration: FloatArray, share: float) -> FloatArray:
    """tau, (n,) [N m], with a spring before joint limits; through the difference the hand feels it, too."""
    beyond = arm[Q] - limited(arm[Q], law[LOWER], law[UPPER])
    a = acceleration - STOP_1_S2 * beyond - STOP_1_S * arm[DQ] * (arm[DQ] * beyond > 0.0)
    return np.asarray(limited(inertia @ a + arm[BIAS] + share * arm[FRICTION], -law[MOST], law[MOST]))


@numba.njit(cache=True)
def torques(
    law: FloatArray,
    gains: Gains,
    mode: int,
    dt: float,
    pressed: float,
    leader: FloatArray,
    M_l: FloatArray,
    follower: FloatArray,
    M_f: FloatArray,
    out: FloatArray,
) -> None:
    """Torques of leader and follower into `out` (2, n) [N m], dt [s] after the last ones; offset and y go on."""
    offset = law[OFFSET]
    most = np.full_like(offset, ALIGN_RAD_S * dt)
    offset -= limited(offset, -most, most)
    law[DIFFERENCE] = apart(law, gains[0], leader, follower) - offset
    if mode == FOUR_CHANNEL:
        a_l, a_f = coupled(law[DIFFERENCE], gains, leader, M_l, follower, M_f)
    else:
        reflected = gains[1] if mode == FORCE_REFLECTING else 0.0
        a_l, a_f = servoed(law[DIFFERENCE], gains, reflected, leader, M_l, follower)
    free, full = gains[7], gains[8]
    share = free + pressed * (full - free)
    out[0] = torque(law, leader, M_l, a_l, share)
    out[1] = torque(law, follower, M_f, a_f, share)


@numba.njit(cache=True)
def energy_terms(arm: FloatArray, inertia: FloatArray) -> tuple[float, float, float]:
    """Kinetic energy [J] of an arm (rows, n), power of the torque from outside, size of friction's [W]."""
    dq = arm[DQ]
    kinetic = 0.5 * dq @ (inertia @ dq)
    return kinetic, arm[EXTERNAL] @ dq, abs(arm[FRICTION] @ dq)
