"""The report: texts for accepted, refused and unjudged models, contents, and refusals."""

import base64
import json
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

from dynid.cli import app
from dynid.demo import checks as demo_checks
from dynid.errors import DataError, InputNotFoundError, OutputExistsError
from dynid.identification import checks
from dynid.identification.campaign import checks as campaign_checks
from dynid.identification.estimators.torque_errors import torque_errors
from dynid.model.dynamics import ArmModel
from dynid.reporting.arm_view import link_margins, worst_pose
from dynid.reporting.predictions import FILE_NAME, Motion, load_predictions
from dynid.reporting.report import embedded, render_report, write_report
from dynid.reporting.report_comparison import comparison
from dynid.reporting.report_series import packed
from dynid.reporting.report_tables import check_rows, tiles
from dynid.reporting.result_folder import Result, open_result
from dynid.reporting.verdict_words import ADVICE, advice, in_words, joint_labels, percent
from dynid.verdict import Check


def data_of(html: str) -> dict:
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)[1])


def unpack(one: dict) -> np.ndarray:
    return one["low"] + one["step"] * np.frombuffer(base64.b64decode(one["data"]), dtype="<u2")


def spoilt(folder: Path, out: Path, **changes: object) -> Path:
    """Copy a result with changed entries of its model.yaml."""
    shutil.copytree(folder, out)
    content = yaml.safe_load((out / "model.yaml").read_text())
    (out / "model.yaml").write_text(yaml.safe_dump(content | changes))
    return out


@pytest.mark.parametrize(
    ("names", "labels"),
    [
        (("arm_shoulder_tilt_joint", "arm_elbow_joint"), ("1 shoulder tilt", "2 elbow")),
        (("joint_1", "joint_2", "joint_3"), ("joint_1", "joint_2", "joint_3")),
        (("joint1", "joint2", "gripper"), ("joint1", "joint2", "3 gripper")),
        (("joint0", "joint1", "arm_12"), ("1 joint0", "2 joint1", "3 arm 12")),
    ],
)
def test_joints_have_short_names_that_are_no_number_alone(names: tuple[str, ...], labels: tuple[str, ...]) -> None:
    assert joint_labels(names) == labels


def test_identify_writes_a_report_with_the_verdict(planar_result: Path) -> None:
    html = (planar_result / "report.html").read_text(encoding="utf-8")
    result = open_result(planar_result)
    assert len(html) < 1_000_000 and "✓ Accepted" in html and "other.csv" in html and "fit.csv" in html
    for row in result.content.parameters:
        assert f">{row.name}</th>" in html and row.unit.replace("*", " ").replace("^2", "²") in html
    for bag in result.content.provenance["bags"]:
        assert bag["sha256"] in html
    assert html.count("<h2") == 8 and "lambda_min_kg_m2" in html
    words = in_words(result)
    assert words.accepted and "other.csv" in words.sentences[0] and "fit.csv" in words.sentences[-1]
    assert any("no torque constant was used" in one for one in words.cautions)
    assert "nothing here verifies it" in words.cautions[-1] and "What to try" not in html
    assert re.search(r"report of 20\d\d-\d\d-\d\d \d\d:\d\d UTC", html)


def test_the_headline_is_the_error_that_the_verdict_judges(planar_result: Path) -> None:
    result = open_result(planar_result)
    check = next(one for one in result.content.verdict if one.name == "relative torque error, other.csv")
    assert tiles(result)[0] == {
        "value": percent(check.value),
        "name": "torque error on held-out motions, joints in motion",
    }
    assert f"joints in motion differ from measured ones by {percent(check.value)}" in in_words(result).sentences[0]


def test_a_check_that_could_not_be_made_did_not_fail_in_the_table(planar_result: Path) -> None:
    result = open_result(planar_result)
    unmade = [Check(name=f"x {sense}", value=float("nan"), sense=sense, limit=1.0) for sense in ("at most", "at least")]
    verdict = (*unmade, Check(name="y", value=2.0, sense="at most", limit=1.0))
    rows = check_rows(replace(result, content=result.content.model_copy(update={"verdict": verdict})))
    found = {row["name"]: (row["outcome"], row["share"]) for row in rows}
    assert found["x at most"] == found["x at least"] == ("– not checked", None) and found["y"] == ("✗ FAILED", 1.0)


def test_only_a_held_out_motion_is_called_held_out(planar_result: Path) -> None:
    result = open_result(planar_result)
    fitted = tuple(one for one in result.motions if one.kind == "fitted")
    alone = Result(result.folder, result.robot, result.content, motions=fitted)
    assert "fitted data" in tiles(alone)[0]["name"] and "no motion was held out" in tiles(alone)[0]["name"]
    assert not any("error on held-out" in one["name"] or "worst held-out" in one["name"] for one in tiles(alone))


@pytest.mark.slow
def test_report_names_a_simulated_arm(planar_result: Path, tmp_path: Path) -> None:
    content = yaml.safe_load((planar_result / "model.yaml").read_text())
    assert "simulated arm" not in render_report(open_result(planar_result))
    provenance = content["provenance"] | {"simulated": ["fit.csv"]}
    html = render_report(open_result(spoilt(planar_result, tmp_path / "simulated", provenance=provenance)))
    assert "so no evidence about a real one: fit.csv." in html and ", simulated arm</p>" in html


def test_every_check_has_advice() -> None:
    modules = (checks, campaign_checks, demo_checks)
    tables = [one for module in modules for one in vars(module).values() if isinstance(one, tuple)]
    ids = {rule.id for table in tables for rule in table if isinstance(rule, checks.Rule) and rule.group != "Chain"}
    assert {"missed_cycles", "suspicion", "cloud_contraction"} <= ids <= set(yaml.safe_load(ADVICE.read_text()))


def test_advice_is_for_the_kind_of_recording_that_there_is() -> None:
    gaps = checks.Check(id="missed_cycles", name="missed cycles", value=0.5, limit=0.01)
    (of_csv,), (of_bag,) = advice([gaps], ["a/run.csv.gz"]), advice([gaps], ["runs/bags/V01"])
    assert "--from and --until" in of_csv and "bag" not in of_csv
    assert "dynid bag info" in of_bag and "CSV" not in of_bag
    assert advice([gaps], ["run.csv", "runs/bags/V01"]) == (of_csv, of_bag) and advice([gaps], []) == (of_bag,)


def test_the_report_loads_nothing_from_outside(planar_result: Path) -> None:
    html = (planar_result / "report.html").read_text(encoding="utf-8")
    assert "default-src 'none'" in html
    links = re.findall(r'(?:src|href|action|data)="([^"#][^"]*)"', html)
    assert links == ["data:,"]
    assert not re.search(r"@import|url\((?!#)|fetch\(|XMLHttpRequest|https?://(?!www\.w3\.org/2000/svg)", html)


def test_curves_are_the_measured_and_predicted_torques(planar_result: Path) -> None:
    result = open_result(planar_result)
    motion = result.motions[0]
    assert [(one.name, one.kind) for one in result.motions] == [("other.csv", "held out"), ("fit.csv", "fitted")]
    stored = data_of(render_report(result))["motions"][0]
    for j in range(3):
        curve = stored["measured"][j]
        assert unpack(curve) == pytest.approx(motion.measured[:, j], abs=2 * curve["step"])
    check = next(one for one in result.content.verdict if one.name == "relative torque error, other.csv")
    errors = torque_errors(motion.measured, motion.predicted, motion.dq)
    assert errors.moving == pytest.approx(check.value, rel=1e-4)
    assert result.pooled()["all"] == pytest.approx(errors.relative, rel=1e-4)


@pytest.mark.slow
def test_long_motions_and_joints_without_torque_are_shown(planar_result: Path) -> None:
    """Of fifty thousand samples some thousand are drawn; an infinite error or a residual of zero is no obstacle."""
    first = open_result(planar_result)
    n, rng = 50_000, np.random.default_rng(0)
    time, torque = np.arange(n) * 0.01, rng.normal(size=(n, 3))
    torque[:, 2] = 0.0
    long = Motion(
        "long", "held out", "0" * 64, time, rng.normal(size=(n, 3)), torque, torque + np.array([0.1, 0.0, 0.1])
    )
    html = render_report(Result(first.folder, first.robot, first.content, motions=(long,) * 10))
    data = data_of(html)
    assert len(html) < 2_500_000 and len(data["motions"]) == 8
    shown = data["motions"][0]
    assert shown["every"] == 13 and len(unpack(shown["time"])) <= 4000
    assert shown["relative"][2] is None and shown["residuals"][1]["sd"] == 0.0


def test_packed_numbers_are_unpacked_within_their_resolution() -> None:
    values = np.random.default_rng(0).normal(size=1000)
    assert unpack(packed(values)) == pytest.approx(values, abs=np.ptp(values) / 65534)
    assert unpack(packed(np.full(3, 2.5))).tolist() == [2.5, 2.5, 2.5]


@pytest.mark.slow
def test_a_refused_model_is_reported_as_not_accepted_first(planar_result: Path, tmp_path: Path) -> None:
    content = yaml.safe_load((planar_result / "model.yaml").read_text())
    checks = content["verdict"]
    checks[-1]["value"] = 10 * checks[-1]["limit"]
    folder = spoilt(planar_result, tmp_path / "bad", verdict=checks, accepted=False)
    html = render_report(open_result(folder))
    assert "✗ Not accepted" in html and "Do not use this model: it failed one check." in html
    assert "a joint that sticks carries any torque within its friction" in html[html.index("What to try:") :][:400]
    first = re.search(r'<span class="outcome (\w+)">', html[html.index('id="checks"') :])
    assert first and first[1] == "bad"
    unjudged = spoilt(planar_result, tmp_path / "unjudged", verdict=[], accepted=False)
    assert in_words(open_result(unjudged)).accepted is None and "? Not judged" in render_report(open_result(unjudged))


def test_a_result_has_the_name_of_its_folder_or_of_its_demo(planar_result: Path, tmp_path: Path) -> None:
    folder = spoilt(planar_result, tmp_path / "demo-1" / "model")
    assert open_result(folder).name == "model"
    (tmp_path / "demo-1" / "logs").mkdir()
    assert open_result(folder).name == "demo-1" == open_result(tmp_path / "demo-1").name


@pytest.mark.slow
def test_without_recordings_the_report_says_so(planar_result: Path, runs: Path, tmp_path: Path) -> None:
    folder = spoilt(planar_result, tmp_path / "alone")
    (folder / FILE_NAME).unlink()
    alone = open_result(folder)
    assert alone.motions == () and "name them with" in render_report(alone)
    assert not any("error on unseen data" in one for one in in_words(alone).cautions)  # the verdict has judged it
    unjudged = alone.content.model_copy(update={"verdict": ()})
    assert "error on unseen data is unknown" in in_words(replace(alone, content=unjudged)).cautions[0]
    arguments = ["report", str(folder), "--motion", str(runs / "other.csv"), "--mapping", str(runs / "mapping.yaml")]
    done = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path / "r.html"), "--json"], catch_exceptions=False)
    found = json.loads(done.stdout)
    assert done.exit_code == 0 and found["results"][0]["accepted"]
    assert found["bytes"] == (tmp_path / "r.html").stat().st_size
    assert [one["name"] for one in data_of((tmp_path / "r.html").read_text())["motions"]] == ["other.csv"]


def test_mapping_of_no_recording_is_refused(planar_result: Path, runs: Path, tmp_path: Path) -> None:
    arguments = ["report", str(planar_result), "--out", str(tmp_path / "r.html"), "--mapping"]
    done = CliRunner().invoke(app, [*arguments, str(runs / "mapping.yaml")])
    assert done.exit_code == 2 and "--mapping describes recordings of --motion" in " ".join(done.output.split())
    assert not (tmp_path / "r.html").exists()


def test_all_recordings_of_a_folder_are_predicted(planar_result: Path, runs: Path, tmp_path: Path) -> None:
    """A folder or data set that --motion names stands for all recordings in it, not only for the first one."""
    header, *rows = (runs / "fit.csv").read_text().splitlines(keepends=True)
    for name, own in (("one.csv", rows[:1500]), ("two.csv", rows[1500:])):
        (tmp_path / name).write_text(header + "".join(own))
    found = open_result(planar_result, recordings=[tmp_path], mapping=runs / "mapping.yaml")
    assert [one.name for one in found.held_out] == ["other.csv", "one.csv", "two.csv"]


@pytest.mark.slow
def test_two_results_are_compared_by_parameters_and_curves(planar_result: Path, tmp_path: Path) -> None:
    content = yaml.safe_load((planar_result / "model.yaml").read_text())
    row = content["parameters"][0]
    row["value"] += 10 * row["standard_deviation"]
    other = open_result(spoilt(planar_result, tmp_path / "other", parameters=content["parameters"]))
    first = open_result(planar_result)
    found = comparison([first, other])
    assert found["charts"]["differences"][0][0] == pytest.approx(10 / np.sqrt(2), rel=1e-6)
    assert found["parameters"][0]["notable"] and not found["parameters"][1]["notable"]
    assert found["setting_rows"] == []
    (curves,) = found["charts"]["curves"]
    assert unpack(curves[0][1]) == pytest.approx(other.motions[0].predicted[:, 1], abs=1e-3)
    alone = Result(other.folder, other.robot, other.content)
    assert comparison([first, alone])["charts"]["curves"] == [[None, None]]
    write_report(first, tmp_path / "both.html", [other])
    html = (tmp_path / "both.html").read_text()
    assert 'id="comparison"' in html and found["titles"][1] in html
    foreign = spoilt(planar_result, tmp_path / "foreign", parameters=content["parameters"][1:])
    shutil.rmtree(tmp_path / "other")
    with pytest.raises(DataError, match="compare only models with the same structure"):
        comparison([first, first.__class__(foreign, first.robot, open_result_content(foreign))])


def open_result_content(folder: Path):
    from dynid.model.model_file import read_model_file

    return read_model_file(folder / "model.yaml")


def test_the_worst_pose_has_the_smallest_eigenvalue(planar_result: Path) -> None:
    result = open_result(planar_result)
    pose = worst_pose(result.robot, result.content, poses=500)
    model = ArmModel.of(result.robot)
    phi = result.content.base_parameters(model)
    eigenvalues, vectors = np.linalg.eigh(model.inertia_matrix(pose.q, phi).reshape(3, 3))
    assert pose.lambda_min == pytest.approx(eigenvalues[0]) and abs(vectors[:, 0] @ pose.direction) == pytest.approx(1)
    random = np.random.default_rng(3).uniform(result.robot.audit_lower, result.robot.audit_upper, (300, 3))
    assert all(np.linalg.eigvalsh(M)[0] >= pose.lambda_min - 1e-9 for M in model.inertia_matrix(random, phi))
    assert len(pose.points) == 5 and len(pose.centres) == len(pose.masses) == 3
    assert all(one.eigenvalue >= one.required for one in link_margins(result.robot, result.content))


def test_invalid_results_are_refused(planar_result: Path, tmp_path: Path) -> None:
    with pytest.raises(InputNotFoundError, match=r"holds no model\.yaml"):
        open_result(tmp_path)
    with pytest.raises(OutputExistsError):
        CliRunner().invoke(app, ["report", str(planar_result)], catch_exceptions=False)
    broken = spoilt(planar_result, tmp_path / "broken")
    (broken / FILE_NAME).write_bytes(b"PK not a zip")
    with pytest.raises(DataError, match="damaged"):
        load_predictions(broken)


def test_no_text_can_end_the_script_or_become_a_tag(planar_result: Path, tmp_path: Path) -> None:
    assert "<" not in embedded({"name": "</script><script>alert(1)</script>"})
    folder = spoilt(planar_result, tmp_path / "evil", source="<img src=x onerror=alert(1)>")
    assert "<img" not in render_report(open_result(folder))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arrays", "campaign", "provenance", "words"),
    [
        ({"0_predicted": 10}, {}, {}, r"npz has measured torques of shape \(\d+, 3\), but predicted \(10, 3\); remove"),
        ({"0_time": 10}, {}, {}, r"npz has measured torques of shape \(\d+, 3\), but time \(10,\); remove it"),
        ({}, {"processing": 5}, {}, "is not a valid result folder, or is damaged"),
        ({}, {"held_out": {"result": {"x": {}}}}, {}, "is not a valid result folder, or is damaged: 'relative'"),
        (None, {}, {"bags": [5]}, "is not a valid result folder, or is damaged"),
        (None, {}, {"bags": [{"path": "/", "used": "x"}]}, "a bag is 'x', expected one of held out, fitted"),
        ({}, {}, {"simulation": 5, "bags": "x", "settings": []}, "is not a valid result folder, or is damaged"),
    ],
)
def test_damaged_results_and_those_of_other_versions_are_one_sentence(
    planar_result: Path, tmp_path: Path, arrays: dict | None, campaign: dict, provenance: dict, words: str
) -> None:
    """None of them is a traceback: files are cut off or edited, or written by other versions."""
    content = yaml.safe_load((planar_result / "model.yaml").read_text())
    folder = spoilt(planar_result, tmp_path / "bad", provenance=content["provenance"] | provenance)
    if "simulation" in provenance:
        folder = spoilt(planar_result, tmp_path / "worse", provenance={"note": "none"})
    if campaign:
        (folder / "campaign.json").write_text(json.dumps(campaign))
    with np.load(folder / FILE_NAME) as stored:
        own = dict(stored)
    (folder / FILE_NAME).unlink()
    if arrays is not None:
        np.savez_compressed(folder / FILE_NAME, **own | {key: own[key][:rows] for key, rows in arrays.items()})
    with pytest.raises(DataError, match=words) as refused:
        write_report(open_result(folder), tmp_path / "report.html")
    assert "\n" not in str(refused.value) and not (tmp_path / "report.html").exists()


def test_settings_of_another_version_are_refused_if_torques_are_to_be_predicted(
    planar_result: Path, tmp_path: Path
) -> None:
    content = yaml.safe_load((planar_result / "model.yaml").read_text())
    provenance = content["provenance"] | {"settings": content["provenance"]["settings"] | {"new_field": 1}}
    folder = spoilt(planar_result, tmp_path / "other", provenance=provenance)
    open_result(folder)  # its torques are stored
    with pytest.raises(DataError, match=r"new_field is unknown.*; identify the model again") as refused:
        open_result(folder, recordings=[tmp_path / "run"])
    assert "\n" not in str(refused.value)


def test_pipes_among_the_tables_are_left_alone(planar_result: Path, tmp_path: Path) -> None:
    """Opening a pipe would wait for ever."""
    folder = spoilt(planar_result, tmp_path / "piped")
    (folder / "tables").mkdir(exist_ok=True)
    os.mkfifo(folder / "tables" / "bags.csv")
    assert "bags" not in open_result(folder).tables
