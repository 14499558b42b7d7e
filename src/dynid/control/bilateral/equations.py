"""Equations of bilateral control as compiled functions: state observer of an arm, and control law of both arms.

The modules `observer` and `law` explain the equations. All vectors of an arm are stored in one matrix (rows, n) in SI
units, whose rows have the names `Q` to `IN_FORCE`. The vectors of the control law are stored in a matrix with the rows
`CENTRE` to `MOST`. Matrices make calls fast, since each array argument costs time. All functions share one file with
the row names, because numba's cache detects changes only in a function's own file.
"""

import numba
import numpy as np

from dynid.model.friction import FV, OF, budget_of
from dynid.robot import FloatArray

# Rows of an arm's matrix: estimated q, dq and disturbance d, friction direction z and the anchor of its dead band,
# torques (bias C dq + g, rigid-body part, friction, external), measured q, torque in force
Q, DQ, D, Z, ANCHOR, BIAS, RIGID, FRICTION, EXTERNAL, MEASURED, IN_FORCE = range(11)
ARM_ROWS = 11
# Rows of the law's matrix: posture c around which positions are scaled, offset while the follower aligns, position
# difference y, positions at which the limit springs begin, torque limits
CENTRE, OFFSET, DIFFERENCE, LOWER, UPPER, MOST = range(6)
LAW_ROWS = 6

REVERSAL_RAD = 0.002  # path over which friction reverses
DEAD_BAND_RAD = 0.001  # dead band of a slow joint for friction reversal: less than an encoder count
FAST_RAD_S = 0.1  # velocity above which the estimate is reliable
FADE_S, SLOW_RAD_S = 0.2, 0.05
ALIGN_RAD_S = 0.3  # speed at which the follower aligns with the leader after the start
STOP_1_S2, STOP_1_S = 400.0, 20.0  # spring and damper in front of the limit at which the safety guard cuts the current

Gains = tuple[float, float, float, float, float, float, float, float, float]  # alpha ... share_pressed, see `law`
FOUR_CHANNEL, FORCE_REFLECTING, UNILATERAL = range(3)


@numba.njit(cache=True, error_model="numpy")
def solve(M: FloatArray, b: FloatArray) -> FloatArray:
    """Return the solution x (n,) of M x = b, any unit; M (n, n) is positive definite, so elimination needs no pivoting.

    numba's `np.linalg.solve` raises an error if a value is not finite. Here x is then not finite either, so the checks
    of both arms detect the fault and stop the arms.
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
    """Write the friction torques of all joints for given friction directions into `out`.

    Args:
        p: parameters of the friction law `FrictionLaw`, (terms, n), SI.
        z: direction of each joint's friction, from -1 to 1, (n,).
        dq: velocities, (n,) [rad/s].
        tm: motor torques at the joints, (n,) [N m].
        te: loads (torques of gravity, Coriolis forces and contact on the joints), (n,) [N m].
        out: result, (n,) [N m].
    """
    for i in range(dq.shape[0]):
        out[i] = p[FV, i] * dq[i] + p[OF, i] + z[i] * budget_of(p, i, z[i], dq[i], tm[i], te[i])


@numba.njit(cache=True)
def predict(arm: FloatArray, inertia: FloatArray, dt: float, w: float) -> None:
    """Advance the observer's estimates of position q, velocity dq and disturbance d of an arm by one cycle.

    d [rad/s^2] is the joint acceleration that external torques cause.

    Args:
        arm: matrix with the vectors of the arm as rows `Q` to `IN_FORCE`, (rows, n), SI; the rows `Q`, `DQ` and `D` are
            updated in place.
        inertia: inertia matrix M(q), (n, n) [kg m^2].
        dt: length of the cycle [s].
        w: observer bandwidth; all poles lie at -w [1/s].
    """
    n = arm.shape[1]
    driving = np.empty(n)
    for i in range(n):  # loops, because array expressions compile slowly
        driving[i] = arm[IN_FORCE, i] - arm[BIAS, i] - arm[FRICTION, i]
    u = solve(inertia, driving)
    for i in range(n):
        error = arm[MEASURED, i] - arm[Q, i]
        arm[Q, i] += dt * (arm[DQ, i] + 3.0 * w * error)
        arm[DQ, i] += dt * (u[i] + arm[D, i] + 3.0 * w * w * error)
        arm[D, i] += dt * w * w * w * error


@numba.njit(cache=True)
def reverse_friction(arm: FloatArray, dt: float, pressed: float) -> None:
    """Advance the friction direction z of each joint, from -1 to 1, by one cycle.

    While the joint moves, z approaches the sign of its motion, over a path of about `REVERSAL_RAD`. At speeds up to
    `FAST_RAD_S`, the motion of an anchor counts instead of that of the joint. The anchor is a position that moves only
    as far as needed to stay within `DEAD_BAND_RAD` of the joint's position, so that encoder noise does not change z. In
    a joint slower than `SLOW_RAD_S`, z also decays to 0 with time, unless something presses on the arm.

    Args:
        arm: matrix with the vectors of the arm as rows `Q` to `IN_FORCE`, (rows, n), SI. The rows `Z` (the directions
            z) and `ANCHOR` (the anchors) are updated in place.
        dt: length of the cycle [s].
        pressed: confidence that something presses on the arm, 0 to 1.
    """
    q, dq, z, anchors = arm[Q], arm[DQ], arm[Z], arm[ANCHOR]
    for i in range(len(q)):
        speed = abs(dq[i])
        anchor = min(max(anchors[i], q[i] - DEAD_BAND_RAD), q[i] + DEAD_BAND_RAD)
        step = (dt * dq[i] if speed > FAST_RAD_S else anchor - anchors[i]) / REVERSAL_RAD
        faded = max(0.0, 1.0 - speed / SLOW_RAD_S) * (1.0 - pressed) * (dt / FADE_S)
        anchors[i], z[i] = anchor, (z[i] + step) / (1.0 + abs(step)) * (1.0 - faded)


@numba.njit(cache=True)
def estimate_external(arm: FloatArray, inertia: FloatArray, p: FloatArray, dt: float, pressed: float) -> None:
    """Update the external torque M d and the friction torque of an arm from its estimated disturbance d.

    The friction direction is advanced by one cycle first, see `reverse_friction`.

    Args:
        arm: matrix with the vectors of the arm as rows `Q` to `IN_FORCE`, (rows, n), SI. The rows `EXTERNAL`,
            `FRICTION`, `Z` (friction directions) and `ANCHOR` (see `reverse_friction`) are updated in place.
        inertia: inertia matrix M(q), (n, n) [kg m^2].
        p: parameters of the friction law `FrictionLaw`, (terms, n), SI.
        dt: length of the cycle [s].
        pressed: confidence that something presses on the arm, 0 to 1.
    """
    reverse_friction(arm, dt, pressed)
    n = arm.shape[1]
    load = np.empty(n)
    for i in range(n):  # a loop, because `@` compiles slowly
        external = 0.0
        for j in range(n):
            external += inertia[i, j] * arm[D, j]
        arm[EXTERNAL, i] = external
        load[i] = external - arm[RIGID, i]
    directed_friction(p, arm[Z], arm[DQ], arm[IN_FORCE], load, arm[FRICTION])


@numba.njit(cache=True)
def position_difference(law: FloatArray, alpha: float, leader: FloatArray, follower: FloatArray) -> FloatArray:
    """Return the scaled position difference alpha (q_l - c) - (q_f - c) of leader l and follower f, (n,) [rad].

    Args:
        law: matrix with the vectors of the control law as rows `CENTRE` to `MOST`, (rows, n), SI; `CENTRE` is c.
        alpha: scale of positions, from leader to follower.
        leader: matrix with the vectors of the leader as rows `Q` to `IN_FORCE`, (rows, n), SI.
        follower: matrix of the follower, like `leader`.
    """
    return np.asarray(alpha * (leader[Q] - law[CENTRE]) - (follower[Q] - law[CENTRE]))


@numba.njit(cache=True)
def four_channel_accelerations(
    y: FloatArray, gains: Gains, leader: FloatArray, M_l: FloatArray, follower: FloatArray, M_f: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the accelerations that four-channel control commands to leader and follower, (n,) each [rad/s^2].

    Args:
        y: scaled position difference of leader and follower, (n,) [rad].
        gains: gains of the control law, in the order of `dynid.control.bilateral.law.SYMBOLS`.
        leader: matrix with the vectors of the leader as rows `Q` to `IN_FORCE`, (rows, n), SI.
        M_l: inertia matrix of the leader, (n, n) [kg m^2].
        follower: matrix of the follower, like `leader`.
        M_f: inertia matrix of the follower, (n, n) [kg m^2].
    """
    alpha, beta, K_P, K_V, k, r, b, _, _ = gains
    own = 1.0 + alpha * alpha
    u = K_P * y + K_V * (alpha * leader[DQ] - follower[DQ]) + r * (alpha * leader[D] - follower[D])
    s = k * solve(M_l + alpha * beta * M_f, leader[EXTERNAL] + beta * follower[EXTERNAL])
    s -= (leader[D] + alpha * follower[D]) / own + b * leader[DQ]
    return s - alpha / own * u, alpha * s + u / own


@numba.njit(cache=True)
def unilateral_accelerations(
    y: FloatArray, gains: Gains, reflected: float, leader: FloatArray, M_l: FloatArray, follower: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the accelerations commanded to leader and follower if the follower tracks the leader's position.

    The result is (n,) each [rad/s^2].

    Args:
        y: scaled position difference of leader and follower, (n,) [rad].
        gains: gains of the control law, in the order of `dynid.control.bilateral.law.SYMBOLS`.
        reflected: factor with which the follower's external torque is reflected to the leader [-]; 0 reflects nothing.
        leader: matrix with the vectors of the leader as rows `Q` to `IN_FORCE`, (rows, n), SI.
        M_l: inertia matrix of the leader, (n, n) [kg m^2].
        follower: matrix of the follower, like `leader`.
    """
    alpha, _, K_P, K_V, _, r, b, _, _ = gains
    u = K_P * y + K_V * (alpha * leader[DQ] - follower[DQ])
    s = solve(M_l, leader[EXTERNAL] + reflected * follower[EXTERNAL]) - b * leader[DQ]
    return s - leader[D], alpha * s + u - r * follower[D]


@numba.njit(cache=True)
def limited(vector: FloatArray, lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Return a vector clipped to lower and upper bounds, (n,) each, any unit; NaN stays NaN.

    numba's `np.clip` takes several times as long.
    """
    return np.asarray(np.minimum(np.maximum(vector, lower), upper))


@numba.njit(cache=True)
def torque(law: FloatArray, arm: FloatArray, inertia: FloatArray, acceleration: FloatArray, share: float) -> FloatArray:
    """Return the torque (n,) [N m] that gives an arm a commanded acceleration, clipped to the torque limits.

    Near a joint limit, a virtual spring and damper push the joint back. If they hold the follower back, the position
    difference of the arms grows. In four-channel control the law then pulls the leader back, so the follower's limit
    acts on the hand at the leader, too.

    Args:
        law: matrix with the vectors of the control law as rows `CENTRE` to `MOST`, (rows, n), SI.
        arm: matrix with the vectors of the arm as rows `Q` to `IN_FORCE`, (rows, n), SI.
        inertia: inertia matrix of the arm, (n, n) [kg m^2].
        acceleration: commanded acceleration, (n,) [rad/s^2].
        share: fraction of the modelled friction that is compensated, 0 to 1.
    """
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
    """Run one cycle of the bilateral control law, and write the torques of leader and follower into `out`.

    Args:
        law: matrix with the vectors of the control law as rows `CENTRE` to `MOST`, (rows, n), SI; the rows `OFFSET` and
            `DIFFERENCE` are updated in place.
        gains: gains of the control law, in the order of `dynid.control.bilateral.law.SYMBOLS`.
        mode: `FOUR_CHANNEL`, `FORCE_REFLECTING` or `UNILATERAL`.
        dt: time since the last cycle [s].
        pressed: confidence that the follower presses on something, 0 to 1.
        leader: matrix with the vectors of the leader as rows `Q` to `IN_FORCE`, (rows, n), SI.
        M_l: inertia matrix of the leader, (n, n) [kg m^2].
        follower: matrix of the follower, like `leader`.
        M_f: inertia matrix of the follower, (n, n) [kg m^2].
        out: torques of leader and follower, (2, n) [N m].
    """
    offset = law[OFFSET]
    most = np.full_like(offset, ALIGN_RAD_S * dt)
    offset -= limited(offset, -most, most)
    law[DIFFERENCE] = position_difference(law, gains[0], leader, follower) - offset
    if mode == FOUR_CHANNEL:
        a_l, a_f = four_channel_accelerations(law[DIFFERENCE], gains, leader, M_l, follower, M_f)
    else:
        reflected = gains[1] if mode == FORCE_REFLECTING else 0.0
        a_l, a_f = unilateral_accelerations(law[DIFFERENCE], gains, reflected, leader, M_l, follower)
    free, full = gains[7], gains[8]
    share = free + pressed * (full - free)
    out[0] = torque(law, leader, M_l, a_l, share)
    out[1] = torque(law, follower, M_f, a_f, share)


@numba.njit(cache=True)
def energy_terms(arm: FloatArray, inertia: FloatArray) -> tuple[float, float, float]:
    """Return the kinetic energy [J], power of external torques [W] and absolute power of friction [W] of an arm.

    Args:
        arm: matrix with the vectors of the arm as rows `Q` to `IN_FORCE`, (rows, n), SI.
        inertia: inertia matrix of the arm, (n, n) [kg m^2].
    """
    dq = arm[DQ]
    kinetic = 0.5 * dq @ (inertia @ dq)
    return kinetic, arm[EXTERNAL] @ dq, abs(arm[FRICTION] @ dq)
