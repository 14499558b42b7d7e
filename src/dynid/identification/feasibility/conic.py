"""Conic programs for the solver Clarabel: min c' x, with linear functions of x constrained to cones.

The standard form is written directly, since the programs of this package are few and similar; a modelling library takes
longer to import than the rest of an identification takes to run. If the interior-point method stalls, it is run again
with other step lengths, because the feasible sets are thin in some directions. Of 3000 consistent projections of
disturbed parameters, 11 ended in a numerical error of the solver at its default step length, and none at a shorter one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import clarabel
import numpy as np
from scipy import sparse

from dynid.errors import InfeasibleError
from dynid.robot import FloatArray

# Solver settings of successive attempts: largest step to the cone's boundary, and diagonal regularisation.
ATTEMPTS: tuple[dict[str, float], ...] = (
    {},
    {"max_step_fraction": 0.95},
    {"max_step_fraction": 0.9, "static_regularization_constant": 1e-7},
)
Kind = Literal["zero", "positive", "norm", "matrix"]
PROVEN = {"PrimalInfeasible": "infeasible", "DualInfeasible": "unbounded"}  # final: another attempt would not help


@dataclass(frozen=True, eq=False)
class Cone:
    """Constraint that A x + b lies in a cone; created by `zero`, `positive`, `norm_below` or `semidefinite`.

    Attributes:
        kind: "zero" if all entries of A x + b must be zero; "positive" if none may be negative; "norm" if the first
            must be at least the norm of the others; "matrix" if the k^2 entries must form a symmetric positive
            semidefinite matrix (k, k).
        A: matrix (m, n); variables beyond its columns are not constrained.
        b: vector (m,).
    """

    kind: Kind
    A: FloatArray
    b: FloatArray

    def violation(self, x: FloatArray) -> float:
        """Return the amount by which x (n,) violates the constraint; negative or 0 if x satisfies it."""
        value = self.A @ x[: self.A.shape[1]] + self.b
        if self.kind == "zero":
            return float(np.abs(value).max(initial=0.0))
        if self.kind == "norm":
            return float(np.linalg.norm(value[1:]) - value[0])
        if self.kind == "positive":
            return float(-value.min(initial=np.inf))
        return float(-np.linalg.eigvalsh(_square(value))[0])


def zero(A: FloatArray, b: FloatArray) -> Cone:
    """Return the constraint A x + b = 0; A (m, n) or (n,), b (m,)."""
    return Cone("zero", np.atleast_2d(A), np.atleast_1d(b))


def positive(A: FloatArray, b: FloatArray) -> Cone:
    """Return the constraint A x + b >= 0, entry by entry; A (m, n) or (n,), b (m,)."""
    return Cone("positive", np.atleast_2d(A), np.atleast_1d(b))


def norm_below(A: FloatArray, b: FloatArray, row: FloatArray, constant: float = 0.0) -> Cone:
    """Return the constraint || A x + b || <= row' x + constant; A (m, n), b (m,), row (k,) with k >= n."""
    wide = np.zeros((len(A) + 1, len(row)))
    wide[0], wide[1:, : A.shape[1]] = row, A
    return Cone("norm", wide, np.append(constant, b))


def semidefinite(A: FloatArray, b: FloatArray) -> Cone:
    """Return the constraint that A x + b, (k k,), are the entries of a positive semidefinite matrix.

    A (k k, n) and b (k k,) must be those of symmetric matrices.
    """
    return Cone("matrix", A, b)


def minimise(c: FloatArray, cones: Sequence[Cone], what: str, cure: str) -> FloatArray:
    """Return the x (n,) that minimises c' x under conic constraints.

    If no attempt finds an accurate solution, the inaccurate one with the smallest constraint violation is returned, if
    there is one: the caller has to check it by its own criteria.

    Args:
        c: objective, (n,).
        cones: constraints.
        what: name of the optimisation problem in errors.
        cure: advice for the case that there is no solution.

    Raises:
        InfeasibleError: there is no solution, or the solver found not even an inaccurate one with any of its settings.
    """
    data = _standard_form(np.asarray(c, dtype=float), cones)
    inaccurate: dict[float, FloatArray] = {}  # inaccurate solutions by their largest constraint violation
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
    """Solve a conic program once, and return Clarabel's status as text and its solution x (n,).

    Args:
        data: the program in Clarabel's standard form.
        options: solver settings that differ from the defaults, by name.
    """
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    for name, value in options.items():
        setattr(settings, name, value)
    found = clarabel.DefaultSolver(*data, settings).solve()
    return str(found.status), np.array(found.x)


def _standard_form(c: FloatArray, cones: Sequence[Cone]) -> tuple[Any, ...]:
    """Return the arguments P, q, A, b and cones of Clarabel's solver.

    Clarabel minimises 0.5 x' P x + q' x subject to A x + s = b, with s in the cones. Here P is zero and q is c.
    """
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
    # Clarabel takes the upper triangle column by column, with off-diagonal entries times the root of two
    size = round(count**0.5)
    column, row = np.tril_indices(size)
    scale = np.where(row == column, 1.0, np.sqrt(2.0))
    place = row * size + column
    return A[place] * scale[:, None], cone.b[place] * scale, clarabel.PSDTriangleConeT(size)


def _square(entries: FloatArray) -> FloatArray:
    size = round(len(entries) ** 0.5)
    return entries.reshape(size, size)
