"""Straight-line programs as SIMD machine code: one numba intrinsic per program.

A program is a list of assignments such as `v7 = v3 * phi[2]`. The intrinsic lowers every one to an LLVM operation on
`WIDTH` lanes, so vectorisation does not depend on what the optimiser recognises, and numba's front end, whose time
grows with the number of statements, never sees them. LLVM maps the width to what the processor has.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import types
from numba.extending import intrinsic

WIDTH = 4  # lanes of one operation: one AVX2 register, two SSE or NEON ones; wider was slower where it was measured
LANES = 16  # columns of every lane array: enough independent groups to hide latencies
_FLAGS = ("contract", "nsz", "arcp")
_DOUBLE, _INDEX = ir.DoubleType(), ir.IntType(64)
_VECTOR = ir.VectorType(_DOUBLE, WIDTH)
_OPERATIONS = {"+": "fadd", "-": "fsub", "*": "fmul", "/": "fdiv"}


class _Lowering:
    """State of one program's translation."""

    def __init__(self, builder: Any, pointers: Mapping[str, Any], shared: Sequence[str], lane: Any) -> None:
        self.builder, self.pointers, self.shared, self.lane = builder, pointers, shared, lane
        self.values: dict[str, Any] = {}

    def run(self, text: str) -> None:
        for line in text.strip().splitlines():
            target, expression = line.split(" = ")
            value = self._evaluate(expression.split())
            if target.endswith("]"):
                self.builder.store(value, self._address(target), align=8)
            else:
                self.values[target] = value

    def _evaluate(self, tokens: list[str]) -> Any:
        if len(tokens) == 1:
            return self._operand(tokens[0])
        left, operation, right = tokens
        return getattr(self.builder, _OPERATIONS[operation])(
            self._operand(left), self._operand(right), flags=_FLAGS
        )

    def _operand(self, token: str) -> Any:
        if token not in self.values:
            self.values[token] = self._load(token) if token.endswith("]") else self._constant(float(token))
        return self.values[token]

    def _constant(self, value: float) -> Any:
        return ir.Constant(_VECTOR, [value] * WIDTH)

    def _address(self, token: str) -> Any:
        name, row = token[:-1].split("[")
        offset = self.builder.add(self.lane, ir.Constant(_INDEX, int(row) * LANES))
        place = self.builder.gep(self.pointers[name], [offset])
        return self.builder.bitcast(place, _VECTOR.as_pointer())

    def _load(self, token: str) -> Any:
        name, index = token[:-1].split("[")
        if name not in self.shared:
            return self.builder.load(self._address(token), align=8)
        value = self.builder.load(self.builder.gep(self.pointers[name], [ir.Constant(_INDEX, int(index))]))
        undefined = ir.Constant(_VECTOR, ir.Undefined)
        single = self.builder.insert_element(undefined, value, ir.Constant(ir.IntType(32), 0))
        return self.builder.shuffle_vector(
            single, undefined, ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH)
        )


def straight_line(text: str, names: Sequence[str], shared: Sequence[str]) -> Callable[..., None]:
    """An intrinsic `f(lane, arrays)` that runs a program for the lanes lane .. lane + WIDTH - 1.

    Args:
        text: the program; an operand is a value, a number, or `name[row]`.
        names: the arrays' names in the order of the tuple; (rows, LANES) C-contiguous float64, or (size,) if shared.
        shared: the arrays that have one value for all lanes.
    """

    @intrinsic
    def run(typing_context: Any, lane: Any, arrays: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kinds = signature.args[1].types
            pointers = {
                name: context.make_array(kind)(context, builder, builder.extract_value(arguments[1], k)).data
                for k, (name, kind) in enumerate(zip(names, kinds, strict=True))
            }
            _Lowering(builder, pointers, shared, arguments[0]).run(text)
            return context.get_dummy_value()

        return types.void(types.intp, arrays), generate

    return run
