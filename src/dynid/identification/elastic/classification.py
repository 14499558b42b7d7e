"""Classification of the parameters of an arm with elastic joints: unidentifiable, independent or dependent."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from dynid.errors import DataError
from dynid.identification.elastic.model import ElasticModel, ElasticStates
from dynid.model.numerical_regrouping import grouping, independent_columns, is_zero_column
from dynid.robot import FloatArray, read_only

Kind = Literal["unidentifiable", "independent", "dependent"]
RANDOM_STATES = 400
PASSED_ON = ("YY", "MZ", "M")


@dataclass(frozen=True, eq=False)
class Classification:
    """Classification of the parameters pi (s,) of an arm, and their identifiable groups p = K pi, (b,).

    A group is a linear combination of parameters on which the torques depend.

    Attributes:
        kinds: for each parameter name "unidentifiable" (no effect on the torques), "independent" (identifiable alone)
            or "dependent" (identifiable only in a group with other parameters).
        names: names of the groups. A group has the name of the parameter that represents it, with the suffix R if the
            group contains other parameters.
        kept: indices of the regressor columns that represent the groups, (b,).
        K: grouping matrix, (b, s), with one row per group.
    """

    kinds: dict[str, Kind]
    names: tuple[str, ...]
    kept: tuple[int, ...]
    K: FloatArray

    def group(self, name: str) -> dict[str, float]:
        """Return the parameters in the group with the given name, each with its factor."""
        row = self.K[self.names.index(name)]
        return {one: float(row[k]) for k, one in enumerate(self.kinds) if row[k]}


def classify(W: FloatArray, names: tuple[str, ...]) -> Classification:
    """Return the classification of parameters by Gauss-Jordan elimination of a regressor.

    A parameter is unidentifiable if its column is zero. A parameter is independent if its column is linearly
    independent of all other columns. Otherwise it is dependent. Dependent parameters form
    groups, each represented by one of its parameters. Masses M, first moments MZ and moments of inertia YY represent a
    group only if no other parameter can. As with the base parameters of a rigid arm, they are thus grouped with
    parameters of bodies nearer the base.

    Args:
        W: regressor, (m, s), with m > s.
        names: names of the parameters, (s,).

    Raises:
        DataError: if there are too few rows, or the number of names is wrong.
    """
    if W.ndim != 2 or W.shape[0] <= W.shape[1] or W.shape[1] != len(names):
        raise DataError(f"{len(names)} parameters need one column each and more rows; got {W.shape}")
    silent = is_zero_column(W)
    kept = sorted(independent_columns(W, _order(names)))
    others = [k for k in range(len(names)) if k not in kept]
    K = np.zeros((len(kept), len(names)))
    K[np.arange(len(kept)), kept] = 1.0
    K[:, others] = grouping(W[:, kept], W[:, others])
    kinds: dict[str, Kind] = {}
    for k, name in enumerate(names):
        alone = k in kept and np.count_nonzero(K[kept.index(k)]) == 1
        kinds[name] = "unidentifiable" if silent[k] else "independent" if alone else "dependent"
    labels = tuple(names[k] + ("" if kinds[names[k]] == "independent" else "R") for k in kept)
    return Classification(kinds, labels, tuple(kept), read_only(K))


def _order(names: tuple[str, ...]) -> list[int]:
    """Return the order in which columns are examined, as indices (s,).

    Parameters that can be grouped with parameters of other bodies (masses, first moments MZ, inertias YY) come last, so
    that other columns are preferred as representatives.
    """
    late = [name.rstrip("0123456789") in PASSED_ON for name in names]
    return sorted(range(len(names)), key=lambda k: (late[k], -k))


def classify_structure(model: ElasticModel, seed: int = 0) -> Classification:
    """Return the classification of a model's parameters by the regressor of random states.

    Positions are uniform in (-pi, pi). Spring deflections, velocities and accelerations are independent of each other.
    So no motion of the arm can determine more parameters than these states.

    Raises:
        DataError: if the random states give too few rows for the number of parameters.
    """
    rng = np.random.default_rng(seed)
    shape = (RANDOM_STATES, model.size)
    q = rng.uniform(-np.pi, np.pi, shape)
    rest = rng.uniform(-1.0, 1.0, (4, *shape))
    states = ElasticStates(q, rest[0], rest[1], q + 0.3 * rng.uniform(-1.0, 1.0, shape), rest[2], rest[3])
    return classify(model.regressor(states).reshape(-1, len(model.names)), model.names)
