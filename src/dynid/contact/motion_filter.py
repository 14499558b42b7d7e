"""The arm's motion from encoders and motor torques, a cycle at a time: see `dynid.contact.innovations`."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynid.codegen.emit import RANGE
from dynid.codegen.kernels import load_kernels
from dynid.contact.force import ToolForce
from dynid.contact.innovations import carry, friction_terms, measure, predict
from dynid.contact.stamp_jitter import StampJitter
from dynid.control.control_model import ControlModel
from dynid.control.dynamics_kernel import SINGLE_STATE, generate, single_state, within_a_turn
from dynid.errors import DataError, SafetyError
from dynid.export.simple_friction import whole_friction
from dynid.model.drive import KINDS, of_kinds
from dynid.model.dynamics import ArmModel
from dynid.model.model_file import TorqueDeviations
from dynid.robot import FloatArray, Robot, read_only

MEMORY_S = 1.0  # how long a model's error lasts, as in `identification.estimators.uncertainty`
PASSING_S = 0.05  # how long what passes with the speed does
SHORT_S = 0.001  # how long the rest of it does, which of commanded torques is mostly noise of the measured ones
TURN_S = 0.002  # how long an open direction of motion stays as it is
OPEN_RAD_S = 0.06  # no velocity is less certain than this for its direction
FADE_S = 0.01  # how long a direction that was open still counts
SURE = 0.1  # of the variance of friction that is open, below which a direction counts as known
PLAY_S = 0.02  # how long a joint takes to cross its play
UNSEEN_RAD_S = 0.003  # velocities whose sign is open even where the filter is sure of them
TIMING_S = 1e-4  # how well the delay of torques is known
READING_RAD = 5e-5  # what a reading is off by beside the encoder's step
FIRST = (1e-3, 0.01)  # deviations of the first position [rad] and velocity [rad/s]
MOVING_RAD_S = 0.3  # deviation of velocities that are about known
FORCE_S = 0.6  # how long a force at the tool lasts
JACOBIAN_EVERY = 4  # updates


def motion_terms(q: Any, dq: Any, phi: Any, inertia: Any, load: Any) -> int:
    """M(q) into `inertia` (n, n) and C dq + g into `load` (n,), friction left out.

    Returns how many positions were out of the polynomials' range.
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
    """Torques that were measured, not commanded, so that nobody knows them exactly.

    What a model leaves of commanded torques is mostly the noise of the measured ones that it was identified from, and
    new in every cycle. Of measured torques it is the model's own, and no faster than the low-pass that it has passed.

    Attributes:
        noise_nm: of one sample, (n,) [N m].
        memory_s: how long what the model leaves stays alike [s]: a quarter period of the low-pass's cut-off, whose
            noise has the same density.
    """

    noise_nm: FloatArray
    memory_s: float


class MotionFilter:
    """The filter of one arm; noise of motors, encoder steps, stamps and play are those of the robot's nuisances.

    Args:
        robot, arm: the arm, as it is mounted.
        model: parameters and friction.
        errors: what model.yaml states of the model's torques, by speed: what lasts is the size of b, what passes with
            the speed makes b less certain at another speed, and that and the rest are noise.
        torque_delay_s: from the torque that `update` gets to the motors [s].
        measured: where the torques that `update` gets were measured; None where they are known, as commands are.
        reading_rad: deviation of readings beside the encoder's step [rad].

    Attributes:
        x: (q, v, b, f), (3 n + 3,), SI.
        P: its covariance.
        J: of the tool, (3, n) [m].
        jitter: of the states' stamps, as it was lately.
        force_rate: how fast the force at the tool may change [N/sqrt(s)]; 0 while nothing touches the arm.
        acceleration: by the last update, (n,) [rad/s^2].
        friction: that the last update took off, (n,) [N m].

    Raises:
        DataError: the model states no deviations of its torques.
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
                f"the model of {robot.name} states no deviations of its torques, and without them nobody knows what is "
                "a contact: identify again"
            )
        n, given, self._aperiodic = robot.size, robot.nuisances, arm.aperiodic
        self._kernel = load_kernels("motion", arm, lambda: generate(arm), [*SINGLE_STATE, motion_terms])
        self._links = of_kinds(model.phi, [kind for kind in KINDS if kind != "IA"], others=True).values
        self._unloaded, self._held = self._links, arm.regrouping.K[:, 10 * (arm.mdh.size - 1) : 10 * arm.mdh.size]
        self._law = np.array(whole_friction(robot, model.phi, model.friction).values)
        self._tool, self._delay_s, self._reading = ToolForce(robot, arm.mdh), torque_delay_s, reading_rad
        counts = given.encoder_counts_per_turn
        self._step = 2.0 * math.pi / counts if counts else 0.0
        self._play, self.jitter = math.radians(given.backlash_deg), StampJitter(given.stamp_jitter_s)
        self._torque_noise, self._short_s = np.array(given.torque_noise_nm), SHORT_S
        if measured is not None:
            self._torque_noise = np.maximum(self._torque_noise, measured.noise_nm)
            self._short_s = min(measured.memory_s, PASSING_S)
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
        """(n,) [rad/s]."""
        n = len(self._load)
        return self.x[n : 2 * n]

    @property
    def slides(self) -> NDArray[np.bool_]:
        """Joints whose direction of motion is known, (n,)."""
        return self._unclear < SURE

    def lasting_deviations(self) -> tuple[FloatArray, FloatArray]:
        """What torques may be off by for long, (n,) [N m] each: by the model, and by friction of an open direction.

        The second is that of a uniform distribution over the budget; the covariance P counts it for `TURN_S` at a time.
        """
        n = len(self._load)
        own = self._errors[np.searchsorted(self._bounds, np.abs(self.velocity)), np.arange(n)]
        own = np.where(self._unclear > 0.5, self._errors[-1], own)  # what a sticking joint leaves is in its budget
        return own, self._terms[2] * np.sqrt(self._unclear / 3.0)

    def reset(self, q: FloatArray, dq: FloatArray | None = None) -> None:
        """Start at a measured posture (n,) [rad]: at rest, or with velocities (n,) that are about dq [rad/s]."""
        n = len(q)
        self.x[:], self.P[:], self.force_rate, self._class = 0.0, 0.0, 0.0, np.zeros(n, dtype=np.int64)
        self.x[:n], self._before = q, np.zeros(n)
        speeds = np.full(n, FIRST[1])
        if dq is not None:
            self.x[n : 2 * n], speeds = dq, np.full(n, MOVING_RAD_S)
        first = np.concatenate([np.full(n, FIRST[0]), speeds, self._errors[-1], np.zeros(3)])
        np.fill_diagonal(self.P, first**2)

    def hold(self, parameters: FloatArray) -> None:
        """From now on the last link holds a body with these parameters (10,) in the last modified DH frame, SI."""
        self._links = self._unloaded + self._held @ parameters

    def forget_errors(self) -> None:
        """What the model leaves of torques is as unknown as at the start: it was learned of another body."""
        n = len(self._load)
        b = slice(2 * n, 3 * n)
        self.x[b], self.P[b], self.P[:, b] = 0.0, 0.0, 0.0
        self.P[b, b] = np.diag(self._errors[-1] ** 2)

    def update(self, dt: float, q: FloatArray, tau: FloatArray) -> None:
        """One state, dt [s] after the last: readings q (n,) [rad], and the torques (n,) [N m] commanded meanwhile.

        Raises:
            SafetyError: a joint that slides or has a spring is far beyond where the generated dynamics hold, or a
                position is not finite.
        """
        n = len(q)
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
        spread = np.sqrt(np.minimum(np.diag(P)[n : 2 * n], OPEN_RAD_S**2) + UNSEEN_RAD_S**2)
        friction_terms(self._law, v, spread, motor, self._load - x[-3:] @ self.J, self._terms)
        lost, slope, budget, unclear = self._terms
        unclear = self._unclear = np.maximum(unclear, self._unclear * math.exp(-dt / FADE_S))
        speed_class = np.searchsorted(self._bounds, np.abs(v)), np.arange(n)
        own = self._errors[speed_class]
        rest = self._short_s * self._short[speed_class] + PASSING_S * self._passing[speed_class]
        if self._updates % JACOBIAN_EVERY == 0:
            self.J = self._tool.jacobian(x[:n])[0]
        self._updates += 1
        kept = np.exp(-dt / np.array([MEMORY_S, FORCE_S]))
        speed = v.copy()
        predict(x, P, dt, self._inertia, motor - lost - self._load, slope, self.J, kept, self._T, self._inverse)
        kick = 2.0 * self._play * np.abs(v - speed) / dt * unclear * dt / PLAY_S
        self.jitter.update(dt)
        jitter_s = self.jitter.deviation_s
        self._late = np.abs(tau - previous) * min(max(TIMING_S, jitter_s) / dt, 1.0)
        brief = TURN_S * (budget + self._beyond) ** 2 * unclear + rest
        self._add_noise(dt, brief, kick, own, 1.0 - kept[0] ** 2)
        self._forget_other_speeds(speed_class[0], own)
        P[np.arange(n), np.arange(n)] += unclear * self._play**2 * dt / PLAY_S
        P[:n, :n] += jitter_s**2 * np.outer(v, v)  # a stamp that is off shifts all joints together
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
        """What the model leaves of torques was learned at another speed, where friction may lack something else."""
        each = np.arange(len(own))
        new = (classes != self._class) * (self._passing[classes, each] + self._passing[self._class, each])
        b, self._class = 2 * len(own) + each, classes
        self.P[b, b] += np.minimum(new, np.maximum(own**2 + new - self.P[b, b], 0.0))

    def carry(self, G: FloatArray, torques: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Signatures G (N, m) over the last update of torques (n, m) per unknown: they, and `carry`'s (n, m + 1)."""
        out = np.zeros((len(torques), G.shape[1] + 1))
        return carry(G, self._T, self._dt, self._inverse @ torques, self._gains, self._found, out), out
