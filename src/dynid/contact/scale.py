"""Payload estimation: least squares on the innovations of `MotionFilter`.

A body with ten parameters d in the last link requires torques Y_L(q, v, a) d that a model of the arm alone lacks. They
affect the filter's innovations like unknown torques B(t) c with B = -Y_L and c = d (see `dynid.contact.innovations`).
Innovations are white noise, so least squares weights every sample by its information. A moving joint gives much
information, a reversing or sticking joint almost none. Lasting errors of the model's torques (`lasting_nm` of
model.yaml) are part of the filter's state, so they count once and not in every cycle.

If gears are colder or warmer than during identification, their friction differs by a factor. The effect is easily
mistaken for a weight, so this factor is an additional unknown. `reset` keeps its estimate by default.

`PointMasses` computes the estimate. `Scale` repeatedly sets the payload in the filter's model to this estimate. The
torques are linear in the payload's parameters, so only the difference from the set payload remains unknown.
"""

import numpy as np

from dynid.contact.motion_filter import MotionFilter
from dynid.contact.observer import LONGEST_STEP_S
from dynid.contact.payload import HeldMass
from dynid.contact.point_masses import BODY, PointMasses
from dynid.control.control_model import ControlModel
from dynid.model.dynamics import ArmModel
from dynid.model.model_file import TorqueDeviations
from dynid.model.regressor import columns_of_last_link
from dynid.robot import FloatArray, Robot

FRICTION_CHANGE = 0.1  # deviation of the relative friction change of cold or warm gears
REGRESSOR_CYCLES = 10  # cycles between updates of Y_L, which changes with the posture
ACCELERATION_S = 0.02  # averaging time of accelerations [s]
MODEL_CYCLES, FIRST_MODEL_CYCLE = 50, 100  # cycles between two updates of the filter's model, and before the first
SETTLING_S = 0.1  # settling time of the filter from rest [s]


class Scale:
    """Estimator of an arm's payload, updated every cycle.

    Args:
        robot: the robot.
        arm: geometry and gravity of the arm as mounted.
        model: model of the arm without payload.
        errors: errors of the model's torques from model.yaml.
        torque_delay_s: delay from the torque given to `update` until it acts at the motors [s].

    Attributes:
        motion: filter of the arm's motion, whose innovations are evaluated.
        restarted: whether the last update was the first one, or the first after a gap.
        changed_kg: absolute change of the payload mass in the filter's model by the last update.

    Raises:
        DataError: `errors` is None.
    """

    def __init__(
        self,
        robot: Robot,
        arm: ArmModel,
        model: ControlModel,
        errors: TorqueDeviations | None,
        torque_delay_s: float = 0.0,
    ) -> None:
        self.motion = MotionFilter(robot, arm, model, errors, torque_delay_s)
        self._arm, self._bodies, n = arm, PointMasses(robot, arm), robot.size
        self._torques, self._acceleration = np.zeros((n, BODY + 1)), np.zeros(arm.chain_size)
        self._last_ns: int | None = None
        self._began_ns, self.restarted, self.changed_kg = 0, True, 0.0
        self._information, self._score = np.zeros((BODY + 1, BODY + 1)), np.zeros(BODY + 1)
        self._information[BODY, BODY] = 1.0 / FRICTION_CHANGE**2
        self.reset()

    def reset(self, friction: bool = False) -> None:
        """Clear the payload estimate, for example after a payload was picked up or put down.

        Args:
            friction: whether to clear the estimated change of friction, too. Data between the change of payload and its
                detection may have biased this estimate.
        """
        self._signatures = np.zeros((len(self.motion.x), BODY + 1))
        projection = self._information[BODY:, :BODY] @ np.linalg.pinv(self._information[:BODY, :BODY], hermitian=True)
        self._information[BODY:, BODY:] -= projection @ self._information[:BODY, BODY:]
        self._score[BODY:] -= projection @ self._score[:BODY]
        if friction:
            self._information[BODY, BODY], self._score[BODY] = 1.0 / FRICTION_CHANGE**2, 0.0
        self._information[:BODY], self._information[:, :BODY], self._score[:BODY] = 0.0, 0.0, 0.0
        self._known, self._cycles, self._squares = np.zeros(BODY + 1), 0, np.zeros(2)
        self.motion.hold(self._known[:BODY])
        self.motion.forget_errors()

    def update(self, stamp_ns: int, q: FloatArray, tau: FloatArray) -> bool:
        """Process one state of the arm.

        Args:
            stamp_ns: timestamp [ns].
            q: encoder readings, (n,) [rad].
            tau: motor torques since the last state, (n,) [N m].

        Returns:
            Whether the state was used for the payload. It is not used if it is not newer than the last one, or if less
            than `SETTLING_S` has passed since the first state.
        """
        dt = 0.0 if self._last_ns is None else (stamp_ns - self._last_ns) * 1e-9
        first = self.restarted = self._last_ns is None or dt > LONGEST_STEP_S
        self.changed_kg = 0.0
        if not first and dt <= 0.0:
            return False
        self._last_ns = stamp_ns
        if first:
            self.motion.reset(q)
            self._signatures[:], self._began_ns = 0.0, stamp_ns
            return False
        self.motion.update(dt, q, tau)
        self._acceleration += min(dt / ACCELERATION_S, 1.0) * (
            self.motion.acceleration[: len(self._acceleration)] - self._acceleration
        )
        if (stamp_ns - self._began_ns) * 1e-9 < SETTLING_S:
            return False
        if self._cycles % REGRESSOR_CYCLES == 0:
            self._torques[: self._arm.chain_size, :BODY] = -self._columns()
        self._cycles += 1
        self._torques[:, BODY] = -self.motion.friction
        self._signatures, out = self.motion.propagate_signatures(self._signatures, self._torques)
        seen, innovations = out[:, :-1], out[:, -1]
        self._information += seen.T @ seen
        self._score += seen.T @ innovations
        slides = self.motion.slides
        self._squares += np.array([float(innovations @ (innovations * slides)), float(slides.sum())])
        if self._cycles % MODEL_CYCLES == 0 and self._cycles >= FIRST_MODEL_CYCLE:
            self._update_model()
        return True

    def _columns(self) -> FloatArray:
        """Return the torques Y_L of the chain joints per unit of each standard parameter of a payload, (c, 10), SI.

        The payload is fixed to the last link. The torques hold for the motion filter's present state.
        """
        c, x = self._arm.chain_size, self.motion.x
        states = x[None, :c], self.motion.velocity[None, :c], self._acceleration[None]
        return np.asarray(columns_of_last_link(self._arm.mdh, *states, self._arm.gravity)[0])

    def _solved(self) -> tuple[FloatArray, FloatArray]:
        """Return the estimated payload parameters and friction change, (11,), and their covariance (11, 11).

        The normalised innovations have a mean square of 1 if filter and model are right. A larger mean square means
        that the arm differs from the identified one, so the covariance is multiplied by it.
        """
        found, covariance = self._bodies.solve(self._information, self._score + self._information @ self._known)
        return found, covariance * max(1.0, self.misfit**2)

    @property
    def misfit(self) -> float:
        """Root mean square of the filter's innovations of moving joints since the reset, in standard deviations.

        It is 1 if filter and model are right.
        """
        squares, count = self._squares
        return float(np.sqrt(squares / count)) if count else 1.0

    def _update_model(self) -> None:
        """Replace the payload in the motion filter's model by the current estimate."""
        found, _ = self._solved()
        change = found - self._known
        change[BODY:] = 0.0
        self.changed_kg = abs(float(change[9]))
        self.motion.x += self._signatures @ change
        self._score -= self._information @ change
        self._known = self._known + change
        self.motion.hold(self._known[:BODY])

    def significance_of_difference(self, one: FloatArray, other: FloatArray) -> float:
        """Return the difference between two payloads in standard deviations, as a measure of significance.

        The result is sqrt(d' I d) [-]. Here d is the difference of the parameters (10,), and I is the information
        matrix (10, 10) of all data since the last call of `reset`.

        Args:
            one: standard parameters of a payload in the last modified DH frame, (10,), SI.
            other: standard parameters of the payload to compare it with, (10,), SI.
        """
        return float(np.sqrt((one - other) @ self._information[:BODY, :BODY] @ (one - other)))

    def estimate(self) -> HeldMass:
        """Return the estimate of the payload from all updates since the reset."""
        return HeldMass.of(self._bodies, *self._solved())
