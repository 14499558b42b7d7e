"""Identification of an arm with elastic joints from positions of links and motors, by weighted least squares."""

from dataclasses import dataclass

import numpy as np

from dynid.errors import DataError
from dynid.identification.data.zero_phase import butterworth_sections, filtered_both_ways
from dynid.identification.elastic.classification import Classification, classify_structure
from dynid.identification.elastic.experiment import ElasticRecording
from dynid.identification.elastic.model import ElasticModel, ElasticStates
from dynid.identification.elastic.settings import Measurement
from dynid.robot import FloatArray, read_only

ROUNDS = 3  # iterations of weighting every equation by its rms residual
SMALL = 1e-9  # a group counts as zero if its true value, relative to the sizes of its parameters, is smaller


@dataclass(frozen=True, eq=False)
class ElasticEstimate:
    """Estimated groups (identifiable linear combinations) of parameters of an arm with elastic joints.

    Attributes:
        names: names of the groups, (b,).
        values: estimated values, (b,).
        deviations: standard deviations of the values, assuming white residuals, (b,).
        residual_rms: rms residual of each of the 2 n equations (links, then motors) over all samples, (2 n,) [N m].
        condition: condition number of the weighted regressor with columns of unit length.
    """

    names: tuple[str, ...]
    values: FloatArray
    deviations: FloatArray
    residual_rms: FloatArray
    condition: float


def filtered(recording: ElasticRecording, how: Measurement) -> tuple[ElasticStates, FloatArray]:
    """Low-pass a recording and differentiate its positions; return states and torques (N, n) [N m].

    The filter is a zero-phase Butterworth low-pass. Samples at both ends are dropped.

    Args:
        recording: positions and torques.
        how: settings of the filter and of the dropped margins.

    Raises:
        DataError: if fewer than 100 samples remain without the margins.
    """
    sections = butterworth_sections(how.order, how.cutoff_hz, recording.rate_hz)
    margin, step = int(how.margin_s * recording.rate_hz), 1.0 / recording.rate_hz
    if len(recording.q) < 2 * margin + 100:
        raise DataError(f"a recording of {len(recording.q)} samples; expected {2 * margin + 100} or more")
    q, theta, tau = (filtered_both_ways(sections, one) for one in (recording.q, recording.theta, recording.tau))
    rates = [_rates(one, step) for one in (q, theta)]
    inner = slice(max(margin, 1), -max(margin, 1))
    states = ElasticStates(q, *rates[0], theta, *rates[1]).rows(inner)
    return states, np.asarray(tau[inner])


def _rates(position: FloatArray, step: float) -> tuple[FloatArray, FloatArray]:
    """Return velocities and accelerations by central differences, (N, n) each.

    Args:
        position: positions, (N, n) [rad].
        step: time between positions [s].
    """
    velocity, acceleration = np.zeros((2, *position.shape))
    velocity[1:-1] = (position[2:] - position[:-2]) / (2.0 * step)
    acceleration[1:-1] = (position[2:] - 2.0 * position[1:-1] + position[:-2]) / step**2
    return velocity, acceleration


def identify(
    model: ElasticModel, states: ElasticStates, tau: FloatArray, found: Classification | None = None
) -> ElasticEstimate:
    """Estimate the identifiable linear combinations (groups) of an elastic-joint arm's parameters by least squares.

    Only the equations of the motors contain motor torque and friction, so residuals of links and motors differ in size.
    Therefore the equation of each link and of each motor is divided by its rms residual.

    Args:
        model: arm with elastic joints.
        states: states of links and motors, N samples.
        tau: motor torques, (N, n) [N m].
        found: classification of the parameters into groups; None computes it from the structure of the model.

    Raises:
        DataError: if the motion determines too few groups.
    """
    chosen = found or classify_structure(model)
    n, slow = model.size, model.file.measurement.slowest_rad_s
    W = model.regressor(states)[..., list(chosen.kept)]
    y = np.concatenate([np.zeros_like(tau), tau], axis=1)
    use = np.ones(y.shape, dtype=bool)
    use[:, n:] = np.abs(states.dtheta) >= slow
    weights, solved = np.ones(2 * n), None
    for _ in range(ROUNDS):
        flat = use.ravel()
        A = (W * weights[:, None]).reshape(-1, W.shape[-1])[flat]
        scale = np.linalg.norm(A, axis=0)
        if not (scale > 0.0).all():
            raise DataError("the motion does not excite a group of parameters; excite every joint")
        solution, _, rank, singular = np.linalg.lstsq(A / scale, (y * weights).ravel()[flat], rcond=None)
        if rank < len(scale):
            raise DataError(f"the motion determines {rank} of {len(scale)} groups; excite every joint, and longer")
        values = solution / scale
        error = np.where(use, W @ values - y, 0.0)
        rms = np.sqrt((error**2).sum(axis=0) / use.sum(axis=0))
        weights = 1.0 / np.maximum(rms, 1e-12)
        solved = values, rms, float(singular[0] / singular[-1]), A / scale, scale
    assert solved is not None
    values, rms, condition, unit, scale = solved
    spread = np.sqrt(np.diag(np.linalg.inv(unit.T @ unit))) / scale
    return ElasticEstimate(chosen.names, read_only(values), read_only(spread), read_only(rms), condition)


def relative_errors(found: Classification, estimate: ElasticEstimate, parameters: FloatArray) -> dict[str, float]:
    """Return the relative error |p_hat - p| / |p| of each estimated linear combination p of parameters, by name.

    Such a combination is called a group. Groups whose true value is zero are omitted.

    Args:
        found: classification of the parameters into groups.
        estimate: estimated values p_hat of the groups.
        parameters: true parameters, (14 n,).
    """
    true = found.K @ parameters
    size = np.abs(found.K) @ np.abs(parameters)
    wanted = np.abs(true) > SMALL * np.maximum(size, 1e-12)
    errors = np.abs(estimate.values - true)
    return {name: float(errors[k] / abs(true[k])) for k, name in enumerate(found.names) if wanted[k]}
