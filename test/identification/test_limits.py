"""Literal copies of the limits that decide on a result; a changed limit must be changed here, too."""

import pytest

from dynid.identification.settings import Acceptance, DataLimits, Projection, SuspicionLimits, load_identification
from dynid.robot import known_robots, load_robot

SUSPICION = {
    "torque_scale": 0.15,
    "position_zero_rad": 0.15,
    "position_scale": 0.03,
    "gravity_rad": 0.05,
    "delay_s": 0.01,
    "deviations": 3.0,
    "gain": 0.25,
    "gain_of_exchange": 0.15,
    "significance": 2.5,
}
ACCEPTANCE = {
    "lambda_min_kg_m2": 1e-4,
    "fresh_poses": 1_000_000,
    "relative_torque_error": 0.2,
    "condition_number": 1000.0,
    "time_at_speed_s": 0.5,
    "friction_separation": 0.1,
    "torque_source_difference": 0.05,
    "relative_joint_error": 0.6,
    "relative_joint_error_with_rest": 1.2,
    "error_over_noise": 2.5,
    "change_of_arm": 0.03,
    "dynamic_error": 0.1,
    "suspicion": SUSPICION,
}
DATA = {
    "missed_cycles_share": 0.01,
    "longest_gap_s": 0.01,
    "dropped_samples_share": 0.1,
    "jitter_of_period": 0.25,
    "saturated_share": 0.01,
    "saturation_of_limit": 0.98,
    "joint_range_rad": 0.05,
    "torque_range_of_limit": 0.001,
    "torque_of_limit": 0.005,
    "velocity_ratio": 0.1,
    "minimum_samples": 100,
}
FEW_POSES = {"fresh_poses": 20_000, "condition_number": 10_000.0}
OWN = {
    "crane_x7": {"relative_torque_error": 0.15},
    "tx40": {**FEW_POSES, "condition_number": 20_000.0},
    "openmanipulator_x": {**FEW_POSES, "lambda_min_kg_m2": 9.48e-6},
    "viperx_300s": {**FEW_POSES, "lambda_min_kg_m2": 9.42e-6},
    "omx_leader": {**FEW_POSES, "lambda_min_kg_m2": 1.28e-6},
    "kr300": {
        **FEW_POSES,
        "condition_number": 1e6,
        "relative_torque_error": 0.3,
        "lambda_min_kg_m2": 0.01,
        "dynamic_error": 0.25,
    },
}


def test_limits_have_their_documented_defaults() -> None:
    assert Acceptance().model_dump() == ACCEPTANCE and SuspicionLimits().model_dump() == SUSPICION
    assert DataLimits().model_dump() == DATA
    assert Projection().rescue_margin_kg_m2 == 2e-4 and Projection().ladder_kg_m2 == (0.001, 0.002, 0.005, 0.01)


@pytest.mark.parametrize("name", known_robots())
def test_every_shipped_robot_has_the_expected_limits(name: str) -> None:
    own = load_identification(load_robot(name))
    assert own.acceptance.model_dump() == {**ACCEPTANCE, **OWN.get(name, FEW_POSES)}
    assert own.data.model_dump() == DATA and own.projection == Projection()
