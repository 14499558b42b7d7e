"""Whether gears lose a share of the motor's torque or of what the links take: masses depend on which.

Where a gear loses the share k of the motor's torque, the motor gives links / (1 - k) while it drives and
links / (1 + k) while it is driven; one that loses k of what the links take gives (1 + k) and (1 - k) times them. Both
pairs have the same ratio for some k, so with links alone only masses would differ: by 1 / (1 - k^2), 11 % for k = 0.32.
Coulomb and viscous friction separate them, because a share of the motor's torque is a share of them, too. What the
links take counts with the rotors' inertia and without it: a rotor sits before the gear, its bearings may not.
"""

from dataclasses import dataclass

import numpy as np

from dynid.identification.diagnosis.readings import BLOCKS, Data, LinearFit, Trials
from dynid.model.friction import KE, KM, FrictionLaw
from dynid.robot import FloatArray

SAMPLES = 1000  # of `Trials` that decide it
ROUNDS, LEAST = 5, 0.004  # see `Trials.linear`
FELT = 0.05  # a share of load below it, or links that differ by less, change no mass that matters


@dataclass(frozen=True)
class OtherLosses:
    """Losses of what the links take, against the model and against the same fit with losses of the motor's torque.

    Attributes:
        gain: sum over the axes of log(their error / error with the links'), the smaller one.
        significance: mean difference over its standard error, over blocks of time; above 0 for the links', the smaller.
        links: torques of the links over those of the model.
    """

    gain: float
    significance: float
    links: float

    @property
    def alike(self) -> bool:
        """Whether masses hardly depend on it."""
        return abs(self.links - 1.0) < FELT


def other_losses(trials: Trials, phi: FloatArray, law: FrictionLaw, misfit: FloatArray) -> OtherLosses | None:
    """Losses of what the links take; None where the law of the model has no losses of any load, or nothing slides.

    Args:
        trials: of the samples that were fitted.
        phi, law: base parameters (p,) and friction of the model.
        misfit: torques of the samples less the model's, (N, n) [N m].
    """
    if np.abs(law.values[[KM, KE]]).max(initial=0.0) < FELT:
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
    """Torques of the links of a fit over others (N, n) [N m], each axis related to its torque."""
    along, square = 0.0, np.finfo(float).tiny
    for i in fit.left:
        at = data.slides[:, i]
        torque = float(np.sum(data.tau[at, i] ** 2))
        along += float(own[at, i] @ fit.links[at, i]) / torque
        square += float(own[at, i] @ own[at, i]) / torque
    return float(along / square)


def _better(left: dict[int, FloatArray], other: dict[int, FloatArray], data: Data) -> tuple[float, float]:
    """Gain and significance of errors [N m] of sliding samples, by axis, against others."""
    place, gain, blocks = data.block, 0.0, np.zeros(BLOCKS)
    for i, one in left.items():
        at = data.slides[:, i]
        least = LEAST**2 * float(np.sum(data.tau[at, i] ** 2))
        mine, its = float(np.sum(one**2)), float(np.sum(other[i] ** 2))
        gain += 0.5 * float(np.log((its + least) / (mine + least)))
        blocks += np.bincount(place[at], (other[i] ** 2 - one**2) / (min(mine, its) + least), minlength=BLOCKS)
    error = max(float(blocks.std(ddof=1)) * np.sqrt(BLOCKS), np.finfo(float).tiny)
    return gain, float(blocks.sum() / error)
