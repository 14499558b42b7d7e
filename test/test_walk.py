"""docs/walk.md: the files of one sample's way are there, few, and joined by imports or by a topic."""

import ast
import itertools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "walk.md"
SOURCE = ROOT / "src"
MOST_FILES = 40
ENTRY = re.compile(r"^\d+\. \[([\w.]+)\]\(([^)]+)\): (.+)$", re.MULTILINE)
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


def test_the_files_are_there_and_few() -> None:
    files = entries(PAGE.read_text(encoding="utf-8"))
    assert [path for path in files if not path.is_file()] == []
    assert 20 < len(set(files)) <= MOST_FILES
    names = {target: name for name, target, _ in ENTRY.findall(PAGE.read_text(encoding="utf-8"))}
    assert all(Path(target).name == name for target, name in names.items())


def test_every_file_is_joined_to_the_one_before() -> None:
    files = entries(PAGE.read_text(encoding="utf-8"))
    assert files[0] == files[-1] == SOURCE / "dynid" / "hardware" / "bus" / "port.py"
    assert unconnected(files) == []


@pytest.mark.slow
@pytest.mark.parametrize("left_out", ["servo_bus.py", "path_time_scaling.py", "hardware_node.py"])
def test_a_gap_is_found(left_out: str) -> None:
    files = [path for path in entries(PAGE.read_text(encoding="utf-8")) if path.name != left_out]
    assert unconnected(files)


def test_the_functions_that_the_page_names_are_in_their_files() -> None:
    """The first word in code of an entry is a name of that file, so that the page cannot grow old unnoticed."""
    for name, target, text in ENTRY.findall(PAGE.read_text(encoding="utf-8")):
        words = re.match(r"`([\w.]+)(?:\(\))?`", text)
        if words is not None:
            source = (PAGE.parent / target).read_text(encoding="utf-8")
            for part in words[1].split("."):
                assert re.search(rf"\b(def|class) {part}\b", source), f"{name} has no {part}"
