"""Docstrings of public functions: present, with shapes and units of arrays, and errors that they raise."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "dynid"
# What a user calls from Python; commands say what they do in --help, nodes in docs/interface.md.
LIBRARY = (
    "model",
    "codegen",
    "export",
    "robot",
    "trajectory",
    "excitation",
    "control",
    "hardware",
    "simulation",
    "recording",
    "identification",
    "reporting",
)
MODULES = sorted(
    [path for part in LIBRARY for path in (PACKAGE / part).rglob("*.py")]
    + [PACKAGE / "resources.py", PACKAGE / "parallel.py"]
)
ERRORS = set(re.findall(r"^class (\w+)\(", (PACKAGE / "errors.py").read_text(encoding="utf-8"), re.MULTILINE))
SHAPE = re.compile(r"\([^()]*(?:\([^()]*\)[^()]*)*,[^()]*\)|\(\d+\)|any shape")
PHYSICAL = ("model", "trajectory", "control")  # rooms whose arrays are physical quantities
_SYMBOL = r"(?:rad|deg|kg|mm?|ms?|s|Hz|N|A|V|W|J|1|SI unit)(?:\^-?\d)?"
_ONE = rf"(?:-|{_SYMBOL}(?:[ /]{_SYMBOL}|(?: per| or) {_SYMBOL})*)"
UNIT = re.compile(rf"\[{_ONE}(?:(?:,| or) {_ONE})*\]")
REASON = re.compile(r"\bSI\b|any unit|same unit")  # why no one unit can be named
TOLD = re.compile(r"Raises:|[Rr]aises? |[Ee]rrors? |it raises|[Rr]efuse|See `")


def findings(source: str, *, physical: bool = False) -> list[str]:
    """What public functions of a module leave unsaid; of physical arrays, the units as well."""
    found: list[str] = []

    def look(body: list[ast.stmt], whole: str, prefix: str) -> None:
        for node in body:
            if not isinstance(node, ast.ClassDef | ast.FunctionDef) or node.name.startswith("_"):
                continue
            text, name = ast.get_docstring(node) or "", f"{prefix}{node.name}"
            if not text:
                found.append(f"{name} has no docstring")
            elif isinstance(node, ast.ClassDef):
                look(node.body, text, f"{name}.")
            else:
                found.extend(f"{name} {fault}" for fault in _faults(node, text, whole, physical))

    look(ast.parse(source).body, "", "")
    return found


def _faults(function: ast.FunctionDef, text: str, of_class: str, physical: bool) -> list[str]:
    """Arrays without a shape or unit, here or in the class, and errors that nothing is said of."""
    arguments = [*function.args.args, *function.args.kwonlyargs]
    annotations = [ast.unparse(one.annotation) for one in arguments if one.annotation]
    annotations += [ast.unparse(function.returns)] if function.returns else []
    faults = []
    if any(re.search("FloatArray|IntArray|NDArray", one) for one in annotations) and not SHAPE.search(text + of_class):
        faults.append("takes or gives an array whose shape it does not say")
    unit = UNIT.search(text + of_class) or REASON.search(text + of_class)
    if physical and not unit and any("FloatArray" in one for one in annotations):
        faults.append("takes or gives an array whose unit it does not say")
    raised = {
        node.exc.func.id
        for node in ast.walk(function)
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and isinstance(node.exc.func, ast.Name)
    }
    if raised & ERRORS and not TOLD.search(text):
        faults.append(f"raises {', '.join(sorted(raised & ERRORS))} and does not say so")
    return faults


def test_public_functions_say_shapes_units_and_errors() -> None:
    unsaid = [
        f"{path.relative_to(PACKAGE)}: {fault}"
        for path in MODULES
        for fault in findings(path.read_text("utf-8"), physical=path.relative_to(PACKAGE).parts[0] in PHYSICAL)
    ]
    assert unsaid == []


def test_every_module_has_a_docstring() -> None:
    silent = [path for path in PACKAGE.rglob("*.py") if not ast.get_docstring(ast.parse(path.read_text("utf-8")))]
    assert silent == []


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("def f() -> None: pass", "f has no docstring"),
        ('def f(q: FloatArray) -> None:\n    """Something."""', "f takes or gives an array"),
        ('def f() -> None:\n    """Something."""\n    raise DataError("x")', "f raises DataError"),
        ('class A:\n    """A."""\n    def g(self) -> FloatArray:\n        """G."""', "A.g takes or gives an array"),
    ],
)
def test_missing_docstring_parts_are_found(source: str, words: str) -> None:
    (fault,) = findings(source)
    assert fault.startswith(words)


@pytest.mark.parametrize(
    "words", ["", " in [n]", " [radians]", " [rad or so]", " as in q[0]", " [m*s]", " []", " [, m]"]
)
def test_an_array_without_a_unit_is_found(words: str) -> None:
    source = f'def f(q: FloatArray) -> None:\n    """Of positions (N, n){words}."""'
    assert findings(source) == []
    assert findings(source, physical=True) == ["f takes or gives an array whose unit it does not say"]


@pytest.mark.parametrize(
    "words",
    [
        "[rad]",
        "[-]",
        "[N m s/rad]",
        "[rad, rad/s, rad/s^2]",
        "[rad or m]",
        "[N m per SI unit]",
        "in SI units",
        "of any unit",
    ],
)
def test_a_unit_or_the_reason_why_there_is_none_is_passed(words: str) -> None:
    assert findings(f'def f(q: FloatArray) -> None:\n    """Of (N, n) {words}."""', physical=True) == []


def test_private_or_complete_docstrings_pass() -> None:
    source = '''
def _f(q: FloatArray) -> None: pass
def g(q: FloatArray) -> None:
    """Of positions (N, n) [rad].

    Raises:
        DataError: other shapes.
    """
    raise DataError("x")
'''
    assert findings(source, physical=True) == []
