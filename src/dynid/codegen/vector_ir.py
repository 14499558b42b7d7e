"""Compilation of straight-line programs to SIMD machine code, one numba intrinsic per program.

A program is a list of assignments such as `v7 = v3 * phi[2]`. A lane is one of the states that a program processes
together. The intrinsic lowers each assignment to an LLVM operation on `WIDTH` lanes, so vectorisation does not depend
on the optimiser. The assignments bypass numba's front end, whose time grows with the number of statements. LLVM maps
the width to the processor's registers.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numba
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import types
from numba.extending import intrinsic

WIDTH = 4  # lanes of one operation: one AVX2 register, two SSE or NEON ones; wider was slower in measurements
LANES = 16  # states that a program processes together; more than WIDTH, to hide latencies; to change it see `compiled`
_FLAGS = ("contract", "nsz", "arcp")
_DOUBLE, _INDEX = ir.DoubleType(), ir.IntType(64)
_POINTER, _DATA = _DOUBLE.as_pointer(), types.CPointer(types.float64)  # type: ignore[attr-defined]
_OPERATIONS = {"+": "fadd", "-": "fsub", "*": "fmul", "/": "fdiv"}
Loop = TypeVar("Loop", bound=Callable[..., Any])


def compiled(loop: Loop) -> Loop:
    """Compile a Python loop with numba; the machine code is cached beside the loop's source file.

    The loop serves all arms, because it receives the functions of an arm as pointers. numba recompiles the loop only if
    the loop's own source file changes. After a change of `LANES`, or of a loop in another file that this loop calls,
    delete the folders `__pycache__`, because the cached code still contains the old value or the old called loop.
    """
    made: Loop = numba.njit(cache=True, error_model="numpy", fastmath=set(_FLAGS))(loop)
    return made


def program_type(arrays: int) -> Any:
    """Return the numba type of a program that is called by address: it takes `arrays` pointers and returns nothing."""
    return types.void(*[_DATA] * arrays)


class _Lowering:
    """Translation of one program to LLVM instructions."""

    def __init__(
        self, builder: Any, pointers: Mapping[str, Any], shared: Sequence[str], lane: Any, row: int, width: int
    ) -> None:
        self.builder, self.pointers, self.shared = builder, pointers, shared
        self.lane, self.row, self.width = lane, row, width
        self.vector = ir.VectorType(_DOUBLE, width)
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
        left, right = self._operand(tokens[0]), self._operand(tokens[2])
        if tokens[1] == "min":
            return self.builder.select(self.builder.fcmp_ordered("<", left, right), left, right)
        return getattr(self.builder, _OPERATIONS[tokens[1]])(left, right, flags=_FLAGS)

    def _operand(self, token: str) -> Any:
        if token not in self.values:
            self.values[token] = self._load(token) if token.endswith("]") else self._constant(float(token))
        return self.values[token]

    def _constant(self, value: float) -> Any:
        return ir.Constant(self.vector, [value] * self.width)

    def _address(self, token: str) -> Any:
        name, row = token[:-1].split("[")
        offset = self.builder.add(self.lane, ir.Constant(_INDEX, int(row) * self.row))
        place = self.builder.gep(self.pointers[name], [offset])
        return self.builder.bitcast(place, self.vector.as_pointer())

    def _load(self, token: str) -> Any:
        name, index = token[:-1].split("[")
        if name not in self.shared:
            return self.builder.load(self._address(token), align=8)
        value = self.builder.load(self.builder.gep(self.pointers[name], [ir.Constant(_INDEX, int(index))]))
        undefined = ir.Constant(self.vector, ir.Undefined)
        single = self.builder.insert_element(undefined, value, ir.Constant(ir.IntType(32), 0))
        return self.builder.shuffle_vector(
            single, undefined, ir.Constant(ir.VectorType(ir.IntType(32), self.width), [0] * self.width)
        )


def straight_line(
    text: str, names: Sequence[str], shared: Sequence[str], row: int = LANES, width: int = WIDTH
) -> Callable[..., None]:
    """Return a numba intrinsic `f(lane, arrays)` that runs a straight-line program for `width` states.

    A lane is the index of a state among those that a program processes together. The intrinsic processes the lanes from
    `lane` to `lane + width - 1`.

    Args:
        text: the program, one assignment per line, such as `v7 = v3 * phi[2]`. An operand is the result of an earlier
            line, a number, or an array element such as `phi[2]`.
        names: names of the arrays in the order of the tuple `arrays`. Each array is C-contiguous float64 with shape
            (k, `row`), or (k,) if shared, with any k. It is given as an array or as a pointer to its data.
        shared: names of the arrays that have one value for all lanes.
        row: number of lanes of every array that is not shared.
        width: number of lanes of one operation; 1 gives scalar code.
    """

    symbol = "dynid_" + hashlib.sha256(f"{row} {width} {text}".encode()).hexdigest()[:16]

    @intrinsic
    def run(typing_context: Any, lane: Any, arrays: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointers = _data(context, builder, signature.args[1], arguments[1])
            kinds = [_INDEX, *(pointer.type for pointer in pointers)]
            function = _function(builder.module, symbol, kinds)
            if function.is_declaration:
                inner = ir.IRBuilder(function.append_basic_block())
                places = dict(zip(names, function.args[1:], strict=True))
                _Lowering(inner, places, shared, function.args[0], row, width).run(text)
                inner.ret_void()
            builder.call(function, [arguments[0], *pointers])
            return context.get_dummy_value()

        return types.void(types.intp, arrays), generate

    intrinsic_of: Callable[..., None] = run
    return intrinsic_of


@intrinsic
def run_program(typing_context: Any, program: Any, arrays: Any) -> Any:
    """Call a generated function by its pointer (address), for all lanes (states) of its arrays.

    `run_program` is a numba intrinsic, called as `run_program(address, arrays)` in compiled code. `arrays` is the tuple
    of the function's input and output arrays. `program_type` gives the function's type.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointers = _data(context, builder, signature.args[1], arguments[1])
        kind = ir.FunctionType(ir.VoidType(), [_POINTER] * len(pointers))
        builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), pointers)
        return context.get_dummy_value()

    return types.void(types.intp, arrays), generate


def _data(context: Any, builder: Any, kinds: Any, arrays: Any) -> list[Any]:
    """Return LLVM pointers to the data of a tuple of arrays or pointers.

    Args:
        context: numba's target context.
        builder: builder of LLVM instructions.
        kinds: numba types of the tuple's elements.
        arrays: LLVM value of the tuple.
    """
    values = [builder.extract_value(arrays, k) for k in range(len(kinds))]
    return [
        context.make_array(kind)(context, builder, value).data if isinstance(kind, types.Array) else value
        for kind, value in zip(kinds, values, strict=True)
    ]


def _function(module: Any, symbol: str, kinds: Sequence[Any]) -> Any:
    """Return the LLVM function of a program, declared without a body if it is new.

    The function is marked `noinline`. Otherwise LLVM would copy it into every caller and optimise each copy again.

    Args:
        module: LLVM module to which the function belongs.
        symbol: name of the function.
        kinds: LLVM types of its arguments.
    """
    if symbol in module.globals:
        return module.globals[symbol]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), symbol)
    function.linkage = "internal"
    function.attributes.add("noinline")
    return function
