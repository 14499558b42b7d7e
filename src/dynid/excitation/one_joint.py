"""Single-joint excitation, from the last joint inward: a sine at the highest frequency within all limits.

Only one joint moves while the others hold a posture, so the motion is easy to foresee. The displacement of the moving
joint is A sin(w t), with amplitude A, times a smooth window, so that it starts and ends at rest. Accelerations excite
inertia and grow with w squared, so w is the highest angular frequency at which the motion satisfies every limit. In one
posture, gravity and coupling depend on some of the parameters only, so several postures are visited.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, count, takewhile

import numpy as np

from dynid.control.motion_check import MotionCheck
from dynid.errors import ConfigurationError, SafetyError
from dynid.robot import FloatArray, Robot
from dynid.trajectory.motion import Motion
from dynid.trajectory.polynomial import PolynomialTrajectory, through_points
from dynid.trajectory.trajectory import approach

KNOT_S = 0.02
FREQUENCY_RATIO = 1.1  # ratio of successive frequencies
LOWEST_RAD_S = 0.5
AMPLITUDE_FACTOR = 0.8  # factor on the amplitude if even the lowest frequency violates a limit
LEAST_AMPLITUDE_SHARE = 0.05  # minimum amplitude, as a fraction of the joint's range
PAUSE_S = 0.3
MOST_POSTURES = 200  # maximum number of random postures


@dataclass(frozen=True)
class OneJointWish:
    """Request for a single-joint excitation.

    Attributes:
        periods: number of sine periods for each joint.
        postures: number of postures at which each joint moves. The first is the middle of the joint ranges, or the rest
            posture if a limit is exceeded or links collide in the middle. The others are random.
        amplitude: largest amplitude of a sine, as a fraction of the distance from the posture to the nearer position
            bound.
        spread: fraction of the joint ranges from which random postures are drawn.
        seed: seed of the random postures.
    """

    periods: int = 4
    postures: int = 1
    amplitude: float = 0.8
    spread: float = 0.4
    seed: int = 0


@dataclass(frozen=True)
class Sine:
    """Sine motion of one joint.

    Attributes:
        joint: name of the joint.
        amplitude_rad: amplitude.
        frequency_rad_s: angular frequency.
    """

    joint: str
    amplitude_rad: float
    frequency_rad_s: float


class OneJointExcitation:
    """Generator of the single-joint excitations of one robot; all results satisfy every limit.

    Args:
        robot: names and ranges of the joints.
        lower: lower position bounds, (n,) [rad].
        upper: upper position bounds, (n,) [rad].
        velocity: velocity bounds, (n,) [rad/s].
        check: check of all limits, including torques and collisions.
    """

    def __init__(
        self, robot: Robot, lower: FloatArray, upper: FloatArray, velocity: FloatArray, check: MotionCheck
    ) -> None:
        self._robot, self._lower, self._upper, self._velocity, self._check = robot, lower, upper, velocity, check

    def motion(self, name: str, wish: OneJointWish) -> tuple[PolynomialTrajectory, tuple[Sine, ...]]:
        """Return a motion that visits several postures and moves each joint as a sine there, and all these sines.

        At each posture the joints move one after the other, from the last to the first.

        Args:
            name: name of the motion.
            wish: the requested excitation.

        Raises:
            SafetyError: there are too few postures at which every joint can move within the limits, or a move between
                postures violates a limit.
            ConfigurationError: there are fewer than two periods, or no posture.
        """
        if wish.periods < 2 or wish.postures < 1:
            raise ConfigurationError(
                f"{wish.periods} periods at {wish.postures} postures; expected at least 2 periods and 1 posture"
            )
        pieces: list[PolynomialTrajectory] = []
        sines: list[Sine] = []
        refusal: SafetyError | None = None
        for posture in self._postures(wish):
            try:
                found = [self._fastest(joint, posture, wish) for joint in reversed(range(self._robot.size))]
            except SafetyError as error:  # another posture may work
                refusal = error
                continue
            pieces += [piece for piece, _ in found]
            sines += [sine for _, sine in found]
            if len(pieces) == wish.postures * self._robot.size:
                break
        else:
            raise refusal or SafetyError("every posture within the limits has a self-collision")
        whole = self._joined(name, pieces)
        self._check.check([whole])
        return whole, tuple(sines)

    def _postures(self, wish: OneJointWish) -> Iterator[FloatArray]:
        """Yield postures (n,) [rad] for the excitation, without those at which a limit is exceeded or links collide.

        The first is the middle of the joint ranges or, if that posture is left out, the rest posture. The others are
        random.
        """
        rng = np.random.default_rng(wish.seed)
        middle, half = 0.5 * (self._lower + self._upper), 0.5 * (self._upper - self._lower)
        first = middle if self._allowed(middle) else self._robot.rest_posture.clip(self._lower, self._upper)
        randoms = (middle + wish.spread * half * rng.uniform(-1.0, 1.0, len(half)) for _ in range(MOST_POSTURES))
        return filter(self._allowed, chain([first], randoms))

    def _allowed(self, posture: FloatArray) -> bool:
        return self._passes(approach(posture, posture, self._robot.joint_names))

    def _fastest(self, joint: int, posture: FloatArray, wish: OneJointWish) -> tuple[PolynomialTrajectory, Sine]:
        """Return the sine motion of a joint with the largest feasible amplitude, at its highest allowed frequency.

        Amplitudes are tried from that of the request downwards. An amplitude is feasible if the motion keeps all limits
        at one frequency at least.

        Args:
            joint: index of the joint.
            posture: posture that the other joints hold, (n,) [rad].
            wish: the requested excitation.

        Raises:
            SafetyError: even the smallest amplitude exceeds a limit.
        """
        room = min(posture[joint] - self._lower[joint], self._upper[joint] - posture[joint])
        amplitude, name = wish.amplitude * room, self._robot.joint_names[joint]
        least = min(LEAST_AMPLITUDE_SHARE * (self._upper[joint] - self._lower[joint]), amplitude)
        while 0.0 < least <= amplitude:
            if (found := self._highest(joint, posture, amplitude, wish.periods)) is not None:
                piece, frequency = found
                return piece, Sine(name, amplitude, frequency)
            amplitude *= AMPLITUDE_FACTOR
        raise SafetyError(f"joint {name} cannot move by {np.rad2deg(least):.1f} deg at a posture: choose another")

    def _highest(
        self, joint: int, posture: FloatArray, amplitude: float, periods: int
    ) -> tuple[PolynomialTrajectory, float] | None:
        """Return the sine motion of a joint with the highest allowed frequency, and this frequency [rad/s].

        The result is None if no frequency is allowed. The path is the same at all frequencies, while speed,
        acceleration and dynamic torques grow with the frequency. So bisection finds the highest allowed frequency.

        Args:
            joint: index of the joint.
            posture: posture that the other joints hold, (n,) [rad].
            amplitude: amplitude of the sine [rad].
            periods: number of sine periods.
        """
        speed = self._velocity[joint]
        frequencies = list(
            takewhile(
                lambda frequency: np.abs(_sine(amplitude, frequency, periods)[1][1]).max() <= speed,
                (LOWEST_RAD_S * FREQUENCY_RATIO**k for k in count()),
            )
        )
        best, allowed, refused = None, -1, len(frequencies)
        while refused - allowed > 1:
            middle = (allowed + refused) // 2
            piece = self._piece(joint, posture, *_sine(amplitude, frequencies[middle], periods))
            if self._passes(piece):
                allowed, best = middle, (piece, frequencies[middle])
            else:
                refused = middle
        return best

    def _piece(self, joint: int, posture: FloatArray, times: FloatArray, moved: FloatArray) -> PolynomialTrajectory:
        """Return the motion of one joint while the others hold a posture.

        Args:
            joint: index of the moving joint.
            posture: posture that the others hold, (n,) [rad].
            times: times of the knots, (N,) [s].
            moved: displacement, velocity and acceleration of the joint at the knots, (3, N) [rad, rad/s, rad/s^2].
        """
        rows = np.zeros((3, len(times), self._robot.size))
        rows[0] = posture
        rows[:, :, joint] += moved
        rows[1:, [0, -1]] = 0.0
        return through_points("sine", self._robot.joint_names, times, *rows)

    def _passes(self, motion: Motion) -> bool:
        try:
            self._check.check([motion])
        except SafetyError:
            return False
        return True

    def _joined(self, name: str, pieces: list[PolynomialTrajectory]) -> PolynomialTrajectory:
        """Return one motion that runs several motions in sequence, with pauses between them.

        If a motion does not start at the end posture of the previous one, a move between both is inserted.

        Args:
            name: name of the result.
            pieces: the motions in their order.
        """
        times, rows = [np.zeros(1)], [np.array([pieces[0].start, *np.zeros((2, self._robot.size))])[:, None]]
        for piece in pieces:
            begin, posture = times[-1][-1] + PAUSE_S, rows[-1][0, -1]
            if np.abs(posture - piece.start).max() > 1e-9:
                way = approach(posture, piece.start, self._robot.joint_names)
                ticks = np.linspace(0.0, way.duration, max(round(way.duration / KNOT_S), 2) + 1)
                times.append(begin + ticks)
                rows.append(np.array(way.sample_all(ticks)))
                rows[-1][1:, [0, -1]] = 0.0
                begin = times[-1][-1] + PAUSE_S
            times.append(begin + piece.knots)
            rows.append(np.array(piece.sample_all(piece.knots)))
            rows[-1][1:, [0, -1]] = 0.0
        return through_points(name, self._robot.joint_names, np.concatenate(times), *np.concatenate(rows, axis=1))


def _sine(amplitude: float, frequency: float, periods: int) -> tuple[FloatArray, FloatArray]:
    """Return the knots of a sine motion from rest to rest.

    Args:
        amplitude: amplitude [rad].
        frequency: angular frequency [rad/s].
        periods: number of periods.

    Returns:
        Times of the knots, (N,) [s], and displacement, velocity and acceleration at these times, (3, N) [rad, rad/s,
        rad/s^2].
    """
    duration = 2.0 * np.pi / frequency * periods
    times = np.linspace(0.0, duration, max(round(duration / KNOT_S), 12 * periods) + 1)
    return times, _windowed(times, amplitude, frequency, 2.0 * np.pi / frequency)


def _windowed(times: FloatArray, amplitude: float, frequency: float, blend_s: float) -> FloatArray:
    """Return a sine times a window, and the first two time derivatives of this product, (3, N).

    The window makes the motion start and end at rest. It rises from 0 to 1 and falls again, each as a quintic
    polynomial of time.

    Args:
        times: times, (N,) [s]; the last is the end of the motion.
        amplitude: amplitude [rad].
        frequency: angular frequency [rad/s].
        blend_s: time in which the window rises, and in which it falls [s].
    """

    def rise(s: FloatArray) -> FloatArray:
        s = np.clip(s, 0.0, 1.0)
        return np.array(
            [
                s**3 * (10.0 - 15.0 * s + 6.0 * s**2),
                30.0 * s**2 * (1.0 - s) ** 2 / blend_s,
                60.0 * s * (1.0 - s) * (1.0 - 2.0 * s) / blend_s**2,
            ]
        )

    up, down = rise(times / blend_s), rise((times[-1] - times) / blend_s)
    w = np.array(
        [up[0] * down[0], up[1] * down[0] - up[0] * down[1], up[2] * down[0] - 2.0 * up[1] * down[1] + up[0] * down[2]]
    )
    s, c = amplitude * np.sin(frequency * times), amplitude * np.cos(frequency * times)
    ds, dds = frequency * c, -(frequency**2) * s
    return np.array([w[0] * s, w[1] * s + w[0] * ds, w[2] * s + 2.0 * w[1] * ds + w[0] * dds])
