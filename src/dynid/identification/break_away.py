"""By how much friction of slow joints exceeds what its law says it may hold.

A law without a dip at low speed, or bristles that a joint has to break loose from, has too small a budget where motion
begins. Whoever takes the budget for a bound, as contact detection does at rest, needs what is missing.
"""

import numpy as np
from numpy.typing import NDArray

from dynid.identification.data.preprocessing import Samples
from dynid.model.drive import KINDS, of_kinds
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FrictionLaw
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray

OF_DRIVES = [kind for kind in KINDS if kind != "IA"]
JUST_RAD_S = 1e-9  # a speed of a known direction, at which all of the dip is there
RARELY = 0.01  # of the slow samples may exceed even that
NOISE = 2.3  # deviations of noise that so many exceed


def beyond_budget(
    model: ArmModel,
    samples: Samples,
    base: BaseParameters,
    friction: FrictionLaw | None,
    slow: NDArray[np.bool_],
    noise: FloatArray,
) -> FloatArray:
    """What all but `RARELY` of the slow samples' friction stays within, beyond the budget, (n,) [N m].

    Args:
        model: the arm.
        samples: motion and torques.
        base, friction: the model of it.
        slow: which of the samples are of a slow joint, (N, n).
        noise: deviations of the model's torques where joints are not slow, (n,) [N m].

    Returns:
        At least 0; 0 where no sample is slow.
    """
    links, still = of_kinds(base, OF_DRIVES, others=True), np.zeros_like(samples.dq)
    rubs = samples.tau - model.inverse_dynamics(samples.q, samples.dq, samples.ddq, links)
    load = -model.inverse_dynamics(samples.q, samples.dq, still, links)
    beyond = np.full(rubs.shape, -np.inf)
    for sign in (1.0, -1.0):
        just = still + sign * JUST_RAD_S
        held = model.dry_torque(just, base)
        if friction is not None:
            held = held + friction["of"] + sign * friction.budget(just, samples.tau, load)
        beyond = np.maximum(beyond, sign * (rubs - held))
    most = np.zeros(model.axes)
    for axis, own in enumerate(slow.T):
        if own.any():
            most[axis] = np.quantile(beyond[own, axis], 1.0 - RARELY)
    return np.maximum(most - NOISE * noise, 0.0)
