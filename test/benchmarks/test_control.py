"""Tracking with the identified model on the simulated arm with all nuisances."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from benchmarks.cli import app
from benchmarks.speed import control
from benchmarks.speed.control import drift, gravity_error, missed
from typer.testing import CliRunner

from dynid.control.control_model import ModelGate, from_model_file
from dynid.demo.bench import identified, make_bench
from dynid.model.model_file import ModelFile
from dynid.robot import load_robot

pytestmark = pytest.mark.slow

ROBOT = load_robot("crane_x7")
N = ROBOT.size


Identified = Callable[..., ModelFile]


@pytest.fixture(scope="module")
def bench():
    return make_bench(ROBOT, None, 0)


@pytest.fixture(scope="module")
def identify(bench, tmp_path_factory) -> Identified:
    """The accepted model file of one motion, with or without nuisances; each is identified once."""
    found: dict[tuple[str, ...], ModelFile] = {}

    def once(*without: str) -> ModelFile:
        if without not in found:
            found[without] = identified(bench, tmp_path_factory.mktemp("bags"), without)
        return found[without]

    return once


@pytest.fixture(scope="module")
def model(bench, identify):
    """With nuisances on."""
    return from_model_file(identify(), bench.arm)


@pytest.fixture(scope="module")
def figures(identify) -> dict[str, Any]:
    """What the command prints, of one motion of three and one posture of nine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(control, "TRAJECTORIES", ("V02",))
        patch.setattr(control, "identified", lambda bench, work, without=(): identify(*without))
        patch.setattr(control, "drift", lambda bench, model, poses: drift(bench, model, poses[:1]))
        done = CliRunner().invoke(app, ["benchmark", "control", "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_computed_torque_with_the_model_has_a_third_of_the_error(bench, model, figures):
    ModelGate(ROBOT, bench.arm).check(model)
    error = {name: found["all"] for name, found in figures["tracking_rms_deg"].items() if isinstance(found, dict)}
    assert error["computed_torque"] <= error["ff_pd"] / 3.0
    others = ("ff_pd_nominal_gravity", "computed_torque_nominal", "computed_torque_without_friction")
    assert error["computed_torque"] <= 0.8 * min(error[name] for name in others)
    assert "off its reference" in figures["tracking_rms_deg"]["computed_torque_nominal_urdf"]  # it has no rotors


def test_gravity_error_grows_with_the_error_of_the_model(bench, model, identify):
    frictionless = from_model_file(identify("coulomb"), bench.arm)
    assert gravity_error(bench, frictionless) < 2.0
    assert gravity_error(bench, model) < 3.0
    heavier = model.phi.with_values(1.1 * model.phi.values)
    assert gravity_error(bench, type(model)(**{**vars(model), "phi": heavier})) == pytest.approx(10.0, abs=1.0)


def test_the_released_arm_stays_and_stops_after_a_push(bench, model):
    poses = [np.array(ROBOT.rest_posture), np.deg2rad([20.0, 40.0, 10.0, -60.0, 30.0, 20.0, 0.0, 10.0])]
    found = drift(bench, model, poses)
    assert found["released_arm_moves_deg"] < 0.1
    assert found["push_moves_deg"] > 1.0
    assert found["last_second_after_push_moves_deg"] < 0.1
    light = type(model)(**{**vars(model), "phi": model.phi.with_values(0.2 * model.phi.values)})
    assert drift(bench, light, poses[:1])["released_arm_moves_deg"] > 3.0  # then it is braked and held


def test_leading_by_hand_takes_less_push_at_every_joint(figures):
    before, after = (np.array(list(figures[key].values())) for key in ("push_nm_before", "push_nm_after"))
    assert list(figures["push_nm_before"]) == list(ROBOT.joint_names) and figures["friction_share"] == 0.68
    assert (after < 0.8 * before).all() and (after > 0.2 * before).all()


GOOD = {
    "ratio": 0.2,
    "tracking_rms_computed_torque": 0.2,
    "tracking_rms_without_friction": 0.5,
    "push_nm_before": {"a": 1.0, "b": 1.0},
    "push_nm_after": {"a": 0.5, "b": 0.5},
}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"ratio": 0.34}, "is 0.340 of FF+PD's"),
        ({"ratio": float("nan")}, "is nan of FF+PD's"),
        ({"tracking_rms_without_friction": 0.2}, "friction feed-forward does not improve"),
        ({"push_nm_after": {"a": 0.5, "b": 1.0}}, "does not ease the hand guiding of b"),
    ],
)
def test_missed_limit_is_reported(changed, words):
    assert missed(GOOD) == []
    (told,) = missed(GOOD | changed)
    assert words in told


def test_a_step_without_messages_takes_less_time_than_one_with_them(figures):
    assert 0.0 < figures["step_without_messages_us"] < figures["step_us"] <= figures["step_p99_us"]


def test_command_prints_all_figures(figures):
    promised = (
        "step_us",
        "tracking_rms_ff_pd",
        "tracking_rms_computed_torque",
        "tracking_rms_nominal",
        "ratio",
        "gravity_error_percent",
        "tracking_rms_without_friction",
    )
    assert all(np.isfinite(figures[name]) and figures[name] > 0.0 for name in promised)
    assert figures["ratio"] == pytest.approx(figures["tracking_rms_computed_torque"] / figures["tracking_rms_ff_pd"])
    assert figures["ratio"] <= 1.0 / 3.0 and figures["ratio_to_nominal"] <= 0.8 and not missed(figures)
    assert set(figures["tracking_rms_deg"]["computed_torque"]) >= {"V02", "all"}
