"""Gauss-Newton on triangles: base parameters, gears' friction and what is left of the delay, with intervals.

The logs are read once per round; each round leaves one triangle per joint and group of blocks. Groups are what the
deviations rest on: how the solution's errors scatter from group to group of time, so that whatever is alike within
seconds (stick, play, a servo's ripple) counts as one error and not as hundreds.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.optimize import lsq_linear

from dynid.errors import DataError
from dynid.identification.logs.rows import FRICTION, START, Point, triangle
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import physical_lower_bounds
from dynid.robot import FloatArray, Robot, read_only

GROUPS = 24
ROUNDS, THINNED, THIN = 30, 7, 4  # at most; so many of them look at every so many stretches only
NEAR, CLOSE = 0.05, 0.01  # of the torques' deviation, by which a round must change predictions to go on so
# Deviations of what is known of friction beforehand (those of fb and fs over the torque), and upper bounds.
KNOWN = {"fb": 1.0, "fs": 1.0, "km": 0.3, "kms": 0.3, "ke": 0.1, "kes": 0.1, "ws": 1.0}
MOST = {"km": 0.45, "kms": 0.45, "ke": 0.45, "kes": 0.45, "ws": 8.0}
LEAST_WS, NONE = 0.3, 1e-6
WORSE, HALVINGS = 1.02, 5  # of the squared error, above which a step is halved; so often in a row at most
DELAY_S = 0.05


@dataclass(eq=False)
class Triangles:
    """R factors of rows by group and joint, (groups, n, c, c), how many rows they stand for, (groups, n)."""

    R: FloatArray
    rows: FloatArray

    @classmethod
    def empty(cls, groups: int, axes: int, columns: int) -> "Triangles":
        """Nothing yet."""
        return cls(np.zeros((groups, axes, columns, columns)), np.zeros((groups, axes)))

    def add(self, group: int, joint_rows: list[FloatArray]) -> None:
        """More rows of every joint, (K_i, c) each."""
        for i, rows in enumerate(joint_rows):
            if len(rows):
                self.R[group, i] = triangle(rows, self.R[group, i])
                self.rows[group, i] += len(rows)

    def merge(self, group: int, R: FloatArray, rows: FloatArray) -> None:
        """Triangles (n, c, c) that stand for so many rows (n,) each, to a group."""
        for i in np.flatnonzero(rows):
            self.R[group, i] = triangle(R[i], self.R[group, i])
        self.rows[group] += rows

    def whole(self) -> FloatArray:
        """One triangle per joint, (n, c, c)."""
        return np.stack([triangle(self.R[:, i].reshape(-1, self.R.shape[-1])) for i in range(self.R.shape[1])])


@dataclass(frozen=True, eq=False)
class LogFit:
    """What a fit has found.

    Attributes:
        names: of the base parameters, (p,).
        point: base parameters and friction.
        deviations: of the base parameters, (p,), from the scatter between groups of time.
        delay_s, delay_deviation_s: by which torques lag behind positions.
        sigma: deviation of each joint's averaged torques, (n,) [N m].
        rows: R of the weighted rows of all parameters, with what is known of them, (size, size).
        theta, bounds: all parameters, (size,), and what they lie between.
        rounds: of Gauss-Newton.
        settled: whether the last round changed next to nothing; else no step was better, or there were no more rounds.
        rate_change: of the base parameters where only every other row is used, (p,); None where nobody has looked.
    """

    names: tuple[str, ...]
    point: Point
    deviations: FloatArray
    delay_s: float
    delay_deviation_s: float
    sigma: FloatArray
    rows: FloatArray
    theta: FloatArray
    bounds: tuple[FloatArray, FloatArray]
    rounds: int
    settled: bool
    rate_change: FloatArray | None = None

    def given(self, phi: FloatArray) -> Point:
        """What fits best where the base parameters are phi (p,): friction makes up for the change."""
        count, size = len(phi), len(self.names)
        step = phi - self.theta[:count]
        lower, upper = (one[count:] - self.theta[count:] for one in self.bounds)
        scale = 1.0 / np.maximum(np.linalg.norm(self.rows[:, count:], axis=0), 1e-300)
        free = lsq_linear(self.rows[:, count:] * scale, -self.rows[:, :count] @ step, (lower / scale, upper / scale))
        theta = self.theta + np.concatenate([step, free.x * scale])
        return Point(read_only(theta[:size]), read_only(theta[size:-1].reshape(-1, len(FRICTION))))

    def metric(self, count: int) -> FloatArray:
        """R (count, count) of the first parameters, all others being free."""
        order = np.r_[np.arange(count, self.rows.shape[1]), np.arange(count)]
        R = np.asarray(np.linalg.qr(self.rows[:, order], mode="r"))
        return np.asarray(R[-count:, -count:])


@dataclass(frozen=True, eq=False)
class Place:
    """Parameters (size,), the last of which is 0, and the delay [s] at which rows are linearised."""

    theta: FloatArray
    delay_s: float

    def halfway(self, other: "Place") -> "Place":
        """Between this and another; the start has no parameters, so from there only the delay is."""
        theta = 0.5 * (self.theta + other.theta) if len(other.theta) else self.theta
        return Place(theta, 0.5 * (self.delay_s + other.delay_s))


class _Problem:
    """Columns (phi, friction of all joints, delay) of the triangles of all joints."""

    def __init__(self, model: ArmModel, robot: Robot, torque: FloatArray, beforehand: Mapping[str, float]) -> None:
        p, n = len(model.names), model.axes
        self.p, self.n, self.size = p, n, p + len(FRICTION) * n + 1
        known = np.array([beforehand[name] for name in FRICTION])
        if model.structure.coulomb_friction:
            known[FRICTION.index("fb")] = NONE  # it is among the base parameters
        sizes = np.where([name.startswith("f") for name in FRICTION], torque[:, None], 1.0)
        self.known = np.concatenate([scales(model, robot), (known * sizes).ravel(), [DELAY_S]])
        least = [LEAST_WS if name == "ws" else 0.0 for name in FRICTION]
        self.lower = np.concatenate([physical_lower_bounds(model.names), np.tile(least, n), [-np.inf]])
        most = [MOST.get(name, np.inf) for name in FRICTION]
        self.upper = np.concatenate([np.full(p, np.inf), np.tile(most, n), [np.inf]])
        self.middle = np.concatenate([np.zeros(p), np.tile(START, n), [0.0]])

    def spread(self, R: FloatArray, i: int) -> tuple[FloatArray, FloatArray]:
        """A triangle of joint i as columns of the whole problem, and its torques."""
        p, f = self.p, len(FRICTION)
        found = np.zeros((len(R), self.size))
        found[:, :p], found[:, p + f * i : p + f * (i + 1)], found[:, -1] = R[:, :p], R[:, p : p + f], R[:, -2]
        return found, R[:, -1]

    def left(self, whole: FloatArray, theta: FloatArray) -> FloatArray:
        """Sum of every joint's squared errors, (n,) [N^2 m^2]."""
        pairs = (self.spread(R, i) for i, R in enumerate(whole))
        return np.array([np.sum((a @ theta - b) ** 2) for a, b in pairs])

    def error(self, whole: FloatArray, theta: FloatArray, sigma: FloatArray, count: FloatArray) -> float:
        """Mean squared error of all joints' rows, over their deviations."""
        return float(np.sum(self.left(whole, theta) / sigma**2) / count.sum())

    def solve(self, whole: FloatArray, sigma: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The parameters (size,) under their bounds, and the weighted rows A (., size)."""
        pairs = [self.spread(R, i) for i, R in enumerate(whole)]
        A = np.vstack([a / s for (a, _), s in zip(pairs, sigma, strict=True)] + [np.diag(1.0 / self.known)])
        y = np.concatenate([b / s for (_, b), s in zip(pairs, sigma, strict=True)] + [self.middle / self.known])
        A = A * self.known
        found = lsq_linear(A, y, (self.lower / self.known, self.upper / self.known), tol=1e-10, lsmr_tol=None)
        return found.x * self.known, A / self.known

    def point(self, theta: FloatArray) -> Point:
        """Base parameters and friction of a solution."""
        return Point(read_only(theta[: self.p]), read_only(theta[self.p : -1].reshape(self.n, -1)))


def scales(model: ArmModel, robot: Robot) -> FloatArray:
    """How large base parameters of such an arm may be, (p,) [SI]: its mass, its reach, its torques and speeds."""
    bounds = robot.file.physical_bounds
    mass = bounds.total_mass_kg or sum(link.mass_kg[1] for link in bounds.links if link.mass_kg) or 1.0
    reach = float(np.sum(np.abs(model.mdh.r)) + np.sum(np.abs(model.mdh.d)))
    found = np.full(len(model.names), mass * reach**2)
    for k, name in enumerate(model.names):
        if name.startswith("M"):
            found[k] = mass * reach
        elif name.startswith(("FV", "FC", "OF")):
            own = int("".join(c for c in name if c.isdigit())) - 1
            found[k] = robot.torque_limits[own] / (robot.velocity_limits[own] if name.startswith("FV") else 1.0)
    return found


def fit(
    model: ArmModel,
    robot: Robot,
    reduce: Callable[[Point, float, int], Triangles],
    delay_s: float = 0.0,
    known: Mapping[str, float] = KNOWN,
) -> LogFit:
    """Base parameters and friction from logs.

    Args:
        reduce: reads the logs, or every so many stretches of them, and gives the triangles of their rows, linearised at
            a point, with torques that lag behind by a delay [s].
        delay_s: to begin with.
        known: of friction beforehand, as deviations, see `KNOWN`.

    Raises:
        DataError: no joint moves fast enough for long enough.
    """
    point, sigma = Point.start(model), np.ones(model.axes)
    here = good = Place(np.zeros(0), delay_s)  # where rows are linearised, and where the last good ones were
    best, every, halved, settled = np.inf, THIN, 0, False
    for rounds in range(1, ROUNDS + 1):
        triangles = reduce(point, here.delay_s, every)
        whole, count = triangles.whole(), triangles.rows.sum(axis=0)
        if not count.all():
            still = ", ".join(robot.joint_names[i] for i in np.flatnonzero(count == 0))
            raise DataError(f"{still}: never in motion for long enough to separate friction from gravity")
        torque = np.sqrt((whole[:, :, -1] ** 2).sum(axis=1) / count)
        problem = _Problem(model, robot, torque, known)
        if len(here.theta) and problem.error(whole, here.theta, sigma, count) > WORSE * best:
            if halved < HALVINGS:  # the step was too long for its straight line
                here, halved = here.halfway(good), halved + 1
            elif every > 1:
                here, every, best, halved = good, 1, np.inf, 0
            else:
                break
            point = problem.point(here.theta)
            continue
        for _ in range(3):
            theta, A = problem.solve(whole, sigma)
            size = np.sqrt(problem.left(whole, theta) / count)
            sigma = np.maximum(size, 1e-9 * torque.max())
        good, found, halved, change = here, triangles, 0, np.inf
        if len(here.theta):
            change = float(np.linalg.norm(A[:, :-1] @ (theta - here.theta)[:-1]) / np.sqrt(count.sum()))
            best = problem.error(whole, here.theta, sigma, count)
        settled = every == 1 and change < CLOSE
        if settled:
            break
        # late torques are earlier ones: less slope
        here = Place(np.append(theta[:-1], 0.0), here.delay_s - float(theta[-1]))
        point = problem.point(theta)
        if every > 1 and (change < NEAR or rounds >= THINNED):
            every, best = 1, np.inf  # other rows
    if not settled:  # a step that nobody has looked at may lead anywhere
        theta = good.theta
    deviations = _deviations(problem, found, theta, sigma, A)
    return LogFit(
        model.names,
        problem.point(theta),
        read_only(deviations[: problem.p]),
        good.delay_s - float(theta[-1]),
        float(deviations[-1]),
        read_only(sigma),
        read_only(np.linalg.qr(A, mode="r")),
        read_only(theta),
        (read_only(problem.lower), read_only(problem.upper)),
        rounds,
        settled,
    )


def step(model: ArmModel, robot: Robot, found: LogFit, reduced: Triangles, known: Mapping[str, float]) -> FloatArray:
    """Base parameters (p,) one round of Gauss-Newton away from a fit, by other rows linearised there."""
    whole, count = reduced.whole(), np.maximum(reduced.rows.sum(axis=0), 1)
    problem = _Problem(model, robot, np.sqrt((whole[:, :, -1] ** 2).sum(axis=1) / count), known)
    return problem.solve(whole, found.sigma)[0][: problem.p]


def _deviations(problem: _Problem, found: Triangles, theta: FloatArray, sigma: FloatArray, A: FloatArray) -> FloatArray:
    """Deviations (size,) by the sandwich of groups: (A'A)^-1 sum g g' (A'A)^-1, g being a group's A'(y - A theta)."""
    inverse = np.linalg.inv(A.T @ A)
    scores = np.zeros((len(found.R), problem.size))
    for g in range(len(found.R)):
        for i in range(problem.n):
            a, b = problem.spread(found.R[g, i], i)
            scores[g] += a.T @ (b - a @ theta) / sigma[i] ** 2
    used = scores[found.rows.sum(axis=1) > 0]
    spread = inverse @ used.T
    robust = (spread**2).sum(axis=1) * len(used) / max(len(used) - 1, 1)
    return np.asarray(np.sqrt(np.maximum(robust, np.diag(inverse))))
