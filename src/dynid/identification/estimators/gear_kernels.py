"""Compiled loops of the friction fit: friction of many states, averaged over the torque ripple around each state.

Quantised encoders make a controller's torque jump many times within the period of the torques' low-pass filter.
Load-dependent friction responds to every jump. So the friction of a state is the mean over the torques tm + ripple
around this state: the motor torque tm plus the high frequencies that the low-pass removes.
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
    """Return a mask (n,) of the axes whose friction depends on the load, given friction parameters p (terms, n)."""
    return np.array([p[KM : KEQ + 1, i].any() for i in range(p.shape[1])])


@numba.njit(cache=True)
def settled_torque(
    p: FloatArray,
    i: int,
    x: float,
    s: float,
    warmth: float,
    dq: float,
    te: float,
    wanted: float,
    ripple: FloatArray,
    guess: float,
    loaded: bool,
) -> float:
    """Return the motor torque tm = wanted + mean friction(dq, tm + ripple, te) of axis i in one state [N m].

    The mean is taken over the torque ripple. Newton's method solves the equation, because friction depends on tm.

    Args:
        p: parameters of friction, (terms, n).
        i: index of the axis.
        x: smoothed sign of dq.
        s: remaining fraction of the Stribeck friction, which decays with speed.
        warmth: factor by which the drift of friction over time multiplies friction; 1 without drift.
        dq: velocity [rad/s].
        te: load of the gear by gravity and Coriolis forces [N m].
        wanted: torque of the base parameters [N m].
        ripple: motor torque minus its low-passed value, at R instants around the state, (R,) [N m].
        guess: motor torque from which Newton's method starts [N m].
        loaded: whether the friction of the axis depends on the load.
    """
    base = wanted + warmth * plain_torque(p, i, x, s, dq)
    if not loaded:
        return float(base)
    part, now = warmth * x, guess
    for _ in range(ROUNDS):
        load = mean_load(p, i, now, te, ripple)
        excess = now - base - part * load_budget(p, i, s, te, load)
        now -= excess / (1.0 - part * slope_by_motor(p, i, s, load))
        if abs(excess) < CLOSE:
            break
    return now


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
    """Solve tm = wanted + mean friction(dq, tm + ripple, te) for the motor torques tm of all states, in place.

    The mean is taken over the torque ripple.

    Args:
        p: parameters of friction, (terms, n).
        x: smoothed signs of dq, (M, n).
        s: remaining fraction of the Stribeck friction, which decays with speed, (M, n).
        warmth: factor by which the drift of friction over time multiplies friction, (M,).
        dq: velocities, (M, n) [rad/s].
        te: loads of the gears by gravity and Coriolis forces, (M, n) [N m].
        wanted: torques of the base parameters, (M, n) [N m].
        ripple: motor torques minus their low-passed values, at R instants around each state, (M, n, R) [N m].
        tm: motor torques, (M, n) [N m]; start values of Newton's method on entry, result on exit.
    """
    loaded = loaded_axes(p)
    for k in range(dq.shape[0]):
        for i in range(dq.shape[1]):
            tm[k, i] = settled_torque(
                p, i, x[k, i], s[k, i], warmth[k], dq[k, i], te[k, i], wanted[k, i], ripple[k, i], tm[k, i], loaded[i]
            )


@numba.njit(cache=True)
def settle_links(
    p: FloatArray,
    W: FloatArray,
    G: FloatArray,
    joints: NDArray[np.int64],
    phi: FloatArray,
    rubs: NDArray[np.bool_],
    x: FloatArray,
    s: FloatArray,
    drift: float,
    minutes: FloatArray,
    dq: FloatArray,
    ripple: FloatArray,
    slides: FloatArray,
    links: FloatArray,
    rubbing: FloatArray,
    te: FloatArray,
    tm: FloatArray,
) -> None:
    """Compute the torques W phi, the loads te = -G phi and the motor torques tm of all states, in place.

    tm solves tm = W phi + mean friction(dq, tm + ripple, te), where the mean is taken over the torque ripple. If the
    weight (`slides`) of a joint's state is 0, its `links`, `rubbing` and `te` become 0, and its `tm` is not changed.

    Args:
        p: parameters of friction, (terms, n).
        W: nonzero columns of the regressor, (M, k). A column contains the torque of one joint per unit of one base
            parameter.
        G: columns of the regressor at zero acceleration, which give the load by gravity and Coriolis forces, (M, k).
        joints: joint of each column in ascending order, (k,).
        phi: base parameter of each column, (k,).
        rubs: mask of the columns whose base parameter is friction, (k,). This friction drifts like that of `p`.
        x: smoothed signs of dq, (M, n).
        s: remaining fraction of the Stribeck friction, which decays with speed, (M, n).
        drift: relative change of friction per minute.
        minutes: times of the states [min], (M,).
        dq: velocities, (M, n) [rad/s].
        ripple: motor torques minus their low-passed values, at R instants around each state, (M, n, R) [N m].
        slides: weights of the states, (M, n); 0 masks a state near standstill.
        links: output, torques W phi, (M, n) [N m].
        rubbing: output, torques of the friction columns of W alone, (M, n) [N m].
        te: output, loads -G phi, (M, n) [N m].
        tm: motor torques, (M, n) [N m]; start values of Newton's method on entry, result on exit.
    """
    loaded = loaded_axes(p)
    ends = np.searchsorted(joints, np.arange(dq.shape[1] + 1))
    for k in range(dq.shape[0]):
        warmth = 1.0 + drift * minutes[k]
        for i in range(dq.shape[1]):
            if slides[k, i] == 0.0:
                links[k, i] = rubbing[k, i] = te[k, i] = 0.0
                continue
            link = rub = load = 0.0
            for c in range(ends[i], ends[i + 1]):
                torque = W[k, c] * phi[c]
                link += torque
                load -= G[k, c] * phi[c]
                if rubs[c]:
                    rub += torque
            links[k, i], rubbing[k, i], te[k, i] = link, rub, load
            wanted = link + drift * minutes[k] * rub
            tm[k, i] = settled_torque(
                p, i, x[k, i], s[k, i], warmth, dq[k, i], load, wanted, ripple[k, i], tm[k, i], loaded[i]
            )


@numba.njit(cache=True)
def state_gradient(
    p: FloatArray,
    i: int,
    x: float,
    s: float,
    warmth: float,
    dq: float,
    te: float,
    ripple: FloatArray,
    tm: float,
    by_loads: bool,
    gradient: FloatArray,
) -> tuple[float, float]:
    """Return the derivatives of the friction of axis i by motor torque tm and by load te, in one state.

    Friction is evaluated at the motor torque tm plus each deviation of `ripple`, and averaged. Its derivatives by the
    friction parameters are written to `gradient`.

    Args:
        p: parameters of friction, (terms, n).
        i: index of the axis.
        x: smoothed sign of the velocity.
        s: remaining fraction of the Stribeck friction, which decays with speed.
        warmth: factor by which the drift of friction over time multiplies friction; 1 without drift.
        dq: velocity [rad/s].
        te: load of the gear by gravity and Coriolis forces [N m].
        ripple: deviations of the motor torque around the state, (R,) [N m].
        tm: motor torque [N m].
        by_loads: whether friction may depend on motor torque and load; else both returned derivatives are 0.
        gradient: output, derivatives by the friction parameters of the axis, (terms,); must be zero on entry.
    """
    plain_gradient(x, s, dq, warmth, gradient)
    by_motor, by_load = 0.0, 0.0
    if by_loads:
        load, part = mean_load(p, i, tm, te, ripple), warmth * x
        load_gradient(x, s, te, load, warmth, gradient)
        by_motor, by_load = part * slope_by_motor(p, i, s, load), part * slope_by_load(p, i, s, te, load)
    add_shape_gradient(p, i, dq, gradient)
    return by_motor, by_load


@numba.njit(cache=True)
def differentiate(
    p: FloatArray,
    x: FloatArray,
    s: FloatArray,
    dq: FloatArray,
    te: FloatArray,
    ripple: FloatArray,
    tm: FloatArray,
    gradient: FloatArray,
) -> None:
    """Compute the derivatives of each axis's friction by its friction parameters, in all states.

    The friction of a state is the mean over the torque ripple.

    Args:
        p: parameters of friction, (terms, n).
        x: smoothed signs of dq, (M, n).
        s: remaining fraction of the Stribeck friction, which decays with speed, (M, n).
        dq: velocities, (M, n) [rad/s].
        te: loads, (M, n) [N m].
        ripple: deviations of the motor torque around each state, (M, n, R) [N m].
        tm: motor torques, (M, n) [N m].
        gradient: output, the derivatives, (M, n, terms); must be zero on entry.
    """
    for k in range(dq.shape[0]):
        for i in range(dq.shape[1]):
            state_gradient(
                p, i, x[k, i], s[k, i], 1.0, dq[k, i], te[k, i], ripple[k, i], tm[k, i], True, gradient[k, i]
            )


@numba.njit(cache=True)
def derive(
    p: FloatArray,
    W: FloatArray,
    G: FloatArray,
    joints: NDArray[np.int64],
    changed: NDArray[np.int64],
    rubs: NDArray[np.bool_],
    x: FloatArray,
    s: FloatArray,
    drift: float,
    minutes: FloatArray,
    dq: FloatArray,
    ripple: FloatArray,
    links: FloatArray,
    rubbing: FloatArray,
    te: FloatArray,
    tm: FloatArray,
    terms: NDArray[np.int64],
    slides: FloatArray,
    out: FloatArray,
) -> None:
    """Compute derivatives of motor torques tm by parameters, multiplied by the weights of the states.

    tm solves tm = W phi + mean friction(dq, tm + ripple, te), see `settle_links`. The parameters are the drift of
    friction, friction parameters, and base parameters phi.

    Args:
        p: parameters of friction, (terms, n).
        W: nonzero columns of the regressor, (M, k). A column contains the torque of one joint per unit of one base
            parameter.
        G: columns of the regressor at zero acceleration, which give the load by gravity and Coriolis forces, (M, k).
        joints: joint of each column, (k,).
        changed: indices of the c columns of W that are not the whole derivative of tm by their base parameter, (c,).
            Either the friction of `p` depends on load and motor torque, which the base parameter changes. Or the base
            parameter is friction, and drifts.
        rubs: mask of the columns whose base parameter is friction, (k,). This friction drifts like that of `p`.
        x: smoothed signs of dq, (M, n).
        s: remaining fraction of the Stribeck friction, which decays with speed, (M, n).
        drift: relative change of friction per minute.
        minutes: times of the states [min], (M,).
        dq: velocities, (M, n) [rad/s].
        ripple: motor torques minus their low-passed values, at R instants around each state, (M, n, R) [N m].
        links: torques W phi of the base parameters, (M, n) [N m].
        rubbing: torques of those base parameters that are friction, (M, n) [N m].
        te: loads -G phi, (M, n) [N m].
        tm: motor torques, (M, n) [N m].
        terms: indices of the wanted friction parameters, (t,).
        slides: weights of the states, (M, n); 0 masks a state near standstill.
        out: output (M, (1 + t) n + c). The first n columns are derivatives by drift. Then follow n columns for each
            wanted friction parameter. The last c columns are the missing parts of the derivatives by base parameters,
            which must be added to the columns `changed` of W.
    """
    n, count = dq.shape[1], len(terms)
    loaded = loaded_axes(p)
    wanted_loads = False
    for t in range(count):
        wanted_loads |= KM <= terms[t] <= KEQ
    by_own, by_warm, by_torque = np.empty(n), np.empty(n), np.empty(n)
    gradient = np.empty(p.shape[0])
    for k in range(dq.shape[0]):
        warmth = 1.0 + drift * minutes[k]
        out[k, : (1 + count) * n] = 0.0
        for i in range(n):
            by_own[i] = by_warm[i] = by_torque[i] = 0.0
            if slides[k, i] == 0.0:
                continue
            gradient[:] = 0.0
            by_motor, by_load = state_gradient(
                p,
                i,
                x[k, i],
                s[k, i],
                warmth,
                dq[k, i],
                te[k, i],
                ripple[k, i],
                tm[k, i],
                wanted_loads or loaded[i],
                gradient,
            )
            gain = 1.0 / (1.0 - by_motor)
            weight = gain * slides[k, i]
            rubbed = tm[k, i] - links[k, i] - drift * minutes[k] * rubbing[k, i]
            out[k, i] = (rubbed / warmth + rubbing[k, i]) * minutes[k] * weight
            for t in range(count):
                out[k, (1 + t) * n + i] = gradient[terms[t]] * weight
            by_own[i] = slides[k, i] * (gain - 1.0)
            by_warm[i] = slides[k, i] * (gain * warmth - 1.0)
            by_torque[i] = weight * by_load
        for place in range(len(changed)):
            c = changed[place]
            j = joints[c]
            out[k, (1 + count) * n + place] = (by_warm[j] if rubs[c] else by_own[j]) * W[k, c] - by_torque[j] * G[k, c]


def mean_gradient(law: FrictionLaw, dq: FloatArray, te: FloatArray, ripple: FloatArray, tm: FloatArray) -> FloatArray:
    """Return derivatives of each axis's friction by the friction parameters of this axis, (M, n, terms).

    The motor torques are given. The friction of a state is the mean over the torque ripple around this state.

    Args:
        law: friction law, whose parameters are used.
        dq: velocities, (M, n) [rad/s].
        te: loads of the gears, (M, n) [N m].
        ripple: deviations of the motor torque around each state, (M, n, R) [N m].
        tm: motor torques, (M, n) [N m].
    """
    found = np.zeros((*dq.shape, len(law.values)))
    differentiate(law.values, law.directions(dq), law.fadings(dq), dq, te, ripple, tm, found)
    return found
