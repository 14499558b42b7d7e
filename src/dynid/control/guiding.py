"""Monitor of hand guiding: it damps fast motion, and holds an arm that moves too fast or that no hand moves.

A control law for hand guiding has no position feedback. So a payload that the hand releases, or an error of the model,
moves the arm. Motion faster than a first speed limit is damped. Above a second limit the arm is braked and held where
it comes to rest, in the same way as the driver holds an arm that it stops. The arm is also held if a load moves it (see
`LoadWatch`), or if a joint moves by more than `guiding_alone_rad` before hand guiding may begin. Hand guiding may begin
once the new law has taken over and the arm has stood still for `guiding_alone_s`, or at once if the arm was already
guided by hand under another law; both settings are in safety.yaml. The arm stays held until `hold` or `switch_to` of
`MotionExecutor` is called.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dynid.control.bilateral.observer import ArmObserver
from dynid.control.control_model import ControlModel
from dynid.control.controller import TorqueLaw
from dynid.control.dynamics_kernel import SingleState
from dynid.control.filters import PseudoDifferentiator
from dynid.control.guiding_speed import GuidingSpeed
from dynid.control.load_watch import LoadWatch
from dynid.control.model_laws import GravityCompensation
from dynid.hardware.safety.hold import Hold
from dynid.hardware.safety.settings import SafetySettings, load_safety
from dynid.robot import FloatArray, Robot

FADE_IN_S = 0.5  # time in which a law or the driver's commands fade in
FADE_S = 0.5  # time in which a hold fades out to the law
STANDING_RAD_S = 0.1  # joint velocity above which an arm counts as already guided when a law takes over
CREEPING_RAD_S = 0.03  # joint velocity below which the arm stands
FILTER_S = 0.02  # time constant of the velocity filter that is used without a model
RELEASED_M_S, RELEASED_RAD_S = 0.1, 0.5  # speed of a held arm above which its load is estimated anew: a hand let go
LONGEST_STEP_S = 0.02  # gap in the states above which the observer restarts


@dataclass(frozen=True, eq=False)
class GuidingComponents:
    """Components for the monitoring of hand guiding of one arm.

    Attributes:
        settings: settings of safety.yaml.
        speed: speed monitor and damping.
        hold: control law that brakes the arm and holds it where it comes to rest.
        load: detection of a load at the tool.
        caps: current limits of the joints, (n,) [A].
    """

    settings: SafetySettings
    speed: GuidingSpeed
    hold: Hold
    load: LoadWatch
    caps: FloatArray

    @classmethod
    def of(cls, robot: Robot) -> "GuidingComponents":
        """Return the components for hand guiding of a robot, with their functions compiled."""
        settings = load_safety(robot)
        hold = Hold(robot, settings)
        speed = GuidingSpeed(robot, settings, hold.damping * robot.joint_constants)
        caps = np.minimum(robot.current_limits, robot.torque_limits / robot.joint_constants)
        return cls(settings, speed, hold, LoadWatch(settings), caps)


class Guiding:
    """Monitor of one hand-guided arm, called once per cycle: it damps fast motion, and holds an arm that is too fast.

    Args:
        robot: robot with limits and kinematics; its safety.yaml has the limits of hand guiding.

    Attributes:
        held: reason why the arm is held instead of guided; "" if it is not held.
    """

    def __init__(self, robot: Robot) -> None:
        self._robot, self.held = robot, ""
        self._law: TorqueLaw | None = None
        self._observer: ArmObserver | None = None
        self._filter = PseudoDifferentiator(FILTER_S, robot.size)
        self._upward, self._none = np.zeros(3), np.zeros(robot.size)
        self._dq: FloatArray = self._none
        self._share = 0.0  # share of the hold in the torque, 0 to 1
        self._alone_s, self._start_q = 0.0, np.zeros(robot.size)

    @cached_property
    def components(self) -> GuidingComponents:
        """Components for hand guiding (speed monitor, hold, load detection), created at the first use."""
        return GuidingComponents.of(self._robot)

    def begin(self, law: TorqueLaw, q: FloatArray) -> None:
        """Start to monitor hand guiding; if the arm is being held, the holding torque fades out.

        An arm that already moves under another law without a reference is already guided by hand, so it may continue
        to move. Any other arm must first stand still.

        Args:
            law: the new control law, which follows no reference.
            q: measured posture, (n,) [rad].
        """
        led = self._law is not None and not self.held and float(np.abs(self._dq).max()) > STANDING_RAD_S
        if self._law is None and self._share == 0.0:  # the estimates are out of date
            self.components.hold.reset()
            if self._observer is not None:
                self._observer.reset(q)
        self.components.load.clear()
        self._filter.reset(q)
        dynamics = law.dynamics if isinstance(law, GravityCompensation) else None
        if isinstance(law, GravityCompensation) and isinstance(dynamics, SingleState):
            self._observe_with(law.model, dynamics, q)
        else:
            self._observer = None
        self._law, self.held, self._start_q = law, "", np.array(q)
        self._alone_s = 0.0 if led else FADE_IN_S + self.components.settings.guiding_alone_s

    def restart(self, law: TorqueLaw, q: FloatArray) -> None:
        """Restart the monitoring of hand guiding; the torque of a previous hold ends at once, without a fade.

        Call it instead of `begin` if the arm's torque is or was off, or if the driver moves the arm.

        Args:
            law: the control law, which follows no reference.
            q: measured posture, (n,) [rad].
        """
        self.end()
        self.begin(law, q)

    def leave(self) -> None:
        """Stop monitoring hand guiding because a law with a reference takes over.

        If the arm is being held, the holding torque fades out.
        """
        self._law, self.held = None, ""

    def end(self) -> None:
        """Stop monitoring hand guiding because no torque is commanded any more; a hold ends at once, without a fade."""
        self.leave()
        self._share = 0.0

    def update(self, dt: float, q: FloatArray, tau: FloatArray) -> FloatArray:
        """Return the torque (n,) [N m] to command: the control law's torque, with damping or hold if they are needed.

        Motion above the first speed limit is damped. Above the second limit, or if a load moves the arm, the arm is
        braked and held, and the holding torque replaces the law's torque. Without monitoring, the law's torque is
        returned unchanged.

        Args:
            dt: time since the last cycle [s].
            q: joint angles, (n,) [rad].
            tau: torque of the control law in this cycle, (n,) [N m].
        """
        if self._law is None and self._share == 0.0:
            return tau
        dq = self._dq = self._velocity(dt, q)
        if self._law is not None and not self.held:
            tau = self._limited(dt, q, dq, tau)
        if self._share > 0.0:
            tau = self._with_hold(dt, q, dq, tau)
        if self._observer is not None:
            self._observer.applied(tau)
        self.components.hold.track(tau / self._robot.joint_constants, dq)
        return tau

    # -- within a cycle ----------------------------------------------------------------------------------------

    def _observe_with(self, model: ControlModel, dynamics: SingleState, q: FloatArray) -> None:
        if self._observer is None or self._observer.dynamics is not dynamics:
            self._observer = ArmObserver(model, dynamics)
            self._observer.reset(q)
        else:
            self._observer.exchange(model)
        gravity = dynamics.arm.gravity
        self._upward = -gravity / max(float(np.linalg.norm(gravity)), 1e-9)

    def _velocity(self, dt: float, q: FloatArray) -> FloatArray:
        """Return the joint velocities of this cycle, (n,) [rad/s].

        The state observer gives them if there is a model; otherwise positions are differentiated and filtered.

        Args:
            dt: time since the last cycle [s].
            q: joint angles, (n,) [rad].
        """
        if self._observer is None:
            return self._filter.update(dt, q)
        if dt > LONGEST_STEP_S:
            self._observer.reset(q)
        else:
            self._observer.update(dt, q)
        return np.asarray(self._observer.dq)

    def _limited(self, dt: float, q: FloatArray, dq: FloatArray, tau: FloatArray) -> FloatArray:
        """Return the control law's torque with damping of fast motion, (n,) [N m]; begin a hold if a limit is exceeded.

        Args:
            dt: time since the last cycle [s].
            q: joint angles, (n,) [rad].
            dq: joint velocities, (n,) [rad/s].
            tau: torque of the control law, (n,) [N m].
        """
        speed = self.components.speed
        speed.update(q, dq)
        reason = self._early_motion(dt, q, dq) or speed.excess(dq) or self._loaded(dt, dq)
        if reason:
            self._begin_hold(reason, q, dq)
        return speed.damped(dq, tau)

    def _early_motion(self, dt: float, q: FloatArray, dq: FloatArray) -> str:
        """Return an error message if the arm moves before hand guiding may begin; "" if it does not.

        Hand guiding may begin once the new law has taken over and the arm has stood still for `guiding_alone_s`, or at
        once if the arm was already guided by hand. Until then, a joint must not move by more than `guiding_alone_rad`.

        Args:
            dt: time since the last cycle [s].
            q: joint angles, (n,) [rad].
            dq: joint velocities, (n,) [rad/s].
        """
        if self._alone_s <= 0.0:
            return ""
        self._alone_s -= dt
        if float(np.abs(dq).max()) > CREEPING_RAD_S:  # the arm does not stand yet
            self._alone_s = max(self._alone_s, self.components.settings.guiding_alone_s)
        moved = np.abs(q - self._start_q)
        if moved.max() <= self.components.settings.guiding_alone_rad:
            return ""
        joint = int(np.argmax(moved))
        return (
            f"{self._robot.joint_names[joint]} moved by {np.rad2deg(moved[joint]):.1f} deg while {self._name} took "
            "over; check the mount, the model and the payload, or guide the arm a second later"
        )

    @property
    def _name(self) -> str:
        return "nothing" if self._law is None else self._law.name

    def _loaded(self, dt: float, dq: FloatArray) -> str:
        """Return an error message if a load at the tool moves the arm, or "".

        The result is also "" if there is no observer of external torques, or while hand guiding may not begin yet: an
        arm that was not already guided by hand must first stand still for `guiding_alone_s` under the new law.

        Args:
            dt: time since the last cycle [s].
            dq: joint velocities, (n,) [rad/s].
        """
        load, speed, observer = self.components.load, self.components.speed, self._observer
        if observer is None or self._alone_s > 0.0:
            return ""
        load.update(dt, observer.external, dq, speed.posture.jacobian(), self._upward)
        if not load.found(speed.tool_share):
            return ""
        what = "hangs at" if load.force_n < 0.0 else "is missing at"
        return f"a load {what} the tool ({abs(load.force_n):.1f} N move it), or a hand that pulls like a load"

    def _begin_hold(self, reason: str, q: FloatArray, dq: FloatArray) -> None:
        """Start to brake the arm, and to hold it where it comes to rest.

        Args:
            reason: reason for the hold.
            q: joint angles, (n,) [rad].
            dq: joint velocities, (n,) [rad/s].
        """
        self.held, self._share = reason, 1.0
        self.components.hold.begin(dq)  # the load is the mean of the commanded torques
        if self._observer is not None:
            self._carry(self._observer, dq)

    def _carry(self, observer: ArmObserver, dq: FloatArray) -> None:
        """Restart the hold with new load currents, which are the currents that carry weight and payload of the arm.

        The load currents are computed from the model torque minus the observed external torque, and are clipped to the
        current limits.

        Args:
            observer: observer of the arm's external torques.
            dq: joint velocities, (n,) [rad/s].
        """
        means, most = self.components, self.components.caps
        carried = (observer.bias - observer.external) / self._robot.joint_constants
        means.hold.begin(dq)
        means.hold.load[:] = np.minimum(np.maximum(carried, -most), most)

    def _with_hold(self, dt: float, q: FloatArray, dq: FloatArray, tau: FloatArray) -> FloatArray:
        """Return the control law's torque blended with the torque of the controller that holds the arm, (n,) [N m].

        The weight of the holding torque is 1 while the arm is held, and then fades to 0.

        Args:
            dt: time since the last cycle [s].
            q: joint angles, (n,) [rad].
            dq: joint velocities, (n,) [rad/s].
            tau: torque of the control law, (n,) [N m].
        """
        means = self.components
        if not self.held:
            self._share = max(0.0, self._share - dt / FADE_S)
        elif self._observer is not None and self._is_fast(q, dq):
            self._carry(self._observer, dq)
        current = means.hold.drive(q, dq, None, means.caps, dt) - means.hold.damping * dq
        limited = np.minimum(np.maximum(current, -means.caps), means.caps)
        return tau + self._share * (limited * self._robot.joint_constants - tau)

    def _is_fast(self, q: FloatArray, dq: FloatArray) -> bool:
        """Return whether a held arm moves so fast that the currents that carry its load must be estimated anew.

        A joint is then faster than `RELEASED_RAD_S`, or a link end faster than `RELEASED_M_S`. Either the arm is still
        being braked, or a hand that pulled at the held arm has let go, and the currents still balance its pull.

        Args:
            q: joint angles, (n,) [rad].
            dq: joint velocities, (n,) [rad/s].
        """
        if float(np.abs(dq).max()) > RELEASED_RAD_S:
            return True
        self.components.speed.update(q, dq)
        return self.components.speed.tool_m_s > RELEASED_M_S
