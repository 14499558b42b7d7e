"""`dynid joint-id` as a user runs it."""

import json
import subprocess
import sys

import pytest

from dynid.commands.joint_id import chosen_joints
from dynid.control.controller import load_controller
from dynid.errors import UnknownNameError
from dynid.robot import load_robot

pytestmark = pytest.mark.slow

ROBOT = load_robot("crane_x7")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run on the simulated arm that keeps its bag and writes everything."""
    folder = tmp_path_factory.mktemp("joint-id")
    files = ["--record", folder / "bags", "--out", folder / "controller.yaml", "--plot", folder / "f.svg"]
    command = [sys.executable, "-m", "dynid", "joint-id", "--joint", "7", *map(str, files), "--json"]
    command += ["--friction", "viscous"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=800)
    assert done.returncode == 0, done.stderr
    return folder, json.loads(done.stdout)


def test_command_writes_the_parameters_of_the_joint(made):
    folder, result = made
    (name,) = result
    found = result[name]
    assert name == ROBOT.joint_names[6]
    for key in ("gain_rad_s_per_nm", "time_constant_s", "dead_time_s", "coulomb_friction_nm"):
        assert found[key]["lower_95"] < found[key]["value"] < found[key]["upper_95"]
    assert found["inertia_kg_m2"] == pytest.approx(
        found["time_constant_s"]["value"] / found["gain_rad_s_per_nm"]["value"]
    )
    assert set(found["response"]) == {"frequency_hz", "first_order", "arx"}
    written = load_controller(ROBOT, folder / "controller.yaml")
    assert written.inertia_kg_m2[6] == pytest.approx(found["inertia_kg_m2"], rel=1e-5)
    assert "<svg" in (folder / "f.svg").read_text()


def test_a_recorded_bag_gives_the_same_result_as_the_run(made, dynid):
    folder, result = made
    done = dynid("joint-id", folder / "bags" / "joint_7", "--json")
    assert done.returncode == 0 and json.loads(done.stdout) == result
    table = dynid("joint-id", folder / "bags" / "joint_7")
    assert table.returncode == 0 and "Tp1" in table.stdout and "fourth-order" in table.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--joint", 9], "unknown joint '9'; known: 1 to 8"),
        (["--joint", 7, "--out", "{}/controller.yaml"], "exists"),
        (["--joint", 7, "--record", "{}/bags"], "exists"),
        (["--joint", 7, "--plot", "{}/g.txt"], "unknown figure format '.txt'"),
        (["{}/bags/joint_7", "--joint", 6], "unknown excited joint '6'; known: 7"),
        (["{}/bags/joint_7", "--live"], "bags were given"),
        (["{}/nowhere"], "nowhere"),
        (["--joint", 7, "--without", "gravity"], "unknown nuisance 'gravity'"),
    ],
)
def test_impossible_requests_end_with_one_sentence(made, dynid, arguments, words):
    done = dynid("joint-id", *(str(one).format(made[0]) for one in arguments))
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("error: ") and words in done.stderr and len(done.stderr.splitlines()) == 1


def test_joints_are_chosen_by_number_or_name():
    assert chosen_joints(ROBOT, []) == list(range(8))
    assert chosen_joints(ROBOT, ["3", ROBOT.joint_names[6], "3"]) == [2, 6]
    with pytest.raises(UnknownNameError):
        chosen_joints(ROBOT, ["0"])


@pytest.mark.slow
def test_gears_with_falling_friction_leave_the_damping_in_doubt(dynid):
    """Eq. 1 has viscous friction alone: on gears as measured its time constant is in doubt, and the exit code is 1."""
    done = dynid("joint-id", "--joint", 7)
    assert done.returncode == 1 and "width of a confidence interval" in done.stdout + done.stderr
