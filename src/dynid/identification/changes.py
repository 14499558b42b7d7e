"""What changed between two identifications of one arm, by name: base parameters beyond what both leave uncertain."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from dynid.errors import DataError
from dynid.model.parameters import BaseParameters, parameter_unit

CONFIDENCE = 0.95  # that nothing is named where nothing changed


@dataclass(frozen=True)
class Change:
    """One parameter before and after; the deviation is that of the difference."""

    name: str
    unit: str
    before: float
    after: float
    deviation: float

    @property
    def difference(self) -> float:
        """After minus before."""
        return self.after - self.before


def parameter_changes(
    before: BaseParameters, after: BaseParameters, unit: Callable[[str], str] = parameter_unit
) -> tuple[Change, ...]:
    """Differences of two sets of base parameters that were identified from different data; `unit` by name.

    Raises:
        DataError: of two models, or without covariances.
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
    """Those that accidents do not explain, the largest in deviations first.

    Where nothing changed, none is named with a probability of `confidence`: all changes share it (Bonferroni).
    """
    most = float(ndtri(1.0 - 0.5 * (1.0 - confidence) / max(len(changes), 1)))
    found = [one for one in changes if abs(one.difference) > most * one.deviation]
    return tuple(sorted(found, key=lambda one: -abs(one.difference) / max(one.deviation, np.finfo(float).tiny)))
