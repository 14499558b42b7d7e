"""Conic programs for Clarabel: min c' x with rows, norms and matrices of x in their cones.

The standard form is written here, since the programs of this package are few and alike; a modelling library takes
longer to load than the rest of an identification to run. Where the interior-point method stalls, it tries again with
other steps: the feasible sets are thin in some directions. Of 3000 consistent projections of disturbed parameters 11
ended in a numerical error of the solver at its default step length, and none of them at a shorter one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import clarabel
import numpy as np
from scipy import sparse

from dynid.errors import InfeasibleError
from dynid.robot import FloatArray

# Steps to the boundary of the cone, and what is added to the diagonal of the linear systems; the first is the default.
ATTEMPTS: tuple[dict[str, float], ...] = (
    {},
    {"max_step_fraction": 0.95},
    {"max_step_fraction": 0.9, "static_regularization_constant": 1e-7},
)
Kind = Literal["zero", "positive", "norm", "matrix"]
PROVEN = {"PrimalInfeasible": "infeasible", "DualInfeasible": "unbounded"}  # nothing is gained by another attempt


@dataclass(frozen=True, eq=False)
class Cone:
    """Where A x + b has to lie; use the functions below to make one.

    Attributes:
        kind: all entries zero or not negative; the first one at least the norm of the others; or the entries (k, k) of
            a symmetric positive semidefinite matrix.
        A: (m, n); variables beyond its columns have no part in it.
        b: (m,).
    """

    kind: Kind
    A: FloatArray
    b: FloatArray

    def violation(self, x: FloatArray) -> float:
        """By how much x (n,) is outside; negative or 0 inside."""
        value = self.A @ x[: self.A.shape[1]] + self.b
        if self.kind == "zero":
            return float(np.abs(value).max(initial=0.0))
        if self.kind == "norm":
            return float(np.linalg.norm(value[1:]) - value[0])
        if self.kind == "positive":
            return float(-value.min(initial=np.inf))
        return float(-np.linalg.eigvalsh(_square(value))[0])


def zero(A: FloatArray, b: FloatArray) -> Cone:
    """A x + b = 0; A (m, n) or (n,), b (m,)."""
    return Cone("zero", np.atleast_2d(A), np.atleast_1d(b))


def positive(A: FloatArray, b: FloatArray) -> Cone:
    """A x + b >= 0, entry by entry; A (m, n) or (n,), b (m,)."""
    return Cone("positive", np.atleast_2d(A), np.atleast_1d(b))


def norm_below(A: FloatArray, b: FloatArray, row: FloatArray, constant: float = 0.0) -> Cone:
    """|| A x + b || <= row' x + constant; A (m, n), b (m,), and row (k,), which may be longer than A is wide."""
    wide = np.zeros((len(A) + 1, len(row)))
    wide[0], wide[1:, : A.shape[1]] = row, A
    return Cone("norm", wide, np.append(constant, b))


def semidefinite(A: FloatArray, b: FloatArray) -> Cone:
    """A x + b are the entries (k k,) of a positive semidefinite matrix; A (k k, n) and b those of symmetric ones."""
    return Cone("matrix", A, b)


def minimise(c: FloatArray, cones: Sequence[Cone], what: str, cure: str) -> FloatArray:
    """The x (n,) with the least c' x in all cones.

    Where no attempt finds an accurate solution, that inaccurate one counts which violates the constraints least: the
    caller judges it by its own numbers.

    Args:
        what: names the program in an error.
        cure: what to do if it has no solution.

    Raises:
        InfeasibleError: there is no solution, or the solver found none with any of its settings.
    """
    data = _standard_form(np.asarray(c, dtype=float), cones)
    inaccurate: dict[float, FloatArray] = {}  # by how much the constraints are violated
    failure = ""
    for options in ATTEMPTS:
        status, x = _attempt(data, options)
        if status == "Solved":
            return x
        if status == "AlmostSolved":
            inaccurate[max((one.violation(x) for one in cones), default=0.0)] = x
            continue
        failure = f"the solver gave up {len(ATTEMPTS)} times ({status})"
        if status in PROVEN:
            failure = f"{PROVEN[status]}; {cure}"
            inaccurate.clear()
            break
    if not inaccurate:
        raise InfeasibleError(f"{what}: {failure}")
    return inaccurate[min(inaccurate)]


def _attempt(data: tuple[Any, ...], options: dict[str, float]) -> tuple[str, FloatArray]:
    """Clarabel's status and x."""
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    for name, value in options.items():
        setattr(settings, name, value)
    found = clarabel.DefaultSolver(*data, settings).solve()
    return str(found.status), np.array(found.x)


def _standard_form(c: FloatArray, cones: Sequence[Cone]) -> tuple[Any, ...]:
    """P, q, A, b and cones of min 0.5 x' P x + q' x subject to A x + s = b, s in the cones."""
    A, b, kinds = [], [], []
    for one in cones:
        wide = np.zeros((len(one.b), len(c)))
        wide[:, : one.A.shape[1]] = one.A
        rows, constant, kind = _of_clarabel(one, wide)
        A.append(-rows)
        b.append(constant)
        kinds.append(kind)
    size = len(c)
    return sparse.csc_matrix((size, size)), c, sparse.csc_matrix(np.vstack(A)), np.concatenate(b), kinds


def _of_clarabel(cone: Cone, A: FloatArray) -> tuple[FloatArray, FloatArray, Any]:
    count = len(cone.b)
    if cone.kind != "matrix":
        kinds = {"zero": clarabel.ZeroConeT, "positive": clarabel.NonnegativeConeT, "norm": clarabel.SecondOrderConeT}
        return A, cone.b, kinds[cone.kind](count)
    # of a symmetric matrix its upper triangle counts, column by column, off the diagonal times the root of two
    size = round(count**0.5)
    column, row = np.tril_indices(size)
    scale = np.where(row == column, 1.0, np.sqrt(2.0))
    place = row * size + column
    return A[place] * scale[:, None], cone.b[place] * scale, clarabel.PSDTriangleConeT(size)


def _square(entries: FloatArray) -> FloatArray:
    size = round(len(entries) ** 0.5)
    return entries.reshape(size, size)
