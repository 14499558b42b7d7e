"""All-pose audit: the smallest eigenvalue of M(q; phi) over a box of poses (arXiv:2605.15949, eqs. 10 and 11).

M is the inertia matrix. The audit has three steps. First, a compiled kernel screens a dense, low-discrepancy sample of
the box. Second, from the worst pose of every block of the sample, a search descends in a smooth measure of definiteness
(`pose_kernels`), all searches at once. Third, exact eigenvalues are computed at the poses with the smallest measures,
and the pose with the lowest eigenvalue is refined with the exact slope d lambda_min / d q_j = v' (dM / d q_j) v, with v
the unit eigenvector. A sample or grid alone is not sufficient: a region in which M is indefinite can be smaller than
the spacing of the sampled poses, and the worst poses of a sample all lie in the broadest basin.

M does not depend on the first joint of a chain, nor on decoupled axes. Such joints are detected and kept at mid-range.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Literal

import numpy as np

from dynid.errors import DataError
from dynid.identification.feasibility.pose_kernels import InertiaFunctions, compile_pose_kernels
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray, read_only
from dynid.threads import on_one_thread

Certificate = Literal["counterexample", "sampled", "searched"]
CHUNK = 1 << 16  # poses per kernel call
GRID_JOINTS = 8  # largest number of joints with which every audit includes a 3-level grid (corners, faces, centre)
SEARCHES = 1024
SEARCH_STEPS = 40
LOWEST = 128  # number of poses whose eigenvalues are computed after a search
DEPTH = 6  # largest number of successive searches, each with eps below the previous result
FIRST_STEP_RAD = 0.3
SEARCH_BELOW, SHARPNESS = 1e-4, 1e-5  # distances of eps below the lowest eigenvalue, in a search and a screen [kg m^2]
DISTINCT_RAD = 0.05
TINY = 1e-300  # lower bound of divisors, so that division by a slope of zero is finite


@dataclass(frozen=True, eq=False)
class AuditResult:
    """Result of an audit of the inertia matrix M over a box of poses; arrays are read-only.

    Attributes:
        lambda_min: smallest eigenvalue of M found [kg m^2].
        pose: pose with this eigenvalue, all axes, (n,) [rad].
        poses_checked: number of sampled poses that were checked, not counting those that a search visited.
        certificate: "counterexample" if `pose` proves that lambda_min is below the limit; "searched" if neither sample
            nor search found such a pose; "sampled" if the sample found none and there was no search.
        seed: seed of the sample.
        limit: required lambda_min [kg m^2].
        worst_poses: poses below the limit, worst first, (k, n) [rad]; the worst pose if none is below the limit.
    """

    lambda_min: float
    pose: FloatArray
    poses_checked: int
    certificate: Certificate
    seed: int
    limit: float
    worst_poses: FloatArray

    @property
    def passed(self) -> bool:
        """Whether the audit found no pose at which the inertia matrix has an eigenvalue below the limit."""
        return self.lambda_min >= self.limit


@lru_cache(maxsize=16)
def _first_chunk(dimensions: int, seed: int) -> FloatArray:
    """Return the first CHUNK points of the sequence `spread_points`, (CHUNK, dimensions), cached for all audits."""
    return read_only(spread_points(dimensions, seed, 0, CHUNK))


def spread_points(dimensions: int, seed: int, begin: int, end: int) -> FloatArray:
    """Return points `begin` to `end` of a sequence that fills the unit cube evenly, (end - begin, dimensions).

    The points are multiples of the powers of 1/g modulo 1, with g the root of g^(d + 1) = g + 1 (the golden ratio for d
    = 1), from a random start. In this Kronecker sequence, any consecutive points are as evenly spread as all of them.
    `scipy.stats` has other sequences, but takes longer to import than an audit takes to run.
    """
    root = 2.0
    for _ in range(64):  # a contraction towards g
        root = (1.0 + root) ** (1.0 / (dimensions + 1))
    steps = root ** -np.arange(1.0, dimensions + 1.0)
    start = np.random.default_rng(seed).random(dimensions)
    points = start + np.arange(begin, end)[:, None] * steps
    points -= np.floor(points)
    return np.asarray(points)


class Auditor:
    """Auditor of the inertia matrix M(q; phi) of one arm over one box of poses, for any base parameters phi.

    All parts that do not depend on phi are prepared once.

    Args:
        model: model of the arm.
        lower: lower corner of the box of poses, with one limit for each joint of the kinematic chain, (c,) [rad].
        upper: upper corner of the box, (c,) [rad].
    """

    def __init__(self, model: ArmModel, lower: FloatArray, upper: FloatArray) -> None:
        if np.shape(lower) != (model.chain_size,) or np.shape(upper) != (model.chain_size,) or (lower > upper).any():
            raise DataError(f"the audit domain needs {model.chain_size} ordered pairs, got {lower} to {upper}")
        self.model = model
        none = np.zeros(model.axes - model.chain_size)
        self.lower, self.upper = read_only(np.r_[lower, none]), read_only(np.r_[upper, none])
        self.functions = InertiaFunctions(model)
        self.free = self._free_joints()
        self._first_poses: dict[int, FloatArray] = {}
        self.kernels = compile_pose_kernels(model)

    def _free_joints(self) -> list[int]:
        """Return the indices of the joints that affect the inertia matrix and have an upper limit above the lower one.

        If there is no such joint, index 0 is returned, so that the box of poses has at least one dimension.
        """
        rng = np.random.default_rng(0)
        q = rng.uniform(-np.pi, np.pi, (8, self.model.axes))
        phi, v = rng.normal(size=len(self.model.names)), rng.normal(size=q.shape)
        strength = np.abs(self.functions.slopes(q, phi, v)).max(axis=0)
        wide = self.upper[: self.model.chain_size] > self.lower[: self.model.chain_size]
        return [int(j) for j in np.flatnonzero((strength > 1e-9 * strength.max()) & wide)] or [0]

    def poses(self, unit: FloatArray) -> FloatArray:
        """Return poses (N, n) [rad] in the auditor's box of poses, by linear scaling of points (N, k) of the unit cube.

        The k free joints are those that affect the inertia matrix; all other joints are at mid-range.
        """
        q = np.tile(0.5 * (self.lower + self.upper), (len(unit), 1))
        q[:, self.free] = self.lower[self.free] + unit * (self.upper - self.lower)[self.free]
        return q

    def audit(
        self,
        phi: BaseParameters,
        *,
        limit: float = 0.0,
        poses: int = CHUNK,
        searches: int = SEARCHES,
        seed: int = 1,
        extra: FloatArray | None = None,
    ) -> AuditResult:
        """Return the result of a search for the smallest eigenvalue of M(q; phi) over the auditor's box of poses.

        M is the inertia matrix of the arm.

        Args:
            phi: base parameters.
            limit: required lambda_min [kg m^2].
            poses: number of poses to sample.
            searches: number of downhill searches to start; 0 for none.
            seed: seed of the sample; another seed gives fresh poses.
            extra: additional poses (k, n) [rad] at which searches start, such as the worst poses of earlier audits.

        Raises:
            DataError: the parameters belong to another model, or the box exceeds the range of positions [rad] for which
                the compiled kernels are accurate.
        """
        self.model.values_of(phi)  # raises DataError for parameters of another model
        checked, found, eps = self._sharp_screen(phi, limit, poses, max(searches, 1), seed)
        if extra is not None and len(extra):
            found = np.concatenate([np.clip(extra, self.lower, self.upper), found])
        certificate: Certificate = "sampled"
        if searches:
            found, eps = self._search(found, phi, eps)
            certificate = "searched"
        found, values = self._lowest(found, phi, eps, distinct=True)
        if searches:
            box = self.free, self.lower[self.free], self.upper[self.free]
            found[0], values[0] = self.functions.local_minimum(found[0], phi.values, *box)
        lambda_min = float(values[0])
        if lambda_min < limit:
            certificate = "counterexample"
        worst = found[: max(1, int((values < limit).sum()))]
        return AuditResult(lambda_min, read_only(found[0]), checked, certificate, seed, limit, read_only(worst))

    def screen(self, phi: BaseParameters, eps: float, poses: int, blocks: int, seed: int) -> tuple[int, FloatArray]:
        """Sample poses, and return their number and the worst poses, where the inertia matrix M has small eigenvalues.

        Poses are compared by a measure m. If all eigenvalues of M are above eps, m = 1 / trace((M - eps I)^-1), which
        decreases to 0 as the smallest eigenvalue decreases to eps. Otherwise M - eps I is not positive definite, and m
        is a pivot of its factors U D U' that is not positive (see `pose_kernels`), because the formula might give a
        positive value. The sample is divided into blocks, each of which covers the auditor's whole box of poses. The
        pose with the smallest m of each block is returned.

        Args:
            phi: base parameters.
            eps: eigenvalue to which m refers [kg m^2].
            poses: number of poses of a low-discrepancy sample, in addition to a coarse grid.
            blocks: number of blocks.
            seed: seed of the sample.

        Returns:
            Number of sampled poses, with those of the grid, and the poses found, (k, n) [rad] with k <= blocks.
        """
        dimensions = len(self.free)
        grid = np.array(list(product((0.0, 0.5, 1.0), repeat=min(dimensions, GRID_JOINTS))))
        worst = self.poses(grid) if dimensions <= GRID_JOINTS else self.poses(np.full((1, dimensions), 0.5))
        checked, best = len(worst), self.kernels.margins(worst, phi.values, eps)
        order = np.argsort(best)[:blocks]
        worst, best = worst[order], best[order]
        for q in self._sample(seed, poses):
            margin = self.kernels.margins(q, phi.values, eps)
            checked += len(q)
            # consecutive members of a low-discrepancy sequence cover the whole box, so every block does
            count = min(blocks, len(q))
            size = -(-len(q) // count)
            blocked = np.pad(margin, (0, count * size - len(q)), constant_values=np.inf).reshape(count, size)
            index = np.argmin(blocked, axis=1) + size * np.arange(count)
            index = index[index < len(q)]
            better = np.flatnonzero(margin[index[: len(best)]] < best[: len(index)])
            worst[better], best[better] = q[index[better]], margin[index[better]]
            new = index[len(best) :]
            worst, best = np.concatenate([worst, q[new]]), np.concatenate([best, margin[new]])
        return checked, worst

    def _sample(self, seed: int, count: int) -> Iterator[FloatArray]:
        """Yield the first `count` poses of a low-discrepancy sequence in arrays (k, n) [rad] of at most CHUNK poses.

        The first array, which every audit uses, is cached.
        """
        if seed not in self._first_poses:
            self._first_poses = {seed: read_only(self.poses(_first_chunk(len(self.free), seed)))}
        yield self._first_poses[seed][:count]
        for begin in range(CHUNK, count, CHUNK):
            yield self.poses(spread_points(len(self.free), seed, begin, min(begin + CHUNK, count)))

    def _sharp_screen(
        self, phi: BaseParameters, limit: float, poses: int, blocks: int, seed: int
    ) -> tuple[int, FloatArray, float]:
        """Screen sampled poses twice for small eigenvalues of the inertia matrix M, and return the worst poses.

        Both screens sort poses by the measure m of `screen`, which depends on eps. The closer eps is below the lowest
        eigenvalue of all poses, the better m agrees with the smallest eigenvalue of a pose minus eps. The first screen,
        of at most CHUNK poses, estimates the lowest eigenvalue, from which eps of the second screen follows.

        Args:
            phi: base parameters.
            limit: eps of the first screen [kg m^2].
            poses: number of poses to sample.
            blocks: number of blocks of the sample; each gives one pose, see `screen`.
            seed: seed of the sample.

        Returns:
            Number of sampled poses, the worst poses (k, n) [rad], and the eps of the second screen [kg m^2].
        """
        _, found = self.screen(phi, limit, min(poses, CHUNK), blocks, seed)
        known, values = self._lowest(found, phi, limit)
        eps = float(values[0]) - SHARPNESS
        checked, found = self.screen(phi, eps, poses, blocks, seed)
        return checked, np.concatenate([known, found]), eps

    def _lowest(
        self, q: FloatArray, phi: BaseParameters, eps: float, *, distinct: bool = False
    ) -> tuple[FloatArray, FloatArray]:
        """Return the poses (k, n) [rad] with the smallest eigenvalues of the inertia matrix, and the eigenvalues (k,).

        First, at most `LOWEST` poses with the smallest measure m of `screen` are selected. They are then sorted by
        their exact eigenvalue, lowest first.

        Args:
            q: poses, (N, n) [rad].
            phi: base parameters.
            eps: eigenvalue to which m refers [kg m^2].
            distinct: whether poses close to a selected one are left out.
        """
        q = q[np.argsort(self.kernels.margins(q, phi.values, eps))]
        q = _distinct(q, LOWEST) if distinct else q[:LOWEST]
        values, _ = self.functions.smallest(q, phi.values)
        order = np.argsort(values)
        return q[order], values[order]

    def _search(self, q: FloatArray, phi: BaseParameters, eps: float) -> tuple[FloatArray, float]:
        """Return poses (k, n) [rad] that were moved downhill in the smallest eigenvalue of the inertia matrix M.

        Every round descends in m = 1 / trace((M - eps I)^-1), see `_walk`, with eps just below the lowest eigenvalue so
        far. The search ends if no pose falls below eps, or after `DEPTH` rounds.

        Args:
            q: poses from which the descents start, (k, n) [rad].
            phi: base parameters.
            eps: eps of m before the first round [kg m^2]. Eigenvalues are computed at the `LOWEST` start poses with the
                smallest m, and the lowest eigenvalue determines eps of the first round.

        Returns:
            The poses after the last round, (k, n) [rad], and eps of this round [kg m^2].
        """
        for _ in range(DEPTH):
            lowest = float(self._lowest(q, phi, eps)[1][0])
            # with eps just below the lowest eigenvalue so far, M - eps I is definite, so the measure is smooth, and
            # its smallest eigenvalue dominates the measure; far below zero, a coarse eps suffices
            eps = lowest - max(SEARCH_BELOW, -0.25 * lowest)
            q = self._walk(q, phi.values, eps)
            if self.kernels.margins(q, phi.values, eps).min() > 0.0:
                break
        return q, eps

    def _walk(self, q: FloatArray, phi: FloatArray, eps: float) -> FloatArray:
        """Return poses (k, n) [rad] after a projected gradient descent of m = 1 / trace((M - eps I)^-1) from each pose.

        M is the inertia matrix. If M - eps I is not positive definite, m is not this formula, but a value that is not
        positive, see `screen`. A descent then stops, since the smallest eigenvalue has fallen to eps or below.

        Args:
            q: initial poses, (k, n) [rad].
            phi: base parameters, (p,).
            eps: eps of m [kg m^2].
        """
        free, lower, upper = self.free, self.lower[self.free], self.upper[self.free]
        q = np.array(q)
        value, slope = self.kernels.slopes(q, phi, eps)
        slope = slope[:, free]
        step = FIRST_STEP_RAD / np.maximum(np.abs(slope).max(axis=1), TINY)
        for _ in range(SEARCH_STEPS):
            trial = np.array(q)
            trial[:, free] = np.clip(q[:, free] - step[:, None] * slope, lower, upper)
            move = trial[:, free] - q[:, free]
            trial_value, trial_slope = self.kernels.slopes(trial, phi, eps)
            trial_slope = trial_slope[:, free]
            better = trial_value < value
            curvature = (move * (trial_slope - slope)).sum(axis=1)
            secant = (move**2).sum(axis=1) / np.maximum(curvature, TINY)
            longest = FIRST_STEP_RAD / np.maximum(np.abs(trial_slope).max(axis=1), TINY)
            step = np.where(better, np.minimum(secant, longest), 0.25 * step)
            better &= value > 0.0
            q[better], value[better], slope[better] = trial[better], trial_value[better], trial_slope[better]
        return q


def _distinct(poses: FloatArray, most: int) -> FloatArray:
    """Return the first `most` distinct poses, (k, n) [rad].

    A pose is distinct if it differs from every pose chosen before it by DISTINCT_RAD or more in at least one joint.
    """
    kept = np.empty((min(most, len(poses)), poses.shape[1]))
    count = 0
    for pose in poses:
        if not (np.abs(kept[:count] - pose) < DISTINCT_RAD).all(axis=1).any():
            kept[count] = pose
            count += 1
        if count == len(kept):
            break
    return kept[:count]


@on_one_thread
def audit(
    model: ArmModel,
    phi: BaseParameters,
    lower: FloatArray,
    upper: FloatArray,
    *,
    limit: float = 0.0,
    poses: int = CHUNK,
    searches: int = SEARCHES,
    seed: int = 1,
) -> AuditResult:
    """Return the result of a search for the smallest eigenvalue of the inertia matrix M(q; phi) over a box of poses.

    Args:
        model: model of the arm.
        phi: base parameters.
        lower: lower corner of the box of poses, with one limit for each joint of the kinematic chain, (c,) [rad].
        upper: upper corner of the box, (c,) [rad].
        limit: required lambda_min [kg m^2].
        poses: number of poses to sample.
        searches: number of downhill searches to start; 0 for none.
        seed: seed of the sample.
    """
    return Auditor(model, lower, upper).audit(phi, limit=limit, poses=poses, searches=searches, seed=seed)
