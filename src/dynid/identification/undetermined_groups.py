"""Groups of parameters (rotors, inertias, first moments) that a motion does not determine.

A group of parameters phi_g with covariance C_g is determined if a change by 50 % is significant, so that phi_g differs
significantly from 1.5 phi_g (and therefore also from zero). With the norm || x ||_C = (x' C_g^-1 x)^1/2, this means:

    || 0.5 phi_g ||_C  =  0.5 (phi_g' C_g^-1 phi_g)^1/2  >=  (chi^2_k)^1/2

chi^2_k is the chi-squared quantile that is exceeded with probability `CHANCE`, and k is the number of parameters.
Otherwise the group's torques are small, or the motion does not excite them, and the result lists the group as not
determined. C_g is the marginal covariance: all other parameters are free.
"""

import numpy as np
from scipy.special import gammainccinv

from dynid.model.model_file import UndeterminedGroup
from dynid.model.parameter_groups import parameter_groups
from dynid.model.parameters import BaseParameters

CHANCE = 0.05
RELATIVE_CHANGE = 0.5  # relative change of a determined group that must be significant
LEAST_VARIANCE = 1e-9  # least eigenvalue of a correlation matrix that is used


def undetermined(estimate: BaseParameters) -> tuple[UndeterminedGroup, ...]:
    """Return the parameter groups (rotor, inertia or first moments of a link) that the estimate does not determine.

    The result is () if the estimate's covariance is not known.
    """
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
        distance = RELATIVE_CHANGE * float(
            np.linalg.norm(vectors.T @ scaled / np.sqrt(np.maximum(values, LEAST_VARIANCE)))
        )
        needed = float(np.sqrt(2.0 * gammainccinv(0.5 * len(own), CHANCE)))
        if distance < needed:
            found.append(UndeterminedGroup(what=group.words, parameters=group.names, distance=distance, needed=needed))
    return tuple(found)


def undetermined_sentence(groups: tuple[UndeterminedGroup, ...]) -> str:
    """Return a sentence that lists the undetermined parameter groups; "" if all are determined."""
    if not groups:
        return ""
    named = "; ".join(f"{one.what} ({', '.join(one.parameters)})" for one in groups)
    return (
        f"not determined by this motion: {named}. The data separate them neither from zero nor from 1.5 times "
        "themselves: their torques are small, or the motion does not show them"
    )
