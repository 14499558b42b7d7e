"""Execution of one motion on an arm: smooth approach, the motion, a smooth motion to the rest posture, then hold.

The executor depends neither on ROS nor on a clock. Its time is the time stamp of the measured state, so a late or
missing cycle does not distort the motion. The same class drives the real arm, the simulated arm and the lock-step
simulation.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dynid.control.added_torque import STOP_BLEND_S, AddedTorque
from dynid.control.arm_controller import ArmController
from dynid.control.controller import TorqueLaw
from dynid.control.ff_pd import FeedforwardPdLaw
from dynid.control.guiding import Guiding
from dynid.control.hold_watch import HoldWatch
from dynid.control.motion_check import MotionCheck, position_and_speed
from dynid.control.motion_kernels import reduce_yielding, tracking_error
from dynid.control.path_time_scaling import PathTimeScaling
from dynid.control.plan import Activity, Brake, HoldPath, MotionPlan, Part, Phase, plan_motion, transfer, warm_up
from dynid.control.stamp_watch import StampWatch
from dynid.control.tracking import Tracking, TrackingMeter
from dynid.errors import SafetyError
from dynid.hardware.safety.relief import Relief
from dynid.robot import FloatArray, Robot
from dynid.trajectory.motion import Motion
from dynid.trajectory.trajectory import approach

__all__ = ["MotionExecutor", "MotionStep", "Phase"]

LONGEST_STEP_S = 0.02  # gap in the states above which path time pauses, so that the reference does not jump
LOST_BRAKE_S = 0.1  # time without a new command after which the hardware has braked the arm
FIRST_DT_S = 0.001
SETTLE_S = 0.5  # standstill before and after the trajectory, so that it begins and ends at rest
YIELD_RATE_RAD_S, MOST_YIELD_RAD = 0.15, 0.15  # rate and largest value of the yielding of held joints, see `Relief`
RECOVERY_RAD_S = 0.3  # rate that takes the whole yielding back within the standstill before a trajectory
RELEASED_ERROR_RAD = 0.02  # displacement after which the reference follows an arm without torque
MOVED_RAD = 0.01  # distance of the arm from the start of its plan, from which the way there is a motion of its own
LARGEST_SAG_RAD = 0.2  # largest distance of a held arm from its reference, including stiction under load
MAX_TRACKING_ERROR_RAD = 0.35  # maximum tracking error before a stop
STOP_RAD_S2 = 12.0  # deceleration of an arm that left its reference


class MotionStep(NamedTuple):
    """Result of one control cycle; the next cycle overwrites the arrays of the reference.

    Attributes:
        tau: commanded torque, (n,) [N m].
        q_ref: reference position, (n,) [rad].
        dq_ref: reference velocity, (n,) [rad/s].
        ddq_ref: reference acceleration, (n,) [rad/s^2].
        holds: whether the arm is held at the reference.
    """

    tau: FloatArray
    q_ref: FloatArray
    dq_ref: FloatArray
    ddq_ref: FloatArray
    holds: bool


class MotionExecutor:
    """State machine that runs motions of one arm with a controller, and holds the arm afterwards.

    Args:
        robot: robot with rest posture, limits and joint names.
        controller: the controller; it is reset before a motion if torque was off or the arm is far from its reference.
        check: check that every motion must pass; None means a check of the robot's position and velocity limits.

    Attributes:
        phase: the present activity; None if nothing is commanded.
        phases: the phases of the present motion, with the time stamps at which they began [ns].
        stopped_itself: reason why the last motion, or a part of it without feedback, was braked early although it was
            not cancelled; "" if there is none. Motions that `update` aborts with an error are not included.
        left_tolerance: whether the last motion was braked early, along its path, because a joint's tracking error
            exceeded `tolerance`.
        guiding: monitor of hand guiding, for control laws without a reference.
        tolerance: largest permitted tracking error of each joint along a trajectory, (n,) [rad]. Beyond it the arm is
            braked along its path. Independently, an error of `MAX_TRACKING_ERROR_RAD` stops it where it is.
    """

    def __init__(self, robot: Robot, controller: ArmController, check: MotionCheck | None = None) -> None:
        self.robot, self.controller = robot, controller
        self.check = check or position_and_speed(robot)
        self.phase: Activity | None = None
        self.phases: list[tuple[Phase, int]] = []
        self.stopped_itself, self.left_tolerance = "", False
        self._held_before_stop = False  # whether the arm was held, without a motion, when it left its reference
        self._parts: list[Part] = []
        self._scaling = PathTimeScaling(robot.size)
        warm_up(robot.size)
        self._meter = TrackingMeter(robot.size)
        self._chosen: TorqueLaw = controller.law
        self._began_ns = self._last_ns = 0
        self._duration = self._before = 0.0  # planned, and of the parts of the trajectory that have ended [s]
        self._speed_left = 1.0  # share of the estimated velocity that the arm still has after a gap in its states
        self._brakes_unseen = False  # whether no state has come since a part without feedback was cancelled
        self._reference = np.zeros((3, robot.size))
        self._q, self._tau, self._held, self._given = np.zeros((4, robot.size))
        self._relief = Relief.of(robot, YIELD_RATE_RAD_S)
        self._added, self._watch, self._stamps = AddedTorque(robot.size), HoldWatch(), StampWatch()
        self.tolerance: FloatArray = np.full(robot.size, MAX_TRACKING_ERROR_RAD)
        self.guiding = Guiding(robot)

    @property
    def active(self) -> bool:
        """Whether torque is commanded, because the arm moves, is held, or is guided by hand."""
        return self.phase is not None

    @property
    def moving(self) -> bool:
        """Whether a motion is under way, or braking after it was cancelled."""
        if self.phase != "cancelled":
            return self.phase in ("approach", "trajectory", "rest")
        return not self._scaling.standing and self.elapsed(self._last_ns) < self._parts[0].path.duration

    @property
    def holds(self) -> bool:
        """Whether the arm is held at its reference by a law with position feedback.

        The value is False during a motion, and while the arm brakes after a cancelled or aborted motion. While a held
        arm brakes because it was pushed away from its reference, the value is True.
        """
        still = self._held_before_stop or not self.moving
        return self.active and still and self.controller.law.follows_reference

    @property
    def tracking(self) -> Tracking:
        """Statistics of the tracking errors in the present trajectory so far, without approach and return."""
        return self._meter.result()

    def elapsed(self, stamp_ns: int) -> float:
        """Return the path time since the present part of the motion began [s].

        Path time is slower than real time while the arm moves slower than planned, and stands still in pauses.

        Args:
            stamp_ns: time stamp of the present state [ns].
        """
        return (stamp_ns - self._began_ns) / 1e9

    def progress(self, stamp_ns: int) -> float:
        """Return the completed fraction of the trajectory, 0 to 1.

        During the trajectory it is elapsed path time / planned duration, at most 1, and 1 if the planned duration is
        zero. If the trajectory has several parts, both times are sums over its parts. During the return and after a
        completed motion the fraction is 1, in all other phases 0.

        Args:
            stamp_ns: time stamp of the present state [ns].
        """
        if self.phase == "trajectory":
            return min((self._before + self.elapsed(stamp_ns)) / self._duration, 1.0) if self._duration else 1.0
        return 1.0 if self.phase in ("rest", "done") else 0.0

    def start_posture(self, q: FloatArray) -> FloatArray:
        """Return the posture at which the next motion begins, (n,) [rad].

        It is the reference posture if torque is commanded and every joint is within `LARGEST_SAG_RAD` of the reference,
        else the measured posture q (n,) [rad].
        """
        q_ref = self._reference[0]
        held = self.active and np.abs(q - q_ref).max() <= LARGEST_SAG_RAD
        return q_ref.copy() if held else np.array(q)  # a held arm sags a little: continue from the reference

    def begin(self, motion: Motion | MotionPlan, q: FloatArray, stamp_ns: int) -> None:
        """Start a motion, or a motion plan that has been checked; a motion without a plan is planned and checked first.

        Args:
            motion: the motion, or a plan that has been checked.
            q: measured posture, (n,) [rad].
            stamp_ns: time stamp of this posture [ns].

        Raises:
            SafetyError: a motion is under way, the trajectory exceeds a limit (the message names joint, time and
                value), the arm has left the start of the plan, or the chosen law follows no reference.
            DataError: the motion is for other joints.
        """
        if self.moving:
            raise SafetyError(f"a motion is running (phase {self.phase}); cancel it first")
        if not self.controller.law.follows_reference:
            raise SafetyError(
                f"the controller {self.controller.law.name} cannot follow a reference; choose another one"
            )
        start = self.start_posture(q)
        plan = motion if isinstance(motion, MotionPlan) else plan_motion(self.robot, motion, start, self.check)
        self._refuse_double_torques(plan)
        first = self._way_to(plan, start)
        apart = np.abs(q - self._reference[0]).max() > LARGEST_SAG_RAD
        if not self.active or apart or stamp_ns < self._last_ns:
            self._reset(q, stamp_ns)
        self.phases, self._parts, self._duration, self.stopped_itself = [], [*first, *plan.parts], plan.duration, ""
        self.left_tolerance = self._held_before_stop = False
        self._meter.clear()
        self._watch.clear()
        self._chosen = self.controller.law
        self._enter(stamp_ns)

    def _way_to(self, plan: MotionPlan, start: FloatArray) -> list[Part]:
        """Return a checked motion from the posture `start` (n,) [rad] to a plan's start; [] if they are equal.

        An arm that is not held may have moved a little since the plan was made, and the reference must not jump.

        Raises:
            SafetyError: the arm moved too far, was held meanwhile, or the motion exceeds a limit.
        """
        moved = np.abs(plan.start - start)
        if moved.max() <= MOVED_RAD:
            return []
        if self.active or not moved.max() <= LARGEST_SAG_RAD:
            joint = int(np.argmax(moved))
            raise SafetyError(
                f"{self.robot.joint_names[joint]} moved by {np.rad2deg(moved[joint]):.1f} deg since '{plan.name}' was "
                "planned; start it again"
            )
        way = transfer(self.check, start, plan.start, self.robot.joint_names)
        self.check.check([way])
        return [Part("approach", way)]

    def _refuse_double_torques(self, plan: MotionPlan) -> None:
        """Raise SafetyError if a plan has feed-forward torques, and the control law computes its own from a model."""
        law = self.controller.law
        if law.uses_model and any(part.added is not None for part in plan.parts):
            raise SafetyError(
                f"'{plan.name}' has efforts, and the controller {law.name} gives the model's torques already: send it "
                f"without efforts, or choose the controller {FeedforwardPdLaw.name}"
            )

    def hold(self, q: FloatArray, stamp_ns: int) -> None:
        """Hold the arm at its present posture, or start hand guiding if the control law follows no reference.

        Args:
            q: measured posture, (n,) [rad].
            stamp_ns: time stamp of this posture [ns].

        Raises:
            SafetyError: a motion is under way.
        """
        if self.moving:
            raise SafetyError(f"a motion is running (phase {self.phase}); cancel it first")
        start = self.start_posture(q)
        if not self.active or stamp_ns < self._last_ns:
            self._reset(q, stamp_ns)
        self.phases, self._parts = [], [Part("hold", HoldPath(start))]
        self._watch.clear()
        self._guide(self.controller.law, q)
        self._enter(stamp_ns)

    def follow_limp(self, q: FloatArray, stamp_ns: int) -> None:
        """Replace the posture to hold by the measured one if an arm whose torque is off has moved away from it.

        Otherwise the arm would be pulled back to the old posture when torque comes on. During a motion, the posture is
        not replaced.

        Args:
            q: measured posture, (n,) [rad].
            stamp_ns: time stamp of this posture [ns].
        """
        if self.active and not self.controller.law.follows_reference:
            self.guiding.restart(self.controller.law, q)
        if self.active and not self.moving and np.abs(q - self._reference[0]).max() > RELEASED_ERROR_RAD:
            self.release()
            self.hold(q, stamp_ns)

    def switch_to(self, law: TorqueLaw) -> None:
        """Switch to another control law from the next cycle on, without a jump in torque.

        Raises:
            SafetyError: a motion is under way, and either the new law follows no reference or the present part of the
                motion prescribes its own law.
        """
        if self.moving and (not law.follows_reference or self._parts[0].law is not None):
            raise SafetyError(
                f"a motion is running (phase {self.phase}), so {law.name} cannot take over; cancel it first"
            )
        if self.phase is not None and not law.follows_reference:
            self._parts = [Part(self.phase, HoldPath(self._reference[0].copy()))]
        self._added.fade()  # the added torque was meant for the former law
        self._parts = [replace(part, added=None) for part in self._parts]
        self.controller.switch_to(law)
        self._chosen = law
        if self.active:
            self._guide(law, self._q)

    def cancel(self, stamp_ns: int) -> None:
        """Cancel the present motion: brake the arm to rest along its path, and hold it; without a motion, do nothing.

        Args:
            stamp_ns: time stamp of the present state [ns].
        """
        if not self.moving or self.phase == "cancelled":
            return
        if self._parts[0].law is not None:
            brake = self._open_loop_brake(self._q)
            self._feedback_again()
            self._parts = [Part("cancelled", brake)]
            self._enter(stamp_ns)
            self._brakes_unseen = True
        else:
            self.phase = "cancelled"
            self.phases.append(("cancelled", stamp_ns))
            self._scaling.brake()
            self._added.fade()

    def release(self) -> None:
        """Stop commanding torque, because the arm was disabled."""
        self._feedback_again()
        self._added.clear()
        self.guiding.end()
        self.phase, self._parts = None, []

    def forget(self, stamp_ns: int) -> None:
        """Stop commanding torque because the arm's torque went off.

        Otherwise the arm would be pulled back to an old reference when torque comes on again. A motion under way is
        recorded as cancelled.

        Args:
            stamp_ns: time stamp of the newest state [ns].
        """
        if self.moving and self.phase != "cancelled":
            self.phases.append(("cancelled", stamp_ns))
        self.release()

    def update(self, stamp_ns: int, q: FloatArray) -> MotionStep | None:
        """Run one control cycle; return the torque to command and the reference, or None.

        None means that nothing is commanded, or that the state arrived out of order and is skipped.

        Args:
            stamp_ns: time stamp of the measured state [ns].
            q: measured posture, (n,) [rad].

        Raises:
            SafetyError: the arm is too far from its reference, the measured posture is not finite, or the time stamps
                stand still, go back, or jump ahead by more than `LONGEST_GAP_S`. An arm that is too far from its
                reference is braked from the next state on, and held where it comes to rest, unless it must not be
                held again (see `HoldWatch.lost`). In all other cases nothing is commanded any more.
        """
        dt = (stamp_ns - self._last_ns) / 1e9
        if self.phase is None:
            return None
        self._refuse_wrong_time(stamp_ns)
        if dt <= 0:
            return None  # a state that arrived out of order
        self._last_ns, self._q = stamp_ns, q
        if self._parts[0].law is not None and not np.isfinite(q).all():
            self._refuse_lost(q - self._reference[0], q, stamp_ns)
        step = dt if dt <= LONGEST_STEP_S else self._after_gap(dt, q, stamp_ns)
        if self._parts[0].law is not None:
            self._watch_open_loop(q, stamp_ns)
        if not self.controller.law.follows_reference:
            self._guide_by_hand(q)
        self._advance(step, stamp_ns)
        q_ref, dq_ref, ddq_ref = self._reference
        error, near = tracking_error(q, q_ref, MAX_TRACKING_ERROR_RAD)
        if not near:
            self._refuse_lost(error, q, stamp_ns)
        if self.phase == "trajectory" and self._parts[0].law is None and self._meter.add(error, self.tolerance):
            self._brake_beyond(error, stamp_ns)
        self._speed_left, self._brakes_unseen = 1.0, False
        if self._relief is not None:
            q_ref = self._relieved(self._relief, step, q)
        tau = self.guiding.update(dt, q, self.controller.update(dt, q, q_ref, dq_ref, ddq_ref))
        self._tau = tau + self._added.update(step, self.elapsed(stamp_ns))
        return MotionStep(self._tau, q_ref, dq_ref, ddq_ref, self.holds)

    # -- within a cycle ----------------------------------------------------------------------------------------

    def _refuse_wrong_time(self, stamp_ns: int) -> None:
        """Stop commanding and raise SafetyError if a time stamp [ns] is faulty, see `StampWatch.fault`.

        Path time is computed from the time stamps, so the present point on the path is then unknown.
        """
        fault = self._stamps.fault(self._last_ns, stamp_ns)
        if fault:
            what = "the motion was aborted, and nothing is commanded any more" if self.moving else "the arm is not held"
            self.forget(self._last_ns)
            raise SafetyError(f"{fault}: {what}; its driver brakes and lowers it")

    def _after_gap(self, dt: float, q: FloatArray, stamp_ns: int) -> float:
        """Exclude a gap in the states from path time, and continue the motion more slowly than before the gap.

        The motion continues more slowly because the hardware brakes the arm during a gap. If the present part of the
        motion has no feedback, it is ended.

        Args:
            dt: duration of the gap [s].
            q: measured posture after the gap, (n,) [rad].
            stamp_ns: time stamp of this posture [ns].

        Returns:
            Duration of the present cycle for the reference [s], a normal cycle time in place of `dt`.
        """
        self._speed_left = max(0.0, 1.0 - (dt - LONGEST_STEP_S) / LOST_BRAKE_S)
        if self._parts[0].law is not None:
            self._leave_open_loop(q, stamp_ns, f"joint states were lost for {dt:.3f} s")  # its braking path begins now
        elif self._brakes_unseen:
            self._parts = [Part("cancelled", Brake(q, self._speed_left * self.controller.velocity))]
            self._enter(stamp_ns)  # cancelled within the gap, from a posture of before it
        else:
            self._began_ns += round((dt - FIRST_DT_S) * 1e9)
            self._scaling.slowed(self._speed_left)
        return FIRST_DT_S

    def _advance(self, step: float, stamp_ns: int) -> None:
        """Compute the reference of this cycle; start the next part of the plan at the planned end of the present part.

        Args:
            step: duration of the cycle [s].
            stamp_ns: time stamp of the present state [ns].
        """
        passed, slope = self._scaling.advance(step)
        self._began_ns += round((step - passed) * 1e9)
        while self.phase != "cancelled" and len(self._parts) > 1 and self._parts[0].law is None:
            length = self._parts[0].path.duration + SETTLE_S
            if self.elapsed(stamp_ns) < length:
                break
            self._parts.pop(0)
            self._enter(self._began_ns + round(length * 1e9))
        q_ref, dq_ref, ddq_ref = self._reference
        self._parts[0].path.sample_into(self.elapsed(stamp_ns), q_ref, dq_ref, ddq_ref)
        last = self.phase in ("trajectory", "rest") and len(self._parts) == 1
        if last and self.elapsed(stamp_ns) >= self._parts[0].path.duration:
            self._parts = [Part("done", HoldPath(q_ref.copy()))]
            self._enter(stamp_ns)
            dq_ref[:], ddq_ref[:] = 0.0, 0.0
        self._scaling.scale(slope, dq_ref, ddq_ref)

    def _relieved(self, relief: Relief, step: float, q: FloatArray) -> FloatArray:
        """Return the reference positions plus displacements that reduce high currents of held joints, (n,) [rad].

        The motor of a held joint may push against friction with a high current. Then the position to hold is displaced
        slowly in the direction that lowers this current. During a motion the displacements return to zero.

        Args:
            relief: computes the change of the displacements.
            step: duration of the cycle [s].
            q: measured posture, (n,) [rad].
        """
        if self.moving or not self.controller.law.follows_reference:
            relief.reset()
            reduce_yielding(self._given, RECOVERY_RAD_S * step, self._reference[0], self._held)
            return self._held
        self._given += relief.step(step, q, self._tau / self.robot.joint_constants)
        np.clip(self._given, -MOST_YIELD_RAD, MOST_YIELD_RAD, out=self._given)
        np.add(self._reference[0], self._given, out=self._held)
        return self._held

    def _guide(self, law: TorqueLaw, q: FloatArray) -> None:
        """Start the monitor of hand guiding at the posture q (n,) [rad] if the law has no reference; else stop it."""
        if law.follows_reference:
            self.guiding.leave()
        else:
            self.guiding.begin(law, q)

    def _guide_by_hand(self, q: FloatArray) -> None:
        """Set the reference to the measured posture q (n,) [rad] of a hand-guided arm."""
        path = self._parts[0].path
        assert isinstance(path, HoldPath)
        path.posture[:] = q

    def _refuse_lost(self, error: FloatArray, q: FloatArray, stamp_ns: int) -> None:
        """Abort the motion and raise SafetyError because the tracking error is too large or not finite.

        The arm is braked and held, or released if a hold is not possible. During a part of the motion without feedback,
        finite errors are ignored: nothing is aborted or raised, because this part has its own limits of positions and
        speeds.

        Args:
            error: tracking errors, (n,) [rad].
            q: measured posture, (n,) [rad].
            stamp_ns: time stamp of this posture [ns].
        """
        worst = int(np.argmax(np.abs(error)))  # NaN counts as the largest
        if self._parts[0].law is not None and np.isfinite(error).all():
            return
        hopeless = self._watch.lost(stamp_ns, self.controller.law.uses_model)
        held = bool(np.isfinite(q).all()) and not hopeless
        reason = hopeless or ("the motion was aborted" if self.moving else "it was pushed, or torque is off")
        if held:
            limits = self.robot.velocity_limits
            self._stop_at(q, np.clip(self._speed_left * self.controller.velocity, -limits, limits), stamp_ns)
        else:
            self.release()
        self._speed_left, self._brakes_unseen = 1.0, False
        raise SafetyError(
            f"{self.robot.joint_names[worst]} is {np.rad2deg(error[worst]):.1f} deg off its reference, at most "
            f"{np.rad2deg(MAX_TRACKING_ERROR_RAD):.0f} deg are allowed; {reason}, and the arm "
            f"{'is held in place' if held else 'released: its driver brakes and lowers it'}"
        )

    def _brake_beyond(self, error: FloatArray, stamp_ns: int) -> None:
        """Brake the arm along its path because the tracking error of a joint exceeds its tolerance.

        Args:
            error: tracking errors, (n,) [rad].
            stamp_ns: time stamp of the present state [ns].
        """
        joint = int(np.argmax(np.abs(error) > self.tolerance))
        self.stopped_itself = (
            f"{self.robot.joint_names[joint]} was {error[joint]:.3f} rad off its reference, at most "
            f"{self.tolerance[joint]:.3f} rad are tolerated"
        )
        self.left_tolerance = True
        self.cancel(stamp_ns)

    def _watch_open_loop(self, q: FloatArray, stamp_ns: int) -> None:
        """End a part of the motion without feedback when its time is over, or before a joint exceeds the part's limits.

        Args:
            q: measured posture, (n,) [rad].
            stamp_ns: time stamp of this posture [ns].
        """
        part = self._parts[0]
        leaving = part.window.leaving(q, self.controller.velocity) if part.window is not None else None
        if leaving is not None:
            self._leave_open_loop(q, stamp_ns, f"{self.robot.joint_names[leaving[0]]} {leaving[1]}")
        elif self.elapsed(stamp_ns) >= part.path.duration:
            self._leave_open_loop(q, stamp_ns, "")

    def _leave_open_loop(self, q: FloatArray, stamp_ns: int, reason: str) -> None:
        """End a part of the motion without feedback: brake, return to the reference posture, then start the next part.

        The reference posture is the constant one of the part that ends.

        Args:
            q: measured posture, (n,) [rad].
            stamp_ns: time stamp of this posture [ns].
            reason: reason why the part ends early; "" at its planned end.
        """
        if reason:
            self.stopped_itself = f"stopped early after {self.elapsed(stamp_ns):.2f} s: {reason}"
        brake = self._open_loop_brake(q)
        back = approach(brake.end, self._reference[0], self.robot.joint_names, name="return")
        self._feedback_again()
        phase = self._parts[0].phase
        self._parts[:1] = [Part(phase, brake), Part(phase, back)]
        self._enter(stamp_ns)

    def _open_loop_brake(self, q: FloatArray) -> Brake:
        window = self._parts[0].window
        dq = self._speed_left * self.controller.velocity
        return Brake(q, dq) if window is None else Brake(q, dq, window.brake_rad_s2)

    def _stop_at(self, q: FloatArray, speed: FloatArray, stamp_ns: int) -> None:
        """Abort the motion, brake the arm, and hold it where it comes to rest.

        Args:
            q: measured posture, (n,) [rad].
            speed: joint velocities, (n,) [rad/s].
            stamp_ns: time stamp of this posture [ns].
        """
        self.left_tolerance, self._held_before_stop = False, self.holds
        self._feedback_again()
        self._forget(q)  # velocity estimates are unreliable after such an event
        phase: Activity = "cancelled" if self.moving or self.phase == "cancelled" else "hold"
        self._parts = [Part(phase, Brake(q, speed, STOP_RAD_S2))]
        self._enter(stamp_ns)

    def _feedback_again(self) -> None:
        """Switch back to the chosen control law if the present part of the motion has a law without feedback.

        The switch takes effect at once, because a law that is blended in slowly would not brake the arm.
        """
        if self._parts and self._parts[0].law is not None:
            self.controller.switch_to(self._chosen, at_once=True)

    def _reset(self, q: FloatArray, stamp_ns: int) -> None:
        self._forget(q)
        self._stamps.clear()
        self._last_ns = stamp_ns - round(FIRST_DT_S * 1e9)

    def _forget(self, q: FloatArray) -> None:
        self.controller.reset(q)
        self._added.fade(STOP_BLEND_S)
        self._given[:] = self._tau[:] = 0.0
        if self._relief is not None:
            self._relief.reset()  # the arm may stand elsewhere by now, which is no slip

    def _enter(self, stamp_ns: int) -> None:
        """Start the first of the remaining parts of the motion.

        Args:
            stamp_ns: time stamp at which the part begins [ns].
        """
        part = self._parts[0]
        self._before = self._before + self.elapsed(stamp_ns) if self.phase == part.phase == "trajectory" else 0.0
        self.phase, self._began_ns = part.phase, stamp_ns
        if part.phase != "hold" and (not self.phases or self.phases[-1][0] != part.phase):
            self.phases.append((part.phase, stamp_ns))
        self._scaling.begin(float(part.path.peak_velocities.max()))
        if part.added is not None:
            self._added.follow(part.added)
        else:
            self._added.fade()
        if part.law is not None:
            self.controller.switch_to(part.law)
