"""Random scenes: motions that leave the free space are detected, and scenes without room are refused."""

import numpy as np
import pytest
from benchmarks.studies.adaptive import left_limits
from benchmarks.studies.adaptive_scenes import IN_WORDS, SceneFigures, ScenesFigures, scene_settings
from benchmarks.studies.drawn_arms import draw_arm
from benchmarks.studies.drawn_scenes import draw_scene, reach

from dynid.adaptive.session import AdaptiveIdentification
from dynid.adaptive.simulated import SimulatedArm
from dynid.control.safe_box import SafeBox, SceneFile
from dynid.errors import SafetyError
from dynid.robot import load_robot
from dynid.trajectory.polynomial import rest_to_rest

ROBOT = load_robot("crane_x7")


def test_the_same_seed_gives_the_same_scene_and_sizes_go_with_the_arm() -> None:
    scenes = [draw_scene(ROBOT, seed) for seed in range(40)]
    assert scenes[3] == draw_scene(ROBOT, 3) and scenes[3] != scenes[4]
    size = reach(ROBOT)
    assert all(0.8 * size <= scene.inside[0].upper_m[0] <= 1.8 * size for scene in scenes)
    assert {len(scene.outside) for scene in scenes} == {1, 2, 3, 4}


@pytest.mark.slow
def test_motion_outside_the_scene_is_refused_by_proof_and_judge() -> None:
    """The arm carries it out unchecked; the same motion within a wide room is no violation."""
    drawn = draw_arm(ROBOT, 1000)
    arm = SimulatedArm(ROBOT, standard=drawn.standard, friction=drawn.friction, seed=1000)
    known = AdaptiveIdentification(ROBOT).start().feedforward
    arm.to_start(known)
    away = arm.at + np.array([1.2, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    motion = rest_to_rest("out", ROBOT.joint_names, arm.at, away, 2.0)
    wide = np.full(ROBOT.size, 10.0)
    arm.begin(motion, known, wide, wide)
    arm.finish()
    turned = arm.run("out").q_true[-1] - arm.run("out").q_true[0]
    assert turned[0] > 0.8
    room = draw_scene(ROBOT, 1000).inside[0]
    wall = room.model_copy(update={"upper_m": (room.upper_m[0], 0.05, room.upper_m[2])})
    narrow, far = (
        SceneFile(schema_version=1, inside=(one,))
        for one in (wall, room.model_copy(update={"upper_m": (2.0, 2.0, 2.0)}))
    )
    assert left_limits(ROBOT, arm.run("out"), narrow)[0][0] > 0
    assert left_limits(ROBOT, arm.run("out"), far)[0] == (0, 0, 0, 0, 0)
    with pytest.raises(SafetyError, match=IN_WORDS):
        SafeBox(ROBOT, narrow).prove(motion, np.full(ROBOT.size, 0.05))


def test_a_scene_without_room_for_the_standing_arm_is_refused_before_it_moves() -> None:
    scene = draw_scene(ROBOT, 1000)
    low = scene.inside[0].model_copy(update={"upper_m": (1.0, 1.0, 0.2)})
    arm = SimulatedArm(ROBOT, seed=1000)
    adaptive = AdaptiveIdentification(ROBOT, box=SafeBox(ROBOT, scene.model_copy(update={"inside": (low,)})))
    arm.to_start(adaptive.start().feedforward)
    with pytest.raises(SafetyError, match=IN_WORDS):
        adaptive.run(arm)
    assert arm.moved_s == 0.0


def test_missed_bars_of_scenes_are_named() -> None:
    good = SceneFigures(0, accepted=True, precise=True, within=True, held=True)
    assert ScenesFigures((good,), 1.0).missed() == []
    wrong = {
        "limit_violations": SceneFigures(1, violations=(1, 0, 0, 0, 0)),
        "without link and border": SceneFigures(1, refused="it went wrong"),
        "precise_within_limits": SceneFigures(1, accepted=True, precise=True, within=False, held=True),
        "intervals_held": SceneFigures(1, accepted=True, within=True, held=False),
    }
    for words, one in wrong.items():
        assert any(words in line for line in ScenesFigures((good, one), 1.0).missed()), words


def test_coarser_scene_settings_scale_all_limits() -> None:
    coarse, fine = scene_settings(5.0), scene_settings(0.5)
    assert coarse.inertial_share == pytest.approx(0.05) and coarse.torque_share == pytest.approx(10 * fine.torque_share)
