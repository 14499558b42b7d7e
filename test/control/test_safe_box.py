"""Proofs that motions stay in a scene, for all positions within the tracking tolerance; pinocchio checks samples."""

import shutil
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import yaml
from benchmarks.scene_judge import SceneJudge

from dynid.control.safe_box import SafeBox, SceneFile, Spheres, load_scene, scene_of
from dynid.errors import ConfigurationError, SafetyError
from dynid.robot import FloatArray, Robot, load_robot
from dynid.trajectory.families import load_excitation
from dynid.trajectory.polynomial import PolynomialTrajectory, through_points

ROBOTS = ("crane_x7", "aloha_class")
TUBE_RAD = 0.03


def drawn_scene(random: np.random.Generator, size: float) -> SceneFile:
    """A room around the arm, a table, a tilted wall and a cabinet."""
    corner = random.uniform(0.3, 1.1, 3) * size
    at = random.uniform(-0.9, 0.9, 3) * size
    normal = random.normal(size=3)
    return SceneFile.model_validate(
        {
            "schema_version": 1,
            "margin_m": float(random.uniform(0.0, 0.03)),
            "inside": [{"name": "room", "lower_m": tuple(-corner), "upper_m": tuple(corner + 0.3 * size)}],
            "half_spaces": [
                {"name": "table", "normal": (0, 0, 1), "offset_m": -0.02 if size < 1.0 else -0.5, "from_link": 2},
                {"name": "wall", "normal": tuple(normal), "offset_m": -random.uniform(0.4, 1.0) * size},
            ],
            "outside": [{"name": "cabinet", "lower_m": tuple(at), "upper_m": tuple(at + 0.15 * size), "from_link": 3}],
        }
    )


def test_a_sliding_finger_is_covered_up_to_its_limit(tmp_path: Path) -> None:
    robot = load_robot("aloha_class")
    last = robot.joint_names[robot.chain_size - 1]
    text = robot.urdf_path.read_text(encoding="utf-8")
    link = ElementTree.fromstring(text).find(f"joint[@name='{last}']/child").get("link")
    mass = (
        '<inertial><mass value="0.02"/><inertia ixx="1e-5" iyy="1e-5" izz="1e-5" ixy="0" ixz="0" iyz="0"/></inertial>'
    )
    shape = '<origin xyz="0.02 0 0"/><geometry><box size="0.04 0.01 0.02"/></geometry>'
    finger = f"""<link name="finger">{mass}<collision>{shape}</collision></link>
<joint name="slide" type="prismatic"><parent link="{link}"/><child link="finger"/><origin xyz="0.1 0 0"/>
<axis xyz="0 1 0"/><limit lower="0.0" upper="0.057" velocity="1" effort="5"/></joint></robot>"""
    shutil.copytree(robot.folder, tmp_path / "config" / robot.name)
    (tmp_path / "arm.urdf").write_text(text.replace("</robot>", finger), encoding="utf-8")
    path = tmp_path / "config" / robot.name / "robot.yaml"
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    path.write_text(yaml.safe_dump(content | {"urdf": str(tmp_path / "arm.urdf")}), encoding="utf-8")
    found = Spheres.of(load_robot(tmp_path / "config" / robot.name))
    corner, own = np.array([0.14, 0.062, 0.01]), found.links == robot.chain_size - 1  # the finger's, fully open
    assert (np.linalg.norm(corner - found.centres[own], axis=1) - found.radii[own]).min() <= 0.0


def drawn_motion(robot: Robot, random: np.random.Generator) -> PolynomialTrajectory:
    """From rest to rest through random points, of which the joints' ranges leave some room for the tube."""
    count, knots = 4, np.linspace(0.0, 2.0, 4)
    lower, upper = np.maximum(robot.lower, -3.0), np.minimum(robot.upper, 3.0)
    share = random.uniform(0.02, 0.3)
    middle = random.uniform(lower, upper)
    points = np.clip(middle + share * random.uniform(-1.0, 1.0, (count, robot.size)) * (upper - lower), lower, upper)
    speeds = random.normal(size=points.shape)
    speeds[[0, -1]] = 0.0
    return through_points("drawn", robot.joint_names, knots, points, speeds, random.normal(size=points.shape))


def worst_of_proven(robot: Robot, box_of: type[SafeBox], scenes: int, seed: int) -> tuple[int, float]:
    """How many random motions are proven, and how far one of them gets beyond a border at most [m]."""
    random, judge = np.random.default_rng(seed), SceneJudge(robot)
    proven, worst = 0, -np.inf
    size = 0.75 if robot.name == "crane_x7" else 1.6
    for _ in range(scenes):
        box, motion = box_of(robot, drawn_scene(random, size)), drawn_motion(robot, random)
        tube = np.full(robot.size, TUBE_RAD)
        try:
            box.prove(motion, tube)
        except SafetyError:
            continue
        proven += 1
        q = motion.sample_all(np.linspace(0.0, motion.duration, 150))[0]
        off = TUBE_RAD * random.choice([-1.0, 0.0, 1.0], q.shape)
        worst = max(worst, float(judge.beyond(box.scene, q + off, random).max()))
    return proven, worst


@pytest.mark.parametrize("name", ROBOTS)
@pytest.mark.slow
def test_proven_motions_stay_inside_the_box(name: str) -> None:
    proven, worst = worst_of_proven(load_robot(name), SafeBox, 100, 3)
    assert proven >= 10
    assert worst <= 0.0


class TooLoose(SafeBox):
    """Wrong bound: it assumes that no joint moves within a piece or leaves its reference."""

    def _places(self, q: FloatArray) -> tuple[FloatArray, FloatArray]:
        centres, levers = super()._places(q)
        return centres, 0.0 * levers


@pytest.mark.slow
def test_a_bound_that_is_too_loose_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dynid.control.safe_box.FIRST_SPAN_S", 0.5)
    monkeypatch.setattr(TooLoose, "_second_order", lambda self, d: 0.0 * d @ self._reach.T)
    proven, worst = worst_of_proven(load_robot("crane_x7"), TooLoose, 100, 3)
    assert proven >= 10
    assert worst > 0.005


def test_a_swing_between_two_samples_is_detected() -> None:
    """At both ends and in the middle of the piece the arm is far from a thin wall; it only swings through it."""
    robot = load_robot("crane_x7")
    scene = SceneFile.model_validate(
        {
            "schema_version": 1,
            "outside": [{"name": "post", "lower_m": (0.1, 0.2, 0.0), "upper_m": (0.6, 0.21, 0.6), "from_link": 3}],
        }
    )
    first, last = robot.rest_posture.copy(), robot.rest_posture.copy()
    last[0] = 1.2
    motion = through_points("swing", robot.joint_names, np.array([0.0, 0.6]), np.array([first, last]))
    with pytest.raises(SafetyError, match=r"link \d comes within .* of the border 'post' at 0\.\d+ s"):
        SafeBox(robot, scene).prove(motion, np.zeros(robot.size))
    SafeBox(robot, SceneFile(schema_version=1)).prove(motion, np.zeros(robot.size))


def test_a_scene_with_swapped_limits_is_refused(tmp_path: Path) -> None:
    (tmp_path / "scene.yaml").write_text(
        "schema_version: 1\ninside: [{name: room, lower_m: [0, 0, 1], upper_m: [1, 1, 0]}]\n"
    )
    with pytest.raises(ConfigurationError, match="must lie below upper_m"):
        load_scene(tmp_path / "scene.yaml")


@pytest.mark.slow
def test_the_scene_refuses_shipped_motions_below_its_table() -> None:
    robot = load_robot("crane_x7")
    scene = scene_of(robot)
    assert scene is not None
    box, excitation = SafeBox(robot, scene), load_excitation(robot)
    refused = {}
    for name in excitation.names:
        try:
            box.prove(excitation.trajectory(name), np.zeros(robot.size))
        except SafetyError as error:
            refused[name] = str(error)
    assert set(refused) == {*(f"PB{k:02}" for k in range(1, 12)), "AP02", "AG01", "AG02"}
    assert all("the border 'table'" in text for text in refused.values())
