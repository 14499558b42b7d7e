"""Rows of the weak form, reduced to triangles.

The equation of motion holds at every instant, so it holds for any average:

    int psi m tau dt = int psi m (W phi + friction) dt

with a test function psi of limited support (modulating functions, Preisig and Rippin 1993) and a mask m that cuts out
states near standstill, where friction obeys no law of the velocity. Both sides come from curves between the rows of the
log, so nothing is differenced or filtered, and a gap costs no more than the windows that it touches.

Friction is that of `dynid.model.friction` for motors that work against their load te = -(C + g) of the same phi:

    sign(dq) (fb + s fs + (km + s kms) |tm| - (ke + s kes) te sign(tm)),    s = exp(-|dq| / ws),

the viscous one being among phi.

It is linearised at a point; the torques' slope stands for a delay that is left. Every joint's rows are reduced to R of
[W C dtau target], by groups of time, so any number of logs takes the same memory, and the order in which they are read
does not matter but for rounding.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dynid.model.drive import KINDS, kind_and_number
from dynid.model.dynamics import ArmModel
from dynid.recording.log import SLOW_RAD_S
from dynid.robot import FloatArray

GRID_S, BLOCK_S = 0.01, 20.0
WINDOW_S, HOPS = 0.4, 4
SLIDING_SHARE = 0.5
MOST_GAIN = 0.9
FRICTION = ("fb", "fs", "km", "kms", "ke", "kes", "ws")
START = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 2.0)
EXTRA = 2  # columns beside W and C: slope and target


@dataclass(frozen=True)
class RowSettings:
    """How rows are made: grid and support of the test functions [s], and the speed below which a joint may stick."""

    grid_s: float = GRID_S
    window_s: float = WINDOW_S
    slow_rad_s: float = SLOW_RAD_S

    @property
    def length(self) -> int:
        """Steps of the grid under a test function."""
        return HOPS * max(1, round(self.window_s / HOPS / self.grid_s))


@dataclass(frozen=True, eq=False)
class Point:
    """Parameters at which torques are linearised: phi (p,), and friction (n, 7) in the order of `FRICTION`."""

    phi: FloatArray
    friction: FloatArray

    @classmethod
    def start(cls, model: ArmModel) -> "Point":
        """No torque at all."""
        return cls(np.zeros(len(model.names)), np.tile(START, (model.axes, 1)))


def test_functions(length: int) -> FloatArray:
    """One test function at the middles of `length` steps, a cubic B-spline of unit sum, (length,)."""
    x = (np.arange(length) + 0.5) / length * 4.0
    y = x - 1.0
    rising = np.where(x < 1.0, x**3, 1.0 + 3.0 * y + 3.0 * y**2 - 3.0 * y**3)
    values = np.where(x < 2.0, rising, rising[::-1])
    return np.asarray(values / values.sum())


def averaged(values: FloatArray, psi: FloatArray) -> FloatArray:
    """Averages of values (M, C) under test functions that begin every quarter of their support, (K, C)."""
    hop = len(psi) // HOPS
    count = len(values) // hop
    parts = values[: count * hop].reshape(count, hop, -1)
    last = count - HOPS + 1
    found = np.zeros((max(last, 0), parts.shape[2]))
    for m in range(HOPS if last > 0 else 0):
        found += np.matmul(psi[m * hop : (m + 1) * hop], parts[m : last + m])
    return found


@dataclass(frozen=True, eq=False)
class MotorTorques:
    """Motor torques (M, n) [N m], and their derivatives by links (M, n) and friction (M, n, 7)."""

    tm: FloatArray
    by_links: FloatArray
    by_friction: FloatArray


def motor_torques(links: FloatArray, still: FloatArray, dq: FloatArray, friction: FloatArray) -> MotorTorques:
    """Solve tm = links + sign(dq) (fb + s fs + (km + s kms) |tm| + (ke + s kes) still sign(links)).

    The derivative by links counts `still` as if it were a part of them that does not change.

    Args:
        links: what links, rotors and viscous friction take, (M, n) [N m].
        still: the part of it that gravity and Coriolis forces make, (M, n) [N m].
        dq: velocities, (M, n) [rad/s].
        friction: (n, 7), see `FRICTION`.
    """
    fb, fs, km, kms, ke, kes, ws = friction.T
    sign, s, size = np.sign(dq), np.exp(-np.abs(dq) / ws), still * np.sign(links)
    base = links + sign * (fb + s * fs + (ke + s * kes) * size)
    gain = 1.0 / (1.0 - np.minimum(sign * np.sign(base) * (km + s * kms), MOST_GAIN))
    tm = base * gain
    fading = s * np.abs(dq) / ws**2 * (fs + kms * np.abs(tm) + kes * size)
    parts = [np.ones_like(s), s, np.abs(tm), s * np.abs(tm), size, s * size, fading]
    return MotorTorques(tm, gain, np.stack(parts, axis=2) * (sign * gain)[..., None])


@dataclass(frozen=True, eq=False)
class Stretch:
    """Velocities and regressors of consecutive states (M, n).

    Attributes:
        dq: velocities, (M, n) [rad/s].
        used: which parameters each joint's torque depends on, n arrays.
        W: their columns, n arrays (M, used).
        G: the same without acceleration and drives.
    """

    dq: FloatArray
    used: tuple[NDArray[np.int64], ...]
    W: tuple[FloatArray, ...]
    G: tuple[FloatArray, ...]

    @classmethod
    def of(cls, model: ArmModel, states: tuple[FloatArray, FloatArray, FloatArray]) -> "Stretch":
        """Of states q, dq, ddq, (M, n) each."""
        q, dq, ddq = states
        W, G = model.regressor(q, dq, ddq), model.regressor(q, dq, np.zeros_like(ddq))
        G[:, :, [kind_and_number(name)[0] in KINDS for name in model.names]] = 0.0
        used = tuple(np.flatnonzero((W[:, i] != 0.0).any(axis=0)) for i in range(dq.shape[1]))
        packed = (tuple(x[:, i, one] for i, one in enumerate(used)) for x in (W, G))
        return cls(dq, used, *packed)

    def torques(self, point: Point) -> tuple[FloatArray, MotorTorques]:
        """What the links take, (M, n) [N m], and the motors' torques at a point."""
        links, still = (
            np.stack([x @ point.phi[one] for x, one in zip(part, self.used, strict=True)], axis=1)
            for part in (self.W, self.G)
        )
        return links, motor_torques(links, still, self.dq, point.friction)


def joint_rows(stretch: Stretch, tau: FloatArray, point: Point, settings: RowSettings) -> list[FloatArray]:
    """Rows [W C dtau target] of every joint, (K_i, p + 9) each, linearised at a point.

    Args:
        tau: torques of the states, (M, n) [N m].
    """
    psi, dq, size = test_functions(settings.length), stretch.dq, len(point.phi)
    slope = np.gradient(tau, settings.grid_s, axis=0)
    links, at = stretch.torques(point)
    target = tau - at.tm + at.by_links * links + np.einsum("mnk,nk->mn", at.by_friction, point.friction)
    mask = (np.abs(dq) > settings.slow_rad_s).astype(np.float64)
    share = averaged(mask, psi)
    found = []
    for i, used in enumerate(stretch.used):
        own = stretch.W[i] * at.by_links[:, i, None]
        columns = np.concatenate([own, at.by_friction[:, i], slope[:, i, None], target[:, i, None]], axis=1)
        rows = np.zeros((len(share), size + len(FRICTION) + EXTRA))
        rows[:, np.r_[used, size : rows.shape[1]]] = averaged(columns * mask[:, i, None], psi)
        found.append(rows[share[:, i] > SLIDING_SHARE])
    return found


def triangle(rows: FloatArray, above: FloatArray | None = None) -> FloatArray:
    """R (c, c) of rows (K, c) below a former R; zero rows fill up."""
    stacked = rows if above is None else np.vstack([above, rows])
    size = rows.shape[1]
    found = np.zeros((size, size))
    R = np.linalg.qr(stacked, mode="r")
    found[: len(R)] = R
    return found


def stretches(begin: float, end: float, settings: RowSettings) -> Iterator[FloatArray]:
    """Grids (M,) [s] of about `BLOCK_S` that cover the time from begin to end [s]; no test function reaches across."""
    count = max(1, round((end - begin) / BLOCK_S))
    edges = np.linspace(begin, end, count + 1)
    for a, b in pairwise(edges.tolist()):
        size = int((b - a) / settings.grid_s)
        if size * settings.grid_s >= settings.window_s:
            yield a + settings.grid_s * (np.arange(size) + 0.5)
