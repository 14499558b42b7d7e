"""Contact detection: an observer, its error bounds and the force at the tool combined, online and on recordings."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynid.contact.error_bars import ErrorBars
from dynid.contact.force import ToolForce
from dynid.contact.motion_filter import MeasuredTorques, MotionFilter
from dynid.contact.observer import MomentumObserver
from dynid.contact.onset import OnsetTests
from dynid.control.control_model import ControlModel
from dynid.export.simple_friction import whole_friction
from dynid.model.dynamics import ArmModel
from dynid.model.model_file import TorqueDeviations
from dynid.robot import FloatArray, Robot

CONTACT_GAP_S = 0.1  # maximum gap within one contact [s], whose residual may cross a threshold more than once
SETTLING_S = 0.1  # settling time of velocity filter and observer from rest [s]
MOVING_RAD_S, MOVING_SETTLING_S = 0.05, 0.3  # speed of an arm in motion [rad/s] and its longer settling time [s]


class ContactSense:
    """Contact detector for one arm, updated with its state every cycle.

    Args:
        robot: the arm.
        arm: geometry and gravity of the arm as mounted.
        model: control model of the arm, with base parameters and friction.
        deviations: expected errors of the model's torques, from its model.yaml.
        measured: uncertainty of measured torques; None for exactly known torques, such as commands.
        options: keyword arguments of `MomentumObserver`.

    Attributes:
        observer: the momentum observer.
        bars: error bounds and contact thresholds of the observer's external torques, after the last update.
        motion: Kalman filter that estimates the arm's motion and the force at the tool.
        onset: statistical tests for the onset of a force at the tool, based on the innovations of `motion`.
        touched: whether the external torque of each joint exceeds its threshold, (n,).

    Raises:
        DataError: `deviations` is None.
    """

    def __init__(
        self,
        robot: Robot,
        arm: ArmModel,
        model: ControlModel,
        deviations: TorqueDeviations | None,
        measured: MeasuredTorques | None = None,
        **options: float,
    ) -> None:
        self.observer = MomentumObserver(arm, model, **options)
        law = whole_friction(robot, model.phi, model.friction)  # includes the budget of friction among the parameters
        delay_s = options.get("torque_delay_s", 0.0)
        self.motion = MotionFilter(robot, arm, model, deviations, delay_s, measured=measured)
        self.bars = ErrorBars(robot, self.observer, law, deviations, self.motion.jitter)
        self._force, self._q, self._began_ns, self._last_ns = ToolForce(robot, arm.mdh), np.zeros(robot.size), 0, 0
        self.onset = OnsetTests(self.motion, self._force.largest_n)
        self._settled = self._moved = False
        self.touched: NDArray[np.bool_] = np.zeros(robot.size, dtype=bool)

    def update(self, stamp_ns: int, q: FloatArray, tau: FloatArray) -> bool:
        """Process one state of the arm and return whether the arm is in contact.

        Args:
            stamp_ns: timestamp of the state [ns]; a state that is not newer than the last one is ignored.
            q: measured positions, (n,) [rad].
            tau: mean motor torques between the last state and this one, (n,) [N m].

        Raises:
            SafetyError: a position is not finite, or a prismatic or spring-loaded joint is beyond +-3.5 m or rad
                (`dynid.codegen.emit.RANGE`), where the generated dynamics are not valid. Joints whose torques are
                periodic are shifted into this range.
        """
        self.observer.update(stamp_ns, q, None, tau)
        if not self.observer.restarted and stamp_ns <= self._last_ns:
            return self.contact
        dt, self._last_ns, self._q = (stamp_ns - self._last_ns) * 1e-9, stamp_ns, q
        if self.observer.restarted:
            self._began_ns, dt = stamp_ns, 0.0
            self.motion.reset(q)
            self.onset.reset()
            self.onset.contact = False
            self._settled = self._moved = False
        if dt > 0.0:
            self.motion.update(dt, q, tau)
            self.bars.update(dt, tau)
            self._test(dt, (stamp_ns - self._began_ns) * 1e-9, q)
        self.touched = (np.abs(self.observer.torque) > self.bars.threshold) & self._settled
        return self.contact

    def _test(self, dt: float, since_s: float, q: FloatArray) -> None:
        """Test whether a force at the tool has begun or, in contact, whether it has ended.

        The method does nothing until enough time has passed since the first state to estimate the arm's motion.

        Args:
            dt: time since the last state [s].
            since_s: time since the first state, or since the first one after a gap [s].
            q: positions, (n,) [rad].
        """
        if not self._settled:
            self._settled = self._found_motion(since_s, q)
        elif self.onset.contact:
            self.onset.end_contact_if_released(dt)
        elif self.onset.update():
            self.onset.accept_hypothesis()

    def _found_motion(self, since_s: float, q: FloatArray) -> bool:
        """Return whether enough time has passed since the first state for a good estimate of the arm's motion.

        A moving arm needs more time than an arm at rest. After this time, the motion filter of a moving arm is
        restarted with the velocity estimate of the momentum observer.

        Args:
            since_s: time since the first state, or since the first one after a gap [s].
            q: positions, (n,) [rad].
        """
        if since_s < SETTLING_S:
            return False
        self._moved |= bool((np.abs(self.observer.velocity) > MOVING_RAD_S).any())
        if self._moved and since_s < MOVING_SETTLING_S:
            return False
        if self._moved:
            self.motion.reset(q, self.observer.velocity)
            self.onset.reset()
        return True

    @property
    def settled(self) -> bool:
        """Whether enough time has passed since the first state to judge contact."""
        return self._settled

    @property
    def contact(self) -> bool:
        """Whether the external torques or the onset tests indicated contact in the last update."""
        return self.onset.contact or bool(self.touched.any())

    def force(self) -> tuple[FloatArray, FloatArray]:
        """Return the force at the tool (3,) [N] in the URDF base link and its covariance (3, 3) [N^2].

        Until the onset tests detect contact, the force is a least-squares estimate from the observer's external
        torques. Afterwards the motion filter estimates it. This filter models friction of unknown direction as quickly
        changing noise, which averages out. The stiction of a joint at rest persists, so the filter's covariance alone
        would be too small. The covariance that stiction adds to a least-squares estimate is therefore added to it.
        """
        if self.onset.contact:
            own, hidden = self.motion.lasting_deviations()
            clear, stuck = (self._force.of(self._q, 0.0 * own, one)[1] for one in (own, np.hypot(own, hidden)))
            return self.motion.x[-3:].copy(), self.motion.P[-3:, -3:] + stuck - clear
        return self._force.of(self._q, self.observer.torque, self.bars.deviation)

    def jacobian(self, q: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the tool's Jacobian (3, n) [m] and position (3,) [m] in the URDF base link, at q (n,) [rad]."""
        return self._force.jacobian(q)

    def along(self, names: tuple[str, ...], time: FloatArray, q: FloatArray, tau: FloatArray) -> "list[Contact]":
        """Detect contact along a recording and return all contacts, in order of time.

        Args:
            names: joint names, (n,).
            time: timestamps, (N,) [s].
            q: positions, (N, n) [rad].
            tau: mean torques between the previous timestamp and this one, (N, n) [N m].
        """
        found: list[Contact] = []
        self.observer.reset()
        for k, now in enumerate(time.tolist()):
            if not self.update(round(now * 1e9), q[k], tau[k]):
                continue
            bars, torque = self.bars, self.observer.torque
            force, covariance = self._force.of(self._q, torque, bars.deviation)
            joint = names[int(np.argmax(np.abs(torque) / bars.threshold))]
            contact = Contact(now, now, joint, torque.copy(), bars.deviation, force, np.sqrt(np.diag(covariance)))
            if not found or now - found[-1].end_s > CONTACT_GAP_S:
                found.append(contact)
                continue
            before = found[-1]
            largest = contact if np.linalg.norm(force) > np.linalg.norm(before.force) else before
            found[-1] = replace(largest, begin_s=before.begin_s, end_s=now, joint=before.joint)
        return found


@dataclass(frozen=True, eq=False)
class Contact:
    """One contact: start, end, first joint in contact, largest force, and external torques at the time of this force.

    Attributes:
        begin_s: time of the first state in contact [s].
        end_s: time of the last state in contact [s].
        joint: joint with the largest ratio of external torque to threshold when contact began.
        torque: external torques at the time of the largest force, (n,) [N m].
        torque_deviation: standard deviations of these torques, (n,) [N m].
        force: largest force at the tool in the URDF base link, (3,) [N].
        force_deviation: standard deviation of the force, (3,) [N].
    """

    begin_s: float
    end_s: float
    joint: str
    torque: FloatArray
    torque_deviation: FloatArray
    force: FloatArray
    force_deviation: FloatArray

    def as_dict(self, start_s: float = 0.0) -> dict[str, Any]:
        """Return the contact as a dictionary for JSON, with times relative to `start_s` [s]."""
        lists = ("torque", "torque_deviation", "force", "force_deviation")
        units = {"torque": "nm", "force": "n"}
        rows = {f"{key}_{units[key.split('_')[0]]}": getattr(self, key).tolist() for key in lists}
        return {"begin_s": self.begin_s - start_s, "end_s": self.end_s - start_s, "joint": self.joint} | rows
