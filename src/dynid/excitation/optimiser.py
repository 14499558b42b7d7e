"""Optimisation of a robot's excitation trajectory within all limits of the robot, and its conversion to YAML text."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pinocchio

from dynid.codegen.compile import compile_regressor
from dynid.control.motion_check import MotionCheck, MotionLimits, model_torques, robot_limits
from dynid.control.self_collision import SelfCollision
from dynid.errors import SafetyError
from dynid.excitation.objectives import Bounds, Objective, Problem, Regressor, d_optimality, optimise
from dynid.excitation.one_joint import OneJointExcitation
from dynid.excitation.series import Series, SeriesKind
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FrictionLaw
from dynid.model.parameters import BaseParameters
from dynid.model.standard import load_nominal
from dynid.resources import yaml_text
from dynid.robot import FloatArray, Robot
from dynid.trajectory.families import Excitation
from dynid.trajectory.motion import Motion
from dynid.trajectory.polynomial import PolynomialTrajectory, through_points

SAMPLING_S = 0.1  # sampling interval of the optimisation [s]
KNOT_S = 0.05  # interval between the points of the result's file, which quintics connect [s]
KAPPA_S = 0.04  # sampling interval for the reported condition number [s], as in the paper
SECONDS_PER_TERM = {"fourier": 2.6, "spline": 1.2}
CLEARANCE_M = 0.02
PENALTY_M = 0.05  # missing clearance at which the penalty is 1 [m]
LIMIT_SHARES = (0.98, 0.95, 0.9, 0.8)  # factors of the limits, tried in this order until the motion passes the check
DECIMALS = 9
SLIDE_M = 3.4  # range of prismatic joints in the compiled regressor [m]
ACCELERATION_TOLERANCE = 1e-3  # relative excess of accelerations by quintics between the points of a file
RANK_TOLERANCE = 1e-6  # tolerance of the rank for columns scaled to unit length


@dataclass(frozen=True)
class ExcitationWish:
    """Request for an optimised excitation motion.

    Attributes:
        duration_s: duration from rest to rest [s].
        kind: "fourier" for a Fourier series, "spline" for a B-spline.
        objective: "condition" for the condition number of the regressor W, "d_optimal" for the determinant of W'W.
        terms: number of harmonics or control points; None means a number in proportion to the duration.
        profile: name of a profile in excitation.yaml. The motion keeps the profile's limits of positions, speeds and
            accelerations.
        starts: number of random initial motions; the result with the best objective is returned.
        seed: seed of the first initial motion; each further one has the next seed.
    """

    duration_s: float
    kind: SeriesKind = "fourier"
    objective: Objective = "condition"
    terms: int | None = None
    profile: str = "limited"
    starts: int = 1
    seed: int = 0


@dataclass(frozen=True, eq=False)
class OptimisedExcitation:
    """Optimised motion within all limits.

    Attributes:
        motion: the motion.
        kappa: condition number of the regressor on this motion.
        objective: value by which motions are compared, smaller is better: `kappa` for the objective "condition";
            -log det(W'W / N) / (2 p) for "d_optimal", with the regressor W of N samples for p parameters.
    """

    motion: PolynomialTrajectory
    kappa: float
    objective: float


def _stacked(regressor: Regressor, motion: Motion, step_s: float = KAPPA_S) -> FloatArray:
    """Return the regressor over N samples of a motion that are `step_s` [s] apart, stacked as (N n, p)."""
    W = regressor(*motion.sample_all(np.arange(0.0, motion.duration, step_s)))
    return W.reshape(-1, W.shape[-1])


def condition_number(regressor: Regressor, motion: Motion, step_s: float = KAPPA_S) -> float:
    """Return the 2-norm condition number of the regressor stacked over the samples of a motion.

    Args:
        regressor: function from states q, dq and ddq (N, n) to the regressor (N, n, p).
        motion: the motion.
        step_s: time between samples [s].

    Raises:
        DataError: the motion leaves the range of positions in which the regressor is accurate.
    """
    return float(np.linalg.cond(_stacked(regressor, motion, step_s)))


def log_determinant(regressor: Regressor, motion: Motion) -> float:
    """Return -log det(W'W / N) / (2 p) [-] of the regressor W (N n, p) stacked over N samples of a motion.

    Args:
        regressor: function from states q, dq and ddq (N, n) to W (N, n, p).
        motion: the motion.

    Raises:
        DataError: the motion leaves the range of positions in which the regressor is accurate.
    """
    W = _stacked(regressor, motion)
    return d_optimality(W.T @ W / (len(W) // len(motion.start)))[0]


def rank(regressor: Regressor, motion: Motion) -> int:
    """Return the number of parameter combinations that a motion determines: the rank of its stacked regressor.

    The columns of the regressor are scaled to unit length first.

    Args:
        regressor: function from states q, dq and ddq (N, n) to the regressor (N, n, p).
        motion: the motion.
    """
    W = _stacked(regressor, motion)
    lengths = np.linalg.norm(W, axis=0)
    return int(np.linalg.matrix_rank(W[:, lengths > 0.0] / lengths[lengths > 0.0], tol=RANK_TOLERANCE))


class Clearance(SelfCollision):
    """Self-collision check of a robot that also computes the distances between links."""

    def __init__(self, robot: Robot) -> None:
        super().__init__(robot)
        self._resting_m = self._distances(robot.rest_posture) if self.pairs else np.zeros(0)

    def shortfall(self, q: FloatArray, wanted_m: float) -> float:
        """Return the largest amount by which two links are closer to each other than wanted [m]; 0 if none are.

        For links that are close to each other at the rest posture, the wanted distance is at most half of their
        distance at the rest posture.

        Args:
            q: posture, (n,) [rad].
            wanted_m: wanted distance of links.
        """
        if not self.pairs:
            return 0.0
        return float(np.max(np.minimum(wanted_m, 0.5 * self._resting_m) - self._distances(q), initial=0.0))

    def _distances(self, q: FloatArray) -> FloatArray:
        """Return the distances of pairs of links at a posture q (n,) [rad], (pairs,) [m]; negative if they overlap."""
        full = self._neutral.copy()
        full[self._places] = q
        pinocchio.computeDistances(self._model, self._data, self._shapes, self._results, full)
        return np.array([result.min_distance for result in self._results.distanceResults])


class ExcitationOptimiser:
    """Optimiser of the excitation trajectories of one robot; all results have passed `MotionCheck`.

    Args:
        robot: the robot, whose nominal parameters predict the torques.
        excitation: content of excitation.yaml. The limits that it sets for named trajectories also apply to the
            results.
        mount: mount of the arm; None means the default of robot.yaml.
    """

    def __init__(self, robot: Robot, excitation: Excitation, mount: str | None = None) -> None:
        self._robot, self._excitation = robot, excitation
        model = ArmModel.of(robot, mount=mount)
        self.names = model.names
        self._phi: BaseParameters = model.base_parameters(load_nominal(robot, model.mdh, model.regrouping.standard))
        compiled, turns = compile_regressor(model), ~np.array(robot.prismatic)
        # The optimiser tries postures beyond the limits, but compiled kernels are valid for one turn and SLIDE_M only.
        self.regressor: Regressor = lambda q, dq, ddq: compiled(
            np.where(turns, np.remainder(q + np.pi, 2.0 * np.pi) - np.pi, np.clip(q, -SLIDE_M, SLIDE_M)), dq, ddq
        )
        self._limits = robot_limits(robot, excitation.acceleration_limits)
        self._collision = Clearance(robot)
        self._torques = model_torques(model, self._phi, FrictionLaw.of(robot.size, {}))
        self._check = MotionCheck(robot, self._limits, self._torques, self._collision)

    def bounds(self, profile: str, share: float = 1.0) -> Bounds:
        """Return the bounds for an optimised excitation: the limits of a profile, reduced by a factor.

        The basic speeds and accelerations in excitation.yaml are multiplied by the largest of its `speed_factors`, by
        the profile's `speed_scale`, and by `share`. Speeds are also limited by the robot's velocity limits.

        Args:
            profile: name of the profile.
            share: factor of all bounds; the position range shrinks about its middle.

        Raises:
            UnknownNameError: the profile does not exist.
        """
        lower, upper = self._excitation.limits(profile)
        lower, upper = np.maximum(lower, self._robot.lower), np.minimum(upper, self._robot.upper)
        file, middle = self._excitation.file, 0.5 * (lower + upper)
        fastest = file.profiles[profile].speed_scale * max(
            (max(row) for row in file.speed_factors.values()), default=1.0
        )
        velocity = np.minimum(fastest * np.array(file.velocity_rad_s), self._robot.velocity_limits)
        return Bounds(
            middle + share * (lower - middle),
            middle + share * (upper - middle),
            share * velocity,
            share * fastest * self._excitation.acceleration_limits,
            share * self._limits.torque,
        )

    def optimise(self, name: str, wish: ExcitationWish) -> OptimisedExcitation:
        """Return an optimised excitation motion that passes the check of all limits.

        The objective is minimised from several random initial motions, and the best of the results is returned.

        Args:
            name: name of the motion.
            wish: the requested excitation.

        Raises:
            SafetyError: no motion passes the check of all limits; the message states why the last one was refused.
            ConfigurationError: the duration is not positive, there are too few terms for rest at both ends, or the
                motion is too short for the number of parameters.
            UnknownNameError: the profile does not exist.
        """
        best: OptimisedExcitation | None = None
        refusal: SafetyError | None = None
        for start in range(wish.starts):
            try:
                found = self._optimised(name, wish, wish.seed + start)
            except SafetyError as error:
                refusal = error
                continue
            if best is None or found.objective < best.objective:
                best = found
        if best is None:
            assert refusal is not None
            raise refusal
        return best

    def _optimised(self, name: str, wish: ExcitationWish, seed: int) -> OptimisedExcitation:
        for share in LIMIT_SHARES:
            motion = self._motion(name, wish, seed, share)
            try:
                self.check(motion, wish.profile)
            except SafetyError as error:
                refusal = error
                continue
            kappa = condition_number(self.regressor, motion)
            value = kappa if wish.objective == "condition" else log_determinant(self.regressor, motion)
            return OptimisedExcitation(motion, kappa, value)
        raise refusal

    def one_joint(self, profile: str) -> OneJointExcitation:
        """Return the generator of single-joint excitations within the limits of a profile.

        Raises:
            UnknownNameError: the profile does not exist.
        """
        bounds = self.bounds(profile)
        limits = MotionLimits(
            bounds.lower, bounds.upper, bounds.velocity, bounds.acceleration, bounds.torque, self._limits.tool_m_s
        )
        check = MotionCheck(self._robot, limits, self._torques, self._collision)
        return OneJointExcitation(self._robot, bounds.lower, bounds.upper, bounds.velocity, check)

    def check(self, motion: Motion, profile: str) -> None:
        """Check that a motion keeps the limits of the robot and of a profile, and that no links collide.

        Raises:
            SafetyError: a limit is exceeded, or links collide. The message names the motion. For a limit of the robot
                or a collision it also names joint or links, time, value and limit; for a limit of the profile, only
                the profile.
        """
        self._check.check([motion])
        bounds = self.bounds(profile)
        q, dq, ddq = motion.sample_all(np.arange(0.0, motion.duration, KNOT_S / 8.0))
        outside = (q < bounds.lower) | (q > bounds.upper) | (np.abs(dq) > bounds.velocity)
        if (outside | (np.abs(ddq) > bounds.acceleration * (1.0 + ACCELERATION_TOLERANCE))).any():
            raise SafetyError(
                f"motion '{motion.name}' exceeds positions, speeds or accelerations of profile '{profile}'"
            )

    def _motion(self, name: str, wish: ExcitationWish, seed: int, share: float) -> PolynomialTrajectory:
        terms = wish.terms or max(8, round(wish.duration_s / SECONDS_PER_TERM[wish.kind]))
        series = Series.of(wish.kind, wish.duration_s, terms)
        times = np.arange(0.0, wish.duration_s, SAMPLING_S)
        problem = Problem(
            series,
            times,
            self.regressor,
            self._phi.values,
            self.bounds(wish.profile, share),
            wish.objective,
            repulsion(self._collision) if self._collision.pairs else None,
        )
        coefficients = optimise(problem, seed)
        knots = np.linspace(0.0, wish.duration_s, round(wish.duration_s / KNOT_S) + 1)
        q, dq, ddq = (np.round(shape @ coefficients, DECIMALS) for shape in series.functions(knots))
        return through_points(name, self._robot.joint_names, knots, q, dq, ddq)


def repulsion(collision: Clearance) -> Callable[[FloatArray], tuple[float, FloatArray]]:
    """Return a function that computes a penalty on links closer than `CLEARANCE_M`.

    The function takes postures (N, n) [rad], and returns the penalty [-] and its gradient (N, n) [1/rad].

    Args:
        collision: self-collision check of the robot, which computes distances between links.
    """
    step = 1e-4

    def penalty(q: FloatArray) -> tuple[float, FloatArray]:
        total, slope = 0.0, np.zeros_like(q)
        for row, posture in enumerate(q):
            lack = collision.shortfall(posture, CLEARANCE_M)
            if lack <= 0.0:
                continue
            total += (lack / PENALTY_M) ** 2
            for joint in range(q.shape[1]):
                moved = posture.copy()
                moved[joint] += step
                slope[row, joint] = 2.0 * lack / PENALTY_M**2 * (collision.shortfall(moved, CLEARANCE_M) - lack) / step
        return total / len(q), slope / len(q)

    return penalty


def trajectory_file(motion: PolynomialTrajectory) -> str:
    """Return the YAML text of a trajectory file: positions, velocities and accelerations of a motion at its knots."""
    rows = [motion.sample_all(motion.knots)[k] for k in range(3)]
    points: Sequence[dict[str, object]] = [
        {
            "time_s": round(float(time), DECIMALS),
            "positions_rad": np.round(q, DECIMALS).tolist(),
            "velocities_rad_s": np.round(dq, DECIMALS).tolist(),
            "accelerations_rad_s2": np.round(ddq, DECIMALS).tolist(),
        }
        for time, q, dq, ddq in zip(motion.knots, *rows, strict=True)
    ]
    content = {
        "schema_version": 1,
        "name": motion.name,
        "joint_names": list(motion.joint_names),
        "points": list(points),
    }
    return yaml_text(content, width=200, rows=True)
