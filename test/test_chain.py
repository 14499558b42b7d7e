"""The complete chain with real rclpy, the real SDK and the pseudo-terminal bus, as a user starts it: `dynid demo`.

It is the demo of an installed wheel, so the same run shows that the installation is complete.
"""

import re
import subprocess
import sys

import numpy as np
import pinocchio
import pytest

pytest.importorskip("rclpy", reason="ROS 2 for Python is not installed")

from demo_run import ROBOT, Demo, finished
from installed import wheel_command
from made import Made

from dynid.identification.pipeline import identify
from dynid.identification.settings import load_identification
from dynid.model.dynamics import ArmModel
from dynid.model.model_file import read_model_file
from dynid.recording.bag_reader import read_bag
from dynid.recording.completeness import completeness
from dynid.recording.driver_recording import load_driver_recording
from dynid.recording.tracking import tracking_rms
from dynid.verdict import Check

pytestmark = pytest.mark.timeout(900)

# V01 is shorter than the demo's own motions, which identification/test_pipeline.py judges in lock-step.
# The held-out motion is the demo's: in a motion of 6 s, the noise of a busy machine alone can reach the limit of the
# dynamic torque.
MOTIONS = ("V01", "demo_validation")
ERROR = f"relative torque error, {MOTIONS[1]}"


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory, made: Made) -> Demo:
    folder = tmp_path_factory.mktemp("usual")
    motions = ("--identification", MOTIONS[0], "--validation", MOTIONS[1])
    return finished(folder, *motions, dynid=wheel_command(made))


def check(demo: Demo, name: str) -> Check:
    (found,) = (one for one in read_model_file(demo.output / "model" / "model.yaml").verdict if one.name == name)
    return found


# -- the whole demo --------------------------------------------------------------------------------------------


def test_every_check_of_the_demo_passes(usual: Demo) -> None:
    assert usual.process.returncode == 0, f"{usual.text}\n{usual.last_lines()}"
    assert "accepted: every check passed" in usual.text
    rows = [line for line in usual.text.splitlines() if line.startswith("│")]
    assert sum("passed" in row for row in rows) >= 15 and not any("FAILED" in row for row in rows)
    report = (usual.output / "report.html").read_text(encoding="utf-8")
    assert '<h2 id="h-tracking">' in report and "computed torque" in report and "feed-forward and PD" in report
    for words in ("report.html", "bags", "model/model.yaml", "model/model.urdf", "logs"):
        assert f"{usual.output / words}  " in usual.text
    assert usual.children() == set()


def test_a_run_without_a_fault_logs_no_warning_or_error(usual: Demo) -> None:
    for log in (usual.output / "logs").glob("*.log"):
        for line in log.read_text(encoding="utf-8").splitlines():
            assert not re.search(r"(?i)warn|error|fatal|off its reference|pushed", line), f"{log.name}: {line}"


@pytest.mark.parametrize("name", MOTIONS)
def test_the_bags_are_complete_and_contain_their_own_settings(usual: Demo, name: str) -> None:
    bag = read_bag(usual.bag(name))
    assert bag.findings == ()
    topics = "joint_states joint_commands applied_commands reference diagnostics hardware_settings experiment".split()
    assert all(bag.counts[f"/{topic}"] > 0 for topic in (*topics, "robot_description"))
    found = completeness(usual.bag(name))
    assert found.lost == 0 and found.published > 5_000
    recording = load_driver_recording(usual.bag(name), ROBOT)
    assert recording.experiment is not None and recording.experiment.trajectory == name
    assert [phase.name for phase in recording.experiment.phases] == ["approach", "trajectory", "rest", "done"]
    assert [one.trajectory for one in recording.experiments] == [name]
    assert recording.hardware.simulated and recording.hardware.torque_constants_nm_per_a == tuple(
        ROBOT.torque_constants
    )
    assert recording.commands is not None and recording.applied is not None and recording.reference is not None
    began_s = 1e-9 * (recording.experiment.phases[0].stamp_ns - recording.stamp0_ns)
    first_torque_s = recording.applied.time[np.any(recording.applied.tau != 0.0, axis=1)][0]
    first_command_s = max(recording.commands.time[0], recording.reference.time[0])
    assert recording.applied.time[0] < began_s, "the bag lacks the states before the motion"
    assert first_command_s <= first_torque_s, "the driver applied a command that is not in the bag"
    early = recording.commands.time[recording.commands.time < first_command_s + 1.0]
    pause_s = min(0.1, np.diff(early).max())  # of the executor's process on this machine
    assert first_command_s < began_s + 0.005 + pause_s, "the bag lacks the motion's beginning"
    assert recording.notes == ()


@pytest.mark.parametrize("name", MOTIONS)
def test_at_most_one_cycle_in_a_thousand_is_missed(usual: Demo, name: str) -> None:
    assert completeness(usual.bag(name)).missed_fraction <= 0.001


def test_model_predicts_a_held_out_motion(usual: Demo) -> None:
    error = check(usual, ERROR)
    assert 0.0 < error.value <= 0.20
    assert len(read_model_file(usual.output / "model" / "model.yaml").parameters) == 39


def test_coulomb_friction_left_out_costs_more_than_twice_the_error(usual: Demo) -> None:
    settings = load_identification(ROBOT)
    ignored = settings.model_copy(
        update={
            "coulomb_friction": settings.coulomb_friction.model_copy(update={"treatment": "ignored"}),
            "acceptance": settings.acceptance.model_copy(update={"fresh_poses": 1000}),
        }
    )
    bags = [usual.bag(name) for name in MOTIONS]
    without = identify(ROBOT, bags[:1], validation=bags[1:], settings=ignored)
    assert without.validations[0].errors.relative > 2 * check(usual, ERROR).value


def test_the_model_halves_the_tracking_error(usual: Demo) -> None:
    repeated = load_driver_recording(usual.bag(f"{MOTIONS[1]}_computed_torque"), ROBOT)
    assert repeated.experiment is not None and repeated.experiment.controller == "computed_torque"
    before, after = (
        np.linalg.norm(tracking_rms(bag)) for bag in (load_driver_recording(usual.bag(MOTIONS[1]), ROBOT), repeated)
    )
    assert 0.0 < after < 0.5 * before


def test_pinocchio_loads_the_written_urdf(usual: Demo) -> None:
    """Masses are physical, and the static torques are those of the base parameters."""
    content = read_model_file(usual.output / "model" / "model.yaml")
    model = ArmModel.of(ROBOT, mount=content.mount)
    full = pinocchio.buildModelFromUrdf(str(usual.output / "model" / "model.urdf"))
    names = ROBOT.joint_names[: ROBOT.chain_size]
    locked = [index for index, name in enumerate(full.names) if index and name not in names]
    chain = pinocchio.buildReducedModel(full, locked, pinocchio.neutral(full))
    chain.gravity.linear = np.array(model.gravity)
    assert all(inertia.mass > 0 for inertia in list(chain.inertias)[1:])
    q = np.random.default_rng(0).uniform(ROBOT.lower, ROBOT.upper, (20, ROBOT.size))
    expected = model.inverse_dynamics(q, 0 * q, 0 * q, content.base_parameters(model))[:, : len(names)]
    data = chain.createData()
    found = [pinocchio.computeGeneralizedGravity(chain, data, one[: len(names)]) for one in q]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_the_arm_is_left_without_torque_and_was_never_beyond_its_caps(usual: Demo) -> None:
    usual.assert_arm_at_rest()
    largest = np.array(usual.arm_summary()["max_abs_current_a"])
    assert (largest > 0).all() and (largest <= ROBOT.current_limits + 0.0027).all()


def test_results_are_never_overwritten(usual: Demo) -> None:
    before = {path: path.stat().st_mtime_ns for path in usual.output.rglob("*")}
    command = [sys.executable, "-m", "dynid", "demo", "--out", str(usual.output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 1 and f"{usual.output} exists" in done.stderr
    assert {path: path.stat().st_mtime_ns for path in usual.output.rglob("*")} == before


# -- what does not fit -----------------------------------------------------------------------------------------
