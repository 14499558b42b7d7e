"""Servos of arms that differ from the usual: several lines, slow lines, sliding joints, gears, branches and shadows."""

import re
from pathlib import Path

import pytest
import yaml

from dynid.errors import ConfigurationError
from dynid.model.drivable import undrivable
from dynid.resources import share_folder
from dynid.robot import load_robot
from dynid.robot.draft import Draft, draft_robot, write_draft
from dynid.robot.draft_servos import unfit_rate
from dynid.robot.servo_sources import servos_of_file, servos_of_urdf

ARM = (share_folder() / "urdf" / "planar_3r" / "planar_3r.urdf").read_text(encoding="utf-8")
MODEL = {"": "XM430-W350"}


def block(joints: dict[str, int], port: str = "/dev/ttyA", rate: int = 1_000_000, more: str = "") -> str:
    """A block as the package dynamixel_hardware reads it."""
    rows = "".join(f'<joint name="{name}"><param name="id">{one}</param>{more}</joint>' for name, one in joints.items())
    line = f'<param name="usb_port">{port}</param><param name="baud_rate">{rate}</param>'
    return f"<ros2_control><hardware>{line}</hardware>{rows}</ros2_control>"


def gpio(*servos: str) -> str:
    """A block as ROBOTIS writes it, of which each servo is given by its parameters."""
    joints = "".join(f'<joint name="joint_{k}"/>' for k in (1, 2, 3))
    rows = "".join(f'<gpio name="d"><param name="type">dxl</param>{one}</gpio>' for one in servos)
    return f"<ros2_control><hardware/>{joints}{rows}</ros2_control>"


def parameter(name: str, value: int) -> str:
    return f'<param name="{name}">{value}</param>'


def drafted(folder: Path, control: str, text: str = ARM, **options: object) -> Draft:
    path = folder / "arm.urdf"
    path.write_text(text.replace("</robot>", f"{control}</robot>"), encoding="utf-8")
    return draft_robot("arm", path, **({"servo_models": MODEL} | options))


def test_each_arm_gets_its_own_line(tmp_path: Path) -> None:
    """The IDs of servos on another line are no business of this one."""
    other = '<link name="o"/><joint name="other" type="continuous"><parent link="base_link"/><child link="o"/></joint>'
    control = block({"other": 1}, "/dev/ttyOTHER", 57_600) + block({f"joint_{k}": k for k in (1, 2, 3)}, "/dev/ttyOWN")
    draft = drafted(tmp_path, control, ARM.replace("</robot>", f"{other}</robot>"), tip="link_3")
    assert draft.content["bus"] == {"baudrate": 1_000_000, "cycle_s": 0.002, "port": "/dev/ttyOWN"}
    assert not {"bus.other_ids", "bus.port", "bus.baudrate"} & draft.questions.keys()
    first = block({"joint_1": 1, "joint_2": 2})
    said = "joint_1, joint_2 on /dev/ttyA; joint_3 on /dev/ttyB"
    assert said in drafted(tmp_path, first + block({"joint_3": 3}, "/dev/ttyB")).questions["bus.port"]
    with pytest.raises(ConfigurationError, match=said):
        drafted(tmp_path, first + block({"joint_3": 1}, "/dev/ttyB"))


@pytest.mark.parametrize(("rate", "said"), [(57_600, "a cycle of 3 servos takes"), (1_234_567, "have no baud rate of")])
def test_lines_that_are_too_slow_are_asked_about_and_not_driven(tmp_path: Path, rate: int, said: str) -> None:
    draft = drafted(tmp_path, block({f"joint_{k}": k for k in (1, 2, 3)}, rate=rate))
    assert said in draft.questions["bus.baudrate"] and "1000000, 2000000" in draft.questions["bus.baudrate"]
    write_draft(draft, tmp_path / "arm.urdf", tmp_path / "arm")
    file = tmp_path / "arm" / "robot.yaml"
    content = yaml.safe_load(file.read_text())
    del content["undecided"]
    file.write_text(yaml.safe_dump(content))
    (why,) = undrivable(load_robot(tmp_path / "arm"))
    assert said in why


def test_a_line_that_a_fast_sync_read_makes_quick_enough_is_driven() -> None:
    """Sixteen servos of a hand at 1 Mbit/s: 3.6 ms, where single replies take 4.6 ms."""
    assert unfit_rate(16, 1_000_000) == "" and "takes 6.11 ms" in unfit_rate(30, 1_000_000)


def test_servos_behind_gears_turn_no_faster_than_they_can(tmp_path: Path) -> None:
    """Placeholders of the URDF are no speeds either."""
    control = block({f"joint_{k}": k for k in (1, 2, 3)}, more='<param name="gear_ratio">3</param>')
    draft = drafted(tmp_path, control, re.sub(r'velocity="[^"]*"', 'velocity="100"', ARM))
    assert [row["velocity_limit_rad_s"] for row in draft.content["joints"]] == pytest.approx([4.82 / 3.0] * 3, rel=0.01)
    assert "which XM430-W350 reaches without load at 12 V" in draft.questions["joints.joint_1.velocity_limit_rad_s"]


def test_sliding_joints_have_a_travel_per_turn(tmp_path: Path) -> None:
    text = ARM.replace('name="joint_1" type="revolute"', 'name="joint_1" type="prismatic"')
    text = text.replace('lower="-2.6" upper="2.6"', 'lower="0" upper="0.5"', 1)
    draft = drafted(tmp_path, block({f"joint_{k}": k for k in (1, 2, 3)}), text)
    assert "how far does its servo turn for a metre" in draft.questions["joints.joint_1.gear_ratio"]
    assert draft.content["joints"][0]["gear_ratio"] == 100.0 and "gear_ratio" not in draft.content["joints"][1]


def test_a_branch_as_long_as_the_chain_is_no_hand(tmp_path: Path) -> None:
    camera = '<link name="c"/><joint name="tilt" type="continuous"><parent link="link_1"/><child link="c"/></joint>'
    with pytest.raises(ConfigurationError, match=r"branch behind joint_1, .*\(joint_2, joint_3\) .* --tip link_3"):
        drafted(tmp_path, "", ARM.replace("</robot>", f"{camera}</robot>"), servo_models=None)
    hand = camera.replace("link_1", "link_2")
    draft = drafted(tmp_path, "", ARM.replace("</robot>", f"{hand}</robot>"), servo_models=None)
    assert draft.decoupled == ("joint_3", "tilt") and "as decoupled" in draft.questions["joints"]


def test_shadows_and_offsets_of_a_robotis_block_are_read(tmp_path: Path) -> None:
    servos = [parameter("ID", one) for one in (1, 2, 3, 4)]
    servos[2] += parameter("Secondary ID", 2)
    servos[3] += parameter("Homing Offset", 100)
    source = servos_of_urdf(ARM.replace("</robot>", f"{gpio(*servos)}</robot>"))
    assert source is not None and "servos 4 have a homing offset" in " ".join(source.notes)
    found = [(one.servo_id, one.shadow_ids) for one in source.joints.values()]
    assert found == [(1, ()), (2, (3,)), (4, ())]


@pytest.mark.parametrize(
    ("ids", "said"),
    [((1, 2, 300), "joint_3 the servo ID 300, expected 0 to 252"), ((1, 2, 2), "joint_2 and joint_3 the same servo")],
)
def test_impossible_ids_are_named(tmp_path: Path, ids: tuple[int, ...], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        drafted(tmp_path, block({f"joint_{k}": one for k, one in enumerate(ids, 1)}))


def test_leading_zeros_and_whole_reductions_are_no_faults(tmp_path: Path) -> None:
    reduction = (
        "<transmission><joint name='joint_1'><mechanicalReduction>1.000</mechanicalReduction></joint></transmission>"
    )
    text = block({f"joint_{k}": k for k in (1, 2, 3)}).replace(">1<", ">01<").replace(">2<", ">0x02<")
    source = servos_of_urdf(ARM.replace("</robot>", f"{text}{reduction}</robot>"))
    assert source is not None and [one.servo_id for one in source.joints.values()] == [1, 2, 3] and source.notes == ()


def test_damaged_files_of_servos_are_named_and_not_the_urdf(tmp_path: Path) -> None:
    path = tmp_path / "servos.yaml"
    path.write_text("joint_groups: {arm: [joint_1]}\n")
    with pytest.raises(ConfigurationError, match=r"servos\.yaml is not a valid file of servos"):
        drafted(tmp_path, "", servos=path)
    path.write_text("joint_groups: {arm: {joints: [joint_1]}}\njoint_1: {id: 7, dynamixel: XM430-W350}\n")
    assert servos_of_file(path).joints["joint_1"].servo_id == 7
    chosen = drafted(tmp_path, "", servos=path, servo_models={"joint_1": "XM540-W270"})
    assert chosen.content["joints"][0]["servo_model"] == "XM540-W270"


def test_a_joint_that_follows_another_within_the_chain_is_named(tmp_path: Path) -> None:
    text = re.sub(r'(<joint name="joint_2".*?)</joint>', r'\1<mimic joint="joint_1"/></joint>', ARM, flags=re.DOTALL)
    draft = drafted(tmp_path, "", text, servo_models=None)
    assert "joint_2 follows joint_1 in the URDF, so the model of all links beyond it" in draft.questions["joints"]
