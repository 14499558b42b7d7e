"""What the identified model is worth for control, with all nuisances of the simulated arm on."""

import json
from dataclasses import replace

import numpy as np
import pytest
from benchmarks.speed import control
from benchmarks.speed.control import (
    NominalGravity,
    drift,
    gravity_error,
    identified,
    led_by_hand,
    make_bench,
    missed,
    nominal_models,
    step_cost,
    tracking,
)
from typer.testing import CliRunner

from dynid.cli import app
from dynid.control.control_model import ModelGate, from_model_file
from dynid.control.ff_pd import FeedforwardPdLaw
from dynid.control.model_laws import ComputedTorque
from dynid.model.friction import FrictionLaw
from dynid.robot import load_robot

pytestmark = pytest.mark.slow

ROBOT = load_robot("crane_x7")
N = ROBOT.size


@pytest.fixture(scope="module")
def bench():
    return make_bench(ROBOT, None, 0)


@pytest.fixture(scope="module")
def model(bench, tmp_path_factory):
    """The accepted model of one motion, nuisances on."""
    return from_model_file(identified(bench, tmp_path_factory.mktemp("bags")), bench.arm)


def test_computed_torque_has_a_third_of_the_error_and_beats_what_can_be_had_without_identification(bench, model):
    ModelGate(ROBOT, bench.arm).check(model)
    nominal = nominal_models(bench)["nominal"]
    laws = {
        "computed_torque": ComputedTorque(bench.settings, model, bench.dynamics),
        "ff_pd": FeedforwardPdLaw(bench.settings),
        "gravity": NominalGravity(bench.settings, nominal, bench.dynamics),
        "nominal": ComputedTorque(bench.settings, nominal, bench.dynamics),
        "bare": ComputedTorque(bench.settings, replace(model, friction=FrictionLaw.of(N, {})), bench.dynamics),
    }
    error = {name: tracking(bench, law, ["V02"])["all"] for name, law in laws.items()}
    assert error["computed_torque"] <= error["ff_pd"] / 3.0
    assert error["computed_torque"] <= 0.8 * min(error["gravity"], error["nominal"], error["bare"])
    without = tracking(bench, ComputedTorque(bench.settings, nominal_models(bench)["nominal_urdf"], bench.dynamics))
    assert isinstance(without, str) and "off its reference" in without  # a URDF has no rotors


def test_gravity_and_what_a_wrong_model_would_get(bench, model, tmp_path):
    frictionless = from_model_file(identified(bench, tmp_path, ["coulomb"]), bench.arm)
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
    weightless = type(model)(**{**vars(model), "phi": model.phi.with_values(0.0 * model.phi.values)})
    assert drift(bench, weightless, poses[:1])["released_arm_moves_deg"] > 5.0


def test_leading_by_hand_takes_less_push_at_every_joint(bench, model):
    found = led_by_hand(bench, model)
    before, after = (np.array(list(found[key].values())) for key in ("push_nm_before", "push_nm_after"))
    assert list(found["push_nm_before"]) == list(ROBOT.joint_names) and found["friction_share"] == 0.68
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
def test_a_bar_that_is_missed_is_told(changed, words):
    assert missed(GOOD) == []
    (told,) = missed(GOOD | changed)
    assert words in told


def test_a_step_is_timed(bench, model):
    cost = step_cost(bench, ComputedTorque(bench.settings, model, bench.dynamics))
    assert 0.0 < cost["step_without_messages_us"] < cost["step_us"] <= cost["step_p99_us"]


def test_the_command_prints_what_it_promises(monkeypatch):
    monkeypatch.setattr(control, "TRAJECTORIES", ("V02",))  # of three
    done = CliRunner().invoke(app, ["benchmark", "control", "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    figures = json.loads(done.stdout)
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
