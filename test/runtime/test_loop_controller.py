"""`Model.controller`: the executor's law in one step, its limits, and an arm in MuJoCo that it moves."""

from dataclasses import replace

import numpy as np
import pytest
from benchmarks.speed.known_models import known_model, random_states
from tracked_sine import tracked

from dynid.control.control_model import ControlModel
from dynid.control.controller import load_controller
from dynid.control.dynamics_kernel import compile_single
from dynid.control.filters import PseudoDifferentiator
from dynid.control.model_laws import ComputedTorque
from dynid.errors import ConfigurationError, DataError, SafetyError
from dynid.robot import FloatArray

MODEL = known_model("crane_x7")
N, RATE_HZ = 8, 500.0
Q, DQ, DDQ = random_states(N, 30, seed=5)
WIDE = {"torque_limits_nm": 1e4}


@pytest.mark.parametrize("law", ["loaded", "plain"])
def test_a_step_equals_the_law_of_the_executor(law: str) -> None:
    model = known_model("crane_x7", law)
    settings = load_controller(model.robot)
    assert model.friction_law is not None
    fed = ControlModel(model.robot.name, model.arm().structure_hash, model.base, model.friction_law, True)
    executor = ComputedTorque(settings, fed, compile_single(model.arm()))
    controller, estimate = model.controller(RATE_HZ, **WIDE), PseudoDifferentiator(0.002, N)
    controller.reset(Q[0])
    estimate.reset(Q[0])
    for k in range(30):
        dq = estimate.update(1.0 / RATE_HZ, Q[k])
        expected = executor.torque(Q[k], dq, Q[k] + 0.1, DQ[k], DDQ[k])
        np.testing.assert_allclose(controller.step(Q[k], Q[k] + 0.1, DQ[k], DDQ[k]), expected, atol=1e-9)
    measured = executor.torque(Q[3], DQ[4], Q[5], DQ[5], DDQ[5])
    np.testing.assert_allclose(controller.step(Q[3], Q[5], DQ[5], DDQ[5], dq=DQ[4]), measured, atol=1e-9)


def test_result_is_preallocated_and_cut_at_the_limits() -> None:
    free, limits = MODEL.controller(RATE_HZ, **WIDE), MODEL.robot.torque_limits
    bound = MODEL.controller(RATE_HZ)
    far = Q[1] + np.array([30.0, 0, 0, 0, 0, 0, 0, 0])
    wanted = free.step(Q[1], far, DQ[1], DDQ[1], dq=DQ[1]).copy()
    found = bound.step(Q[1], far, DQ[1], DDQ[1], dq=DQ[1])
    np.testing.assert_allclose(found, np.clip(wanted, -limits, limits))
    assert bound.limited[0] == 1.0 and found[0] == limits[0]
    assert found is bound.tau and bound.step(Q[1], Q[1], DQ[1], DDQ[1], dq=DQ[1]) is found
    np.testing.assert_array_equal(bound.limited, np.abs(bound.tau) == limits)


def test_shares_scale_gravity_and_friction() -> None:
    still = np.zeros(N)
    law = MODEL.friction_law
    assert law is not None
    none = MODEL.controller(RATE_HZ, gravity_share=0.0, **WIDE).step(Q[2], Q[2], still, still, dq=still)
    np.testing.assert_allclose(none, law["of"], atol=1e-9)
    half = MODEL.controller(RATE_HZ, gravity_share=0.5, **WIDE).step(Q[2], Q[2], still, still, dq=still)
    np.testing.assert_allclose(half, 0.5 * MODEL.gravity(Q[2]) + law["of"], atol=1e-9)
    free = MODEL.controller(RATE_HZ, friction_share=0.0, **WIDE).step(Q[2], Q[2], DQ[2], DDQ[2], dq=DQ[2])
    base = [0.0 if name[:2] in ("FV", "FC") else v for name, v in zip(MODEL.base.names, MODEL.base.values, strict=True)]
    rigid = replace(MODEL, base=MODEL.base.with_values(np.array(base)), friction_law=None)
    np.testing.assert_allclose(free, rigid.torques(Q[2], DQ[2], DDQ[2]) + law["of"], atol=1e-9)


def test_non_finite_values_stop_the_loop_with_the_last_torques() -> None:
    controller = MODEL.controller(RATE_HZ)
    before = controller.step(Q[0], Q[0], DQ[0], DDQ[0], dq=DQ[0]).copy()
    broken = np.where(np.arange(N) == 2, np.nan, Q[0])
    for inputs in ((broken, Q[0]), (Q[0], broken)):
        with pytest.raises(SafetyError, match="has no finite torque, at q "):
            controller.step(*inputs, DQ[0], DDQ[0], dq=DQ[0])
        np.testing.assert_array_equal(controller.tau, before)


def test_wrong_shapes_and_a_missing_start_are_refused() -> None:
    controller = MODEL.controller(RATE_HZ)
    with pytest.raises(DataError, match=r"call reset\(q\) before the first step"):
        controller.step(Q[0], Q[0], DQ[0], DDQ[0])
    for wrong in (Q[0, :7], Q[:8], 0.0):
        with pytest.raises(DataError, match=r"expected \(8,\) numbers each"):
            controller.step(wrong, Q[0], DQ[0], DDQ[0], dq=DQ[0])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"gravity_share": 1.2}, "gravity_share is 1.2; expected 0 to 1"),
        ({"friction_share": -0.1}, "friction_share is -0.1"),
        ({"velocity_gain_1_s": 400.0}, r"rate_hz is 500 and velocity_gain_1_s up to 400 1/s; expected at least 800 Hz"),
        ({"torque_limits_nm": [1.0, 2.0]}, "torque_limits_nm is .*; expected 8 finite numbers"),
        ({"proportional_gain_1_s2": np.nan}, "proportional_gain_1_s2 is nan"),
        ({"velocity_filter_s": 0.0}, "velocity_filter_s is 0"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        MODEL.controller(RATE_HZ, **options)
    with pytest.raises(ConfigurationError, match="rate_hz is 0"):
        MODEL.controller(0.0)


def test_robot_without_gains_needs_them_stated() -> None:
    model = known_model("puma560")
    with pytest.raises(ConfigurationError, match=r"'puma560' has no controller\.yaml: give proportional_gain_1_s2"):
        model.controller(RATE_HZ)
    given = {"proportional_gain_1_s2": 100.0, "velocity_gain_1_s": 20.0, "velocity_filter_s": 0.01}
    assert model.controller(RATE_HZ, **given).limits.shape == (6,)


def test_model_that_must_not_move_an_arm_is_refused() -> None:
    rejected = replace(MODEL, accepted=False)
    with pytest.raises(SafetyError, match="did not pass its checks: identify again, or give rejected=True"):
        rejected.controller(RATE_HZ)
    assert rejected.controller(RATE_HZ, rejected=True).rate_hz == RATE_HZ
    values = np.array(MODEL.base.values)
    values[list(MODEL.base.names).index("ZZR1")] = -1.0
    with pytest.raises(SafetyError, match="not positive definite"):
        replace(MODEL, base=MODEL.base.with_values(values)).controller(RATE_HZ)


@pytest.mark.slow
def test_own_loop_in_mujoco_tracks_within_a_fifth_of_a_degree() -> None:
    controller = MODEL.controller(RATE_HZ)

    def step(q: FloatArray, dq: FloatArray, *reference: FloatArray) -> FloatArray:
        return controller.step(q, *reference, dq=dq)

    def by_measured_velocity(q: FloatArray, dq: FloatArray, *reference: FloatArray) -> FloatArray:
        q_ref, dq_ref, ddq_ref = reference
        return MODEL.torques(q, dq, ddq_ref + 40.0 * (dq_ref - dq) + 400.0 * (q_ref - q))

    worst = tracked(MODEL, RATE_HZ, step)
    assert worst.max() < 0.2, worst
    assert tracked(MODEL, RATE_HZ, by_measured_velocity).max() > 2.0  # the rule that is built in matters
