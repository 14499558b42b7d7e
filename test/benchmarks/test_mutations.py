"""Mutations of a toy package: every kind is generated, and only the tests of a mutated line detect it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.cli import app
from benchmarks.studies import mutations, wrong_lines
from benchmarks.studies.mutations import Copy, Outcome, study
from benchmarks.studies.wrong_lines import draw, edits
from typer.testing import CliRunner

from dynid.errors import DataError

TOY = """LIMIT = 3.0

def clipped(x):
    if x < 0:
        return -x
    elif x > LIMIT:
        return min(x, LIMIT)
    return x + 0.5  # + or -

def unseen(a, b):
    text = "a" + "b"
    return not (a or b), text
"""
TESTS = """
import sys
sys.path.insert(0, "src/dynid")
from toy import clipped
assert [clipped(x) for x in (-1.0, 0.0, 1.0, 4.0, 8.0)] == [1.0, 0.5, 1.5, 3.0, 3.0]
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    (folder / "src/dynid").mkdir(parents=True)
    (folder / "src/dynid/toy.py").write_text(TOY)
    (folder / ".venv").mkdir()
    (folder / "check.py").write_text(TESTS)
    return folder


def passed(folder: Path) -> bool:
    """The toy's tests in a process of their own."""
    return subprocess.run([sys.executable, "check.py"], cwd=folder, capture_output=True, check=False).returncode == 0


def test_every_kind_of_wrong_line_is_made() -> None:
    text = TOY.encode()
    after = {(one.kind, one.line): one.applied(text).decode().splitlines()[one.line - 1].strip() for one in edits(text)}
    assert after == {
        ("constant", 1): "LIMIT = 6.0",
        ("limit", 4): "if x >= 0:",
        ("order", 4): "if x > LIMIT:",
        ("sign", 5): "return x",
        ("limit", 6): "elif x <= LIMIT:",
        ("limit", 7): "return max(x, LIMIT)",
        ("sign", 8): "return x - 0.5  # + or -",
        ("condition", 12): "return not (a and b), text",
    }


def test_texts_and_non_programs_are_not_mutated() -> None:
    assert edits(b'x = "a" + name\nif __name__ == "__main__":\n    pass\n') == []
    assert [one.applied("é = 1 - 2\n".encode()).decode() for one in edits("é = 1 - 2\n".encode())] == ["é = 1 + 2\n"]


def test_the_seed_makes_the_draw_and_no_line_comes_twice(root: Path) -> None:
    package = root / "src/dynid"
    first = draw(package, 6, 1)
    assert first == draw(package, 6, 1) != draw(package, 6, 2)
    assert len({(one.path, one.edit.line) for one in first}) == 6
    with pytest.raises(DataError, match="has 7 lines that can be made wrong, but 8 were asked for"):
        draw(package, 8, 1)


def test_mutations_of_tested_code_are_caught_and_others_survive(root: Path, tmp_path: Path) -> None:
    copy, told = Copy(root, tmp_path / "copy"), list[Outcome]()
    assert not (copy.folder / ".venv").exists()
    outcomes = study(copy, draw(root / "src/dynid", 7, 1), passed, told.append)
    assert told == outcomes
    assert [one.wrong.before for one in outcomes if not one.caught] == ["return not (a or b), text"]
    for folder in (root, copy.folder):
        assert (folder / "src/dynid/toy.py").read_text() == TOY


def test_tests_that_fail_by_themselves_are_refused(root: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"fail in .* without a wrong line"):
        study(Copy(root, tmp_path / "copy"), [], lambda _: False, lambda _: None)


def test_compiled_functions_of_a_changed_file_are_compiled_anew(root: Path, tmp_path: Path) -> None:
    (root / "src/dynid/fast.py").write_text("from numba import njit\nLIMIT = 1.0\n")
    copy = Copy(root, tmp_path / "copy")
    compiled = copy.package / "__pycache__/caller.f-1.py311.nbi"
    compiled.parent.mkdir(exist_ok=True)
    for name, left in (("toy.py", True), ("fast.py", False)):
        compiled.touch()
        wrong = next(one for one in draw(copy.package, 8, 1) if one.path == name)
        copy.outcome(wrong, lambda _: True)
        assert compiled.exists() == left


def test_the_command_fails_where_too_few_are_noticed(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    monkeypatch.setattr(wrong_lines, "draw", lambda _, count, seed: draw(root / "src/dynid", count, seed))
    monkeypatch.setattr(mutations, "Copy", lambda _, folder: Copy(root, folder))
    monkeypatch.setattr(mutations, "layer_tests", lambda *_: passed)
    for share, code in (("0.8", 0), ("0.9", 1)):
        words = ["benchmark", "mutations", "--count", "7", "--at-least", share, "--json"]
        done = CliRunner().invoke(app, words, catch_exceptions=False)
        told = json.loads(done.stdout)
        assert done.exit_code == code and told["noticed"] == 6
        assert [row["before"] for row in told["lines"] if not row["noticed"]] == ["return not (a or b), text"]
    shown = CliRunner().invoke(app, [*words[:-1]], catch_exceptions=False)
    assert "6 of 7 noticed" in shown.stdout and "toy.py:12: NOT NOTICED" in shown.stderr
