"""Nuisances of the simulated arm: effects of a real arm that the identification model does not contain.

Each nuisance has a name and a magnitude, and can be disabled. Magnitudes come from `simulation.nuisances` in
robot.yaml. Random nuisances have separate random streams, so that disabling one does not change the values of others.
"""

from collections.abc import Collection
from dataclasses import dataclass

import numba
import numpy as np

from dynid.errors import DataError, UnknownNameError
from dynid.hardware.bus.control_table import VELOCITY_RAD_S_PER_COUNT
from dynid.robot import FloatArray, Robot, read_only

COULOMB, TORQUE_NOISE, ENCODER = "coulomb", "torque_noise", "encoder"
CURRENT_QUANTISATION, JITTER, BACKLASH, DELAY = "current_quantisation", "jitter", "backlash", "delay"
WARM_UP = "warm_up"
NUISANCES = (COULOMB, TORQUE_NOISE, ENCODER, CURRENT_QUANTISATION, JITTER, BACKLASH, DELAY, WARM_UP)

NOISE_PERIOD_S = 0.001  # torque noise is constant over this time
NOISE_BLOCK = 1024  # draws per call of the generator
ROUNDING_RAD = 1e-12  # rounding tolerance of a crossed gap [rad]
JITTER_CLIP = 0.4  # maximum jitter [share of a cycle], so that timestamps keep their order


@dataclass(frozen=True, eq=False)
class Magnitudes:
    """Magnitudes of the nuisances in SI units; a disabled nuisance has magnitude zero.

    Attributes:
        coulomb_friction: Coulomb friction of each axis, (n,) [N m].
        torque_noise: standard deviation of the torque noise, (n,) [N m]; a noise sample is held for `NOISE_PERIOD_S`.
        position_step: encoder resolution [rad]; 0 for none.
        velocity_step: resolution of the velocity register [rad/s]; 0 if `position_step` is 0.
        current_step: resolution of goal and present current of each axis, (n,) [A]; 0 for none.
        stamp_jitter: standard deviation of a timestamp's error [s].
        backlash: width of the gap between joint and encoder [rad].
        delay: time from reading a state until the current computed from it takes effect [s].
        warm_up_share: fraction of friction that vanishes while gears warm up [-].
        warm_up_time_s: time constant of the warm-up [s].
    """

    coulomb_friction: FloatArray
    torque_noise: FloatArray
    position_step: float
    velocity_step: float
    current_step: FloatArray
    stamp_jitter: float
    backlash: float
    delay: float
    warm_up_share: float
    warm_up_time_s: float


def magnitudes(robot: Robot, switched_off: Collection[str] = ()) -> Magnitudes:
    """Return the magnitudes of a robot's nuisances; a disabled nuisance has magnitude zero.

    Args:
        robot: the robot.
        switched_off: names of nuisances to disable, from `NUISANCES`.

    Raises:
        UnknownNameError: a name is not a nuisance.
    """
    for name in switched_off:
        if name not in NUISANCES:
            raise UnknownNameError("nuisance", name, NUISANCES)
    nuisances = robot.nuisances
    counts = nuisances.encoder_counts_per_turn
    encoder = bool(counts) and ENCODER not in switched_off
    currents = nuisances.quantise_current and CURRENT_QUANTISATION not in switched_off

    def active(name: str) -> float:
        return float(name not in switched_off)

    return Magnitudes(
        coulomb_friction=read_only(active(COULOMB) * np.array(nuisances.coulomb_friction_nm)),
        torque_noise=read_only(active(TORQUE_NOISE) * np.array(nuisances.torque_noise_nm)),
        position_step=2.0 * np.pi / counts if counts and encoder else 0.0,
        velocity_step=VELOCITY_RAD_S_PER_COUNT if encoder else 0.0,
        current_step=robot.current_units if currents else read_only(np.zeros(robot.size)),
        stamp_jitter=active(JITTER) * nuisances.stamp_jitter_s,
        backlash=float(np.deg2rad(active(BACKLASH) * nuisances.backlash_deg)),
        delay=active(DELAY) * nuisances.communication_delay_s,
        warm_up_share=active(WARM_UP) * nuisances.warm_up_share,
        warm_up_time_s=nuisances.warm_up_time_s,
    )


def quantise(values: FloatArray, step: FloatArray | float, out: FloatArray | None = None) -> FloatArray:
    """Return each value rounded to the nearest multiple of `step`, (..., n); a copy if all steps are 0.

    Args:
        values: values of any unit, (..., n).
        step: resolution in the unit of the values, one number or one per axis, (n,).
        out: array for the result; None creates one.
    """
    result = np.empty_like(values) if out is None else out
    if np.any(step):
        np.multiply(values, 1.0 / step, out=result)
        np.rint(result, out=result)
        np.multiply(result, step, out=result)
    else:
        result[...] = values
    return result


class NoiseStream:
    """White noise with fixed standard deviations `sigma` (n,), one random vector (n,) per period of time.

    The noise is reproducible from `seed` and `stream`, the number of the random stream. The noise of period k does not
    depend on the order of calls. The vectors are generated in blocks of periods; only the newest block is kept.
    """

    def __init__(self, sigma: FloatArray, seed: int, stream: int) -> None:
        self._sigma = np.asarray(sigma, dtype=np.float64)
        self._generator = np.random.default_rng([seed, stream])
        self._first = -NOISE_BLOCK
        self._rows = np.empty((NOISE_BLOCK, len(self._sigma)))

    def row(self, k: int) -> FloatArray:
        """Return the noise of period k, (n,).

        Raises:
            DataError: the noise of period k was discarded, because a later block has been generated.
        """
        if k < self._first:
            raise DataError(
                f"noise of period {k} was discarded; the oldest kept is {self._first}: time must not go backwards"
            )
        while k >= self._first + NOISE_BLOCK:
            self._rows = self._generator.standard_normal((NOISE_BLOCK, len(self._sigma))) * self._sigma
            self._first += NOISE_BLOCK
        return np.asarray(self._rows[k - self._first])

    def rows(self, count: int) -> FloatArray:
        """Return the noise of the first `count` periods, (count, n).

        Raises:
            DataError: the noise of the first periods was discarded, because a later block has been generated.
        """
        out = np.empty((count, len(self._sigma)))
        for first in range(0, count, NOISE_BLOCK):
            self.row(first)  # load the block of this row
            out[first : first + NOISE_BLOCK] = self._rows[: count - first]
        return out


@numba.njit(cache=True, inline="always")
def crossed(ahead: float, dq: float, half_play: float) -> bool:
    """Return whether a joint moves its encoder, because the joint has crossed the gap (backlash) to the encoder.

    Args:
        ahead: joint position minus encoder position [rad].
        dq: joint velocity [rad/s].
        half_play: half the width of the backlash [rad].
    """
    return half_play == 0.0 or (abs(ahead) >= half_play - ROUNDING_RAD and ahead * dq > 0.0)


_crossed = crossed.py_func  # uncompiled, because compiling takes longer than it saves for a few numbers


class Play:
    """Backlash between joint and encoder as a play operator: the encoder rests until the joint has crossed the gap.

    Only the encoder has the gap; the motor's torque acts on the joint directly. This is an approximation: a gap at the
    gear's output would also interrupt the motor's torque.

    Args:
        width: width of the gap [rad].
        q: joint positions at the start, (n,) [rad], in the middle of the gap.
    """

    def __init__(self, width: float, q: FloatArray) -> None:
        self._half = 0.5 * width
        self._output = np.array(q, dtype=np.float64)

    def velocity(self, q: FloatArray, dq: FloatArray) -> FloatArray:
        """Return the encoders' velocities (n,) [rad/s] at joint positions q (n,) [rad] and velocities dq (n,) [rad/s].

        The velocity of an encoder is 0 while its joint crosses the gap. Call `update` with the same q first.
        """
        turning = [_crossed(a, v, self._half) for a, v in zip(q - self._output, dq, strict=True)]
        return np.where(turning, dq, 0.0)

    def update(self, q: FloatArray) -> FloatArray:
        """Return the encoder positions, (n,) [rad], at joint positions q, (n,) [rad].

        The array is a view that the next call changes.
        """
        if self._half:
            np.maximum(self._output, q - self._half, out=self._output)
            np.minimum(self._output, q + self._half, out=self._output)
        else:
            self._output[:] = q
        return self._output


def stamps(count: int, cycle: float, jitter: float, seed: int, stream: int) -> FloatArray:
    """Return timestamps of `count` cycles, (count,) [s], with normally distributed errors.

    Errors are clipped, so that the timestamps keep their order.

    Args:
        count: number of cycles.
        cycle: duration of a cycle [s].
        jitter: standard deviation of the errors [s].
        seed: seed of the errors.
        stream: number of the random stream.
    """
    errors = np.random.default_rng([seed, stream]).standard_normal(count) * jitter
    return read_only(cycle * np.arange(count) + np.clip(errors, -JITTER_CLIP * cycle, JITTER_CLIP * cycle))
