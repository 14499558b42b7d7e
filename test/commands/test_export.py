"""`dynid export c`: its files, and refusal of a rejected model."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from arms import arm, nominal

from dynid.model.model_file import ModelFile, parameter_rows, save_model

Run = Callable[..., Any]


@pytest.fixture
def result(tmp_path: Path) -> Path:
    """A result folder with an accepted model of the planar arm."""
    model = arm("planar_3r")
    rows = parameter_rows(model, nominal("planar_3r"))
    content = ModelFile(robot="planar_3r", structure_hash=model.structure_hash, parameters=rows, accepted=True)
    (tmp_path / "model").mkdir()
    save_model(tmp_path / "model" / "model.yaml", content)
    return tmp_path / "model"


def test_accepted_model_is_exported_as_c_with_test_and_example(dynid: Run, result: Path, tmp_path: Path) -> None:
    done = dynid("export", "c", str(result), "--out", str(tmp_path / "c"), "--json")
    found = json.loads(done.stdout)
    assert done.returncode == 0 and found["prefix"] == "planar_3r" and found["accepted"] is True
    assert sorted(found["files"]) == sorted(one.name for one in (tmp_path / "c").iterdir())
    assert {"planar_3r.h", "planar_3r.c", "test_planar_3r.c", "CMakeLists.txt"} <= set(found["files"])
    again = dynid("export", "c", str(result), "--out", str(tmp_path / "c"))
    assert again.returncode == 1 and "exists" in again.stderr
    single = dynid("export", "c", str(result / "model.yaml"), "--out", str(tmp_path / "f"), "--float")
    assert single.returncode == 0 and "ctest" in single.stdout
    assert "typedef float planar_3r_real" in (tmp_path / "f" / "planar_3r.h").read_text(encoding="utf-8")


def test_model_that_was_not_accepted_needs_force_and_says_so(dynid: Run, result: Path, tmp_path: Path) -> None:
    file = result / "model.yaml"
    file.write_text(file.read_text(encoding="utf-8").replace("accepted: true", "accepted: false"), encoding="utf-8")
    refused = dynid("export", "c", str(result), "--out", str(tmp_path / "c"))
    assert refused.returncode == 1 and "was not accepted" in refused.stderr and not (tmp_path / "c").exists()
    forced = dynid("export", "c", str(result), "--out", str(tmp_path / "c"), "--force", "--json")
    assert json.loads(forced.stdout)["prefix"] == "planar_3r_rejected"
    assert "NOT ACCEPTED" in (tmp_path / "c" / "planar_3r_rejected.h").read_text(encoding="utf-8")


def test_folder_without_a_model_is_named(dynid: Run, tmp_path: Path) -> None:
    done = dynid("export", "c", str(tmp_path), "--out", str(tmp_path / "c"))
    assert done.returncode == 1 and f"{tmp_path} holds no model.yaml" in done.stderr
