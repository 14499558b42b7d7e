"""Selection of control law and model: exchanged without a torque step, and only for the right arm."""

from dataclasses import replace

import numpy as np
import pytest
from arms import arm

from dynid.control.arm_controller import BLEND_S
from dynid.control.control_model import ControlModel, ModelGate, from_model_file, refuse_other_constants
from dynid.control.controller import load_controller
from dynid.control.selection import ControllerSelection
from dynid.errors import SafetyError, UnknownNameError
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FrictionLaw
from dynid.model.model_file import CoulombBlock, CoulombRow, ModelFile, friction_block
from dynid.model.parameters import BaseParameters
from dynid.model.standard import from_file, load_nominal
from dynid.resources import load_validated
from dynid.robot import load_robot
from dynid.simulation.plant.arm import plant_standard

ROBOT = load_robot("crane_x7")
ARM = arm("crane_x7")
N, DT = ROBOT.size, 0.001
STILL = np.zeros(N)


def model(scale: float = 1.0) -> ControlModel:
    phi = ARM.base_parameters(from_file(plant_standard(ROBOT), ARM.mdh))
    return ControlModel(
        ROBOT.name, ARM.structure_hash, phi.with_values(scale * phi.values), FrictionLaw.of(N, {}), True
    )


@pytest.fixture(scope="module")
def gate() -> ModelGate:
    return ModelGate(ROBOT, ARM)


@pytest.fixture
def selection() -> ControllerSelection:
    chosen = ControllerSelection(ROBOT, load_controller(ROBOT))
    chosen.exchange(model=model())
    chosen.controller.reset(np.array(ROBOT.rest_posture))
    return chosen


def cycle(selection: ControllerSelection, sag: float = 0.02) -> np.ndarray:
    rest = np.array(ROBOT.rest_posture)
    return selection.controller.update(DT, rest, rest + sag, STILL, STILL)


def test_switching_does_not_jump_and_ends_at_the_new_law(selection: ControllerSelection) -> None:
    before = cycle(selection)
    target = selection.make("computed_torque").torque(
        ROBOT.rest_posture, STILL, ROBOT.rest_posture + 0.02, STILL, STILL
    )
    assert np.abs(target - before).max() > 0.5  # what a plain exchange would have done within one cycle
    selection.exchange(name="computed_torque")
    torques = np.array([before, *(cycle(selection) for _ in range(round(BLEND_S / DT) + 2))])
    assert np.abs(np.diff(torques, axis=0)).max() < np.abs(target - before).max() * 1.5 * DT / BLEND_S
    np.testing.assert_allclose(torques[-1], target, atol=1e-12)


def test_switching_again_while_the_first_switch_still_fades_does_not_jump_either(
    selection: ControllerSelection,
) -> None:
    torques = [cycle(selection)]
    for name in ("computed_torque", "ff_pd", "gravity_compensation", "computed_torque"):
        selection.exchange(name=name)
        torques += [cycle(selection) for _ in range(50)]
    selection.exchange(name="ff_pd")
    selection.exchange(name="gravity_compensation")  # two within one cycle
    torques += [cycle(selection) for _ in range(round(BLEND_S / DT) + 1)]
    span = np.ptp(np.array(torques), axis=0).max()
    assert np.abs(np.diff(torques, axis=0)).max() < 0.02 * span
    expected = selection.make("gravity_compensation").torque(ROBOT.rest_posture, STILL, STILL, STILL, STILL)
    np.testing.assert_allclose(torques[-1], expected, atol=1e-12)


def test_another_model_takes_effect_in_the_next_cycle_without_a_jump(selection: ControllerSelection) -> None:
    selection.exchange(name="gravity_compensation")
    torques = [cycle(selection) for _ in range(round(BLEND_S / DT) + 2)]
    heavier = model(1.3)
    selection.exchange(model=heavier)
    assert selection.model is heavier and selection.controller.law.gains()["phi"] == tuple(heavier.phi.values)
    later = [cycle(selection) for _ in range(round(BLEND_S / DT) + 2)]
    assert np.abs(later[0] - torques[-1]).max() < 1e-2
    np.testing.assert_allclose(later[-1], 1.3 * torques[-1], rtol=1e-9, atol=1e-12)


def test_a_law_that_needs_a_model_is_refused_without_one_and_an_unknown_one_always() -> None:
    empty = ControllerSelection(ROBOT, load_controller(ROBOT))
    running = empty.controller.law
    for name in ("computed_torque", "gravity_compensation"):
        with pytest.raises(SafetyError, match="needs an accepted model"):
            empty.exchange(name=name)
    with pytest.raises(UnknownNameError, match="unknown controller 'pid'; known: ff_pd, gravity_compensation"):
        empty.exchange(name="pid")
    with pytest.raises(
        UnknownNameError, match="unknown controller ''"
    ):  # it would stand for a law that it does not name
        empty.exchange(name="")
    assert empty.controller.law is running


def test_law_and_model_together_are_exchanged_whole_or_not_at_all(selection: ControllerSelection) -> None:
    kept = selection.model

    def refuse(law: object) -> None:
        raise SafetyError("not now")

    for arguments, words in (
        ({"name": "pid", "model": model(1.1)}, "unknown controller"),
        ({"name": "computed_torque", "model": model(-1.0)}, "not positive definite"),
        ({"name": "computed_torque", "model": model(1.1), "switch": refuse}, "not now"),
    ):
        with pytest.raises((SafetyError, UnknownNameError), match=words):
            selection.exchange(**arguments)
        assert selection.model is kept and selection.controller.law.name == "ff_pd"
    other = model(1.1)
    selection.exchange(name="computed_torque", model=other)
    assert selection.model is other and selection.controller.law.model is other


@pytest.mark.slow
def test_a_mount_turns_gravity(selection: ControllerSelection) -> None:
    selection.exchange(name="gravity_compensation")
    upright = selection.controller.law.torque(ROBOT.rest_posture, *np.zeros((4, N)))
    selection.set_mount("hanging")
    hanging = selection.controller.law.torque(ROBOT.rest_posture, *np.zeros((4, N)))
    np.testing.assert_allclose(hanging, -upright, atol=1e-12)
    assert np.abs(upright).max() > 0.5
    with pytest.raises(UnknownNameError, match="mount"):
        selection.set_mount("sideways")
    assert selection.mount == "hanging"


def test_a_mount_at_which_other_parameters_determine_gravity_drops_the_model() -> None:
    robot = load_robot("aloha_class")
    there = next(
        name
        for name in robot.file.mounts_gravity_m_s2
        if ArmModel.of(robot, mount=name).structure_hash != ArmModel.of(robot).structure_hash
    )
    chosen, upright = ControllerSelection(robot, load_controller(robot)), ArmModel.of(robot)
    phi = upright.base_parameters(load_nominal(robot, upright.mdh, upright.regrouping.standard))
    own = ControlModel(robot.name, upright.structure_hash, phi, FrictionLaw.of(robot.size, {}), True)
    chosen.exchange(model=own, name="gravity_compensation")
    with pytest.raises(SafetyError, match=f"does not determine gravity at mount '{there}'"):
        chosen.set_mount(there)
    assert chosen.mount == robot.file.default_mount and chosen.arm_model.structure_hash == upright.structure_hash
    chosen.exchange(name="ff_pd")
    chosen.set_mount(there)
    assert chosen.model is None and chosen.mount == there
    arm_there = ArmModel.of(robot, mount=there)
    phi = arm_there.base_parameters(load_nominal(robot, arm_there.mdh, arm_there.regrouping.standard))
    chosen.exchange(model=replace(own, structure_hash=arm_there.structure_hash, phi=phi), name="gravity_compensation")
    torque = chosen.controller.law.torque(robot.rest_posture, *np.zeros((4, robot.size)))
    expected = arm_there.gravity_torque(np.array(robot.rest_posture)[None], phi, arm_there.gravity)[0]
    np.testing.assert_allclose(torque, expected, atol=1e-9)


def test_a_model_of_other_torque_constants_is_refused_wherever_it_comes_from() -> None:
    own = tuple(ROBOT.joint_constants.tolist())
    refuse_other_constants(ROBOT, own)
    refuse_other_constants(ROBOT, ())
    with pytest.raises(SafetyError, match="is based on a torque constant"):
        refuse_other_constants(ROBOT, (1.3 * own[0], *own[1:]))


def sagging() -> ControlModel:
    content = load_validated(ROBOT.folder / "models" / "paper.yaml", ModelFile)
    return replace(model(), phi=content.base_parameters(ARM))


def without_rotors() -> ControlModel:
    names, values = ARM.names, model().phi.values.copy()
    values[names.index("IA7")] = -values[names.index("IA7")]
    return replace(model(), phi=BaseParameters(names, values))


REFUSED = {
    "another robot": (lambda: replace(model(), robot="other"), "for robot 'other', but this robot is 'crane_x7'"),
    "another structure": (lambda: replace(model(), structure_hash="0123"), "has structure 0123, expected"),
    "no structure": (lambda: replace(model(), structure_hash=""), r"has structure \(none\), expected"),
    "other names": (lambda: replace(model(), phi=BaseParameters(("A",), np.ones(1))), "has structure"),
    "not accepted": (lambda: replace(model(), accepted=False), "did not pass its verdict"),
    "indefinite somewhere": (sagging, r"not positive definite at \(.*\) deg"),
    "negative rotor": (without_rotors, "not positive definite"),
    "friction of fewer axes": (lambda: replace(model(), friction=FrictionLaw.of(3, {})), "has 3 axes; expected 8"),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_a_model_that_must_not_move_this_arm_is_refused_and_the_old_one_kept(
    selection: ControllerSelection, reason: str
) -> None:
    make, words = REFUSED[reason]
    selection.exchange(name="computed_torque")
    for _ in range(round(BLEND_S / DT) + 2):
        before = cycle(selection)
    kept, law = selection.model, selection.controller.law
    with pytest.raises(SafetyError, match=words) as error:
        selection.exchange(model=make())
    assert "keep their model" in str(error.value)
    assert selection.model is kept and selection.controller.law is law
    np.testing.assert_array_equal(cycle(selection), before)


def test_a_good_model_passes_the_gate(gate: ModelGate) -> None:
    gate.check(model())
    gate.check(replace(model(), friction=FrictionLaw.of(N, {"fb": 0.1})))


@pytest.mark.parametrize("joint", [0, 7])
def test_a_model_of_other_torque_constants_is_refused_by_joint_and_values(gate: ModelGate, joint: int) -> None:
    """Its torques would be off by the ratio of the constants, which no other check notices."""
    content = load_validated(ROBOT.folder / "models" / "paper.yaml", ModelFile)

    def based_on(factor: float) -> ControlModel:
        constants = ROBOT.joint_constants * np.where(np.arange(N) == joint, factor, 1.0)
        read = from_model_file(content.model_copy(update={"torque_constants_nm_per_a": tuple(constants.tolist())}), ARM)
        return replace(model(), torque_constants=read.torque_constants)

    for factor in (1.0, 1.009, 0.991):
        gate.check(based_on(factor))
    gate.check(model())  # unknown constants, such as of a published model
    own = ROBOT.joint_constants[joint]
    for factor in (1.011, 0.989, 1.0 / 1.3, float("nan")):
        words = (
            f"torque constant of {factor * own:.4g} N m/A at {ROBOT.joint_names[joint]}, but robot.yaml says {own:.4g}"
        )
        with pytest.raises(SafetyError, match=f"{words}.* restore the constant, or identify again"):
            gate.check(based_on(factor))
    with pytest.raises(SafetyError, match="has 3 torque constants; expected 8"):
        gate.check(replace(model(), torque_constants=(1.0, 1.0, 1.0)))


def test_friction_law_of_the_file_adds_to_the_base_parameters() -> None:
    content = load_validated(ROBOT.folder / "models" / "paper.yaml", ModelFile)
    assert not from_model_file(content, ARM).friction.terms
    law = FrictionLaw.of(N, {"fb": 0.01 * np.arange(N), "km": 0.3}, 0.02)
    with_block = from_model_file(content.model_copy(update={"friction_law": friction_block(law)}), ARM)
    np.testing.assert_array_equal(with_block.friction.values, law.values)
    rows = tuple(CoulombRow(name=f"FC{k + 1}", value=0.01 * k) for k in range(N))
    old = CoulombBlock(transition_rad_s=0.02, axes_nm=rows)  # as files of former versions have it
    with_old = from_model_file(content.model_copy(update={"coulomb_friction": old}), ARM)
    np.testing.assert_allclose(with_old.friction["fb"], 0.01 * np.arange(N))
    assert with_old.friction.terms == ("fb",)
    assert with_block.robot == ROBOT.name and not with_block.accepted and with_block.phi.names == ARM.names
