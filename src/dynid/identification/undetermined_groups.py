"""Which parameters a motion determines: rotors, inertias and first moments that differ from zero.

A group of parameters phi_g with covariance C_g is determined if the estimate separates it from zero and from 1.5 times
itself, so if half of it is too large for chance:

    || 0.5 phi_g ||_C  =  0.5 (phi_g' C_g^-1 phi_g)^1/2  >=  (chi^2_k)^1/2

at `CHANCE`, k being the number of parameters. Otherwise the result says that this motion does not determine the group:
either its torques are small, or the motion does not show them. The marginal covariance decides, all other
parameters being free.
"""

import numpy as np
from scipy.special import gammainccinv

from dynid.model.model_file import UndeterminedGroup
from dynid.model.parameter_groups import parameter_groups
from dynid.model.parameters import BaseParameters

CHANCE = 0.05
PART = 0.5  # of itself by which a group is separated from another
LEAST_VARIANCE = 1e-9  # of a correlation matrix


def undetermined(estimate: BaseParameters) -> tuple[UndeterminedGroup, ...]:
    """Return the groups that the estimate does not determine; () if its covariance is not known."""
    deviations = estimate.standard_deviations
    if estimate.covariance is None or deviations is None:
        return ()
    found = []
    for group in parameter_groups(estimate.names):
        own = np.array(group.places)[deviations[list(group.places)] > 0.0]
        if not len(own):
            continue
        scaled = estimate.values[own] / deviations[own]
        correlation = estimate.covariance[np.ix_(own, own)] / np.outer(deviations[own], deviations[own])
        values, vectors = np.linalg.eigh(correlation)
        distance = PART * float(np.linalg.norm(vectors.T @ scaled / np.sqrt(np.maximum(values, LEAST_VARIANCE))))
        needed = float(np.sqrt(2.0 * gammainccinv(0.5 * len(own), CHANCE)))
        if distance < needed:
            found.append(UndeterminedGroup(what=group.words, parameters=group.names, distance=distance, needed=needed))
    return tuple(found)


def undetermined_sentence(groups: tuple[UndeterminedGroup, ...]) -> str:
    """Return what is not determined, in words; "" if everything is."""
    if not groups:
        return ""
    named = "; ".join(f"{one.what} ({', '.join(one.parameters)})" for one in groups)
    return (
        f"not determined by this motion: {named}. The data separate them neither from zero nor from 1.5 times "
        "themselves: their torques are small, or the motion does not show them"
    )
