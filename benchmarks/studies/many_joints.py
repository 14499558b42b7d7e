"""Arms of many joints: accuracy and speed of the sequential and the simultaneous programs.

The setting is that of the published examples: all joints move along smooth random motions, torques come from the true
parameters with viscous and Coulomb friction, and carry Gaussian noise and a sinusoidal disturbance A sin(100 t).
"""

import time
from dataclasses import dataclass

import numpy as np

from dynid.errors import DataError
from dynid.excitation.series import Series
from dynid.identification.estimators.sequential import sequential_fit
from dynid.identification.feasibility.consistent import consistent_projection
from dynid.model.dynamics import ArmModel
from dynid.model.mdh import MdhChain
from dynid.model.parameters import BaseParameters, StandardParameters
from dynid.model.standard import LinkInertia, from_link_frame
from dynid.robot import FloatArray, PhysicalBounds, Robot, Structure
from dynid.robot.file import LinkBounds

STRUCTURE = Structure(products_of_inertia=True, rotor_inertia=False, viscous_friction=True, coulomb_friction=True)
GRAVITY = np.array([0.0, 0.0, -9.81])
SMALLEST, LARGEST = 3, 30
LINK_M = 0.25
HARMONICS = 5
PEAK_RATE = 1.5  # largest velocity of every joint [rad/s]
DISTURBANCE_RAD_S = 100.0


@dataclass(frozen=True)
class Setting:
    """Settings of the torques: samples `interval_s` apart for `duration_s`, with noise and a disturbance.

    `noise` and `disturbance` are shares of the root mean square of each joint's torque.
    """

    duration_s: float = 20.0
    interval_s: float = 0.01
    noise: float = 0.02
    disturbance: float = 0.02
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Fit:
    """Result of one of the two programs.

    Attributes:
        standard: consistent standard parameters.
        seconds: duration of the whole fit, given the regressor.
        solver_seconds: part of it in semidefinite programs.
        torque_error: || W (phi - phi_true) || / || W phi_true ||, the error without noise.
        parameter_error: || phi - phi_true || / || phi_true ||, base parameters in mixed SI units.
    """

    standard: StandardParameters
    seconds: float
    solver_seconds: float
    torque_error: float
    parameter_error: float


def chain(size: int, seed: int = 0) -> tuple[ArmModel, StandardParameters]:
    """Return a serial arm of some revolute joints with crossing axes, and its true parameters.

    Raises:
        DataError: no joint.
    """
    if size < 1:
        raise DataError(f"an arm of {size} joints; expected at least 1")
    rng = np.random.default_rng(seed)
    alpha = np.where(np.arange(size) % 2, -0.5 * np.pi, 0.5 * np.pi)
    alpha[0] = 0.0
    d = np.where(np.arange(size) % 3 == 2, LINK_M, 0.0)
    d[0] = 0.0
    r = np.where(np.arange(size) % 3 == 1, LINK_M, 0.05)
    frames = np.tile(np.eye(4), (size, 1, 1))
    mdh = MdhChain(alpha, d, r, np.zeros(size), np.eye(4), frames)
    masses = rng.uniform(1.0, 3.0, size)
    centres = rng.uniform(-0.08, 0.08, (size, 3))
    bounds = PhysicalBounds(
        total_mass_kg=2.0 * float(masses.sum()),
        links=tuple(
            LinkBounds(
                mass_kg=(0.2 * float(mass), 5.0 * float(mass)),
                centre_of_mass_lower_m=(-0.2, -0.2, -0.2),
                centre_of_mass_upper_m=(0.2, 0.2, 0.2),
            )
            for mass in masses
        ),
    )
    model = ArmModel(mdh, size, STRUCTURE, GRAVITY, bounds=bounds)
    links = []
    for mass, centre in zip(masses, centres, strict=True):
        edges = rng.uniform(0.06, 0.2, 3)
        links.append(from_link_frame(LinkInertia(mass, centre, _box(mass, edges, rng)), np.eye(4)))
    friction = np.concatenate([np.zeros(size), rng.uniform(0.1, 1.0, size), rng.uniform(0.1, 1.0, size)])
    return model, StandardParameters(model.regrouping.standard, np.concatenate([*links, friction]), size)


def _box(mass: float, edges: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return the inertia of a solid box about its centre with random orientation, (3, 3)."""
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    squares = edges**2
    return np.asarray(turn @ np.diag(mass / 12.0 * (squares.sum() - squares)) @ turn.T)


def motion(model: ArmModel, setting: Setting, robot: Robot | None = None) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return smooth random states (N, n) of all joints, from rest to rest and within a given robot's limits."""
    rng = np.random.default_rng(setting.seed + 1)
    times = np.arange(0.0, setting.duration_s, setting.interval_s)
    series = Series.of("fourier", setting.duration_s, HARMONICS * round(setting.duration_s / 10.0 + 1))
    weights = rng.normal(size=(series.count, model.axes))
    q, dq, ddq = (rows @ weights for rows in series.functions(times))
    rate = np.full(model.axes, PEAK_RATE)
    centre, reach = np.zeros(model.axes), np.full(model.axes, np.inf)
    if robot is not None:
        rate = np.minimum(rate, robot.velocity_limits)
        centre, reach = 0.5 * (robot.lower + robot.upper), 0.5 * (robot.upper - robot.lower)
    q = q - 0.5 * (q.max(axis=0) + q.min(axis=0))
    scale = np.minimum(rate / np.abs(dq).max(axis=0), reach / np.abs(q).max(axis=0))
    return centre + scale * q, scale * dq, scale * ddq


@dataclass(frozen=True, eq=False)
class Study:
    """One arm with its true parameters and the torques of one motion.

    Attributes:
        model: model of the arm with bounds.
        true: true standard parameters.
        W: regressor of the standard parameters, (N, n, s).
        tau: torques with noise and disturbance, (N, n) [N m].
    """

    model: ArmModel
    true: StandardParameters
    W: FloatArray
    tau: FloatArray

    @classmethod
    def of(
        cls, model: ArmModel, true: StandardParameters, setting: Setting | None = None, robot: Robot | None = None
    ) -> "Study":
        """Move the arm and compute its torques."""
        setting = setting or Setting()
        W = model.standard_regressor(*motion(model, setting, robot))
        clean = W @ true.values
        size = np.sqrt((clean**2).mean(axis=0))
        times = setting.interval_s * np.arange(len(clean))
        rng = np.random.default_rng(setting.seed + 2)
        added = setting.noise * rng.normal(size=clean.shape)
        added += setting.disturbance * np.sin(DISTURBANCE_RAD_S * times)[:, None]
        return cls(model, true, W, clean + size * added)

    def sequential(self) -> Fit:
        """Fit one joint after the other; errors are those of `sequential_fit`."""
        begin = time.perf_counter()
        found = sequential_fit(self.model, self.W, self.tau, self._bounds)
        return self._fit(found.standard, time.perf_counter() - begin, found.solver_seconds)

    def simultaneous(self) -> Fit:
        """Fit all joints in one program; torques are divided by their root mean squares, as in `sequential_fit`.

        Raises:
            InfeasibleError: no consistent model.
        """
        begin = time.perf_counter()
        K, names = self.model.regrouping, self.model.names
        weights = 1.0 / np.sqrt((self.tau**2).mean(axis=0))
        columns = self.W[..., list(K.representatives)] * weights[:, None]
        stacked = np.column_stack([columns.reshape(-1, len(names)), (self.tau * weights).ravel()])
        R = np.asarray(np.linalg.qr(stacked, mode="r"))
        phi = np.linalg.lstsq(R[:-1, :-1], R[:-1, -1], rcond=None)[0]
        solving = time.perf_counter()
        found = consistent_projection(self.model, BaseParameters(names, phi), self._bounds, metric=R[:-1, :-1])
        end = time.perf_counter()
        return self._fit(found.standard, end - begin, end - solving)

    @property
    def _bounds(self) -> PhysicalBounds:
        if self.model.bounds is None:
            raise DataError("this model has no physical bounds")
        return self.model.bounds

    def _fit(self, standard: StandardParameters, seconds: float, solver_seconds: float) -> Fit:
        K = self.model.regrouping.K
        off, true = standard.values - self.true.values, self.true.values
        return Fit(
            standard,
            seconds,
            solver_seconds,
            float(np.linalg.norm(self.W @ off) / np.linalg.norm(self.W @ true)),
            float(np.linalg.norm(K @ off) / np.linalg.norm(K @ true)),
        )


def growth(sizes: FloatArray, seconds: FloatArray) -> float:
    """Return the exponent b of seconds ~ size^b, fitted in logarithms to (k,) values each."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
