"""Torque residuals and regressor columns of dynamics, gravity and friction, for sliding states only.

A joint that sticks bears any torque within its static friction, so its torque cannot be predicted. Near a reversal,
where the acceleration is largest, a low-pass would spread the resulting torque error to neighbouring samples. Therefore
the values of states near standstill are set to zero in all signals before the low-pass, as in the fit of friction
(`estimators.gear_rows`).
"""

from typing import NamedTuple

import numpy as np

from dynid.identification.data.fine_states import FineStates, grid_step_s
from dynid.identification.data.preprocessing import Samples
from dynid.identification.estimators.sliding_rows import sliding_masks
from dynid.identification.estimators.solved_torques import solved_torques
from dynid.identification.estimators.torque_errors import in_motion
from dynid.model.drive import KINDS, kind_and_number, of_kinds
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FrictionLaw
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray

SPEEDS_RAD_S = (0.15, 0.5, 1.5)  # decay speeds of friction outside the law, as in `estimators.discrepancy`
LOAD_SPEEDS_RAD_S = (0.15, 0.5)


class DynamicRows(NamedTuple):
    """Torque residuals and regressor columns of samples, from sliding states only: joints move and cannot stick.

    k is the number of base parameters of links and rotors.

    Attributes:
        residual: measured minus predicted torques, (N, n) [N m].
        torque: dynamic part of the prediction, without gravity, springs and friction, (N, n) [N m].
        dynamic: derivatives of that part with respect to the parameters of links and rotors, (N, n, k) [SI].
        gravity: derivatives of the gravity torques with respect to the same parameters, (N, n, k) [SI].
        friction: functions of speed and load that may be terms of friction, with unit coefficients, (N, n, f).
        share: fraction of each low-passed sample that comes from sliding states, (N, n), from 0 to 1.
    """

    residual: FloatArray
    torque: FloatArray
    dynamic: FloatArray
    gravity: FloatArray
    friction: FloatArray
    share: FloatArray


def of_links(model: ArmModel) -> FloatArray:
    """Return a mask (p,) of the base parameters that belong to links and rotors, not to friction or springs."""
    return np.array([(kind := kind_and_number(name)[0]) not in KINDS or kind.startswith("IA") for name in model.names])


def dynamic_rows(
    model: ArmModel, samples: Samples, phi: BaseParameters, friction: FrictionLaw | None, slow_rad_s: float
) -> DynamicRows:
    """Return the residuals of a model's torque prediction for samples, with the regressor columns, see `DynamicRows`.

    Only sliding states contribute; the values of other states are set to 0 before the low-pass.

    Args:
        model: the arm, at the mount of the samples.
        samples: samples with measured torques.
        phi: base parameters of the prediction.
        friction: friction law in addition to the base parameters; None if there is none.
        slow_rad_s: speed below which joints may stick [rad/s].
    """
    if not samples.fine:
        slides = in_motion(samples.dq).astype(float)
        rows = _rows(model, samples, samples.tau, samples.tau, slides, phi, friction, None)
        return DynamicRows(*(*rows, slides))
    found = []
    for one, slides in zip(samples.fine, sliding_masks(samples, slow_rad_s), strict=True):
        raw, step = one.raw if len(one.raw) else one.tau, grid_step_s(samples.settings.interval_s, one)
        rows = _rows(model, one, raw, one.tau, slides, phi, friction, step)
        found.append([one.low_pass(values) for values in (*rows, slides)])
    return DynamicRows(*(np.concatenate(rows) for rows in zip(*found, strict=True)))


def _rows(
    model: ArmModel,
    states: FineStates | Samples,
    measured: FloatArray,
    guess: FloatArray,
    slides: FloatArray,
    phi: BaseParameters,
    friction: FrictionLaw | None,
    step_s: float | None,
) -> tuple[FloatArray, ...]:
    """Return all fields of `DynamicRows` except `share`, for M states before any low-pass.

    Args:
        model: the arm.
        states: states on a fine grid, or samples.
        measured: measured torques, (M, n) [N m].
        guess: torques with which the iteration for load-dependent friction starts, (M, n) [N m].
        slides: 1 for sliding states, else 0, (M, n).
        phi: base parameters.
        friction: friction law in addition to the base parameters; None if there is none.
        step_s: time between states on the fine grid [s]; None for samples.
    """
    q, dq, ddq = states.q, states.dq, states.ddq
    still, own = np.zeros_like(dq), of_links(model)
    links = model.inverse_dynamics(q, dq, ddq, phi)
    whole = links
    if friction is not None:
        ripple = states.ripple if isinstance(states, FineStates) else np.zeros((len(q), 1, model.axes))
        whole = np.sum(solved_torques(model, states, guess, ripple, phi, friction, step_s), axis=0)
    gravity = model.regressor(q, still, still)[..., own]
    dynamic = model.regressor(q, dq, ddq)[..., own] - gravity
    cut = slides[..., None]
    torque = dynamic @ phi.values[own] * slides
    load = model.inverse_dynamics(q, still, still, of_kinds(phi, KINDS, others=True))
    return (measured - whole) * slides, torque, dynamic * cut, gravity * cut, _friction(dq, load) * cut


def _friction(dq: FloatArray, load: FloatArray) -> FloatArray:
    """Return functions of speed and load, (M, n, f) [SI], each of which may be a term of the joints' friction.

    Args:
        dq: velocities, (M, n) [rad/s].
        load: gravity torques, (M, n) [N m]. The whole torque is not used, because at a joint with a small load it
            consists mostly of friction and inertia.
    """
    speed, side = np.abs(dq), np.sign(dq)
    plain = [np.ones_like(dq), dq, side, *(side * np.exp(-speed / v) for v in SPEEDS_RAD_S)]
    loaded = side * np.abs(load)
    return np.stack([*plain, loaded, *(loaded * np.exp(-speed / v) for v in LOAD_SPEEDS_RAD_S)], axis=-1)
