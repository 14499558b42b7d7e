"""Table of all estimators by name; a new estimator needs an entry here and a module of its own."""

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
    """Return the estimator with a name such as "ols".

    Raises:
        UnknownNameError: if the name is not in the table.
    """
    if name not in ESTIMATORS:
        raise UnknownNameError("estimator", name, tuple(sorted(ESTIMATORS)))
    return ESTIMATORS[name]()
