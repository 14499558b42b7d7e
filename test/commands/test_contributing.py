"""The worked examples of CONTRIBUTING.md, applied to a copy of the sources and run."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from package_copy import SOURCES_ONLY, bring_machine_code

from dynid.robot import load_robot

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n# (\S+), (a new file|below: ([^\n]+))\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(heading: str) -> list[tuple[str, str, str]]:
    """File, line to insert below ('' for a new file), and text of every code block of a section."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = re.split(r"^## ", text.split(f"## {heading}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]
    return [(file, anchor, body) for file, _, anchor, body in BLOCK.findall(section)]


def apply(tree: Path, heading: str) -> set[str]:
    """Apply the blocks of a section to a copy of the sources; returns the files that were touched."""
    for file, anchor, body in blocks(heading):
        path = tree / file
        if not anchor:
            assert not path.exists()
            path.write_text(body, encoding="utf-8")
            continue
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        (at,) = [k for k, line in enumerate(lines) if line.strip() == anchor]
        path.write_text("".join([*lines[: at + 1], body, *lines[at + 1 :]]), encoding="utf-8")
    return {file for file, _, _ in blocks(heading)}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the sources beside links to the robots; no function that numba compiles changes here."""
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=SOURCES_ONLY)
    bring_machine_code(tmp_path / "src/dynid")
    for name in ("config", "urdf", "launch", "package.xml"):
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


def identify(tree: Path, *arguments: object) -> dict[str, object]:
    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
    command = [sys.executable, "-m", "dynid", "identify", *map(str, arguments), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=tree, timeout=250)
    assert done.stdout, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.slow
def test_an_estimator_is_added_in_two_files_and_a_check_in_one(tree: Path, write_run) -> None:
    run = write_run(load_robot("planar_3r"), "fit.csv")
    estimators = "src/dynid/identification/estimators"
    assert apply(tree, "Adding an estimator") == {f"{estimators}/lad.py", f"{estimators}/table.py"}
    assert apply(tree, "Adding a check") == {"src/dynid/identification/checks.py"}
    chosen = ("--robot", "planar_3r", "--mapping", run.parent / "mapping.yaml", "--estimator", "lad")
    found = identify(tree, run, *chosen, "--out", tree / "model")
    checks = {check["id"]: check for check in found["checks"]}  # type: ignore[attr-defined]
    assert found["accepted"] and checks["equations_per_parameter"]["group"] == "Data"
    assert "identified by 'lad'" in (tree / "model" / "model.yaml").read_text(encoding="utf-8")
    text = (tree / "src/dynid/identification/checks.py").read_text(encoding="utf-8")
    (tree / "src/dynid/identification/checks.py").write_text(text.replace("        20.0,\n", "        2e6,\n"))
    strict = identify(tree, run, *chosen, "--out", tree / "strict")
    failed = [check["id"] for check in strict["checks"] if not check["passed"]]  # type: ignore[attr-defined]
    assert failed == ["equations_per_parameter"] and not strict["accepted"]


def test_an_example_block_without_its_place_in_the_code_is_an_error(tree: Path) -> None:
    (tree / "src/dynid/identification/checks.py").write_text("")
    with pytest.raises(ValueError, match="not enough values"):
        apply(tree, "Adding a check")
