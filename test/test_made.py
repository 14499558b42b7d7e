"""Shared test objects: made once, by the first process that needs them, under a key of the sources, and completely."""

import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from made import OLD_S, Made, key_of

SHARED = Path(__file__).parent / "shared"
ASK = """
import sys
from pathlib import Path
from made import Made

def make(folder):
    with (Path(sys.argv[1]) / "calls").open("a") as file:
        file.write("x")
    (folder / "one").write_text("done")

print((Made(Path(sys.argv[1]) / "made", "key")("thing", make) / "one").read_text())
"""


def test_several_processes_make_a_shared_object_once(tmp_path: Path) -> None:
    (tmp_path / "ask.py").write_text(ASK)  # a thing's key has the file of what makes it
    command = [sys.executable, str(tmp_path / "ask.py"), str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(SHARED)}
    asked = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [one.communicate(timeout=120)[0] for one in asked] == 3 * ["done\n"]
    assert (tmp_path / "calls").read_text() == "x"


def test_failed_objects_leave_nothing_and_are_made_again(tmp_path: Path) -> None:
    made, tries = Made(tmp_path, "key"), []

    def make(folder: Path) -> None:
        tries.append(sorted(folder.iterdir()))
        (folder / "half").touch()
        if len(tries) == 1:
            raise ValueError("no disk")

    with pytest.raises(ValueError, match="no disk"):
        made("thing", make)
    assert made("thing", make) == made("thing", make)
    assert tries == [[], []]


def test_shared_objects_are_read_only(tmp_path: Path) -> None:
    path = Made(tmp_path, "key")("thing", lambda folder: (folder / "one").touch()) / "one"
    assert not path.stat().st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH)


@pytest.mark.parametrize("path", ["src/dynid/one.py", "config/arm/robot.yaml", "setup.cfg", "test/shared/help.py"])
def test_a_source_that_changes_gives_another_key(tmp_path: Path, path: str) -> None:
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    keys = {key_of(tmp_path)}
    for text in ("1", "2"):
        (tmp_path / path).write_text(text)
        keys.add(key_of(tmp_path))
    assert len(keys) == 3
    for other in ("test/test_other.py", "src/dynid/__pycache__/one.pyc", "docs/page.md"):
        (tmp_path / other).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / other).touch()
    assert key_of(tmp_path) in keys


def test_objects_of_older_keys_are_removed(tmp_path: Path) -> None:
    for name, age_s in (("old", 2 * OLD_S), ("new", 0.0)):
        Made(tmp_path, name)("thing", lambda folder: None)
        os.utime(tmp_path / name, (time.time() - age_s,) * 2)
    Made(tmp_path, "mine")
    assert {path.name for path in tmp_path.iterdir()} == {"new", "mine"}
