"""Comparison of the published model with the result, for accepted, rejected and wrongly published models."""

from pathlib import Path

import pytest
from felt import ARM, ROBOT, model_file

from dynid.demo import demo
from dynid.demo.checks import PUBLISHED
from dynid.model.model_file import ModelFile
from dynid.verdict import Check


def verdict(
    accepted: bool, published: bool, folder: Path, monkeypatch: pytest.MonkeyPatch, shift: float = 0.0
) -> dict[str, Check]:
    content: ModelFile = model_file(accepted=accepted)
    phi = content.base_parameters(ARM)
    values = dict(zip(phi.names, phi.values + shift if published else [float("nan")] * len(phi.names), strict=True))
    (folder / "model.urdf").write_text("the result")
    monkeypatch.setattr(demo, "urdf_torque_difference", lambda *given: 0.0 if given[-1] == "the result" else 0.03)
    read = {
        "phi": values,
        "structure_hash": content.structure_hash if published else "",
        "accepted": published,
        "robot_description": "the result" if published else "nominal",
    }
    found = demo._compared(ROBOT, content, read, folder)
    checks = [rule.check(found, None) for rule in PUBLISHED]
    return {check.id: check for check in checks if check is not None}


def test_accepted_model_must_be_published_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert all(one.passed for one in verdict(True, True, tmp_path, monkeypatch).values())
    wrong = verdict(True, True, tmp_path, monkeypatch, shift=1e-3)
    assert not wrong["published_parameters"].passed and wrong["published_hash"].passed
    missing = verdict(True, False, tmp_path, monkeypatch)
    assert "FAILED" in missing["published_hash"].sentence() and "FAILED" in missing["published_urdf"].sentence()


def test_rejected_model_that_was_withheld_leaves_nothing_to_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = verdict(False, False, tmp_path, monkeypatch)
    for name in ("published_hash", "published_parameters", "published_urdf"):
        text = found[name].sentence()
        assert "not checked" in text and "because the model was not accepted" in text and "FAILED" not in text
    assert found["written_urdf"].passed


def test_rejected_model_that_was_published_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "FAILED" in verdict(False, True, tmp_path, monkeypatch)["published_hash"].sentence()
