"""Monitor of hand guiding: damping at high speed, and a hold if the arm is too fast, loaded or moves by itself."""

import numpy as np
import pytest

from dynid.control.arm_controller import ArmController
from dynid.control.control_model import ControlModel
from dynid.control.controller import FRICTION_SHARE, Gains, load_controller
from dynid.control.dynamics_kernel import compile_single
from dynid.control.ff_pd import FeedforwardPdLaw
from dynid.control.guiding import FADE_IN_S, Guiding
from dynid.control.guiding_speed import GuidingSpeed
from dynid.control.load_watch import LoadWatch, force_along
from dynid.control.model_laws import GravityCompensation
from dynid.control.motion import MotionExecutor
from dynid.errors import ConfigurationError
from dynid.hardware.safety.posture import Posture
from dynid.hardware.safety.settings import SafetySettings, load_safety
from dynid.model.drive import of_kinds
from dynid.model.dynamics import ArmModel
from dynid.model.gear_presets import gear_friction
from dynid.model.standard import from_file
from dynid.robot import FloatArray, Robot, load_robot
from dynid.simulation.lockstep.stepped_arm import SteppedArm
from dynid.simulation.plant.arm import plant_standard
from dynid.simulation.plant.held import HeldBody, holding

ROBOT = load_robot("crane_x7")
ARM = ArmModel.of(ROBOT)
DYNAMICS = compile_single(ARM)
SETTINGS, SAFETY = load_controller(ROBOT), load_safety(ROBOT)
N, MS = ROBOT.size, 0.001
POSE = np.deg2rad([20.0, 20.0, 10.0, -80.0, 30.0, 20.0, 0.0, 40.0])
ALONE_S = FADE_IN_S + SAFETY.guiding_alone_s + 0.1


class Free:
    """A law without a reference and without a model."""

    name, follows_reference, uses_model = "free", False, False

    def torque(
        self, q: FloatArray, dq: FloatArray, q_ref: FloatArray, dq_ref: FloatArray, ddq_ref: FloatArray
    ) -> FloatArray:
        return np.zeros(len(q))

    def gains(self) -> Gains:
        return {}


def gravity(payload_kg: float = 0.0) -> GravityCompensation:
    """Return gravity compensation with the arm's true parameters and a payload."""
    standard = holding(ROBOT, payload_kg) if payload_kg else plant_standard(ROBOT)
    phi = of_kinds(ARM.base_parameters(from_file(standard, ARM.mdh)), ("FV",), others=True)
    return GravityCompensation(ControlModel(ROBOT.name, "", phi, gear_friction(ROBOT), True), DYNAMICS, FRICTION_SHARE)


def moved(guiding: Guiding, rates: FloatArray, seconds: float, start: FloatArray = POSE) -> list[FloatArray]:
    """Torques that a watch adds to none while joints move at rates (n,) [rad/s]."""
    return [guiding.update(MS, start + rates * MS * (k + 1), np.zeros(N)) for k in range(round(seconds / MS))]


def started(stood_s: float = ALONE_S) -> Guiding:
    """The watch over an arm that has stood for a while."""
    guiding = Guiding(ROBOT)
    guiding.begin(Free(), POSE)
    moved(guiding, np.zeros(N), stood_s)
    return guiding


def test_slow_guiding_is_not_damped_and_fast_guiding_is() -> None:
    one = np.eye(N)
    for joint, rate in ((4, 0.45), (0, 0.3)):
        assert not any(tau.any() for tau in moved(started(), rate * one[joint], 0.5))
    damped = moved(started(), 0.9 * one[4], 0.3)[-1]
    damping = SAFETY.hold_damping_nm_s_rad
    assert damping is not None
    assert damped[4] == pytest.approx(-(0.9 - SAFETY.guiding_damped_rad_s) * damping[4], rel=0.02)
    posture = Posture(ROBOT)
    posture.place(POSE)
    rate = 0.35 / posture.speed(one[1])
    assert rate > SAFETY.guiding_damped_rad_s
    damped = moved(started(), rate * one[1], 0.1)[-1]
    assert damped[1] == pytest.approx(-(rate - 0.25 / 0.35 * SAFETY.guiding_damped_rad_s) * damping[1], rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("joint", "rate", "words"),
    [(4, 2.5, "lower_arm_fixed_part_joint moved at"), (1, 1.4, "the tool or a link moved at")],
)
def test_fast_arm_is_held_until_guiding_is_restarted(joint: int, rate: float, words: str) -> None:
    guiding = started()
    tau = moved(guiding, rate * np.eye(N)[joint], 0.3)
    assert words in guiding.held
    assert tau[-1][joint] < 0.0
    where = POSE + 0.3 * rate * np.eye(N)[joint]
    moved(guiding, np.zeros(N), 1.0, where)
    assert guiding.held
    guiding.begin(Free(), where)
    assert not guiding.held
    assert not moved(guiding, np.zeros(N), ALONE_S, where)[-1].any()


def test_arm_that_moves_during_takeover_is_held_but_not_when_guided_later() -> None:
    slow = 0.2 * np.eye(N)[4]
    early, late = started(0.0), started()
    moved(early, slow, 0.5)
    moved(late, slow, 0.5)
    assert "while free took over" in early.held and "a second later" in early.held
    assert not late.held


def test_laws_with_a_reference_and_arms_without_commands_are_not_watched() -> None:
    guiding = started()
    guiding.leave()
    assert not any(tau.any() for tau in moved(guiding, 3.0 * np.eye(N)[0], 0.1))
    guiding = started()
    moved(guiding, 3.0 * np.eye(N)[0], 0.1)
    guiding.end()
    assert not guiding.held and not moved(guiding, np.zeros(N), 0.01)[-1].any()


def guided(law: GravityCompensation, seed: int = 0) -> tuple[SteppedArm, MotionExecutor]:
    """Return an arm that stands still under a law, and its executor."""
    arm = SteppedArm(ROBOT, seed=seed, q0=POSE)
    motion = MotionExecutor(ROBOT, ArmController(law, SETTINGS.pseudo_differentiation_s, N))
    motion.hold(arm.measure(), arm.stamp_ns)
    for _ in range(round(ALONE_S / MS)):
        arm.follow(motion)
    assert not motion.guiding.held
    return arm, motion


def tool_way(arm: SteppedArm, motion: MotionExecutor, seconds: float) -> tuple[float, float]:
    """Largest way [m] and speed [m/s] of the tool while an arm goes on."""
    posture, way, fastest = Posture(ROBOT), 0.0, 0.0
    posture.place(arm.plant.q)
    start = posture.tool
    for _ in range(round(seconds / MS)):
        arm.follow(motion)
        posture.place(arm.plant.q)
        way = max(way, float(np.linalg.norm(posture.tool - start)))
        fastest = max(fastest, posture.speed(arm.plant.dq))
    return way, fastest


@pytest.mark.slow
@pytest.mark.parametrize("payload_kg", [0.0, 0.5])
def test_a_load_that_appears_or_vanishes_is_held_and_falls_without_the_watch(
    payload_kg: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    def drop() -> tuple[float, float, str]:
        arm, motion = guided(gravity())
        if payload_kg:  # the model learns of what is not there
            motion.switch_to(gravity(payload_kg))
        else:
            HeldBody(arm.plant, 0.5).take()
        way, fastest = tool_way(arm, motion, 1.5)
        return way, fastest, motion.guiding.held

    way, fastest, held = drop()
    assert way < 0.1 and fastest < 0.5
    assert ("took over" if payload_kg else "hangs at the tool") in held
    monkeypatch.setattr(Guiding, "update", lambda self, dt, q, tau: tau)
    way, fastest, held = drop()
    assert way > 0.2 and not held


def test_held_arm_changes_law_without_falling() -> None:
    arm, motion = guided(gravity())
    HeldBody(arm.plant, 0.5).take()
    tool_way(arm, motion, 1.0)
    assert motion.guiding.held and motion.active
    motion.switch_to(FeedforwardPdLaw(SETTINGS))
    way, fastest = tool_way(arm, motion, 1.0)
    assert way < 0.1 and fastest < 0.3 and not motion.guiding.held


@pytest.mark.slow
def test_a_law_that_is_asked_for_again_with_the_same_load_is_held_again() -> None:
    arm, motion = guided(gravity())
    HeldBody(arm.plant, 0.5).take()
    tool_way(arm, motion, 1.0)
    motion.hold(arm.measure(), arm.stamp_ns)
    assert not motion.guiding.held
    arm.command(np.zeros(N) + gravity().torque(arm.plant.q, *np.zeros((4, N))))
    way, fastest = tool_way(arm, motion, 1.5)
    assert motion.guiding.held and way < 0.1 and fastest < 0.5


def test_the_speed_bound_is_safe_and_damps_and_stops_like_the_exact_speed() -> None:
    random, damping = np.random.default_rng(4), np.ones(N)
    exact, bound = GuidingSpeed(ROBOT, SAFETY, damping), GuidingSpeed(ROBOT, SAFETY, damping)
    for scale in np.geomspace(0.02, 2.0, 200):
        q, dq = random.uniform(ROBOT.lower, ROBOT.upper), scale * random.normal(size=N)
        exact.update(q, dq)
        bound.update_bound(q, dq)
        assert bound.tool_m_s >= exact.tool_m_s - 1e-12
        np.testing.assert_array_equal(bound.damped(dq, np.zeros(N)), exact.damped(dq, np.zeros(N)))
        assert bound.excess(dq) == exact.excess(dq)
    bound.update_bound(POSE, np.full(N, np.nan))
    assert bound.excess(np.full(N, np.nan))


def test_after_torque_off_the_arm_must_stand_still_again() -> None:
    guiding = started()
    guiding.restart(Free(), POSE)
    moved(guiding, 0.2 * np.eye(N)[4], 0.5)
    assert "took over" in guiding.held


def test_force_along_gravity_explains_all_and_a_lateral_one_does_not() -> None:
    posture = Posture(ROBOT)
    posture.place(POSE)
    jacobian, rates = posture.jacobian().copy(), np.full(N, 0.2)
    force, left = force_along(-5.0 * jacobian[2], jacobian[2], rates, 0.04)
    assert force == pytest.approx(-5.0) and left < 1e-6
    assert force_along(5.0 * jacobian[1], jacobian[2], rates, 0.04)[1] > 0.7
    assert force_along(-5.0 * jacobian[2], jacobian[2], 0.0 * rates, 0.04) == (0.0, 1.0)


def falling(
    force_n: float, rates: FloatArray, way_m: float, swing: float = 0.0, speed: float = 0.5, gains: bool = True
) -> bool:
    """Whether a load is found on a way of the tool [m] under a force upwards [N] that swings by a part of it."""
    watch, posture = LoadWatch(SAFETY), Posture(ROBOT)
    posture.place(POSE)
    jacobian = posture.jacobian()
    mean, path, found = float(np.linalg.norm(jacobian @ rates)), 0.0, False
    while path < way_m:
        pull = force_n * (1.0 + swing * np.sin(2.0 * np.pi * path / way_m))
        growth = np.sqrt(2.0 * max(path, 0.1 * way_m) / way_m) if gains else 1.0  # as under an even force from rest
        watch.update(MS, pull * jacobian[2], growth * rates, jacobian, posture.up)
        path += MS * growth * mean
        found |= watch.found(speed)
    return found


def test_load_is_found_by_its_even_pull_along_the_path() -> None:
    down = np.zeros(N)
    down[3] = -0.5
    posture = Posture(ROBOT)
    posture.place(POSE)
    assert (posture.jacobian() @ down)[2] < -0.02
    assert falling(-4.0, down, 0.06) and falling(4.0, -down, 0.06)
    assert not falling(-4.0, down, 0.03) and not falling(-4.0, down, 0.03, speed=1.2), "too short a way"
    assert falling(-4.0, down, 0.06, gains=False), "even, though it gains no speed"
    assert falling(-4.0, down, 0.06, swing=0.35), "steady, and it gains speed"
    assert falling(-4.0, down, 0.06, swing=0.35, gains=False, speed=1.2)
    assert falling(-4.0, down, 0.09, swing=0.35, gains=False, speed=1.05)
    assert not falling(-4.0, down, 0.05, swing=0.35, gains=False, speed=1.05), "a hand at the damped speed"
    assert falling(-5.0, down, 0.09, swing=-0.5, gains=False), "uneven, but large, and it explains all on a long way"
    assert not falling(-2.6, down, 0.09, swing=-0.5, gains=False), "a light one must be more even"
    assert not falling(-5.0, down, 0.09, swing=-0.8, gains=False), "a hand that changes its force"
    assert not falling(4.0, down, 0.06), "a hand that brakes"
    assert not falling(-0.3, down, 0.06), "too little"
    assert not falling(-4.0, down, 0.05, swing=0.95), "a hand that changes its force"
    assert not falling(-4.0, down, 0.05, swing=0.35, gains=False), "a hand that keeps its speed"


def test_limits_out_of_order_are_refused(robot_folder) -> None:  # type: ignore[no-untyped-def]
    path = robot_folder / "safety.yaml"
    path.write_text(path.read_text() + "guiding_stop_m_s: 0.2\n", encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"guiding_damped_m_s 0\.25 must be less than guiding_stop_m_s 0\.2"):
        load_safety(Robot(load_robot(str(robot_folder)).file, robot_folder))


def test_guiding_without_own_settings_has_the_documented_limits() -> None:
    assert (SafetySettings().guiding_damped_rad_s, SafetySettings().guiding_damped_m_s) == (0.5, 0.25)
    assert SafetySettings().tool_limit_m_s is None
