"""Information that a motion is expected to give: covariance of least squares from planned states, and its gradient.

Each state gives one regression row per axis. The rows are X = [C W], with a column of C for each of m friction
parameters, and a column of W for each of p base parameters. Rows of slow joints, which may stick, get a lower weight.
With the standard deviation s_i of the torque residuals on axis i,

    cov = A^-1 B A^-1,    A = A_0 + sum X'X,    B = B_0 + sum X' diag(s^2) X,

where A_0 and B_0 contain the measurements so far and a wide prior. The objective is the sum of the squared ratios of
the base parameters' standard deviations to their limits (A-optimality), to which the largest ratios contribute most.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from dynid.model.dynamics import ArmModel
from dynid.robot import FloatArray, Robot
from dynid.trajectory.motion import Sample

STICKING_RAD_S = 0.08  # velocity below which a joint may stick and its rows get less weight [rad/s]
STRIBECK_RAD_S = 1.5  # decay velocity of the Stribeck friction column [rad/s]
LEAST_TORQUE = 0.05  # minimum reference torque of a joint [share of its torque limit]
FRICTION_PRIOR = 1.0
STATES, STATES_SEED = 400, 0
SPEED_RAD_S, ACCELERATION_RAD_S2 = 1.5, 5.0  # ranges of the random states for torque comparisons

Torques = Callable[[FloatArray, FloatArray, FloatArray], FloatArray]


def torque_sizes(robot: Robot, model: ArmModel, torques: Torques) -> FloatArray:
    """Return the value of each base parameter at which it alone causes a torque as large as the whole arm's, (p,) [SI].

    For each joint, the root mean square torque of the whole arm over random states is divided by the torque that the
    parameter causes at value 1. The result is the smallest of these quotients among the joints.

    Args:
        robot: the robot.
        model: model of the robot.
        torques: torques of the nominal arm, a function of states q, dq, ddq (N, n) that returns (N, n) [N m].
    """
    random = np.random.default_rng(STATES_SEED)
    lower, upper = np.maximum(robot.lower, -np.pi), np.minimum(robot.upper, np.pi)
    q = random.uniform(lower, upper, (STATES, robot.size))
    dq = SPEED_RAD_S * random.uniform(-1.0, 1.0, q.shape)
    ddq = ACCELERATION_RAD_S2 * random.uniform(-1.0, 1.0, q.shape)
    tau = np.sqrt(np.mean(torques(q, dq, ddq) ** 2, axis=0))
    tau = np.maximum(tau, LEAST_TORQUE * robot.torque_limits)
    own = np.sqrt(np.mean(model.regressor(q, dq, ddq) ** 2, axis=0))
    return np.asarray(np.where(own > 0.0, tau[:, None] / np.where(own > 0.0, own, 1.0), np.inf).min(axis=0))


@dataclass(frozen=True, eq=False)
class Information:
    """Information about p base parameters and m friction parameters from measured or planned states.

    Attributes:
        model: the arm.
        phi: base parameters at which the loads of load-dependent friction are computed, (p,).
        sigma: standard deviation of each axis's torque residuals, (n,) [N m].
        limits: limits of the base parameters' standard deviations, (p,).
        A: sum of X' X over the regression rows X of all states, as `rows` returns them, plus a prior, (m + p, m + p).
        B: the same sum with each row weighted by the variance of its axis's residuals, plus a prior, (m + p, m + p).
            The covariance of the parameters is the sandwich A^-1 B A^-1.
        sharpness: exponent s of the planning objective, see `value`; above 1 it emphasises the parameters with the
            largest ratios of standard deviation to limit.
    """

    model: ArmModel
    phi: FloatArray
    sigma: FloatArray
    limits: FloatArray
    A: FloatArray
    B: FloatArray
    sharpness: float = 1.0

    @classmethod
    def prior(
        cls, model: ArmModel, phi: FloatArray, sigma: FloatArray, limits: FloatArray, known: FloatArray
    ) -> "Information":
        """Return the information before any data.

        All friction parameters get the prior standard deviation `FRICTION_PRIOR`.

        Args:
            model: the arm.
            phi: base parameters at which the loads of load-dependent friction are computed, (p,).
            sigma: standard deviation of each axis's torque residuals, (n,) [N m].
            limits: limits of the base parameters' standard deviations, (p,).
            known: prior standard deviations of the base parameters, (p,).
        """
        n, groups = model.axes, len(dict.fromkeys(model.gears))
        deviations = np.concatenate([np.full(n + 2 * groups, FRICTION_PRIOR), known])
        mean = float(np.mean(sigma**2))
        A = np.diag(mean / deviations**2)
        return cls(model, phi, sigma, limits, A, mean * A)

    def rows(self, q: FloatArray, dq: FloatArray, ddq: FloatArray) -> FloatArray:
        """Return the weighted regression rows X (N, n, m + p) of N states, one row per state and axis.

        The columns belong to m friction parameters, then to p base parameters. Rows of slow joints, which may stick,
        get a lower weight.

        Args:
            q: positions, (N, n) [rad].
            dq: velocities, (N, n) [rad/s].
            ddq: accelerations, (N, n) [rad/s^2].
        """
        return self.weighed(self.model.regressor(q, dq, ddq), dq)

    def weighed(self, W: FloatArray, dq: FloatArray) -> FloatArray:
        """Return the weighted regression rows X (N, n, m + p) of N states, one row per state and axis.

        The columns belong to m friction parameters, then to p base parameters. Rows of slow joints, which may stick,
        get a lower weight.

        Args:
            W: regressor of the base parameters, (N, n, p).
            dq: velocities, (N, n) [rad/s].
        """
        return np.asarray(self.columns(W, dq) * np.tanh(dq / STICKING_RAD_S)[..., None] ** 2)

    def columns(self, W: FloatArray, dq: FloatArray) -> FloatArray:
        """Return the regression rows (N, n, m + p) of N states without weights, one row per state and axis.

        The columns belong to m friction parameters, then to p base parameters.

        Args:
            W: regressor of the base parameters, (N, n, p).
            dq: velocities, (N, n) [rad/s].
        """
        sign, n = np.tanh(dq / STICKING_RAD_S), dq.shape[1]
        gears = list(dict.fromkeys(self.model.gears))
        C = np.zeros((len(dq), n, n + 2 * len(gears)))
        C[:, np.arange(n), np.arange(n)] = sign
        load, fading = np.abs(W @ self.phi) * sign, np.exp(-np.abs(dq) / STRIBECK_RAD_S) * sign
        for i, gear in enumerate(self.model.gears):
            k = gears.index(gear)
            C[:, i, n + k], C[:, i, n + len(gears) + k] = load[:, i], fading[:, i]
        return np.concatenate([C, W], axis=2)

    def with_states(self, states: Sample, count: float) -> "Information":
        """Return the information with states q, dq and ddq (N, n) added; each state counts as `count` samples."""
        X = self.rows(*states)
        flat, by_axis = X.reshape(-1, X.shape[2]), (X * self.sigma[:, None]).reshape(-1, X.shape[2])
        return replace(self, A=self.A + count * flat.T @ flat, B=self.B + count * by_axis.T @ by_axis)

    @property
    def deviations(self) -> FloatArray:
        """Standard deviations of the base parameters, (p,)."""
        return np.asarray(np.sqrt(np.diag(self.covariance)[-len(self.limits) :]))

    @property
    def covariance(self) -> FloatArray:
        """Covariance of the estimates of m friction parameters and p base parameters, (m + p, m + p)."""
        inverse = np.linalg.inv(self.A)
        return np.asarray(inverse @ self.B @ inverse)

    def value(self, X: FloatArray, count: float) -> tuple[float, FloatArray]:
        """Return the logarithm of the planning objective after regression rows X are added, and its gradient by X.

        The objective is (sum_i r_i^(2 s))^(1 / s) with s = `sharpness`. Here r_i is the ratio of base parameter i's
        standard deviation to its limit. The gradient is (N, n, k).

        Args:
            X: weighted regression rows of N states for m friction and p base parameters, (N, n, k) with k = m + p.
            count: number of samples that each state stands for.
        """
        k, size = X.shape[2], len(self.limits)
        flat = X.reshape(-1, k)
        by_axis = (X * self.sigma[:, None]).reshape(-1, k)
        inverse = np.linalg.inv(self.A + count * flat.T @ flat)
        B = self.B + count * by_axis.T @ by_axis
        covariance = inverse @ B @ inverse
        shares = np.diag(covariance)[-size:] / self.limits**2
        total = float(np.sum(shares**self.sharpness))
        weights = np.zeros(k)
        weights[-size:] = shares ** (self.sharpness - 1.0) / total / self.limits**2
        P = inverse * weights @ inverse
        by_A = -2.0 * P @ B @ inverse
        by_A = 0.5 * (by_A + by_A.T)
        slope = 2.0 * count * (X @ by_A + self.sigma[:, None] ** 2 * (X @ P))
        return float(np.log(total)) / self.sharpness, slope
