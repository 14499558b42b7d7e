"""One segment of motion: a quintic spline from rest to rest, optimised within limits, and checked before it counts."""

import time
from copy import copy
from dataclasses import dataclass, replace

import numpy as np
from scipy.interpolate import BSpline
from scipy.optimize import minimize

from dynid.adaptive.information import Information
from dynid.control.motion_check import STEP_S, MotionCheck, MotionLimits, Torques
from dynid.control.safe_box import SafeBox
from dynid.control.self_collision import SelfCollision
from dynid.errors import SafetyError
from dynid.hardware.safety.overload import OverloadModel
from dynid.robot import FloatArray, Robot
from dynid.trajectory.motion import Sample
from dynid.trajectory.polynomial import PolynomialTrajectory, through_points

DEGREE, KNOT_S = 5, 0.5
LOOK_S = 0.1  # between the states that are planned with
DIFFERENCE = 1e-5
PENALTY = 300.0
LOAD_PENALTY = 0.1  # of servos that get too hot, beside those of other limits
BOX_M = 0.05  # a lack of clearance that counts as much as all of a joint's range
MOST_FROZEN = 2  # joints that stand still in a segment, at most
SMALLER = (1.0, 0.85, 0.65, 0.45, 0.25)  # shares of a segment, until one passes the check
LEAST_LOAD = 0.5  # of what makes a servo switch itself off: less stops no segment, and the rest is for the way back
MOST_RESERVE = 2.5  # of the torques that a segment is optimised with, over those expected
BEYOND_RAD = 0.1  # of a joint's range
INSIDE = 0.97  # of the limits: what a penalty leaves outside


class Spline:
    """Quintic splines of one length from rest to rest.

    Attributes:
        duration: [s].
        free: number of points that are free, the end being the last.
    """

    def __init__(self, duration: float) -> None:
        self.duration = duration
        inner = np.linspace(0.0, duration, max(2, round(duration / KNOT_S) + 1))
        self.knots = inner
        padded = np.concatenate([np.zeros(DEGREE), inner, np.full(DEGREE, duration)])
        count = len(padded) - DEGREE - 1
        self.free = count - DEGREE
        spread = np.zeros((count, 1 + self.free))
        spread[:3, 0] = 1.0
        spread[3 : count - 3, 1 : self.free] = np.eye(self.free - 1)
        spread[count - 3 :, self.free] = 1.0
        self._basis, self._spread = BSpline(padded, np.eye(count), DEGREE), spread

    def functions(self, times: FloatArray) -> list[FloatArray]:
        """Values and two derivatives at times (N,) per point, the start first, (N, 1 + free) each."""
        found = [self._basis, self._basis.derivative(1), self._basis.derivative(2)]
        return [one(times) @ self._spread for one in found]

    def motion(self, name: str, joints: tuple[str, ...], points: FloatArray) -> PolynomialTrajectory:
        """The motion through points (1 + free, n) [rad], the start first."""
        q, dq, ddq = (one @ points for one in self.functions(self.knots))
        dq[[0, -1]] = 0.0
        ddq[[0, -1]] = 0.0
        # what stands must not move by rounding: friction would be counted on it
        still = (points == points[0]).all(axis=0)
        q[:, still], dq[:, still], ddq[:, still] = points[0, still], 0.0, 0.0
        return through_points(name, joints, self.knots, q, dq, ddq)


@dataclass(frozen=True, eq=False)
class Frame:
    """What one segment must keep.

    Attributes:
        limits: of positions, speeds, accelerations, torques.
        torques: that a motion takes at most, by what is known of the arm.
        expected: that it takes, friction with a soft sign: what is optimised needs slopes.
        tube: how far joints may be off their reference, (n,) [rad].
        load: what is used up of what makes servos switch themselves off, (n,).
        lasting: root mean square of the torques that servos bear, (n,) [N m].
    """

    limits: MotionLimits
    torques: Torques
    expected: Torques
    tube: FloatArray
    load: FloatArray
    lasting: FloatArray


@dataclass(frozen=True, eq=False)
class Segment:
    """A planned segment.

    Attributes:
        motion: from rest to rest.
        states: that were planned with, q, dq and ddq, (N, n) each.
        widest: the largest deviation over its limit that is expected after it.
        tube: within which of the motion the free space is proven, (n,) [rad].
        load: of what makes servos switch themselves off, how much they may use up before the arm stops, (n,).
        seconds: that planning took.
        waited: whether the arm stood still meanwhile; else its predecessor ran.
    """

    motion: PolynomialTrajectory
    states: Sample
    widest: float
    tube: FloatArray
    load: FloatArray
    seconds: float
    waited: bool = False


class SegmentPlanner:
    """Plans segments of one robot.

    Args:
        robot: whose joints they are.
        duration: of a segment [s].
        box: free space; None: nothing is known of what stands around the arm.
        draws: random starts, of which the best are optimised.
        candidates: how many of them are.
        iterations: of each.
        planning_s: after which an optimisation ends with what it has; what comes before and after it is not limited.
    """

    def __init__(
        self,
        robot: Robot,
        duration: float,
        box: SafeBox | None,
        draws: int = 256,
        candidates: int = 1,
        iterations: int = 80,
        planning_s: float = np.inf,
    ) -> None:
        self.robot, self.box, self._planning_s = robot, box, planning_s
        self._draws, self._candidates, self._iterations = draws, candidates, iterations
        self._collision, self._overload = SelfCollision(robot), OverloadModel.of(robot)
        self._last(duration)

    def _last(self, duration: float) -> None:
        self.spline = Spline(duration)
        self._times = np.arange(0.5 * LOOK_S, duration, LOOK_S)
        self._shapes = self.spline.functions(self._times)

    def of_length(self, duration: float) -> "SegmentPlanner":
        """One that plans segments of another duration [s]."""
        if duration == self.spline.duration:
            return self
        other = copy(self)
        other._last(duration)
        return other

    def plan(
        self, name: str, start: FloatArray, frame: Frame, known: Information, interval_s: float, seed: int
    ) -> Segment:
        """The segment that leaves least uncertainty.

        Args:
            start: where the arm stands, (n,) [rad].
            frame: limits.
            known: before the segment.
            interval_s: between samples.
            seed: of the starts.

        Raises:
            SafetyError: no segment passes the check; says what refused the last one.
        """
        began, random = time.perf_counter(), np.random.default_rng([seed, 29])
        best: tuple[float, PolynomialTrajectory] | None = None
        refusal: SafetyError | None = None
        for drawn in self._starts(start, frame, known, LOOK_S / interval_s, random):
            points = self._optimised(drawn, frame, known, LOOK_S / interval_s, began + self._planning_s)
            try:
                motion = self._admissible(name, points, frame)
            except SafetyError as error:
                refusal = error
                continue
            value = known.value(known.rows(*motion.sample_all(self._times)), LOOK_S / interval_s)[0]
            if best is None or value < best[0]:
                best = value, motion
        if best is None:
            assert refusal is not None
            raise refusal
        motion = best[1]
        states = motion.sample_all(self._times)
        after = known.seen(states, LOOK_S / interval_s)
        widest = float((after.deviations / known.limits).max())
        load = self._largest_load(motion, frame)
        return Segment(motion, states, widest, frame.tube, load, time.perf_counter() - began)

    def _largest_load(self, motion: PolynomialTrajectory, frame: Frame) -> FloatArray:
        if self._overload is None:
            return np.full(self.robot.size, np.inf)
        times = np.arange(0.0, motion.duration, STEP_S)
        current = frame.torques(*motion.sample_all(times)) / self.robot.torque_constants
        expected = self._overload.along(frame.load, current, STEP_S).max(axis=0)
        return np.asarray(np.maximum(expected, LEAST_LOAD))

    def _admissible(self, name: str, points: FloatArray, frame: Frame) -> PolynomialTrajectory:
        """The largest share of a segment that passes the check; where none does, one joint after the other does less.

        The joint that needs most moves the other way, for what it cannot lift it may lower; then it stands still. A
        joint that friction holds takes more torque the slower it moves, so a smaller motion of it may not help.

        Raises:
            SafetyError: nothing passes.
        """
        start, moving = points[0], np.ones(points.shape[1])
        refusal: SafetyError | None = None
        for _ in range(2 * MOST_FROZEN + 1):
            for share in SMALLER:
                motion = self.spline.motion(name, self.robot.joint_names, start + share * moving * (points - start))
                try:
                    self.check(motion, frame)
                except SafetyError as error:
                    refusal = error
                    continue
                return motion
            size = np.sqrt(np.mean(frame.torques(*motion.sample_all(self._times)) ** 2, axis=0))
            most = int(np.argmax(np.where(moving != 0.0, size / frame.limits.torque, -1.0)))
            moving[most] = -1.0 if moving[most] > 0.0 else 0.0
        assert refusal is not None
        raise refusal

    def check(self, motion: PolynomialTrajectory, frame: Frame) -> None:
        """Refuse a motion that leaves a limit, overloads a servo, touches itself or leaves the free space.

        Raises:
            SafetyError: names what, where and when.
        """
        MotionCheck(self.robot, frame.limits, frame.torques, self._collision).check([motion], frame.load)
        if self.box is not None:
            self.box.prove(motion, frame.tube)

    def _starts(
        self, start: FloatArray, frame: Frame, known: Information, count: float, random: np.random.Generator
    ) -> list[FloatArray]:
        """The best of many random points: their worth takes a small part of the time that their slope would."""
        drawn = [self._drawn(start, frame, random) for _ in range(max(self._draws, self._candidates))]
        worth = [self._worth(points, frame, known, count) for points in drawn]
        return [drawn[k] for k in np.argsort(worth)[: self._candidates]]

    def _worth(self, points: FloatArray, frame: Frame, known: Information, count: float) -> float:
        """Uncertainty and penalties of points (1 + free, n)."""
        states, limits = [one @ points for one in self._shapes], frame.limits
        within = np.clip(states[0], limits.lower - BEYOND_RAD, limits.upper + BEYOND_RAD)
        more = _torque_excess(frame.expected(within, *states[1:]), frame)[0]
        more += sum(_excess(one, *span)[0] for one, span in zip(states, _spans(limits), strict=True))
        if self.box is not None:
            more += float(np.mean(self._lacks(states[0], frame.tube) ** 2))
        return known.value(known.rows(*states), count)[0] + PENALTY * more

    def _drawn(self, start: FloatArray, frame: Frame, random: np.random.Generator) -> FloatArray:
        """Random points (1 + free, n) [rad] about the way to a random end, as far as speeds allow."""
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
        self, points: FloatArray, frame: Frame, known: Information, count: float, until: float
    ) -> FloatArray:
        """The best of points (1 + free, n) [rad] that are found from some, until a time of the clock [s]."""
        start, shape = points[0], points[1:].shape
        frame = self._with_reserve(points, frame)

        def cost(x: FloatArray) -> tuple[float, FloatArray]:
            value, slope = self._cost(np.vstack([start, x.reshape(shape)]), frame, known, count)
            return value, slope[1:].ravel()

        def stop_late(x: FloatArray) -> None:
            if time.perf_counter() > until:
                raise StopIteration

        options = {"maxiter": self._iterations, "maxcor": 20}
        found = minimize(cost, points[1:].ravel(), jac=True, method="L-BFGS-B", callback=stop_late, options=options)
        return np.vstack([start, found.x.reshape(shape)])

    def _with_reserve(self, points: FloatArray, frame: Frame) -> Frame:
        """Expected torques enlarged by what a motion may take beyond them, by joint, along the points (1 + free, n)."""
        states = [one @ points for one in self._shapes]
        q = np.clip(states[0], frame.limits.lower, frame.limits.upper)
        most, expected = (np.sqrt(np.mean(one(q, *states[1:]) ** 2, axis=0)) for one in (frame.torques, frame.expected))
        reserve = np.clip(most / np.maximum(expected, np.finfo(float).tiny), 1.0, MOST_RESERVE)

        def enlarged(q: FloatArray, dq: FloatArray, ddq: FloatArray) -> FloatArray:
            return np.asarray(reserve * frame.expected(q, dq, ddq))

        return replace(frame, expected=enlarged)

    def _cost(self, points: FloatArray, frame: Frame, known: Information, count: float) -> tuple[float, FloatArray]:
        """Uncertainty and penalties of points (1 + free, n), and the slope by them."""
        states = [one @ points for one in self._shapes]
        N, n = states[0].shape
        # every state once as it is, and once moved in each of its 3 n numbers
        moved = [np.tile(one, (1 + 3 * n, 1, 1)) for one in states]
        for which in range(3):
            for joint in range(n):
                moved[which][1 + which * n + joint, :, joint] += DIFFERENCE
        X = known.rows(*(one.reshape(-1, n) for one in moved)).reshape(1 + 3 * n, N, n, -1)
        value, pull = known.value(X[0], count)
        limits = frame.limits
        # a step of the optimiser may leave the range for which torques are known
        within = np.clip(moved[0], limits.lower - BEYOND_RAD, limits.upper + BEYOND_RAD)
        tau = frame.expected(within[0], *states[1:])
        more, push = _torque_excess(tau, frame)
        value += PENALTY * more
        slopes = np.einsum("kdij,dij->kd", X[1:] - X[0], pull) / DIFFERENCE
        by_state = slopes.reshape(3, n, N).transpose(0, 2, 1)
        by_state = by_state + PENALTY * self._through_torque(frame.expected, [within, *moved[1:]], tau, push)
        for which, (low, high) in enumerate(_spans(limits)):
            more, slope = _excess(states[which], low, high)
            value += PENALTY * more
            by_state[which] += PENALTY * slope
        if self.box is not None:
            more, slope = self._box_penalty(moved[0][: 1 + n], frame.tube)
            value += PENALTY * more
            by_state[0] += PENALTY * slope
        gradient = sum(shape.T @ one for shape, one in zip(self._shapes, by_state, strict=True))
        return value, np.asarray(gradient)

    @staticmethod
    def _through_torque(torques: Torques, moved: list[FloatArray], tau: FloatArray, push: FloatArray) -> FloatArray:
        """Slope of the penalty on torques by all states, (3, N, n)."""
        N, n = tau.shape
        if not push.any():
            return np.zeros((3, N, n))
        other = torques(*(one[1:].reshape(-1, n) for one in moved))
        change = (other.reshape(3 * n, N, n) - tau) / DIFFERENCE
        return np.asarray(np.einsum("knj,nj->kn", change, push).reshape(3, n, N).transpose(0, 2, 1))

    def _box_penalty(self, q: FloatArray, tube: FloatArray) -> tuple[float, FloatArray]:
        """Of postures (1 + n, N, n), the first as it is and then each joint moved."""
        lacks, slope = self._lacks(q[0], tube), np.zeros(q.shape[1:])
        near = lacks > 0.0  # elsewhere there is no slope either
        if near.any():
            others = q[1:, near]
            moved = self._lacks(others.reshape(-1, q.shape[2]), tube).reshape(len(others), -1)
            slope[near] = (2.0 * lacks[near] * (moved - lacks[near]) / DIFFERENCE).T / len(lacks)
        return float(np.mean(lacks**2)), slope

    def _lacks(self, q: FloatArray, tube: FloatArray) -> FloatArray:
        """Lack of clearance of postures (N, n), (N,)."""
        assert self.box is not None
        return np.asarray(np.maximum(self.box.lack(q, tube), 0.0) / BOX_M)


def _spans(limits: MotionLimits) -> tuple[tuple[FloatArray, FloatArray], ...]:
    """Bounds of positions, speeds and accelerations, (n,) each."""
    return (
        (limits.lower, limits.upper),
        (-INSIDE * limits.velocity, INSIDE * limits.velocity),
        (-INSIDE * limits.acceleration, INSIDE * limits.acceleration),
    )


def _torque_excess(tau: FloatArray, frame: Frame) -> tuple[float, FloatArray]:
    """Penalty on torques (N, n), by their size and by their mean square, and its slope (N, n)."""
    more, push = _excess(tau, -INSIDE * frame.limits.torque, INSIDE * frame.limits.torque)
    excess = np.maximum(np.mean(tau**2, axis=0) / frame.lasting**2 - 1.0, 0.0)
    more += float(np.sum(excess**2)) * LOAD_PENALTY
    return more, push + LOAD_PENALTY * 4.0 * excess * tau / frame.lasting**2 / len(tau)


def _excess(values: FloatArray, lower: FloatArray, upper: FloatArray) -> tuple[float, FloatArray]:
    """Mean squared excess of values (N, n) over bounds (n,), over their width, and its slope (N, n)."""
    width = upper - lower
    over = (np.maximum(values - upper, 0.0) + np.minimum(values - lower, 0.0)) / width
    return float(np.sum(over**2)) / len(values), 2.0 * over / width / len(values)
