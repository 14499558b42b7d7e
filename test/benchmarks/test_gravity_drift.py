"""Benchmark of released arms: what counts as drift, and a model that lets the arm sink."""

from dataclasses import replace

import numpy as np
import pytest
from benchmarks.speed.control import nominal_models
from benchmarks.studies.gravity_drift import ArmAtRest, Rest, missed, postures, rest_at

from dynid.control.self_collision import SelfCollision
from dynid.demo.bench import Bench, make_bench
from dynid.model.parameters import BaseParameters
from dynid.robot import Robot

GOOD = Rest((0.0, 10.0), 0.2, "joint_1", 0.5, "joint_2", 0.4, "")


@pytest.fixture(scope="module")
def bench(robot: Robot) -> Bench:
    return make_bench(robot, None, 0)


def test_a_true_model_keeps_the_arm_where_it_is_and_a_push_moves_every_joint(bench: Bench) -> None:
    (posture,) = postures(bench, 1)
    found = rest_at(bench, nominal_models(bench)["nominal"], posture, 0, 1.0)
    assert missed([ArmAtRest(bench.robot.name, (found,))]) == []
    assert found.drift_deg < 0.2 and found.held == ""
    assert np.deg2rad(found.posture_deg) == pytest.approx(posture, abs=1e-3)


def test_a_model_that_is_too_light_lets_the_arm_sink(bench: Bench) -> None:
    true = nominal_models(bench)["nominal"]
    light = replace(true, phi=BaseParameters(true.phi.names, 0.3 * true.phi.values))
    (posture,) = postures(bench, 1)
    (sentence, *_) = missed([ArmAtRest("arm", (rest_at(bench, light, posture, 0, 1.0),))])
    assert "drifts by" in sentence


def test_postures_are_free_of_contact_and_leave_room_to_push(bench: Bench) -> None:
    robot, collision = bench.robot, SelfCollision(bench.robot)
    for q in postures(bench, 5):
        assert collision.contact_at(q) is None
        assert (q > robot.lower + 0.1).all() and (q < robot.upper - 0.1).all()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"drift_deg": 1.0}, "arm: joint_1 drifts by 1.00 deg at (0.0, 10.0)"),
        ({"drift_deg": np.nan}, "arm: joint_1 drifts by nan deg at (0.0, 10.0)"),
        ({"held": "too fast"}, "arm: the arm was held at (0.0, 10.0): too fast"),
        ({"push_s": np.inf}, "arm: 0.400 N m do not move joint_2 at (0.0, 10.0)"),
    ],
)
def test_what_counts_as_a_miss(changes: dict[str, float], said: str) -> None:
    assert missed([ArmAtRest("arm", (GOOD,))]) == []
    assert missed([ArmAtRest("arm", (GOOD, replace(GOOD, **changes)))]) == [said]
