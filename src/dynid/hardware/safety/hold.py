"""Computation of the currents that hold and lower an arm, once per control cycle, without a dynamic model."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dynid.hardware.safety.relief import Relief
from dynid.hardware.safety.settings import SafetySettings
from dynid.model.friction import FrictionLaw
from dynid.robot import FloatArray, Robot

LONGEST_STEP_CYCLES = 5  # longest time step that the hold integrates, in cycles
UPDATE_EVERY_CYCLES = 4  # cycles per update of the running means, whose averaging time is some hundred cycles
SLOW_RAD_S = 0.05  # transition velocity of the friction law: Coulomb friction is full above it
MIN_WEIGHT = 0.9  # smallest weight with which the running means are used; reached after some two averaging times
# ratio of load uncertainty to accelerating current; of 0 to 3, this gave the least motion while no servo replied
UNCERTAINTY_FACTOR = 2.0
SOFT_ZONE_EXIT_RAD_S = 0.2  # speed at which a joint held in its soft zone is moved out of it
STANDING_RAD_S = 0.02  # a slower joint stands; below the first step of a servo's velocity register
RELIEF_RATE_A_S = 0.6  # rate at which a holding current yields [A/s], see `Relief`
RESTS_WITHIN_RAD = 0.02  # position error above which a standing joint gets its present position as held position
STANDS_S = 0.1  # standstill before a joint gets a new held position [s]; longer than the bounces of gear backlash
FADE_TIME_CONSTANTS = 3.0  # time constants per `lower_s` in the fading current of an unread joint
SPRING_RELAXATION_1_S = 100.0  # rate at which the spring of a lowered joint relaxes, up to the joint's allowed speed
SLOW_DAMPING = 0.1  # share of damping on velocity within the allowed speed; excess velocity is damped fully


class DriveEstimate:
    """Estimator of the load current of a moving arm, that is, the current that carries its weight.

    The estimate is the mean current minus the currents for acceleration and friction. Means are taken over
    `load_average_s`; the mean acceleration is the change of velocity over that time. Inertia and friction are rough
    values from the settings; without them all current counts as load.
    """

    def __init__(self, robot: Robot, settings: SafetySettings) -> None:
        none = (0.0,) * robot.size
        constants, average_s = robot.joint_constants, settings.load_average_s
        self._inertia = np.array(settings.inertia_kg_m2 or none) / constants / average_s
        figures = {"fv": settings.viscous_friction_nm_s_rad or none, "fb": settings.coulomb_friction_nm or none}
        law = {symbol: np.array(values) for symbol, values in figures.items()}
        self._friction, self._constants = FrictionLaw.of(robot.size, law, SLOW_RAD_S), constants
        self._friction.torque(np.zeros(robot.size))  # compile now, not in a control cycle
        self._step = UPDATE_EVERY_CYCLES * robot.file.bus.cycle_s / average_s
        self._calls = 0
        self._current, self._dq = np.zeros(robot.size), np.zeros(robot.size)
        self._weight = 0.0  # weight of the tracked cycles in the means, 0 to 1

    def reset(self) -> None:
        """Clear the running means of current and velocity."""
        self._current[:] = self._dq[:] = 0.0
        self._weight = 0.0

    def track(self, current: FloatArray, dq: FloatArray, valid: NDArray[np.bool_] | None) -> None:
        """Include one cycle in the running means of current and velocity.

        Args:
            current: currents, (n,) [A].
            dq: joint velocities, (n,) [rad/s].
            valid: mask of the joints that were read, (n,); None for all. The means of the other joints are not changed.
        """
        self._calls += 1
        if self._calls % UPDATE_EVERY_CYCLES:
            return
        step = self._step if valid is None else self._step * valid
        self._current += step * (current - self._current)
        self._dq += step * (dq - self._dq)
        self._weight += self._step * (1.0 - self._weight)

    def load(self, dq: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        """Return the load current and its uncertainty, (n,) [A] each; None until enough cycles were tracked.

        The uncertainty of a joint's load current is twice the current that accelerates this joint. It allows for the
        torque that accelerations of other joints cause at this joint.

        Args:
            dq: present joint velocities, (n,) [rad/s].
        """
        if self._weight < MIN_WEIGHT:
            return None
        friction = self._friction.torque(self._dq) / self._constants
        inertia = self._inertia * (dq - self._dq)
        return self._current - inertia - friction, UNCERTAINTY_FACTOR * np.abs(inertia)


class Hold:
    """Controller that holds every joint where it came to rest, by a virtual spring and an integral term.

    The integral of the spring's stretch estimates the current that carries the load. Damping is not part of the hold,
    because the safety guard applies the same damping in all states. Once a joint is slow, or after a fixed time, its
    present position becomes its held position. If the joint later stands still at another position, this becomes its
    held position. All arrays are (n,), in joint order; currents are joint currents in A.

    Args:
        robot: limits, torque constants, cycle time.
        settings: gains and times.

    Attributes:
        damping: damping current per velocity [A s/rad].
        stiffness: current of the virtual spring per displacement [A/rad].
        load: estimated current that carries the load; `begin` and `drive` update it.
        held: currents that the last call of `drive` or `lower` computed, without damping; 0 after `reset`.
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
        self._integral_gain = settings.hold_integral_1_s * self.stiffness
        self._exit_rad_s, self._lower_rad_s = SOFT_ZONE_EXIT_RAD_S, settings.lower_rad_s
        self._drive = DriveEstimate(robot, settings)
        self.load, self._load_uncertainty, self.held = np.zeros((3, robot.size))
        self._reference = np.zeros(robot.size)
        self._captured = np.zeros(robot.size, dtype=np.bool_)
        self._stood_s = np.zeros(robot.size)
        self._followed = np.zeros(robot.size, dtype=np.bool_)  # joints whose spring already ends at the reference
        self._age_s = 0.0
        self._relief = Relief.of(robot, RELIEF_RATE_A_S)

    def reset(self) -> None:
        """Reset all estimated loads and held positions, before the torque of an arm is switched on."""
        self._drive.reset()
        self.load[:] = self._load_uncertainty[:] = self.held[:] = 0.0
        if self._relief is not None:
            self._relief.reset()  # the arm may stand elsewhere by now, which is no slip
        self._captured[:] = False
        self._age_s = 0.0

    def begin(self, dq: FloatArray) -> None:
        """Start to hold a moving arm: estimate its load currents, and release all held positions.

        Each joint gets a new held position in `drive`, once it is slow, or after a fixed time.

        Args:
            dq: joint velocities, (n,) [rad/s].
        """
        known = self._drive.load(dq)
        if known is not None:
            self.load[:], self._load_uncertainty[:] = known
        self._captured[:] = False
        self._age_s = 0.0
        if self._relief is not None:
            self._relief.reset()

    def track(self, current: FloatArray, dq: FloatArray, valid: NDArray[np.bool_] | None = None) -> None:
        """Include one control cycle in the running means from which `begin` estimates the load currents.

        Args:
            current: currents that flow in this cycle, (n,) [A].
            dq: joint velocities, (n,) [rad/s].
            valid: mask of the joints that were read, (n,); None for all.
        """
        self._drive.track(current, dq, valid)

    def drive(
        self,
        q: FloatArray,
        dq: FloatArray,
        valid: NDArray[np.bool_] | None,
        caps: FloatArray,
        step_s: float | None = None,
    ) -> FloatArray:
        """Return the current of this cycle, (n,) [A], that holds the joints, without damping.

        Args:
            q: joint angles, (n,) [rad].
            dq: joint velocities, (n,) [rad/s].
            valid: mask of the joints that were read in this cycle, (n,); None for all. Unread joints get only their
                estimated load current. Without a held position, this current is reduced by its uncertainty, because
                too much current could drive a joint faster than it would fall.
            caps: current limits, (n,) [A].
            step_s: time since the previous cycle [s]; None for the planned cycle time.
        """
        step_s = self._bounded(step_s)
        self._age_s += step_s
        if not self._captured.all():
            self._capture(q, dq, valid)
        stretch = self._reference - q
        held = self._captured if valid is None else self._captured & valid
        longest_stretch = self._settings.hold_slip_rad
        stretch = np.where(held, np.minimum(np.maximum(stretch, -longest_stretch), longest_stretch), 0.0)
        np.copyto(self._reference, q + stretch, where=held)
        outside_rad = np.minimum(np.maximum(self._reference, self._lower), self._upper) - self._reference
        step_rad = self._exit_rad_s * self._cycle_s
        self._reference += np.minimum(np.maximum(outside_rad, -step_rad), step_rad)
        # At a standing joint, friction carries part of the missing load. Further learning would break it loose, and it
        # would stick again on the other side, and so on.
        inside = outside_rad == 0.0  # in its soft zone a joint is moved out, so it is not held where it stands
        moving = np.abs(dq) > STANDING_RAD_S
        learning = moving | (~inside & (np.abs(stretch) > RESTS_WITHIN_RAD))
        self._stood_s = np.where(moving | ~held, 0.0, self._stood_s + step_s)
        self._capture_standing(q, stretch, held & inside)
        if self._relief is not None and (valid is None or valid.all()):
            self.load += self._relief.step(step_s, q, self.held)
            learning &= ~self._relief.yielding
        self.load += step_s * self._integral_gain * np.where(learning, stretch, 0.0)
        np.minimum(np.maximum(self.load, -caps, out=self.load), caps, out=self.load)
        self.held[:] = self._certain_load(valid) + self.stiffness * stretch
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
        """Return the current of this cycle, (n,) [A], that lowers the arm slowly, with damping.

        A virtual spring connects each joint to a reference position. At first it produces the joint's last holding
        current. Then the reference moves, with limited speed, to the position at which the spring produces the current
        `lean`, which is 0 for most joints. So the spring brakes a joint that falls faster than the reference moves, and
        the current of a joint that stands still fades to `lean`.

        Args:
            q: joint angles, (n,) [rad].
            dq: joint velocities, (n,) [rad/s].
            valid: mask of the joints that were read in this cycle, (n,); None for all. The current of unread joints
                fades within `lower_s`.
            caps: current limits, (n,) [A].
            lean: currents that push joints out of an unstable balance, (n,) [A]; 0 for joints that are not pushed.
            step_s: time since the previous cycle [s]; None for the planned cycle time.
            within: function of joint velocities (n,) [rad/s]. It returns the factor, at most 1, that scales them so
                that the links keep their allowed speed.
        """
        step_s = self._bounded(step_s)
        read = np.ones_like(self._captured) if valid is None else valid
        largest_stretch = caps / self.stiffness
        stretch = np.where(read & self._followed, self._reference - q, self.held / self.stiffness)
        stretch = np.minimum(np.maximum(stretch, -largest_stretch), largest_stretch)
        remaining = lean / self.stiffness - stretch
        limit_rad_s = np.where(
            ((q < self._lower) & (remaining < 0.0)) | ((q > self._upper) & (remaining > 0.0)),
            self._exit_rad_s,
            self._lower_rad_s,
        )
        rate = np.minimum(np.maximum(min(SPRING_RELAXATION_1_S, 1.0 / step_s) * remaining, -limit_rad_s), limit_rad_s)
        stretch += step_s * within(rate) * rate
        np.copyto(self._reference, q + stretch, where=read)
        self._followed = read.copy()
        faded = self.held * np.exp(-FADE_TIME_CONSTANTS * step_s / self._settings.lower_s)
        self.held[:] = np.where(read, self.stiffness * stretch, faded)
        allowed = within(dq) * np.minimum(np.maximum(dq, -limit_rad_s), limit_rad_s)
        return self.held - self.damping * (dq - (1.0 - SLOW_DAMPING) * np.where(read, allowed, 0.0))

    def begin_lowering(self, *, free: bool = False) -> None:
        """Start lowering the arm from its present holding current.

        `free` is True if the arm began to move after it was left without current; lowering then starts from zero
        current.
        """
        self._followed[:] = False
        if free:
            self.held[:] = 0.0

    def _bounded(self, step_s: float | None) -> float:
        """Return the time step `step_s` [s], reduced to at most `LONGEST_STEP_CYCLES` cycles.

        None stands for the planned cycle time.
        """
        return self._cycle_s if step_s is None else min(step_s, LONGEST_STEP_CYCLES * self._cycle_s)

    def _certain_load(self, valid: NDArray[np.bool_] | None) -> FloatArray:
        """Return the estimated load currents, (n,) [A], minus their uncertainty for some joints.

        The uncertainty is subtracted for joints that were not read and have no held position.

        Args:
            valid: mask of the joints that were read, (n,); None for all.
        """
        if valid is None:
            return self.load
        missing = np.where(valid | self._captured, 0.0, self._load_uncertainty)
        return np.asarray(np.sign(self.load) * np.maximum(np.abs(self.load) - missing, 0.0))

    def _capture_standing(self, q: FloatArray, stretch: FloatArray, held: NDArray[np.bool_]) -> None:
        """Replace the held position of each joint that stands still at another position by its present position.

        The current of such a joint does not change: the current of its spring is added to the estimated load current.

        Args:
            q: joint angles, (n,) [rad].
            stretch: stretch of the virtual springs, (n,) [rad]; set to zero for joints whose held position changes.
            held: mask of the joints to consider, (n,). They were read, have a held position, and are outside the soft
                zones near their limits.
        """
        standing = held & (self._stood_s > STANDS_S) & (np.abs(stretch) > RESTS_WITHIN_RAD)
        if standing.any():
            if self._relief is not None:
                self._relief.reset()
            self.load += np.where(standing, self.stiffness * stretch, 0.0)
            np.copyto(self._reference, q, where=standing)
            stretch[standing] = 0.0

    def _capture(self, q: FloatArray, dq: FloatArray, valid: NDArray[np.bool_] | None) -> None:
        """Set the held positions of joints that have become slow to their present positions.

        Joints that already have a held position keep it. Once `capture_s` has passed since the hold began, the others
        get one even if they are not slow.

        Args:
            q: joint angles, (n,) [rad].
            dq: joint velocities, (n,) [rad/s].
            valid: mask of the joints that were read, (n,); None for all. Unread joints get no held position.
        """
        now = ~self._captured
        if self._age_s < self._settings.capture_s:
            now &= np.abs(dq) < self._settings.capture_velocity_rad_s
        if valid is not None:
            now &= valid
        np.copyto(self._reference, q, where=now)
        self._captured |= now
