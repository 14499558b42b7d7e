"""The PD controller with feed-forward: its law, gains and velocity filter."""

import math
import re
import shutil

import numpy as np
import pytest

from dynid.control.controller import Controller, ControllerSettings, load_controller
from dynid.control.ff_pd import FeedforwardPd
from dynid.errors import ConfigurationError, InputNotFoundError
from dynid.robot import load_robot


@pytest.fixture
def settings():
    return ControllerSettings(
        schema_version=1,
        proportional_gain_1_s2=(900.0, 400.0),
        velocity_gain_1_s=(60.0, 35.0),
        inertia_kg_m2=(0.09, 0.006),
        damping_nm_s_rad=(0.3, 0.04),
        pseudo_differentiation_s=0.002,
    )


def test_every_sample_obeys_equation_2(settings):
    """Compare with scalar arithmetic of eq. 2 and an exactly integrated low-pass filter."""
    rng = np.random.default_rng(11)
    controller: Controller = FeedforwardPd(settings)
    q = rng.normal(size=2)
    controller.reset(q)
    low_pass = q.copy()
    for _ in range(200):
        dt = float(rng.uniform(0.0005, 0.003))
        previous, q = q, q + 0.01 * rng.normal(size=2)
        q_ref, dq_ref, ddq_ref = rng.normal(size=(3, 2))
        torque = controller.update(dt, q, q_ref, dq_ref, ddq_ref)
        for j in range(2):
            tf = settings.pseudo_differentiation_s
            kp, kv = settings.proportional_gain_1_s2[j], settings.velocity_gain_1_s[j]
            slope = (q[j] - previous[j]) / dt
            # tf z' + z = x for x linear over the step
            low_pass[j] = q[j] - tf * slope + (low_pass[j] - previous[j] + tf * slope) * math.exp(-dt / tf)
            velocity = (q[j] - low_pass[j]) / tf
            inner = kv * (dq_ref[j] + kp / kv * (q_ref[j] - q[j]) - velocity) + ddq_ref[j]
            expected = settings.inertia_kg_m2[j] * inner + settings.damping_nm_s_rad[j] * dq_ref[j]
            assert torque[j] == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_perfect_rest_needs_no_torque_and_every_term_counts(settings):
    zero, one = np.zeros(2), np.ones(2)
    controller = FeedforwardPd(settings)
    controller.reset(zero)
    np.testing.assert_array_equal(controller.update(0.001, zero, zero, zero, zero), zero)
    np.testing.assert_allclose(controller.update(0.001, zero, one, zero, zero), [81.0, 2.4])
    np.testing.assert_allclose(controller.update(0.001, zero, zero, zero, one), [0.09, 0.006])
    np.testing.assert_allclose(controller.update(0.001, zero, zero, one, zero), [5.4 + 0.3, 0.21 + 0.04])


def test_stabilises_a_delayed_joint_and_a_wrong_sign_does_not(settings):
    """Double integrator with friction at the published joint 7 values and the 1.5 ms delay."""

    def final_error(sign):
        controller = FeedforwardPd(settings)
        q, dq, late = np.array([0.2, 0.2]), np.zeros(2), [np.zeros(2)] * 6
        controller.reset(q)
        for _ in range(2000):
            late.append(sign * controller.update(0.001, q, np.zeros(2), np.zeros(2), np.zeros(2)))
            for quarter in range(4):
                torque = late[-3] if quarter < 2 else late[-2]
                dq = dq + 0.00025 * (torque - [0.25, 0.033] * dq) / [0.07, 0.0047]
                q = q + 0.00025 * dq
            if np.max(np.abs(q)) > 10.0:
                break
        return float(np.max(np.abs(q)))

    assert final_error(1.0) < 1e-6
    assert final_error(-1.0) > 1.0


def test_shipped_settings_fit_the_robot():
    robot = load_robot("crane_x7")
    settings = load_controller(robot)
    assert settings.size == robot.size
    assert settings.pseudo_differentiation_s == 0.002
    assert settings.inertia_kg_m2[6] == 0.006 and settings.damping_nm_s_rad[6] == 0.04


def test_wrong_length_unknown_key_and_missing_file_are_named(tmp_path):
    robot = load_robot("crane_x7")
    text = (robot.folder / "controller.yaml").read_text()
    short = tmp_path / "short.yaml"
    short.write_text(re.sub(r"(proportional_gain_1_s2: )\[\d+, ", r"\1[", text))
    with pytest.raises(ConfigurationError, match="proportional_gain_1_s2 has 7 entries, expected 8"):
        load_controller(robot, short)
    negative = tmp_path / "negative.yaml"
    negative.write_text(text.replace("pseudo_differentiation_s: 0.002", "pseudo_differentiation_s: 0"))
    with pytest.raises(ConfigurationError, match="pseudo_differentiation_s"):
        load_controller(robot, negative)
    unknown = tmp_path / "unknown.yaml"
    shutil.copy(robot.folder / "controller.yaml", unknown)
    unknown.write_text(text + "stiffness: 3\n")
    with pytest.raises(ConfigurationError, match="stiffness"):
        load_controller(robot, unknown)
    with pytest.raises(InputNotFoundError, match=r"none\.yaml"):
        load_controller(robot, tmp_path / "none.yaml")
