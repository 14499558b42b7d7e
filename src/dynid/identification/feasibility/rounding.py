"""Uncertainty of an inertia matrix's smallest eigenvalue that comes from the rounding of published parameters."""

from collections.abc import Iterable
from decimal import Decimal

import numpy as np

from dynid.identification.feasibility.pose_kernels import InertiaFunctions
from dynid.robot import FloatArray


def rounding_of(values: Iterable[float]) -> float:
    """Return the largest rounding error of decimal values.

    It is half a unit of the last decimal place of the value with the most decimals. If the values have all digits of
    double precision, the result is nearly zero.
    """
    exponents = [Decimal(repr(value)).normalize().as_tuple().exponent for value in values if value]
    last = min((exponent for exponent in exponents if isinstance(exponent, int)), default=-17)
    return 0.5 * 10.0 ** min(last, 0)


def eigenvalue_rounding_error(functions: InertiaFunctions, phi: FloatArray, pose: FloatArray, rounding: float) -> float:
    """Return the largest change of an inertia matrix's smallest eigenvalue [kg m^2] that rounding of parameters causes.

    With M the inertia matrix and v the unit eigenvector, the eigenvalue is v' M(q; phi) v, which is linear in phi. To
    first order, the change is the sum of the absolute derivatives times the rounding error.

    Args:
        functions: functions of the arm's inertia matrix.
        phi: base parameters, (p,).
        pose: pose (n,) [rad].
        rounding: rounding error of every parameter [its SI unit].
    """
    poses = pose[None]
    _, vectors = functions.smallest(poses, phi)
    return float(rounding * np.abs(functions.cuts(poses, vectors)).sum())
