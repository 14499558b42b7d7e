"""Check of complete motions against every limit before any current flows."""

import tracemalloc

import numpy as np
import pytest

from dynid.control.control_model import ControlModel
from dynid.control.controller import load_controller
from dynid.control.dynamics_kernel import compile_single
from dynid.control.ff_pd import FeedforwardPdLaw
from dynid.control.model_laws import ComputedTorque
from dynid.control.motion_check import (
    STEP_S,
    MotionCheck,
    MotionLimits,
    model_torques,
    nominal_parameters,
    nominal_torques,
    position_and_speed,
    robot_limits,
)
from dynid.control.plan import plan_motion
from dynid.control.safe_box import box_of
from dynid.control.sag import Sag
from dynid.control.self_collision import SelfCollision
from dynid.errors import SafetyError
from dynid.hardware.safety.guard import SafetyGuard
from dynid.hardware.safety.overload import OverloadModel
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FrictionLaw
from dynid.model.standard import load_standard
from dynid.robot import Robot, load_robot
from dynid.trajectory.families import load_excitation
from dynid.trajectory.files import LONGEST_S
from dynid.trajectory.polynomial import through_points
from dynid.trajectory.trajectory import approach, through

ROBOT = load_robot("crane_x7")
EXCITATION = load_excitation(ROBOT)
REST = np.array(ROBOT.rest_posture)
NAMES = ROBOT.joint_names
ARM = ArmModel.of(ROBOT)


@pytest.fixture(scope="module")
def torques():
    return nominal_torques(ROBOT, None)


@pytest.fixture(scope="module")
def collision():
    return SelfCollision(ROBOT)


def checker(torques, collision=None, **changed):
    usual = robot_limits(ROBOT, EXCITATION.acceleration_limits)
    return MotionCheck(ROBOT, MotionLimits(**{**vars(usual), **changed}), torques, collision)


def to(joint, angle, factor=1.0):
    target = REST.copy()
    target[joint] = angle
    return through("move", NAMES, np.array([REST, target]), 4.0 * np.ones(8), 16.0 * np.ones(8), factor)


def test_a_start_beyond_its_limit_is_refused_before_an_approach(torques):
    far = REST.copy()
    far[0] = 9.0
    motion = approach(far, far, NAMES, name="far")
    with pytest.raises(SafetyError, match=r"motion 'far' refused: \S*pan_joint is at 515\.66 deg.*allowed is -157"):
        plan_motion(ROBOT, motion, REST, checker(torques))


def test_feasible_motions_pass_the_check(torques, collision):
    motion = EXCITATION.trajectory("V01")
    way = approach(REST + 0.1, motion.start, NAMES)
    checker(torques, collision).check([way, motion, approach(motion.end, REST, NAMES, name="rest")])
    checker(torques, collision).check([approach(REST, REST, NAMES)])  # nothing to move


def test_a_refused_position_names_joint_time_and_value(torques):
    motion = to(3, 0.2)
    t = np.arange(0.0, motion.duration, STEP_S)
    first = t[np.argmax(motion.sample_all(t)[0][:, 3] > ROBOT.upper[3])]
    with pytest.raises(SafetyError, match=rf"'move' refused: {NAMES[3]} is at 0\.\d\d deg at \d") as error:
        checker(torques).check([approach(REST, REST, NAMES), motion])
    stated = float(str(error.value).split(" at ")[2].split(" s;")[0])
    assert stated == pytest.approx(first, abs=2 * STEP_S)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (
            {"velocity": 0.5 * np.ones(8)},
            rf"{NAMES[0]} moves at 0\.5\d\d rad/s at 0\.\d+ s; allowed is -0.500 to 0.500",
        ),
        ({"acceleration": 8 * np.ones(8)}, rf"{NAMES[0]} accelerates with -?8\.\d+ rad/s\^2 at 0\.\d+ s"),
        ({"torque": 0.5 * np.ones(8)}, r"needs -?\d\.\d+ N m at 0\.000 s; allowed is -0.500 to 0.500"),
        ({"velocity": np.nan * np.ones(8)}, "moves at"),
    ],
)
def test_velocity_acceleration_and_torque_limits_refuse_motions(torques, changed, words):
    checker(torques).check([to(0, 0.8)])
    with pytest.raises(SafetyError, match=words):
        checker(torques, **changed).check([to(0, 0.8)])


def test_torques_are_those_of_the_model_and_its_friction():
    model = ArmModel.of(ROBOT, mount="hanging")
    phi = model.base_parameters(load_standard(ROBOT.folder / "models" / "nominal.yaml", model.mdh))
    q, dq, ddq = np.random.default_rng(0).uniform(-1, 1, (3, 10, 8))
    expected = model.inverse_dynamics(q, dq, ddq, phi) + 0.2 * np.sign(dq)
    np.testing.assert_allclose(
        model_torques(model, phi, FrictionLaw.of(8, {"fb": 0.2}))(q, dq, ddq), expected, atol=1e-9
    )
    nominal = nominal_torques(ROBOT, "hanging")(q, dq, ddq)
    np.testing.assert_allclose(nominal, expected - 0.2 * np.sign(dq), atol=1e-9)
    assert np.abs(nominal_torques(ROBOT, "upright")(q, dq, ddq) - nominal).max() > 1.0


def test_motors_that_several_joints_load_together_are_counted_with_the_sum() -> None:
    """Neither joint's own torque would overload a motor."""
    coupling = np.eye(ROBOT.size)
    coupling[5, 4] = 1.0
    robot = Robot(ROBOT.file.model_copy(update={"coupling": tuple(map(tuple, coupling.tolist()))}), ROBOT.folder)
    overload = OverloadModel.of(robot)
    assert overload is not None
    torque = np.zeros(robot.size)
    torque[[4, 5]] = 0.8 * np.sqrt(overload.nominal[[4, 5]]) * robot.joint_constants[[4, 5]] * [1.0, -1.0]
    rest = np.array(robot.rest_posture)
    points = np.array([rest + 0.1 * (k % 2) for k in range(121)])
    way = through("sway", robot.joint_names, points, np.minimum(0.2, robot.velocity_limits), np.full(robot.size, 0.5))
    limits = robot_limits(robot, load_excitation(robot).acceleration_limits)
    for sign, refused in ((torque, True), (np.abs(torque), False)):
        check = MotionCheck(robot, limits, lambda q, *_, tau=sign: np.broadcast_to(tau, q.shape).copy())
        if refused:
            with pytest.raises(SafetyError, match="of the overload"):
                check.check([way])
        else:
            check.check([way])


def test_a_contact_of_two_links_is_refused_naming_both(torques, collision):
    rng = np.random.default_rng(0)
    hits = (q for q in rng.uniform(ROBOT.lower, ROBOT.upper, (2000, 8)) if collision.contact_at(q))
    motion = approach(REST, next(hits), NAMES)
    checker(torques).check([motion])
    with pytest.raises(SafetyError, match=r"refused: \w+ and \w+ touch at \d+\.\d+ s, at \(.*\) deg"):
        checker(torques, collision).check([motion])


@pytest.mark.slow
def test_the_longest_motion_takes_little_memory_and_its_end_is_looked_at(torques):
    """An hour at 2 ms, in rows of eight joints and a dozen arrays, would be a gigabyte."""
    rest, beyond = REST.copy(), REST.copy()
    beyond[0] = 1.05 * ROBOT.upper[0]
    times = np.array([0.0, LONGEST_S - 20.0, LONGEST_S])
    check = checker(torques)
    check.check([approach(REST, REST, NAMES)])
    tracemalloc.start()
    try:
        with pytest.raises(SafetyError, match=rf"{NAMES[0]} is at .* at 35\d\d\.\d+ s"):
            check.check([through_points("long", NAMES, times, np.array([rest, rest, beyond]), np.zeros((3, 8)))])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 64 * 2**20


def test_a_speed_that_the_motor_does_not_reach_without_load_is_refused():
    """Joint 2 has an XM540, 3.14 rad/s at 12 V; the arm's URDF says 4.82 for every joint."""
    check = position_and_speed(ROBOT)
    for profile in ("limited", "paper"):
        for name in EXCITATION.names:
            assert EXCITATION.trajectory(name, profile).peak_velocities[1] < 0.95 * 3.14
    check.check([to(0, 1.5)])
    with pytest.raises(SafetyError, match=rf"{NAMES[1]} moves at 3\.1\d\d rad/s at .* allowed is -3.141 to 3.141"):
        check.check([to(1, 1.5)])


def stepped(gap_s, size):
    """Two points of the middle follow each other closely, and joint 1 steps between them."""
    q = np.tile(REST, (4, 1))
    q[2:, 0] += size
    times = np.array([0.0, 0.5 - 0.5 * gap_s, 0.5 + 0.5 * gap_s, 1.0])
    return through_points("stranger", NAMES, times, q, np.zeros((4, 8)), np.zeros((4, 8)))


def test_points_closer_than_a_control_cycle_are_refused(torques):
    with pytest.raises(
        SafetyError, match=r"its points 2 and 3 at 0\.4996 s are 0\.8 ms apart, expected at least .* 1 ms"
    ):
        checker(torques).check([stepped(0.0008, 0.3)])
    with pytest.raises(SafetyError, match="apart"):
        checker(torques).check([stepped(0.0008, 0.0)])
    checker(torques).check([stepped(0.001, 0.0)])


@pytest.mark.parametrize("order", [1, 2])
def test_peaks_that_no_sample_shows_are_refused(order):
    """Between two samples of a grid of 2 ms the joint moves, and stands again."""
    q = np.tile(REST, (4, 1))
    q[2:, 0] += 1e-5
    step = through_points("stranger", NAMES, [0.0, 0.5003, 0.5017, 1.0], q, np.zeros((4, 8)), np.zeros((4, 8)))
    sampled, peaks = np.abs(step.sample_all(np.arange(0.0, 1.0, STEP_S))[order]).max(axis=0), step.pieces().peaks(order)
    assert sampled[0] < 0.3 * peaks[0]
    word = {1: "velocity", 2: "acceleration"}[order]
    wide = {"velocity": np.full(8, 9.0), "acceleration": np.full(8, 999.0)}
    checker(None, **wide).check([step])
    with pytest.raises(SafetyError, match=rf"{NAMES[0]} (moves|accelerates) .* at 0\.50\d* s"):
        checker(None, **{**wide, word: 0.9 * peaks[0] * np.ones(8)}).check([step])


def test_a_torque_that_no_sample_shows_is_refused(torques):
    step = stepped(0.0015, 4e-6)
    wide = {"velocity": np.full(8, 9.0), "acceleration": np.full(8, 999.0)}
    checker(torques, **wide).check([step])
    times = np.arange(0.0, 1.0, STEP_S)
    sampled = np.abs(torques(*step.sample_all(times)))[:, 0].max()
    peak = np.abs(torques(*step.sample_all(np.arange(0.499, 0.501, 1e-5))))[:, 0].max()
    assert sampled < 0.8 * peak
    limit = 0.9 * robot_limits(ROBOT, EXCITATION.acceleration_limits).torque
    limit[0] = 0.5 * (sampled + peak)
    with pytest.raises(SafetyError, match=rf"{NAMES[0]} needs -?\d\.\d+ N m at 0\.(499|500)"):
        checker(torques, **wide, torque=limit).check([step])


def test_friction_counts_on_both_sides_of_a_turning_point():
    model = ArmModel.of(ROBOT)
    phi = model.base_parameters(load_standard(ROBOT.folder / "models" / "nominal.yaml", model.mdh))
    rubbing = model_torques(model, phi, FrictionLaw.of(8, {"fb": 0.3}))
    motion = to(0, 0.4)
    most = max(np.abs(rubbing(*motion.sample_all(np.arange(1e-4, motion.duration, 1e-5)))[:, 0]))
    usual = robot_limits(ROBOT, EXCITATION.acceleration_limits).torque
    for share, passes in ((1.001, True), (0.999, False)):
        limit = usual.copy()
        limit[0] = share * most
        if passes:
            checker(rubbing, torque=limit).check([motion])
        else:
            with pytest.raises(SafetyError, match=f"{NAMES[0]} needs"):
                checker(rubbing, torque=limit).check([motion])


def test_a_motion_must_stay_in_free_space_and_may_enter_it(torques):
    usual = robot_limits(ROBOT, EXCITATION.acceleration_limits)
    check = MotionCheck(ROBOT, usual, torques, box=box_of(ROBOT, ""))
    down = REST.copy()
    down[[1, 3]] = np.deg2rad([-89.0, -60.0])
    into, out = approach(REST, down, NAMES), approach(down, REST, NAMES)
    check.check([EXCITATION.trajectory("V01")])
    for parts in ([into], [approach(REST, REST, NAMES), into], [approach(REST, REST, NAMES), out], [into, out]):
        with pytest.raises(SafetyError, match=r"of the border 'table' at .*parameter scene"):
            check.check(parts)
    check.check([out])
    MotionCheck(ROBOT, usual, torques, box=box_of(ROBOT, "none")).check([into])


def test_an_approach_that_begins_outside_comes_in_directly_and_stays_inside(torques):
    usual, box = robot_limits(ROBOT, EXCITATION.acceleration_limits), box_of(ROBOT, "")
    check, still = MotionCheck(ROBOT, usual, torques, box=box), np.zeros(8)
    # found by an independent review: 4 mm beyond the border at first, and then 0.2 m below the table
    ends = np.deg2rad([[-9.0, -80, 67, -50, 5, -39, 27, 0], [-121, -81, -106, -127, 92, 48, -21, 0]])
    deep = approach(*ends, NAMES)
    along = box.shortfall(deep.sample_all(np.linspace(0.0, deep.duration, 200))[0], still)
    assert 0.0 < along[0] < 0.02 and along[-1] < 0.0 and along.max() > 0.15
    with pytest.raises(SafetyError, match=r"'table' .* less 0\.\d+ m since the motion begins outside; move the arm"):
        check.check([deep])
    # first inside, then out again by less than at the start
    low = REST.copy()
    low[[1, 3]] = np.deg2rad([-89.0, -60.0])
    assert box.shortfall(low[None], still)[0] > 0.05
    share = np.linspace(0.0, 1.0, 200)[:, None]
    missing = box.shortfall(REST + share * (low - REST), still)
    slight = REST + float(share[np.argmax(missing > 0.01), 0]) * (low - REST)
    assert 0.01 < box.shortfall(slight[None], still)[0] < box.shortfall(low[None], still)[0]
    again = through("again", NAMES, np.array([low, REST, slight, REST]), np.full(8, 0.5), np.full(8, 1.0))
    with pytest.raises(SafetyError, match="of the border 'table'"):
        check.check([again])
    check.check([approach(low, REST, NAMES)])


def test_torque_limits_are_kept_as_the_guard_keeps_them(torques):
    joints = [
        joint.model_copy(update={"torque_limit_nm": 3.0} if k == 1 else {}) for k, joint in enumerate(ROBOT.file.joints)
    ]
    weak = Robot(ROBOT.file.model_copy(update={"joints": tuple(joints)}), ROBOT.folder)
    limits, usual = (robot_limits(one, EXCITATION.acceleration_limits).torque for one in (weak, ROBOT))
    assert limits[1] == pytest.approx(0.9 * 3.0)
    np.testing.assert_array_equal(np.delete(limits, 1), np.delete(usual, 1))
    np.testing.assert_allclose(limits, 0.9 * SafetyGuard(weak).current_limits * weak.joint_constants)
    target = REST.copy()
    target[[1, 3]] = np.deg2rad([60.0, -20.0])
    motion = through("reach", NAMES, np.array([REST, target]), np.full(8, 0.8), np.full(8, 2.0))
    checker(torques).check([motion])
    with pytest.raises(SafetyError, match=rf"{NAMES[1]} needs .* allowed is -2\.700 to 2\.700"):
        MotionCheck(weak, robot_limits(weak, EXCITATION.acceleration_limits), torques).check([motion])


@pytest.mark.slow
def test_an_arm_that_sags_or_sways_keeps_the_free_space(torques):
    """The reference may pass, and the arm not: the default law has no gravity torque."""
    usual, box, settings = (
        robot_limits(ROBOT, EXCITATION.acceleration_limits),
        box_of(ROBOT, ""),
        load_controller(ROBOT),
    )
    sagging = Sag.of(settings, FeedforwardPdLaw(settings))

    def check(sag: Sag) -> MotionCheck:
        return MotionCheck(ROBOT, usual, torques, box=box, sag=sag)

    low, still = np.deg2rad([-71.0, -71, 5, -32, 36, -46, 25, 0]), np.zeros(8)  # stretched out just above the table
    assert box.shortfall(low[None], still)[0] < -0.002
    down = approach(REST, low, NAMES)
    tube = sagging.along(down, torques)
    gravity = torques(low[None], *np.zeros((2, 1, 8)))[0]
    stiffness = np.array(settings.inertia_kg_m2) * np.array(settings.proportional_gain_1_s2)
    assert (tube >= np.abs(gravity) / stiffness - 1e-12).all() and 0.02 < tube.max() < 0.2
    assert box.shortfall((low - gravity / stiffness)[None], still)[0] > 0.0  # where the arm comes to rest
    check(Sag(None)).check([down])
    check(sagging).check([down], carried=True)
    with pytest.raises(SafetyError, match=r"of the border 'table' .* by which the joints may be off their reference"):
        check(sagging).check([down])
    with pytest.raises(SafetyError, match=r"motion 'approach, then held' refused.*'table'"):
        check(Sag(None, 0.04)).check([down])
    check(Sag(None, 0.04)).check([down, approach(low, REST, NAMES)])  # sways at its end only
    assert Sag.of(settings, ComputedTorque(settings, nominal(), compile_single(ARM)), 0.04).stiffness is None
    for name in ("demo_identification", "demo_validation", "gentle_identification", "gentle_validation"):
        plan_motion(ROBOT, EXCITATION.trajectory(name, "limited"), REST, check(sagging))


def nominal() -> ControlModel:
    phi = nominal_parameters(ROBOT, ARM)
    return ControlModel(ROBOT.name, ARM.structure_hash, phi, FrictionLaw.of(8, {}), True)
