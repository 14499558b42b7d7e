"""One segment of motion: a quintic spline from rest to rest, optimised within limits, and checked before use."""

import time
from copy import copy

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from dynid.adaptive.information import Information
from dynid.adaptive.penalties import excess, spans, torque_excess
from dynid.adaptive.segment_constraints import Segment, SegmentConstraints
from dynid.adaptive.spline import Spline
from dynid.control.motion_check import COARSE_S, STEP_S, MotionCheck
from dynid.control.safe_box import SafeBox
from dynid.control.self_collision import SelfCollision
from dynid.errors import SafetyError
from dynid.hardware.safety.overload import OverloadModel
from dynid.model.transmission import Transmission
from dynid.robot import FloatArray, Robot
from dynid.trajectory.polynomial import PolynomialTrajectory

PLANNING_S = 0.1  # sampling interval in planning [s]
DIFFERENCE = 1e-5
PENALTY = 300.0
BOX_M = 0.05  # missing clearance to the free space's border that is penalised like an excess of a whole joint range [m]
MOST_FROZEN = 3  # maximum number of frozen joints per segment
SCALES = (1.0, 0.98, 0.95, 0.9, 0.8, 0.6, 0.35)  # scale factors that are tried until the check passes
STOP_LOAD = 0.5  # least share of the overload limit at which a segment is stopped; the rest is for the return motion
EXCESS_RAD = 0.1  # excess of position limits at which positions are clipped before torques are computed [rad]
COMPLETE_SCALE = 0.8  # least scale factor at which no further candidate is optimised
LATER_DIVISOR = 3  # divisor of the number of iterations for all candidates after the first


class SegmentPlanner:
    """Planner of the segments of one robot, each a spline from rest to rest.

    Args:
        robot: the robot.
        duration: duration of a segment [s].
        box: free space; None if the surroundings of the arm are unknown.
        draws: number of random initial guesses.
        candidates: maximum number of best guesses that are optimised, in order, until one passes all checks.
        iterations: maximum number of iterations of the first optimisation; later ones have `LATER_DIVISOR` times fewer.
        planning_s: time from the start of planning after which optimisations end [s]; initial guesses and checks are
            not interrupted.

    Attributes:
        planning_s: time limit of the optimisations, as given [s].
    """

    def __init__(
        self,
        robot: Robot,
        duration: float,
        box: SafeBox | None,
        draws: int = 160,
        candidates: int = 3,
        iterations: int = 60,
        planning_s: float = np.inf,
    ) -> None:
        self.robot, self.box, self.planning_s = robot, box, planning_s
        self._draws, self._candidates, self._iterations = draws, candidates, iterations
        self._collision = SelfCollision(robot)
        self._overload, self._transmission = OverloadModel.of(robot), Transmission(robot)
        self._last(duration)

    def _last(self, duration: float) -> None:
        self.spline = Spline(duration)
        self._times = np.append(np.arange(0.5 * PLANNING_S, duration, PLANNING_S), duration)
        self._shapes = self.spline.functions(self._times)

    def of_length(self, duration: float) -> "SegmentPlanner":
        """Return a planner with the same settings for segments of the given duration [s]."""
        if duration == self.spline.duration:
            return self
        other = copy(self)
        other._last(duration)
        return other

    def plan(
        self, name: str, start: FloatArray, frame: SegmentConstraints, known: Information, interval_s: float, seed: int
    ) -> Segment:
        """Return the segment after which the parameters are expected to be least uncertain.

        Args:
            name: name of the segment.
            start: present posture, (n,) [rad].
            frame: constraints of the segment.
            known: information about the parameters before the segment.
            interval_s: sampling interval of the identification [s].
            seed: seed of the random initial guesses.

        Raises:
            SafetyError: no segment passes all checks; the message is that of the last refusal.
        """
        began, worked = time.perf_counter(), time.thread_time()
        random, count = np.random.default_rng([seed, 29]), PLANNING_S / interval_s
        best: tuple[float, PolynomialTrajectory] | None = None
        refusal: SafetyError | None = None
        starts = self._starts(start, frame, known, count, random)
        until = began + self.planning_s
        for k, drawn in enumerate(starts):
            late = time.perf_counter() > until  # out of time: no further optimisation unless no segment has been found
            if k and late and (best is not None or k < len(starts) - 1):
                continue
            iterations = self._iterations if k == 0 else max(1, self._iterations // LATER_DIVISOR)
            points = self._optimised(drawn, frame, known, count, iterations, until)
            frozen = MOST_FROZEN if best is None and k == len(starts) - 1 else 0
            try:
                motion, whole = self._admissible(name, points, frame, frozen)
            except SafetyError as error:
                refusal = error
                continue
            value = known.value(known.rows(*motion.sample_all(self._times)), count)[0]
            if best is None or value < best[0]:
                best = value, motion
            if whole:
                break
        if best is None:
            assert refusal is not None
            raise refusal
        motion = best[1]
        states = motion.sample_all(self._times)
        after = known.with_states(states, count)
        widest = float((after.deviations / known.limits).max())
        load = self._largest_load(motion, frame)
        times = time.perf_counter() - began, time.thread_time() - worked
        return Segment(motion, states, widest, frame.tube, load, *times)

    def _largest_load(self, motion: PolynomialTrajectory, frame: SegmentConstraints) -> FloatArray:
        if self._overload is None:
            return np.full(self.robot.size, np.inf)
        times = np.arange(0.0, motion.duration, STEP_S)
        currents = self._transmission.currents_for(frame.torques(*motion.sample_all(times)))
        expected = self._overload.along(frame.load, currents, STEP_S).max(axis=0)
        return np.asarray(np.maximum(expected, STOP_LOAD))

    def _admissible(
        self, name: str, points: FloatArray, frame: SegmentConstraints, most_frozen: int = MOST_FROZEN
    ) -> tuple[PolynomialTrajectory, bool]:
        """Return a segment scaled down until it passes all checks, and whether it is nearly unchanged.

        All distances from the start posture are multiplied by each factor of `SCALES` in turn. Scaling alone may not
        help, because friction increases at low speeds (Stribeck effect). If no factor passes, the joint with the
        highest torque demand is reversed, because a joint that cannot lift its load may be able to lower it; a joint
        that was reversed before is kept at rest instead. Then all factors are tried again, after at most twice
        `most_frozen` such changes. A segment is nearly unchanged if its factor is at least `COMPLETE_SCALE` and no
        joint was reversed or kept at rest.

        Args:
            name: name of the segment.
            points: control points of the motion before scaling, (1 + free, n) [rad]: the start posture, then
                `Spline.free` others.
            frame: constraints of the segment.
            most_frozen: maximum number of joints that may stay at rest.

        Raises:
            SafetyError: no version of the segment passes.
        """
        start, moving = points[0], np.ones(points.shape[1])
        refusal: SafetyError | None = None
        for _ in range(2 * most_frozen + 1):
            for share in SCALES:
                motion = self.spline.motion(name, self.robot.joint_names, start + share * moving * (points - start))
                try:
                    self.check(motion, frame)
                except SafetyError as error:
                    refusal = error
                    continue
                return motion, share >= COMPLETE_SCALE and bool((moving == 1.0).all())
            most = self._hardest(motion, frame, moving != 0.0)
            moving[most] = -1.0 if moving[most] > 0.0 else 0.0
        assert refusal is not None
        raise refusal

    def _hardest(self, motion: PolynomialTrajectory, frame: SegmentConstraints, moving: NDArray[np.bool_]) -> int:
        """Return the index of the moving joint with the highest torque demand, relative to its torque limit.

        If the peak torques of some joints exceed their limits, the joint with the highest peak / limit is returned.
        Otherwise it is the joint with the highest root mean square torque / limit.

        Args:
            motion: the motion.
            frame: constraints with torque function and torque limits.
            moving: mask of the joints that move, (n,).
        """
        tau = np.abs(frame.torques(*motion.sample_all(np.arange(0.0, motion.duration, COARSE_S)))) / frame.limits.torque
        peak, size = tau.max(axis=0), np.sqrt(np.mean(tau**2, axis=0))
        return int(np.argmax(np.where(moving, np.where(peak > 1.0, 1.0 + peak, size), -1.0)))

    def check(self, motion: PolynomialTrajectory, frame: SegmentConstraints) -> None:
        """Refuse a motion that violates a limit, overloads a servo, collides with itself or leaves the free space.

        Args:
            motion: the motion.
            frame: constraints of the segment, with limits, torque function, tracking errors and used overload capacity.

        Raises:
            SafetyError: the motion is refused; the message names quantity, joint or links, and time.
        """
        MotionCheck(self.robot, frame.limits, frame.torques, self._collision).check([motion], frame.load)
        if self.box is not None:
            self.box.prove(motion, frame.tube)

    def _starts(
        self,
        start: FloatArray,
        frame: SegmentConstraints,
        known: Information,
        count: float,
        random: np.random.Generator,
    ) -> list[FloatArray]:
        """Draw random splines, and return those of lowest cost as initial guesses for the optimisation.

        Each guess is given by its control points (1 + free, n) [rad]: the start posture, then `Spline.free` others.

        Args:
            start: start posture, (n,) [rad].
            frame: constraints of the segment.
            known: information about the parameters before the segment.
            count: number of samples in the identification that one planned state stands for.
            random: random generator.
        """
        drawn = [self._drawn(start, frame, random) for _ in range(max(self._draws, self._candidates))]
        worth = [self._worth(points, frame, known, count) for points in drawn]
        return [drawn[k] for k in np.argsort(worth)[: self._candidates]]

    def _worth(self, points: FloatArray, frame: SegmentConstraints, known: Information, count: float) -> float:
        """Return the cost [-] of a segment: log of the parameters' uncertainty after it, plus penalties.

        The penalties are on violated limits of torque, position, velocity and acceleration, and on the free space.

        Args:
            points: control points of the segment's spline, (1 + free, n) [rad]: the start posture, then `Spline.free`
                others.
            frame: constraints of the segment.
            known: information about the parameters before the segment.
            count: number of samples in the identification that one planned state stands for.
        """
        states, limits = [one @ points for one in self._shapes], frame.limits
        within = np.clip(states[0], limits.lower - EXCESS_RAD, limits.upper + EXCESS_RAD)
        W = known.model.regressor(*states)
        more = torque_excess(frame.most_expected((within, *states[1:]), W), frame)[0]
        more += sum(excess(one, *span)[0] for one, span in zip(states, spans(limits), strict=True))
        if self.box is not None:
            more += float(np.mean(self._lacks(states[0], frame.tube) ** 2))
        return known.value(known.weighed(W, states[1]), count)[0] + PENALTY * more

    def _drawn(self, start: FloatArray, frame: SegmentConstraints, random: np.random.Generator) -> FloatArray:
        """Return random control points (1 + free, n) [rad] of a spline from the posture `start` (n,) [rad].

        They are drawn within the position limits, then scaled towards `start` to keep the limits of speed and
        acceleration.
        """
        limits, shapes = frame.limits, self._shapes
        points = np.tile(start, (1 + self.spline.free, 1))
        points[1:] = random.uniform(limits.lower, limits.upper, (self.spline.free, len(start)))
        moved = points - start
        peaks = [np.abs(shape @ moved).max(axis=0) for shape in shapes[1:]]
        share = np.minimum(
            limits.velocity / np.maximum(peaks[0], 1e-9), limits.acceleration / np.maximum(peaks[1], 1e-9)
        )
        return np.asarray(start + np.minimum(1.0, 0.8 * share) * moved)

    def _optimised(
        self,
        points: FloatArray,
        frame: SegmentConstraints,
        known: Information,
        count: float,
        iterations: int,
        until: float,
    ) -> FloatArray:
        """Return control points (1 + free, n) [rad] of lower cost, from an optimisation that starts at `points`.

        Args:
            points: initial control points, (1 + free, n) [rad]: the start posture, then the `Spline.free` optimised
                ones.
            frame: constraints of the segment, whose violation is penalised.
            known: information about the parameters before the segment.
            count: number of samples in the identification that one planned state stands for.
            iterations: maximum number of iterations.
            until: time of `time.perf_counter` at which the optimisation ends [s].
        """
        start, shape = points[0], points[1:].shape

        def cost(x: FloatArray) -> tuple[float, FloatArray]:
            value, slope = self._cost(np.vstack([start, x.reshape(shape)]), frame, known, count)
            return value, slope[1:].ravel()

        def stop_late(x: FloatArray) -> None:
            if time.perf_counter() > until:
                raise StopIteration

        options = {"maxiter": iterations, "maxfun": 2 * iterations, "maxcor": 20}
        found = minimize(cost, points[1:].ravel(), jac=True, method="L-BFGS-B", callback=stop_late, options=options)
        return np.vstack([start, found.x.reshape(shape)])

    def _cost(
        self, points: FloatArray, frame: SegmentConstraints, known: Information, count: float
    ) -> tuple[float, FloatArray]:
        """Return the cost [-] of a segment, and its gradient by the spline's control points, (1 + free, n) [1/rad].

        The cost is that of `_worth`: log of the parameters' uncertainty after the segment, plus penalties on violated
        limits.

        Args:
            points: control points of the segment's spline, (1 + free, n) [rad]: the start posture, then `Spline.free`
                others.
            frame: constraints of the segment.
            known: information about the parameters before the segment.
            count: number of samples in the identification that one planned state stands for.
        """
        states = [one @ points for one in self._shapes]
        N, n = states[0].shape
        # forward differences: every state as given, then with each of its 3 n components changed
        moved = [np.tile(one, (1 + 3 * n, 1, 1)) for one in states]
        for which in range(3):
            for joint in range(n):
                moved[which][1 + which * n + joint, :, joint] += DIFFERENCE
        limits = frame.limits
        # a step of the optimiser may exceed the range for which the torque kernels are compiled
        within = np.clip(moved[0], limits.lower - EXCESS_RAD, limits.upper + EXCESS_RAD)
        W = known.model.regressor(*(one.reshape(-1, n) for one in moved))
        X = known.weighed(W, moved[1].reshape(-1, n)).reshape(1 + 3 * n, N, n, -1)
        value, pull = known.value(X[0], count)
        slopes = np.einsum("kdij,dij->kd", X[1:] - X[0], pull) / DIFFERENCE
        by_state = slopes.reshape(3, n, N).transpose(0, 2, 1)
        more, slope = self._torque_penalty(frame, [within, *moved[1:]], W.reshape(1 + 3 * n, N, n, -1))
        value += PENALTY * more
        by_state = by_state + PENALTY * slope
        for which, (low, high) in enumerate(spans(limits)):
            more, slope = excess(states[which], low, high)
            value += PENALTY * more
            by_state[which] += PENALTY * slope
        if self.box is not None:
            more, slope = self._box_penalty(moved[0][: 1 + n], frame.tube)
            value += PENALTY * more
            by_state[0] += PENALTY * slope
        gradient = sum(shape.T @ one for shape, one in zip(self._shapes, by_state, strict=True))
        return value, np.asarray(gradient)

    @staticmethod
    def _torque_penalty(frame: SegmentConstraints, moved: list[FloatArray], W: FloatArray) -> tuple[float, FloatArray]:
        """Return the torque penalty [-] of N states, and its gradient by q, dq and ddq, (3, N, n).

        The gradient is computed by forward differences.

        Args:
            frame: constraints of the segment.
            moved: q, dq and ddq, (1 + 3 n, N, n) each. Index 0 contains the states themselves. Each further index
                contains the states with one of their 3 n components changed by `DIFFERENCE`.
            W: regressors of these states, (1 + 3 n, N, n, p).
        """
        N, n = moved[0].shape[1:]
        tau = frame.most_expected([one[0] for one in moved], W[0])
        more, push = torque_excess(tau, frame)
        slope = np.zeros((3, N, n))
        near = push.any(axis=1)  # the gradient is zero elsewhere
        if near.any():
            states = [one[1:, near].reshape(-1, n) for one in moved]
            other = frame.most_expected(states, W[1:, near].reshape(len(states[0]), n, -1))
            change = (other.reshape(3 * n, -1, n) - tau[near]) / DIFFERENCE
            slope[:, near] = np.einsum("knj,nj->kn", change, push[near]).reshape(3, n, -1).transpose(0, 2, 1)
        return more, slope

    def _box_penalty(self, q: FloatArray, tube: FloatArray) -> tuple[float, FloatArray]:
        """Return the free-space penalty [-] of N postures, and its gradient by the postures, (N, n).

        The gradient is computed by forward differences.

        Args:
            q: postures, (1 + n, N, n) [rad]. Index 0 contains the postures themselves. Each further index contains the
                postures with one of the n joints changed by `DIFFERENCE`.
            tube: maximum tracking errors, (n,) [rad].
        """
        lacks, slope = self._lacks(q[0], tube), np.zeros(q.shape[1:])
        near = lacks > 0.0  # the gradient is zero elsewhere
        if near.any():
            others = q[1:, near]
            moved = self._lacks(others.reshape(-1, q.shape[2]), tube).reshape(len(others), -1)
            slope[near] = (2.0 * lacks[near] * (moved - lacks[near]) / DIFFERENCE).T / len(lacks)
        return float(np.mean(lacks**2)), slope

    def _lacks(self, q: FloatArray, tube: FloatArray) -> FloatArray:
        """Return the missing clearance of N postures from the border of the free space, divided by `BOX_M`, (N,) [-].

        It is 0 for a posture at which the arm stays in the free space with all tracking errors up to `tube`.

        Args:
            q: postures, (N, n) [rad].
            tube: maximum tracking errors, (n,) [rad].
        """
        assert self.box is not None
        return np.asarray(np.maximum(self.box.shortfall(q, tube), 0.0) / BOX_M)
