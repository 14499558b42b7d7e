"""A whole adaptive run in lock-step: what it comes to, and that it does not end before it is good enough."""

import numpy as np
import pytest
from benchmarks.studies.adaptive import left_limits
from benchmarks.studies.coverage import true_base
from benchmarks.studies.drawn_arms import draw_arm

from dynid.adaptive.session import AdaptiveIdentification, AdaptiveRun
from dynid.adaptive.settings import AdaptiveSettings
from dynid.adaptive.simulated import SimulatedArm
from dynid.control.safe_box import SafeBox, scene_of
from dynid.robot import load_robot

ROBOT = load_robot("crane_x7")
SCENE = scene_of(ROBOT)
pytestmark = pytest.mark.slow


def run_of(settings: AdaptiveSettings) -> tuple[AdaptiveRun, SimulatedArm]:
    assert SCENE is not None
    drawn = draw_arm(ROBOT, 1)
    arm = SimulatedArm(ROBOT, standard=drawn.standard, friction=drawn.friction, seed=1)
    adaptive = AdaptiveIdentification(ROBOT, settings, box=SafeBox(ROBOT, SCENE))
    arm.to_start(adaptive.start().feed())
    return adaptive.run(arm, seed=1), arm


def test_a_drawn_arm_comes_to_an_accepted_model_without_leaving_a_limit() -> None:
    run, arm = run_of(AdaptiveSettings(inertial_share=0.03, torque_share=0.2))
    assert run.precise and run.accepted and run.motion_s <= 30.0
    assert left_limits(ROBOT, arm.run("adaptive"), SCENE)[0] == (0, 0, 0, 0, 0)
    assert run.identification is not None
    off = np.abs(run.identification.base.values - true_base(ROBOT, draw_arm(ROBOT, 1), 0.5 * run.motion_s))
    links = [k for k, name in enumerate(run.identification.model.names) if not name.startswith("FV")]
    assert (off <= run.limits)[links].all()
    again = arm.source("again").samples(AdaptiveIdentification(ROBOT).identification)
    assert len(again) > 300


def test_what_is_not_yet_precise_goes_on_until_the_time_is_over() -> None:
    settings = AdaptiveSettings(inertial_share=1e-4, longest_s=9.0, first_look_s=6.0, iterations=4, candidates=1)
    run, _ = run_of(settings)
    assert not run.precise
    assert 6.0 < run.motion_s < 9.01  # after that no other segment fits in
    assert all(look.widest > 1.0 for look in run.looks)
