"""Translation of small Python functions of floats to C99.

Supported are arithmetic, comparisons, `if`, a `for` with a counter, and functions with several results. Thus the
friction law exists only once, in `dynid.model.friction`: its functions run in Python and are translated to C.
"""

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from dynid.errors import ConfigurationError

_BINARY: dict[type, str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_COMPARED: dict[type, str] = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}
_CALLS = {
    "abs": "REAL(fabs)",
    "max": "larger",
    "min": "smaller_of",
    "math.tanh": "REAL(tanh)",
    "math.exp": "REAL(exp)",
    "math.copysign": "REAL(copysign)",
    "np.sign": "sign_of",
}
HELPERS = {
    "larger": "static real larger(real a, real b) { return a > b ? a : b; }",
    "smaller_of": "static real smaller_of(real a, real b) { return a < b ? a : b; }",
    "sign_of": "static real sign_of(real a) { return (real)((a > 0) - (a < 0)); }",
}


def python_function(function: Callable[..., Any]) -> ast.FunctionDef:
    """Return the syntax tree of a Python function, which may be decorated by numba."""
    plain = getattr(function, "py_func", function)
    tree = ast.parse(textwrap.dedent(inspect.getsource(plain))).body[0]
    assert isinstance(tree, ast.FunctionDef)
    return tree


def called(function: Callable[..., Any]) -> set[str]:
    """Return the names of the functions that a Python function calls."""
    tree = python_function(function)
    return {one.func.id for one in ast.walk(tree) if isinstance(one, ast.Call) and isinstance(one.func, ast.Name)}


def needed(roots: Iterable[Callable[..., Any]], known: Mapping[str, Callable[..., Any]]) -> list[Callable[..., Any]]:
    """Return the functions `roots` and all functions they call, directly or indirectly, in the order C requires.

    Each function comes after the functions that it calls. Only functions in `known` (by name) are considered.
    """
    found: dict[str, Callable[..., Any]] = {}

    def add(name: str) -> None:
        for below in sorted(called(known[name]) & set(known)):
            if below not in found:
                add(below)
        found[name] = known[name]

    for root in roots:
        add(root.__name__)
    return list(found.values())


class CFunction:
    """Translation of a Python function to C.

    Args:
        function: function whose arguments are floats, except those in `types`.
        types: C declarations of arguments that are not floats, by name, with % in place of the name.
        constants: values of the constants that the function uses, by name.
        number: function that formats a float as a C number.
        result_type: C struct for results of several values, with the array member `value`.
        results: names of all functions that return the struct `result_type`.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        types: Mapping[str, str],
        constants: Mapping[str, int | float],
        number: Callable[[float], str],
        result_type: str,
        results: frozenset[str],
    ) -> None:
        self._tree, self._types, self._constants = python_function(function), types, constants
        self._number, self._result_type, self._results = number, result_type, results
        self._arguments = [one.arg for one in self._tree.args.args]
        self._kinds: dict[str, str] = {}
        self._depth = 1

    def text(self) -> str:
        """Return the definition of the function in C."""
        body = [line for statement in self._tree.body for line in self._statement(statement)]
        result = self._result_type if self._tree.name in self._results else "real"
        given = ", ".join(self._types.get(name, "real %").replace("%", name) for name in self._arguments)
        locals_ = [f"    {kind} {name};" for name, kind in self._kinds.items()]
        unused = [f"    (void){name};" for name in self._arguments]
        return "\n".join([f"static {result} {self._tree.name}({given})", "{", *locals_, *unused, *body, "}", ""])

    def _refuse(self, node: ast.AST) -> ConfigurationError:
        return ConfigurationError(
            f"{self._tree.name} has '{ast.unparse(node)}', which has no translation to C: write it with arithmetic, "
            "comparisons, if and for over range"
        )

    def _lines(self, statements: list[ast.stmt]) -> list[str]:
        self._depth += 1
        found = [line for one in statements for line in self._statement(one)]
        self._depth -= 1
        return found

    def _statement(self, node: ast.stmt) -> list[str]:
        pad = "    " * self._depth
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return []  # a docstring
        if isinstance(node, ast.Return):
            return self._returned(node, pad)
        if isinstance(node, ast.Break):
            return [f"{pad}break;"]
        if isinstance(node, ast.AugAssign) and type(node.op) in _BINARY:
            return [f"{pad}{self._value(node.target)} {_BINARY[type(node.op)]}= {self._value(node.value)};"]
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            return [f"{pad}{line}" for line in self._assigned(node.targets[0], node.value)]
        if isinstance(node, ast.If):
            found = [f"{pad}if {self._condition(node.test)} {{", *self._lines(node.body)]
            if node.orelse:
                found += [f"{pad}}} else {{", *self._lines(node.orelse)]
            return [*found, f"{pad}}}"]
        if isinstance(node, ast.For) and isinstance(node.target, ast.Name) and isinstance(node.iter, ast.Call):
            count, name = self._value(node.iter.args[0]), f"step{node.target.id}"
            return [f"{pad}for (int {name} = 0; {name} < {count}; {name}++) {{", *self._lines(node.body), f"{pad}}}"]
        raise self._refuse(node)

    def _returned(self, node: ast.Return, pad: str) -> list[str]:
        if not isinstance(node.value, ast.Tuple):
            assert node.value is not None
            return [f"{pad}return {self._value(node.value)};"]
        self._kinds["result"] = self._result_type
        parts = [f"{pad}result.value[{k}] = {self._value(one)};" for k, one in enumerate(node.value.elts)]
        return [*parts, f"{pad}return result;"]

    def _assigned(self, target: ast.expr, value: ast.expr) -> list[str]:
        if isinstance(target, ast.Name):
            own = isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in self._results
            self._declare(target.id, self._result_type if own else "real")
            return [f"{target.id} = {self._value(value)};"]
        if not isinstance(target, ast.Tuple):
            raise self._refuse(target)
        names = [one.id for one in target.elts if isinstance(one, ast.Name)]
        for name in names:
            if name != "_":
                self._declare(name, "real")
        if isinstance(value, ast.Tuple):  # refused if the right side reads a name that the left side assigns
            read = {one.id for one in ast.walk(value) if isinstance(one, ast.Name)}
            if read & set(names):
                raise self._refuse(value)
            return [f"{name} = {self._value(one)};" for name, one in zip(names, value.elts, strict=True)]
        whole = self._value(value)
        return [f"{name} = {whole}.value[{k}];" for k, name in enumerate(names) if name != "_"]

    def _declare(self, name: str, kind: str) -> None:
        if name not in self._arguments:
            self._kinds[name] = kind

    def _condition(self, node: ast.expr) -> str:
        """Return an expression as C text in one pair of parentheses only, since clang warns about `if ((a == b))`."""
        text = self._value(node)
        return text if isinstance(node, ast.Compare | ast.BoolOp | ast.UnaryOp) else f"({text})"

    def _value(self, node: ast.expr) -> str:
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            return self._number(float(node.value))
        if isinstance(node, ast.Name):
            known = self._constants.get(node.id)
            if known is None:
                return node.id
            return str(known) if isinstance(known, int) else self._number(known)
        if isinstance(node, ast.UnaryOp):
            return f"({'!' if isinstance(node.op, ast.Not) else '-'}({self._value(node.operand)}))"
        if isinstance(node, ast.BinOp):
            return self._binary(node)
        if isinstance(node, ast.BoolOp):
            word = " && " if isinstance(node.op, ast.And) else " || "
            return "(" + word.join(self._condition(one) for one in node.values) + ")"
        if isinstance(node, ast.Compare):
            sides = [self._value(one) for one in (node.left, *node.comparators)]
            pairs = zip(sides, node.ops, sides[1:], strict=False)
            return "(" + " && ".join(f"{a} {_COMPARED[type(op)]} {b}" for a, op, b in pairs) + ")"
        if isinstance(node, ast.IfExp):
            return f"({self._value(node.test)} ? {self._value(node.body)} : {self._value(node.orelse)})"
        return self._selected(node)

    def _binary(self, node: ast.BinOp) -> str:
        left, right = self._value(node.left), self._value(node.right)
        if isinstance(node.op, ast.Pow):
            return f"REAL(pow)({left}, {right})"
        if type(node.op) not in _BINARY:
            raise self._refuse(node)
        return f"({left} {_BINARY[type(node.op)]} {right})"

    def _selected(self, node: ast.expr) -> str:
        """Return the C text of an array element, a member of a result, or a call."""
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            if isinstance(node.slice, ast.Tuple):
                return node.value.id + "".join(f"[{self._value(one)}]" for one in node.slice.elts)
            if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, int):
                return f"{node.value.id}.value[{node.slice.value}]"
        if isinstance(node, ast.Call) and not node.keywords:
            name, given = ast.unparse(node.func), [self._value(one) for one in node.args]
            if name == "float":
                return given[0]
            return f"{_CALLS.get(name, name)}({', '.join(given)})"
        raise self._refuse(node)
