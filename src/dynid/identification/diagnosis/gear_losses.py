"""Test whether gears lose a share of the motor's torque or a share of the links' torque.

The masses that fit the data depend on this choice. Let t be the torque of the links. If a gear loses the share k of the
motor's torque, the motor torque is t / (1 - k) if the motor drives the links, and t / (1 + k) if they drive the motor.
If the gear loses the share k of t, the motor torque is (1 + k) t and (1 - k) t, respectively. The ratio of the two
motor torques is the same in both cases. Without other friction, the cases would differ only in the estimated masses, by
the factor 1 / (1 - k^2), which is 1.11 for k = 0.32. Coulomb and viscous friction make the cases distinguishable:
they are part of the motor's torque but not of the links' torque, so only losses of the motor's torque grow with them.
The links' torque is tested with and without the torque for the rotors' inertia: a rotor is on the motor side of the
gear, but its bearings may be on the links' side.
"""

from dataclasses import dataclass

import numpy as np

from dynid.identification.diagnosis.interpretations import BLOCKS, Data, LinearFit, Trials
from dynid.model.friction import KE, KM, FrictionLaw
from dynid.robot import FloatArray

SAMPLES = 1000  # largest number of samples that the fits use
ROUNDS, LEAST = 5, 0.004  # number of fits, and smallest relative error, as in `Trials.linear`
NEGLIGIBLE = 0.05  # load share, or relative difference of link torques, with a negligible effect on masses


@dataclass(frozen=True)
class OtherLosses:
    """Fit in which gears lose a share of the links' torque, compared with losses of a share of the motor's torque.

    The fit is compared with two competitors: the identified model, and a fit of the same kind whose losses grow with
    the motor's torque. Gain and significance are each the smaller value of the two comparisons.

    Attributes:
        gain: sum over the axes of log(error of the competitor / error of this fit); above 0 if this fit is better.
        significance: squared error of the competitor minus that of this fit, divided by the standard error of this
            difference. The standard error is estimated from blocks of time.
        links: torque of the links in this fit divided by that in the identified model [-].
    """

    gain: float
    significance: float
    links: float

    @property
    def alike(self) -> bool:
        """Whether the fitted masses are nearly the same for losses of the links' torque and of the motor's torque."""
        return abs(self.links - 1.0) < NEGLIGIBLE


def other_losses(trials: Trials, phi: FloatArray, law: FrictionLaw, misfit: FloatArray) -> OtherLosses | None:
    """Compare gear losses that grow with the links' torque with the model's, which grow with the motor's torque.

    Losses of the links' torque are fitted with and without the torque for the rotors' inertia; the result is the better
    fit. It is None if the model has no losses that grow with load, or if no joint moves enough to overcome sticking
    friction.

    Args:
        trials: fits of the samples.
        phi: base parameters of the model, (p,) [SI].
        law: friction law of the model.
        misfit: measured torques minus those of the model, (N, n) [N m].
    """
    if np.abs(law.values[[KM, KE]]).max(initial=0.0) < NEGLIGIBLE:
        return None
    data = trials.given
    motor = trials.linear(data, ROUNDS, LEAST, "motor").left
    if not motor:
        return None
    left = misfit[trials.chosen]
    model = {i: left[data.slides[:, i], i] for i in motor}
    tried = []
    for load in (trials.linear(data, ROUNDS, LEAST, "joint"), trials.linear(data, ROUNDS, LEAST, "links")):
        pairs = [_better(load.left, one, data) for one in (motor, model)]
        gain, significance = (min(pair) for pair in zip(*pairs, strict=True))
        tried.append(OtherLosses(gain, significance, _scale(load, trials.links(data, phi), data)))
    return max(tried, key=lambda one: one.gain)


def _scale(fit: LinearFit, own: FloatArray, data: Data) -> float:
    """Return the factor that scales the link torques of the model to those of a fit.

    The factor is a least-squares estimate over all axes. Each axis is weighted by the reciprocal of its mean square
    torque.

    Args:
        fit: the fit.
        own: link torques of the model, (N, n) [N m].
        data: torques and the mask of sliding samples.
    """
    along, square = 0.0, np.finfo(float).tiny
    for i in fit.left:
        at = data.slides[:, i]
        torque = float(np.sum(data.tau[at, i] ** 2))
        along += float(own[at, i] @ fit.links[at, i]) / torque
        square += float(own[at, i] @ own[at, i]) / torque
    return float(along / square)


def _better(left: dict[int, FloatArray], other: dict[int, FloatArray], data: Data) -> tuple[float, float]:
    """Return gain and significance of one fit compared with another, both positive if the first fit is better.

    The gain is the sum over the axes of log(rms torque error of the second fit / that of the first). The significance
    is the difference of the squared errors, divided by its standard error, which is estimated from blocks of time.

    Args:
        left: torque errors of the first fit in sliding samples, by axis [N m].
        other: torque errors of the second fit in sliding samples, by axis [N m].
        data: torques and the mask of sliding samples.
    """
    place, gain, blocks = data.block, 0.0, np.zeros(BLOCKS)
    for i, one in left.items():
        at = data.slides[:, i]
        least = LEAST**2 * float(np.sum(data.tau[at, i] ** 2))
        mine, its = float(np.sum(one**2)), float(np.sum(other[i] ** 2))
        gain += 0.5 * float(np.log((its + least) / (mine + least)))
        blocks += np.bincount(place[at], (other[i] ** 2 - one**2) / (min(mine, its) + least), minlength=BLOCKS)
    error = max(float(blocks.std(ddof=1)) * np.sqrt(BLOCKS), np.finfo(float).tiny)
    return gain, float(blocks.sum() / error)
