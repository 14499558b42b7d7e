"""Vectors of three numbers in compiled code: products, and rotations by 3 x 3 matrices.

Vectors are tuples, so that each function is compiled once and needs no memory. Products of such small arrays by numpy
take several times as long, to compile and to run.
"""

import numba

from dynid.robot import FloatArray

Vector = tuple[float, float, float]


@numba.njit(cache=True)
def vector(values: FloatArray) -> Vector:
    """Return an array (3,), any unit, as a vector."""
    return values[0], values[1], values[2]


@numba.njit(cache=True)
def put(out: FloatArray, a: Vector) -> None:
    """Write a vector, any unit, into an array (3,)."""
    out[0], out[1], out[2] = a


@numba.njit(cache=True)
def plus(a: Vector, b: Vector) -> Vector:
    """Return the sum of two vectors."""
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]


@numba.njit(cache=True)
def minus(a: Vector, b: Vector) -> Vector:
    """Return the difference a - b of two vectors."""
    return a[0] - b[0], a[1] - b[1], a[2] - b[2]


@numba.njit(cache=True)
def scaled(a: Vector, factor: float) -> Vector:
    """Return a vector times a number."""
    return factor * a[0], factor * a[1], factor * a[2]


@numba.njit(cache=True)
def dot(a: Vector, b: Vector) -> float:
    """Return the scalar product of two vectors."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@numba.njit(cache=True)
def cross(a: Vector, b: Vector) -> Vector:
    """Return the cross product of two vectors."""
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


@numba.njit(cache=True)
def turned(R: FloatArray, a: Vector) -> Vector:
    """Return the product R a of a matrix (3, 3) and a vector, any unit."""
    return (
        R[0, 0] * a[0] + R[0, 1] * a[1] + R[0, 2] * a[2],
        R[1, 0] * a[0] + R[1, 1] * a[1] + R[1, 2] * a[2],
        R[2, 0] * a[0] + R[2, 1] * a[1] + R[2, 2] * a[2],
    )


@numba.njit(cache=True)
def turned_back(R: FloatArray, a: Vector) -> Vector:
    """Return the product R' a of a transposed matrix (3, 3) and a vector, any unit."""
    return (
        R[0, 0] * a[0] + R[1, 0] * a[1] + R[2, 0] * a[2],
        R[0, 1] * a[0] + R[1, 1] * a[1] + R[2, 1] * a[2],
        R[0, 2] * a[0] + R[1, 2] * a[1] + R[2, 2] * a[2],
    )
