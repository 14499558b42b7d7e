"""Judge of excitation motions: the same regressors, limits and check for contact for all of them.

Two regressors are computed at the same times of a motion. One has dynid's base parameters of the chain, which its own
optimiser works on. The other is pinocchio's, with all ten parameters of every link and with rotor inertia, viscous and
Coulomb friction and offset of every joint; of its columns those are kept that do not depend on columns before them.
Columns are in SI units and not scaled.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.exchange import Given
from benchmarks.peers.excitation.exchange import Designed, Task
from benchmarks.peers.rows import regressor
from dynid.control.self_collision import SelfCollision
from dynid.errors import DataError
from dynid.model.dynamics import ArmModel
from dynid.model.standard import load_nominal
from dynid.robot import FloatArray, Robot
from dynid.trajectory.pieces import Pieces

STEP_S = 0.04  # between the rows of the regressors [s], as in dynid's condition numbers
FINE_S = 0.002  # between the samples whose limits are checked [s]
TOLERANCE = 1e-3  # relative excess of a limit that rounding and interpolation explain
TOGETHER = 1e-3  # largest step of a position that its velocities and accelerations do not explain [rad]
DURATION_TOLERANCE = 0.01  # relative difference of the duration, such as a last sample that a period leaves out
DEPENDENT = 1e-9  # share of its own length that a column adds to those before it, and of the longest column's length
RANDOM_ROWS, SEED = 400, 20261129
Function = Callable[[FloatArray, FloatArray, FloatArray], FloatArray]


@dataclass(frozen=True, eq=False)
class Judge:
    """What all motions for a task are judged by.

    Attributes:
        robot: the robot.
        task: the task.
        own: function from states of the chain (N, n) to dynid's base regressor (N, n, p).
        full: the same for the regressor with all parameters of links and drives.
        torques: function from states of the chain to the torques (N, n) of the robot's nominal parameters [N m].
    """

    robot: Robot
    task: Task
    own: Function
    full: Function
    torques: Function

    def figures(self, designed: Designed) -> dict[str, Any]:
        """Return the figures of a motion.

        Raises:
            DataError: its arrays do not fit together.
        """
        pieces = pieces_of(designed, len(self.task.joints))
        shares = self.shares(pieces)
        times = np.arange(0.0, designed.time[-1] - designed.time[0], STEP_S)
        states = at(pieces, times)
        kappa, log_det = information(self.own(*states))
        full_kappa, full_log_det = information(self.full(*states))
        contact = self.contact(pieces)
        outside = self.outside(shares, designed, contact)
        figures = {"kappa": kappa, "log_det": log_det, "full_kappa": full_kappa, "full_log_det": full_log_det}
        figures |= {key: float(values.max()) for key, values in shares.items()}
        return figures | {"contact": contact, "kept": not outside, "outside": "; ".join(outside)}

    def shares(self, pieces: Pieces) -> dict[str, FloatArray]:
        """Return the largest shares of the limits that a motion uses, (n,) each."""
        limits = self.task.limits
        lower, upper = np.array(limits.lower), np.array(limits.upper)
        q, dq, ddq = at(pieces, np.arange(0.0, pieces.begins[-1] + pieces.durations[-1], FINE_S))
        used = {
            "position": (q - 0.5 * (lower + upper)) / (0.5 * (upper - lower)),
            "velocity": dq / np.array(limits.velocity),
            "acceleration": ddq / np.array(limits.acceleration),
            "torque": self.torques(q, dq, ddq) / np.array(limits.torque),
        }
        return {key: np.abs(values).max(axis=0) for key, values in used.items()}

    def contact(self, pieces: Pieces) -> str:
        """Return which links touch first and when; '' if none do. Joints beyond the chain stay at rest."""
        full = np.zeros((*pieces.coefficients.shape[:2], self.robot.size))
        full[:, 0] = self.robot.rest_posture
        full[:, :, : self.robot.chain_size] = pieces.coefficients
        found = SelfCollision(self.robot).first_contact_along(Pieces(pieces.begins, pieces.durations, full))
        return "" if found is None else f"{found.links[0]} touches {found.links[1]} at {found.time_s:.2f} s"

    def outside(self, shares: dict[str, FloatArray], designed: Designed, contact: str) -> list[str]:
        """Return a phrase for everything that a motion violates."""
        found = []
        for key, values in shares.items():
            joint = int(np.argmax(values))
            if not values[joint] <= 1.0 + TOLERANCE:
                found.append(f"{100.0 * (values[joint] - 1.0):.2g} % beyond the limit of {key} at joint {joint + 1}")
        duration_s = float(designed.time[-1] - designed.time[0])
        if abs(duration_s / self.task.duration_s - 1.0) > DURATION_TOLERANCE:
            found.append(f"lasts {duration_s:.4g} s, expected {self.task.duration_s:.4g} s")
        return [*found, *([contact] if contact else [])]


def judge_of(robot: Robot, task: Task, urdf: Path) -> Judge:
    """Return the judge for a task; `urdf` is the arm's file that all programs get."""
    model, chain = ArmModel.of(robot), slice(robot.chain_size)
    phi = model.base_parameters(load_nominal(robot, model.mdh, model.regrouping.standard))

    def whole(values: FloatArray, rest: FloatArray) -> FloatArray:
        rows = np.tile(rest, (len(values), 1))
        rows[:, chain] = values
        return rows

    def states(q: FloatArray, dq: FloatArray, ddq: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        still = np.zeros(robot.size)
        return whole(q, np.array(robot.rest_posture)), whole(dq, still), whole(ddq, still)

    def own(q: FloatArray, dq: FloatArray, ddq: FloatArray) -> FloatArray:
        return model.regressor(*states(q, dq, ddq))[:, chain]

    def torques(q: FloatArray, dq: FloatArray, ddq: FloatArray) -> FloatArray:
        return np.asarray(model.inverse_dynamics(*states(q, dq, ddq), phi)[:, chain])

    n = robot.chain_size
    nothing, gravity = np.zeros((0, n)), np.array(task.gravity)
    arm = Given(
        urdf, tuple(task.joints), gravity, np.zeros(0), nothing, nothing, nothing, np.zeros(n), 0.0, urdf.parent
    )

    def full(q: FloatArray, dq: FloatArray, ddq: FloatArray) -> FloatArray:
        return regressor(arm, q, dq, ddq)

    return Judge(robot, task, based(own, n), based(full, n), torques)


def based(function: Function, n: int) -> Function:
    """Return a regressor with those columns alone that do not depend on the columns before them, at random states.

    Args:
        function: function from states (N, n) to a regressor (N, n, p).
        n: number of joints.
    """
    random = np.random.default_rng(SEED)
    q, dq, ddq = (random.uniform(-most, most, (RANDOM_ROWS, n)) for most in (np.pi, 2.0, 10.0))
    W = function(q, dq, ddq)
    kept = independent_columns(W.reshape(-1, W.shape[-1]))
    return lambda *states: function(*states)[..., kept]


def independent_columns(W: FloatArray) -> FloatArray:
    """Return for each column of W (N, p) whether it is independent of the columns before it, (p,)."""
    triangle, lengths = np.abs(np.diag(np.linalg.qr(W, mode="r"))), np.linalg.norm(W, axis=0)
    return np.asarray((triangle > DEPENDENT * lengths) & (lengths > DEPENDENT * lengths.max()))


def information(W: FloatArray) -> tuple[float, float]:
    """Return the condition number of a regressor (N, n, p) stacked over its rows, and log det(W'W / N), both [-].

    The determinant of a motion that does not determine all parameters is zero, and its logarithm -inf.
    """
    stacked = W.reshape(-1, W.shape[-1])
    values = np.linalg.svd(stacked, compute_uv=False)
    if values[-1] <= 0.0 or len(values) < W.shape[-1]:
        return float("inf"), float("-inf")
    return float(values[0] / values[-1]), float(2.0 * np.log(values).sum() - len(values) * np.log(len(W)))


def pieces_of(designed: Designed, n: int) -> Pieces:
    """Return a motion as quintics through its samples.

    Raises:
        DataError: arrays have wrong shapes or values, or velocities and accelerations are not those of the positions.
    """
    time, rows = designed.time - designed.time[0], (designed.q, designed.dq, designed.ddq)
    if any(one.shape != (len(time), n) or not np.isfinite(one).all() for one in rows) or len(time) < 2:
        raise DataError(f"a motion of {len(time)} stamps and {[one.shape for one in rows]}, expected finite (N, {n})")
    steps = np.diff(time)
    if not (steps > 0.0).all():
        raise DataError("the stamps of a motion do not increase")
    q, dq, ddq = rows
    h = steps[:, None]
    explained = 0.5 * h * (dq[1:] + dq[:-1]) - h**2 / 12.0 * (ddq[1:] - ddq[:-1])
    worst = float(np.abs(np.diff(q, axis=0) - explained).max())
    if worst > TOGETHER:
        raise DataError(f"velocities and accelerations do not belong to the positions: {worst:.2g} rad in one step")
    return Pieces(time[:-1], steps, quintics(h, q, dq, ddq))


def quintics(h: FloatArray, q: FloatArray, dq: FloatArray, ddq: FloatArray) -> FloatArray:
    """Return the coefficients (N - 1, 6, n), lowest power first, of the quintics between N states of n joints.

    Args:
        h: steps between the states (N - 1, 1) [s].
        q, dq, ddq: states (N, n).
    """
    a, b, c = q[:-1], dq[:-1], 0.5 * ddq[:-1]
    gap = q[1:] - (a + b * h + c * h**2)
    slope = (dq[1:] - (b + 2.0 * c * h)) * h
    bend = (ddq[1:] - 2.0 * c) * h**2
    d = (10.0 * gap - 4.0 * slope + 0.5 * bend) / h**3
    e = (-15.0 * gap + 7.0 * slope - bend) / h**4
    f = (6.0 * gap - 3.0 * slope + 0.5 * bend) / h**5
    return np.stack([a, b, c, d, e, f], axis=1)


def at(pieces: Pieces, times: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return positions, velocities and accelerations (N, n) of a motion at times (N,) [s]."""
    place = np.clip(np.searchsorted(pieces.begins, times, side="right") - 1, 0, len(pieces.begins) - 1)
    q, dq, ddq = pieces.derivatives(place, times - pieces.begins[place], 3)
    return q, dq, ddq
