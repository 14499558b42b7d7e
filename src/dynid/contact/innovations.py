"""Kalman filter of an arm with quantised encoders and sticking gears, and the effect of torques on its innovations.

The state is x = (q, v, b, f): positions and velocities of n joints, the model's torque errors, and a force at the tool
that exists in contact only. With M(q), friction F, load C v + g and motor torque tau,

    M dv/dt = tau - F - (C v + g) + b + J' f,    db/dt = -b / T + noise,    df/dt = -f / T_f + noise.

An encoder reading only shows which quantisation step contains the position, so the normal distribution of the position
is truncated to this step. An equivalent measurement without quantisation, which gives the same mean and variance,
replaces the reading (`truncated_moments`). This locates a joint much more precisely than one step, above all just after
its encoder reading changed. If the estimated position relative to the middle of the step is the same as after the last
reading, another truncation adds no information and would make the filter overconfident. The weight of a reading is
therefore proportional to the change of this relative position, but at least `LEAST_WEIGHT`; it is 1 for a change of
`FULL_STEPS` of a step or more.

The friction F is computed for the mean direction of motion m = E sign(v). An uncertain direction adds noise with the
variance (1 - m^2) times the squared friction budget, the largest friction torque against the motion. Backlash is noise,
too. A sticking joint therefore gives no information about torques.

A torque that starts at a known time and equals B(t) c, with unknown c, adds G c to the state's error and s c to each
innovation; G and s are its "signature" (Willsky and Jones 1976). Innovations are white noise, so ordinary least squares
is optimal: c = I^-1 d with the covariance I^-1. I is the sum of s' s / V, and d is the sum of s' nu / V, over all
innovations nu with variance V.
"""

import math

import numba
import numpy as np

from dynid.model.friction import FV, OF, budget_of
from dynid.robot import FloatArray

FULL_STEPS = 0.1  # motion between two readings for full information [quantisation steps]
LEAST_WEIGHT = 0.02  # minimum weight of a reading without motion
OUTLIER = 6.0  # distance from the step beyond which a reading counts as noisy [deviations]


@numba.njit(cache=True)
def normal_pdf(x: float) -> float:
    """Return the density of the standard normal distribution at x."""
    return 0.3989422804014327 * math.exp(-0.5 * x * x)


@numba.njit(cache=True)
def normal_cdf(x: float) -> float:
    """Return the cumulative standard normal distribution at x."""
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


@numba.njit(cache=True)
def truncated_moments(deviation: float, off: float, step: float) -> tuple[float, float]:
    """Truncate a normal distribution to one quantisation step of an encoder.

    If the step is more than `OUTLIER` standard deviations away, the reading counts as a noisy measurement instead.

    Args:
        deviation: standard deviation of the distribution [rad].
        off: middle of the step minus the mean of the distribution [rad].
        step: width of the step [rad].

    Returns:
        The shift of the mean by the truncation [rad], and the fraction of the variance that the truncation removes.
    """
    low, high = (off - 0.5 * step) / deviation, (off + 0.5 * step) / deviation
    if low > OUTLIER or high < -OUTLIER:
        share = deviation * deviation / (deviation * deviation + step * step / 12.0)
        return share * off, share
    inside = normal_cdf(high) - normal_cdf(low) if low < 0.0 else normal_cdf(-low) - normal_cdf(-high)
    p, q = normal_pdf(low), normal_pdf(high)
    moved = (p - q) / inside
    share = moved * moved - (low * p - high * q) / inside
    return deviation * moved, min(max(share, 1e-12), 1.0)


@numba.njit(cache=True)
def friction_terms(
    law: FloatArray, v: FloatArray, spread: FloatArray, tau: FloatArray, load: FloatArray, out: FloatArray
) -> None:
    """Write the mean and the variance of each joint's friction into `out`, given uncertain velocities.

    Args:
        law: friction parameters in the order of `dynid.model.friction.TERMS`, (terms, n), SI.
        v: estimated velocities, (n,) [rad/s].
        spread: standard deviations of these velocities, (n,) [rad/s].
        tau: motor torques, (n,) [N m].
        load: torques against Coriolis forces, gravity and contact, C v + g - J^T f, (n,) [N m]. J is the Jacobian of
            the tool and f the force at the tool.
        out: result, (4, n). Row 0 is the mean friction [N m], and row 1 its derivative by velocity [N m s/rad]. Row 2
            is the friction budget, the largest friction torque against the motion [N m]. Row 3 is the variance of
            friction due to the uncertain direction of motion, as a fraction of the squared budget [-].
    """
    for i in range(len(v)):
        m = 2.0 * normal_cdf(v[i] / spread[i]) - 1.0
        budget = budget_of(law, i, m, v[i], tau[i], -load[i])
        out[0, i] = law[FV, i] * v[i] + law[OF, i] + m * budget
        out[1, i] = law[FV, i] + 2.0 * budget * normal_pdf(v[i] / spread[i]) / spread[i]
        out[2, i], out[3, i] = budget, 1.0 - m * m


@numba.njit(cache=True)
def predict(
    x: FloatArray,
    P: FloatArray,
    dt: float,
    M: FloatArray,
    net: FloatArray,
    slope: FloatArray,
    J: FloatArray,
    kept: FloatArray,
    T: FloatArray,
    inverse: FloatArray,
) -> None:
    """Predict state x = (q, v, b, f) and covariance one step ahead, without noise.

    The state contains the positions q and velocities v of n joints, the torque errors b of the model (n,) and a force f
    at the tool (3,). The step is implicit in friction, which may be stiff.

    Args:
        x: state (N,), N = 3 n + 3; replaced.
        P: covariance (N, N); replaced.
        dt: step [s].
        M: inertia, (n, n) [kg m^2].
        net: motor torques minus friction, Coriolis and gravity torques, tau - F - (C v + g), (n,) [N m].
        slope: derivative of friction by velocity, (n,) [N m s/rad].
        J: Jacobian of the tool, (3, n) [m].
        kept: fractions of torque errors b and force f that remain after the step, (2,).
        T: transition matrix of the state (N, N), written in place.
        inverse: (M + dt slope)^-1, (n, n), written in place.
    """
    n = len(net)
    N = 3 * n + 3
    implicit = M.copy()
    for i in range(n):
        implicit[i, i] += dt * slope[i]
    inverse[:] = np.linalg.inv(implicit)
    free, pushed = inverse @ M, inverse @ J.T
    change = inverse @ (net + x[2 * n : 3 * n]) + pushed @ x[3 * n :]
    T[:] = 0.0
    for i in range(n):
        x[i] += dt * (x[n + i] + 0.5 * dt * change[i])
        T[i, i], T[i, n + i] = 1.0, dt
        T[n + i, n : 2 * n] = free[i]
        T[n + i, 2 * n : 3 * n], T[i, 2 * n : 3 * n] = dt * inverse[i], 0.5 * dt * dt * inverse[i]
        T[n + i, 3 * n :], T[i, 3 * n :] = dt * pushed[i], 0.5 * dt * dt * pushed[i]
        T[2 * n + i, 2 * n + i] = kept[0]
    for i in range(n):
        x[n + i] += dt * change[i]
        x[2 * n + i] *= kept[0]
    for i in range(3 * n, N):
        x[i] *= kept[1]
        T[i, i] = kept[1]
    P[:] = T @ P @ T.T


@numba.njit(cache=True)
def measure(
    x: FloatArray,
    P: FloatArray,
    middle: FloatArray,
    width: FloatArray,
    noise: FloatArray,
    within: FloatArray,
    gains: FloatArray,
    found: FloatArray,
) -> None:
    """Update the state of a `MotionFilter` with encoder readings, joint by joint.

    Each quantised reading is replaced by an equivalent measurement without quantisation, see `truncated_moments`.

    Args:
        x: state (N,), which begins with the positions of n joints; replaced.
        P: covariance (N, N); replaced.
        middle: encoder readings, each the centre of the quantisation step that contains the joint's position, (n,)
            [rad].
        width: width of this step, (n,) [rad]; 0 for readings without quantisation.
        noise: standard deviation of readings besides the quantisation, (n,) [rad].
        within: estimated positions minus `middle`, (n,) [rad]. The caller passes the values after the previous reading;
            they are replaced by those after this reading.
        gains: Kalman gains, (n, N), written in place.
        found: innovations and their variances of the equivalent measurements, (2, n), written in place.
    """
    N = len(x)
    for i in range(len(middle)):
        variance = P[i, i] + noise[i] * noise[i]
        off, share = middle[i] - x[i], 1.0
        moved = off
        if width[i] > 0.0:
            moved, share = truncated_moments(math.sqrt(variance), off, width[i])
        new = 1.0 if width[i] == 0.0 else min(max(abs(off + within[i]) / (FULL_STEPS * width[i]), LEAST_WEIGHT), 1.0)
        found[0, i], found[1, i] = moved / share, variance / (new * share)
        gains[i] = P[:, i] / found[1, i]
        row = P[i].copy()
        for a in range(N):
            x[a] += gains[i, a] * found[0, i]
            for b in range(N):
                P[a, b] -= gains[i, a] * row[b]
    for i in range(len(middle)):
        within[i] = x[i] - middle[i]


@numba.njit(cache=True)
def propagate_signatures(
    G: FloatArray, T: FloatArray, dt: float, driven: FloatArray, gains: FloatArray, found: FloatArray, out: FloatArray
) -> FloatArray:
    """Propagate signatures by one step of the motion filter, and compute their effect on the filter's innovations.

    A signature is the error of the filter's state per unit of an unknown torque that the filter does not model.

    Args:
        G: signatures of m unknowns, (N, m).
        T: transition matrix of the state from `predict`, (N, N).
        dt: step [s].
        driven: joint accelerations per unit of each unknown, (n, m). They are the matrix `inverse` from `predict` times
            the joint torques per unit of each unknown.
        gains: Kalman gains from `measure`, (n, N).
        found: innovations and variances from `measure`, (2, n).
        out: result, (n, m + 1). A joint's row contains the change of its innovation per unit of each unknown, and in
            the last column the innovation itself. Both are divided by the innovation's standard deviation.

    Returns:
        The propagated signatures, (N, m).
    """
    n, m = driven.shape
    G = T @ G
    G[:n] += 0.5 * dt * dt * driven
    G[n : 2 * n] += dt * driven
    for i in range(n):
        root = math.sqrt(found[1, i])
        out[i, :m], out[i, m] = G[i] / root, found[0, i] / root
        s = G[i].copy()
        for a in range(len(G)):
            for k in range(m):
                G[a, k] -= gains[i, a] * s[k]
    return G


@numba.njit(cache=True)
def add_information(out: FloatArray, I: FloatArray, d: FloatArray) -> None:  # noqa: E741
    """Add one filter step's innovations to the normal equations I c = d of H hypotheses, each with k unknowns c.

    A hypothesis is a torque that the filter does not model, with unknown coefficients c (k,).

    Args:
        out: result of `propagate_signatures` for all hypotheses, (n, H k + 1).
        I: information matrices, (H, k, k); updated.
        d: right-hand sides, (H, k); updated.
    """
    H, k = d.shape
    for i in range(len(out)):
        nu = out[i, H * k]
        for h in range(H):
            for a in range(k):
                s = out[i, h * k + a]
                d[h, a] += s * nu
                for b in range(k):
                    I[h, a, b] += s * out[i, h * k + b]
