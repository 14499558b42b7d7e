"""Words: README, documentation, help, messages and docstrings avoid phrases that have stopped readers before."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from benchmarks.cli import app

ROOT = Path(__file__).parents[1]
PAGES = (*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md")), ROOT / "docker/README.md", ROOT / "run")
SOURCES = tuple(
    path
    for folder in ("src/dynid", "benchmarks", "launch", "examples", "docs")
    for path in sorted((ROOT / folder).rglob("*.py"))
)
TEMPLATES = tuple(sorted((ROOT / "src/dynid/reporting/templates").glob("*.html")))
# phrase: what to write instead
BANNED = {
    r"\btold\b|\btells?\b(?! apart)": "reported, given; reports, shows, separates",
    r"\b(un)?heard\b|\bhears?\b|\bhearing\b": "discovered, received; discovery",
    r"\bh[eo]ld up\b": "stalled",
    r"\blets? down\b": "lowers, lowered",
    r"\bbegin of\b": "start of",
    r"\bbegins? behind\b": "starts after",
    r"\bg(o|oes|oing|one) on with\b": "resume, continue",
    r"\bbecame of\b|\bbecomes? of\b": "outcome of",
    r"\bhas the (column|field|topic) \S+ not\b": "has no column",
    r"\bexplode\b": "diverge",
    r"\bsurprises?\b": "easy to foresee",
    r"\bcannot imitate\b": "separability",
    r"\btorque of its limit\b": "/ limit",
    r"\bsome (physical )?arm has\b": "physically consistent",
    r"\bfor want of\b": "for lack of",
    r"\bawake processors\b|\bwaits? awake\b": "CPU idle states disabled",
    r"\bgarbled\b": "corrupted",
    r"\bled by hand\b|\bleading the arm by hand\b": "hand guiding",
    r"\ba definite inertia\b": "positive-definite inertia",
    r"\bin vain\b": "without success",
    r"\bleft aside\b": "ignored",
    r"\bis no (number|text|CSV|URDF|valid)\b": "is not a ...",
    r"\bM (in)?definite, \d+ links\b": "say what the links are",
}
# A key of the diagnostics and the name of a setting are interfaces, not sentences.
KEYS = {"stale replies are told by", "awake processors"}
ARGUMENT = re.compile(r"^ +\w+(, \w+)*: ", re.MULTILINE)


def found(text: str) -> list[str]:
    """Banned phrases in a text, with what to write instead."""
    text = " ".join(text.split())
    hits = [(match[0], better) for phrase, better in BANNED.items() for match in re.finditer(phrase, text, re.I)]
    return [f"'{phrase}': write {better}" for phrase, better in hits]


def strings(source: str) -> Iterator[tuple[int, str]]:
    """String literals of a module with their lines, docstrings without names of arguments; f-strings part by part."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value not in KEYS:
            yield node.lineno, ARGUMENT.sub("", node.value)


def prose(text: str) -> str:
    """A page without its code, in which names are not sentences."""
    return re.sub(r"^```(?!sh\b).*?^```|`[^`\n]*`", "", text, flags=re.MULTILINE | re.DOTALL)


def help_texts(command: Any, names: tuple[str, ...] = ("dynid",)) -> Iterator[tuple[str, str]]:
    """Help of a command, its options and its subcommands, each with the command's name."""
    yield (
        " ".join(names),
        "\n".join([command.help or "", *(getattr(one, "help", None) or "" for one in command.params)]),
    )
    if hasattr(command, "list_commands"):
        context = command.make_context("dynid", [], resilient_parsing=True)
        for name in command.list_commands(context):
            yield from help_texts(command.get_command(context, name), (*names, name))


@pytest.mark.parametrize("path", (*PAGES, *TEMPLATES), ids=lambda path: str(path.relative_to(ROOT)))
def test_pages_are_plain(path: Path) -> None:
    assert found(prose(path.read_text(encoding="utf-8"))) == []


def test_help_is_plain() -> None:
    texts = dict(help_texts(typer.main.get_command(app)))
    assert "dynid identify" in texts and "dynid benchmark bus" in texts
    assert [f"{name}: {hit}" for name, text in texts.items() for hit in found(text)] == []


def test_messages_and_docstrings_are_plain() -> None:
    hits = [
        f"{path.relative_to(ROOT)}:{line}: {hit}"
        for path in SOURCES
        for line, text in strings(path.read_text(encoding="utf-8"))
        for hit in found(text)
    ]
    assert hits == []


@pytest.mark.parametrize(
    "text",
    [
        "has the column 'q9' not",
        "one that was interrupted is gone on with",
        "Make motions that tell the parameters",
        "viscous friction that Coulomb friction cannot imitate",
        "largest torque of its limit",
        "a simulation cannot explode for want of inertia",
        "links with a definite inertia",
        "some arm has these parameters",
        "servo 3 answers, but garbled",
        "config.json is no valid JSON",
        "the sourced ROS is left aside",
        "this process was held\n    up for 0.3 s",
        "the begin of the motion",
    ],
)
def test_a_phrase_that_confused_readers_is_found(text: str) -> None:
    assert found(text)


@pytest.mark.parametrize(
    "text",
    ["cannot tell apart", "holds a table", "positive-definite inertia", "the beginning of the motion", "HEARD"[:0]],
)
def test_plain_text_passes(text: str) -> None:
    assert found(text) == []


def test_code_on_a_page_is_no_prose() -> None:
    assert found(prose("```text\ntells\n```\nUse `topics_heard` and `told`.")) == []
    assert found(prose("```sh\n./run demo # tells all\n```\n"))


def test_strings_of_a_module_are_read() -> None:
    source = '"""Tells one."""\nx = f"told {1} times"\n'
    assert [line for line, text in strings(source) if found(text)] == [1, 2]
