"""Friction of many states at once, averaged over what the motor does within each: the inner loops of the friction fit.

A controller that sees encoder steps makes torques that jump many times within what a filter lets through, and friction
that grows with |tm| answers to every jump. So a state's friction is the mean over the torques about it: tm + ripple.
"""

import numba
import numpy as np
from numpy.typing import NDArray

from dynid.model.friction import (
    KEQ,
    KM,
    FrictionLaw,
    add_shape_gradient,
    load_budget,
    load_gradient,
    mean_load,
    plain_gradient,
    plain_torque,
    slope_by_load,
    slope_by_motor,
)
from dynid.robot import FloatArray

ROUNDS = 20
CLOSE = 1e-8  # N m


@numba.njit(cache=True)
def loaded_axes(p: FloatArray) -> NDArray[np.bool_]:
    """Whose friction knows the load, of parameters p (terms, n), (n,)."""
    return np.array([p[KM : KEQ + 1, i].any() for i in range(p.shape[1])])


@numba.njit(cache=True)
def add_torques(
    W: FloatArray,
    G: FloatArray,
    joints: FloatArray,
    phi: FloatArray,
    rubs: NDArray[np.bool_],
    links: FloatArray,
    rubbing: FloatArray,
    load: FloatArray,
) -> None:
    """Torques of columns that belong to one joint each.

    Args:
        W, G: columns, (M, kept), of what is wanted and of the load.
        joints: whose columns they are, (kept,).
        phi: parameters, (kept,).
        rubs: whether they are friction, (kept,).
        links, rubbing, load: results, (M, n) [N m]; W phi, that of friction alone, and -G phi; zero on entry.
    """
    for k in range(len(W)):
        for c in range(len(joints)):
            j, torque = joints[c], W[k, c] * phi[c]
            links[k, j] += torque
            if rubs[c]:
                rubbing[k, j] += torque
            load[k, j] -= G[k, c] * phi[c]


@numba.njit(cache=True)
def settle(
    p: FloatArray,
    x: FloatArray,
    s: FloatArray,
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
        x, s: directions of dq and what is left of fading friction, (M, n).
        warmth: what friction is multiplied by, (M,).
        dq, te: velocities [rad/s] and loads [N m], (M, n).
        wanted: what the links take, (M, n) [N m].
        ripple: (M, n, R) [N m].
        tm: motor torques, (M, n) [N m].
    """
    loaded = loaded_axes(p)
    for k in range(dq.shape[0]):
        for i in range(dq.shape[1]):
            base = wanted[k, i] + warmth[k] * plain_torque(p, i, x[k, i], s[k, i], dq[k, i])
            part, now = warmth[k] * x[k, i], tm[k, i]
            if not loaded[i]:
                tm[k, i] = base
                continue
            for _ in range(ROUNDS):
                load = mean_load(p, i, now, te[k, i], ripple[k, i])
                excess = now - base - part * load_budget(p, i, s[k, i], te[k, i], load)
                now -= excess / (1.0 - part * slope_by_motor(p, i, s[k, i], load))
                if abs(excess) < CLOSE:
                    break
            tm[k, i] = now


@numba.njit(cache=True)
def differentiate(
    p: FloatArray,
    x: FloatArray,
    s: FloatArray,
    warmth: FloatArray,
    dq: FloatArray,
    te: FloatArray,
    ripple: FloatArray,
    tm: FloatArray,
    by_loads: bool,
    gain: FloatArray,
    by_load: FloatArray,
    gradient: FloatArray,
) -> None:
    """Derivatives of the tm that `settle` has found.

    Args:
        p, x, s, warmth, dq, te, ripple, tm: as of `settle`.
        by_loads: whether those by the terms of load are wanted of axes that have none.
        gain: result, by what is wanted, (M, n).
        by_load: result, of mean friction by te, (M, n); zero on entry.
        gradient: result, of mean friction by the parameters of its axis, (M, n, terms); zero on entry.
    """
    loaded = loaded_axes(p)
    for k in range(dq.shape[0]):
        for i in range(dq.shape[1]):
            by_motor, part = 0.0, warmth[k] * x[k, i]
            plain_gradient(x[k, i], s[k, i], dq[k, i], warmth[k], gradient[k, i])
            if by_loads or loaded[i]:
                load = mean_load(p, i, tm[k, i], te[k, i], ripple[k, i])
                load_gradient(x[k, i], s[k, i], te[k, i], load, warmth[k], gradient[k, i])
                by_motor = part * slope_by_motor(p, i, s[k, i], load)
                by_load[k, i] = part * slope_by_load(p, i, s[k, i], te[k, i], load)
            add_shape_gradient(p, i, dq[k, i], gradient[k, i])
            gain[k, i] = 1.0 / (1.0 - by_motor)


@numba.njit(cache=True)
def add_by_links(
    W: FloatArray,
    G: FloatArray,
    joints: FloatArray,
    columns: FloatArray,
    warmed: FloatArray,
    warmth: FloatArray,
    gain: FloatArray,
    by_load: FloatArray,
    slides: FloatArray,
    out: FloatArray,
) -> None:
    """What the derivatives of the tm that `settle` has found, by the base parameters, have beyond W.

    Args:
        W, G: columns of joints, (M, kept), of what is wanted and of the load.
        joints: whose columns they are, (kept,).
        columns: which of them are looked at, (c,).
        warmed: whether they grow with warmth, (kept,).
        warmth: as of `settle`.
        gain, by_load: of `differentiate`.
        slides: what they are multiplied by, (M, n).
        out: result, (M, c).
    """
    n = gain.shape[1]
    by_own, by_warm, by_torque = np.empty(n), np.empty(n), np.empty(n)
    for k in range(len(W)):
        for j in range(n):
            by_own[j] = slides[k, j] * (gain[k, j] - 1.0)
            by_warm[j] = slides[k, j] * (gain[k, j] * warmth[k] - 1.0)
            by_torque[j] = slides[k, j] * gain[k, j] * by_load[k, j]
        for place in range(len(columns)):
            c = columns[place]
            j = joints[c]
            out[k, place] = (by_warm[j] if warmed[c] else by_own[j]) * W[k, c] - by_torque[j] * G[k, c]


@numba.njit(cache=True)
def side_by_side(
    friction: FloatArray,
    drift: FloatArray,
    gradient: FloatArray,
    terms: NDArray[np.int64],
    gain: FloatArray,
    slides: FloatArray,
    out: FloatArray,
) -> None:
    """Friction (M, n) and its derivatives, as the first columns of `out` (M, >= (2 + terms) n).

    Args:
        drift, gradient: by drift, (M, n), and by the parameters of friction, (M, n, terms), which `gain` multiplies.
        terms: of the gradient that are wanted, (t,).
        gain: of `differentiate`, (M, n).
        slides: what all are multiplied by, (M, n).
        out: [friction, drift, wanted terms], n columns each.
    """
    n = friction.shape[1]
    for k in range(friction.shape[0]):
        for i in range(n):
            by_wanted = gain[k, i] * slides[k, i]
            out[k, i] = friction[k, i] * slides[k, i]
            out[k, n + i] = drift[k, i] * by_wanted
            for t in range(len(terms)):
                out[k, (2 + t) * n + i] = gradient[k, i, terms[t]] * by_wanted


def mean_gradient(law: FrictionLaw, dq: FloatArray, te: FloatArray, ripple: FloatArray, tm: FloatArray) -> FloatArray:
    """Derivatives of mean friction by the parameters of its axis at given motor torques, (M, n, terms); as `settle`."""
    found = np.zeros((*dq.shape, len(law.values)))
    gain, by_load = np.empty_like(dq), np.zeros_like(dq)
    x, s, warmth = law.directions(dq), law.fadings(dq), np.ones(len(dq))
    differentiate(law.values, x, s, warmth, dq, te, ripple, tm, True, gain, by_load, found)
    return found
