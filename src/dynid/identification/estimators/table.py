"""The table of estimators: the one place besides its own file that a new one is written into."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from dynid.errors import UnknownNameError
from dynid.identification.estimators.constrained import ConsistentLeastSquares, SequentialPrograms
from dynid.identification.estimators.essential import EssentialLeastSquares
from dynid.identification.estimators.estimate import Estimator
from dynid.identification.estimators.least_squares import HuberLeastSquares, OrdinaryLeastSquares, WeightedLeastSquares

ESTIMATORS: Mapping[str, Callable[[], Estimator]] = MappingProxyType(
    {
        "ols": OrdinaryLeastSquares,
        "wls": WeightedLeastSquares,
        "huber": HuberLeastSquares,
        "essential": EssentialLeastSquares,
        "consistent": ConsistentLeastSquares,
        "sequential": SequentialPrograms,
    }
)


def estimator(name: str) -> Estimator:
    """The estimator of this name.

    Raises:
        UnknownNameError: it is not in the table.
    """
    if name not in ESTIMATORS:
        raise UnknownNameError("estimator", name, tuple(sorted(ESTIMATORS)))
    return ESTIMATORS[name]()
