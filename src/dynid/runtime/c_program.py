"""Translation of the straight-line programs that `dynid.codegen` generates to C99 functions."""

from collections.abc import Callable

from dynid.codegen.emit import Program

Number = Callable[[float], str]


def double_number(value: float) -> str:
    """Return the text of a number as a C constant of type double."""
    return repr(float(value))


def float_number(value: float) -> str:
    """Return the text of a number as a C constant of type float, with nine digits, which distinguish all floats."""
    text = f"{float(value):.9g}"
    return f"{text if set(text) & set('.en') else text + '.0'}f"


def c_function(name: str, program: Program, number: Number) -> str:
    """Return the text of a static C function that computes the result of the generated code `program`.

    The arguments of the C function are the arrays of `program`; the last one is the result. `number` is a function that
    formats a constant for C.
    """
    arrays = [f"const real *{one}" for one in program.names[:-1]] + [f"real *{program.names[-1]}"]
    lines = [f"static void {name}({', '.join(arrays)})", "{", *(f"    (void){one};" for one in program.names)]
    for target, tokens in _live_assignments(program.text):
        values = [one if _is_name(one) or one in "+-*/" else number(float(one)) for one in tokens]
        kind = "" if target.endswith("]") else "const real "
        lines.append(f"    {kind}{target} = {' '.join(values)};")
    return "\n".join([*lines, "}", ""])


def _is_name(token: str) -> bool:
    """Return whether a token of generated code is a variable or an array element, and not a number or an operator."""
    return token[0].isalpha()


def _live_assignments(text: str) -> list[tuple[str, list[str]]]:
    """Return the assignments in generated code that contribute to the result, in order, each as target and tokens.

    Unused assignments are omitted, because C compilers reject unused values.
    """
    found, used = [], set[str]()
    for line in reversed(text.strip().splitlines()):
        target, expression = line.split(" = ")
        if target.endswith("]") or target in used:
            tokens = expression.split()
            used.update(tokens)
            found.append((target, tokens))
    return found[::-1]
