"""`./run benchmark plants`: criteria of a wrong verdict, plants that differ from the model, limits that reject."""

import dataclasses
import json

import numpy as np
import pytest
from benchmarks.cli import app
from benchmarks.studies import plants as study
from benchmarks.studies.plants import Kind, Plants, Row, plants, recorded
from typer.testing import CliRunner

from dynid.errors import SafetyError
from dynid.identification.data.signals import Signals
from dynid.identification.settings import load_identification
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters
from dynid.robot import load_robot

ROBOT = load_robot("crane_x7")


def row(accepted: bool, error: float, kind: Kind = "faultless") -> Row:
    return Row("plant", kind, 0, accepted, error, "")


@pytest.mark.parametrize(
    ("rows", "met", "wrong", "right"),
    [
        ([row(True, 0.05)], True, 0, 1.0),
        ([row(True, 0.05), row(True, 0.12, "faulty")], False, 1, 1.0),
        ([row(True, 0.05), row(False, 0.12, "faulty")], True, 0, 1.0),
        ([row(True, 0.05), row(True, 0.11)], False, 1, 1.0),
        ([row(True, 0.05), row(False, 0.05)], False, 0, 0.5),
        ([row(True, 0.05), row(False, float("nan"))], False, 0, 0.5),
        ([row(False, 0.3, "faulty")], False, 0, float("nan")),
    ],
)
def test_wrong_accepted_and_right_refused_models_miss_the_limits(
    rows: list[Row], met: bool, wrong: int, right: float
) -> None:
    found = Plants(tuple(rows))
    assert (found.met, len(found.accepted_wrong)) == (met, wrong)
    np.testing.assert_equal(found.accepted_right, right)
    json.dumps(found.as_dict()["rows"])


def test_the_median_error_is_that_of_links_and_rotors() -> None:
    model = ArmModel.of(ROBOT)
    true = study.true_parameters(ROBOT, model)
    assert study.median_error(ROBOT, BaseParameters(model.names, true)) == 0.0
    assert study.median_error(ROBOT, BaseParameters(model.names, 1.2 * true)) == pytest.approx(0.2)
    friction_only = np.where(study.rigid(model.names), true, 3.0 * true)
    assert study.median_error(ROBOT, BaseParameters(model.names, friction_only)) == 0.0


@pytest.mark.slow
def test_every_plant_differs_as_its_name_states() -> None:
    every = {one.name: one for one in plants(ROBOT, 1)}
    assert [one.kind for one in every.values()].count("faultless") == 4
    settings = load_identification(ROBOT)
    plain = recorded(ROBOT, every["M6"], "V01", 1).signals(settings)

    def of(name: str) -> Signals:
        plant = dataclasses.replace(every[name], friction=every["M6"].friction)
        return recorded(ROBOT, plant, "V01", 1).signals(settings)

    factor = np.where(np.arange(ROBOT.size) == 3, 1.25, 1.0)
    np.testing.assert_allclose(of("torque constant of joint 4 -20 %").tau, plain.tau * factor)
    zero = of("zero of joint 3 2 deg")
    np.testing.assert_allclose(zero.q - plain.q, np.eye(ROBOT.size)[2] * np.deg2rad(2.0) + 0.0 * plain.q, atol=1e-12)
    offset = of("offset of joint 3 0.1 N m")
    np.testing.assert_allclose(offset.tau - plain.tau, 0.1 * np.eye(ROBOT.size)[2] + 0.0 * plain.tau, atol=1e-12)
    leaning = of("base 2 deg")
    assert np.abs(leaning.tau - plain.tau).max() > 0.02


def test_a_leaning_base_turns_gravity_and_keeps_its_size() -> None:
    leaning = study.tilted(ROBOT, study.TILT_RAD)
    for mount in ROBOT.file.mounts_gravity_m_s2:
        before, after = ROBOT.gravity(mount), leaning.gravity(mount)
        assert np.linalg.norm(after) == pytest.approx(np.linalg.norm(before))
        cosine = before @ after / np.linalg.norm(before) ** 2
        assert np.arccos(cosine) == pytest.approx(study.TILT_RAD)


def test_a_plant_that_cannot_be_recorded_is_a_row_without_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_: object) -> None:
        raise SafetyError("joint 4 is 20.1 deg off its reference")

    monkeypatch.setattr(study, "recorded", lost)
    found = study.judge_plant(study._Job(ROBOT, 0, 0))
    assert not found.accepted and np.isnan(found.median_error) and "20.1 deg" in found.why


def test_the_command_exits_with_1_where_a_wrong_model_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    for rows, code in (([row(True, 0.05)], 0), ([row(True, 0.2, "faulty"), row(True, 0.05)], 1)):
        monkeypatch.setattr(study, "benchmark_plants", lambda *_, rows=rows: Plants(tuple(rows)))
        monkeypatch.setattr(study, "make_bags_of", lambda *_: [])
        monkeypatch.setattr(study, "error_norms", lambda *_: {"pooled_ols": 1.0, "joint_clie": 2.0, "campaign": 3.0})
        result = CliRunner().invoke(app, ["benchmark", "plants", "--json"])
        assert result.exit_code == code
        figures = json.loads(result.stdout)
        assert (figures["accepted_wrong"], figures["joint_clie"], figures["campaign_viscous"]) == (code, 2.0, 3.0)
