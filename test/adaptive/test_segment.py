"""Planned segments: gradient of the objective, information gain, limits, and scenes without room."""

from dataclasses import replace

import numpy as np
import pytest

from dynid.adaptive.information import Information, torque_sizes
from dynid.adaptive.penalties import torque_excess
from dynid.adaptive.segment import SegmentPlanner
from dynid.adaptive.segment_constraints import Segment, SegmentConstraints, TorqueUncertainty
from dynid.control.motion_check import MotionLimits, nominal_torques, robot_limits
from dynid.control.safe_box import SafeBox, SceneFile
from dynid.errors import SafetyError
from dynid.model.dynamics import ArmModel
from dynid.model.standard import load_standard
from dynid.robot import load_robot
from dynid.trajectory.families import load_excitation

ROBOT = load_robot("crane_x7")
MODEL, TORQUES = ArmModel.of(ROBOT), nominal_torques(ROBOT, None)
SIZES = torque_sizes(ROBOT, MODEL, TORQUES)
LIMITS = 0.01 * SIZES
COUNT = 2.5


def information() -> Information:
    """Return the prior information of the nominal arm, before any data."""
    path = ROBOT.folder / ROBOT.file.simulation.standard_parameters
    phi = MODEL.base_parameters(load_standard(path, MODEL.mdh, MODEL.regrouping.standard)).values
    return Information.prior(MODEL, phi, 0.0015 * ROBOT.torque_limits, LIMITS, 0.1 * SIZES)


def frame(speed: float = 2.0) -> SegmentConstraints:
    lower, upper = load_excitation(ROBOT).limits("limited")
    velocity = np.full(ROBOT.size, speed)
    limits = MotionLimits(lower, upper, velocity, 4.0 * velocity, robot_limits(ROBOT, velocity).torque)
    lasting = np.sqrt(0.5) * ROBOT.torque_constants
    return SegmentConstraints(limits, TORQUES, TORQUES, np.full(ROBOT.size, 0.05), np.zeros(ROBOT.size), lasting)


def room(half_m: float) -> SafeBox:
    walls = {"name": "room", "lower_m": (-half_m, -half_m, -0.1), "upper_m": (half_m, half_m, 1.2), "from_link": 3}
    return SafeBox(ROBOT, SceneFile.model_validate({"schema_version": 1, "inside": [walls]}))


def doubted(known: Information) -> SegmentConstraints:
    """Return a frame with uncertain friction torques that exceed their limits."""
    own, size = frame(), len(known.A)
    uncertainty = TorqueUncertainty(0.1 * own.limits.torque, 0.02 * np.eye(size), known.columns)
    return replace(own, uncertainty=uncertainty, limits=replace(own.limits, torque=0.2 * own.limits.torque))


@pytest.mark.slow
@pytest.mark.parametrize(("box", "uncertainty"), [(None, False), (0.36, False), (None, True)])
def test_the_cost_gradient_equals_finite_differences(box: float | None, uncertainty: bool) -> None:
    planner = SegmentPlanner(ROBOT, 3.0, None if box is None else room(box))
    known, random = information(), np.random.default_rng(0)
    known = replace(known, sharpness=2.0 if uncertainty else 1.0)
    own = doubted(known) if uncertainty else frame()
    points = ROBOT.rest_posture + random.normal(0.0, 0.6, (1 + planner.spline.free, ROBOT.size))
    _, slope = planner._cost(points, own, known, COUNT)
    for row, joint in ((1, 0), (3, 4), (5, 2), (6, 3), (2, 7)):
        step = np.zeros_like(points)
        step[row, joint] = 1e-6
        ends = [planner._cost(points + sign * step, own, known, COUNT)[0] for sign in (1.0, -1.0)]
        assert slope[row, joint] == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=2e-3, abs=1e-3)


def test_planned_segment_is_more_informative_and_keeps_limits() -> None:
    planner, known, own = SegmentPlanner(ROBOT, 3.0, room(0.6), draws=4, iterations=15), information(), frame()
    segment = planner.plan("first", ROBOT.rest_posture, own, known, 0.04, 1)
    random = planner.spline.motion(
        "random", ROBOT.joint_names, planner._drawn(ROBOT.rest_posture, own, np.random.default_rng(5))
    )
    after = known.with_states(random.sample_all(planner._times), COUNT)
    assert segment.widest < 0.8 * float((after.deviations / LIMITS).max())
    q, dq, ddq = segment.motion.sample_all(np.linspace(0.0, 3.0, 3001))
    assert (q >= own.limits.lower).all() and (q <= own.limits.upper).all()
    assert (np.abs(dq) <= own.limits.velocity * (1 + 1e-6)).all()
    assert (np.abs(ddq) <= own.limits.acceleration * (1 + 1e-6)).all()
    np.testing.assert_allclose(dq[[0, -1]], 0.0, atol=1e-9)
    np.testing.assert_allclose(ddq[[0, -1]], 0.0, atol=1e-6)


@pytest.mark.slow
def test_a_scene_without_room_is_refused_naming_the_link() -> None:
    planner = SegmentPlanner(ROBOT, 3.0, room(0.2), draws=1, iterations=2)
    with pytest.raises(SafetyError, match=r"link \d comes within .* m of the border 'room'"):
        planner.plan("first", ROBOT.rest_posture, frame(), information(), 0.04, 1)


def test_a_joint_that_is_overloaded_by_every_motion_stands_still() -> None:
    """Joint 2 carries too much for any motion of its own; the others still move, and it rests to the last digit."""
    planner, own = SegmentPlanner(ROBOT, 3.0, None, draws=1, iterations=2), frame()

    def torques(q: np.ndarray, dq: np.ndarray, ddq: np.ndarray) -> np.ndarray:
        return np.where(np.arange(ROBOT.size) == 1, 50.0 * np.sign(dq), 0.1 * np.sign(dq))

    heavy = replace(own, torques=torques)
    segment = planner.plan("first", ROBOT.rest_posture, heavy, information(), 0.04, 1)
    _, dq, _ = segment.motion.sample_all(np.linspace(0.0, 3.0, 301))
    assert (dq[:, 1] == 0.0).all()
    assert (np.abs(dq).max(axis=0) > 0.05).sum() >= 5
    with pytest.raises(SafetyError, match="needs"):
        planner.check(planner.spline.motion("all", ROBOT.joint_names, ROBOT.rest_posture + np.eye(8)[0:7]), heavy)


def test_the_best_of_many_starts_is_optimised() -> None:
    planner, known, own = SegmentPlanner(ROBOT, 3.0, room(0.6), draws=12, candidates=3), information(), frame()
    starts = planner._starts(ROBOT.rest_posture, own, known, COUNT, np.random.default_rng(3))
    every = SegmentPlanner(ROBOT, 3.0, room(0.6), draws=12, candidates=12)
    costs = [
        every._cost(points, own, known, COUNT)[0]
        for points in every._starts(ROBOT.rest_posture, own, known, COUNT, np.random.default_rng(3))
    ]
    assert costs == sorted(costs) and costs[0] < costs[-1]
    np.testing.assert_allclose([planner._cost(one, own, known, COUNT)[0] for one in starts], costs[:3])


@pytest.mark.slow
def test_slow_optimisation_returns_its_best_result() -> None:
    def planned(iterations: int, planning_s: float = np.inf) -> Segment:
        planner = SegmentPlanner(ROBOT, 3.0, None, draws=1, iterations=iterations, planning_s=planning_s)
        return planner.plan("first", ROBOT.rest_posture, frame(), information(), 0.04, 1)

    np.testing.assert_array_equal(planned(1000, 1e-9).states[0], planned(1).states[0])
    assert planned(10).widest < planned(1).widest


def test_a_planner_of_another_length_does_not_change_the_first() -> None:
    planner = SegmentPlanner(ROBOT, 3.0, None, draws=1, iterations=2)
    shorter = planner.of_length(1.7)
    assert planner.of_length(3.0) is planner
    for one, length in ((shorter, 1.7), (planner, 3.0)):
        motion = one.plan("last", ROBOT.rest_posture, frame(), information(), 0.04, 1).motion
        assert motion.duration == pytest.approx(length)
        np.testing.assert_allclose(motion.sample_all(np.array([length]))[1], 0.0, atol=1e-9)


def test_torque_uncertainty_adds_to_the_expected_load() -> None:
    known, random = information(), np.random.default_rng(4)
    own = doubted(known)
    assert own.uncertainty is not None
    q, dq, ddq = (random.normal(size=(50, ROBOT.size)) for _ in range(3))
    W, tau = MODEL.regressor(q, dq, ddq), TORQUES(q, dq, ddq)
    most = own.most_expected([q, dq, ddq], W)
    assert (np.abs(most) > np.abs(tau)).all() and (np.sign(most) == np.sign(own.uncertainty.added(tau, dq, W))).all()
    lifting = (tau * dq > 0.0) & (np.abs(dq) > 0.5)
    assert (np.abs(most) - np.abs(tau) > 0.9 * own.uncertainty.unknown_friction)[lifting].all()
    none = replace(own.uncertainty, unknown_friction=np.zeros(ROBOT.size), root=np.zeros_like(own.uncertainty.root))
    np.testing.assert_allclose(none.added(tau, dq, W), tau)


def test_momentary_load_is_penalised_only_at_the_end_of_a_segment() -> None:
    """An excessive load is penalised at the end of a segment, and not on the way."""
    own = replace(frame(), lasting=np.ones(ROBOT.size))
    tau = np.zeros((30, ROBOT.size))
    tau[-1, 1] = 1.5
    assert torque_excess(tau, own)[0] > 0.1 and torque_excess(tau[::-1], own)[0] == 0.0
