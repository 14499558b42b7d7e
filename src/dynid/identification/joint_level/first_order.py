"""Identification of a first-order model with dead time for each joint (arXiv:2605.15949, section III-B, eq. 1).

G(s) = Kp / (1 + Tp1 s) exp(-Td s) from torque to velocity is fitted by prediction error: a Kalman filter predicts every
encoder reading from the previous ones, and the parameters minimise the prediction errors. The filter's model includes
effects of a real joint that eq. 1 does not contain: Coulomb friction, backlash between joint and encoder, a constant
load and a load proportional to the angle. All of them are estimated together with the linear part of the model, which
gives Kp = 1 / D and Tp1 = M / D, with inertia M and damping D. As in the paper, the dead time Td extends from a command
to the middle of the interval in which it acts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import OptimizeResult, least_squares

from dynid.errors import DataError
from dynid.identification.joint_level.kernels import predict_errors
from dynid.robot import FloatArray

LEAD = 16  # number of commands before a segment that may still act in it
CONFIDENCE = 1.96  # standard deviations: 95 %
NOISE_ROUNDS = 6
NOISE_SETTLED = 0.02
FRICTION_SHARES = (0.15, 0.4, 0.7)  # initial values of Coulomb friction, relative to the torque
FIRST_CALLS = 8
SHORTEST_SEGMENT = 50
LARGEST_DELAY = LEAD - 2  # largest delay [samples]
MOVED_COUNTS = 40.0  # smallest usable range in encoder counts: a joint that hardly moves shows only stiction
START_SPEED_RAD_S = 0.05
PLAY_UNIT_RAD = 1e-3
X_SCALE = (0.1, 0.1, 0.3, 0.02, 0.02, 0.1, 0.3)
STEPS = (1e-3, 1e-3, 2e-2, 3e-4, 3e-4, 3e-3, 2e-2)
LOWER = (-np.inf, -np.inf, 0.0, 0.0, -np.inf, -np.inf, 0.0)
WIDEST_FACTOR = 50.0  # largest ratio between M or D and their initial values
LARGEST_PLAY = 20.0  # largest backlash, in PLAY_UNIT_RAD
WIDEST_EXPONENT = 100.0  # largest logarithm of a confidence factor, so that data without information do not overflow
# Limits of a reliable fit: with more missed cycles, the arm did not receive the assumed torques.
LARGEST_MISSING, LARGEST_ERROR, WIDEST_BOUNDS = 0.05, 1.5, 0.3


@dataclass(frozen=True, eq=False)
class Segment:
    """Open-loop section (without feedback) of one joint's motion.

    Attributes:
        q: measured positions, (N,) [rad]; NaN for missing readings. The first and the last reading are not missing.
        torque: commanded torques minus the gravity torque, (LEAD + N,) [N m]. The last N torques belong to q. The LEAD
            torques before the section may still act in it because of the dead time.
    """

    q: FloatArray
    torque: FloatArray

    def __post_init__(self) -> None:
        if len(self.torque) != len(self.q) + LEAD:
            raise DataError(
                f"a segment of {len(self.q)} positions has {len(self.torque)} torques; expected {LEAD} more"
            )
        if len(self.q) and not np.isfinite(self.q[[0, -1]]).all():
            raise DataError("a segment starts or ends with a missing reading; trim it")

    @property
    def way(self) -> float:
        """Range of the joint's motion in this section, from the smallest to the largest angle [rad]."""
        return float(np.nanmax(self.q) - np.nanmin(self.q)) if len(self.q) else 0.0


@dataclass(frozen=True)
class Bounded:
    """Estimated value with its 95 % confidence bounds, all in the unit of the value."""

    value: float
    lower: float
    upper: float


@dataclass(frozen=True)
class FirstOrderFit:
    """First-order model with dead time of one joint (arXiv:2605.15949, eq. 1), with friction, load and backlash.

    The model is G(s) = Kp / (1 + Tp1 s) exp(-Td s) from torque to velocity.

    Attributes:
        gain: Kp [rad/s per N m].
        time_constant: Tp1 [s].
        dead_time: Td, from a command to the middle of the interval in which it acts [s].
        coulomb: Coulomb friction [N m].
        offset: constant load torque [N m]; a positive load acts against a positive commanded torque.
        stiffness: additional load torque per angle from `centre`, with the same sign convention [N m/rad].
        centre: angle at which the load torque is `offset` [rad].
        play: backlash between joint and encoder [rad].
        torque_noise: standard deviation [N m] of a random torque that explains the prediction errors. The random
            torques of different samples are independent.
        samples: number of encoder readings in the fit.
        missing: fraction of the control cycles without an encoder reading.
        normalised_error: ratio of the rms prediction error to the error expected from torque and encoder noise; about 1
            if the model fits.
    """

    gain: Bounded
    time_constant: Bounded
    dead_time: Bounded
    coulomb: Bounded
    offset: float
    stiffness: float
    centre: float
    play: float
    torque_noise: float
    samples: int
    missing: float
    normalised_error: float

    @property
    def doubts(self) -> tuple[str, ...]:
        """Reasons why this first-order fit of a joint is unreliable, one sentence each; empty for a reliable fit."""
        width = max((one.upper - one.lower) / one.value for one in (self.gain, self.time_constant))
        limits = (
            (self.missing, LARGEST_MISSING, "of the cycles have no reading"),
            (self.normalised_error, LARGEST_ERROR, "times the error explained by noise remains"),
            (width, WIDEST_BOUNDS, "of the value is the width of a confidence interval"),
        )
        return tuple(
            f"{value:.3g} {what}, at most {limit:g} is trusted" for value, limit, what in limits if value > limit
        )

    @property
    def inertia(self) -> float:
        """Inertia of the joint, M_hat = Tp1 / Kp [kg m^2]: time constant over gain."""
        return self.time_constant.value / self.gain.value

    @property
    def damping(self) -> float:
        """Viscous damping of the joint, D_hat = 1 / Kp [N m s/rad]: reciprocal of the gain."""
        return 1.0 / self.gain.value

    def response(self, frequency_hz: FloatArray) -> FloatArray:
        """Return the complex frequency response from torque to velocity, (F,), at frequencies (F,) [Hz].

        The response is G(j 2 pi f) of the first-order model with dead time (arXiv:2605.15949, eq. 1).
        """
        s = 2j * np.pi * np.asarray(frequency_hz)
        return np.asarray(self.gain.value / (1.0 + self.time_constant.value * s) * np.exp(-self.dead_time.value * s))


class _Problem:
    """Prediction errors of all segments as a function of x = (ln M, ln D, delay [samples], F, c, k, backlash).

    The joint obeys M dv/dt = u(t - delay) - D v - F sign(v) - c - k (q - q0), with torque u, position q and velocity v.
    M is the inertia, D the viscous damping, F Coulomb friction, c the load at the angle q0, and k its change per angle.
    q0 is not estimated, but is the mean of all positions. In x, the backlash is in units of `PLAY_UNIT_RAD`.
    """

    def __init__(self, segments: Sequence[Segment], dt: float, position_step: float) -> None:
        self.segments, self.dt = segments, dt
        self.centre = float(np.nanmean(np.concatenate([one.q for one in segments])))
        self.noise = np.array([0.01, max(position_step, 1e-7) / np.sqrt(12.0), START_SPEED_RAD_S])

    def errors(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the prediction errors of all positions and their expected standard deviations, (N,) each [rad].

        `x` = (ln M, ln D, delay, F, c, k, backlash) contains the parameters of the joint, (7,), see the class.
        """
        model = np.array(
            [np.exp(x[0]), np.exp(x[1]), x[2] * self.dt, x[3], x[4], x[5], self.centre, 0.5 * PLAY_UNIT_RAD * x[6]]
        )
        found = []
        for one in self.segments:
            error, spread = np.empty((2, len(one.q)))
            predict_errors(one.q, one.torque, self.dt, model, self.noise, error, spread)
            read = np.isfinite(one.q)
            found.append((error[read], spread[read]))
        error, spread = (np.concatenate(part) for part in zip(*found, strict=True))
        return error, spread

    def residuals(self, x: FloatArray) -> FloatArray:
        """Return the prediction errors of all positions, divided by their expected standard deviations, (N,).

        `x` = (ln M, ln D, delay, F, c, k, backlash) contains the parameters of the joint, (7,), see the class.
        """
        error, spread = self.errors(x)
        with np.errstate(all="ignore"):  # a filter that diverges gives large residuals
            return np.asarray(np.nan_to_num(error / spread, nan=1e6, posinf=1e6, neginf=-1e6))

    def jacobian(self, x: FloatArray) -> FloatArray:
        """Return the derivatives (N, 7) of `residuals` with respect to the parameters x (7,) of the joint.

        The derivatives are central differences, with a fixed step for each parameter.
        """
        columns = []
        for k, step in enumerate(STEPS):
            low, high = x.copy(), x.copy()
            low[k], high[k] = max(x[k] - step, LOWER[k]), x[k] + step
            columns.append((self.residuals(high) - self.residuals(low)) / (high[k] - low[k]))
        return np.array(columns).T


def fit_first_order(
    segments: Sequence[Segment], dt: float, position_step: float, start: tuple[float, float]
) -> FirstOrderFit:
    """Fit a first-order model with dead time (arXiv:2605.15949, eq. 1) to open-loop segments of one joint.

    Args:
        segments: sections of the joint's motion without feedback. Sections with fewer than `SHORTEST_SEGMENT` samples,
            or with a motion of less than `MOVED_COUNTS` encoder steps, are ignored.
        dt: time between two samples [s].
        position_step: encoder resolution [rad].
        start: initial inertia M [kg m^2] and viscous damping D [N m s/rad].

    Raises:
        DataError: no segment remains, because all are too short or the joint hardly moved.
    """
    enough = MOVED_COUNTS * position_step
    usable = [one for one in segments if len(one.q) >= SHORTEST_SEGMENT and one.way >= enough > 0.0]
    if not usable:
        furthest = max((one.way for one in segments), default=0.0)
        raise DataError(
            f"of {len(segments)} open-loop segments none has {SHORTEST_SEGMENT} states and a motion of "
            f"{np.rad2deg(enough):.1f} deg (the largest is {np.rad2deg(furthest):.2f} deg)"
        )
    problem = _Problem(usable, dt, position_step)
    wide = np.log(WIDEST_FACTOR)
    middle = np.log(start)
    lower = [*(middle - wide), *LOWER[2:]]
    upper = [*(middle + wide), LARGEST_DELAY, np.inf, np.inf, np.inf, LARGEST_PLAY]

    def search(x: FloatArray, calls: int | None = None) -> OptimizeResult:
        return least_squares(
            problem.residuals,
            x,
            jac=problem.jacobian,
            bounds=(lower, upper),
            x_scale=X_SCALE,
            xtol=1e-6,
            ftol=1e-6,
            max_nfev=calls,
        )

    # Initial friction that is too small or too large leads to other minima, so several values are tried.
    size = float(np.median(np.abs(np.concatenate([one.torque for one in usable]))))
    starts = [np.array([*middle, 1.0, share * size, 0.0, 0.0, 0.5]) for share in FRICTION_SHARES]
    x = min((search(one, FIRST_CALLS) for one in starts), key=lambda found: float(found.cost)).x
    for _ in range(NOISE_ROUNDS):
        x = search(x).x
        level = float(np.sqrt(np.mean(problem.residuals(x) ** 2)))
        if abs(level - 1.0) < NOISE_SETTLED:
            break
        problem.noise[0] *= level
    return _result(problem, x)


def _result(problem: _Problem, x: FloatArray) -> FirstOrderFit:
    """Return the first-order model with confidence bounds, for given parameters of the joint.

    Bounds of the gain Kp = 1/D and the time constant Tp1 = M/D follow from the covariance of (ln M, ln D, ...).

    Args:
        problem: prediction errors of all segments.
        x: estimated parameters, (7,).
    """
    residuals = problem.residuals(x)
    level = float(np.mean(residuals**2))
    jacobian = problem.jacobian(x)
    covariance = np.linalg.pinv(jacobian.T @ jacobian) * level
    deviation = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    inertia, damping = float(np.exp(x[0])), float(np.exp(x[1]))
    both = float(np.sqrt(max(covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1], 0.0)))

    def factor(value: float, spread: float) -> Bounded:
        width = float(np.exp(min(CONFIDENCE * spread, WIDEST_EXPONENT)))
        return Bounded(value, value / width, value * width)

    def around(value: float, spread: float) -> Bounded:
        return Bounded(value, value - CONFIDENCE * spread, value + CONFIDENCE * spread)

    return FirstOrderFit(
        gain=factor(1.0 / damping, float(deviation[1])),
        time_constant=factor(inertia / damping, both),
        dead_time=around(float(x[2] + 0.5) * problem.dt, float(deviation[2]) * problem.dt),
        coulomb=around(float(x[3]), float(deviation[3])),
        offset=float(x[4]),
        stiffness=float(x[5]),
        centre=problem.centre,
        play=PLAY_UNIT_RAD * float(x[6]),
        torque_noise=float(problem.noise[0]),
        samples=len(residuals),
        missing=1.0 - len(residuals) / sum(len(one.q) for one in problem.segments),
        normalised_error=float(np.sqrt(level)),
    )
