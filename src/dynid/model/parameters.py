"""Parameter vectors with names: base parameters phi with covariance, standard parameters pi."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dynid.errors import DataError, UnknownNameError
from dynid.model.springs import is_spring, spring_unit
from dynid.robot import FloatArray, read_only

MINIMUM_ROTOR_INERTIA = 1e-6  # lower bound of rotor inertias [kg m^2]
_UNITS = (("M", "kg*m"), ("IA", "kg*m^2"), ("FV", "N*m*s/rad"), ("FC", "N*m"), ("OF", "N*m"), ("FS", "N*m"))


_FORCE_UNITS = {"IA": "kg", "FV": "N*s/m", "FVM": "N*s/m", "FC": "N", "FCM": "N", "OF": "N", "FS": "N"}


def parameter_unit(name: str, prismatic: Sequence[bool] = ()) -> str:
    """Return the SI unit of a base or standard parameter, from its name.

    Args:
        name: name of the parameter.
        prismatic: whether each axis is prismatic, so that friction and offsets are forces, (n,); () if all are
            revolute.
    """
    kind = name.rstrip("0123456789")
    axis = int(name[len(kind) :] or 1) - 1
    if is_spring(name):
        return spring_unit(name, axis < len(prismatic) and prismatic[axis])
    if axis < len(prismatic) and prismatic[axis] and kind.removesuffix("R") in _FORCE_UNITS:
        return _FORCE_UNITS[kind.removesuffix("R")]
    if kind in ("M", "MR"):
        return "kg"
    return next((unit for prefix, unit in _UNITS if name.startswith(prefix)), "kg*m^2")


@dataclass(frozen=True, eq=False)
class _Named:
    """Vector of parameter values with a name for each; superclass of `BaseParameters` and `StandardParameters`."""

    names: tuple[str, ...]
    values: FloatArray
    kind: ClassVar[str]

    def __post_init__(self) -> None:
        values = read_only(self.values)
        if values.shape != (len(self.names),) or not np.isfinite(values).all():
            raise DataError(
                f"{self.kind} parameters need {len(self.names)} finite values, got an array of shape {values.shape}: "
                f"{values}"
            )
        object.__setattr__(self, "values", values)

    def __getitem__(self, name: str) -> float:
        if name not in self.names:
            raise UnknownNameError(f"{self.kind} parameter", name, self.names)
        return float(self.values[self.names.index(name)])


@dataclass(frozen=True, eq=False)
class BaseParameters(_Named):
    """Base parameters phi: the combinations of standard parameters on which torques depend.

    Attributes:
        names: names of the parameters, (p,).
        values: values of the parameters, (p,), read-only, SI.
        covariance: covariance of the values, (p, p); None if unknown.
    """

    covariance: FloatArray | None = None
    kind = "base"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.covariance is not None:
            object.__setattr__(self, "covariance", read_only(self.covariance))

    @property
    def standard_deviations(self) -> FloatArray | None:
        """Standard deviations (p,) in the SI units of the parameters, or None without a covariance."""
        return None if self.covariance is None else read_only(np.sqrt(np.diag(self.covariance)))

    def with_values(self, values: FloatArray) -> "BaseParameters":
        """Return base parameters with new values (p,), SI, and the present names and covariance."""
        return BaseParameters(self.names, values, self.covariance)


@dataclass(frozen=True, eq=False)
class StandardParameters(_Named):
    """Standard parameters pi of all links and axes, in the modified DH frames.

    Attributes:
        names: names of the parameters, (s,). Ten per link (XX..ZZ, MX..MZ, M) are followed by rotor inertia IA, viscous
            friction FV and Coulomb friction FC of every axis, and by further drive terms.
        values: values of the parameters, (s,), read-only, SI; inertias are about the link frame's origin.
        chain_size: number of links.
    """

    chain_size: int
    kind = "standard"

    def link(self, j: int) -> FloatArray:
        """Return the ten inertial parameters of link j (counted from 0), (10,) [kg m^2, kg m, kg]."""
        return self.values[10 * j : 10 * (j + 1)]

    def axis(self, kind: str) -> FloatArray:
        """Return one kind of drive parameter, such as rotor inertia, for all axes, (n,).

        Args:
            kind: "IA" (rotor inertia [kg m^2]), "FV" (viscous friction [N m s/rad]) or "FC" (Coulomb friction [N m]).
        """
        return read_only([v for n, v in zip(self.names, self.values, strict=True) if n.rstrip("0123456789") == kind])


def physical_lower_bounds(names: tuple[str, ...]) -> FloatArray:
    """Return lower bounds (p,) [SI unit] that hold for base parameters of every arm.

    Rotor inertias are positive, and viscous and Coulomb friction are not negative. Base parameters that combine several
    standard parameters have no such bound and get -inf, as do all other kinds.
    """
    by_kind = {"IA": MINIMUM_ROTOR_INERTIA, "FV": 0.0, "FC": 0.0}
    return read_only([by_kind.get(name.rstrip("0123456789"), -np.inf) for name in names])
