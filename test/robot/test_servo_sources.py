"""Servo descriptions of other software, and the robots that `robot new` drafts from them."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

from dynid.cli import app
from dynid.errors import ConfigurationError, UnknownNameError
from dynid.model.drivable import undrivable
from dynid.resources import share_folder
from dynid.robot import load_robot, xacro_file
from dynid.robot.check import check_robot
from dynid.robot.draft import draft_robot, write_draft
from dynid.robot.draft_servos import cycle_s
from dynid.robot.meshes import find_mesh
from dynid.robot.servo_sources import ServoLine, servos_of_file, servos_of_urdf
from dynid.robot.xacro_file import expanded

ARM = share_folder() / "urdf" / "planar_3r" / "planar_3r.urdf"
HARDWARE = """<hardware><plugin>p</plugin><param name="port_name">/dev/ttyACM3</param>
<param name="baud_rate">1000000</param>{more}</hardware>"""
GPIO = """<gpio name="dxl{k}"><param name="type">dxl</param><param name="ID">{servo}</param>
<param name="Operating Mode">0</param><param name="Drive Mode">{mode}</param></gpio>"""
INTERBOTIX = """
port: /dev/ttyDXL
joint_order: [joint_1, joint_2, joint_3]
sleep_positions: [0.1, -0.5, 0.3]
motors:
  joint_1: {ID: 1, Baud_Rate: 3, Drive_Mode: 0, Secondary_ID: 255}
  joint_2: {ID: 2, Baud_Rate: 3, Drive_Mode: 1, Secondary_ID: 255}
  joint_2_shadow: {ID: 3, Baud_Rate: 3, Drive_Mode: 0, Secondary_ID: 2}
  joint_3: {ID: 6, Baud_Rate: 3, Drive_Mode: 0, Secondary_ID: 255}
  gripper: {ID: 9, Baud_Rate: 3, Drive_Mode: 0, Secondary_ID: 255}
"""
RT = """
joint_groups:
  arm: {joints: [joint_1, joint_2, joint_3], sync_read: [position]}
joint_1: {id: 2, dynamixel: XM430-W350, operating_mode: 3}
joint_2: {id: 3, dynamixel: XM540-W270, operating_mode: 3}
joint_3: {id: 4, dynamixel: "XM430", operating_mode: 3}
"""


def with_block(folder: Path, block: str) -> Path:
    """Return a copy of the planar arm's URDF with a <ros2_control> block."""
    path = folder / "arm.urdf"
    text = ARM.read_text(encoding="utf-8").replace("</robot>", f"<ros2_control>{block}</ros2_control></robot>")
    path.write_text(text, encoding="utf-8")
    return path


def robotis(more: str = "", ids: tuple[int, ...] = (11, 12, 13)) -> str:
    joints = "".join(f'<joint name="joint_{k}"><command_interface name="effort"/></joint>' for k in (1, 2, 3))
    gpio = "".join(GPIO.format(k=k, servo=servo, mode=5 * (k == 1)) for k, servo in enumerate(ids))
    return HARDWARE.format(more=more) + joints + gpio


# -- what is read ----------------------------------------------------------------------------------------------


def test_robotis_block_gives_ids_line_and_reverse_mode(tmp_path: Path) -> None:
    source = servos_of_urdf(with_block(tmp_path, robotis()).read_text())
    assert source is not None and source.notes == ()
    assert {one.line for one in source.joints.values()} == {ServoLine("/dev/ttyACM3", 1_000_000)}
    assert [source.joints[f"joint_{k}"].servo_id for k in (1, 2, 3)] == [11, 12, 13]
    assert [source.joints[f"joint_{k}"].reverse_mode for k in (1, 2, 3)] == [False, True, False]


def test_a_transmission_says_which_servo_moves_which_joint(tmp_path: Path) -> None:
    more = '<param name="transmission_to_joint_matrix">0, 1, 0, -1, 0, 0, 0, 0, 1</param>'
    source = servos_of_urdf(with_block(tmp_path, robotis(more)).read_text())
    assert source is not None
    assert [source.joints[f"joint_{k}"].servo_id for k in (1, 2, 3)] == [12, 11, 13]
    assert [source.joints[f"joint_{k}"].gear_ratio for k in (1, 2, 3)] == [1.0, 1.0, 1.0]
    geared = servos_of_urdf(with_block(tmp_path, robotis(more.replace("-1", "-0.5"))).read_text())
    assert geared is not None and (geared.joints["joint_2"].gear_ratio, geared.joints["joint_2"].direction) == (2.0, -1)
    assert [source.joints[f"joint_{k}"].direction for k in (1, 2, 3)] == [1, -1, 1]


def test_a_matrix_with_the_row_of_a_mimic_joint_is_read(tmp_path: Path) -> None:
    more = '<param name="transmission_to_joint_matrix">0, 1, 0, -0.5, 0, 0, 0, 0, 1, 0, 0, 1</param>'
    mimic = '<joint name="finger"><param name="mimic">joint_3</param></joint>'
    source = servos_of_urdf(with_block(tmp_path, robotis(more) + mimic).read_text())
    assert source is not None and source.notes == () and set(source.joints) == {"joint_1", "joint_2", "joint_3"}
    assert (source.joints["joint_2"].gear_ratio, source.joints["joint_2"].direction) == (2.0, -1)


@pytest.mark.parametrize("matrix", ["0, 1, 0, -1, 0, 0, 0, 0", "1 0 0 0 -1 0 0 0 0.5f"])
def test_a_matrix_that_does_not_fit_is_not_used_and_said_so(tmp_path: Path, matrix: str) -> None:
    more = f'<param name="transmission_to_joint_matrix">{matrix}</param>'
    source = servos_of_urdf(with_block(tmp_path, robotis(more)).read_text())
    assert source is not None and "not one of 3 joints by 3 servos, and was not used" in source.notes[0]


@pytest.mark.parametrize("tag", ["mechanical_reduction", "mechanicalReduction"])
def test_a_reduction_in_a_transmission_is_named(tmp_path: Path, tag: str) -> None:
    def block(value: str) -> str:
        joint = f'<joint name="joint_2"><{tag}>{value}</{tag}></joint>'
        return with_block(tmp_path, robotis() + f'<transmission name="t">{joint}</transmission>').read_text()

    geared, plain = servos_of_urdf(block("3.0")), servos_of_urdf(block("1.0"))
    assert geared is not None and "joint joint_2 has a mechanical reduction of 3.0" in geared.notes[0]
    assert plain is not None and plain.notes == ()


def test_joints_with_ids_of_their_own_are_read(tmp_path: Path) -> None:
    joint = '<joint name="joint_{k}"><param name="id">{k}</param><param name="gear_ratio">2.0</param></joint>'
    block = HARDWARE.format(more="").replace("port_name", "usb_port") + "".join(joint.format(k=k) for k in (1, 2, 3))
    source = servos_of_urdf(with_block(tmp_path, block).read_text())
    assert source is not None and source.joints["joint_1"].line.port == "/dev/ttyACM3"
    assert [(one.servo_id, one.gear_ratio) for one in source.joints.values()] == [(1, 2.0), (2, 2.0), (3, 2.0)]


def test_a_urdf_without_a_block_names_no_servos() -> None:
    assert servos_of_urdf(ARM.read_text(encoding="utf-8")) is None


def test_shadows_reverse_modes_and_the_sleep_posture_come_from_interbotix_files(tmp_path: Path) -> None:
    path = tmp_path / "motors.yaml"
    path.write_text(INTERBOTIX)
    source = servos_of_file(path)
    assert source.joints["joint_2"].shadow_ids == (3,) and source.joints["joint_2"].reverse_mode
    assert set(source.joints) == {"joint_1", "joint_2", "joint_3", "gripper"}
    assert {one.line for one in source.joints.values()} == {ServoLine("/dev/ttyDXL", 1_000_000)}
    assert source.rest == {"joint_1": 0.1, "joint_2": -0.5, "joint_3": 0.3} and source.notes == ()


def test_a_pair_of_servos_with_equal_direction_is_asked_about(tmp_path: Path) -> None:
    path = tmp_path / "motors.yaml"
    path.write_text(INTERBOTIX.replace("Drive_Mode: 1", "Drive_Mode: 0"))
    assert "servos 2 and 3 of joint_2 have the same direction" in servos_of_file(path).notes[0]


def test_rts_file_names_models_where_they_are_whole(tmp_path: Path) -> None:
    path = tmp_path / "manipulator_config.yaml"
    path.write_text(RT)
    found = servos_of_file(path).joints
    assert [(one.servo_id, one.model) for one in found.values()] == [(2, "XM430-W350"), (3, "XM540-W270"), (4, "")]


@pytest.mark.parametrize(
    ("text", "said"),
    [("a: 1", "names no servos"), ("motors: {j: {ID: x}}", "j has ID 'x'"), ("joint_groups: {a: {joints: [j]}}", "id")],
)
def test_other_files_are_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "other.yaml"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=said):
        servos_of_file(path)


# -- what is drafted -------------------------------------------------------------------------------------------


def answered(folder: Path) -> None:
    """Take all questions out of a drafted robot: somebody has answered them."""
    content = yaml.safe_load((folder / "robot.yaml").read_text(encoding="utf-8"))
    content.pop("undecided")
    (folder / "robot.yaml").write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")


def test_robotis_urdf_gives_a_drivable_robot(tmp_path: Path) -> None:
    urdf, folder = with_block(tmp_path, robotis()), tmp_path / "arm"
    draft = draft_robot("arm", urdf, servo_models={"": "XM430-W350"})
    assert "4.1 N m over 2.3 A at 12 V" in draft.questions["servos.XM430-W350.torque_constant_nm_per_a"]
    physical = {"mounts_gravity_m_s2", "rest_posture", "physical_bounds", "physical_bounds.total_mass_kg"}
    others = {key for key in draft.questions if not key.endswith("current_limit_a")} - physical
    assert others == {"servos.XM430-W350.torque_constant_nm_per_a"}
    write_draft(draft, urdf, folder)
    answered(folder)
    robot = load_robot(folder)
    assert robot.servo_ids == (11, 12, 13) and [one.reverse_mode for one in robot.wired_servos] == [False, True, False]
    assert robot.torque_constants == pytest.approx(1.783) and list(undrivable(robot)) == []
    assert (robot.file.bus.port, robot.file.bus.baudrate, robot.file.bus.cycle_s) == ("/dev/ttyACM3", 1_000_000, 0.002)
    uses = {use.name: use.missing for use in check_robot(robot).uses}
    assert uses["identify from currents"] == "" and uses["drive the arm"].startswith("arm/excitation.yaml is missing")


def test_an_interbotix_file_gives_shadows_and_servos_that_move_no_joint(tmp_path: Path) -> None:
    motors, folder = tmp_path / "motors.yaml", tmp_path / "arm"
    motors.write_text(INTERBOTIX)
    draft = draft_robot("arm", ARM, servos=motors, servo_models={"": "XM540-W270", "joint_3": "XM430-W350"})
    assert "they stay without torque" in draft.questions["bus.other_ids"]
    assert not {"structure", "joints", "joints.gear_ratio"} & draft.questions.keys()
    write_draft(draft, ARM, folder)
    answered(folder)
    robot = load_robot(folder)
    assert robot.file.bus.other_ids == (9,) and robot.all_servo_ids == (1, 2, 6, 3)
    assert robot.torque_constants == pytest.approx([2.409, 4.818, 1.783])
    assert robot.file.rest_posture_deg == pytest.approx((5.7, -28.6, 17.2))
    with pytest.raises(UnknownNameError, match="unknown joint 'elbow'"):
        draft_robot("arm", ARM, servos=motors, servo_models={"elbow": "XM540-W270"})


def test_unnamed_models_are_asked_for(tmp_path: Path) -> None:
    draft = draft_robot("arm", with_block(tmp_path, robotis()))
    assert "servo 11: which is it?" in draft.questions["joints.joint_1.servo_model"]
    assert "servo_model" not in draft.content["joints"][0] and "servos" not in draft.content
    assert "structure" in draft.questions  # their gears are unknown


def test_models_without_current_control_or_unknown_ones_are_named(tmp_path: Path) -> None:
    urdf = with_block(tmp_path, robotis())
    with pytest.raises(UnknownNameError, match="unknown servo model 'HS-311'"):
        draft_robot("arm", urdf, servo_models={"": "HS-311"})
    draft = draft_robot("arm", urdf, servo_models={"": "XM430-W350", "joint_3": "XL430-W250"})
    assert draft.questions["joints.joint_3.servo_model"].startswith("XL430-W250 has no current control")
    assert "servo_model" not in draft.content["joints"][2] and draft.content["joints"][2]["servo_id"] == 13
    with pytest.raises(ConfigurationError, match="no <ros2_control> block"):
        draft_robot("arm", ARM, servo_models={"": "XM430-W350"})


@pytest.mark.parametrize(("servos", "rate", "cycle"), [(8, 3e6, 0.002), (9, 1e6, 0.003), (5, 4e6, 0.001)])
def test_cycles_have_room_for_the_wire(servos: int, rate: float, cycle: float) -> None:
    assert cycle_s(servos, int(rate)) == cycle


# -- xacro -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_xacro_is_expanded_with_its_arguments(tmp_path: Path) -> None:
    text = ARM.read_text(encoding="utf-8")
    head = '<xacro:arg name="first" default="joint_1"/>'
    start = text.index("<robot")
    end = text.index(">", start)
    text = text[:end] + ' xmlns:xacro="http://www.ros.org/wiki/xacro">' + head + text[end + 1 :]
    path = tmp_path / "arm.urdf.xacro"
    path.write_text(text.replace('name="joint_1"', 'name="$(arg first)"'), encoding="utf-8")
    assert 'name="joint_1"' in expanded(path, {}) and 'name="shoulder"' in expanded(path, {"first": "shoulder"})
    run = CliRunner().invoke(
        app,
        ["robot", "new", "arm", "--urdf", str(path), "--out", str(tmp_path / "x"), "--xacro-arg", "first:=shoulder"],
    )
    assert run.exit_code == 0, run.output
    assert load_robot(tmp_path / "x").joint_names[0] == "shoulder"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["package://arm_description/meshes/part.obj", "../meshes/part.obj"])
def test_meshes_of_a_xacro_in_its_package_are_kept(tmp_path: Path, name: str) -> None:
    """Meshes are found beside the xacro, and keep the names that other programs find in the package."""
    package = tmp_path / "arm_description"
    (package / "meshes").mkdir(parents=True)
    (package / "urdf").mkdir()
    corners = np.array([[0, 0, 0], [0.1, 0, 0], [0, 0.2, 0], [0, 0, 0.3]])
    lines = "".join(f"v {x} {y} {z}\n" for x, y, z in corners) + "f 1 2 3\nf 1 2 4\n"
    (package / "meshes" / "part.obj").write_text(lines)
    mesh = f'<collision><geometry><mesh filename="{name}"/></geometry></collision>'
    text = re.sub(r"(<link name=[^/>]*>)", rf"\1{mesh}", ARM.read_text(encoding="utf-8"))
    (package / "urdf" / "arm.urdf.xacro").write_text(text, encoding="utf-8")
    run = CliRunner().invoke(
        app, ["robot", "new", "arm", "--urdf", str(package / "urdf" / "arm.urdf.xacro"), "--out", str(tmp_path / "x")]
    )
    assert run.exit_code == 0, run.output
    shutil.rmtree(package)
    robot = load_robot(tmp_path / "x")
    assert name in robot.urdf_path.read_text(encoding="utf-8")
    assert find_mesh(name, tmp_path / "x").is_relative_to(tmp_path / "x")
    assert all(link.box_upper_m is not None for link in robot.file.physical_bounds.links)


def test_invalid_xacro_is_refused_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "bad.xacro"
    path.write_text('<robot xmlns:xacro="http://www.ros.org/wiki/xacro"><link name="${a + b}"/></robot>')
    with pytest.raises(ConfigurationError, match=r"xacro cannot expand .*bad.xacro \(arguments: a:=1\)"):
        expanded(path, {"a": "1"})


def test_errors_of_xacro_are_one_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.xacro"
    path.write_text('<robot xmlns:xacro="http://www.ros.org/wiki/xacro"><link name="${a +\n\n b}"/></robot>')
    with pytest.raises(ConfigurationError) as refused:
        expanded(path, {})
    assert "\n" not in str(refused.value) and "'a' is not defined" in str(refused.value)


TWICE = (
    '<xacro:macro name="m" params="n"><xacro:if value="${n > 0}"><xacro:m n="${n - 1}"/><xacro:m n="${n - 1}"/>'
    '</xacro:if></xacro:macro><xacro:m n="40"/>'
)


@pytest.mark.slow
@pytest.mark.parametrize("inner", [TWICE, '<link name="${9**9**9}"/>', '<link name="${[0] * 10**10}"/>'])
def test_an_endless_xacro_expansion_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inner: str) -> None:
    monkeypatch.setattr(xacro_file, "CPU_S", 2)
    path = tmp_path / "long.xacro"
    path.write_text(f'<robot xmlns:xacro="http://www.ros.org/wiki/xacro">{inner}</robot>')
    with pytest.raises(ConfigurationError, match=r"xacro cannot expand .*long\.xacro.*: it (takes|needs) more than"):
        expanded(path, {})


# -- friction that nobody has figures of -------------------------------------------------------------------------


def test_gear_friction_without_figures_is_not_ready_to_simulate(tmp_path: Path) -> None:
    folder = tmp_path / "arm"
    write_draft(draft_robot("arm", ARM), ARM, folder)
    answered(folder)
    content = yaml.safe_load((folder / "robot.yaml").read_text(encoding="utf-8"))
    content["simulation"]["friction"] = "M6"
    (folder / "robot.yaml").write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    uses = {use.name: use.missing for use in check_robot(load_robot(folder)).uses}
    assert uses["simulate"].startswith("simulation.friction is M6; the known models of this arm's gears are viscous")
