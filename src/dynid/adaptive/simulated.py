"""Arm simulated in lock-step, which executes segments (motions from rest to rest) and records continuously."""

from dataclasses import replace

import numpy as np

from dynid.adaptive.feedforward import Feedforward
from dynid.adaptive.return_motion import return_motion
from dynid.control.controller import load_controller
from dynid.control.ff_pd import FeedforwardPd
from dynid.control.motion_check import Torques
from dynid.errors import SafetyError
from dynid.hardware.safety.overload import OverloadModel
from dynid.identification.data.recordings import Recording
from dynid.identification.data.simulated_recording import source_of
from dynid.model.friction import FrictionLaw
from dynid.model.standard import StandardFile
from dynid.robot import FloatArray, Robot
from dynid.simulation.lockstep.kernels import compiled_law
from dynid.simulation.lockstep.run import SimulatedRun
from dynid.simulation.lockstep.stepped_arm import SteppedArm
from dynid.trajectory.motion import Motion
from dynid.trajectory.polynomial import PolynomialTrajectory, rest_to_rest

BRAKE_S = 0.3  # braking time of a stopped segment [s]
STANDSTILL_S = 1.0  # standing time before the first segment and after each look [s]


class SimulatedArm:
    """Simulated arm whose parameters an adaptive identification estimates; it starts near its rest posture.

    Args:
        robot: the robot, whose files describe the arm as it is known before the identification.
        standard: true standard parameters; None uses those of the robot's simulated arm.
        friction: true friction law or its name; None uses that of the robot's simulated arm.
        mount: mount of the arm.
        seed: random seed of the simulated imperfections, such as sensor noise.
        capped: whether currents are limited when a servo is near its overload limit, as the driver does.
    """

    def __init__(
        self,
        robot: Robot,
        *,
        standard: StandardFile | None = None,
        friction: FrictionLaw | str | None = None,
        mount: str | None = None,
        seed: int = 0,
        capped: bool = True,
    ) -> None:
        self.robot, self._arm = robot, SteppedArm(robot, standard=standard, friction=friction, mount=mount, seed=seed)
        self.settings = load_controller(robot)
        self._law = compiled_law(FeedforwardPd(self.settings))
        self._inertia, self._damping = np.array(self.settings.inertia_kg_m2), np.array(self.settings.damping_nm_s_rad)
        self._before_ns = -round(robot.file.bus.cycle_s * 1e9)
        self._begin_ns = self._end_ns = 0
        self.at = self._arm.measure().copy()  # reference posture, (n,) [rad]
        self.moved_s = 0.0
        self.along_s, self._braked = 0.0, False  # executed time of the last segment [s], and whether it was stopped
        self._constants = robot.drive_constants
        self.limited_cycles = 0  # number of cycles with limited currents
        self.pauses_for_planning = True
        self._overload, self.load = OverloadModel.of(robot) if capped else None, np.zeros(robot.size)
        self._law.reset(self.at)
        self._begun: tuple[Motion, Feedforward, FloatArray, FloatArray] | None = None

    def to_start(self, feedforward: Feedforward) -> None:
        """Move to the rest posture; the evaluated part of the recording starts when the arm stands there.

        The reference is then set to the measured posture, which differs from the rest posture because of stiction.
        """
        self.follow(rest_to_rest("start", self.robot.joint_names, self.at, self.robot.rest_posture, 2.0), feedforward)
        self._begin_ns = self._end_ns = self._arm.stamp_ns

    def begin(self, motion: Motion, feedforward: Feedforward, tube: FloatArray, most_load: FloatArray) -> None:
        """Store a segment with its limits; `finish` executes it.

        Args:
            motion: the segment.
            feedforward: feedforward torques.
            tube: maximum tracking errors, (n,) [rad].
            most_load: maximum used fraction of each servo's overload capacity, (n,) [-].
        """
        self._begun = motion, feedforward, tube, most_load

    def finish(self) -> FloatArray:
        """Execute the segment passed to `begin`; return the largest tracking error of each joint, (n,) [rad].

        The arm brakes along the segment's path if a tracking error exceeds `tube`, beyond which the arm is not proven
        to stay in free space. It also brakes if the used fraction of a servo's overload capacity exceeds `most_load`.
        Afterwards `at` is the measured posture if the arm braked, otherwise the end posture of the segment.
        """
        assert self._begun is not None
        motion, feedforward, tube, most_load = self._begun
        begin, self.along_s, self._braked = self._arm.stamp_ns, motion.duration, False
        off = self._follow(motion, feedforward.moving, (tube, most_load))
        self._count_motion(begin)
        if self._braked:
            self.hold(feedforward)
        return off

    def retrace(self, motion: PolynomialTrajectory, along_s: float, feedforward: Feedforward) -> None:
        """Move the arm back to the start of a segment, along the executed part of its path.

        Args:
            motion: the segment.
            along_s: executed time of the segment [s].
            feedforward: feedforward torques.
        """
        begin = self._arm.stamp_ns
        self._follow(return_motion(motion, along_s, self.at, self.robot.joint_names), feedforward.moving)
        self._count_motion(begin)
        self.hold(feedforward)

    def follow(self, motion: PolynomialTrajectory, feedforward: Feedforward, tube: FloatArray | None = None) -> None:
        """Execute a motion that does not serve the identification, such as a motion to the rest posture.

        Args:
            motion: the motion.
            feedforward: feedforward torques.
            tube: maximum tracking errors, (n,) [rad]; None does not check them.

        Raises:
            SafetyError: a tracking error exceeds `tube`.
        """
        self._braked = False
        bounds = None if tube is None else (tube, np.full(self.robot.size, np.inf))
        self._follow(motion, feedforward.moving, bounds)
        if self._braked:
            raise SafetyError(f"a joint left its tracking tube in the motion '{motion.name}'")
        self.hold(feedforward)

    def _count_motion(self, begin_ns: int) -> None:
        self._end_ns = self._arm.stamp_ns
        cycle = self.robot.file.bus.cycle_s
        self.moved_s += cycle * round((self._end_ns - begin_ns) / 1e9 / cycle)  # timestamps have jitter

    def hold(self, feedforward: Feedforward, duration_s: float = STANDSTILL_S) -> None:
        """Hold the arm still for `duration_s` [s] with its present posture as the reference.

        The earlier reference may be out of reach because of stiction; holding it would heat the motors.
        """
        self.at = self._arm.measure().copy()
        still = rest_to_rest("hold", self.robot.joint_names, self.at, self.at, duration_s)
        self._follow(still, feedforward.holding)

    def _follow(
        self, motion: Motion, torques: Torques, bounds: tuple[FloatArray, FloatArray] | None = None
    ) -> FloatArray:
        cycle, worst = self.robot.file.bus.cycle_s, np.zeros(self.robot.size)
        rows = self._sampled(motion, torques, np.arange(0.0, motion.duration, cycle), 1.0, 0.0)
        self.at = motion.end
        for k, row in enumerate(zip(*rows, strict=True)):
            worst = np.maximum(worst, self._cycle(*row))
            if bounds is not None and ((worst > bounds[0]).any() or (self.load > bounds[1]).any()):
                return np.maximum(worst, self._stopped(motion, torques, k * cycle))
        self._arm.plant.check()
        return worst

    def _stopped(self, motion: Motion, torques: Torques, along: float) -> FloatArray:
        """Brake along a motion's path; return the largest tracking error of each joint, (n,) [rad].

        Args:
            motion: the motion in execution.
            torques: feedforward torques, a function of states.
            along: time on the motion's time axis at which braking begins [s].
        """
        cycle, worst = self.robot.file.bus.cycle_s, np.zeros(self.robot.size)
        t = np.arange(0.0, BRAKE_S, cycle)
        times = np.minimum(along + t - 0.5 * t**2 / BRAKE_S, motion.duration)
        for row in zip(*self._sampled(motion, torques, times, 1.0 - t / BRAKE_S, -1.0 / BRAKE_S), strict=True):
            worst = np.maximum(worst, self._cycle(*row))
        self.along_s, self._braked = float(times[-1]), True
        return worst

    def _sampled(
        self,
        motion: Motion,
        feedforward: Torques,
        times: FloatArray,
        rate: FloatArray | float,
        change: FloatArray | float,
    ) -> tuple[FloatArray, ...]:
        """Sample a motion that is executed at another speed: q, dq, ddq and additional torques, (N, n) each.

        The additional torques [N m] are the feedforward torques minus those that the control law adds itself.

        Args:
            motion: the motion.
            feedforward: function from states to torques [N m].
            times: times on the motion's own time axis, (N,) [s].
            rate: derivative of `times` by real time, (N,) or one value for all [-].
            change: derivative of `rate` by real time, (N,) or one value for all [1/s].
        """
        q, dq, ddq = motion.sample_all(times)
        rates, changes = (np.broadcast_to(one, times.shape)[:, None] for one in (rate, change))
        dq, ddq = rates * dq, rates**2 * ddq + changes * dq
        return q, dq, ddq, self._more(feedforward, q, dq, ddq)

    def _more(self, feedforward: Torques, q: FloatArray, dq: FloatArray, ddq: FloatArray) -> FloatArray:
        """Return feedforward torques minus the torques that the control law adds itself, (N, n) [N m].

        From the reference, the control law itself computes torques for inertia and damping.

        Args:
            feedforward: function from states to torques [N m].
            q: positions, (N, n) [rad].
            dq: velocities, (N, n) [rad/s].
            ddq: accelerations, (N, n) [rad/s^2].
        """
        return np.asarray(feedforward(q, dq, ddq) - self._inertia * ddq - self._damping * dq)

    def _cycle(self, q: FloatArray, dq: FloatArray, ddq: FloatArray, more: FloatArray) -> FloatArray:
        """Execute one control cycle; return the absolute tracking errors, (n,) [rad].

        Args:
            q: reference positions, (n,) [rad].
            dq: reference velocities, (n,) [rad/s].
            ddq: reference accelerations, (n,) [rad/s^2].
            more: torques added to those of the control law, (n,) [N m].
        """
        seen, stamp = self._arm.measure(), self._arm.stamp_ns
        tau = self._law.update((stamp - self._before_ns) / 1e9, seen, q, dq, ddq)
        self._before_ns = stamp
        # current limits of the driver: those of the robot, reduced when a servo is near its overload limit
        limits = self.robot.drive_limits
        if self._overload is not None:
            limits = self._overload.cap(self.load, limits)
        wanted = tau + more
        given = np.clip(wanted, -limits * self._constants, limits * self._constants)
        self.limited_cycles += bool((given != wanted).any())
        self._arm.command(given)
        if self._overload is not None:
            current = given / self.robot.joint_constants
            self.load = self._overload.step(self.load, current, self.robot.file.bus.cycle_s)
        return np.asarray(np.abs(seen - q))

    def run(self, name: str) -> SimulatedRun:
        """Return the data recorded so far as a simulated run with the given name.

        The evaluated part begins when the arm stands at the rest posture, and ends with the last motion.
        """
        duration = (self._end_ns - self._begin_ns) / 1e9
        return self._arm.recorded(name, duration, [("approach", 0), ("trajectory", self._begin_ns)])

    def source(self, name: str) -> Recording:
        """Return the data recorded so far as a recording for the identification; `name` becomes its name."""
        return replace(source_of(self.robot, self.run(name), name), simulated=True)
