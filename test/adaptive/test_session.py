"""Complete adaptive runs in lock-step: their results, and that they continue until the model is good enough."""

from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from benchmarks.studies.adaptive import left_limits
from benchmarks.studies.coverage import true_base
from benchmarks.studies.drawn_arms import draw_arm

from dynid.adaptive.course import Course
from dynid.adaptive.feedforward import Feedforward, feedforward
from dynid.adaptive.outcome import AdaptiveRun
from dynid.adaptive.segment_constraints import Segment
from dynid.adaptive.session import AdaptiveIdentification
from dynid.adaptive.settings import AdaptiveSettings
from dynid.adaptive.simulated import SimulatedArm
from dynid.control.safe_box import SafeBox, scene_of
from dynid.errors import SafetyError
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FrictionLaw
from dynid.model.gear_presets import gear_friction
from dynid.model.standard import load_nominal
from dynid.robot import FloatArray, load_robot
from dynid.trajectory.polynomial import PolynomialTrajectory, rest_to_rest

ROBOT = load_robot("crane_x7")
SCENE = scene_of(ROBOT)
pytestmark = pytest.mark.slow


class WatchedArm(SimulatedArm):
    """Arm that records the motions that it was given."""

    def __init__(self, seed: int) -> None:
        drawn = draw_arm(ROBOT, seed)
        super().__init__(ROBOT, standard=drawn.standard, friction=drawn.friction, seed=seed)
        self.given: list[tuple[PolynomialTrajectory, FloatArray]] = []
        self.went_back = 0

    def begin(
        self, motion: PolynomialTrajectory, feedforward: Feedforward, tube: FloatArray, most_load: FloatArray
    ) -> None:
        self.given.append((motion, tube))
        super().begin(motion, feedforward, tube, most_load)

    def retrace(self, motion: PolynomialTrajectory, along_s: float, feedforward: Feedforward) -> None:
        self.went_back += 1
        super().retrace(motion, along_s, feedforward)


def run_of(settings: AdaptiveSettings, seed: int = 1) -> tuple[AdaptiveRun, WatchedArm]:
    assert SCENE is not None
    arm = WatchedArm(seed)
    adaptive = AdaptiveIdentification(ROBOT, settings, box=SafeBox(ROBOT, SCENE))
    arm.to_start(adaptive.start().feedforward)
    return adaptive.run(arm, seed=seed), arm


def test_a_random_arm_gets_an_accepted_model_within_all_limits() -> None:
    run, arm = run_of(AdaptiveSettings(inertial_share=0.03, torque_share=0.2))
    assert run.precise and run.accepted and run.motion_s <= 30.0
    assert left_limits(ROBOT, arm.run("adaptive"), SCENE)[0] == (0, 0, 0, 0, 0)
    assert run.identification is not None
    off = np.abs(run.identification.base.values - true_base(ROBOT, draw_arm(ROBOT, 1), 0.5 * run.motion_s))
    links = [k for k, name in enumerate(run.identification.model.names) if not name.startswith("FV")]
    assert (off <= run.limits)[links].all()
    again = arm.source("again").samples(AdaptiveIdentification(ROBOT).identification)
    assert len(again) > 300


def test_imprecise_model_continues_until_the_time_limit() -> None:
    settings = AdaptiveSettings(inertial_share=1e-4, longest_s=9.0, first_look_s=6.0, draws=3, iterations=4)
    run, arm = run_of(settings)
    assert SCENE is not None
    for motion, tube in arm.given:  # what stops the arm is what its free space was proven for
        SafeBox(ROBOT, SCENE).prove(motion, tube)
    assert not run.precise
    assert 6.0 < run.motion_s < 9.01  # after that no other segment fits in
    assert all(look.widest > 1.0 for look in run.looks)


class Picky(AdaptiveIdentification):
    """Planner that finds no safe segment after the first one, except near the rest posture."""

    def segment(
        self,
        name: str,
        start: FloatArray,
        shown: list[Segment],
        known: Any,
        tube: FloatArray,
        load: FloatArray,
        seed: int,
        caution: float = 1.0,
        length_s: float | None = None,
    ) -> Segment:
        if shown and np.abs(start - ROBOT.rest_posture).max() > 0.1:
            raise SafetyError("a servo carries too much here")
        return super().segment(name, start, shown, known, tube, load, seed, caution, length_s)


@pytest.mark.parametrize(("longest_s", "times"), [(18.0, 1), (9.0, 0)])
def test_without_a_safe_segment_the_arm_returns_if_time_remains(longest_s: float, times: int) -> None:
    assert SCENE is not None
    settings = AdaptiveSettings(draws=3, iterations=4, longest_s=longest_s, first_look_s=6.0)
    arm, adaptive = WatchedArm(1), Picky(ROBOT, settings, box=SafeBox(ROBOT, SCENE))
    arm.to_start(adaptive.start().feedforward)
    run = adaptive.run(arm, seed=1)
    assert min(arm.went_back, 1) == times and run.motion_s <= longest_s
    assert (len(run.segments) > 1) == bool(times)
    if times:
        begin = arm.given[1][0].sample_all(np.zeros(1))[0][0]
        np.testing.assert_allclose(begin, ROBOT.rest_posture, atol=0.1)


@pytest.mark.parametrize(("straight", "seed"), [(True, 6), (False, 6)])
def test_the_return_is_straight_or_retraces_the_path(straight: bool, seed: int) -> None:
    class Narrow(AdaptiveIdentification):
        """Planner for which only the path already taken is safe, except near the rest posture."""

        def check_way(self, motion: PolynomialTrajectory, *rest: Any) -> None:
            if not straight and np.abs(motion.end - motion.start).max() > 0.05:
                raise SafetyError("a table is in the way")
            super().check_way(motion, *rest)

    settings = AdaptiveSettings(draws=3, iterations=4, longest_s=6.0, first_look_s=6.0)
    arm, adaptive = WatchedArm(seed), Narrow(ROBOT, settings)
    arm.to_start(adaptive.start().feedforward)
    run = adaptive.run(arm, seed=seed, to_rest=True)
    assert len(run.segments) == 2 and arm.went_back == (0 if straight else 2)
    np.testing.assert_allclose(arm.at, ROBOT.rest_posture, atol=0.1)
    assert run.motion_s <= 6.0  # the way home is no part of it


def test_currents_are_limited_as_the_driver_limits_them() -> None:
    arm = WatchedArm(1)
    strong = 3.0 * ROBOT.torque_limits
    arm.hold(
        Feedforward(lambda q, dq, ddq: np.zeros_like(q) + strong, lambda q, dq, ddq: np.zeros_like(q) + strong), 0.05
    )
    limits = ROBOT.drive_limits * ROBOT.drive_constants
    given = arm.run("pushed").torque_command
    assert arm.limited_cycles > 0 and (np.abs(given) <= limits + 1e-9).all() and (np.abs(given) > 0.9 * limits).any()


@pytest.mark.parametrize("shown", [True, False])
def test_slow_joints_do_not_cause_a_return_motion(shown: bool) -> None:
    """An estimate whose friction was wild once drove joints beyond their limits on the way back."""
    parent, arm = AdaptiveIdentification(ROBOT), WatchedArm(1)
    given: list[Feedforward] = []
    arm.retrace = lambda motion, along_s, feedforward: given.append(feedforward)  # type: ignore[method-assign]
    state = Course(parent, arm, "wild", 1)
    state.known = replace(parent.start(), friction=FrictionLaw.of(ROBOT.size, {"fb": 3.0}))
    motion = rest_to_rest("there", ROBOT.joint_names, ROBOT.rest_posture, ROBOT.rest_posture + 0.1, 1.0)
    state.trail, state.shown = [(motion, 0.5)], [cast(Segment, None)] * shown
    state.step_back("no segment is safe here")
    q, still = ROBOT.rest_posture[None], np.zeros((1, ROBOT.size))
    more = given[0].moving(q, still + 0.2, still) - parent.start().feedforward.moving(q, still + 0.2, still)
    assert (np.abs(more) > 2.0).all() if shown else not more.any()


def test_arm_rests_before_a_return_that_would_overload_servos() -> None:
    """A current that is limited on the way leaves the joint behind; drawn arms stopped with the elbow 0.5 rad low."""
    rests = []
    for load in (0.9, 0.0):
        arm, waited = WatchedArm(1), 0

        def hold(feedforward: Feedforward, duration_s: float = 1.0, arm: WatchedArm = arm) -> None:
            nonlocal waited
            waited, arm.load = waited + 1, np.maximum(arm.load - 0.25, 0.0)

        arm.hold, arm.retrace = hold, lambda *_: None  # type: ignore[method-assign]
        state = Course(AdaptiveIdentification(ROBOT), arm, "hot", 1)
        motion = rest_to_rest("there", ROBOT.joint_names, ROBOT.rest_posture, ROBOT.rest_posture + 0.1, 1.0)
        state.trail, arm.load = [(motion, 0.5)], np.full(ROBOT.size, load)
        state.step_back("a servo is hot")
        rests.append(waited)
    assert rests[0] > 0 and rests[1] == 0


def test_simulated_arm_counts_overload_only_if_capped() -> None:
    def pushed(q: FloatArray, dq: FloatArray, ddq: FloatArray) -> FloatArray:
        return np.zeros_like(q) + ROBOT.torque_limits

    for capped in (True, False):
        arm = SimulatedArm(ROBOT, seed=1, capped=capped)
        arm.hold(Feedforward(pushed, pushed), 0.05)
        assert (arm.load.max() > 0.0) == capped


def test_violations_of_every_limit_are_counted() -> None:
    arm = WatchedArm(1)
    arm.hold(AdaptiveIdentification(ROBOT).start().feedforward, 0.05)
    run, beyond = arm.run("held"), np.eye(ROBOT.size)[0]
    kept = left_limits(ROBOT, run, SCENE)[0]
    assert kept == (0, 0, 0, 0, 0)
    for place, changed in (
        (1, replace(run, q_true=run.q_true + beyond * 2.0 * np.abs(ROBOT.upper))),
        (2, replace(run, dq_true=run.dq_true + beyond * 1.1 * ROBOT.velocity_limits)),
        (
            3,
            replace(run, torque_command=run.torque_command + beyond * 2.0 * ROBOT.drive_limits * ROBOT.drive_constants),
        ),
    ):
        assert left_limits(ROBOT, changed, None)[0][place] == 1


def test_holding_torque_has_the_sign_of_gravity_and_never_exceeds_it() -> None:
    model = ArmModel.of(ROBOT)
    phi = model.base_parameters(load_nominal(ROBOT, model.mdh, model.regrouping.standard))
    random = np.random.default_rng(2)
    q = random.uniform(np.maximum(ROBOT.lower, -3.0), np.minimum(ROBOT.upper, 3.0), (200, ROBOT.size))
    still = np.zeros_like(q)
    weight = model.inverse_dynamics(q, still, still, phi)
    for friction in (gear_friction(ROBOT, "M6"), FrictionLaw.of(ROBOT.size, {})):
        held = feedforward(model, phi, friction).holding(q, still, still)
        assert (held * weight >= 0.0).all() and (np.abs(held) <= np.abs(weight) + 1e-9).all()
        if friction.depends_on_load:
            carried = np.abs(weight) > 1.0
            assert (np.abs(held) < 0.9 * np.abs(weight))[carried].all() and (np.abs(held) > 0.0)[carried].all()


def test_late_return_motion_leaves_the_trail_unchanged() -> None:
    """Otherwise the next return motion would begin at a posture where the arm is not."""
    adaptive = Picky(ROBOT, AdaptiveSettings(draws=3, iterations=4, longest_s=9.0, first_look_s=6.0))
    arm = WatchedArm(1)
    arm.to_start(adaptive.start().feedforward)
    state = Course(adaptive, arm, "late", 1)
    segment = state.wait_for_segment()
    state.begin(segment)
    assert state.finish(segment)
    for _ in range(2):
        with pytest.raises(SafetyError, match="no time for one"):
            state.wait_for_segment()
    assert [motion for motion, _ in state.trail] == [segment.motion] and arm.went_back == 0
