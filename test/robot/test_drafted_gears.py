"""Gears and rest postures that `robot new` derives from servo models and shapes, for a small desktop arm."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from small_arm import small_arm

from dynid.control.motion_check import MotionCheck, model_torques, nominal_parameters
from dynid.control.motion_draft import (
    BRAKING_CYCLES,
    LEAST_BRAKING_CYCLES,
    MOST_DRAFTS,
    STIFFNESS,
    STUCK_RAD,
    draft_motions,
    write_motions,
)
from dynid.control.self_collision import SelfCollision
from dynid.errors import SafetyError
from dynid.hardware.safety.settings import load_safety
from dynid.model.chain import SerialChain
from dynid.model.drivable import beyond_urdf
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FrictionLaw
from dynid.model.gear_presets import at_joint, gear_friction, known_models, load_gears
from dynid.model.pinocchio_library import pinocchio
from dynid.robot import Robot, load_robot
from dynid.robot.draft import Draft, draft_robot, write_draft
from dynid.robot.draft_gears import MODERATE
from dynid.robot.draft_rest import CLEARANCE_M
from dynid.robot.draft_servos import round_down
from dynid.robot.file import Joint


def drafted(folder: Path, model: str = "XM430-W350", text: str | None = None, **options: Any) -> tuple[Draft, Robot]:
    """Return the draft of the small arm, and the robot that it makes."""
    folder.mkdir(exist_ok=True)
    urdf = folder / "small.urdf"
    urdf.write_text(text or small_arm(), encoding="utf-8")
    draft = draft_robot("arm", urdf, servo_models={"": model} if model else None, **options)
    write_draft(draft, urdf, folder / "arm")
    return draft, load_robot(folder / "arm")


# -- gears -----------------------------------------------------------------------------------------------------


def test_published_gears_of_a_known_servo_are_proposed_and_simulated(tmp_path: Path) -> None:
    draft, robot = drafted(tmp_path)
    gears = load_gears(robot)
    assert gears.servos == {"XM430-W350": "MX-64"} and "arXiv:2410.08650" in gears.gears["MX-64"].source
    assert robot.file.simulation.friction == "M6" and "M6" in known_models(robot)
    assert not (robot.file.structure.coulomb_friction or robot.file.structure.friction_offset)
    assert robot.nuisances.coulomb_friction_nm == (0.0904,) * 4
    assert not isinstance(draft.nominal, str)
    assert [axis.rotor_inertia_kg_m2 for axis in draft.nominal.axes] == [0.0123] * 4


def test_a_small_servo_with_published_figures_is_not_scaled(tmp_path: Path) -> None:
    draft, robot = drafted(tmp_path, "XL330-M288")
    assert load_gears(robot).gears == {"XL330-M288": load_gears(load_robot("omx_leader")).gears["XL330-M288"]}
    assert not isinstance(draft.nominal, str)
    assert draft.nominal.axes[0].rotor_inertia_kg_m2 == 0.00257


def test_other_servos_get_the_nearest_gear_scaled_and_the_source_says_so(tmp_path: Path) -> None:
    """Torques grow with the stall torque, what is per torque falls with it, and shapes stay."""
    draft, robot = drafted(tmp_path, "XC330-M181")
    gear, known = load_gears(robot).gears["XC330-M181"], load_gears(load_robot("omx_leader")).gears["XL330-M288"]
    share = 0.60 / 0.52
    assert "no published figures; XL330-M288 scaled by 1.15, the ratio of stall torques" in gear.source
    for symbol, power in {"fs": 1, "fv": 1, "kmq": -1, "km": 0, "kms": 0, "ws": 0, "a": 0}.items():
        assert gear.models["M6"][symbol] == pytest.approx(known.models["M6"][symbol] * share**power, rel=1e-3), symbol
    assert not isinstance(draft.nominal, str)
    assert draft.nominal.axes[0].rotor_inertia_kg_m2 == pytest.approx(share * 0.00257, rel=1e-2)


def test_an_unknown_gear_leaves_the_arm_with_viscous_friction(tmp_path: Path) -> None:
    """XW430-T333 has no published stall torque; a robot without any servo has no file at all."""
    _, some = drafted(tmp_path / "some", "XW430-T333")
    _, none = drafted(tmp_path / "none", "")
    for robot in (some, none):
        assert robot.file.simulation.friction == "viscous" and robot.file.structure.coulomb_friction
        assert not (robot.folder / "friction.yaml").exists()


def test_two_servos_behind_a_gear_rub_as_both_do_at_the_joint() -> None:
    row = {"name": "j", "lower_deg": -90, "upper_deg": 90, "velocity_limit_rad_s": 1, "servo_id": 1}
    figures = {"fb": 0.1, "fs": 0.2, "fv": 0.01, "km": 0.3, "kmq": 0.04, "ws": 2.0, "a": 0.8}
    joint = Joint.model_validate(row | {"shadow_ids": [2], "gear_ratio": -3.0})
    expected = {"fb": 0.6, "fs": 1.2, "fv": 0.18, "km": 0.3, "kmq": 0.04 / 6.0, "ws": 2.0 / 3.0, "a": 0.8}
    assert at_joint(figures, joint) == pytest.approx(expected)
    assert at_joint(figures, Joint.model_validate(row)) == figures


@pytest.mark.slow
def test_gains_overcome_stiction_within_a_few_degrees(tmp_path: Path) -> None:
    _, robot = drafted(tmp_path)
    write_motions(robot, robot.folder)
    gains = yaml.safe_load((robot.folder / "controller.yaml").read_text())
    at_rest = gear_friction(robot).budget(np.zeros(4))
    stuck_rad = at_rest / (STIFFNESS * np.array(gains["inertia_kg_m2"]))
    assert (stuck_rad < STUCK_RAD).all() and STUCK_RAD < np.deg2rad(5.0)


@pytest.mark.slow
@pytest.mark.parametrize("refused", [1, MOST_DRAFTS])
def test_another_draft_is_made_if_the_complete_motions_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: int
) -> None:
    _, robot = drafted(tmp_path)
    usual, check, left = draft_motions(robot).excitation, MotionCheck.check, [refused]

    def strict(self: MotionCheck, motions: list[Any]) -> None:
        if len(motions) > 1 and left[0]:
            left[0] -= 1
            raise SafetyError("motion 'in_turn' refused: base and link_2 touch")
        check(self, motions)

    monkeypatch.setattr(MotionCheck, "check", strict)
    if refused == MOST_DRAFTS:
        with pytest.raises(SafetyError, match="base and link_2 touch"):
            draft_motions(robot)
    else:
        assert draft_motions(robot).excitation["trajectories"] != usual["trajectories"]
    assert left == [0]


@pytest.mark.slow
@pytest.mark.parametrize(("cycle_s", "expected_s"), [(0.0005, 0.002), (0.001, 0.003), (0.003, 0.009), (0.01, 0.01)])
def test_speed_is_estimated_over_several_cycles_within_what_the_loop_stands(
    tmp_path: Path, cycle_s: float, expected_s: float
) -> None:
    """Over one cycle of 2 ms an encoder step is a speed of 0.8 rad/s, to which the gains answer with newton metres."""
    _, robot = drafted(tmp_path)
    assert robot.file.bus.cycle_s == 0.002
    bus = robot.file.bus.model_copy(update={"cycle_s": cycle_s})
    write_motions(Robot(robot.file.model_copy(update={"bus": bus}), robot.folder), robot.folder)
    gains = yaml.safe_load((robot.folder / "controller.yaml").read_text())
    assert gains["pseudo_differentiation_s"] == pytest.approx(expected_s)
    assert gains["pseudo_differentiation_s"] * max(gains["velocity_gain_1_s"]) <= 0.4


@pytest.mark.slow
def test_the_hold_knows_rough_inertia_and_friction_and_keeps_what_its_owner_wrote(tmp_path: Path) -> None:
    _, robot = drafted(tmp_path)
    write_motions(robot, robot.folder)
    settings = load_safety(robot)
    gains = yaml.safe_load((robot.folder / "controller.yaml").read_text())
    assert settings.inertia_kg_m2 is not None and settings.viscous_friction_nm_s_rad is not None
    assert (0.0 < np.array(settings.inertia_kg_m2)).all() and (
        np.array(settings.inertia_kg_m2) < gains["inertia_kg_m2"]
    ).all()
    assert settings.hold_damping_nm_s_rad is not None
    cycles = np.array(settings.inertia_kg_m2) / settings.hold_damping_nm_s_rad / robot.file.bus.cycle_s
    assert (cycles > 0.98 * BRAKING_CYCLES).all() and cycles.min() == pytest.approx(BRAKING_CYCLES, rel=0.02)
    torques = model_torques(
        ArmModel.of(robot), nominal_parameters(robot, ArmModel.of(robot)), FrictionLaw.of(robot.size, {})
    )
    for q in np.random.default_rng(3).uniform(robot.lower, robot.upper, (50, robot.size)):
        rows = np.tile(q, (robot.size, 1))
        moved = torques(rows, 0.0 * rows, np.eye(robot.size)) - torques(rows, 0.0 * rows, 0.0 * rows)
        braked = np.diag(moved) / settings.hold_damping_nm_s_rad / robot.file.bus.cycle_s
        assert (braked > 0.9 * LEAST_BRAKING_CYCLES).all()
    assert robot.file.simulation.nuisances is not None
    assert settings.coulomb_friction_nm == robot.file.simulation.nuisances.coulomb_friction_nm
    for name in ("excitation.yaml", "controller.yaml"):
        (robot.folder / name).unlink()
    (robot.folder / "safety.yaml").write_text("schema_version: 1\nhold_s: 3.0\n", encoding="utf-8")
    write_motions(robot, robot.folder)
    assert load_safety(robot).hold_s == 3.0 and load_safety(robot).inertia_kg_m2 is None


def test_limits_stay_at_the_urdf_effort_and_a_question_names_the_current(tmp_path: Path) -> None:
    weak, robot = drafted(tmp_path / "weak", text=small_arm(effort=0.5))
    constant = robot.torque_constants[1]
    assert (robot.torque_limits <= 0.5 + 1e-9).all() and not list(beyond_urdf(robot))
    question = weak.questions["joints.joint_2.current_limit_a"]
    assert "gravity takes up to 1.07 N m and gear friction 1.37 N m more" in question
    assert "write current_limit_a: 1.15 and beyond_urdf: [torque]" in question and 1.15 * constant > 0.5
    with pytest.raises(SafetyError, match=r"too little torque for gravity and friction: .*joint_2 has 0.38"):
        write_motions(robot, robot.folder)
    assert not (robot.folder / "excitation.yaml").exists()


def test_a_servo_too_weak_for_its_joint_is_asked_about(tmp_path: Path) -> None:
    strong, _ = drafted(tmp_path / "strong", text=small_arm(effort=4.0))
    assert strong.content["joints"][1]["current_limit_a"] == pytest.approx(1.15)  # half the stall current
    tiny, _ = drafted(tmp_path / "tiny", "XL330-M077")
    key = "joints.joint_2.current_limit_a"
    assert "half the stall current of XM430-W350" in strong.questions[key]
    assert "more than XL330-M077 may take: is it the right servo?" in tiny.questions[key]


def test_a_proposed_limit_suffices_for_drafted_motions(tmp_path: Path) -> None:
    """Motions use a share of the limit only, and a servo that cannot carry that much is said to do in some postures."""
    strong, robot = drafted(tmp_path / "strong", text=small_arm(effort=4.0))
    question = strong.questions["joints.joint_2.current_limit_a"]
    load, friction, proposed = (
        float(re.search(pattern, question)[1])
        for pattern in (r"takes up to ([\d.]+) N m", r"friction ([\d.]+) N m", r"write current_limit_a: ([\d.]*\d)")
    )
    assert load + friction < 0.85 * 0.9 * proposed * robot.torque_constants[1]
    file = robot.folder / "robot.yaml"
    content = yaml.safe_load(file.read_text())
    content["joints"][1]["current_limit_a"] = proposed
    file.write_text(yaml.safe_dump(content))
    write_motions(load_robot(robot.folder), robot.folder)
    text = re.sub(r'mass value="([^"]*)"', lambda one: f'mass value="{1.5 * float(one[1])}"', small_arm(effort=8.0))
    heavy, _ = drafted(tmp_path / "heavy", text=text)
    question = heavy.questions["joints.joint_2.current_limit_a"]
    assert "Its largest current, 2.3 A, suffices for some postures only" in question
    assert "write current_limit_a: 2.3;" in question


@pytest.mark.parametrize(("value", "expected"), [(0.5618, 0.561), (1.15, 1.15), (2.0, 2.0), (12.39, 12.3)])
def test_a_limit_never_grows_by_rounding(value: float, expected: float) -> None:
    assert round_down(value) == pytest.approx(expected)


# -- rest posture ------------------------------------------------------------------------------------------------


def heights_and_loads(robot: Robot) -> tuple[np.ndarray, np.ndarray, float]:
    """Heights of joints and tool [m], gravity torques [N m] and potential energy [J] at the rest posture."""
    chain = SerialChain.from_robot(robot)
    data, q = chain.model.createData(), np.array(robot.rest_posture)
    pinocchio.framesForwardKinematics(chain.model, data, q)
    energy = pinocchio.computePotentialEnergy(chain.model, data, q)
    load = pinocchio.computeGeneralizedGravity(chain.model, data, q)
    return np.array([one.translation[2] for one in data.oMf][3:]), np.abs(load), float(energy)


def test_the_arm_rests_low_above_its_base_without_contact(tmp_path: Path) -> None:
    draft, robot = drafted(tmp_path)
    heights, loads, energy = heights_and_loads(robot)
    assert heights[2:].min() > CLEARANCE_M - 1e-3 and (loads < MODERATE * robot.torque_limits + 1e-2).all()
    assert SelfCollision(robot).contact_at(robot.rest_posture) is None and robot.rest_posture[0] == 0.0
    chain = SerialChain.from_robot(robot)
    upright = pinocchio.computePotentialEnergy(chain.model, chain.model.createData(), np.array([0.0, -0.2, -1.3, 0.0]))
    assert energy < upright - 0.3 and "`dynid robot poses` draws it" in draft.questions["rest_posture"]


def test_a_posture_that_a_source_names_wins(tmp_path: Path) -> None:
    servos = tmp_path / "motors.yaml"
    rows = "".join(f"  joint_{k}: {{ID: {k}, Drive_Mode: 0, Secondary_ID: 255}}\n" for k in range(1, 5))
    order = "joint_order: [joint_1, joint_2, joint_3, joint_4]\nsleep_positions: [0.0, -1.2, 1.0, 0.5]\n"
    servos.write_text(f"port: /dev/ttyDXL\n{order}motors:\n{rows}")
    draft, robot = drafted(tmp_path, servos=servos)
    assert robot.file.rest_posture_deg == pytest.approx((0.0, -68.8, 57.3, 28.6))
    assert "lets the arm sleep" in draft.questions["rest_posture"]


def test_an_arm_that_cannot_stay_above_its_base_gets_the_least_load(tmp_path: Path) -> None:
    """Its first joint is far below the base, so that no posture is above it."""
    text = small_arm().replace('<origin xyz="0 0 0.06"/>', '<origin xyz="0 0 -1.5"/>')
    draft, _ = drafted(tmp_path, text=text)
    assert "no posture was found" in draft.questions["rest_posture"]
