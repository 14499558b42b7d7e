"""`dynid identify` on CSV files: results equal to those from bags, errors in and out of sample, invalid input."""

import html
import json
import re
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

from dynid.cli import app
from dynid.commands import mapping as mapping_command
from dynid.errors import ConfigurationError, DataError, OutputWriteError
from dynid.model.dynamics import ArmModel
from dynid.model.model_file import read_model_file
from dynid.model.standard import load_standard
from dynid.resources import write_whole
from dynid.robot import load_robot

PLANAR = load_robot("planar_3r")


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["identify", *map(str, arguments), "--robot", "planar_3r"])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout


@pytest.fixture
def files(write_run) -> tuple[Path, Path, Path]:
    fit, other = write_run(PLANAR, "fit.csv"), write_run(PLANAR, "other.csv", seconds=12.0, seed=7)
    return fit, other, fit.parent / "mapping.yaml"


def change(mapping: Path, **changes: Any) -> Path:
    """A copy of the mapping with other content; a dictionary changes a part."""
    content = yaml.safe_load(mapping.read_text())
    for key, value in changes.items():
        content[key] = {**content[key], **value} if isinstance(value, dict) and key in content else value
    path = mapping.with_name("changed.yaml")
    path.write_text(yaml.safe_dump(content))
    return path


def test_csv_files_give_the_true_model_and_all_result_files(files, tmp_path: Path) -> None:
    fit, other, mapping = files
    code, text = run(fit, "--mapping", mapping, "--validate", other, "--out", tmp_path / "model", "--json")
    found = json.loads(text)
    assert code == 0 and found["accepted"]
    assert {path.name for path in (tmp_path / "model").iterdir()} == {
        "bam",
        "belief.npz",
        "model.yaml",
        "model.urdf",
        "model.xml",
        "rotor_inertias.yaml",
        "predictions.npz",
        "report.html",
    }
    model = ArmModel.of(PLANAR)
    stored = read_model_file(tmp_path / "model" / "model.yaml")
    truth = model.base_parameters(load_standard(PLANAR.folder / "models" / "nominal.yaml", model.mdh))
    phi = stored.base_parameters(model)
    q, dq, ddq = np.random.default_rng(1).uniform(-1, 1, (3, 200, 3))
    tau = model.inverse_dynamics(q, dq, 3 * ddq, truth)
    assert np.linalg.norm(model.inverse_dynamics(q, dq, 3 * ddq, phi) - tau) < 0.03 * np.linalg.norm(tau)
    errors = found["relative_torque_error"]
    inside, outside = errors["in_sample"], errors["out_of_sample"]
    assert set(inside["joints"]) == set(outside["joints"]) == set(PLANAR.joint_names)
    assert 0 < inside["all"] < 0.06 and 0 < outside["all"] < 0.08
    assert outside["files"].keys() == {"other.csv"}
    assert outside["files"]["other.csv"]["all"] == pytest.approx(outside["all"])
    assert "no torque constant was used" in found["torques"]
    assert stored.provenance["torques"] == found["torques"] and stored.torque_constants_nm_per_a == ()
    assert [bag["path"] for bag in stored.provenance["bags"]] == [str(fit), str(other)]


def test_the_held_out_end_of_a_recording_is_predicted(files, tmp_path: Path) -> None:
    fit, _, mapping = files
    code, text = run(fit, "--mapping", mapping, "--hold-out", "0.3", "--out", tmp_path / "model", "--json")
    errors = json.loads(text)["relative_torque_error"]
    assert code == 0 and errors["out_of_sample"]["files"].keys() == {"last 30 % of fit.csv"}
    assert "relative torque error, last 30 % of fit.csv" in text
    whole = json.loads(run(fit, "--mapping", mapping, "--out", tmp_path / "whole", "--json")[1])
    assert whole["relative_torque_error"]["out_of_sample"] is None
    assert whole["relative_torque_error"]["cross_validated"]["files"].keys() == {"fit.csv, cross-validated"}
    assert errors["cross_validated"] is None and "cross-validated" not in text.replace("cross_validated", "")
    assert whole["relative_torque_error"]["in_sample"]["all"] != errors["in_sample"]["all"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "rate_hz", "seconds"),
    [
        ("tx40", 500.0, 20.0),
        pytest.param("puma560", 100.0, 60.0, marks=pytest.mark.study),
        pytest.param("aloha_class", 100.0, 40.0, marks=pytest.mark.study),
    ],
)
def test_other_robots_are_identified_by_commands_alone(
    write_run, tmp_path: Path, name: str, rate_hz: float, seconds: float
) -> None:
    """Robots with coupled gears, of classical and of low-cost kind need only a robot folder and two files."""
    robot = load_robot(name)
    fit = write_run(robot, "fit.csv", seconds=seconds, rate_hz=rate_hz)
    other = write_run(robot, "other.csv", seconds=10.0, rate_hz=rate_hz, seed=3)
    mapping = fit.parent / "mapping.yaml"
    arguments = [fit, "--mapping", mapping, "--validate", other, "--out", tmp_path / "model", "--json"]
    done = CliRunner().invoke(app, ["identify", *map(str, arguments), "--robot", name])
    found = json.loads(done.stdout)
    assert done.exit_code == 0 and found["accepted"], found
    assert found["relative_torque_error"]["out_of_sample"]["all"] < 0.1
    assert set(found["relative_torque_error"]["in_sample"]["joints"]) == set(robot.joint_names)
    again = ["validate", str(tmp_path / "model"), str(other), "--mapping", str(mapping)]
    assert CliRunner().invoke(app, [*again, "--robot", name, "--json"]).exit_code == 0
    stated_errors_are_reproduced(tmp_path / "model", other, mapping)


def stated_errors_are_reproduced(folder: Path, recording: Path, mapping: Path) -> dict[str, float]:
    """Compare the errors that a result states with what `dynid validate` finds, and return them by file."""
    content = read_model_file(folder / "model.yaml")
    stated = {one.file: one for one in content.export_errors if one.recordings == recording.name}
    assert list(stated) == ["model.yaml", "model.xml", "model.urdf"]
    for file, one in stated.items():
        words = ["validate", str(folder / file), str(recording), "--mapping", str(mapping), "--robot", content.robot]
        found = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)["bags"][recording.name]
        assert (found["relative_moving"], found["relative"]) == pytest.approx((one.moving, one.relative), rel=1e-6)
        if file != "model.yaml":
            said = f"error of this file: {100 * one.moving:.3g} % of the torque of joints in motion, of model.yaml"
            assert said in (folder / file).read_text()
    return {file: one.moving for file, one in stated.items()}


def test_exports_state_the_errors_that_validate_finds(files, tmp_path: Path) -> None:
    fit, other, mapping = files
    third = tmp_path / "third--one.csv"  # two hyphens may not stand in an XML comment
    third.write_bytes(other.read_bytes())
    given = [fit, "--mapping", mapping, "--validate", other, "--validate", third, "--out", tmp_path / "model"]
    assert run(*given)[0] == 0
    errors = stated_errors_are_reproduced(tmp_path / "model", other, mapping)
    assert errors["model.urdf"] > 1.5 * errors["model.yaml"]  # the rotors weigh
    whole = [one for one in read_model_file(tmp_path / "model" / "model.yaml").export_errors if ", " in one.recordings]
    assert [one.file for one in whole] == ["model.yaml", "model.xml", "model.urdf"]
    report = (tmp_path / "model" / "report.html").read_text()
    assert "Relative torque error of each file on held-out motions" in report and "third--one.csv" in report
    changed = tmp_path / "changed.xml"
    text = (tmp_path / "model" / "model.xml").read_text()
    assert "third- -one.csv" in text
    changed.write_text(re.sub(r'armature="[^"]*"', 'armature="0.5"', text))
    words = ["validate", str(changed), str(other), "--mapping", str(mapping), "--robot", "planar_3r", "--json"]
    found = json.loads(CliRunner().invoke(app, words).stdout)["bags"]["other.csv"]
    assert found["relative_moving"] > 2.0 * errors["model.xml"]


@pytest.mark.slow
def test_exports_without_held_out_recording_say_so(files, tmp_path: Path) -> None:
    fit, _, mapping = files
    run(fit, "--mapping", mapping, "--out", tmp_path / "model", "--estimator", "ols")
    assert read_model_file(tmp_path / "model" / "model.yaml").export_errors == ()
    for file in ("model.xml", "model.urdf"):
        assert "The torque error of this file is not known" in (tmp_path / "model" / file).read_text()


@pytest.mark.slow
def test_identify_prints_a_summary_and_writes_the_model(files, tmp_path: Path) -> None:
    fit, _, mapping = files
    code, text = run(fit, "--mapping", mapping, "--out", tmp_path / "model", "--estimator", "ols")
    assert code == 0 and "The recordings hold torques" in text and "model.yaml" in text
    assert text.splitlines()[-1].startswith("accepted: all ") and "unknown" not in text
    assert "cross-validated" in text
    assert "identified by 'ols'" in read_model_file(tmp_path / "model" / "model.yaml").source


@pytest.mark.slow
def test_validate_says_which_recording_was_fitted(files, tmp_path: Path) -> None:
    fit, other, mapping = files
    code, _ = run(fit, "--mapping", mapping, "--out", tmp_path / "model", "--estimator", "ols")
    assert code == 0
    notes = {}
    for one in (fit, other):
        words = ["validate", str(tmp_path / "model"), str(one), "--mapping", str(mapping), "--robot", "planar_3r"]
        notes[one] = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)["notes"]
    assert f"{fit} was used for the identification, so it does not validate the model" in notes[fit]
    assert not any("was fitted" in note for note in notes[other])


@pytest.mark.slow
def test_refusal_names_the_reason_and_a_remedy(files, tmp_path: Path) -> None:
    fit, other, mapping = files
    wrong = change(mapping, torque={"sign": [1, 1, -1]})
    code, text = run(
        fit, "--mapping", wrong, "--validate", other, "--validate-mapping", mapping, "--out", tmp_path / "m"
    )
    assert code == 1 and "accepted" not in text
    lines = text.splitlines()
    (refused,) = (k for k, line in enumerate(lines) if line.startswith("refused, because "))
    assert "relative torque error" in lines[refused] and ", required at most 0.6;" in lines[refused]
    assert lines[refused + 1].startswith("  try: ") and "held out" not in lines[refused]
    report = (tmp_path / "m" / "report.html").read_text(encoding="utf-8")
    assert "What to try:" in report and html.escape(lines[refused + 1].strip()[5:], quote=False)[:40] in report


@pytest.mark.slow
@pytest.mark.parametrize("most", [3_000, 100_000])
def test_a_full_disk_leaves_no_partial_result(files, tmp_path: Path, most: int) -> None:
    """A limit on file size simulates a full disk: one value fails model.yaml, the other the report after it."""
    fit, _, mapping = files
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    try:
        with pytest.raises(OutputWriteError, match=r"out/new/\S+ cannot be written, and nothing of it was kept"):
            run(fit, "--mapping", mapping, "--out", tmp_path / "out" / "new")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list((tmp_path / "out").iterdir()) == []
    assert run(fit, "--mapping", mapping, "--out", tmp_path / "out" / "new")[0] == 0


def test_an_output_below_a_file_is_refused_before_anything_is_computed(files, tmp_path: Path) -> None:
    fit, _, mapping = files
    with pytest.raises(OutputWriteError, match=r"nothing can be written below .*fit\.csv, a file"):
        run(fit, "--mapping", mapping, "--out", fit / "new" / "model")
    with pytest.raises(OutputWriteError, match=r"fit\.csv"):
        write_whole(fit / "x.txt", "")
    for command in (["simulate", "V01"], ["trajectories", "plot", "V01"]):
        refused = CliRunner().invoke(app, [*command, "--out", str(fit / "x.png")])
        assert isinstance(refused.exception, OutputWriteError)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"time": "t"}, r"time: expected a block of fields \(got 't'\)"),
        ({"position": {"columns": "q1"}}, r"position\.columns: expected a list \(got 'q1'\)"),
        ({"torque": {"sgn": [1, 1, 1]}}, r"torque\.sgn is unknown, did you mean 'sign'\?"),
        ({"position": {"colums": ["q1"]}}, r"position\.colums is unknown, did you mean 'columns'\?"),
        ({"torque": {"side": "moter"}}, r"torque\.side: expected 'joint' or 'motor' \(got 'moter'\)"),
        ({"torque": None}, r"torque: expected a block of fields \(got None\)"),
    ],
)
def test_typos_in_a_mapping_are_named_without_python_terms(
    files, tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    fit, _, mapping = files
    with pytest.raises(ConfigurationError, match=words) as refused:
        run(fit, "--mapping", change(mapping, **changes), "--out", tmp_path / "m")
    assert not re.search(r"\{|dict|tuple|instance|Input|None type", str(refused.value))


@pytest.mark.slow
def test_separate_rows_of_one_file_count_as_held_out_data(files, tmp_path: Path) -> None:
    fit, _, mapping = files
    early = change(mapping, rows=[0, 2000])
    late = mapping.with_name("late.yaml")
    late.write_text(change(mapping, rows=[2000, 3000]).read_text())
    early = change(mapping, rows=[0, 2000])
    arguments = (fit, "--mapping", early, "--validate", fit, "--out", tmp_path / "model")
    assert run(*arguments, "--validate-mapping", late, "--json")[0] == 0
    with pytest.raises(DataError, match="holds the same data as"):
        run(fit, "--mapping", early, "--validate", fit, "--out", tmp_path / "other")


# -- bad input -------------------------------------------------------------------------------------------------


def spoilt(path: Path, line: int, text: str) -> Path:
    lines = path.read_text().splitlines()
    lines[line - 1] = text
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.slow
def test_corrupt_rows_are_skipped_only_on_request(files, tmp_path: Path) -> None:
    fit, _, mapping = files
    spoilt(fit, 100, "0.98,nan,1,1,1,1,1")
    with pytest.raises(DataError, match=r"fit\.csv has 1 corrupt rows: line 100: nan in column q_joint_1"):
        run(fit, "--mapping", mapping, "--out", tmp_path / "model")
    assert not (tmp_path / "model").exists()
    code, text = run(fit, "--mapping", mapping, "--skip-corrupt-rows", "--out", tmp_path / "model", "--json")
    assert code == 0 and "1 corrupt rows skipped: line 100" in json.loads(text)["notes"][0]
    assert "1 corrupt rows skipped" in read_model_file(tmp_path / "model" / "model.yaml").provenance["notes"][0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"position": {"columns": ["q_joint_1", "q_joint_2", "nope"]}}, "has no column 'nope'; its columns are"),
        ({"position": {"columns": ["t", "q_joint_2", "q_joint_3"]}}, "'t' is named for position and again for time"),
        ({"position": {"unit": "rev"}}, "joint joint_. goes from .* is its column, unit"),
        ({"torque": {"unit": "N m", "ratio": 1000.0}}, "torque of joint_. reaches .* its limit in robot.yaml is"),
        ({"torque": {"unit": "pound"}}, "torque of joint joint_1 in 'pound'"),
        ({"mount": "nowhere"}, "unknown mount"),
    ],
)
def test_a_wrong_mapping_is_named(files, tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    fit, _, mapping = files
    with pytest.raises((DataError, ConfigurationError, LookupError), match=words):
        run(fit, "--mapping", change(mapping, **changes), "--out", tmp_path / "model")
    assert not (tmp_path / "model").exists()


def columns(path: Path, edit: Any) -> Path:
    """Rewrite the numbers of a file; edit gets and returns the array (N, 7)."""
    header = path.read_text().splitlines()[0]
    values = edit(np.loadtxt(path, delimiter=",", skiprows=1))
    np.savetxt(path, values, delimiter=",", header=header, comments="", fmt="%.9g")
    return path


def still(values: np.ndarray) -> np.ndarray:
    values[:, 1:4] = values[0, 1:4]
    return values


def stuck(values: np.ndarray) -> np.ndarray:
    values[:, 2] = values[0, 2]
    return values


def test_a_still_arm_and_a_still_joint_are_named(files, tmp_path: Path) -> None:
    fit, other, mapping = files
    with pytest.raises(DataError, match=r"fit\.csv: no joint moves"):
        run(columns(fit, still), "--mapping", mapping, "--out", tmp_path / "model")
    with pytest.raises(DataError, match="does not excite IA2, FV2, FC2"):
        run(columns(other, stuck), "--mapping", mapping, "--out", tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.slow
def test_radians_taken_for_degrees_fail_a_check(files, tmp_path: Path) -> None:
    """A motion that is 57 times too small explains no torque, and there is no gravity in it."""
    fit, _, mapping = files
    code, text = run(fit, "--mapping", change(mapping, position={"unit": "deg"}), "--out", tmp_path / "m", "--json")
    failed = [check["name"] for check in json.loads(text)["checks"] if not check["passed"]]
    assert code == 1 and "relative torque error of the worst joint, identification" in failed


@pytest.mark.slow
def test_csv_without_a_mapping_gets_a_draft_to_check(files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fit = files[0]
    out, draft = tmp_path / "model", tmp_path / "model.mapping.yaml"
    with pytest.raises(ConfigurationError, match=f"one was drafted: check every unit and sign in {draft}.*--mapping"):
        run(fit, "--out", out)
    assert not out.exists() and yaml.safe_load(draft.read_text())["position"]["columns"]
    with pytest.raises(ConfigurationError, match=f"its draft is there: .* repeat with --mapping {draft}"):
        run(fit, "--out", out)
    draft.unlink()
    monkeypatch.setattr(mapping_command, "is_interactive", lambda: True)
    for agreed, code in ((False, None), (True, 0)):
        monkeypatch.setattr(mapping_command.typer, "confirm", lambda *_, agreed=agreed, **__: agreed)
        if code is None:
            with pytest.raises(ConfigurationError, match="nothing was identified: check every unit"):
                run(fit, "--out", out)
            draft.unlink()
        else:
            assert run(fit, "--out", out)[0] == code and (out / "model.yaml").is_file()


def test_mappings_that_describe_no_recording_are_refused(files, tmp_path: Path) -> None:
    """A folder of CSV files needs no units of bags, nor do held-out CSV files, nor anything without them."""
    fit, other, mapping = files
    (tmp_path / "runs").mkdir()
    fit.rename(tmp_path / "runs" / "fit.csv")
    runs = tmp_path / "runs"
    of_bags = tmp_path / "bags.yaml"
    of_bags.write_text(yaml.safe_dump({"schema_version": 1, "position": {"unit": "deg"}}))
    for options, words in (
        (("--effort", "mA"), "all recordings are CSV files"),
        (("--validate", other, "--validate-mapping", of_bags), "all recordings are CSV files"),
        (("--validate-mapping", mapping), "describes recordings of --validate, and there are none"),
    ):
        with pytest.raises(ConfigurationError, match=words):
            run(runs, "--mapping", mapping, *options, "--out", tmp_path / "m")
    assert not (tmp_path / "m").exists()
    compared = ["compare", str(runs), "--robot", "planar_3r", "--mapping", str(mapping), "--validate-mapping", "x.yaml"]
    assert "and there are none" in str(CliRunner().invoke(app, compared).exception)


@pytest.mark.slow
def test_a_robot_drafted_from_a_urdf_is_identified(write_run, tmp_path: Path) -> None:
    """A drafted robot with undecided values is identified; its prior is the inertials of the URDF."""
    arm = load_robot("puma560")
    folder = tmp_path / "mine"
    CliRunner().invoke(app, ["robot", "new", "mine", "--urdf", str(arm.urdf_path), "--out", str(folder)])
    fit = write_run(arm, "fit.csv", seconds=60.0)
    common = ["--mapping", str(fit.parent / "mapping.yaml"), "--robot", str(folder), "--json"]
    done = CliRunner().invoke(app, ["identify", str(fit), *common, "--out", str(tmp_path / "model")])
    found = json.loads(done.stdout)
    assert done.exit_code == 0 and found["relative_torque_error"]["in_sample"]["all"] < 0.05
    assert any("leaves joints, mounts_gravity_m_s2" in note and "undecided" in note for note in found["notes"])
    essential = json.loads(CliRunner().invoke(app, ["essential", str(fit), *common]).stdout)
    assert essential["standard"]["has_prior"] and essential["standard"]["distance"] > 0.0
