"""Compiled loops of the friction fit: friction of many states, averaged over the torque ripple within each state.

Quantised encoders make a controller's torque jump many times within the period of the low-pass, and load-dependent
friction responds to every jump. So the friction of a state is the mean over the torques around it: tm + ripple.
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
CLOSE = 1e-8  # largest error of the solved motor torque [N m]


@numba.njit(cache=True)
def loaded_axes(p: FloatArray) -> NDArray[np.bool_]:
    """Return a mask (n,) of the axes whose friction depends on the load, from parameters p (terms, n)."""
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
    """Add the torques of columns that belong to one joint each to `links`, `rubbing` and `load`.

    Args:
        W: columns of the wanted torques, (M, kept).
        G: columns of the load, (M, kept).
        joints: joint of each column, (kept,).
        phi: parameters, (kept,).
        rubs: whether each column is friction, (kept,).
        links: result W phi, (M, n) [N m]; zero on entry.
        rubbing: result of the friction columns alone, (M, n) [N m]; zero on entry.
        load: result -G phi, (M, n) [N m]; zero on entry.
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
        x: smoothed directions of dq, (M, n).
        s: remaining share of the Stribeck friction, which decays with speed, (M, n).
        warmth: factor of friction, (M,).
        dq: velocities, (M, n) [rad/s].
        te: loads, (M, n) [N m].
        wanted: torques of the links, (M, n) [N m].
        ripple: deviations of the motor torque around each state, (M, n, R) [N m].
        tm: motor torques, (M, n) [N m]; guess on entry, result on exit.
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
    """Compute the derivatives of the tm that `settle` has found.

    Args:
        p: see `settle`.
        x: see `settle`.
        s: see `settle`.
        warmth: see `settle`.
        dq: see `settle`.
        te: see `settle`.
        ripple: see `settle`.
        tm: see `settle`.
        by_loads: whether derivatives by load terms are also computed for axes that have none.
        gain: result, derivative of tm by the wanted torque, (M, n).
        by_load: result, derivative of mean friction by te, (M, n); zero on entry.
        gradient: result, derivative of mean friction by the parameters of its axis, (M, n, terms); zero on entry.
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
    """Compute the derivatives of `settle`'s tm by base parameters, minus W, for chosen columns.

    Args:
        W: columns of the wanted torques, (M, kept).
        G: columns of the load, (M, kept).
        joints: joint of each column, (kept,).
        columns: indices of the chosen columns, (c,).
        warmed: whether each column grows with warmth, (kept,).
        warmth: see `settle`.
        gain: see `differentiate`.
        by_load: see `differentiate`.
        slides: weights of the states, (M, n).
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
    """Write friction (M, n) and its derivatives into the first columns of `out` (M, >= (2 + terms) n).

    Args:
        friction: friction torques, (M, n) [N m].
        drift: derivatives by drift, (M, n), before multiplication by `gain`.
        gradient: derivatives by the friction parameters, (M, n, terms), before multiplication by `gain`.
        terms: indices of the wanted terms, (t,).
        gain: see `differentiate`, (M, n).
        slides: weights of the states, (M, n), by which all columns are multiplied.
        out: result [friction, drift, wanted terms], n columns each.
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
    """Return derivatives of mean friction by the parameters of its axis at given motor torques, (M, n, terms).

    The arguments are those of `settle`.
    """
    found = np.zeros((*dq.shape, len(law.values)))
    gain, by_load = np.empty_like(dq), np.zeros_like(dq)
    x, s, warmth = law.directions(dq), law.fadings(dq), np.ones(len(dq))
    differentiate(law.values, x, s, warmth, dq, te, ripple, tm, True, gain, by_load, found)
    return found
