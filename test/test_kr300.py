"""Two public runs of a KUKA KR300 (not part of this project): identified from one, judged on the other.

The data are looked for in the folder that DYNID_KR300 names, else in shared/data/kr300 beside the project's folder;
tests of them are skipped where they are not.
"""

import os
from pathlib import Path

import numpy as np
import pytest
from arms import arm
from benchmarks.logs.kr300 import coupled, least_eigenvalue, run_of, stiffness, variants

from dynid.errors import DataError
from dynid.identification.logs.log import Log
from dynid.identification.logs.springs import SpringArm, log_arm
from dynid.identification.pipeline import identify
from dynid.recording.csv_mapping import load_mapping
from dynid.robot import load_robot
from dynid.robot_file import RobotFile

ROBOT = load_robot("kr300")
FOLDER = Path(os.environ.get("DYNID_KR300") or Path(__file__).resolve().parents[2] / "shared" / "data" / "kr300")
with_data = pytest.mark.skipif(not FOLDER.is_dir(), reason="the public KR300 runs are not there (DYNID_KR300)")


@with_data
def test_the_spring_makes_a_consistent_model_predict_the_other_run() -> None:
    fitted, held = (run_of(ROBOT, FOLDER / f"kr300_{run}.csv.gz") for run in "AB")
    found = {one.name: one for one in variants(ROBOT, fitted, held)}
    assert found["spring"].consistent < 0.06
    assert found["Coulomb-viscous"].consistent > 3.0 * found["spring"].consistent
    assert least_eigenvalue(ROBOT, found["spring"].result) > 1.0


@with_data
def test_a_model_without_the_spring_is_refused_for_what_is_no_noise() -> None:
    """It predicts run B with 21 %, within the flat limit of this robot, and ten times beyond the noise of the data."""
    fitted, held = (FOLDER / f"kr300_{run}.csv.gz" for run in "AB")
    mapping = load_mapping(ROBOT.folder / "csv_mapping.yaml")
    verdict = identify(ROBOT, [fitted], validation=[held], mapping=mapping).verdict
    checks = {check.id: check for check in verdict.checks}
    assert checks["torque_error_held_out"].passed and not verdict.accepted
    assert checks["error_over_noise_held_out"].value > 5.0 and checks["error_over_noise_fitted"].value < 2.5


def test_a_spring_is_a_column_of_one_joint() -> None:
    model = log_arm(ROBOT)
    assert isinstance(model, SpringArm)
    assert model.names == (*arm("kr300").names, "KS102")
    q = np.random.default_rng(0).uniform(ROBOT.lower, ROBOT.upper, (5, 6))
    W = model.regressor(q, 0.0 * q, 0.0 * q)
    expected = np.zeros((5, 6))
    expected[:, 1] = q[:, 1] + 0.5 * np.pi
    assert np.allclose(W[:, :, -1], expected)
    assert np.allclose(W[:, :, :-1], arm("kr300").regressor(q, 0.0 * q, 0.0 * q))
    assert not isinstance(log_arm(load_robot("tx40")), SpringArm)


def test_springs_of_other_joints_are_refused() -> None:
    content = ROBOT.file.model_dump()
    content["springs"] = [{"joint": "joint_9", "powers": [1]}]
    with pytest.raises(ValueError, match="joint_9"):
        RobotFile.model_validate(content)


def test_stiffness_comes_back_with_its_deviation() -> None:
    rng, time = np.random.default_rng(3), np.linspace(0.0, 10.0, 2500)
    angle, tau = 20.0 * np.sin(time), 30.0 * np.sin(2.3 * time + 1.0)
    speed = np.gradient(angle, time)
    twist = 100.0 * tau / 2e6 + 1e-5 * np.sign(speed) + 1e-6 * rng.standard_normal(len(time))
    run = {"motor_pos_deg_1": angle, "link_pos_deg_1": angle - np.rad2deg(twist)}
    run |= {"motor_torque_nm_1": tau, "motor_vel_deg_s_1": speed}
    found = stiffness(run, 0, 100.0)
    assert abs(found.stiffness - 2e6) < max(5.0 * found.deviation, 0.02 * 2e6)
    assert found.explained > 0.99


def test_coupled_motors_turn_joints_and_torques_alike() -> None:
    rng, C = np.random.default_rng(4), np.eye(6)
    C[5, 4] = 1.0
    q, tau = rng.standard_normal((2, 30, 6))
    log = coupled(Log("run", ROBOT.joint_names, np.arange(30.0), q, tau), C)
    assert log.tau is not None
    assert np.allclose(log.q @ C.T, q)
    assert np.allclose((log.tau * log.q).sum(axis=1), (tau * q).sum(axis=1))
    with pytest.raises(DataError, match="no torques"):
        coupled(Log("run", ROBOT.joint_names, np.arange(30.0), q), C)
