"""Contact of links, against MuJoCo's collision detection."""

import mujoco
import numpy as np
import pytest

from dynid.control.self_collision import STEP_RAD, SelfCollision
from dynid.errors import ConfigurationError
from dynid.model.chain import read_urdf_text
from dynid.robot import load_robot
from dynid.trajectory.families import load_excitation

ROBOT = load_robot("crane_x7")


@pytest.fixture(scope="module")
def collision():
    return SelfCollision(ROBOT)


@pytest.fixture(scope="module")
def other():
    """The URDF in MuJoCo, which leaves out neighbours by itself."""
    spec = mujoco.MjSpec.from_string(read_urdf_text(ROBOT.urdf_path))
    for geom in spec.geoms:
        geom.contype = geom.conaffinity = 1
    return spec.compile()


def touching(model, q):
    """Whether non-neighbouring links are deeper in each other than a tenth of a millimetre, or nearer than that."""
    data = mujoco.MjData(model)
    for name, angle in zip(ROBOT.joint_names, q, strict=True):
        data.qpos[model.joint(name).qposadr[0]] = angle
    mujoco.mj_forward(model, data)
    parents = [[model.body_parentid[model.geom_bodyid[g]] for g in contact.geom] for contact in data.contact]
    fingers = [first == second for first, second in parents]
    depths = [contact.dist for contact, ignored in zip(data.contact, fingers, strict=True) if not ignored]
    deepest = min(depths, default=1.0)
    return None if abs(deepest) < 1e-4 else deepest < 0.0


def test_agrees_with_mujoco_at_random_postures(collision, other):
    rng = np.random.default_rng(4)
    found = []
    for q in rng.uniform(ROBOT.lower, ROBOT.upper, (600, ROBOT.size)):
        expected = touching(other, q)
        if expected is not None:
            found.append((collision.first_contact(q[None]) is not None, expected))
    ours, theirs = np.array(found).T
    assert 20 < theirs.sum() < 580
    assert np.mean(ours != theirs) < 0.01, np.argwhere(ours != theirs).ravel()


def test_the_motions_within_the_real_limits_do_not_touch(collision):
    excitation = load_excitation(ROBOT)
    for name in ("V01", "PB01", "demo_identification"):
        trajectory = excitation.trajectory(name)
        assert collision.first_contact(trajectory.sample_all(np.arange(0.0, trajectory.duration, 0.002))[0]) is None


def test_the_first_contact_of_a_path_is_found_where_it_begins(collision):
    """From the rest posture the folded forearm turns the hand into the upper arm."""
    rng = np.random.default_rng(0)
    hits = (q for q in rng.uniform(ROBOT.lower, ROBOT.upper, (2000, ROBOT.size)) if collision.first_contact(q[None]))
    end = next(hits)
    path = ROBOT.rest_posture + np.linspace(0.0, 1.0, 5000)[:, None] * (end - ROBOT.rest_posture)
    contact = collision.first_contact(path)
    assert contact is not None and 0 < contact.row < 5000 and len(set(contact.links)) == 2
    way = np.abs(np.diff(path, axis=0)).sum(axis=1)
    earlier = contact.row - int(np.ceil(STEP_RAD / way[0])) - 1
    assert all(collision.first_contact(row[None]) is None for row in path[:earlier:50])
    assert collision.first_contact(path[:earlier]) is None


def test_a_description_without_shapes_has_nothing_to_look_at_and_a_broken_one_is_refused(tmp_path, robot_folder):
    urdf = robot_folder / "../../urdf/crane_x7/crane_x7.urdf"
    text = urdf.read_text()
    start, bare = 0, text
    while (start := bare.find("<collision>")) >= 0:
        bare = bare[:start] + bare[bare.find("</collision>") + len("</collision>") :]
    urdf.write_text(bare)
    none = SelfCollision(load_robot(robot_folder))
    assert none.pairs == 0 and none.first_contact(np.zeros((3, ROBOT.size))) is None
    begin = text.index("<collision>")
    start, end = text.index("<cylinder", begin), text.index("/>", text.index("<cylinder", begin))
    urdf.write_text(f'{text[:start]}<mesh filename="nowhere.stl"{text[end:]}')
    with pytest.raises(
        ConfigurationError, match=r"the mesh nowhere\.stl is not there, so nothing says where the links would touch"
    ):
        SelfCollision(load_robot(robot_folder))
