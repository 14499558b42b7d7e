"""`dynid compare`, `dynid essential` and `dynid validate` on CSV files."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from arms import RECORD, arm, nominal_standard
from typer.testing import CliRunner

from dynid.cli import app
from dynid.errors import ConfigurationError, DataError, OutputExistsError, UnknownNameError
from dynid.identification.comparison import Comparison
from dynid.identification.settings import load_identification
from dynid.model.parameters import BaseParameters
from dynid.model.standard import load_standard
from dynid.reporting.bars import bars
from dynid.robot import load_robot

PLANAR = load_robot("planar_3r")
MODEL = arm("planar_3r")
TRUTH = nominal_standard("planar_3r")


def run(command: str, *arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [command, *map(str, arguments), "--robot", "planar_3r"])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout


def as_json(command: str, *arguments: object) -> dict[str, Any]:
    return json.loads(run(command, *arguments, "--json")[1])


@pytest.fixture
def files(write_run) -> tuple[Path, Path, Path]:
    fit, other = write_run(PLANAR, "fit.csv"), write_run(PLANAR, "other.csv", seconds=12.0, seed=7)
    return fit, other, fit.parent / "mapping.yaml"


@pytest.mark.slow
def test_all_estimators_are_compared_on_fitted_and_held_out_data(files) -> None:
    fit, other, mapping = files
    found = as_json("compare", fit, "--mapping", mapping, "--validate", other)
    rows = found["estimators"]
    assert rows.keys() == {
        "essential",
        "huber",
        "ols",
        "wls",
        "closest",
        "closest-essential",
        "consistent",
        "sequential",
    }
    assert "needs products of inertia" in rows.pop("sequential")["failure"]
    assert found["base_parameters"] == 17 and "no torque constant" in found["torques"]
    inside = {name: row["relative_torque_error"]["in_sample"]["all"] for name, row in rows.items()}
    assert inside["ols"] < 1.001 * min(inside.values()) and max(inside.values()) < 1.1 * inside["ols"]
    for name, row in rows.items():
        assert row["feasible"] and row["lambda_min_kg_m2"] > 0 and row["seconds"] > 0, name
        assert 0 < row["relative_torque_error"]["out_of_sample"]["all"] < 0.05
        assert row["consistent"] or name != "consistent"
    assert rows["ols"]["definite_links"] is None and rows["consistent"]["definite_links"] == 3
    code, text = run("compare", fit, "--mapping", mapping, "--hold-out", "0.3", "--estimator", "ols")
    assert code == 0 and "ols" in text and "wls" not in text and "M definite" in text


def test_errors_are_drawn_as_a_figure_that_overwrites_nothing(files, tmp_path: Path) -> None:
    fit, other, mapping = files
    own = ("--mapping", mapping, "--estimator", "ols", "--estimator", "wls", "--plot", tmp_path / "errors.svg")
    found = as_json("compare", fit, *own, "--validate", other)["estimators"]
    assert "<svg" in (tmp_path / "errors.svg").read_text(encoding="utf-8")
    assert set(found) == {"ols", "wls"}
    with pytest.raises(OutputExistsError):
        run("compare", fit, *own)
    with pytest.raises(UnknownNameError, match="unknown figure format"):
        run("compare", fit, "--mapping", mapping, "--plot", tmp_path / "errors.txt")


def test_bars_have_the_length_of_their_value() -> None:
    drawn = bars("title", "%", ["one", "other"], {"a": [1.5, None], "b": [2.0, 3.0]}).axes[0]
    lengths = [[patch.get_width() for patch in container] for container in drawn.containers]
    assert lengths == [[1.5], [2.0, 3.0]]
    assert [label.get_text() for label in drawn.get_yticklabels()] == ["one", "other"]
    assert [text.get_text() for text in drawn.get_legend().get_texts()] == ["a", "b"]


def test_invalid_comparisons_are_refused(files) -> None:
    fit, other, mapping = files
    with pytest.raises(UnknownNameError, match="unknown estimator 'best'"):
        run("compare", fit, "--mapping", mapping, "--estimator", "best")
    with pytest.raises(ConfigurationError, match="give one of them"):
        run("compare", fit, "--mapping", mapping, "--validate", other, "--hold-out", "0.3")


def test_a_comparison_uses_each_recording_once(files) -> None:
    fit, other, mapping = files
    own = ("--mapping", mapping, "--estimator", "ols")
    with pytest.raises(DataError, match=r"fit.csv holds the same data as .*fit.csv: name each recording once"):
        run("compare", fit, fit, *own)
    with pytest.raises(DataError, match=r"fit.csv holds the same data as .*fit.csv, which the model was identified"):
        run("compare", fit, "--validate", other, "--validate", fit, *own)
    assert run("compare", fit, "--validate", fit, "--validate-mapping", other_mapping(mapping), *own)[0] == 0


def other_mapping(mapping: Path) -> Path:
    """Write a mapping by which the same file means other torques."""
    content = yaml.safe_load(mapping.read_text())
    content["torque"]["sign"] = [-1] * PLANAR.size
    path = mapping.with_name("other.yaml")
    path.write_text(yaml.safe_dump(content))
    return path


def test_an_indefinite_model_and_a_failure_are_lines_of_the_table(make_run) -> None:
    """A model with negative inertias is told from a possible one; an estimator that fails does not end the others."""
    samples = make_run(MODEL.base_parameters(TRUTH))
    good = Comparison(PLANAR, MODEL, samples, None, load_identification(PLANAR)).rows(["ols"])[0]
    assert good.feasible and good.out_of_sample is None
    wrong = MODEL.base_parameters(TRUTH).values * np.where([n.startswith(("ZZ", "IA")) for n in MODEL.names], -1.0, 1.0)
    bad = Comparison(
        PLANAR, MODEL, make_run(BaseParameters(MODEL.names, wrong)), None, load_identification(PLANAR)
    ).rows(["ols", "consistent"])
    assert not bad[0].feasible and bad[0].lambda_min < 0 and bad[1].feasible
    few = make_run(MODEL.base_parameters(TRUTH), count=5)
    rows = Comparison(PLANAR, MODEL, few, None, load_identification(PLANAR)).rows(["ols", "essential"])
    assert all(row.outcome is None and "record longer" in row.failure for row in rows)
    assert rows[0].as_dict(PLANAR.joint_names)["failure"]


@pytest.fixture
def make_run():
    from dynid.identification.data.preprocessing import Samples

    def make(phi: BaseParameters, count: int = 200) -> Samples:
        q, dq, ddq = np.random.default_rng(1).uniform(-2, 2, (3, count, 3))
        tau = MODEL.inverse_dynamics(q, dq, ddq, phi)
        return Samples(PLANAR.joint_names, 0.02 * np.arange(count), q, dq, ddq, tau, RECORD)

    return make


# -- essential parameters --------------------------------------------------------------------------------------


def test_essential_lists_parameters_and_writes_standard_ones(files, tmp_path: Path) -> None:
    fit, _, mapping = files
    out = tmp_path / "standard.yaml"
    found = as_json("essential", fit, "--mapping", mapping, "--out", out)
    assert {"MXR1", "ZZR1", "FV1"} <= found["essential"].keys() and {"MY1", "MY2", "MY3"} <= found["cancelled"].keys()
    assert len(found["essential"]) + len(found["cancelled"]) == found["base_parameters"] == 17
    assert all(row["relative_standard_deviation"] <= 0.1 for row in found["essential"].values())
    assert found["standard"]["has_prior"] and found["standard"]["definite_links"]["0"] == 3
    stored = load_standard(out, MODEL.mdh)
    assert stored["M2"] == pytest.approx(TRUTH["M2"]) and stored["FV1"] == pytest.approx(TRUTH["FV1"], rel=0.05)
    with pytest.raises(OutputExistsError):
        run("essential", fit, "--mapping", mapping, "--out", out)
    code, text = run("essential", fit, "--mapping", mapping, "--limit", "0.02")
    assert code == 0 and "parameters are essential" in text and "closest to the a-priori ones" in text


# -- validation ------------------------------------------------------------------------------------------------


def test_a_model_is_validated_on_a_csv(files) -> None:
    _, other, mapping = files
    code, text = run("validate", "nominal", other, "--mapping", mapping, "--json")
    found = json.loads(text)
    assert code == 0 and 0 < found["bags"]["other.csv"]["relative"] < 0.05
    assert "no torque constant was used" in found["torques"][0]
    assert "no torque constant was used" in run("validate", "nominal", other, "--mapping", mapping)[1]
    with pytest.raises(ConfigurationError, match="describe its columns with --mapping"):
        run("validate", "nominal", other)


def test_feasible_estimators_fit_an_arm_with_products_of_inertia(write_run) -> None:
    file = write_run(load_robot("puma_3dof"), seconds=20.0)
    names = ("ols", "consistent", "sequential")
    chosen = [word for name in names for word in ("--estimator", name)]
    words = ["compare", file, "--mapping", file.with_name("mapping.yaml"), "--robot", "puma_3dof", *chosen, "--json"]
    result = CliRunner().invoke(app, list(map(str, words)), catch_exceptions=False)
    rows = json.loads(result.stdout)["estimators"]
    inside = {name: rows[name]["relative_torque_error"]["in_sample"]["all"] for name in names}
    assert inside["consistent"] < 1.02 * inside["ols"] and inside["sequential"] < 1.3 * inside["ols"]
    assert all(rows[name]["consistent"] for name in names[1:])
