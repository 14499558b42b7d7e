"""Measured against written currents: do both say the same about the arm?

The regression uses one of them (`torque_source`); the closed-loop refinement predicts commands. Where a servo's current
loop does not follow its goal, or one of the two has another unit, sign or delay, the two give different parameters.
"""

from typing import cast, get_args

import numpy as np

from dynid.identification.preprocessing import Samples
from dynid.identification.regression import Regression
from dynid.identification.settings import IdentificationSettings, TorqueSource
from dynid.identification.verdict import Check
from dynid.model.dynamics import ArmModel


def other_source(source: TorqueSource) -> TorqueSource:
    """The one that was not chosen."""
    (other,) = (one for one in get_args(TorqueSource) if one != source)
    return cast(TorqueSource, other)


def torque_source_check(
    model: ArmModel, settings: IdentificationSettings, regression: Regression, other: Samples
) -> Check:
    """How far parameters from the other current are from those of the chosen one, in torque.

    Args:
        model, settings: of the identification.
        regression: of the chosen current.
        other: samples of the same motions with the other current.

    Returns:
        || W (phi_other - phi) || / || tau || as a check.
    """
    again = Regression.stack(model, other, settings.coulomb_friction)
    change = regression.W @ (again.solve().phi - regression.solve().phi)
    return Check(
        name=f"parameters from {other.settings.torque_source} instead of {settings.torque_source} current",
        value=float(np.linalg.norm(change) / np.linalg.norm(regression.tau)),
        limit=settings.acceptance.torque_source_difference,
        detail="difference in torque, relative",
    )
