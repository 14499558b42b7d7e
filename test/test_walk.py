"""docs/walk.md and docs/reading.md: their files and names exist, and the path of one sample is connected."""

import ast
import itertools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "walk.md"
READING = ROOT / "docs" / "reading.md"
SOURCE = ROOT / "src"
MOST_FILES = 40
ENTRY = re.compile(r"^\d+\. \[([\w.]+)\]\(([^)]+)\): (.+)$", re.MULTILINE)
LINK = re.compile(r"\]\((\.\./[^)#]+)\)")
CODE = re.compile(r"`([^`]+)`")
NAME = re.compile(r"[A-Za-z_]\w*(\.\w+)*")
DRAWN = re.compile(r">([\w/]+\.\w+)</text>")
FILES = ("robot.yaml", "safety.yaml", "model.yaml")  # files of a robot and of a result
TOPICS = ("joint_states", "joint_commands")


def entries(text: str) -> list[Path]:
    """The files of the page, in its order."""
    return [(PAGE.parent / target).resolve() for _, target, _ in ENTRY.findall(text)]


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts)


def imported(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def topics(path: Path) -> set[str]:
    """The topics that a file names in its code."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return {node.value for node in nodes if isinstance(node, ast.Constant) and node.value in TOPICS}


def unconnected(files: list[Path]) -> list[str]:
    """Neighbours on the way that nothing joins."""
    found = []
    for before, after in itertools.pairwise(files):
        joined = module_of(after) in imported(before) or module_of(before) in imported(after)
        if not joined and not topics(before) & topics(after):
            found.append(f"{before.name} and {after.name}")
    return found


def test_the_walk_names_existing_files_within_a_limit() -> None:
    files = entries(PAGE.read_text(encoding="utf-8"))
    assert [path for path in files if not path.is_file()] == []
    assert 20 < len(set(files)) <= MOST_FILES
    names = {target: name for name, target, _ in ENTRY.findall(PAGE.read_text(encoding="utf-8"))}
    assert all(Path(target).name == name for target, name in names.items())


@pytest.mark.slow
def test_every_file_of_the_walk_is_connected_to_the_one_before() -> None:
    files = entries(PAGE.read_text(encoding="utf-8"))
    assert files[0] == files[-1] == SOURCE / "dynid" / "hardware" / "bus" / "port.py"
    assert unconnected(files) == []


@pytest.mark.slow
@pytest.mark.parametrize("left_out", ["servo_bus.py", "path_time_scaling.py", "hardware_node.py"])
def test_a_gap_is_found(left_out: str) -> None:
    files = [path for path in entries(PAGE.read_text(encoding="utf-8")) if path.name != left_out]
    assert unconnected(files)


def articles(text: str) -> list[str]:
    """The numbered entries of a page, each with its indented paragraphs."""
    starts = [found.start() for found in ENTRY.finditer(text)]
    whole = [text[begin:end] for begin, end in itertools.pairwise([*starts, len(text)])]
    return [re.split(r"\n(?=[^\s])", one)[0] for one in whole]


def wrong_names(article: str) -> list[str]:
    """Names in code that no file linked in the entry has.

    The first word in code must be defined in the entry's own file. Of the others, each part of a name must occur, and a
    file must exist somewhere.
    """
    targets = [PAGE.parent / target for target in LINK.findall(article)]
    missing = [str(target) for target in targets if not target.is_file()]
    if missing:
        return missing
    texts = [target.read_text(encoding="utf-8") for target in targets]
    found, (_, _, rest) = [], ENTRY.findall(article)[0]
    if first := re.match(r"`([\w.]+)(?:\(\))?`", rest):
        parts = first[1].split(".")
        found += [part for part in parts if not re.search(rf"\b(def|class) {part}\b", texts[0])]
    for word in CODE.findall(article):
        name = word.removesuffix("()")
        if re.search(r"\.(py|yaml)$", name):
            found += [] if any(ROOT.glob(f"src/**/{name}")) or name in FILES else [name]
        elif NAME.fullmatch(name):
            found += [part for part in name.split(".") if not any(re.search(rf"\b{part}\b", text) for text in texts)]
    return found


@pytest.mark.parametrize("page", [PAGE, READING], ids=lambda path: path.name)
def test_the_names_in_the_pages_are_in_their_files(page: Path) -> None:
    """An entry that becomes outdated is noticed."""
    assert [name for one in articles(page.read_text(encoding="utf-8")) for name in wrong_names(one)] == []


@pytest.mark.parametrize(
    "article",
    [
        "1. [port.py](../src/dynid/hardware/bus/port.py): `recieve` waits.",
        "1. [port.py](../src/dynid/hardware/bus/port.py): `receive` waits.\n\n    It calls `nothing_like_this`.",
        "1. [port.py](../src/dynid/hardware/bus/port.py): `receive` waits. Next: [gone](../src/dynid/gone.py).",
        "1. [port.py](../src/dynid/hardware/bus/port.py): `receive` waits as `gone.yaml` says.",
    ],
)
def test_a_wrong_name_in_a_page_is_found(article: str) -> None:
    assert wrong_names(article)


def test_the_page_of_first_files_has_ten_short_entries_and_a_drawing_of_existing_files() -> None:
    text = READING.read_text(encoding="utf-8")
    found = articles(text)
    assert len(found) == 10
    assert all(Path(target).name == name for name, target, _ in ENTRY.findall(text))
    assert max(len(one.split()) for one in found) < 150  # half a page
    drawn = DRAWN.findall((READING.parent / "images" / "reading.svg").read_text(encoding="utf-8"))
    assert len(drawn) > 20 and [name for name in drawn if not (SOURCE / "dynid" / name).is_file()] == []
    read = {path.relative_to(SOURCE / "dynid").as_posix() for path in entries(text)}
    assert read <= set(drawn)
