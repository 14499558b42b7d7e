"""Kalman filter of the arm's motion from encoders and motor torques; `dynid.contact.innovations` has its equations."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynid.codegen.emit import RANGE
from dynid.codegen.kernels import load_kernels
from dynid.contact.force import ToolForce
from dynid.contact.innovations import friction_terms, measure, predict, propagate_signatures
from dynid.contact.stamp_jitter import StampJitter
from dynid.control.control_model import ControlModel
from dynid.control.dynamics_kernel import SINGLE_STATE_LOOPS, generate, single_state, within_a_turn
from dynid.errors import DataError, SafetyError
from dynid.export.simple_friction import refuse_coupled_motors, whole_friction
from dynid.model.drive import KINDS, of_kinds
from dynid.model.dynamics import ArmModel
from dynid.model.model_file import TorqueDeviations
from dynid.robot import FloatArray, Robot, read_only

MEMORY_S = 1.0  # correlation time of lasting model errors [s], as in `identification.estimators.uncertainty`
SPEED_ERROR_S = 0.05  # correlation time of errors that change with speed [s]
NOISE_S = 0.001  # correlation time of the remaining error [s], mostly noise of the measured torques
REVERSAL_S = 0.002  # correlation time of an undetermined direction of motion [s]
UNDETERMINED_RAD_S = 0.06  # velocity uncertainty at which the direction is undetermined [rad/s]
FADE_S = 0.01  # fade time of an undetermined direction [s]
DETERMINED_SHARE = 0.1  # share of undetermined friction variance below which a direction counts as known
BACKLASH_S = 0.02  # time to cross the backlash [s]
LEAST_RAD_S = 0.003  # velocity below which the sign is undetermined even for a confident filter [rad/s]
DELAY_SIGMA_S = 1e-4  # uncertainty of the torque delay [s]
READING_RAD = 5e-5  # error of a reading besides quantisation [rad]
FIRST_SIGMAS = (1e-3, 0.01)  # initial deviations of position [rad] and velocity [rad/s]
MOVING_RAD_S = 0.3  # deviation of approximately known velocities [rad/s]
FORCE_S = 0.6  # correlation time of a force at the tool [s]
JACOBIAN_EVERY = 4  # updates between two computations of the Jacobian


def motion_terms(q: Any, dq: Any, phi: Any, inertia: Any, load: Any) -> int:
    """Write the inertia matrix M(q) into `inertia`, and Coriolis and gravity torques C dq + g into `load`.

    Friction is not included.

    Args:
        q: positions, (n,) [rad].
        dq: velocities, (n,) [rad/s].
        phi: base parameters with friction set to zero, (p,), SI.
        inertia: result, (n, n) [kg m^2].
        load: result, (n,) [N m].

    Returns:
        The number of positions outside the range in which the generated dynamics are accurate.
    """
    n = q.shape[0]
    none, unit, moved, held = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n)
    outside = single_state(q, none, none, phi, held)
    for k in range(n):
        unit[k] = 1.0
        single_state(q, none, unit, phi, moved)
        unit[k] = 0.0
        for i in range(n):
            inertia[i, k] = moved[i] - held[i]
    single_state(q, dq, none, phi, load)
    return outside


@dataclass(frozen=True)
class MeasuredTorques:
    """Uncertainty of measured torques, which are noisy in contrast to commanded torques.

    A `MotionFilter` divides the torque errors in model.yaml into a lasting part, a part that changes with speed, and
    the rest. With commanded torques, the rest counts as nearly white noise. With measured torques, their measurement
    noise `noise_nm` counts as white noise. The rest then counts as noise with the longer correlation time `memory_s`,
    because the low-pass filter of the identification has limited its bandwidth.

    Attributes:
        noise_nm: standard deviation of one torque sample, (n,) [N m].
        memory_s: correlation time of the rest of the torque errors [s]. It is a quarter of the period of the low-pass
            filter's cut-off frequency. Noise with this correlation time has the same spectral density as noise after
            the low-pass filter.
    """

    noise_nm: FloatArray
    memory_s: float


class MotionFilter:
    """Kalman filter of the motion of one arm, its model's torque errors, and a force at its tool.

    The state is x = (q, v, b, f): positions, velocities, slowly varying errors of the model's torques (correlation time
    `MEMORY_S`), and the force at the tool. robot.yaml states motor noise, encoder steps, jitter and backlash under
    `simulation.nuisances`.

    Args:
        robot: the robot.
        arm: geometry and gravity of the arm as mounted.
        model: control model of the arm, with base parameters and friction.
        errors: errors of the model's torques from model.yaml, for each class (range) of joint speed. Their part
            `lasting_nm` is the standard deviation of b. The part `passing_nm` changes with speed. When a joint enters
            another speed class, it increases the uncertainty of b; in every cycle it also counts as noise with the
            correlation time `SPEED_ERROR_S`. The rest of the errors counts as noise that changes faster.
        torque_delay_s: delay from the torque given to `update` until it acts at the motors [s].
        measured: uncertainty of measured torques; None for exactly known torques, such as commands.
        reading_rad: standard deviation of encoder readings in addition to their quantisation [rad].

    Attributes:
        x: state (q, v, b, f), (3 n + 3,), SI.
        P: covariance of the state, (3 n + 3, 3 n + 3).
        J: Jacobian of the tool, (3, n) [m].
        jitter: recent jitter of the states' timestamps.
        force_rate: random-walk intensity of the force at the tool [N/sqrt(s)]; 0 without contact.
        acceleration: joint accelerations of the last update, (n,) [rad/s^2].
        friction: friction of the last update, (n,) [N m].

    Raises:
        DataError: `errors` is None, or the model has friction of motors that move several joints.
    """

    def __init__(
        self,
        robot: Robot,
        arm: ArmModel,
        model: ControlModel,
        errors: TorqueDeviations | None,
        torque_delay_s: float,
        *,
        measured: MeasuredTorques | None = None,
        reading_rad: float = READING_RAD,
    ) -> None:
        if errors is None:
            raise DataError(
                f"the model of {robot.name} states no deviations of its torques, without which contact cannot "
                "be detected: identify again"
            )
        refuse_coupled_motors(model.phi, "contact detection")
        n, given, self._aperiodic = robot.size, robot.nuisances, arm.aperiodic
        self._kernel = load_kernels("motion", arm, lambda: generate(arm), [*SINGLE_STATE_LOOPS, motion_terms])
        self._links = of_kinds(model.phi, [kind for kind in KINDS if kind != "IA"], others=True).values
        self._unloaded, self._held = self._links, arm.regrouping.K[:, 10 * (arm.mdh.size - 1) : 10 * arm.mdh.size]
        self._law = np.array(whole_friction(robot, model.phi, model.friction).values)
        self._tool, self._delay_s, self._reading = ToolForce(robot, arm.mdh), torque_delay_s, reading_rad
        counts = given.encoder_counts_per_turn
        self._step = 2.0 * math.pi / counts if counts else 0.0
        self._play, self.jitter = math.radians(given.backlash_deg), StampJitter(given.stamp_jitter_s)
        self._torque_noise, self._short_s = np.array(given.torque_noise_nm), NOISE_S
        if measured is not None:
            self._torque_noise = np.maximum(self._torque_noise, measured.noise_nm)
            self._short_s = min(measured.memory_s, SPEED_ERROR_S)
        self._bounds = np.array(errors.speeds_rad_s)
        self._errors = read_only(errors.lasting)
        rest = np.maximum(np.array(errors.deviations_nm) ** 2 - self._errors**2, 0.0)
        self._passing = np.minimum(np.maximum(errors.passing**2 - self._errors**2, 0.0), rest)
        self._short, self._beyond = rest - self._passing, read_only(errors.passing[0])
        self.x, self.P = np.zeros(3 * n + 3), np.zeros((3 * n + 3, 3 * n + 3))
        self.J, self.force_rate = np.zeros((3, n)), 0.0
        self._T, self._inverse, self._inertia = np.zeros_like(self.P), np.zeros((n, n)), np.zeros((n, n))
        self._load, self._terms = np.zeros(n), np.zeros((4, n))
        self._gains, self._found = np.zeros((n, 3 * n + 3)), np.ones((2, n))
        self._before, self._dt, self._updates, self._class = np.zeros(n), 0.0, 0, np.zeros(n, dtype=np.int64)
        self._unclear, self._width, self._within = np.ones(n), np.full(n, self._step), np.zeros(n)
        self.acceleration, self.friction = np.zeros((2, n))
        self.reset(np.zeros(n))

    @property
    def velocity(self) -> FloatArray:
        """Estimated joint velocities (n,) [rad/s]."""
        n = len(self._load)
        return self.x[n : 2 * n]

    @property
    def slides(self) -> NDArray[np.bool_]:
        """Whether the direction of motion of each joint is known, (n,).

        It is not known for a joint that may be at rest or reversing.
        """
        return self._unclear < DETERMINED_SHARE

    def lasting_deviations(self) -> tuple[FloatArray, FloatArray]:
        """Return standard deviations of the model's lasting torque errors and of undetermined friction.

        Both are (n,) [N m]. The friction of a joint is undetermined while the direction of its motion is unknown. It
        then counts as uniformly distributed between minus and plus the friction budget, the largest friction torque
        against the motion. The filter's covariance P contains such friction only as noise with the short correlation
        time `REVERSAL_S`.
        """
        n = len(self._load)
        own = self._errors[np.searchsorted(self._bounds, np.abs(self.velocity)), np.arange(n)]
        own = np.where(self._unclear > 0.5, self._errors[-1], own)  # the budget contains the error of a sticking joint
        return own, self._terms[2] * np.sqrt(self._unclear / 3.0)

    def reset(self, q: FloatArray, dq: FloatArray | None = None) -> None:
        """Restart the filter at a measured posture.

        Args:
            q: measured positions, (n,) [rad].
            dq: approximate velocities, (n,) [rad/s]; None for an arm at rest.
        """
        n = len(q)
        self.x[:], self.P[:], self.force_rate, self._class = 0.0, 0.0, 0.0, np.zeros(n, dtype=np.int64)
        self.x[:n], self._before = q, np.zeros(n)
        speeds = np.full(n, FIRST_SIGMAS[1])
        if dq is not None:
            self.x[n : 2 * n], speeds = dq, np.full(n, MOVING_RAD_S)
        first = np.concatenate([np.full(n, FIRST_SIGMAS[0]), speeds, self._errors[-1], np.zeros(3)])
        np.fill_diagonal(self.P, first**2)

    def hold(self, parameters: FloatArray) -> None:
        """Set the payload of the filter's model: ten standard parameters (10,) in the last modified DH frame, SI."""
        self._links = self._unloaded + self._held @ parameters

    def forget_errors(self) -> None:
        """Reset the estimated torque errors of the model to zero with their initial uncertainty.

        This is necessary after a change of the payload, because the estimate may contain the previous payload's
        torques.
        """
        n = len(self._load)
        b = slice(2 * n, 3 * n)
        self.x[b], self.P[b], self.P[:, b] = 0.0, 0.0, 0.0
        self.P[b, b] = np.diag(self._errors[-1] ** 2)

    def update(self, dt: float, q: FloatArray, tau: FloatArray) -> None:
        """Update the filter with one state of the arm.

        Args:
            dt: time since the last state [s].
            q: encoder readings, (n,) [rad].
            tau: motor torques since the last state, (n,) [N m].

        Raises:
            SafetyError: a reading is not finite, or the position of a prismatic or spring-loaded joint that the
                previous update estimated is beyond +-3.5 m or rad (`dynid.codegen.emit.RANGE`), where the generated
                dynamics are not valid. Joints whose torques are periodic are shifted into this range.
        """
        n = len(q)
        if not np.isfinite(q).all():
            raise SafetyError(f"joint {int(np.argmin(np.isfinite(q))) + 1}'s position is not finite")
        x, P, v = self.x, self.P, self.x[n : 2 * n]
        if self._kernel.motion_terms(
            within_a_turn(x[:n], self._aperiodic), v.copy(), self._links, self._inertia, self._load
        ):
            raise SafetyError(
                f"a joint is at {np.abs(q).max():.3f} rad; the dynamics are computed within +-{RANGE} rad"
            )
        late = min(self._delay_s / dt, 1.0)
        previous, self._before = self._before, np.array(tau)
        motor = (1.0 - late) * tau + late * previous
        spread = np.sqrt(np.minimum(np.diag(P)[n : 2 * n], UNDETERMINED_RAD_S**2) + LEAST_RAD_S**2)
        friction_terms(self._law, v, spread, motor, self._load - x[-3:] @ self.J, self._terms)
        lost, slope, budget, unclear = self._terms
        unclear = self._unclear = np.maximum(unclear, self._unclear * math.exp(-dt / FADE_S))
        speed_class = np.searchsorted(self._bounds, np.abs(v)), np.arange(n)
        own = self._errors[speed_class]
        rest = self._short_s * self._short[speed_class] + SPEED_ERROR_S * self._passing[speed_class]
        if self._updates % JACOBIAN_EVERY == 0:
            self.J = self._tool.jacobian(x[:n])[0]
        self._updates += 1
        kept = np.exp(-dt / np.array([MEMORY_S, FORCE_S]))
        speed = v.copy()
        predict(x, P, dt, self._inertia, motor - lost - self._load, slope, self.J, kept, self._T, self._inverse)
        kick = 2.0 * self._play * np.abs(v - speed) / dt * unclear * dt / BACKLASH_S
        self.jitter.update(dt)
        jitter_s = self.jitter.deviation_s
        self._late = np.abs(tau - previous) * min(max(DELAY_SIGMA_S, jitter_s) / dt, 1.0)
        brief = REVERSAL_S * (budget + self._beyond) ** 2 * unclear + rest
        self._add_noise(dt, brief, kick, own, 1.0 - kept[0] ** 2)
        self._forget_other_speeds(speed_class[0], own)
        P[np.arange(n), np.arange(n)] += unclear * self._play**2 * dt / BACKLASH_S
        P[:n, :n] += jitter_s**2 * np.outer(v, v)  # a timestamp error shifts all joints together
        noise = np.hypot(self._reading, jitter_s * v)
        measure(x, P, q, self._width, noise, self._within, self._gains, self._found)
        self._dt, self.friction, self.acceleration = dt, lost, (v - speed) / dt

    def _add_noise(self, dt: float, brief: FloatArray, kick: FloatArray, own: FloatArray, renewed: float) -> None:
        n, P = len(brief), self.P
        torque = dt**2 * (self._torque_noise**2 + self._late**2) + 2.0 * dt * brief
        P[n : 2 * n, n : 2 * n] += (self._inverse * torque) @ self._inverse.T + np.diag(kick)
        each = np.arange(2 * n, 3 * n)
        P[each, each] += renewed * own**2
        tool = np.arange(3 * n, 3 * n + 3)
        P[tool, tool] += self.force_rate**2 * dt

    def _forget_other_speeds(self, classes: NDArray[np.int64], own: FloatArray) -> None:
        """Increase the uncertainty of the estimated torque errors b of joints whose speed class changed.

        The friction law may have another error at another speed.

        Args:
            classes: index of each joint's present speed class, (n,).
            own: standard deviation of each joint's b in its present speed class, (n,) [N m].
        """
        each = np.arange(len(own))
        new = (classes != self._class) * (self._passing[classes, each] + self._passing[self._class, each])
        b, self._class = 2 * len(own) + each, classes
        self.P[b, b] += np.minimum(new, np.maximum(own**2 + new - self.P[b, b], 0.0))

    def propagate_signatures(self, G: FloatArray, torques: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Propagate the effect of m unknown torques on the filter's state by the last update.

        Args:
            G: signatures before the update, which are the errors of the state per unit of each unknown, (3 n + 3, m).
            torques: torques at the joints per unit of each unknown, (n, m) [N m].

        Returns:
            The signatures after the update, (3 n + 3, m), and an array (n, m + 1) with a row per joint. The row
            contains the change of the joint's innovation per unit of each unknown, and in the last column the
            innovation itself. Both are divided by the innovation's standard deviation.
        """
        out = np.zeros((len(torques), G.shape[1] + 1))
        return propagate_signatures(G, self._T, self._dt, self._inverse @ torques, self._gains, self._found, out), out
