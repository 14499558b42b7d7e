"""CasADi expressions as straight-line program text for `dynid.model.vector_ir`.

sin and cos become branch-free polynomials of the half angle, good to rounding for |q| <= RANGE; callers reject states
outside.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import casadi as ca
import numpy as np
from numpy.polynomial import Chebyshev

RANGE = 3.5  # rad
_BINARY = {ca.OP_ADD: "+", ca.OP_SUB: "-", ca.OP_MUL: "*", ca.OP_DIV: "/"}


@dataclass(frozen=True)
class Program:
    """A straight-line program: its text, its arrays' names in order, and which of them all lanes share."""

    text: str
    names: tuple[str, ...]
    shared: tuple[str, ...]


@lru_cache(maxsize=1)
def _half_angle_polynomials() -> tuple[list[float], list[float]]:
    """Coefficients in z = x^2 of sin(x)/x and cos(x), for |x| <= RANGE / 2."""
    domain, degree = [0.0, (RANGE / 2) ** 2], 10

    def fitted(function: Callable[[Any], Any]) -> list[float]:
        series = Chebyshev.interpolate(function, degree, domain=domain)
        return [float(c) for c in series.convert(kind=np.polynomial.Polynomial).coef]

    return fitted(lambda z: np.sinc(np.sqrt(z) / np.pi)), fitted(lambda z: np.cos(np.sqrt(z)))


def _horner(coefficients: list[float], z: ca.SX) -> ca.SX:
    value = ca.SX(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        value = value * z + coefficient
    return value


def sine_cosine(q: ca.SX) -> tuple[ca.SX, ca.SX]:
    """sin and cos of q (k, 1), |q| <= RANGE, as polynomials."""
    odd, even = _half_angle_polynomials()
    sines, cosines = [], []
    for i in range(q.shape[0]):
        x = 0.5 * q[i]
        z = x * x
        s, c = x * _horner(odd, z), _horner(even, z)
        sines.append(2 * (s * c))
        cosines.append(1 - 2 * (s * s))
    return ca.vertcat(*sines), ca.vertcat(*cosines)


def _statement(op: int, operands: list[str]) -> str:
    """The right-hand side of one CasADi instruction."""
    if op in _BINARY:
        return f"{operands[0]} {_BINARY[op]} {operands[1]}"
    (x,) = operands
    forms = {ca.OP_NEG: f"0.0 - {x}", ca.OP_SQ: f"{x} * {x}", ca.OP_INV: f"1.0 / {x}", ca.OP_TWICE: f"{x} + {x}"}
    return forms[op]


def emit(inputs: Mapping[str, ca.SX], shared: Mapping[str, ca.SX], outputs: Mapping[str, ca.SX]) -> Program:
    """The program that computes dense outputs from lane inputs and shared inputs; common subexpressions once."""
    symbols = {**inputs, **shared}
    sizes = [value.numel() for value in outputs.values()]
    joined = ca.cse(ca.vertcat(*(ca.vec(ca.densify(value)) for value in outputs.values())))
    function = ca.Function("program", list(symbols.values()), [joined])
    names = list(symbols)
    targets = [f"{name}[{k}]" for name, size in zip(outputs, sizes, strict=True) for k in range(size)]
    held: dict[int, str] = {}
    lines: list[str] = []
    for k in range(function.n_instructions()):
        op, into, used = function.instruction_id(k), function.instruction_output(k), function.instruction_input(k)
        if op == ca.OP_INPUT:
            held[into[0]] = f"{names[used[0]]}[{used[1]}]"
        elif op == ca.OP_CONST:
            held[into[0]] = repr(float(function.instruction_constant(k)))
        elif op == ca.OP_OUTPUT:
            lines.append(f"{targets[into[1]]} = {held[used[0]]}")
        else:
            statement = _statement(op, [held[i] for i in used])
            held[into[0]] = f"v{len(lines)}"
            lines.append(f"v{len(lines)} = {statement}")
    return Program("\n".join(lines), (*symbols, *outputs), tuple(shared))
