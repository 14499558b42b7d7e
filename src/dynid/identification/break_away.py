"""Torque by which the friction of slow joints exceeds the largest torque of the friction law (the friction budget).

A friction law without Stribeck friction and without a bristle model lacks the break-away torque. Its friction budget is
then too small when motion starts. If the budget is used as a bound, such as for contact detection at rest, the result
of `beyond_budget` is added to it.
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
ONSET_RAD_S = 1e-9  # speed just above standstill, at which Stribeck friction is largest [rad/s]
EXCESS_SHARE = 0.01  # share of the slow samples that may exceed the extended budget
NOISE = 2.3  # number of standard deviations that normal noise exceeds in the share `EXCESS_SHARE` of samples


def beyond_budget(
    model: ArmModel,
    samples: Samples,
    base: BaseParameters,
    friction: FrictionLaw | None,
    slow: NDArray[np.bool_],
    noise: FloatArray,
) -> FloatArray:
    """Return the torque by which friction of slow joints exceeds the largest friction torque of the law, (n,) [N m].

    The excess of a slow sample is its friction minus the largest friction torque of the law. The result is the excess
    that only the fraction `EXCESS_SHARE` of the slow samples surpasses, minus `NOISE` standard deviations of noise.
    Noise alone surpasses this number of standard deviations in the same fraction of samples.

    Args:
        model: the arm.
        samples: motion and torques.
        base: base parameters.
        friction: friction law in addition to the base parameters; None if there is none.
        slow: mask of the samples in which a joint is slow, (N, n).
        noise: standard deviations of the model's torque errors for joints that are not slow, (n,) [N m].

    Returns:
        Torque of at least 0; 0 for a joint without slow samples.
    """
    links, still = of_kinds(base, OF_DRIVES, others=True), np.zeros_like(samples.dq)
    rubs = samples.tau - model.inverse_dynamics(samples.q, samples.dq, samples.ddq, links)
    load = -model.inverse_dynamics(samples.q, samples.dq, still, links)
    beyond = np.full(rubs.shape, -np.inf)
    for sign in (1.0, -1.0):
        just = still + sign * ONSET_RAD_S
        held = model.dry_torque(just, base)
        if friction is not None:
            held = held + friction["of"] + sign * friction.budget(just, samples.tau, load)
        beyond = np.maximum(beyond, sign * (rubs - held))
    most = np.zeros(model.axes)
    for axis, own in enumerate(slow.T):
        if own.any():
            most[axis] = np.quantile(beyond[own, axis], 1.0 - EXCESS_SHARE)
    return np.maximum(most - NOISE * noise, 0.0)
