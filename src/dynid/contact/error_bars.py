"""Error bounds of the momentum observer's residual without contact.

The residual of a moving joint has three random errors, assumed to be normally distributed:

- Model errors. model.yaml states their standard deviation for each range of joint speed.
- Encoder quantisation with the standard deviation sigma. It contributes K M sigma / T, with the observer's gain K, the
  inertia M and the lag T of the velocity filter.
- A timestamp error e. It shifts each position by velocity times e, and contributes K M dq e / T.

The threshold of a moving joint is z standard deviations. Rice's formula for the rate of threshold crossings gives z
from the permitted rate of false alarms.

Near standstill two further errors occur. Only bounds of them are known, which are added to the threshold:

- Friction in an unknown direction. If the velocity does not determine the direction of motion, friction has any value
  between minus and plus its largest value. This largest value is the friction budget (the largest friction torque
  against the motion by the friction law) plus static friction that the law does not represent (`passing_nm` of the
  slowest speeds in model.yaml). The bound is this value plus the magnitude of the friction that the observer assumed.
- Backlash. An encoder behind gears with backlash stands still while the joint crosses the gap. At the end of the gap
  its speed jumps from 0 to sqrt(2 play a), where `play` is the width of the gap and a the acceleration. The bound is
  the effect of this jump on the residual, K M sqrt(2 play a).

All torque errors pass through the observer's low-pass filter, so each of them affects the residual for about 1 / K.
"""

import math

import numpy as np

from dynid.contact.observer import MomentumObserver
from dynid.contact.stamp_jitter import StampJitter
from dynid.errors import DataError
from dynid.model.friction import FrictionLaw
from dynid.model.model_file import TorqueDeviations
from dynid.robot import FloatArray, Robot, read_only

FALSE_ALARMS_1_S = 0.1 / 3600.0  # rate of false alarms per joint [1/s]: one in ten hours


class ErrorBars:
    """Standard deviations of a `MomentumObserver`'s residual without contact, and its contact thresholds.

    The residual is the observer's estimate of the external joint torques. Standard deviations and thresholds are
    updated every cycle.

    Args:
        robot: robot, whose robot.yaml states encoder steps and backlash under `simulation.nuisances`.
        observer: momentum observer of the residual; it must be updated before each call of `update`.
        friction: friction law, which gives the largest friction torque at rest.
        errors: expected errors of the model's torques, from model.yaml.
        jitter: jitter of the states' timestamps, updated before each call of `update`; None uses the value of
            robot.yaml.

    Attributes:
        deviation: standard deviation of the residual without contact, (n,) [N m]. An error of which only a bound is
            known counts as uniformly distributed within this bound.
        threshold: magnitude that the residual exceeds only in contact, (n,) [N m].

    Raises:
        DataError: `errors` is None.
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
                f"the model of {robot.name} states no deviations of its torques, without which contact cannot "
                "be detected: identify again"
            )
        self._observer, self._law, n = observer, friction, robot.size
        self._jitter = jitter or StampJitter(robot.nuisances.stamp_jitter_s)
        counts = robot.nuisances.encoder_counts_per_turn
        step = 2.0 * math.pi / counts if counts else 0.0
        self._play = math.radians(robot.nuisances.backlash_deg)
        self._noise = step / math.sqrt(12.0) / observer.velocity_s
        self._unclear = step / observer.velocity_s  # velocity error of one quantisation step
        self._bounds = np.array(errors.speeds_rad_s)
        self._errors = read_only(errors.deviations_nm)
        self._beyond = read_only(errors.passing[0])
        self._axes = np.arange(n)
        rate = 2.0 * n * observer.gain_1_s / (2.0 * math.pi * FALSE_ALARMS_1_S)
        self.z = math.sqrt(2.0 * math.log(rate))
        self.deviation, self.threshold = np.full((2, n), np.inf)  # unknown before the first update
        self._unknown, self._kick, self._model = np.zeros((3, n))

    def update(self, dt: float, tau: FloatArray) -> FloatArray:
        """Return the contact thresholds of the residual in this cycle, (n,) [N m].

        Args:
            dt: time since the last cycle [s].
            tau: motor torques with which the observer was updated in this cycle, (n,) [N m].
        """
        seen = self._observer
        speed, load = np.abs(seen.velocity), seen.torque - seen.load
        budget = self._law.budget(0.0 * speed, tau, load)
        # the same delay as the velocity: a torque that acts for longer without moving the arm is balanced by a contact
        net = tau - seen.load - seen.friction + seen.torque
        acceleration = np.abs(np.linalg.solve(seen.inertia, net))
        slides = speed > self._unclear + acceleration * seen.velocity_s  # otherwise it may have reversed since
        unknown = np.where(slides, 0.0, budget + self._beyond + np.abs(seen.friction))
        kick = np.where(slides, 0.0, np.sqrt(2.0 * self._play * acceleration))
        share, fade = 1.0 - math.exp(-seen.gain_1_s * dt), math.exp(-dt * min(seen.gain_1_s, 1.0 / seen.velocity_s))
        # the budget already contains the torque error of a sticking joint
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
