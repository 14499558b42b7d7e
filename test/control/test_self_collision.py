"""Contact between links against MuJoCo's collision detection."""

import mujoco
import numpy as np
import pytest

from dynid.control.self_collision import SelfCollision
from dynid.errors import ConfigurationError
from dynid.robot import load_robot
from dynid.robot.urdf_text import read_urdf_text
from dynid.trajectory.families import load_excitation
from dynid.trajectory.polynomial import rest_to_rest, through_points

ROBOT = load_robot("crane_x7")


@pytest.fixture(scope="module")
def collision():
    return SelfCollision(ROBOT)


@pytest.fixture(scope="module")
def other():
    """Return the URDF as a MuJoCo model, which ignores contacts of neighbouring links."""
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


def test_contacts_agree_with_mujoco_at_random_postures(collision, other):
    rng = np.random.default_rng(4)
    found = []
    for q in rng.uniform(ROBOT.lower, ROBOT.upper, (600, ROBOT.size)):
        expected = touching(other, q)
        if expected is not None:
            found.append((collision.contact_at(q) is not None, expected))
    ours, theirs = np.array(found).T
    assert 20 < theirs.sum() < 580
    assert np.mean(ours != theirs) < 0.01, np.argwhere(ours != theirs).ravel()


@pytest.mark.slow
def test_the_motions_within_the_real_limits_do_not_touch(collision):
    excitation = load_excitation(ROBOT)
    for name in ("V01", "PB01", "demo_identification"):
        trajectory = excitation.trajectory(name)
        assert collision.first_contact_along(trajectory.pieces()) is None


def touching_postures(collision, rng):
    return (q for q in rng.uniform(ROBOT.lower, ROBOT.upper, (2000, ROBOT.size)) if collision.contact_at(q))


def test_the_first_contact_of_a_motion_is_found_where_it_begins(collision):
    """From the rest posture the folded forearm turns the hand into the upper arm."""
    end = next(touching_postures(collision, np.random.default_rng(0)))
    motion = rest_to_rest("fold", ROBOT.joint_names, np.array(ROBOT.rest_posture), end, 5.0)
    contact = collision.first_contact_along(motion.pieces())
    assert contact is not None and 0.0 < contact.time_s < 5.0 and len(set(contact.links)) == 2
    times = np.arange(0.0, 5.0, 0.002)
    touched = np.array([collision.contact_at(q) is not None for q in motion.sample_all(times)[0]])
    assert contact.time_s == pytest.approx(times[np.argmax(touched)], abs=0.05)


def test_contact_between_two_samples_is_found(collision):
    """A joint moves so that links touch for a moment that no posture on a grid of 0.03 rad shows."""
    rng, brief, missed = np.random.default_rng(1), 0, 0
    for end in touching_postures(collision, rng):
        start = np.array(ROBOT.rest_posture)
        way = np.linspace(0.0, 1.0, 201)
        touches = [collision.contact_at(start + share * (end - start)) is not None for share in way]
        low, high = way[touches.index(True) - 1], way[touches.index(True)]
        for _ in range(30):  # where contact begins along the line
            middle = 0.5 * (low + high)
            low, high = (low, middle) if collision.contact_at(start + middle * (end - start)) else (middle, high)
        grazing = start + (high + 2e-4) * (end - start)
        before = start + (high - 0.02) * (end - start)
        motion = through_points("graze", ROBOT.joint_names, [0.0, 1.0, 2.0], np.array([before, grazing, before]))
        q = motion.sample_all(np.linspace(0.0, 2.0, 8))[0]  # as coarse as the steps of the search
        missed += not any(collision.contact_at(row) for row in q)
        assert collision.first_contact_along(motion.pieces()) is not None
        brief += 1
        if brief == 5:
            break
    assert missed >= 3


def test_links_without_shapes_never_touch_and_a_lost_mesh_is_refused(tmp_path, robot_folder):
    urdf = robot_folder / "../../urdf/crane_x7/crane_x7.urdf"
    text = urdf.read_text()
    start, bare = 0, text
    while (start := bare.find("<collision>")) >= 0:
        bare = bare[:start] + bare[bare.find("</collision>") + len("</collision>") :]
    urdf.write_text(bare)
    none = SelfCollision(load_robot(robot_folder))
    assert none.pairs == 0 and none.contact_at(np.zeros(ROBOT.size)) is None
    standing = rest_to_rest("stand", ROBOT.joint_names, np.zeros(ROBOT.size), np.zeros(ROBOT.size))
    assert none.first_contact_along(standing.pieces()) is None
    begin = text.index("<collision>")
    start, end = text.index("<cylinder", begin), text.index("/>", text.index("<cylinder", begin))
    urdf.write_text(f'{text[:start]}<mesh filename="nowhere.stl"{text[end:]}')
    with pytest.raises(
        ConfigurationError, match=r"the mesh nowhere\.stl is not there, so contact of links cannot be checked"
    ):
        SelfCollision(load_robot(robot_folder))
