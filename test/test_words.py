"""Wording: README, documentation, help, messages and docstrings avoid phrases that confused readers."""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

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


class Rule(NamedTuple):
    """A phrase that stopped readers, what to write instead, and an example of each."""

    phrase: str
    better: str
    rejected: str
    accepted: str


RULES = (
    Rule(r"\btold\b|\btells?\b(?! apart)", "reported, given; reports, shows", "the page tells the reason", "gives"),
    Rule(
        r"\b(un)?heard\b|\bhears?\b|\bhearing\b",
        "discovered, received; discovery",
        "a recorder hears the topic",
        "a recorder receives the topic",
    ),
    Rule(r"\bh[eo]ld up\b", "stalled", "this process was held\n    up for 0.3 s", "this process stalled for 0.3 s"),
    Rule(r"\blet(s|ting)? (it |the arm )?down\b", "lowers, lowered", "the driver lets it down", "the driver lowers it"),
    Rule(r"\bbegin of\b", "start of", "the begin of the motion", "the beginning of the motion"),
    Rule(r"\bbegins? behind\b", "starts after", "the window begins behind the gap", "it starts after the gap"),
    Rule(r"\bg(o|oes|oing|one) on with\b", "resume, continue", "is gone on with", "is resumed"),
    Rule(
        r"\bbecame of\b|\b(becomes?|comes) of\b",
        "outcome of, treatment of",
        "what becomes of springs",
        "the treatment of springs",
    ),
    Rule(r"\bhas the (column|field|topic) \S+ not\b", "has no column", "has the column 'q9' not", "has no column 'q9'"),
    Rule(r"\bexplode\b", "diverge", "the simulation may explode", "the simulation may diverge"),
    Rule(r"\bsurprises?\b", "easy to foresee", "a motion without surprises", "a motion that is easy to foresee"),
    Rule(
        r"\bcannot imitate\b",
        "separability",
        "viscous friction that Coulomb friction cannot imitate",
        "viscous friction that is separable from Coulomb friction",
    ),
    Rule(r"\btorque of its limit\b", "/ limit", "largest torque of its limit", "largest torque / limit"),
    Rule(
        r"\bsome (physical )?arm has\b",
        "physically consistent",
        "some arm has these parameters",
        "these parameters are physically consistent",
    ),
    Rule(r"\bfor want of\b", "for lack of", "refused for want of data", "refused for lack of data"),
    Rule(
        r"\bawake processors\b|\bwaits? awake\b",
        "CPU idle states disabled",
        "with awake processors",
        "with CPU idle states disabled",
    ),
    Rule(r"\bgarbled\b", "corrupted", "servo 3 answers, but garbled", "the answer of servo 3 is corrupted"),
    Rule(
        r"\bled by hand\b|\blead(ing)? the arm by hand\b|\b(is|was|are|were|be|being) led\b|\bled arm\b",
        "guided by hand; hand guiding",
        "an arm that is led slowly",
        "an arm that is guided slowly",
    ),
    Rule(
        r"\ba definite inertia\b",
        "positive-definite inertia",
        "links with a definite inertia",
        "links with a positive-definite inertia",
    ),
    Rule(r"\bin vain\b", "without success", "three attempts in vain", "three attempts without success"),
    Rule(r"\bleft aside\b", "ignored", "the sourced ROS is left aside", "the sourced ROS is ignored"),
    Rule(
        r"\bis no (number|text|CSV|URDF|valid)\b",
        "is not a ...",
        "config.json is no valid JSON",
        "config.json is not valid JSON",
    ),
    Rule(
        r"\bM (in)?definite, \d+ links\b",
        "say what the links are",
        "M definite, 5 links",
        "5 links have a positive-definite inertia",
    ),
    Rule(r"\bby so (many|much)\b", "tolerance of ...", "by so much a joint may be off", "tolerance of a joint"),
    Rule(r"\bso (many|much)\b", "the number of ...", "after so many tries", "after this number of tries"),
    Rule(
        r"\bfor so long\b(?! that)",
        "duration of ...",
        "the arm has rested for so long [s]",
        "a load for so long that the servo trips",
    ),
    Rule(r"\bwhat (is|was) left\b(?! out)", "the residual, the rest", "what is left is noise", "the residual is noise"),
    Rule(r"\bnobody\b", "by default; unknown; no reply", "where nobody has said otherwise", "by default"),
    Rule(r"\bsomebody\b", "the user, a person", "until somebody clears it", "until the user clears it"),
    Rule(r"\b(any|every)body\b", "people, all users", "keep everybody out", "keep people out"),
    Rule(r"\bwho(so)?ever\b", "the caller, the sender", "whoever sends a message", "the sender of a message"),
    Rule(r"\b(errors|arguments) as of\b", "those of ...", "errors as of `check`", "errors are those of `check`"),
    Rule(r"\bas there\b(?! (is|are))", "as in ...", "counted as there", "counted as in the table"),
    Rule(r"\bthe way back\b", "the return motion", "the way back is slow", "the return motion is slow"),
    Rule(r"\bhow late\b", "the delay of ... [s]", "how late a torque is", "the delay of torques [s]"),
    Rule(r"\bsomething touches\b", "contact", "whether something touches the arm", "whether the arm is in contact"),
    Rule(r"\bwhat the arm (holds|carries)\b", "the payload", "what the arm holds", "the payload of the arm"),
    Rule(r"\blets? through\b", "backlash; passes", "what a gear lets through", "the backlash of a gear"),
    Rule(r"\bdata (say|know|want|think)\b", "show, determine", "the data say that", "the data show that"),
    Rule(
        r"\b(arm|robot|driver|servo|model|controller)s? (knows?|feels?|thinks?|wants?|trusts?|remembers?)\b",
        "has, contains, detects, expects",
        "the model knows the friction",
        "the model contains the friction",
    ),
    Rule(r"\bmodel says\b", "predicts", "the torque that the model says", "the torque that the model predicts"),
    Rule(r"\bby how much\b", "amount, margin", "by how much a torque is off", "the error of a torque"),
    Rule(r"\bas (it was|they were|the last one was) found\b", "estimated", "as they were found", "as estimated"),
    Rule(r"\bgiv(e|es|ing) way\b", "yields", "a hold that gives way", "a hold that yields"),
    Rule(r"\bstands? beside\b", "additional", "what stands beside the unknowns", "additional unknowns"),
    Rule(
        r"\bone more (column|sample|phase|unknown|write|parameter|run|time)\b",
        "another",
        "one more column",
        "another column",
    ),
    Rule(r"\bwhere there (is|are)\b", "if there is", "where there is no display", "if there is no display"),
    Rule(r"\bnothing but\b", "only", "needs nothing but a compiler", "needs only a compiler"),
    Rule(r"\bmend(s|ed|ing)?\b", "fix, correct", "mend the file", "fix the file"),
    Rule(r"\bmade up\b", "artificial", "states that are made up", "artificial states"),
    Rule(r"\bunasked\b", "without a request", "switches torque on unasked", "switches torque on without a request"),
    Rule(
        r"\bbest other reading\b",
        "best alternative interpretation",
        "best other reading of the data",
        "best alternative interpretation of the data",
    ),
    Rule(
        r"\b(is|are|was|been) felt\b|\bfelt (it|them|by)\b",
        "detected",
        "while something is felt",
        "while contact is detected",
    ),
    Rule(r"\bbut for\b", "except", "all bits but for one", "all bits except one"),
    Rule(r"\bshrugs? off\b", "tolerates", "the estimator shrugs off outliers", "the estimator tolerates outliers"),
    Rule(r"\btrembl(e|es|ing)\b", "quantisation", "a position that trembles", "a quantised position"),
    Rule(r"\b(goes|go|went|gone) farther\b", "moved more", "a joint that went farther", "a joint that moved more"),
    Rule(r"\bcrept\b", "moved", "a joint that crept", "a joint that moved slowly"),
    Rule(r"\bwas taken in\b", "received, processed", "what was taken in so far", "the data processed so far"),
    Rule(r"\bwhat falls\b", "a falling arm", "what falls begins slowly", "a falling arm begins slowly"),
    Rule(r"\bwhat (it|they) (is|are) of\b", "name the thing", "intervals of what they are of", "of parameters"),
    Rule(r"\bspares? (the|a|us)\b", "skips, saves", "one look spares the segment", "one look saves the segment"),
    Rule(r"\bof segments: those\b", "a full sentence", "Of segments: those of a profile", "Limits of segments"),
)
# A docstring must not begin with a word that continues the name above it.
CONTINUATIONS = re.compile(
    r"(Of|From|By|As|At|In|To|With|For|On|What|Where|Which|Whose|How|Who|That|Those|So|And|But|Or|The same|All so)\b"
)
# A key of the diagnostics and the name of a setting are interfaces, not sentences.
KEYS = {"stale replies are told by", "awake processors"}
ARGUMENT = re.compile(r"^ +\w+(, \w+)*: ", re.MULTILINE)


def plain(texts: Iterable[str]) -> bool:
    """Whether no rule rejects anything in all texts together, which is quicker to ask than for each text."""
    together = "\n".join(" ".join(text.split()) for text in texts)
    return not any(re.search(rule.phrase, together, re.I | re.M) for rule in RULES)


def found(text: str) -> list[str]:
    """Rejected phrases in a text, with what to write instead."""
    text = " ".join(text.split())
    return [f"'{match[0]}': write {rule.better}" for rule in RULES for match in re.finditer(rule.phrase, text, re.I)]


def strings(source: str) -> Iterator[tuple[int, str]]:
    """String literals of a module with their lines, docstrings without names of arguments; f-strings part by part."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value not in KEYS:
            yield node.lineno, ARGUMENT.sub("", node.value)


def prose(text: str) -> str:
    """A page without its code, in which names are not sentences."""
    fence = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", "", fence.sub(lambda block: block[2] if block[1] == "sh" else "", text))


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
    hits = []
    for path in SOURCES:
        texts = list(strings(path.read_text(encoding="utf-8")))
        if not plain(text for _, text in texts):
            hits += [f"{path.relative_to(ROOT)}:{line}: {hit}" for line, text in texts for hit in found(text)]
    assert hits == []


def test_docstrings_do_not_continue_names() -> None:
    hits = []
    for path in sorted((ROOT / "src/dynid").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node)
                if text is not None and CONTINUATIONS.match(text):
                    hits.append(f"{path.relative_to(ROOT)}: {text.splitlines()[0]}")
    assert hits == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.rejected[:40])
def test_every_rule_rejects_its_phrase_and_accepts_its_advice(rule: Rule) -> None:
    own = re.compile(rule.phrase, re.IGNORECASE)
    assert own.search(" ".join(rule.rejected.split())) and found(rule.rejected)
    assert found(rule.accepted) == []


def test_the_rules_cover_the_old_style() -> None:
    assert len({rule.phrase for rule in RULES}) >= 40 + 23


@pytest.mark.parametrize(
    "text",
    [
        "Of segments: those of a profile of excitation.yaml at its fastest.",
        "From W (N, n, p), tau (N, n) and the joints' deviations (n,).",
        "All so far, as the same messages in a bag are read.",
        "What was taken in so far.",
        "Which servos answered the last request, (n,).",
        "The same motion, but slower.",
    ],
)
def test_a_docstring_that_continues_its_name_is_found(text: str) -> None:
    assert CONTINUATIONS.match(text)


@pytest.mark.parametrize(
    "text", ["Return the limits.", "State of the estimate.", "Whether torque is on.", "Asks once."]
)
def test_a_docstring_that_stands_alone_passes(text: str) -> None:
    assert not CONTINUATIONS.match(text)


@pytest.mark.parametrize("text", ["cannot tell apart", "holds a table", "HEARD"[:0]])
def test_plain_text_passes(text: str) -> None:
    assert found(text) == []


def test_code_on_a_page_is_no_prose() -> None:
    assert found(prose("```text\ntells\n```\nUse `topics_heard` and `told`.")) == []
    assert found(prose("```sh\n./run demo # tells all\n```\n"))


def test_text_between_two_blocks_of_code_is_prose() -> None:
    assert found(prose("```sh\n./run demo\n```\nThe page tells all.\n```text\nnothing\n```\n"))


def test_strings_of_a_module_are_read() -> None:
    source = '"""Tells one."""\nx = f"told {1} times"\n'
    assert [line for line, text in strings(source) if found(text)] == [1, 2]
