"""Four-channel bilateral control in joint space, with the identified model as its feed-forward.

The leader l is moved by a hand, the follower f by what it meets. Their positions shall differ by nothing and the
torques from outside add up to nothing, as Sakaino, Sato and Ohnishi ask for (IEEE Trans. Industrial Electronics 58,
2011), by accelerations, so that both modes are decoupled. With alpha the scale of positions around a posture c, beta
that of torques, d and t the disturbance and torque from outside of each arm's observer,

    y = alpha (q_l - c) - (q_f - c) - offset,               u = K_P y + K_V y' + r (alpha d_l - d_f),
    s = k (M_l + alpha beta M_f)^-1 (t_l + beta t_f) - (d_l + alpha d_f) / (1 + alpha^2) - b dq_l,
    a_l = s - alpha u / (1 + alpha^2),                      a_f = alpha s + u / (1 + alpha^2),
    tau = M(q) a + C dq + g + share F.

With k = 1 and a perfect model the sum mode is what two free arms that are bolted together do: force control adds no
dynamics of its own that an environment could excite. b damps what no hand holds, such as the elbow of an arm with seven
joints. r is below 1: gears that stick leave the difference of both torques open, and an integral of it would drift.

Friction is compensated by two shares: in free motion so little that an arm that is let go comes to rest though its
gears are warmer than the model knows; where the follower presses so much that hand and wall exchange what they should.

The modes below it need less: "force_reflecting" makes the follower servo the leader's position, and the leader feels
t_f; "unilateral" does the same, and the leader feels nothing.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from dynid.control.bilateral.observer import ArmObserver
from dynid.control.control_model import ControlModel
from dynid.control.controller import Gains
from dynid.control.dynamics_kernel import InverseDynamics
from dynid.errors import ConfigurationError
from dynid.robot import FloatArray, Robot

Mode = Literal["four_channel", "force_reflecting", "unilateral"]
MODES: tuple[Mode, ...] = ("four_channel", "force_reflecting", "unilateral")
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
SYMBOLS = ("alpha", "beta", "K_P", "K_V", "k", "r", "b", "share_free", "share_pressed")  # of RANGES
ALIGN_RAD_S = 0.3  # how fast the follower is led to where the leader is when both are engaged
PRESSED_NM = (0.4, 1.0)  # length of the follower's external torques from which it may press, and surely does
STOP_ZONE_RAD, STOP_1_S2, STOP_1_S = 0.12, 400.0, 20.0  # a spring before the limit where the guard takes the current


@dataclass(frozen=True)
class BilateralSettings:
    """Settings of a pair, by the symbols of the module.

    Attributes:
        mode: see the module.
        position_scale, force_scale: alpha, from leader to follower; beta, from follower to leader.
        stiffness_1_s2, damping_1_s: K_P, K_V.
        force_gain, rejection, felt_damping_1_s: k, r, b.
        friction_share_free, friction_share_pressed: how much of the modelled friction is compensated.
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
        """By symbol, as an experiment records them."""
        return {symbol: float(getattr(self, name)) for symbol, name in zip(SYMBOLS, RANGES, strict=True)}


class BilateralLaw:
    """Torques of both arms from both measured postures; it keeps state, so one per pair.

    Args:
        robot: what both arms are.
        leader, follower: the model of either arm.
        centre: c, (n,) [rad]; None is the rest posture.
        delay_cycles: see `ArmObserver`.

    Attributes:
        settings: may be exchanged between two cycles.
        difference: y, (n,) [rad].
    """

    def __init__(
        self,
        robot: Robot,
        leader: ControlModel,
        follower: ControlModel,
        inverse_dynamics: InverseDynamics,
        settings: BilateralSettings | None = None,
        centre: FloatArray | None = None,
        delay_cycles: int = 1,
    ) -> None:
        self.settings = settings or BilateralSettings()
        self.leader = ArmObserver(leader, inverse_dynamics, delay_cycles=delay_cycles)
        self.follower = ArmObserver(follower, inverse_dynamics, delay_cycles=delay_cycles)
        self.difference, self._offset = np.zeros((2, robot.size))
        self._centre = robot.rest_posture if centre is None else centre
        self._most = robot.torque_limits
        self._lower, self._upper = robot.lower + STOP_ZONE_RAD, robot.upper - STOP_ZONE_RAD

    def reset(self, q_leader: FloatArray, q_follower: FloatArray) -> FloatArray:
        """Start at rest where both arms are, (n,) each [rad]; the follower is then led to the leader's posture.

        Returns:
            How far it has to go, (n,) [rad].
        """
        self.leader.reset(q_leader)
        self.follower.reset(q_follower)
        self._offset = self._apart()
        return self._offset

    @property
    def aligning(self) -> bool:
        """Whether the follower is still being led to the leader's posture."""
        return bool(self._offset.any())

    @property
    def pressed(self) -> float:
        """How surely the follower presses on something, 0 to 1."""
        low, high = PRESSED_NM
        return float(np.clip((np.linalg.norm(self.follower.external) - low) / (high - low), 0.0, 1.0))

    @property
    def limits(self) -> FloatArray:
        """Largest torque that is commanded, (n,) [N m]."""
        return self._most

    def update(
        self,
        dt: float,
        q_leader: FloatArray,
        q_follower: FloatArray,
        in_force: tuple[FloatArray | None, FloatArray | None] = (None, None),
        between: tuple[float, float] | None = None,
    ) -> tuple[FloatArray, FloatArray]:
        """Torques (n,) [N m] of leader and follower for measured postures (n,) [rad], dt [s] after the last ones.

        `in_force` are the torques that both drivers report, (n,) [N m] each; None: what was sent. `between` is the time
        from either arm's measurement to its next [s], where that is not dt.

        Raises:
            DataError: dt is not positive.
            SafetyError: a joint is beyond what the dynamics are computed for.
        """
        pressed = self.pressed
        own = (dt, dt) if between is None else between
        self.leader.update(own[0], q_leader, pressed, in_force[0])
        self.follower.update(own[1], q_follower, pressed, in_force[1])
        self._offset = self._offset - np.clip(self._offset, -ALIGN_RAD_S * dt, ALIGN_RAD_S * dt)
        self.difference = self._apart() - self._offset
        a_leader, a_follower = self._accelerations()
        return self._torque(self.leader, a_leader, pressed), self._torque(self.follower, a_follower, pressed)

    def _apart(self) -> FloatArray:
        alpha = self.settings.position_scale
        return np.asarray(alpha * (self.leader.q - self._centre) - (self.follower.q - self._centre))

    def _accelerations(self) -> tuple[FloatArray, FloatArray]:
        """a_l and a_f, (n,) each [rad/s^2]."""
        settings, leader, follower = self.settings, self.leader, self.follower
        alpha, beta, own = settings.position_scale, settings.force_scale, 1.0 + settings.position_scale**2
        u = settings.stiffness_1_s2 * self.difference + settings.damping_1_s * (alpha * leader.dq - follower.dq)
        if settings.mode == "four_channel":
            both = leader.inertia + alpha * beta * follower.inertia
            s = settings.force_gain * np.linalg.solve(both, leader.external + beta * follower.external)
            s -= (leader.disturbance + alpha * follower.disturbance) / own + settings.felt_damping_1_s * leader.dq
            u += settings.rejection * (alpha * leader.disturbance - follower.disturbance)
            return s - alpha / own * u, alpha * s + u / own
        felt = leader.external + (beta * follower.external if settings.mode == "force_reflecting" else 0.0)
        s = np.linalg.solve(leader.inertia, felt) - settings.felt_damping_1_s * leader.dq
        return s - leader.disturbance, alpha * s + u - settings.rejection * follower.disturbance

    def _torque(self, arm: ArmObserver, acceleration: FloatArray, pressed: float) -> FloatArray:
        """tau, (n,) [N m], with a spring before joint limits; through the difference the hand feels it, too."""
        beyond = arm.q - np.clip(arm.q, self._lower, self._upper)
        acceleration = acceleration - STOP_1_S2 * beyond - STOP_1_S * arm.dq * (arm.dq * beyond > 0.0)
        free = self.settings.friction_share_free
        share = free + pressed * (self.settings.friction_share_pressed - free)
        tau = np.clip(arm.inertia @ acceleration + arm.bias + share * arm.friction, -self._most, self._most)
        arm.applied(tau)
        return np.asarray(tau)
