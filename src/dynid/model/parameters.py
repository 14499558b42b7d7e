"""Parameter vectors that carry their names: base parameters phi with covariance, standard parameters pi."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dynid.errors import DataError, UnknownNameError
from dynid.robot import FloatArray, read_only

MINIMUM_ROTOR_INERTIA = 1e-6  # kg m^2: every rotor has some
_UNITS = (
    ("M", "kg*m"), ("IA", "kg*m^2"), ("FV", "N*m*s/rad"), ("FC", "N*m"), ("OF", "N*m"), ("FS", "N*m"),
)  # fmt: skip


_SLIDING_UNITS = {"IA": "kg", "FV": "N*s/m", "FVM": "N*s/m", "FC": "N", "FCM": "N", "OF": "N", "FS": "N"}


def parameter_unit(name: str, sliding: Sequence[bool] = ()) -> str:
    """SI unit of a base or standard parameter, from its name.

    Args:
        name: of the parameter.
        sliding: which axes slide, (n,), whose drive terms are forces; () where all turn.
    """
    kind = name.rstrip("0123456789")
    axis = int(name[len(kind) :] or 1) - 1
    if axis < len(sliding) and sliding[axis] and kind.removesuffix("R") in _SLIDING_UNITS:
        return _SLIDING_UNITS[kind.removesuffix("R")]
    if kind in ("M", "MR"):
        return "kg"
    return next((unit for prefix, unit in _UNITS if name.startswith(prefix)), "kg*m^2")


@dataclass(frozen=True, eq=False)
class BaseParameters:
    """Base parameters phi.

    Attributes:
        names: (p,).
        values: (p,), read-only, SI.
        covariance: (p, p) or None where unknown.
    """

    names: tuple[str, ...]
    values: FloatArray
    covariance: FloatArray | None = None

    def __post_init__(self) -> None:
        values = read_only(self.values)
        if values.shape != (len(self.names),) or not np.isfinite(values).all():
            raise DataError(f"base parameters need {len(self.names)} finite values, got shape {values.shape}: {values}")
        object.__setattr__(self, "values", values)
        if self.covariance is not None:
            object.__setattr__(self, "covariance", read_only(self.covariance))

    def __getitem__(self, name: str) -> float:
        if name not in self.names:
            raise UnknownNameError("base parameter", name, self.names)
        return float(self.values[self.names.index(name)])

    @property
    def standard_deviations(self) -> FloatArray | None:
        """(p,), or None without a covariance."""
        return None if self.covariance is None else read_only(np.sqrt(np.diag(self.covariance)))

    def with_values(self, values: FloatArray) -> "BaseParameters":
        """Other values under the same names and covariance."""
        return BaseParameters(self.names, values, self.covariance)


@dataclass(frozen=True, eq=False)
class StandardParameters:
    """Standard parameters pi of all links and axes, in the modified DH frames.

    Attributes:
        names: (s,), ten per link (XX..ZZ, MX..MZ, M), then IA, FV, FC of every axis, then further drive terms.
        values: (s,), read-only, SI; inertias about the link frame's origin.
        chain_size: number of links.
    """

    names: tuple[str, ...]
    values: FloatArray
    chain_size: int

    def __post_init__(self) -> None:
        values = read_only(self.values)
        if values.shape != (len(self.names),) or not np.isfinite(values).all():
            raise DataError(f"standard parameters need {len(self.names)} finite values, got shape {values.shape}")
        object.__setattr__(self, "values", values)

    def __getitem__(self, name: str) -> float:
        if name not in self.names:
            raise UnknownNameError("standard parameter", name, self.names)
        return float(self.values[self.names.index(name)])

    def link(self, j: int) -> FloatArray:
        """The ten inertial parameters of link j (counted from 0), (10,)."""
        return self.values[10 * j : 10 * (j + 1)]

    def axis(self, kind: str) -> FloatArray:
        """IA, FV or FC of all axes, (n,)."""
        return read_only([v for n, v in zip(self.names, self.values, strict=True) if n.rstrip("0123456789") == kind])
