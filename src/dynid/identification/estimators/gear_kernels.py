"""Friction of many states at once, averaged over what the motor does within each: the inner loops of the friction fit.

A controller that sees encoder steps makes torques that jump many times within what a filter lets through, and friction
that grows with |tm| answers to every jump. So a state's friction is the mean over the torques about it: tm + ripple.
"""

import numba
import numpy as np

from dynid.model.friction import (
    AS,
    WS,
    add_gradient,
    add_shape_gradient,
    direction,
    fading,
    load_budget,
    plain_torque,
    slope_by_load,
    slope_by_motor,
)
from dynid.robot import FloatArray

ROUNDS = 20
CLOSE = 1e-8  # N m


@numba.njit(cache=True)
def settle(
    p: FloatArray,
    transition: float,
    warmth: FloatArray,
    dq: FloatArray,
    te: FloatArray,
    wanted: FloatArray,
    ripple: FloatArray,
    tm: FloatArray,
) -> None:
    """Solve tm = wanted + mean friction(dq, tm + ripple, te) for tm (M, n), which is a guess on entry.

    Args:
        p: parameters of friction, (terms, n).
        transition: speed of the sign of dq [rad/s].
        warmth: what friction is multiplied by, (M,).
        dq, te: velocities [rad/s] and loads [N m], (M, n).
        wanted: what the links take, (M, n) [N m].
        ripple: (M, R, n) [N m].
        tm: motor torques, (M, n) [N m].
    """
    count = ripple.shape[1]
    for k in range(dq.shape[0]):
        for i in range(dq.shape[1]):
            x, s = direction(dq[k, i], transition), fading(dq[k, i], p[WS, i], p[AS, i])
            plain = plain_torque(p, i, x, s, dq[k, i])
            base, part = wanted[k, i] + warmth[k] * plain, warmth[k] * x / count
            for _ in range(ROUNDS):
                excess, slope = tm[k, i] - base, 1.0
                for r in range(count):
                    now = tm[k, i] + ripple[k, r, i]
                    excess -= part * load_budget(p, i, s, now, te[k, i])
                    slope -= part * slope_by_motor(p, i, s, now, te[k, i])
                tm[k, i] -= excess / slope
                if abs(excess) < CLOSE:
                    break


@numba.njit(cache=True)
def differentiate(
    p: FloatArray,
    transition: float,
    warmth: FloatArray,
    dq: FloatArray,
    te: FloatArray,
    ripple: FloatArray,
    tm: FloatArray,
    gain: FloatArray,
    by_load: FloatArray,
    gradient: FloatArray,
) -> None:
    """Derivatives of the tm that `settle` has found.

    Args:
        p, transition, warmth, dq, te, ripple, tm: as of `settle`.
        gain: result, by what is wanted, (M, n).
        by_load: result, of mean friction by te, (M, n).
        gradient: result, of mean friction by the parameters of its axis, (M, n, terms); zero on entry.
    """
    count = ripple.shape[1]
    for k in range(dq.shape[0]):
        for i in range(dq.shape[1]):
            x, s = direction(dq[k, i], transition), fading(dq[k, i], p[WS, i], p[AS, i])
            share, by_motor, load = warmth[k] / count, 0.0, te[k, i]
            for r in range(count):
                now = tm[k, i] + ripple[k, r, i]
                by_motor += share * x * slope_by_motor(p, i, s, now, load)
                by_load[k, i] += share * x * slope_by_load(p, i, s, now, load)
                add_gradient(p, i, x, s, dq[k, i], now, load, share, gradient[k, i])
            add_shape_gradient(p, i, dq[k, i], gradient[k, i])
            gain[k, i] = 1.0 / (1.0 - by_motor)


def mean_gradient(
    p: FloatArray, transition: float, dq: FloatArray, te: FloatArray, ripple: FloatArray, tm: FloatArray
) -> FloatArray:
    """Derivatives of mean friction by the parameters of its axis at given motor torques, (M, n, terms)."""
    found = np.zeros((*dq.shape, len(p)))
    gain, by_load = np.empty_like(dq), np.zeros_like(dq)
    differentiate(p, transition, np.ones(len(dq)), dq, te, ripple, tm, gain, by_load, found)
    return found
