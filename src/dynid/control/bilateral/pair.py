"""Run-time supervision of two arms under one bilateral law: late states, diverging arms, and unexplained energy.

`ArmPair` commands both arms or neither. When it stops, its caller must disable both arms. If the message that disables
an arm is lost, that arm receives no more commands. Its safety guard then brakes, holds and lowers it, independently of
the other arm.

Passivity is observed (Hannaford and Ryu, IEEE Trans. Robotics and Automation 18, 2002): the pair must not gain more
kinetic energy K than external torques, such as those of hands and walls, supply. So the energy E must not be negative:

    E = integral of (P + margin) dt - change of K >= 0,   P = t_l . dq_l + (beta / alpha) t_f . dq_f,
    K = 1/2 dq_l . M_l dq_l + (beta / alpha) 1/2 dq_f . M_f dq_f,

with the external torques t of the observers, and a margin that is a safe fraction of the friction power. E is limited
to at most `CREDIT_J`, so that energy supplied long ago does not hide that the control adds energy now. If E falls below
-`BOUND_J`, the pair falls back to unilateral control, which has no control loop over both arms; if this happens again,
the pair stops.
"""

from dataclasses import dataclass, replace

import numpy as np

from dynid.control.bilateral.checks import equal, largest, largest_share, longest_at_limit, reported_path, within
from dynid.control.bilateral.equations import energy_terms
from dynid.control.bilateral.law import BilateralLaw, BilateralSettings
from dynid.errors import SafetyError
from dynid.robot import FloatArray, Robot

SIDES = ("leader", "follower")
MOST_AGE_S = 0.008  # largest age of a state: at 10 ms the pair is unstable
MOST_DIFFERENCE_RAD = 0.35
FAST_SHARE = 0.75  # share of the velocity limits that stops the pair, before the guards brake at the full limits
# Longest time at a torque limit; largest plausible external torque / limit
LONGEST_SATURATION_S, MOST_EXTERNAL_SHARE = 0.1, 0.7
FROZEN_S = 0.02  # duration of unchanged encoder counts after which frozen states are suspected
# Motion that cannot stop within an encoder count: joint velocity; kinetic energy divided by the sum of the torque
# limits [rad]. Hands and gears stopped simulated arms from at most 0.42 rad/s, at a wrist, and from 0.8e-4 rad.
MOVED_RAD_S, MOVED_RAD = 0.6, 1.2e-4
REPORTED_RAD = 0.01  # path by reported velocities at constant positions: four counts plus the gears' backlash
STUCK_S, STUCK_RAD = 0.1, 0.05  # least time without encoder counts, and least travel of the other arm meanwhile
CREDIT_J, BOUND_J, FRICTION_MARGIN = 0.05, 0.1, 0.3


@dataclass(frozen=True, eq=False)
class Reading:
    """State of one arm as its driver published it.

    Attributes:
        stamp_ns: time of the measurement [ns].
        q: positions, (n,) [rad].
        tau: torques that the driver applied up to the measurement, (n,) [N m]. They differ from the sent torques if the
            arm's safety guard changed them. None if they are unknown.
        dq: reported velocities, (n,) [rad/s]; None or NaN if unknown.
    """

    stamp_ns: int
    q: FloatArray
    tau: FloatArray | None = None
    dq: FloatArray | None = None


class Watch:
    """Monitor that detects whether the driver of an arm repeats old positions although the arm is moving.

    An arm must be moving if it was too fast to stop immediately when its positions last changed, or if the integral of
    its reported velocities exceeds `REPORTED_RAD`. It is expected to move, too, if the other arm moves by more than
    `STUCK_RAD`.
    """

    def __init__(self) -> None:
        self._q: FloatArray = np.zeros(0)
        self._other: FloatArray = np.zeros(0)
        self._reported_path: FloatArray = np.zeros(0)  # path by reported velocities at constant positions, (n,) [rad]
        self._since_ns = self._last_ns = 0
        self._moved = False  # whether the arm was too fast to stop at once when its positions last changed

    def frozen(self, reading: Reading, dq: FloatArray, energy_rad: float = 0.0) -> str:
        """Return why the arm must be moving although its encoder counts do not change; "" if it need not be moving.

        The result is also "" if the encoder counts have changed within the last `FROZEN_S`. A reason is the predicate
        of a sentence; the caller puts the subject, the positions of the arm, before it.

        Args:
            reading: state of this cycle.
            dq: velocities estimated in the previous cycle, (n,) [rad/s].
            energy_rad: travel over which the torque limits could stop the arm [rad]: its kinetic energy in the previous
                cycle divided by the sum of its torque limits.
        """
        step_s, self._last_ns = (reading.stamp_ns - self._last_ns) * 1e-9, reading.stamp_ns
        if not equal(reading.q, self._q):
            self._q, self._since_ns, self._reported_path = reading.q, reading.stamp_ns, np.zeros(len(reading.q))
            self._moved = largest(dq) > MOVED_RAD_S or energy_rad > MOVED_RAD
        if not (reading.stamp_ns - self._since_ns) * 1e-9 > FROZEN_S:
            return ""
        if self._moved:
            return "stopped changing while it moved"
        path_rad = 0.0 if reading.dq is None else reported_path(self._reported_path, reading.dq, step_s)
        return (
            f"do not change, but its velocities amount to a movement of {path_rad:.3f} rad"
            if path_rad > REPORTED_RAD
            else ""
        )

    def stuck(self, reading: Reading, other: FloatArray, *, aligning: bool) -> bool:
        """Return whether the other arm has moved far while the encoder counts of this arm did not change.

        Call it after `frozen` with the same state. The result is False while the follower aligns with the leader,
        because the leader may then stand still.

        Args:
            reading: state of this arm.
            other: posture of the other arm, (n,) [rad].
            aligning: whether the follower is still moving to the posture of the leader.
        """
        if aligning or self._since_ns == reading.stamp_ns or not len(self._other):
            self._other = other
        still_s = (reading.stamp_ns - self._since_ns) * 1e-9
        return still_s > STUCK_S and largest(other - self._other) > STUCK_RAD


class EnergyObserver:
    """Passivity observer of two bilaterally controlled arms.

    The energy E is the work of external torques, plus `FRICTION_MARGIN` times the energy that friction dissipates,
    minus the change of kinetic energy. It becomes negative if the control itself adds energy to the arms.

    Attributes:
        energy_j: energy E [J], at most `CREDIT_J`.
        given_j: work of the external torques, such as those of hands and walls [J].
        kinetic_j: kinetic energy of leader and follower [J].
    """

    def __init__(self, law: BilateralLaw) -> None:
        self._law = law
        self.energy_j = self.given_j = 0.0
        self.kinetic_j = (0.0, 0.0)
        self._kinetic: float | None = None

    def reset(self) -> None:
        """Restart the passivity observer with its energy E at the upper bound `CREDIT_J`."""
        self.energy_j, self._kinetic, self.kinetic_j = CREDIT_J, None, (0.0, 0.0)

    def update(self, dt: float) -> None:
        """Add one cycle of dt [s] to the energy E of the arms; call it after `BilateralLaw.update`."""
        settings, leader, follower = self._law.settings, self._law.leader, self._law.follower
        weight = settings.force_scale / settings.position_scale
        kinetic_l, power_l, friction_l = energy_terms(leader.rows, leader.inertia)
        kinetic_f, power_f, friction_f = energy_terms(follower.rows, follower.inertia)
        self.kinetic_j = kinetic_l, kinetic_f
        kinetic, power = kinetic_l + weight * kinetic_f, power_l + weight * power_f
        margin = friction_l + weight * friction_f
        self.given_j += power * dt
        gained = 0.0 if self._kinetic is None else kinetic - self._kinetic
        self.energy_j += (power + FRICTION_MARGIN * margin) * dt - gained
        self.energy_j, self._kinetic = min(self.energy_j, CREDIT_J), kinetic


class ArmPair:
    """Bilateral controller of two arms, which stops both arms at any fault.

    It keeps state, so each pair of leader and follower needs its own instance.

    Attributes:
        stopped: reason why no torques are commanded; "" while bilateral control runs.
        fell_back: reason for the fallback from the requested mode to "unilateral"; "" without a fallback.
        energy: passivity observer.
    """

    def __init__(self, robot: Robot, law: BilateralLaw) -> None:
        self.law, self.energy = law, EnergyObserver(law)
        self.stopped, self.fell_back = "not started", ""
        self._requested = law.settings
        self._most_speed = FAST_SHARE * robot.velocity_limits
        self._most_torque = float(law.limits.sum())
        self._now_ns = 0
        self._watches = (Watch(), Watch())
        self._saturated_s = np.zeros((2, robot.size))
        self._warm_up()

    def _warm_up(self) -> None:
        """Compile the functions of a cycle except those of the law, so that no control loop waits for the compiler."""
        still = np.zeros_like(self._most_speed)
        for stamp_ns in (0, round(2e9 * FROZEN_S)):
            self._frozen(Reading(stamp_ns, still, dq=still), Reading(stamp_ns, still, dq=still))
        self.energy.update(0.0)
        self._stop_reason(0.0, (still, still))

    def start(self, now_ns: int, leader: Reading, follower: Reading) -> None:
        """Start bilateral control of both arms at their present postures.

        Args:
            now_ns: present time [ns].
            leader: newest state of the leader.
            follower: newest state of the follower.

        Raises:
            SafetyError: a state is late, or the arms are too far apart.
        """
        if late := self._late(now_ns, leader, follower):
            raise SafetyError(f"cannot engage the arms: {late}")
        self.law.settings = self._requested
        self.check_postures(leader, follower)
        self._watches = (Watch(), Watch())
        self.energy.reset()
        self.stopped = self.fell_back = ""
        self._now_ns, self._saturated_s[:] = now_ns, 0.0

    def check_postures(self, leader: Reading, follower: Reading) -> None:
        """Reset the law to the present postures; raise SafetyError if they differ too much for bilateral control."""
        difference = self.law.reset(leader.q, follower.q)
        if not np.abs(difference).max() <= MOST_DIFFERENCE_RAD:
            joint = int(np.argmax(np.abs(difference)))
            raise SafetyError(
                f"cannot engage the arms: joint {joint + 1} is {difference[joint]:.2f} rad apart, expected at most "
                f"{MOST_DIFFERENCE_RAD} rad: move the arms to the same posture, or check the joint's sign"
            )

    def set(self, settings: BilateralSettings) -> None:
        """Replace the settings of bilateral control before its next start.

        Raises:
            SafetyError: bilateral control is running, so a change would move the arms.
        """
        if not self.stopped:
            raise SafetyError("the arms are engaged: disengage them before settings are changed")
        self.law.settings = self._requested = settings

    def stop(self, reason: str) -> None:
        """Stop commanding torques to both arms, and store the reason unless an earlier one is stored."""
        self.stopped = self.stopped or reason

    def update(
        self, now_ns: int, leader: Reading, follower: Reading, between: tuple[float, float] | None = None
    ) -> tuple[FloatArray, FloatArray] | None:
        """Run one cycle of bilateral control; return the torques (n,) [N m] of leader and follower.

        The result is None if bilateral control is stopped. In the cycle in which it stops, the torques only compensate
        gravity and velocity-dependent torques, so driving torques end before the arms' safety guards react.

        Args:
            now_ns: time of this cycle [ns].
            leader: state of the leader.
            follower: state of the follower.
            between: time from the previous to the present measurement of leader and follower [s]; None means the time
                since the last cycle.
        """
        if self.stopped:
            return None
        dt, self._now_ns = (now_ns - self._now_ns) * 1e-9, now_ns
        try:
            return self._torques(dt, now_ns, leader, follower, between)
        except SafetyError as error:
            self.stop(str(error))
        most = self.law.limits
        return np.clip(self.law.leader.bias, -most, most), np.clip(self.law.follower.bias, -most, most)

    def _torques(
        self, dt: float, now_ns: int, leader: Reading, follower: Reading, between: tuple[float, float] | None
    ) -> tuple[FloatArray, FloatArray]:
        """Return the torques (n,) [N m] of leader and follower by the bilateral law; raise SafetyError at any fault.

        Args:
            dt: time since the last cycle [s].
            now_ns: time of this cycle [ns].
            leader: state of the leader.
            follower: state of the follower.
            between: time from the previous to the present measurement of leader and follower [s]; None means dt.
        """
        if reason := self._late(now_ns, leader, follower) or self._frozen(leader, follower):
            raise SafetyError(reason)
        if not dt > 0.0:
            raise SafetyError(f"time went from one cycle to the next by {dt:.6f} s; expected more than 0")
        torques = self.law.update(dt, leader.q, follower.q, (leader.tau, follower.tau), between)
        self.energy.update(dt)
        if reason := self._stop_reason(dt, torques):
            raise SafetyError(reason)
        self._watch_energy()
        return torques

    def _frozen(self, leader: Reading, follower: Reading) -> str:
        observers, readings, aligning = (self.law.leader, self.law.follower), (leader, follower), self.law.aligning
        for side, (name, watch, arm) in enumerate(zip(SIDES, self._watches, observers, strict=True)):
            if why := watch.frozen(readings[side], arm.dq, self.energy.kinetic_j[side] / self._most_torque):
                return f"the {name}'s positions {why}"
            if watch.stuck(readings[side], readings[1 - side].q, aligning=aligning):
                return (
                    f"the {name}'s positions do not change, but the {SIDES[1 - side]} moves: does its encoder stand "
                    "still, or is it blocked?"
                )
        return ""

    @staticmethod
    def _late(now_ns: int, leader: Reading, follower: Reading) -> str:
        for name, reading in zip(SIDES, (leader, follower), strict=True):
            age_s = (now_ns - reading.stamp_ns) * 1e-9
            if not age_s <= MOST_AGE_S:
                return f"the {name}'s state is {1e3 * age_s:.1f} ms old, expected at most {1e3 * MOST_AGE_S:g} ms"
        return ""

    def _stop_reason(self, dt: float, torques: tuple[FloatArray, FloatArray]) -> str:
        """Return the reason why torques must not be sent to the arms; "" if they may be sent.

        Args:
            dt: time since the last cycle [s].
            torques: torques of leader and follower, (n,) each [N m].
        """
        distance, limits = largest(self.law.difference), self.law.limits
        if not distance <= MOST_DIFFERENCE_RAD:
            return f"the arms are {distance:.2f} rad apart, expected at most {MOST_DIFFERENCE_RAD} rad"
        longest_s, side, joint = longest_at_limit(torques[0], torques[1], limits, dt, self._saturated_s)
        if longest_s > LONGEST_SATURATION_S:
            return f"joint {joint + 1} of the {SIDES[side]} was at its torque limit for {LONGEST_SATURATION_S} s"
        for name, arm, speed in zip(SIDES, (self.law.leader, self.law.follower), self.law.speeds, strict=True):
            if fast := speed.excess(arm.dq):
                return f"the {name} is guided too fast: {fast}"
            if not within(arm.dq, self._most_speed):
                return f"the {name} moves faster than {FAST_SHARE:g} of its velocity limits"
            pushed, joint = largest_share(arm.external, limits)
            if not pushed <= MOST_EXTERNAL_SHARE:
                return f"joint {joint + 1} of the {name} carries an external torque of {pushed:.2f} of its torque limit"
        return ""

    def _watch_energy(self) -> None:
        if self.energy.energy_j >= -BOUND_J:
            return
        reason = f"both arms together gained {-self.energy.energy_j:.2f} J without a source"
        if self.law.settings.mode == "unilateral":
            raise SafetyError(reason)
        self.fell_back = reason
        self.law.settings = replace(self.law.settings, mode="unilateral")
        self.energy.reset()
