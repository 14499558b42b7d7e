"""A Kalman filter of an arm whose encoders have steps and whose gears stick, and what torques leave in its innovations.

The state is x = (q, v, b, f): positions and velocities of n joints, what the model leaves of their torques, and a force
at the tool that is there in contact only. With M(q), friction F, load C v + g and motor torque tau,

    M dv/dt = tau - F - (C v + g) + b + J' f,    db/dt = -b / T + noise,    f alike.

An encoder says in which of its steps a joint is, no more: the normal distribution of the position is cut to the step,
and the first two moments of what is left are those of an equal measurement without steps (`cut`). So a joint that moves
by known laws is known much better than to a step, above all where its encoder has just changed. As long as a joint
stays where it is within its step, or moves by whole steps from reading to reading, a cut by the same step says nothing
new, and would make sure of what is not: a cut counts by how far the joint has moved against the steps, in full from
`NEW` of a step on.

Friction is that of the mean direction of motion, m = E sign(v). Where the direction is open, 1 - m^2 of the budget's
square is noise, and so is what play of the gears hides. A joint that sticks then says nothing about torques.

A torque that begins at a known time and is B(t) c, with unknown c, adds G c to the state's error and s c to each
innovation (the "signature", Willsky and Jones 1976). Innovations are white, so least squares on them are best:
c = I^-1 d with the covariance I^-1, where I and d add up s' s / V and s' nu / V.
"""

import math

import numba
import numpy as np

from dynid.model.friction import FV, OF, budget_of
from dynid.robot import FloatArray

NEW, LEAST_NEW = 0.1, 0.02  # of a step, between two readings; and no cut counts by less
FAR = 6.0  # deviations from the step beyond which a measurement counts as one with noise


@numba.njit(cache=True)
def density(x: float) -> float:
    """Of the standard normal distribution."""
    return 0.3989422804014327 * math.exp(-0.5 * x * x)


@numba.njit(cache=True)
def below(x: float) -> float:
    """Share of the standard normal distribution below x."""
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


@numba.njit(cache=True)
def cut(deviation: float, off: float, step: float) -> tuple[float, float]:
    """A normal distribution that turns out to lie within a step of an encoder.

    Args:
        deviation: of the distribution [rad].
        off: from its mean to the middle of the step [rad].
        step: of the encoder [rad].

    Returns:
        By how much the mean moves [rad], and which share of the variance goes.
    """
    low, high = (off - 0.5 * step) / deviation, (off + 0.5 * step) / deviation
    if low > FAR or high < -FAR:
        share = deviation * deviation / (deviation * deviation + step * step / 12.0)
        return share * off, share
    inside = below(high) - below(low) if low < 0.0 else below(-low) - below(-high)
    p, q = density(low), density(high)
    moved = (p - q) / inside
    share = moved * moved - (low * p - high * q) / inside
    return deviation * moved, min(max(share, 1e-12), 1.0)


@numba.njit(cache=True)
def friction_terms(
    law: FloatArray, v: FloatArray, spread: FloatArray, tau: FloatArray, load: FloatArray, out: FloatArray
) -> None:
    """Friction of uncertain velocities into `out`, (4, n).

    Args:
        law: parameters, (terms, n).
        v, spread: velocities and their deviations, (n,) [rad/s].
        tau, load: torques of motors, and C v + g, (n,) [N m].
        out: mean [N m], its slope by velocity [N m s/rad], budget [N m], and the share of its variance that is open.
    """
    for i in range(len(v)):
        m = 2.0 * below(v[i] / spread[i]) - 1.0
        budget = budget_of(law, i, m, v[i], tau[i], -load[i])
        out[0, i] = law[FV, i] * v[i] + law[OF, i] + m * budget
        out[1, i] = law[FV, i] + 2.0 * budget * density(v[i] / spread[i]) / spread[i]
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
    """State and covariance a step later, without noise; implicit in friction, which may be stiff.

    Args:
        x, P: state (N,) and covariance (N, N), N = 3 n + 3; replaced.
        dt: step [s].
        M: inertia, (n, n) [kg m^2].
        net: tau - F - (C v + g), (n,) [N m].
        slope: of friction by velocity, (n,) [N m s/rad].
        J: of the tool, (3, n) [m].
        kept: what is left of b and f after the step, (2,).
        T, inverse: transition (N, N) and (M + dt slope)^-1 (n, n), filled in.
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
    """Take in encoder readings, joint after joint.

    Args:
        x, P: state (N,) and covariance (N, N); replaced.
        middle, width: of the interval in which each joint is by its encoder, (n,) [rad]; width 0 is the value itself.
        noise: deviations of what is read beside the steps, (n,) [rad].
        within: where in its step each joint was by the reading before, (n,) [rad]; updated.
        gains: Kalman gains, (n, N), filled in.
        found: innovations and their variances as those of measurements without steps, (2, n), filled in.
    """
    N = len(x)
    for i in range(len(middle)):
        variance = P[i, i] + noise[i] * noise[i]
        off, share = middle[i] - x[i], 1.0
        moved = off
        if width[i] > 0.0:
            moved, share = cut(math.sqrt(variance), off, width[i])
        new = 1.0 if width[i] == 0.0 else min(max(abs(off + within[i]) / (NEW * width[i]), LEAST_NEW), 1.0)
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
def carry(
    G: FloatArray, T: FloatArray, dt: float, driven: FloatArray, gains: FloatArray, found: FloatArray, out: FloatArray
) -> FloatArray:
    """Signatures a step later, and what the innovations say of each.

    Args:
        G: signatures, (N, m).
        T: transition, (N, N).
        dt: step [s].
        driven: (M + dt slope)^-1 B, accelerations per unknown, (n, m).
        gains, found: as `measure` has filled them in.
        out: per joint, s' / sqrt(V) and nu / sqrt(V) in the last column, (n, m + 1), filled in.

    Returns:
        The signatures, (N, m).
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
def gather(out: FloatArray, I: FloatArray, d: FloatArray) -> None:  # noqa: E741
    """Add what `carry` found to the information (H, k, k) and the score (H, k) of H hypotheses of k unknowns each."""
    H, k = d.shape
    for i in range(len(out)):
        nu = out[i, H * k]
        for h in range(H):
            for a in range(k):
                s = out[i, h * k + a]
                d[h, a] += s * nu
                for b in range(k):
                    I[h, a, b] += s * out[i, h * k + b]
