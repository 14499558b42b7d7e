"""Four-channel bilateral control in joint space, with the identified model as feed-forward.

A hand moves the leader l; the follower f acts on the environment. The goals are zero difference between their positions
and zero sum of their external torques (Sakaino, Sato and Ohnishi, IEEE Trans. Industrial Electronics 58, 2011). The law
commands accelerations, so that control of the position difference and of the torque sum are decoupled. alpha is the
scale of positions around a posture c, beta the scale of torques; d and t are the disturbance and the external torque
from each arm's observer; `offset` is the position difference at the start, which decreases to zero while the follower
moves to the posture of the leader:

    y = alpha (q_l - c) - (q_f - c) - offset,               u = K_P y + K_V y' + r (alpha d_l - d_f),
    s = k (M_l + alpha beta M_f)^-1 (t_l + beta t_f) - (d_l + alpha d_f) / (1 + alpha^2) - b dq_l,
    a_l = s - alpha u / (1 + alpha^2),                      a_f = alpha s + u / (1 + alpha^2),
    tau = M(q) a + C dq + g + share F.

With k = 1 and a perfect model, the control of the torque sum lets both arms move like free arms that are bolted
together. So force control adds no dynamics that an environment could excite. b damps motion that the hand does not
constrain, such as the elbow of a seven-joint arm. r is below 1. With r = 1 the law would integrate the difference of
both arms' disturbances. Stiction makes part of this difference unobservable, so the integral would drift.

A fraction of the friction, `share` in the equations, is compensated. In free motion this fraction is so small that a
released arm comes to rest even if its gears are warmer, with less friction, than the model assumes. While the follower
presses, the fraction is so large that forces pass almost unchanged between hand and environment.

There are two simpler modes. In "force_reflecting" the follower tracks the leader's position, and its external torque
t_f acts on the leader. In "unilateral" the follower tracks the leader's position, and no torque is reflected.

In code these equations are `four_channel_accelerations`, `unilateral_accelerations` and `torque` of the module
`equations`.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from dynid.control.bilateral import equations
from dynid.control.bilateral.checks import largest
from dynid.control.bilateral.equations import CENTRE, DIFFERENCE, LAW_ROWS, LOWER, MOST, OFFSET, UPPER
from dynid.control.bilateral.observer import ArmObserver
from dynid.control.control_model import ControlModel
from dynid.control.controller import Gains
from dynid.control.dynamics_kernel import SingleState
from dynid.control.guiding_speed import GuidingSpeed
from dynid.errors import ConfigurationError
from dynid.hardware.safety.hold import Hold
from dynid.hardware.safety.settings import load_safety
from dynid.robot import FloatArray, Robot

Mode = Literal["four_channel", "force_reflecting", "unilateral"]
MODES: dict[Mode, int] = {
    "four_channel": equations.FOUR_CHANNEL,
    "force_reflecting": equations.FORCE_REFLECTING,
    "unilateral": equations.UNILATERAL,
}
RANGES = {
    "position_scale": (0.1, 3.0),
    "force_scale": (0.1, 3.0),
    "stiffness_1_s2": (1.0, 2500.0),
    "damping_1_s": (1.0, 100.0),
    "force_gain": (0.1, 2.0),
    "rejection": (0.0, 0.95),
    "felt_damping_1_s": (0.0, 20.0),
    "friction_share_free": (0.0, 1.0),
    "friction_share_pressed": (0.0, 1.0),
}
SYMBOLS = ("alpha", "beta", "K_P", "K_V", "k", "r", "b", "share_free", "share_pressed")  # in the order of RANGES
PRESSED_NM = (0.4, 1.0)  # norms of the follower's external torque at which `pressed` leaves 0 and reaches 1
STOP_ZONE_RAD = 0.12  # width of the spring in front of the joint limits


@dataclass(frozen=True)
class BilateralSettings:
    """Settings of the bilateral control law of two arms, leader and follower.

    The symbols are those of the equations in the docstring of the module `dynid.control.bilateral.law`.

    Attributes:
        mode: "four_channel", "force_reflecting" or "unilateral".
        position_scale: scale alpha of positions, from leader to follower.
        force_scale: scale beta of torques, from follower to leader.
        stiffness_1_s2: gain K_P of the position difference.
        damping_1_s: gain K_V of the velocity difference.
        force_gain: gain k of the torque sum.
        rejection: fraction r of the difference between both arms' disturbances that is compensated.
        felt_damping_1_s: damping b of the leader's motion.
        friction_share_free: compensated fraction of the modelled friction in free motion.
        friction_share_pressed: compensated fraction of the modelled friction while the follower presses on something.
    """

    mode: Mode = "four_channel"
    position_scale: float = 1.0
    force_scale: float = 1.0
    stiffness_1_s2: float = 1600.0
    damping_1_s: float = 80.0
    force_gain: float = 1.0
    rejection: float = 0.7
    felt_damping_1_s: float = 3.0
    friction_share_free: float = 0.7
    friction_share_pressed: float = 0.975

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ConfigurationError(f"mode is '{self.mode}'; expected one of {', '.join(MODES)}")
        for name, (low, high) in RANGES.items():
            if not low <= getattr(self, name) <= high:
                raise ConfigurationError(f"{name} is {getattr(self, name)}; expected {low:g} to {high:g}")

    def gains(self) -> Gains:
        """Return the gains of bilateral control, keyed by their symbols in the equations, see `SYMBOLS`."""
        return dict(zip(SYMBOLS, self.values, strict=True))

    @cached_property
    def values(self) -> equations.Gains:
        """Gains of bilateral control as a tuple in the order of `SYMBOLS`."""
        alpha, beta, K_P, K_V, k, r, b, free, pressed = (float(getattr(self, name)) for name in RANGES)
        return alpha, beta, K_P, K_V, k, r, b, free, pressed


class BilateralLaw:
    """Bilateral control law, which computes the torques of two arms from their measured postures.

    It keeps state, so each pair of leader and follower needs its own instance.

    Args:
        robot: the robot model of both arms.
        leader: identified model of the leader.
        follower: identified model of the follower.
        dynamics: inverse dynamics of the arms as mounted.
        settings: settings of the law; None means the defaults.
        centre: posture c around which positions are scaled, (n,) [rad]; None is the rest posture.
        delay_cycles: number of cycles between sending a torque and its effect.

    Attributes:
        settings: settings, which may be exchanged between two cycles.
        leader: observer of the leader.
        follower: observer of the follower.
        difference: position difference y of the arms, (n,) [rad].
        speeds: speed monitors of leader and follower, with the limits of hand guiding.
    """

    def __init__(
        self,
        robot: Robot,
        leader: ControlModel,
        follower: ControlModel,
        dynamics: SingleState,
        settings: BilateralSettings | None = None,
        centre: FloatArray | None = None,
        delay_cycles: int = 1,
    ) -> None:
        self.settings = settings or BilateralSettings()
        self.leader = ArmObserver(leader, dynamics, delay_cycles=delay_cycles)
        self.follower = ArmObserver(follower, dynamics, delay_cycles=delay_cycles)
        rows = self._rows = np.zeros((LAW_ROWS, robot.size))
        self.difference: FloatArray = rows[DIFFERENCE]
        self._offset: FloatArray = rows[OFFSET]
        self._most: FloatArray = rows[MOST]
        rows[CENTRE] = robot.rest_posture if centre is None else centre
        rows[LOWER], rows[UPPER] = robot.lower + STOP_ZONE_RAD, robot.upper - STOP_ZONE_RAD
        rows[MOST] = robot.torque_limits
        safety = load_safety(robot)
        damping = Hold(robot, safety).damping * robot.joint_constants
        self.speeds = GuidingSpeed(robot, safety, damping), GuidingSpeed(robot, safety, damping)
        self.reset(np.zeros(robot.size), np.zeros(robot.size))
        self._torques(0.001, 0.0)  # compile before the control loop starts
        self.difference[:] = self._offset[:] = 0.0

    def reset(self, q_leader: FloatArray, q_follower: FloatArray) -> FloatArray:
        """Restart bilateral control with both arms at rest at their measured postures, (n,) each [rad].

        In the following cycles the follower moves slowly to the posture of the leader.

        Returns:
            Position difference that the follower has to travel, (n,) [rad]; positive if its position must increase.
        """
        self.leader.reset(q_leader)
        self.follower.reset(q_follower)
        self._offset[:] = equations.position_difference(
            self._rows, self.settings.values[0], self.leader.rows, self.follower.rows
        )
        return self._offset.copy()

    @property
    def aligning(self) -> bool:
        """Whether the follower is still moving to the leader's posture after the start."""
        return bool(largest(self._offset) != 0.0)

    @property
    def pressed(self) -> float:
        """Confidence that the follower presses on something, 0 to 1."""
        low, high = PRESSED_NM
        pressing = math.sqrt(self.follower.external @ self.follower.external)
        return min(max((pressing - low) / (high - low), 0.0), 1.0)

    @property
    def limits(self) -> FloatArray:
        """Largest torque that bilateral control commands to each joint, (n,) [N m]."""
        return self._most

    def update(
        self,
        dt: float,
        q_leader: FloatArray,
        q_follower: FloatArray,
        in_force: tuple[FloatArray | None, FloatArray | None] = (None, None),
        between: tuple[float, float] | None = None,
    ) -> tuple[FloatArray, FloatArray]:
        """Run one cycle of bilateral control; return the torques (n,) [N m] of leader and follower.

        Args:
            dt: time since the last cycle [s].
            q_leader: measured posture of the leader, (n,) [rad].
            q_follower: measured posture of the follower, (n,) [rad].
            in_force: torques in force, as reported by the drivers of leader and follower, (n,) [N m] each; None means
                that the torques sent earlier are in force.
            between: time from the previous to the present measurement of leader and follower [s]; None means dt.

        Raises:
            DataError: dt is not positive.
            SafetyError: a joint is outside the range for which the dynamics are computed.
        """
        pressed = self.pressed
        own = (dt, dt) if between is None else between
        self.leader.update(own[0], q_leader, pressed, in_force[0])
        self.follower.update(own[1], q_follower, pressed, in_force[1])
        torques = self._damped(self._torques(dt, pressed))
        self.leader.applied(torques[0])
        self.follower.applied(torques[1])
        return torques

    def _damped(self, torques: tuple[FloatArray, FloatArray]) -> tuple[FloatArray, FloatArray]:
        """Return the torques (n,) [N m] of leader and follower with added damping, clipped to the torque limits.

        Damping is added if an arm moves faster than the speed limits of hand guiding.

        Args:
            torques: torques of the control law for leader and follower, (n,) each [N m].
        """
        found = []
        for arm, speed, tau in zip((self.leader, self.follower), self.speeds, torques, strict=True):
            speed.update_bound(arm.q, arm.dq)
            found.append(equations.limited(speed.damped(arm.dq, tau), -self._most, self._most))
        return found[0], found[1]

    def _torques(self, dt: float, pressed: float) -> tuple[FloatArray, FloatArray]:
        leader, follower, found = self.leader, self.follower, np.empty((2, len(self._most)))
        equations.torques(
            self._rows,
            self.settings.values,
            MODES[self.settings.mode],
            dt,
            pressed,
            leader.rows,
            leader.inertia,
            follower.rows,
            follower.inertia,
            found,
        )
        return found[0], found[1]
