"""Braking, holding and lowering without a model of the arm: pure decisions, once per control cycle."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dynid.hardware.safety.relief import Relief
from dynid.hardware.safety.settings import SafetySettings
from dynid.model.friction import FrictionLaw
from dynid.robot import FloatArray, Robot

LONGEST_STEP_CYCLES = 5  # a longer cycle counts as one of so many
TRACKED_EVERY = 4  # means over a hundred cycles do not need every one
SLOW_RAD_S = 0.05  # Coulomb friction is full from about here on
ENOUGH_WEIGHT = 0.9  # after some two averaging times
DOUBT = 2.0  # times the current that accelerates a joint: of 0, 1, 2, 3 the least energy where nobody answers
CREEP_RAD_S = 0.2  # a joint held in its soft zone is led out of it so slowly
STANDING_RAD_S = 0.02  # below the first step of a servo's velocity register
GIVING_A_S = 0.6  # of the load that a joint is held with, see `Relief`
RESTS_WITHIN_RAD = 0.02  # a joint that stands so near to where it is held has nothing to learn
FADED = 3.0  # time constants within `lower_s` in which the current of an unseen joint fades
YIELD_1_S = 100.0  # rate at which the spring of a joint that is lowered relaxes, up to the joint's allowed speed
SLOW_DAMPING = 0.1  # share of the damping against the allowed speed; what is faster is damped in full


class DriveEstimate:
    """What part of the currents carries the load, while the arm moves: the rest accelerates it and overcomes friction.

    From means over `load_average_s`: the mean of an acceleration is the change of velocity over that time. Inertia and
    friction are rough figures of the settings; without them all current counts as load.
    """

    def __init__(self, robot: Robot, settings: SafetySettings) -> None:
        none = (0.0,) * robot.size
        constants, average_s = robot.joint_constants, settings.load_average_s
        self._inertia = np.array(settings.inertia_kg_m2 or none) / constants / average_s
        figures = {"fv": settings.viscous_friction_nm_s_rad or none, "fb": settings.coulomb_friction_nm or none}
        law = {symbol: np.array(values) for symbol, values in figures.items()}
        self._friction, self._constants = FrictionLaw.of(robot.size, law, SLOW_RAD_S), constants
        self._friction.torque(np.zeros(robot.size))  # compiled now, not in a control cycle
        self._step = TRACKED_EVERY * robot.file.bus.cycle_s / average_s
        self._calls = 0
        self._current, self._dq = np.zeros(robot.size), np.zeros(robot.size)
        self._weight = 0.0  # of what was tracked in the means

    def reset(self) -> None:
        """Forget the past."""
        self._current[:] = self._dq[:] = 0.0
        self._weight = 0.0

    def track(self, current: FloatArray, dq: FloatArray, valid: NDArray[np.bool_] | None) -> None:
        """One cycle more: current (n,) [A], velocity (n,) [rad/s]; what is not `valid` was not read."""
        self._calls += 1
        if self._calls % TRACKED_EVERY:
            return
        step = self._step if valid is None else self._step * valid
        self._current += step * (current - self._current)
        self._dq += step * (dq - self._dq)
        self._weight += self._step * (1.0 - self._weight)

    def load(self, dq: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        """The current that carries the load, and how far off it may be, (n,) [A] each; None while it is not known.

        At velocities dq, (n,) [rad/s]. In doubt is what accelerates: other joints that accelerate count, too.
        """
        if self._weight < ENOUGH_WEIGHT:
            return None
        friction = self._friction.torque(self._dq) / self._constants
        inertia = self._inertia * (dq - self._dq)
        return self._current - inertia - friction, DOUBT * np.abs(inertia)


class Hold:
    """Holds every joint where it came to rest, by a spring and an integral that learns the load.

    Braking is not here: it is one damping for whatever the guard does. A joint is captured, that is held where it
    then is, once it is slow, or after a while. All arrays are (n,), in joint order; currents in A.

    Args:
        robot: limits, torque constants, cycle time.
        settings: gains and times.

    Attributes:
        damping: current per velocity [A s/rad].
        stiffness: current per way [A/rad], of the spring that holds a joint.
        load: the current that carries the load, as far as it is known; `begin` and `drive` learn it.
        held: the current that `drive` has held with at last: the load, and what the spring carries of it.
    """

    def __init__(self, robot: Robot, settings: SafetySettings) -> None:
        self._settings, self._cycle_s = settings, robot.file.bus.cycle_s
        self._lower = robot.lower + settings.soft_zone_rad
        self._upper = robot.upper - settings.soft_zone_rad
        if settings.hold_damping_nm_s_rad is None:
            self.damping: FloatArray = settings.damping_fraction * robot.current_limits / robot.velocity_limits
        else:
            self.damping = np.array(settings.hold_damping_nm_s_rad) / robot.joint_constants
        self.stiffness = settings.hold_stiffness_1_s * self.damping
        self._learning = settings.hold_integral_1_s * self.stiffness
        self._creep, self._pace = CREEP_RAD_S, settings.lower_rad_s
        self._drive = DriveEstimate(robot, settings)
        self.load, self._doubt, self.held = np.zeros((3, robot.size))
        self._reference = np.zeros(robot.size)
        self._captured = np.zeros(robot.size, dtype=np.bool_)
        self._followed = np.zeros(robot.size, dtype=np.bool_)  # whose spring ends at the reference, not where it held
        self._age_s = 0.0
        self._relief = Relief.of(robot, GIVING_A_S)

    def reset(self) -> None:
        """Forget the past, for an arm whose torque comes on."""
        self._drive.reset()
        self.load[:] = self._doubt[:] = self.held[:] = 0.0

    def begin(self, dq: FloatArray) -> None:
        """Let go of where joints were held: each is captured again; dq are their velocities, (n,) [rad/s]."""
        known = self._drive.load(dq)
        if known is not None:
            self.load[:], self._doubt[:] = known
        self._captured[:] = False
        self._age_s = 0.0
        if self._relief is not None:
            self._relief.reset()

    def track(self, current: FloatArray, dq: FloatArray, valid: NDArray[np.bool_] | None = None) -> None:
        """What flows in this cycle, (n,) [A], and how the joints move, (n,) [rad/s]: the load is learned from it."""
        self._drive.track(current, dq, valid)

    def drive(
        self,
        q: FloatArray,
        dq: FloatArray,
        valid: NDArray[np.bool_] | None,
        caps: FloatArray,
        step_s: float | None = None,
    ) -> FloatArray:
        """The holding current of this cycle, (n,) [A], damping not included.

        Args:
            q: joint angles [rad].
            dq: joint velocities [rad/s].
            valid: which of them are of this cycle; None is all. The others keep their load. Nobody sees what comes of
                it, and too much of it drives a joint faster than it would fall: what is in doubt is left out.
            caps: current limits [A].
            step_s: time since the cycle before [s]; None is the planned one.
        """
        step_s = self._bounded(step_s)
        self._age_s += step_s
        if not self._captured.all():
            self._capture(q, dq, valid)
        stretch = self._reference - q
        held = self._captured if valid is None else self._captured & valid
        slip = self._settings.hold_slip_rad
        stretch = np.where(held, np.minimum(np.maximum(stretch, -slip), slip), 0.0)
        np.copyto(self._reference, q + stretch, where=held)
        inside = np.minimum(np.maximum(self._reference, self._lower), self._upper) - self._reference
        creep = self._creep * self._cycle_s
        self._reference += np.minimum(np.maximum(inside, -creep), creep)
        # Friction carries a part of what is missing at a joint that stands: to learn on would break it loose, to
        # stick again on the other side, and so on.
        learning = (np.abs(dq) > STANDING_RAD_S) | (np.abs(stretch) > RESTS_WITHIN_RAD)
        if self._relief is not None and (valid is None or valid.all()):
            self.load += self._relief.step(step_s, q, self.held)
            learning &= ~self._relief.gives
        self.load += step_s * self._learning * np.where(learning, stretch, 0.0)
        np.minimum(np.maximum(self.load, -caps, out=self.load), caps, out=self.load)
        self.held[:] = self._sure(valid) + self.stiffness * stretch
        return self.held.copy()

    def lower(
        self,
        q: FloatArray,
        dq: FloatArray,
        valid: NDArray[np.bool_] | None,
        caps: FloatArray,
        lean: FloatArray,
        step_s: float | None,
        within: Callable[[FloatArray], float],
    ) -> FloatArray:
        """The current of this cycle, (n,) [A], with which the arm is followed down, damping included.

        What held a joint becomes the stretch of its spring. The spring's end then yields towards the joint, and towards
        where the joint is leaned, at most at an allowed speed. So a joint that falls faster is held back, and the
        current of a joint that stands fades to nothing, or to its lean.

        Args:
            q: joint angles [rad].
            dq: joint velocities [rad/s].
            valid: which of them are of this cycle; None is all. The current of the others fades within `lower_s`.
            caps: current limits [A].
            lean: currents that push joints [A]; 0 pushes none.
            step_s: time since the cycle before [s]; None is the planned one.
            within: returns the factor that brings joint velocities (n,) [rad/s] within the speed of the links.
        """
        step_s = self._bounded(step_s)
        seen = np.ones_like(self._captured) if valid is None else valid
        most = caps / self.stiffness
        stretch = np.where(seen & self._followed, self._reference - q, self.held / self.stiffness)
        stretch = np.minimum(np.maximum(stretch, -most), most)
        way = lean / self.stiffness - stretch
        pace = np.where(((q < self._lower) & (way < 0.0)) | ((q > self._upper) & (way > 0.0)), self._creep, self._pace)
        rate = np.minimum(np.maximum(min(YIELD_1_S, 1.0 / step_s) * way, -pace), pace)
        stretch += step_s * within(rate) * rate
        np.copyto(self._reference, q + stretch, where=seen)
        self._followed = seen.copy()
        faded = self.held * np.exp(-FADED * step_s / self._settings.lower_s)
        self.held[:] = np.where(seen, self.stiffness * stretch, faded)
        allowed = within(dq) * np.minimum(np.maximum(dq, -pace), pace)
        return self.held - self.damping * (dq - (1.0 - SLOW_DAMPING) * np.where(seen, allowed, 0.0))

    def begin_lowering(self, *, free: bool = False) -> None:
        """From now on follow the arm down from what it was held with in this moment; a `free` arm was not held."""
        self._followed[:] = False
        if free:
            self.held[:] = 0.0

    def _bounded(self, step_s: float | None) -> float:
        """A step of time that is not longer than a few cycles [s]."""
        return self._cycle_s if step_s is None else min(step_s, LONGEST_STEP_CYCLES * self._cycle_s)

    def _sure(self, valid: NDArray[np.bool_] | None) -> FloatArray:
        """The load, (n,) [A], less what is in doubt of it at joints that are neither seen nor at rest yet."""
        if valid is None:
            return self.load
        doubt = np.where(valid | self._captured, 0.0, self._doubt)
        return np.asarray(np.sign(self.load) * np.maximum(np.abs(self.load) - doubt, 0.0))

    def _capture(self, q: FloatArray, dq: FloatArray, valid: NDArray[np.bool_] | None) -> None:
        """Hold the joints that are slow enough now."""
        now = ~self._captured
        if self._age_s < self._settings.capture_s:
            now &= np.abs(dq) < self._settings.capture_velocity_rad_s
        if valid is not None:
            now &= valid
        np.copyto(self._reference, q, where=now)
        self._captured |= now
