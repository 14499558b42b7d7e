"""What a prediction leaves of torques, beside the columns of dynamics, gravity and friction, of sliding states alone.

A joint that sticks carries any torque within its friction, and a low-pass carries that into its neighbours in time,
just where the joint turns round and accelerates most. So states near standstill are cut out of everything alike, before
the low-pass, as the fit of friction does it (`estimators.gear_rows`).
"""

from typing import NamedTuple

import numpy as np

from dynid.identification.data.fine_states import FineStates, grid_step_s
from dynid.identification.data.preprocessing import Samples
from dynid.identification.estimators.gear_rows import sliding_masks, solved_torques
from dynid.identification.estimators.torque_errors import in_motion
from dynid.model.drive import KINDS, kind_and_number, of_kinds
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FrictionLaw
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray

SPEEDS_RAD_S = (0.15, 0.5, 1.5)  # of what friction no law holds, see `estimators.discrepancy`
LOAD_SPEEDS_RAD_S = (0.15, 0.5)


class DynamicRows(NamedTuple):
    """Rows of samples, what is not sliding being cut out; k are the parameters of links and rotors.

    Attributes:
        residual: measured less predicted torques, (N, n) [N m].
        torque: the dynamic part of the prediction: without gravity, springs and friction, (N, n) [N m].
        dynamic: its derivatives by parameters of links and rotors, (N, n, k).
        gravity: derivatives of gravity by the same, (N, n, k).
        friction: torques of friction of all kinds, of size one each, (N, n, f).
        share: what part of a row sliding states make, (N, n).
    """

    residual: FloatArray
    torque: FloatArray
    dynamic: FloatArray
    gravity: FloatArray
    friction: FloatArray
    share: FloatArray


def of_links(model: ArmModel) -> FloatArray:
    """Which base parameters (p,) are of links and rotors, not of friction or springs."""
    return np.array([(kind := kind_and_number(name)[0]) not in KINDS or kind.startswith("IA") for name in model.names])


def dynamic_rows(
    model: ArmModel, samples: Samples, phi: BaseParameters, friction: FrictionLaw | None, slow_rad_s: float
) -> DynamicRows:
    """Rows of samples for a model's prediction; joints slower than `slow_rad_s` may stick."""
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
    """The first five of `DynamicRows` for states (M, n), before any low-pass."""
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
    """Functions of speed and of gravity's load (M, n) that friction may be made of, (M, n, f).

    The whole torque is no such load: at a joint that carries little it is friction and inertia, and so is its size.
    """
    speed, side = np.abs(dq), np.sign(dq)
    plain = [np.ones_like(dq), dq, side, *(side * np.exp(-speed / v) for v in SPEEDS_RAD_S)]
    loaded = side * np.abs(load)
    return np.stack([*plain, loaded, *(loaded * np.exp(-speed / v) for v in LOAD_SPEEDS_RAD_S)], axis=-1)
