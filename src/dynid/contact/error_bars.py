"""By how much the observer's residual may be off where nothing touches the arm.

A joint that slides has the errors of its model, a deviation by class of speed that model.yaml states, and of its
encoder: steps of sigma behind the filters of velocity and observer make K M sigma / T of the residual. Both are taken
for normal, and a threshold is z of their deviations, z from the false alarms that are allowed (Rice's rate of
crossings). A stamp that is off by e shifts all positions together, by their velocities times e, and makes K M dq e / T.

Near standstill nothing about friction is random. Where the velocity does not say which way a joint slides, its friction
is anything between minus and plus its budget, and what model.yaml says friction exceeds that by; and an encoder behind
gears with play stands still, while the joint crosses the gap and picks it up with a speed of sqrt(2 play a). Both are
bounds, added to the threshold. All that may be wrong of a torque passes the observer's own filter, so it counts for as
long as the residual remembers it.
"""

import math

import numpy as np

from dynid.contact.observer import MomentumObserver
from dynid.contact.stamp_jitter import StampJitter
from dynid.errors import DataError
from dynid.model.friction import FrictionLaw
from dynid.model.model_file import TorqueDeviations
from dynid.robot import FloatArray, Robot, read_only

FALSE_ALARMS_1_S = 0.1 / 3600.0  # one in ten hours of a joint's normal errors


class ErrorBars:
    """Deviations and thresholds beside a `MomentumObserver`, a cycle at a time.

    Args:
        robot: its encoder steps and play are those of its nuisances.
        observer: whose residual is meant; updated before `update`.
        friction: the law of friction, for its budgets.
        errors: what model.yaml states of the model's torques.
        jitter: of the states' stamps, updated before `update`; None takes what robot.yaml says.

    Attributes:
        deviation: of r, bounds counted as uniform distributions, (n,) [N m].
        threshold: what |r| exceeds in contact only, (n,) [N m].

    Raises:
        DataError: the model states none.
    """

    def __init__(
        self,
        robot: Robot,
        observer: MomentumObserver,
        friction: FrictionLaw,
        errors: TorqueDeviations | None,
        jitter: StampJitter | None = None,
    ) -> None:
        if errors is None:
            raise DataError(
                f"the model of {robot.name} states no deviations of its torques, and without them nobody knows what is "
                "a contact: identify again"
            )
        self._observer, self._law, n = observer, friction, robot.size
        self._jitter = jitter or StampJitter(robot.nuisances.stamp_jitter_s)
        counts = robot.nuisances.encoder_counts_per_turn
        step = 2.0 * math.pi / counts if counts else 0.0
        self._play = math.radians(robot.nuisances.backlash_deg)
        self._noise = step / math.sqrt(12.0) / observer.velocity_s
        self._unclear = step / observer.velocity_s  # one step more or less
        self._bounds = np.array(errors.speeds_rad_s)
        self._errors = read_only(errors.deviations_nm)
        self._beyond = read_only(errors.passing[0])
        self._axes = np.arange(n)
        rate = 2.0 * n * observer.gain_1_s / (2.0 * math.pi * FALSE_ALARMS_1_S)
        self.z = math.sqrt(2.0 * math.log(rate))
        self.deviation, self.threshold = np.full((2, n), np.inf)  # nothing is known yet
        self._unknown, self._kick, self._model = np.zeros((3, n))

    def update(self, dt: float, tau: FloatArray) -> FloatArray:
        """The thresholds (n,) [N m] of this cycle, dt [s] after the last; tau (n,) [N m] as the observer got it."""
        seen = self._observer
        speed, load = np.abs(seen.velocity), seen.torque - seen.load
        budget = self._law.budget(0.0 * speed, tau, load)
        # as it is seen: a torque that has not moved the arm for longer than seeing takes is held by a contact
        net = tau - seen.load - seen.friction + seen.torque
        acceleration = np.abs(np.linalg.solve(seen.inertia, net))
        slides = speed > self._unclear + acceleration * seen.velocity_s  # else it may have turned since
        unknown = np.where(slides, 0.0, budget + self._beyond + np.abs(seen.friction))
        kick = np.where(slides, 0.0, np.sqrt(2.0 * self._play * acceleration))
        share, fade = 1.0 - math.exp(-seen.gain_1_s * dt), math.exp(-dt * min(seen.gain_1_s, 1.0 / seen.velocity_s))
        # what a sticking joint leaves of the model's torques is in its budget already
        own = self._errors[np.where(slides, np.searchsorted(self._bounds, speed), len(self._bounds)), self._axes]
        self._unknown += share * (unknown - self._unknown)
        self._model += share * (own - self._model)
        self._kick = np.maximum(kick, fade * self._kick)
        M, K = np.abs(seen.inertia), seen.gain_1_s
        steps = self._noise * np.linalg.norm(M, axis=1)
        shifted = self._jitter.deviation_s / seen.velocity_s * (seen.inertia @ seen.velocity)
        normal = np.sqrt(self._model**2 + K**2 * (steps**2 + shifted**2))
        bound = self._unknown + K * (M @ self._kick)
        self.deviation = np.sqrt(normal**2 + bound**2 / 3.0)
        self.threshold = self.z * normal + bound
        return self.threshold
