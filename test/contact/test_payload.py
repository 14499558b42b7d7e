"""Online weighing: the mass in the simulated arm's hand, an estimate at every step, and the controller's update."""

from collections.abc import Callable

import numpy as np
import pytest
from test.shared.felt import ARM, ROBOT, N, control_model, model_file, moved

from dynid.contact.payload import HeldMass, with_payload
from dynid.contact.scale import FRICTION_CHANGE, Scale
from dynid.control.arm_controller import ArmController
from dynid.control.controller import load_controller
from dynid.control.dynamics_kernel import compile_single
from dynid.control.model_laws import ComputedTorque
from dynid.model.parameters import StandardParameters
from dynid.model.standard import LinkInertia, StandardFile, from_file, from_link_frame, pseudo_inertia, to_file
from dynid.robot import FloatArray
from dynid.simulation.lockstep.stepped_arm import SteppedArm
from dynid.simulation.plant.arm import plant_standard

Push = Callable[[SteppedArm, float], FloatArray | None]
OWN = from_file(plant_standard(ROBOT), ARM.mdh)
CENTRE = np.array(ROBOT.file.tool_m) + np.array([0.01, -0.02, 0.01])


def cube(mass_kg: float) -> FloatArray:
    """A cube's parameters in the last modified DH frame, (10,)."""
    body = LinkInertia(mass_kg, CENTRE, mass_kg * 2.7e-4 * np.eye(3))
    return from_link_frame(body, ARM.mdh.in_link[-1])


def holding(mass_kg: float) -> StandardFile:
    values = np.array(OWN.values)
    values[10 * (ARM.mdh.size - 1) : 10 * ARM.mdh.size] += cube(mass_kg)
    return to_file(
        StandardParameters(OWN.names, values, OWN.chain_size), ARM.mdh, ROBOT.name, ROBOT.joint_names, "held"
    )


def scaled(
    standard: StandardFile | None, seed: int, push: Push = lambda arm, time_s: None
) -> tuple[Scale, list[HeldMass]]:
    """The scale at the end of a motion, and its estimates every half second."""
    scale = Scale(ROBOT, ARM, control_model(), model_file().torque_deviations, 0.001)
    found: list[HeldMass] = []
    count = 0

    def each(arm: SteppedArm, tau: FloatArray) -> None:
        nonlocal count
        scale.update(arm.stamp_ns, np.array(arm.position), tau)
        count += 1
        if not count % 500:
            found.append(scale.estimate())

    moved(push, each, seed, standard)
    return scale, found


@pytest.mark.slow
def test_the_weighed_mass_is_accurate_and_every_estimate_is_physical() -> None:
    scale, found = scaled(holding(0.2), 5)
    last = found[-1]
    assert abs(last.mass_kg - 0.2) < min(0.01, 2.0 * last.mass_deviation_kg)
    assert np.linalg.norm(last.centre_m - CENTRE) < 0.02
    assert last.mass_deviation_kg < 0.012 < found[0].mass_deviation_kg and scale.misfit < 1.0
    for one in found:
        assert np.linalg.eigvalsh(pseudo_inertia(one.parameters))[0] > -1e-12 and one.mass_kg >= 0.0
    scale.reset()
    nothing = scale.estimate()
    assert nothing.mass_kg == 0.0 and nothing.mass_deviation_kg > 1.0


@pytest.mark.slow
def test_reset_keeps_the_friction_estimate_unless_requested() -> None:
    scale, _ = scaled(holding(0.2), 5)
    scale.reset()
    known = scale._information[-1, -1]
    scale.reset(friction=True)
    assert known > 4.0 * scale._information[-1, -1] == 4.0 / FRICTION_CHANGE**2


@pytest.mark.slow
def test_empty_hand_has_no_significant_payload() -> None:
    last = scaled(None, 6)[1][-1]
    assert last.mass_kg < min(0.015, 2.0 * last.mass_deviation_kg)


@pytest.mark.slow
def test_unexplained_torques_raise_misfit_and_deviations() -> None:
    def shaken(arm: SteppedArm, time_s: float) -> FloatArray:
        return 2.0 * np.sin(8.0 * np.pi * time_s) * np.eye(N)[1]

    calm, disturbed = scaled(None, 7), scaled(None, 7, shaken)
    assert calm[0].misfit < 0.7 and disturbed[0].misfit > 1.0
    assert disturbed[1][-1].mass_deviation_kg > 1.2 * calm[1][-1].mass_deviation_kg


def test_payload_is_unknown_before_motion() -> None:
    nothing = Scale(ROBOT, ARM, control_model(), model_file().torque_deviations).estimate()
    assert nothing.mass_kg == 0.0 and nothing.mass_deviation_kg > 1.0
    np.testing.assert_array_equal(nothing.centre_m, ROBOT.file.tool_m)


def test_payload_in_the_model_equals_a_heavier_arm_without_a_jump() -> None:
    settings, dynamics, own = load_controller(ROBOT), compile_single(ARM), control_model()
    other = with_payload(ARM, own, cube(0.2))
    q, dq, ddq = np.random.default_rng(1).uniform(-1.0, 1.0, (3, 1, N))
    heavier = from_file(holding(0.2), ARM.mdh)
    free = np.array([0.0 if name.startswith("FV") else 1.0 for name in heavier.names])
    whole = ARM.base_parameters(StandardParameters(heavier.names, heavier.values * free, heavier.chain_size))
    expected = ARM.inverse_dynamics(q, dq, ddq, whole)
    np.testing.assert_allclose(ARM.inverse_dynamics(q, dq, ddq, other.phi), expected, atol=1e-9)
    controller = ArmController(ComputedTorque(settings, own, dynamics), settings.pseudo_differentiation_s, N)
    pose = ROBOT.rest_posture
    controller.reset(pose)
    still = np.zeros(N)
    before = controller.update(0.001, pose, pose, still, still).copy()
    controller.switch_to(ComputedTorque(settings, other, dynamics))
    steps = [controller.update(0.001, pose, pose, still, still).copy() for _ in range(600)]
    jumps = np.abs(np.diff([before, *steps], axis=0)).max()
    assert np.abs(steps[-1] - before).max() > 0.3 and jumps < 0.01
