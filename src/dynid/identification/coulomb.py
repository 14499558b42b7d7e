"""Coulomb friction beside the base parameters: a nuisance that would otherwise hide in them.

The paper's 39 parameters hold no Coulomb friction. A real arm has it, and least squares then blames it on viscous
friction, gravity and inertia: by how much depends on the motion, so that sets of different motions differ. Here it is
estimated with them and handed on beside them:

    tau_f,j = FC_j tanh(dq_j / v),    FC_j >= 0

v being small against working speeds. Near standstill a joint sticks: its friction then is whatever balances the other
torques, which no function of dq describes, so rows slower than a limit get a small weight.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.ndimage import maximum_filter1d

from dynid.errors import DataError
from dynid.identification.settings import CoulombSettings
from dynid.model.parameters import StandardParameters
from dynid.robot import FloatArray, read_only


def friction_names(axes: int) -> tuple[str, ...]:
    """FC1 ... FCn, as the paper's 65-parameter structure calls them."""
    return tuple(f"FC{j + 1}" for j in range(axes))


@dataclass(frozen=True, eq=False)
class CoulombFriction:
    """Coulomb friction of every axis; arrays are read-only.

    Attributes:
        values: FC, (n,) [N m], not negative.
        transition_rad_s: v, the speed at which tanh(1) = 76 % of it acts.
        standard_deviations: of the values, (n,) [N m]; None if not known.
    """

    values: FloatArray
    transition_rad_s: float
    standard_deviations: FloatArray | None = None

    def __post_init__(self) -> None:
        values = read_only(self.values)
        if values.ndim != 1 or not np.isfinite(values).all() or (values < 0.0).any():
            raise DataError(f"Coulomb friction is {values} N m; expected one finite value per axis, not negative")
        object.__setattr__(self, "values", values)
        if self.standard_deviations is not None:
            object.__setattr__(self, "standard_deviations", read_only(self.standard_deviations))

    @property
    def names(self) -> tuple[str, ...]:
        """FC1 ... FCn."""
        return friction_names(len(self.values))

    def torque(self, dq: FloatArray) -> FloatArray:
        """Torque that velocities dq (..., n) [rad/s] cost, (..., n) [N m]."""
        return np.asarray(self.values * friction_shape(dq, self.transition_rad_s))


def with_friction(standard: StandardParameters, friction: CoulombFriction | None) -> StandardParameters:
    """Standard parameters whose FC are this friction's."""
    if friction is None:
        return standard
    values = np.array(standard.values)
    for name, value in zip(friction.names, friction.values, strict=True):
        values[standard.names.index(name)] = value
    return replace(standard, values=values)


def friction_shape(dq: FloatArray, transition_rad_s: float) -> FloatArray:
    """tanh(dq / v), the torque of a unit of Coulomb friction, for velocities (N, n) [rad/s]."""
    return np.asarray(np.tanh(dq / transition_rad_s))


def row_weights(dq: FloatArray, settings: CoulombSettings) -> FloatArray:
    """Weights of the torque rows that belong to velocities dq (N, n) [rad/s]: 1, and less near standstill."""
    return np.where(np.abs(dq) < settings.slow_rad_s, settings.slow_weight, 1.0)


def loop_weights(dq: FloatArray, settings: CoulombSettings, step_s: float) -> FloatArray:
    """`row_weights` for a closed loop, velocities dq (K, n) being `step_s` apart.

    What sticking did to the position stays in the commands until the loop has forgotten it, and the zero-phase filter
    spreads it to both sides; so the small weight reaches `settings.loop_memory_s` around every standstill.
    """
    slow = np.abs(dq) < settings.slow_rad_s
    width = 2 * round(settings.loop_memory_s / step_s) + 1
    return np.where(maximum_filter1d(slow.astype(np.uint8), width, axis=0) > 0, settings.slow_weight, 1.0)
