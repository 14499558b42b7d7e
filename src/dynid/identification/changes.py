"""Comparison of two identifications of one arm: base parameters that differ significantly."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from dynid.errors import DataError
from dynid.model.parameters import BaseParameters, parameter_unit

CONFIDENCE = 0.95  # probability that no change is reported if nothing changed


@dataclass(frozen=True)
class Change:
    """Values of one base parameter from two identifications, before and after a possible change of the arm.

    Attributes:
        name: name of the parameter.
        unit: unit of all values.
        before: value from the first identification.
        after: value from the second identification.
        deviation: standard deviation of the difference.
    """

    name: str
    unit: str
    before: float
    after: float
    deviation: float

    @property
    def difference(self) -> float:
        """Difference of the parameter's values, after minus before."""
        return self.after - self.before


def parameter_changes(
    before: BaseParameters, after: BaseParameters, unit: Callable[[str], str] = parameter_unit
) -> tuple[Change, ...]:
    """Return the differences between two sets of base parameters that were identified from different data.

    Args:
        before: the first set, with a covariance.
        after: the second set, with a covariance.
        unit: function that returns the unit of a parameter by its name.

    Raises:
        DataError: the sets belong to different models, or one has no covariance.
    """
    if before.names != after.names:
        raise DataError(
            "the two parameter sets belong to different models; identify both with the same robot and structure"
        )
    first, second = before.standard_deviations, after.standard_deviations
    if first is None or second is None:
        raise DataError("a set of parameters has no covariance, so its change has no uncertainty")
    deviations = np.hypot(first, second).tolist()
    rows = zip(before.names, before.values.tolist(), after.values.tolist(), deviations, strict=True)
    return tuple(Change(name, unit(name), a, b, deviation) for name, a, b, deviation in rows)


def beyond_chance(changes: Sequence[Change], confidence: float = CONFIDENCE) -> tuple[Change, ...]:
    """Return the statistically significant changes, the most significant first.

    If the arm did not change, the result is empty with a probability of at least `confidence`, regardless of the number
    of compared parameters (Bonferroni correction).
    """
    most = float(ndtri(1.0 - 0.5 * (1.0 - confidence) / max(len(changes), 1)))
    found = [one for one in changes if abs(one.difference) > most * one.deviation]
    return tuple(sorted(found, key=lambda one: -abs(one.difference) / max(one.deviation, np.finfo(float).tiny)))
