"""Friction of servo gears; no other module defines a friction law.

The friction budget is the largest friction torque against the motion. At rest, friction balances any applied torque up
to the budget. Let w be the velocity of a joint and tm the motor's torque on it. The load te is the torque of gravity,
Coriolis forces and contact on the joint; without contact, te = -(C + g), with C + g the motor torques that balance
Coriolis forces and gravity. The factor s = exp(-(|w| / ws)^a) decreases with speed. Then

    budget = fb + fa sign(w) + |ke te - km tm| + s (fs + |kes te - kms tm| + q)
    torque = fv w + of + sign(w) budget

q is keq te^2 if the motor drives the load (te opposite to tm and smaller) and kmq tm^2 if the load drives the
motor. The law covers the models M1 to M6 of Duclusaud and Passault (arXiv:2410.08650), extended by an offset and a
budget that differs by direction. In M3 and M4, torques tm and te have equal factors, ke = km and kes = kms, so that the
budget depends on them by |te - tm| alone.

If a torque with a derivative is needed, tanh(w / v) with a small transition velocity v replaces sign(w).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numba
import numpy as np

from dynid.errors import DataError, UnknownNameError
from dynid.robot import FloatArray, read_only

IMPLICIT_TOLERANCE = 1e-14  # relative residual at which the implicit solution for the motor torque ends
MOST_ITERATIONS = 100
LONGEST_STICK_S = 0.25  # longest standstill over which the direction of friction is interpolated [s]
STARTING_RAD_S = 1e-6  # speed of a joint that starts to move: its direction is known, and s is almost 1


@dataclass(frozen=True)
class Term:
    """Parameter of the friction law, such as Coulomb friction.

    Attributes:
        symbol: symbol in formulas, such as "fb".
        prefix: name without the axis number, such as "FC" in FC3.
        unit: SI unit.
        kind: "shape" for ws and a, which enter s = exp(-(|dq| / ws)^a) nonlinearly; "signed" if the parameter may be
            negative; "size" for all others, which are not negative.
        fades: whether the parameter is multiplied by s, which decreases with speed.
    """

    symbol: str
    prefix: str
    unit: str
    kind: Literal["size", "signed", "shape"] = "size"
    fades: bool = False

    @property
    def lower(self) -> float:
        """Lower bound of the parameter's value: -inf for the kind "signed", else 0."""
        return -math.inf if self.kind == "signed" else 0.0


TERMS = (
    Term("fv", "FV", "N*m*s/rad"),
    Term("fb", "FC", "N*m"),
    Term("fa", "FA", "N*m", "signed"),
    Term("of", "OF", "N*m", "signed"),
    Term("fs", "FS", "N*m", fades=True),
    Term("km", "KM", "1"),
    Term("ke", "KE", "1"),
    Term("kms", "KMS", "1", fades=True),
    Term("kes", "KES", "1", fades=True),
    Term("kmq", "KMQ", "1/(N*m)", fades=True),
    Term("keq", "KEQ", "1/(N*m)", fades=True),
    Term("ws", "WS", "rad/s", "shape"),
    Term("a", "AS", "1", "shape"),
)
SYMBOLS = tuple(term.symbol for term in TERMS)
FV, FB, FA, OF, FS, KM, KE, KMS, KES, KMQ, KEQ, WS, AS = range(len(TERMS))
_M1, _STRIBECK, _LOAD = ("fv", "fb"), ("fs", "ws", "a"), ("km", "ke")
_M5 = (*_M1, *_STRIBECK, *_LOAD, "kms", "kes")
MODELS = {"M1": _M1, "M2": (*_M1, *_STRIBECK), "M3": (*_M1, *_LOAD), "M4": _M5, "M5": _M5, "M6": (*_M5, "kmq", "keq")}


@numba.njit(cache=True)
def direction(dq: float, transition: float) -> float:
    """Return the direction of motion sign(dq), or tanh(dq / transition) if the transition velocity is not 0 [rad/s]."""
    return math.tanh(dq / transition) if transition > 0.0 else float(np.sign(dq))


@numba.njit(cache=True)
def fading(dq: float, velocity: float, exponent: float) -> float:
    """Return s = exp(-(|dq| / velocity)^exponent), by which the Stribeck terms of friction decrease with speed.

    s is 1 at rest. In motion it is between 0 and 1, and 0 if `velocity` is 0.

    Args:
        dq: joint velocity [rad/s].
        velocity: Stribeck velocity ws [rad/s].
        exponent: Stribeck exponent a.
    """
    if dq == 0.0:
        return 1.0
    return math.exp(-((abs(dq) / velocity) ** exponent)) if velocity > 0.0 else 0.0


@numba.njit(cache=True)
def plain_budget(p: FloatArray, i: int, x: float, s: float, dq: float) -> float:
    """Return the load-independent part of the friction budget of axis i [N m].

    The budget is the largest friction torque against the motion.

    Args:
        p: friction parameters, a row per term in the order of `TERMS`, (terms, n), SI.
        i: index of the axis.
        x: direction of the motion as returned by `direction`, -1 to 1.
        s: factor of the Stribeck terms as returned by `fading`, 0 to 1.
        dq: joint velocity [rad/s]; not used, because the budget excludes viscous friction.
    """
    return float(p[FB, i] + p[FA, i] * x + s * p[FS, i])


@numba.njit(cache=True)
def plain_torque(p: FloatArray, i: int, x: float, s: float, dq: float) -> float:
    """Return the load-independent part of the friction torque of axis i in motion [N m].

    Args:
        p: friction parameters, a row per term in the order of `TERMS`, (terms, n), SI.
        i: index of the axis.
        x: direction of the motion as returned by `direction`, -1 to 1.
        s: factor of the Stribeck terms as returned by `fading`, 0 to 1.
        dq: joint velocity [rad/s].
    """
    return float(p[FV, i] * dq + p[OF, i] + x * plain_budget(p, i, x, s, dq))


Load = tuple[float, float, float, float, float, float, float]


@numba.njit(cache=True)
def load_at(p: FloatArray, i: int, tm: float, te: float) -> Load:
    """Return the seven functions of motor torque and load on which the friction of axis i depends linearly.

    Because of this linearity, their means over many motor torques give the mean friction (`mean_load`). They contain
    the signs of two terms of the friction law, ke te - km tm and kes te - kms tm, with the parameters km, ke, kms and
    kes of the law. If such a term is zero, its sign is that for a slightly larger |tm|.

    Args:
        p: friction parameters, a row per term in the order of `TERMS`, (terms, n), SI.
        i: index of the axis.
        tm: motor torque at the joint [N m].
        te: load (torque of gravity, Coriolis forces and contact on the joint) [N m].

    Returns:
        Sign of ke te - km tm; this sign times tm [N m]; sign of kes te - kms tm; this sign times tm [N m]; tm if the
        load drives the motor, else 0 [N m]; tm^2 if the load drives the motor, else 0 [N^2 m^2]; 1 if the motor drives
        the load, else 0.
    """
    alone = (1.0 if tm < 0.0 else 0.0) - (1.0 if tm > 0.0 else 0.0)
    steady, fading_part = p[KE, i] * te - p[KM, i] * tm, p[KES, i] * te - p[KMS, i] * tm
    first = 1.0 if steady > 0.0 else (-1.0 if steady < 0.0 else alone)
    second = 1.0 if fading_part > 0.0 else (-1.0 if fading_part < 0.0 else alone)
    against, smaller = te * tm < 0.0, abs(te) < abs(tm)
    driven = tm if against and not smaller else 0.0
    return first, first * tm, second, second * tm, driven, driven * tm, 1.0 if against and smaller else 0.0


@numba.njit(cache=True)
def mean_load(p: FloatArray, i: int, tm: float, te: float, ripple: FloatArray) -> Load:
    """Return the seven numbers that `load_at` computes for axis i, averaged over fluctuating motor torques.

    Args:
        p: friction parameters, a row per term in the order of `TERMS`, (terms, n), SI.
        i: index of the axis.
        tm: motor torque at the joint [N m].
        te: load (torque of gravity, Coriolis forces and contact on the joint) [N m].
        ripple: deviations from tm over which the mean is computed, (R,) [N m].
    """
    a = b = c = d = e = f = g = 0.0
    for r in range(len(ripple)):
        one = load_at(p, i, tm + ripple[r], te)
        a, b, c, d = a + one[0], b + one[1], c + one[2], d + one[3]
        e, f, g = e + one[4], f + one[5], g + one[6]
    share = 1.0 / len(ripple)
    return a * share, b * share, c * share, d * share, e * share, f * share, g * share


@numba.njit(cache=True)
def load_budget(p: FloatArray, i: int, s: float, te: float, load: Load) -> float:
    """Return the load-dependent part of the friction budget of axis i [N m].

    The budget is the largest friction torque against the motion.

    Args:
        p: friction parameters, a row per term in the order of `TERMS`, (terms, n), SI.
        i: index of the axis.
        s: factor of the Stribeck terms as returned by `fading`, 0 to 1.
        te: load (torque of gravity, Coriolis forces and contact on the joint) [N m].
        load: seven numbers that contain motor torque and load, as returned by `load_at` or `mean_load`.
    """
    first, first_tm, second, second_tm, _, driven, driving = load
    quadratic = p[KMQ, i] * driven + p[KEQ, i] * driving * te * te
    faded = p[KES, i] * te * second - p[KMS, i] * second_tm + quadratic
    return float(p[KE, i] * te * first - p[KM, i] * first_tm + s * faded)


@numba.njit(cache=True)
def budget_of(p: FloatArray, i: int, x: float, dq: float, tm: float, te: float) -> float:
    """Return the friction budget of axis i: the largest friction torque against the motion [N m].

    Args:
        p: friction parameters, a row per term in the order of `TERMS`, (terms, n), SI.
        i: index of the axis.
        x: direction of the motion as returned by `direction`, -1 to 1.
        dq: joint velocity [rad/s].
        tm: motor torque at the joint [N m].
        te: load (torque of gravity, Coriolis forces and contact on the joint) [N m].
    """
    s = fading(dq, p[WS, i], p[AS, i])
    return float(plain_budget(p, i, x, s, dq) + load_budget(p, i, s, te, load_at(p, i, tm, te)))


@numba.njit(cache=True)
def torque_of(p: FloatArray, i: int, transition: float, dq: float, tm: float, te: float) -> float:
    """Return the friction torque of axis i in motion [N m].

    The result is the torque that the motor must add to overcome friction. It has the sign of dq, apart from an offset.

    Args:
        p: friction parameters, a row per term in the order of `TERMS`, (terms, n), SI.
        i: index of the axis.
        transition: transition velocity v [rad/s]: tanh(dq / v) replaces sign(dq); 0 keeps sign(dq).
        dq: joint velocity [rad/s].
        tm: motor torque at the joint [N m].
        te: load (torque of gravity, Coriolis forces and contact on the joint) [N m].
    """
    x = direction(dq, transition)
    return float(p[FV, i] * dq + p[OF, i] + x * budget_of(p, i, x, dq, tm, te))


@numba.njit(cache=True)
def slope_by_motor(p: FloatArray, i: int, s: float, load: Load) -> float:
    """Return the derivative of the friction budget of axis i with respect to the motor torque [-].

    The budget is the largest friction torque against the motion.

    Args:
        p: friction parameters, a row per term in the order of `TERMS`, (terms, n), SI.
        i: index of the axis.
        s: factor of the Stribeck terms as returned by `fading`, 0 to 1.
        load: seven numbers that contain motor torque and load, as returned by `load_at` or `mean_load`.
    """
    return float(-p[KM, i] * load[0] + s * (2.0 * p[KMQ, i] * load[4] - p[KMS, i] * load[2]))


@numba.njit(cache=True)
def slope_by_load(p: FloatArray, i: int, s: float, te: float, load: Load) -> float:
    """Return the derivative of the friction budget of axis i with respect to the load te [-].

    The budget is the largest friction torque against the motion.

    Args:
        p: friction parameters, a row per term in the order of `TERMS`, (terms, n), SI.
        i: index of the axis.
        s: factor of the Stribeck terms as returned by `fading`, 0 to 1.
        te: load (torque of gravity, Coriolis forces and contact on the joint) [N m].
        load: seven numbers that contain motor torque and load, as returned by `load_at` or `mean_load`.
    """
    return float(p[KE, i] * load[0] + s * (2.0 * p[KEQ, i] * te * load[6] + p[KES, i] * load[2]))


@numba.njit(cache=True)
def slope_by_velocity(p: FloatArray, i: int, transition: float, dq: float, tm: float, te: float) -> float:
    """Return the derivative of the friction torque of axis i with respect to the velocity dq [N m s/rad].

    The infinite derivative of sign(dq) at dq = 0 is ignored.

    Args:
        p: friction parameters, a row per term in the order of `TERMS`, (terms, n), SI.
        i: index of the axis.
        transition: transition velocity v [rad/s]: tanh(dq / v) replaces sign(dq); 0 keeps sign(dq).
        dq: joint velocity [rad/s].
        tm: motor torque at the joint [N m].
        te: load (torque of gravity, Coriolis forces and contact on the joint) [N m].
    """
    x, s = direction(dq, transition), fading(dq, p[WS, i], p[AS, i])
    slope = p[FV, i]
    if transition > 0.0:
        slope += (1.0 - x * x) / transition * (budget_of(p, i, x, dq, tm, te) + x * p[FA, i])
    if dq != 0.0 and p[WS, i] > 0.0:
        ratio = abs(dq) / p[WS, i]
        ds = -s * p[AS, i] * ratio ** p[AS, i] / dq
        load = load_at(p, i, tm, te)
        slope += x * ds * (p[FS, i] + load_budget(p, i, 1.0, te, load) - load_budget(p, i, 0.0, te, load))
    return float(slope)


@numba.njit(cache=True)
def motor_torque_of(p: FloatArray, i: int, transition: float, dq: float, te: float, wanted: float) -> float:
    """Return the motor torque tm = wanted + friction(dq, tm, te) that delivers a torque to the links [N m].

    Friction depends on tm, so this equation is solved iteratively. If friction is a continuous function of tm, the
    solution is unique, because the factors km and kms of the motor torque in friction sum to less than 1.

    At |tm| = |te| the quadratic friction jumps between keq te^2 and kmq tm^2. If no tm on either side of this jump
    solves the equation, the result has |tm| = |te|. If the motor brakes and kmq exceeds keq, each side may have a
    solution; one of the two is returned.

    Args:
        p: friction parameters, a row per term in the order of `TERMS`, (terms, n), SI.
        i: index of the axis.
        transition: transition velocity v [rad/s]: tanh(dq / v) replaces sign(dq); 0 keeps sign(dq).
        dq: joint velocity [rad/s].
        te: load (torque of gravity, Coriolis forces and contact on the joint) [N m].
        wanted: torque that the links shall receive [N m].
    """
    x, s = direction(dq, transition), fading(dq, p[WS, i], p[AS, i])
    base = wanted + plain_torque(p, i, x, s, dq)
    if x == 0.0:
        return float(base)
    size, kept = abs(te), 1.0 - abs(x) * (p[KM, i] + s * p[KMS, i])
    most = (p[KE, i] + s * p[KES, i]) * size + s * max(p[KMQ, i], p[KEQ, i]) * size * size
    far = math.copysign((abs(base) + abs(x) * most) / kept, x)
    low, high = min(base, far), max(base, far)
    tm, scale = base, 1.0 + abs(far)
    for _ in range(MOST_ITERATIONS):
        load = load_at(p, i, tm, te)
        excess = tm - base - x * load_budget(p, i, s, te, load)
        if abs(excess) <= IMPLICIT_TOLERANCE * scale or high - low <= IMPLICIT_TOLERANCE * scale:
            break
        if excess > 0.0:
            high = tm
        else:
            low = tm
        tm -= excess / (1.0 - x * slope_by_motor(p, i, s, load))
        if not low < tm < high:
            tm = 0.5 * (low + high)
    return float(tm)


@numba.njit(cache=True)
def budgets(p: FloatArray, dq: FloatArray, tm: FloatArray, te: FloatArray, out: FloatArray) -> None:
    """Write the friction budgets of all axes in N states to `out`: the largest friction torques against the motion.

    Args:
        p: friction parameters, a row per term in the order of `TERMS`, (terms, n), SI.
        dq: joint velocities, (N, n) [rad/s]; their signs are the directions of motion.
        tm: motor torques at the joints, (N, n) [N m].
        te: loads (torques of gravity, Coriolis forces and contact on the joints), (N, n) [N m].
        out: result, (N, n) [N m].
    """
    for k in range(dq.shape[0]):
        for i in range(dq.shape[1]):
            out[k, i] = budget_of(p, i, float(np.sign(dq[k, i])), dq[k, i], tm[k, i], te[k, i])


@numba.njit(cache=True)
def torques(p: FloatArray, transition: float, dq: FloatArray, tm: FloatArray, te: FloatArray, out: FloatArray) -> None:
    """Write the friction torques of all axes in N states of motion to `out`.

    Args:
        p: friction parameters, a row per term in the order of `TERMS`, (terms, n), SI.
        transition: transition velocity v [rad/s]: tanh(dq / v) replaces sign(dq); 0 keeps sign(dq).
        dq: joint velocities, (N, n) [rad/s].
        tm: motor torques at the joints, (N, n) [N m].
        te: loads (torques of gravity, Coriolis forces and contact on the joints), (N, n) [N m].
        out: result, (N, n) [N m].
    """
    for k in range(dq.shape[0]):
        for i in range(dq.shape[1]):
            out[k, i] = torque_of(p, i, transition, dq[k, i], tm[k, i], te[k, i])


@numba.njit(cache=True)
def motor_torques(
    p: FloatArray, transition: float, dq: FloatArray, te: FloatArray, wanted: FloatArray, out: FloatArray
) -> None:
    """Write to `out` the motor torques that deliver the torques `wanted` to the links in N states, despite friction.

    Args:
        p: friction parameters, a row per term in the order of `TERMS`, (terms, n), SI.
        transition: transition velocity v [rad/s]: tanh(dq / v) replaces sign(dq); 0 keeps sign(dq).
        dq: joint velocities, (N, n) [rad/s].
        te: loads (torques of gravity, Coriolis forces and contact on the joints), (N, n) [N m].
        wanted: torques that the links shall receive, (N, n) [N m].
        out: result, (N, n) [N m].
    """
    for k in range(dq.shape[0]):
        for i in range(dq.shape[1]):
            out[k, i] = motor_torque_of(p, i, transition, dq[k, i], te[k, i], wanted[k, i])


@numba.njit(cache=True)
def slopes(p: FloatArray, transition: float, dq: FloatArray, tm: FloatArray, te: FloatArray, out: FloatArray) -> None:
    """Write the derivatives of friction torques with respect to velocity, motor torque and load to `out`, for N states.

    The infinite derivative of sign(dq) at dq = 0 is ignored.

    Args:
        p: friction parameters, a row per term in the order of `TERMS`, (terms, n), SI.
        transition: transition velocity v [rad/s]: tanh(dq / v) replaces sign(dq); 0 keeps sign(dq).
        dq: joint velocities, (N, n) [rad/s].
        tm: motor torques at the joints, (N, n) [N m].
        te: loads (torques of gravity, Coriolis forces and contact on the joints), (N, n) [N m].
        out: derivatives with respect to dq, tm and te, (3, N, n) [N m s/rad, -, -].
    """
    for k in range(dq.shape[0]):
        for i in range(dq.shape[1]):
            x, s = direction(dq[k, i], transition), fading(dq[k, i], p[WS, i], p[AS, i])
            out[0, k, i] = slope_by_velocity(p, i, transition, dq[k, i], tm[k, i], te[k, i])
            load = load_at(p, i, tm[k, i], te[k, i])
            out[1, k, i] = x * slope_by_motor(p, i, s, load)
            out[2, k, i] = x * slope_by_load(p, i, s, te[k, i], load)


@numba.njit(cache=True)
def plain_gradient(x: float, s: float, dq: float, share: float, out: FloatArray) -> None:
    """Write derivatives of one axis's friction torque with respect to its load-independent parameters to `out`.

    These are viscous friction FV, Coulomb friction FC, direction-dependent friction FA, offset OF and Stribeck
    friction FS.

    Args:
        x: direction of the motion as returned by `direction`, -1 to 1.
        s: factor of the Stribeck terms as returned by `fading`, 0 to 1.
        dq: joint velocity [rad/s].
        share: factor by which all derivatives are multiplied.
        out: result in the order of `TERMS`, (terms,) [N m per SI unit]; other entries stay unchanged.
    """
    out[FV] = dq * share
    out[FB] = x * share
    out[FA] = x * x * share
    out[OF] = share
    out[FS] = x * s * share


@numba.njit(cache=True)
def load_gradient(x: float, s: float, te: float, load: Load, share: float, out: FloatArray) -> None:
    """Write derivatives of one axis's friction torque with respect to its load-dependent parameters to `out`.

    The friction torque is linear in these six parameters. KM and KMS multiply the motor torque, KE and KES the load,
    KMQ the square of the motor torque, and KEQ the square of the load. KMS, KES, KMQ and KEQ belong to the part of
    friction that decreases with speed.

    Args:
        x: direction of the motion as returned by `direction`, -1 to 1.
        s: factor of the Stribeck terms as returned by `fading`, 0 to 1.
        te: load (torque of gravity, Coriolis forces and contact on the joint) [N m].
        load: seven numbers that contain motor torque and load, as returned by `load_at` or `mean_load`.
        share: factor by which all derivatives are multiplied.
        out: result in the order of `TERMS`, (terms,) [N m per SI unit]; other entries stay unchanged.
    """
    first, first_tm, second, second_tm, _, driven, driving = load
    steady, faded = x * share, x * s * share
    out[KM], out[KE], out[KMS], out[KES] = (
        -steady * first_tm,
        steady * first * te,
        -faded * second_tm,
        faded * second * te,
    )
    out[KMQ], out[KEQ] = faded * driven, faded * driving * te * te


@numba.njit(cache=True)
def add_shape_gradient(p: FloatArray, i: int, dq: float, out: FloatArray) -> None:
    """Write derivatives of one axis's friction torque with respect to Stribeck velocity and exponent into `out`.

    The results are computed from entries that `out` already contains: derivatives with respect to FS, KMS, KES, KMQ and
    KEQ, the parameters of the friction that decreases with speed. At rest, or if the axis has no Stribeck curve, `out`
    stays unchanged.

    Args:
        p: friction parameters, a row per term in the order of `TERMS`, (terms, n), SI.
        i: index of the axis.
        dq: joint velocity [rad/s].
        out: derivatives in the order of `TERMS`, (terms,) [N m per SI unit]; the entries of Stribeck velocity WS and
            exponent AS are written.
    """
    if dq == 0.0 or not p[WS, i] > 0.0:
        return
    logarithm = math.log(abs(dq) / p[WS, i])
    power = math.exp(p[AS, i] * logarithm)
    faded = p[FS, i] * out[FS] + p[KMS, i] * out[KMS] + p[KES, i] * out[KES]
    faded += p[KMQ, i] * out[KMQ] + p[KEQ, i] * out[KEQ]
    out[WS] = faded * p[AS, i] * power / p[WS, i]
    out[AS] = -faded * power * logarithm


@numba.njit(cache=True)
def gradients(
    p: FloatArray, transition: float, dq: FloatArray, tm: FloatArray, te: FloatArray, out: FloatArray
) -> None:
    """Write derivatives of friction torques with respect to each axis's friction parameters to `out`, for N states.

    Args:
        p: friction parameters, a row per term in the order of `TERMS`, (terms, n), SI.
        transition: transition velocity v [rad/s]: tanh(dq / v) replaces sign(dq); 0 keeps sign(dq).
        dq: joint velocities, (N, n) [rad/s].
        tm: motor torques at the joints, (N, n) [N m].
        te: loads (torques of gravity, Coriolis forces and contact on the joints), (N, n) [N m].
        out: result, (N, n, terms) [N m per SI unit]; zero on entry.
    """
    for k in range(dq.shape[0]):
        for i in range(dq.shape[1]):
            x, s = direction(dq[k, i], transition), fading(dq[k, i], p[WS, i], p[AS, i])
            plain_gradient(x, s, dq[k, i], 1.0, out[k, i])
            load_gradient(x, s, te[k, i], load_at(p, i, tm[k, i], te[k, i]), 1.0, out[k, i])
            add_shape_gradient(p, i, dq[k, i], out[k, i])


@dataclass(frozen=True, eq=False)
class FrictionLaw:
    """Friction law of n axes; arrays are read-only.

    Attributes:
        values: parameters, one row per term in the order of `TERMS`, (terms, n), SI; 0 if an axis lacks a term.
        transition_rad_s: transition velocity v: tanh(dq / v) replaces sign(dq); 0 keeps sign(dq).
        deviations: standard deviations of the values, (terms, n), NaN if unknown; None if all are unknown.
    """

    values: FloatArray
    transition_rad_s: float = 0.0
    deviations: FloatArray | None = None

    def __post_init__(self) -> None:
        values = read_only(self.values)
        if values.ndim != 2 or len(values) != len(TERMS) or not np.isfinite(values).all():
            raise DataError(f"friction has values of shape {values.shape}; expected ({len(TERMS)}, n) finite numbers")
        if not 0.0 <= self.transition_rad_s < math.inf:
            raise DataError(f"friction's transition speed is {self.transition_rad_s} rad/s; expected at least 0")
        object.__setattr__(self, "values", values)
        if self.deviations is not None:
            object.__setattr__(self, "deviations", read_only(self.deviations))
        self._refuse_impossible()

    def _refuse_impossible(self) -> None:
        """Raise DataError for values that no gear can have."""
        for term, row in zip(TERMS, self.values, strict=True):
            if (row < term.lower).any():
                i = int(np.argmin(row))
                raise DataError(f"friction {term.prefix}{i + 1} is {row[i]:g} {term.unit}; expected at least 0")
        if (np.abs(self.values[FA]) > self.values[FB]).any():
            raise DataError(
                "direction-dependent friction (FA) exceeds Coulomb friction (FC), so it would drive the joint"
            )
        locked = self.values[KM] + self.values[KMS]
        if (locked >= 1.0).any():
            i = int(np.argmax(locked))
            raise DataError(
                f"friction KM{i + 1} + KMS{i + 1} is {locked[i]:g}; expected less than 1: no motor could move this gear"
            )
        fading_rows = [k for k, term in enumerate(TERMS) if term.fades]
        if ((self.values[fading_rows] > 0.0).any(axis=0) & ~(self.values[[WS, AS]] > 0.0).all(axis=0)).any():
            raise DataError("friction has a Stribeck term, but its Stribeck velocity WS or exponent AS is not above 0")

    @classmethod
    def of(cls, axes: int, figures: Mapping[str, FloatArray | float], transition_rad_s: float = 0.0) -> "FrictionLaw":
        """Return the law of n axes from its parameters by symbol, such as {"fb": 0.1}.

        Args:
            axes: number of axes n.
            figures: values by symbol, each (n,) or one number for all axes, SI. The symbols kl and kls of the friction
                models M3 and M4 set ke = km and kes = kms.
            transition_rad_s: transition velocity v: tanh(dq / v) replaces sign(dq); 0 keeps sign(dq).

        Raises:
            UnknownNameError: a symbol that is not a parameter.
            DataError: values that no gear can have.
        """
        values, alike = np.zeros((len(TERMS), axes)), {"kl": (KM, KE), "kls": (KMS, KES)}
        for symbol, value in figures.items():
            if symbol not in (*SYMBOLS, *alike):
                raise UnknownNameError("friction parameter", symbol, SYMBOLS)
            values[list(alike[symbol]) if symbol in alike else SYMBOLS.index(symbol)] = value
        return cls(values, transition_rad_s)

    @property
    def axes(self) -> int:
        """Number of axes n."""
        return int(self.values.shape[1])

    @property
    def terms(self) -> tuple[str, ...]:
        """Symbols of the friction parameters that are not zero for all axes."""
        return tuple(symbol for symbol, row in zip(SYMBOLS, self.values, strict=True) if row.any())

    @property
    def depends_on_load(self) -> bool:
        """Whether friction depends on the motor torque or on the load."""
        return bool(self.values[KM : KEQ + 1].any())

    def __getitem__(self, symbol: str) -> FloatArray:
        if symbol not in SYMBOLS:
            raise UnknownNameError("friction parameter", symbol, SYMBOLS)
        return np.asarray(self.values[SYMBOLS.index(symbol)])

    def with_values(self, figures: Mapping[str, FloatArray | float]) -> "FrictionLaw":
        """Return the law with the parameters in `figures` replaced; their standard deviations become unknown.

        Args:
            figures: new values by symbol, such as "fb", each (n,) or one number for all axes, SI.
        """
        values = np.array(self.values)
        deviations = None if self.deviations is None else np.array(self.deviations)
        for symbol, value in figures.items():
            values[SYMBOLS.index(symbol)] = value
            if deviations is not None:
                deviations[SYMBOLS.index(symbol)] = np.nan
        return replace(self, values=values, deviations=deviations)

    def scaled(self, factor: float) -> "FrictionLaw":
        """Return a law with `factor` times this friction at every velocity and load, as for a warmer gear."""
        values = factor * self.values
        values[[WS, AS]] = self.values[[WS, AS]]
        return replace(self, values=values, deviations=None)

    def budget(self, dq: FloatArray, tm: FloatArray | float = 0.0, te: FloatArray | float = 0.0) -> FloatArray:
        """Return the largest friction torques against the motion, (..., n) [N m].

        Args:
            dq: velocities, (..., n) [rad/s]; at 0 the largest friction at rest is returned.
            tm: motor torques at the joints, (..., n) [N m].
            te: loads (torques of gravity, Coriolis forces and contact on the joints), (..., n) [N m].
        """
        rates, motor, load, out = self._states(dq, tm, te)
        budgets(self.values, rates, motor, load, out)
        return out.reshape(np.shape(dq))

    def directions(self, dq: FloatArray) -> FloatArray:
        """Return sign(dq), or tanh(dq / v) if the law has a transition velocity v, for dq (..., n) [rad/s]."""
        return np.asarray(np.tanh(dq / self.transition_rad_s) if self.transition_rad_s > 0.0 else np.sign(dq))

    def directions_in_time(self, dq: FloatArray, step_s: float) -> FloatArray:
        """Return the direction of friction, -1 to 1, for each row of a time series of velocities, (M, n) [-].

        The result is sign(dq) or tanh(dq / v), as in `directions`, except in short standstills. A joint stands still
        if |dq| is at most the transition velocity v. If this lasts less than `LONGEST_STICK_S`, the direction changes
        linearly in time between the values before and after. In longer standstills, the true friction is unknown, and
        the result is that of `directions`.

        Args:
            dq: velocities, (M, n) [rad/s].
            step_s: time between two rows of dq [s].
        """
        x, instants = self.directions(dq), np.arange(len(dq))
        for i, slides in enumerate((np.abs(dq) > self.transition_rad_s).T):
            places = instants[slides]
            if not len(places):
                continue
            after = np.minimum(np.searchsorted(places, instants), len(places) - 1)
            gap = places[after] - places[np.maximum(after - 1, 0)]
            short = ~slides & (gap * step_s < LONGEST_STICK_S) & (places[0] < instants) & (instants < places[-1])
            x[short, i] = np.interp(instants[short], places, x[slides, i])
        return x

    def fadings(self, dq: FloatArray) -> FloatArray:
        """Return the factors s of the Stribeck friction at velocities dq (..., n) [rad/s].

        s = exp(-(|dq| / ws)^a) is 1 at rest; in motion it is between 0 and 1, and 0 without a Stribeck velocity ws.
        """
        velocity, exponent = self.values[WS], self.values[AS]
        given = velocity > 0.0
        s = np.exp(-((np.abs(dq) / np.where(given, velocity, 1.0)) ** exponent))
        return np.where(dq == 0.0, 1.0, np.where(given, s, 0.0))

    def torque(self, dq: FloatArray, tm: FloatArray | float = 0.0, te: FloatArray | float = 0.0) -> FloatArray:
        """Return the friction torques of moving joints.

        Args:
            dq: velocities, (..., n) [rad/s].
            tm: motor torques at the joints, (..., n) [N m].
            te: loads (torques of gravity, Coriolis forces and contact on the joints), (..., n) [N m].

        Returns:
            Additional motor torque that overcomes friction, (..., n) [N m]; it has the sign of dq, apart from an
            offset.
        """
        rates, motor, load, out = self._states(dq, tm, te)
        torques(self.values, self.transition_rad_s, rates, motor, load, out)
        return out.reshape(np.shape(dq))

    def motor_torque(self, dq: FloatArray, wanted: FloatArray, te: FloatArray | float = 0.0) -> FloatArray:
        """Return the motor torques that overcome friction and deliver `wanted` to the links, (..., n) [N m].

        The result is the solution tm of tm = wanted + torque(dq, tm, te).

        Args:
            dq: velocities, (..., n) [rad/s].
            wanted: torques that the links shall receive, (..., n) [N m].
            te: loads (torques of gravity, Coriolis forces and contact on the joints), (..., n) [N m].
        """
        rates, asked, load, out = self._states(dq, wanted, te)
        motor_torques(self.values, self.transition_rad_s, rates, load, asked, out)
        return out.reshape(np.shape(dq))

    def starting_torque(self, load: FloatArray, sign: float) -> FloatArray:
        """Return the motor torques that start joints from rest against a load, (..., n) [N m].

        Args:
            load: motor torque that balances the load at rest, such as that against gravity, (..., n) [N m]; -te in the
                friction law.
            sign: direction of the motion, 1 or -1.
        """
        return self.motor_torque(np.full_like(load, sign * STARTING_RAD_S), load, -load)

    def derivatives(
        self, dq: FloatArray, tm: FloatArray | float = 0.0, te: FloatArray | float = 0.0
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the derivatives of the friction torque with respect to dq, tm and te, (..., n) each.

        Their units are [N m s/rad, -, -]. The infinite derivative of sign(dq) at dq = 0 is ignored.

        Args:
            dq: velocities, (..., n) [rad/s].
            tm: motor torques at the joints, (..., n) [N m].
            te: loads (torques of gravity, Coriolis forces and contact on the joints), (..., n) [N m].
        """
        rates, motor, load, _ = self._states(dq, tm, te)
        found = np.empty((3, *rates.shape))
        slopes(self.values, self.transition_rad_s, rates, motor, load, found)
        by_velocity, by_motor, by_load = (one.reshape(np.shape(dq)) for one in found)
        return by_velocity, by_motor, by_load

    def gradient(self, dq: FloatArray, tm: FloatArray | float = 0.0, te: FloatArray | float = 0.0) -> FloatArray:
        """Return the derivatives of the friction torque with respect to the friction parameters of each axis.

        The result is (..., n, terms) [N m per SI unit], in the order of `TERMS`.

        Args:
            dq: velocities, (..., n) [rad/s].
            tm: motor torques at the joints, (..., n) [N m].
            te: loads (torques of gravity, Coriolis forces and contact on the joints), (..., n) [N m].
        """
        rates, motor, load, _ = map(
            np.array, self._states(dq, tm, te)
        )  # copies: numba compiles anew for read-only arrays
        found = np.zeros((*rates.shape, len(TERMS)))
        gradients(self.values, self.transition_rad_s, rates, motor, load, found)
        return found.reshape(*np.shape(dq), len(TERMS))

    def _states(
        self, dq: FloatArray, second: FloatArray | float, third: FloatArray | float
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return dq, `second` and `third` as arrays (N, n), and an uninitialised array (N, n) for a result.

        `second` and `third` are quantities of the same states, such as motor torques and loads.

        Raises:
            DataError: dq has another number of axes than the law.
        """
        shape = np.shape(dq)
        if not shape or shape[-1] != self.axes:
            raise DataError(f"friction of {self.axes} axes: velocities have the shape {shape}; expected (..., n)")
        rows = [_of_shape(x, shape).reshape(-1, self.axes) for x in (dq, second, third)]
        return rows[0], rows[1], rows[2], np.empty_like(rows[0])


def _of_shape(x: FloatArray | float, shape: tuple[int, ...]) -> FloatArray:
    """Return x as a contiguous array of the given shape, without a copy if x already is such an array."""
    if isinstance(x, np.ndarray) and x.shape == shape and x.dtype == np.float64 and x.flags.c_contiguous:
        return x
    return np.ascontiguousarray(np.broadcast_to(np.asarray(x, dtype=np.float64), shape))
