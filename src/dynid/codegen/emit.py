"""Translation of CasADi expressions to straight-line program text for `dynid.codegen.vector_ir`.

sin and cos become branch-free polynomials of the half angle, accurate to rounding for |q| <= RANGE. Callers reject
states outside of this range.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import casadi as ca
import numpy as np
from numpy.polynomial import Chebyshev

from dynid.codegen.vector_ir import LANES, WIDTH

RANGE = 3.5  # largest |q| for which the polynomials of sin and cos are accurate [rad]
_BINARY = {ca.OP_ADD: "+", ca.OP_SUB: "-", ca.OP_MUL: "*", ca.OP_DIV: "/", ca.OP_FMIN: "min"}


@dataclass(frozen=True)
class Program:
    """Straight-line program as text, with the layout of its arrays.

    A lane is one of the states that the program processes together.

    Attributes:
        text: assignments, one per line.
        names: names of the arrays, in the order in which they are passed to the program.
        shared: names of the arrays that have one value for all lanes.
        row: number of lanes of every array that is not shared.
        width: number of lanes of one operation.
    """

    text: str
    names: tuple[str, ...]
    shared: tuple[str, ...]
    row: int
    width: int = WIDTH


@lru_cache(maxsize=1)
def _half_angle_polynomials() -> tuple[list[float], list[float]]:
    """Return coefficients of two polynomials in z = x^2 that approximate sin(x)/x and cos(x) for |x| <= RANGE / 2.

    The coefficient of the lowest power comes first.
    """
    domain, degree = [0.0, (RANGE / 2) ** 2], 10

    def fitted(function: Callable[[Any], Any]) -> list[float]:
        series = Chebyshev.interpolate(function, degree, domain=domain)
        return [float(c) for c in series.convert(kind=np.polynomial.Polynomial).coef]

    return fitted(lambda z: np.sinc(np.sqrt(z) / np.pi)), fitted(lambda z: np.cos(np.sqrt(z)))


class _Writer:
    """Writer of a program's lines, which computes sine and cosine of each angle only once."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._angles: dict[str, tuple[str, str]] = {}

    def value(self, expression: str) -> str:
        """Append an assignment of an expression to a new value, and return the value's name."""
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {expression}")
        return name

    def _polynomial(self, coefficients: list[float], z: str) -> str:
        value = repr(coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            value = self.value(f"{self.value(f'{value} * {z}')} + {coefficient!r}")
        return value

    def sine_cosine(self, angle: str) -> tuple[str, str]:
        """Return the names of the values with sine and cosine of an angle.

        The first call with an angle appends the assignments that compute them.
        """
        if angle not in self._angles:
            odd, even = _half_angle_polynomials()
            x = self.value(f"0.5 * {angle}")
            z = self.value(f"{x} * {x}")
            s = self.value(f"{x} * {self._polynomial(odd, z)}")
            twice = self.value(f"{s} + {s}")
            sine = self.value(f"{twice} * {self._polynomial(even, z)}")
            self._angles[angle] = sine, self.value(f"1.0 - {self.value(f'{twice} * {s}')}")
        return self._angles[angle]

    def operation(self, op: int, operands: list[str]) -> str:
        """Append the assignment for one CasADi instruction, and return the name of its value.

        Args:
            op: CasADi's number of the operation.
            operands: names of the operands.
        """
        if op in _BINARY:
            return self.value(f"{operands[0]} {_BINARY[op]} {operands[1]}")
        (x,) = operands
        if op in (ca.OP_SIN, ca.OP_COS):
            return self.sine_cosine(x)[0 if op == ca.OP_SIN else 1]
        forms = {ca.OP_NEG: f"0.0 - {x}", ca.OP_SQ: f"{x} * {x}", ca.OP_INV: f"1.0 / {x}", ca.OP_TWICE: f"{x} + {x}"}
        return self.value(forms[op])


def emit(
    inputs: Mapping[str, ca.SX], shared: Mapping[str, ca.SX], outputs: Mapping[str, ca.SX], row: int = LANES
) -> Program:
    """Return the program that computes outputs from inputs, without repeated subexpressions.

    An output matrix is stored column by column. Of a sparse matrix, only the structural nonzeros are stored.

    Args:
        inputs: symbols with one value per lane, by array name. A lane is one of the states that the program processes
            together.
        shared: symbols with one value for all lanes, by array name.
        outputs: expressions, by array name.
        row: number of lanes of every array that is not shared.
    """
    symbols = {**inputs, **shared}
    elements: list[Any] = [element for value in outputs.values() for element in value.nonzeros()]
    joined = ca.cse(ca.vertcat(*elements))
    function = ca.Function("program", list(symbols.values()), [joined])
    names = list(symbols)
    targets = [f"{name}[{k}]" for name, value in outputs.items() for k in range(value.nnz())]
    held: dict[int, str] = {}
    writer = _Writer()
    for k in range(function.n_instructions()):
        op, into, used = function.instruction_id(k), function.instruction_output(k), function.instruction_input(k)
        if op == ca.OP_INPUT:
            held[into[0]] = f"{names[used[0]]}[{used[1]}]"
        elif op == ca.OP_CONST:
            held[into[0]] = repr(float(function.instruction_constant(k)))
        elif op == ca.OP_OUTPUT:
            writer.lines.append(f"{targets[into[1]]} = {held[used[0]]}")
        else:
            held[into[0]] = writer.operation(op, [held[i] for i in used])
    return Program("\n".join(writer.lines), (*symbols, *outputs), tuple(shared), row)
