"""From a new URDF to an accepted model by the documented commands alone."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from random_arm import random_arm
from typer.testing import CliRunner

from dynid.cli import app
from dynid.errors import ConfigurationError, DataError, InputNotFoundError, OutputExistsError, SafetyError
from dynid.identification.settings import load_identification
from dynid.model.dynamics import ArmModel
from dynid.recording.csv_mapping import CsvMapping
from dynid.recording.csv_reader import read_csv
from dynid.recording.driver_recording import load_driver_recording
from dynid.resources import load_validated
from dynid.robot import load_robot
from dynid.robot.urdf_text import read_urdf_text

MOTIONS = ("demo_identification", "demo_validation")
SHORT = ("demo_validation", "fast")  # which suffice for an arm that comes with dynid


def dynid(*arguments: object) -> dict[str, Any]:
    """The answer of a command in JSON; it must succeed."""
    result = CliRunner().invoke(app, [*map(str, arguments), "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.stdout
    return dict(json.loads(result.stdout))


def _numbers(nested: object) -> list[float]:
    """All numbers of nested dictionaries; what was not judged is null."""
    if isinstance(nested, dict):
        return [x for value in nested.values() for x in _numbers(value)]
    return [] if nested is None else [float(nested)]


def drafted(folder: Path, text: str, *options: str) -> tuple[Path, dict[str, Any]]:
    """Return the folder that `robot new` drafted from a URDF, and the command's JSON answer."""
    folder.mkdir(exist_ok=True)
    (folder / "arm.urdf").write_text(text, encoding="utf-8")
    arm = folder / "arm"
    return arm, dynid("robot", "new", arm, "--urdf", folder / "arm.urdf", *options)


def accepted(arm: Path, work: Path, motions: tuple[str, str] = MOTIONS) -> dict[str, Any]:
    """Simulate two motions, identify a model from the first, validate it on the second, and return the JSON answer."""
    assert set(motions) <= dynid("trajectories", "list", "--robot", arm).keys()
    dynid("simulate", *motions, "--robot", arm, "--out", work / "runs")
    bags = [work / "runs" / name for name in motions]
    return dynid("identify", bags[0], "--validate", bags[1], "--robot", arm, "--out", work / "model")


@pytest.mark.slow
def test_an_unusual_urdf_leads_to_an_accepted_model(tmp_path: Path) -> None:
    """A sliding joint, odd names, a continuous joint; test_docs.py and test_foreign_plant.py have plain arms."""
    arm, said = drafted(tmp_path, random_arm(4, prismatic=True, odd=True), "--tip", "tool")
    assert said["motions"] == "drafted" and 5 <= len(said["chain"]) <= 7
    result = accepted(arm, tmp_path)
    assert result["accepted"] and max(_numbers(result["relative_torque_error"])) < 0.1
    robot = load_robot(arm)
    assert any(robot.prismatic)
    run = load_driver_recording(tmp_path / "runs" / MOTIONS[0], robot)
    assert (run.q >= robot.lower).all() and (run.q <= robot.upper).all()
    assert (np.abs(run.tau_present) <= robot.torque_limits).all()
    assert run.hardware.torque_constants_nm_per_a == ()  # a URDF knows none, so none may be told


@pytest.mark.slow
@pytest.mark.parametrize("name", ["aloha_class", "openmanipulator_x", "omx_leader"])
def test_low_cost_arms_that_come_with_dynid_are_accepted(tmp_path: Path, name: str) -> None:
    """All but the first have gears whose friction grows with load. The last one's gravity is small beside friction.

    Torques with which its controller reacts to the steps of its encoders are not taken for a delay.
    """
    found = accepted(Path(name), tmp_path, SHORT)
    assert found["accepted"]
    assert not [note for note in found["notes"] if "lag" in note]


@pytest.mark.slow
@pytest.mark.parametrize("limit", [3.0, 6.28])
def test_a_drafted_arm_rests_clear_of_its_limits(tmp_path: Path, limit: float) -> None:
    """Drives that are far too weak make the draft look for the pose of least load, and name the joints."""
    weak = re.sub(r'effort="[^"]*"', 'effort="1"', random_arm(1))
    arm, said = drafted(tmp_path, re.sub(r'lower="[^"]*" upper="[^"]*"', f'lower="-{limit}" upper="{limit}"', weak))
    rest = np.deg2rad(yaml.safe_load((arm / "robot.yaml").read_text())["rest_posture_deg"])
    assert (np.abs(rest) < 2.5).all()
    assert re.search(r"too little torque for gravity and friction: joint_0 has 0.9 of up to \d+ N m", said["motions"])


@pytest.mark.slow
def test_drives_that_cannot_hold_the_arm_get_no_motions(tmp_path: Path) -> None:
    arm, _ = drafted(tmp_path, random_arm(1))
    content = yaml.safe_load((arm / "robot.yaml").read_text())
    content["joints"][1]["torque_limit_nm"] = 0.01
    (arm / "robot.yaml").write_text(yaml.safe_dump(content))
    with pytest.raises(OutputExistsError):
        dynid("robot", "motions", arm)
    with pytest.raises(SafetyError, match=r"cannot be held at its rest posture|only 0 of 3 postures"):
        dynid("robot", "motions", arm, "--out", tmp_path / "other")
    assert not (tmp_path / "other").exists()


@pytest.mark.slow
def test_motions_follow_once_the_questions_are_answered(tmp_path: Path) -> None:
    """Masses without a body leave nothing to draft motions from; `robot motions` does when the file is there."""
    text = random_arm(1)
    whole, _ = drafted(tmp_path / "whole", text)
    bare = re.sub(r"<inertial>.*?</inertial>", "", re.sub(r'effort="[^"]*"', 'effort="0"', text), count=1)
    arm, said = drafted(tmp_path, bare)
    assert "belongs to no body" in said["motions"]
    assert not (arm / "excitation.yaml").exists()
    (arm / "models").mkdir()
    (arm / "models" / "nominal.yaml").write_bytes((whole / "models" / "nominal.yaml").read_bytes())
    with pytest.raises(ConfigurationError, match="torque_limit_nm"):
        dynid("robot", "motions", arm)
    content = yaml.safe_load((arm / "robot.yaml").read_text())
    for joint, own in zip(content["joints"], yaml.safe_load((whole / "robot.yaml").read_text())["joints"], strict=True):
        joint["torque_limit_nm"] = own["torque_limit_nm"]
    (arm / "robot.yaml").write_text(yaml.safe_dump(content))
    assert set(MOTIONS) <= dynid("robot", "motions", arm)["duration_s"].keys()
    assert (arm / "controller.yaml").is_file()


@pytest.mark.slow
def test_missing_limits_are_asked_for(tmp_path: Path) -> None:
    """Torques are judged by their limits: with 1e6 N m every torque looks as if it had a wrong unit."""
    text = random_arm(1)
    stated = [float(one) for one in re.findall(r'effort="([^"]*)"', text)]
    arm, said = drafted(tmp_path, re.sub(r'effort="[^"]*"', 'effort="1e6"', text))
    assert said["motions"] == "drafted"
    proposed = [joint["torque_limit_nm"] for joint in yaml.safe_load((arm / "robot.yaml").read_text())["joints"]]
    assert all(0.1 < after / before < 10.0 for before, after in zip(stated, proposed, strict=True))
    asked = [said["questions"][f"joints.joint_{j}.torque_limit_nm"] for j in range(len(stated))]
    assert all("1e+06" in question and "placeholder" in question for question in asked)
    other, said = drafted(tmp_path / "none", re.sub(r'effort="[^"]*"', 'effort="0"', text))
    assert said["motions"] == "drafted" and "has no effort limit" in said["questions"]["joints.joint_0.torque_limit_nm"]
    same = [joint["torque_limit_nm"] for joint in yaml.safe_load((other / "robot.yaml").read_text())["joints"]]
    assert same == proposed
    _, plain = drafted(tmp_path / "as stated", text)
    assert not any("placeholder" in question for question in plain["questions"].values())


@pytest.mark.usefixtures("without_motions")
def test_equal_servos_are_accepted(tmp_path: Path) -> None:
    """Those of a wrist are far stronger than it needs; and a gripper's limit says nothing of its fingers' masses."""
    urdf = Path(__file__).parents[2] / "urdf" / "aloha_class" / "aloha_class.urdf"
    arm, said = drafted(tmp_path / "aloha", urdf.read_text())
    assert not any("placeholder" in question for question in said["questions"].values())
    text = random_arm(1)
    strongest = max(float(one) for one in re.findall(r'effort="([^"]*)"', text))
    arm, said = drafted(tmp_path / "same", re.sub(r'effort="[^"]*"', f'effort="{strongest}"', text))
    limits = [joint["torque_limit_nm"] for joint in yaml.safe_load((arm / "robot.yaml").read_text())["joints"]]
    assert set(limits) == {strongest} and not any("placeholder" in one for one in said["questions"].values())


@pytest.mark.usefixtures("without_motions")
def test_zero_or_implausibly_low_limits_are_asked_for(tmp_path: Path) -> None:
    text = re.sub(r'effort="[^"]*" velocity="[^"]*"', 'effort="0" velocity="0"', random_arm(1), count=1)
    _, said = drafted(tmp_path, text)
    assert "has no effort limit" in said["questions"]["joints.joint_0.torque_limit_nm"]
    assert "joints.joint_0.velocity_limit_rad_s" in said["questions"]
    slow = re.sub(r'velocity="[^"]*"', 'velocity="0.07"', random_arm(1), count=1)
    _, said = drafted(tmp_path / "slow", slow)
    assert "that slow" in said["questions"]["joints.joint_0.velocity_limit_rad_s"]


@pytest.mark.slow
@pytest.mark.usefixtures("without_motions")
def test_lambda_min_of_a_draft_follows_the_size_of_the_arm(tmp_path: Path) -> None:
    text, found = random_arm(1), []
    for name, share in (("larger", 10.0), ("large", 1.0), ("small", 0.01), ("tiny", 1e-4)):
        lighter = re.sub(
            r'(mass value|i[xyz][xyz])="([^"]*)"', lambda one, by=share: f'{one[1]}="{float(one[2]) * by:.9g}"', text
        )
        arm, _ = drafted(tmp_path / name, lighter)
        found.append(load_identification(load_robot(arm)).acceptance.lambda_min_kg_m2)
    assert found == [1e-4, pytest.approx(8.9e-5, rel=0.1), pytest.approx(0.01 * found[1], rel=0.2), 1e-6]


@pytest.mark.slow
@pytest.mark.usefixtures("without_motions")
def test_fingers_are_left_out_unless_they_are_named(tmp_path: Path) -> None:
    text, found = random_arm(4, odd=True), {}
    for name, options in (("out", ()), ("named", ("--decoupled", "finger")), ("tip", ("--tip", "left"))):
        found[name] = drafted(tmp_path / name, text, *options)[1]
    assert "finger" not in (*found["out"]["chain"], *found["out"]["decoupled"])
    assert "finger for fingers with too short a stroke" in found["out"]["questions"]["joints"]
    assert found["named"]["decoupled"] == ["finger"] and found["tip"]["chain"][-1] == "finger"
    assert found["out"]["fingers"] == ["finger"] and set(found["out"]["left_out"]) == {"finger", "follower"}
    assert found["named"]["chain"] == found["out"]["chain"] == found["tip"]["chain"][:-1]


@pytest.mark.usefixtures("without_motions")
def test_a_short_slide_that_carries_a_hand_is_no_finger(tmp_path: Path) -> None:
    slide = '<axis xyz="0 0 1"/><limit lower="0" upper="0.08" effort="50" velocity="0.3"/>'
    body = '<inertial><mass value="0.3"/><inertia ixx="1e-3" ixy="0" ixz="0" iyy="1e-3" iyz="0" izz="1e-3"/></inertial>'
    jaw = slide.replace("0.08", "0.03")
    hand = (
        f'<joint name="z" type="prismatic"><parent link="tool"/><child link="head"/>{slide}</joint>'
        f'<link name="head">{body}</link>'
        f'<joint name="jaw" type="revolute"><parent link="head"/><child link="lip"/>{slide}</joint>'
        f'<link name="lip">{body}</link><link name="tip">{body}</link>'
        f'<joint name="nail" type="prismatic"><parent link="head"/><child link="tip"/>{jaw}</joint>'
    )
    text = re.sub(r'<link name="left">.*(?=</robot>)', hand, random_arm(4, odd=True))
    _, said = drafted(tmp_path, text)
    assert said["chain"][-1] == "z" and said["decoupled"] == ["jaw"] and said["fingers"] == ["nail"]
    with pytest.raises(ConfigurationError, match=r"arm 1/joint-α\.1 cannot be decoupled"):
        drafted(tmp_path / "inside", text, "--tip", "tool", "--decoupled", "arm 1/joint-α.1")


@pytest.mark.slow
def test_urdf_without_masses_is_refused_with_the_reason(tmp_path: Path) -> None:
    arm, said = drafted(tmp_path, re.sub(r"<inertial>.*?</inertial>", "", random_arm(1)))
    assert "belongs to no body" in said["motions"] and "nominal.yaml" in said["motions"]
    with pytest.raises(InputNotFoundError, match="robot motions"):
        dynid("simulate", MOTIONS[0], "--robot", arm, "--out", tmp_path / "runs")


@pytest.mark.usefixtures("without_motions")
def test_rounded_multiples_of_45_degrees_become_exact(tmp_path: Path) -> None:
    """Axes that are parallel except for 4e-6 rad would put frames kilometres away."""
    exact = random_arm(1)
    path = tmp_path / "arm.urdf"
    for figure, meant in (("1.5708", np.pi / 2), ("-3.14159", -np.pi), ("0.7854", np.pi / 4), ("2e-09", 0.0)):
        path.write_text(f'<robot><origin xyz="0.1 0 0" rpy="0 {figure} 0"/></robot>')
        assert float(read_urdf_text(path).split('"')[3].split()[1]) == meant
    for figure in ("0.52", "1.2", "1.571e0", "0.7855", "x", "nan"):
        path.write_text(text := f'<robot><origin xyz="1.5708 0 0" rpy="0 {figure} 0"/></robot>')
        assert read_urdf_text(path) == text
    rounded = exact.replace("1.57079633", "1.5708").replace("0.785398163", "0.7854")
    assert rounded != exact
    arm, _ = drafted(tmp_path, rounded)
    assert np.abs(ArmModel.of(load_robot(arm)).mdh.d).max() < 5.0


@pytest.mark.parametrize(
    ("heads", "unit", "scale"),
    [
        (("q{}", "tau{}", "time"), "rad", 1.0),
        (("position_{}", "effort_{}", "t_ms"), "deg", 180.0 / np.pi),
        (("joint_{}.pos", "joint_{}.current", "stamp"), "rad", 1.0),
    ],
)
def test_a_mapping_is_drafted_from_a_header(
    tmp_path: Path, heads: tuple[str, str, str], unit: str, scale: float
) -> None:
    robot = load_robot("puma560")
    t = 0.01 * np.arange(50)
    q = 0.9 * np.minimum(robot.upper, 3.0) * np.sin(t[:, None] + np.arange(robot.size))
    names = [head.format(j + 1) for head in heads[:2] for j in range(robot.size)]
    clock = t * (1e3 if heads[2].endswith("ms") else 1.0)
    file = tmp_path / "run.csv"
    np.savetxt(file, np.c_[clock, scale * q, q], delimiter=",", header=",".join([heads[2], *names]), comments="")
    if "current" in heads[1]:  # of which this robot has no torque constants
        with pytest.raises(ConfigurationError, match="torque_constant"):
            dynid("robot", "mapping", file, "--robot", "puma560", "--out", tmp_path / "m.yaml")
        return
    said = dynid("robot", "mapping", file, "--robot", "puma560", "--out", tmp_path / "m.yaml")
    assert set(said["mapping"]["position"]["unit"]) == {unit}
    run = read_csv(file, robot, load_validated(tmp_path / "m.yaml", CsvMapping))
    np.testing.assert_allclose(run.q, q, atol=1e-9)
    np.testing.assert_allclose(run.time, t, atol=1e-9)


def test_a_header_without_torques_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run.csv").write_text("t,q1,q2,q3,q4,q5,q6\n0,0,0,0,0,0,0\n")
    with pytest.raises(DataError, match="has no 6 measured torque columns for robot 'puma560' by name"):
        dynid("robot", "mapping", tmp_path / "run.csv", "--robot", "puma560", "--out", tmp_path / "m.yaml")
    (tmp_path / "bare.csv").write_text("0,0,0\n1,0,0\n")
    with pytest.raises(DataError, match="no header"):
        dynid("robot", "mapping", tmp_path / "bare.csv", "--robot", "puma560", "--out", tmp_path / "m.yaml")
