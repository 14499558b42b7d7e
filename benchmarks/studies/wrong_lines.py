"""Random wrong lines of a package: a sign, a limit, a constant or a condition is changed in its text."""

import ast
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dynid.errors import DataError

OPERATORS: dict[type[ast.AST], tuple[str, str, str]] = {
    ast.Add: ("sign", "+", "-"),
    ast.Sub: ("sign", "-", "+"),
    ast.Lt: ("limit", "<", ">="),
    ast.LtE: ("limit", "<=", ">"),
    ast.Gt: ("limit", ">", "<="),
    ast.GtE: ("limit", ">=", "<"),
    ast.Eq: ("limit", "==", "!="),
    ast.NotEq: ("limit", "!=", "=="),
    ast.And: ("condition", "and", "or"),
    ast.Or: ("condition", "or", "and"),
}
BOUNDS = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum"}


@dataclass(frozen=True)
class Edit:
    """Change of one place of a file's text.

    Attributes:
        kind: sign, limit, constant, condition or order.
        line: number of the line, from 1.
        parts: replaced pieces: first and last byte of each, and the new text.
    """

    kind: str
    line: int
    parts: tuple[tuple[int, int, bytes], ...]

    def applied(self, text: bytes) -> bytes:
        """Return the changed text."""
        for begin, end, new in sorted(self.parts, reverse=True):
            text = text[:begin] + new + text[end:]
        return text


@dataclass(frozen=True)
class WrongLine:
    """File of the package, the edit, and its line before and after."""

    path: str
    edit: Edit
    before: str
    after: str


class _Places:
    """Positions of a syntax tree's nodes in the bytes from which it was parsed."""

    def __init__(self, text: bytes) -> None:
        self.text, self.starts = text, [0]
        for line in text.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))

    def span(self, node: ast.expr) -> tuple[int, int]:
        """Return the first byte of a node, and the byte after the last."""
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self.starts[node.lineno - 1] + node.col_offset, self.starts[node.end_lineno - 1] + node.end_col_offset

    def between(self, left: ast.expr, right: ast.expr, kind: type[ast.AST], line: int) -> Iterator[Edit]:
        """Replace the operator between two operands if the text between them is unambiguous."""
        name, old, new = OPERATORS[kind]
        begin, end = self.span(left)[1], self.span(right)[0]
        gap = self.text[begin:end]
        if b"#" not in gap and gap.count(old.encode()) == 1:
            at = begin + gap.index(old.encode())
            yield Edit(name, line, ((at, at + len(old), new.encode()),))


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _of_expression(node: ast.expr, places: _Places) -> Iterator[Edit]:
    """Yield the edits of an operator, a sign, or a bound."""
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS and not (_is_text(node.left) or _is_text(node.right)):
        yield from places.between(node.left, node.right, type(node.op), node.lineno)
    elif isinstance(node, ast.Compare) and type(node.ops[0]) in OPERATORS and "__name__" not in ast.dump(node.left):
        yield from places.between(node.left, node.comparators[0], type(node.ops[0]), node.lineno)
    elif isinstance(node, ast.BoolOp):
        yield from places.between(node.values[0], node.values[1], type(node.op), node.lineno)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not):
        begin, end = places.span(node)[0], places.span(node.operand)[0]
        if places.text[begin:end] in (b"-", b"not "):
            kind = "sign" if isinstance(node.op, ast.USub) else "condition"
            yield Edit(kind, node.lineno, ((begin, end, b""),))
    elif isinstance(node, ast.Call):
        begin, end = places.span(node.func)
        name = re.search(rb"\w+$", places.text[begin:end])
        if name is not None and (other := BOUNDS.get(name[0].decode())) is not None:
            yield Edit("limit", node.lineno, ((end - len(name[0]), end, other.encode()),))


def _of_statement(node: ast.stmt, places: _Places) -> Iterator[Edit]:
    """Yield the edits of an addition in place, of a constant of the file, and of two successive conditions."""
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add | ast.Sub) and not _is_text(node.value):
        yield from places.between(node.target, node.value, type(node.op), node.lineno)
    elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id.isupper():
        value = node.value.value if isinstance(node.value, ast.Constant) else None
        if isinstance(value, int | float) and not isinstance(value, bool) and value:
            begin, end = places.span(node.value)
            yield Edit("constant", node.lineno, ((begin, end, repr(2 * value).encode()),))
    elif isinstance(node, ast.If) and len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If):
        one, two = places.span(node.test), places.span(node.orelse[0].test)
        texts = places.text[slice(*one)], places.text[slice(*two)]
        yield Edit("order", node.lineno, ((*one, texts[1]), (*two, texts[0])))


def edits(text: bytes) -> list[Edit]:
    """Return every change of a file's text."""
    places = _Places(text)
    found: list[Edit] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.expr):
            found += _of_expression(node, places)
        elif isinstance(node, ast.stmt):
            found += _of_statement(node, places)
    return sorted(found, key=lambda one: one.parts)


def draw(package: Path, count: int, seed: int) -> list[WrongLine]:
    """Return random wrong lines of all files of a package, each line at most once.

    Raises:
        DataError: the package has fewer lines that can be changed.
    """
    by_line: dict[tuple[str, int], list[Edit]] = {}
    texts = {str(path.relative_to(package)): path.read_bytes() for path in sorted(package.rglob("*.py"))}
    for name, text in texts.items():
        for edit in edits(text):
            by_line.setdefault((name, edit.line), []).append(edit)
    if len(by_line) < count:
        raise DataError(f"{package} has {len(by_line)} lines that can be made wrong, but {count} were asked for")
    rng = random.Random(seed)
    return [_wrong(name, texts[name], rng.choice(by_line[name, line])) for name, line in rng.sample([*by_line], count)]


def _wrong(name: str, text: bytes, edit: Edit) -> WrongLine:
    """Show the line before and after."""
    both = (one.decode().splitlines()[edit.line - 1].strip() for one in (text, edit.applied(text)))
    return WrongLine(name, edit, *both)
