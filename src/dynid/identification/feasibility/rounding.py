"""What rounding of published digits leaves open of an audit's answer."""

from collections.abc import Iterable
from decimal import Decimal

import numpy as np

from dynid.identification.feasibility.pose_kernels import InertiaFunctions
from dynid.robot import FloatArray


def rounding_of(values: Iterable[float]) -> float:
    """Half a unit of the last decimal that any of the values has: by so much each may be off.

    Of values with all digits of a double it is next to nothing.
    """
    exponents = [Decimal(repr(value)).normalize().as_tuple().exponent for value in values if value]
    last = min((exponent for exponent in exponents if isinstance(exponent, int)), default=-17)
    return 0.5 * 10.0 ** min(last, 0)


def left_open(functions: InertiaFunctions, phi: FloatArray, pose: FloatArray, rounding: float) -> float:
    """By how much rounding of every parameter moves the smallest eigenvalue of M at a pose at most [kg m^2].

    With v its eigenvector the eigenvalue is v' M(q; phi) v, which is linear in phi: to first order the sum of the sizes
    of its derivatives times the rounding.

    Args:
        functions: of the arm.
        phi: (p,).
        pose: (n,) [rad].
        rounding: of every parameter [its SI unit].
    """
    poses = pose[None]
    _, vectors = functions.smallest(poses, phi)
    return float(rounding * np.abs(functions.cuts(poses, vectors)).sum())
