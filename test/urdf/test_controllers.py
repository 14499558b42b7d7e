"""Parameters of the ros2_control controllers: names, claims, and gains that hold and move the simulated arm."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mujoco
import numpy as np
import pytest
import xacro

from dynid.documents import read_yaml
from dynid.resources import share_folder
from dynid.robot import load_robot
from dynid.simulation.plant.arm import ArmPlant

ROBOT = load_robot("crane_x7")
FILE = share_folder() / "config" / "crane_x7" / "ros2_control.yaml"
STEP_S = 0.001


def parameters(node: str) -> dict[str, Any]:
    found: dict[str, Any] = read_yaml(FILE)["/**"][node]["ros__parameters"]
    return found


def test_every_controller_is_declared_and_has_the_arms_joints_in_their_order() -> None:
    declared = parameters("controller_manager")
    types = {name: row["type"] for name, row in declared.items() if isinstance(row, dict)}
    assert set(types) == {"joint_state_broadcaster", "effort_controller", "joint_trajectory_controller"}
    assert declared["update_rate"] * ROBOT.file.bus.cycle_s == pytest.approx(1.0)
    for name in ("effort_controller", "joint_trajectory_controller"):
        assert tuple(parameters(name)["joints"]) == ROBOT.joint_names


def test_the_controllers_command_efforts_alone() -> None:
    assert parameters("effort_controller")["interface_name"] == "effort"
    trajectory = parameters("joint_trajectory_controller")
    assert trajectory["command_interfaces"] == ["effort"]
    assert trajectory["state_interfaces"] == ["position", "velocity"]
    for names in (trajectory["gains"], trajectory["constraints"]):
        assert set(ROBOT.joint_names) <= set(names)


class GazeboPlant:
    """The description that Gazebo gets: no rotors, but their inertia in the links; moved by MuJoCo."""

    def __init__(self, mount: str) -> None:
        given = {"ros2_control": "gazebo", "controllers_file": str(FILE), "mount": mount}
        folder = share_folder() / "urdf" / "crane_x7"
        text = xacro.process_file(str(folder / "crane_x7.urdf.xacro"), mappings=given).toxml()
        self.model = mujoco.MjModel.from_xml_string(text)
        self.model.opt.timestep, self.model.opt.integrator = STEP_S, mujoco.mjtIntegrator.mjINT_IMPLICITFAST
        self.model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
        assert not self.model.dof_armature.any()
        self.data = mujoco.MjData(self.model)
        self.rows = np.array([self.model.joint(name).qposadr[0] for name in ROBOT.joint_names])
        self.data.qpos[self.rows] = ROBOT.rest_posture

    def measure(self) -> SimpleNamespace:
        return SimpleNamespace(q=self.data.qpos[self.rows].copy(), dq=self.data.qvel[self.rows].copy())

    def set_currents(self, current_a: np.ndarray) -> None:
        self.data.qfrc_applied[self.rows] = current_a * ROBOT.torque_constants

    def advance(self, _: float) -> None:
        mujoco.mj_step(self.model, self.data)


def followed(mount: str, gain: float = 1.0, *, gazebo: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Errors and torques (N, n) while the trajectory controller's PID holds, moves every joint by 20 deg, and holds."""
    rows = [parameters("joint_trajectory_controller")["gains"][name] for name in ROBOT.joint_names]
    p, i, d, clamp = (np.array([row[key] for row in rows]) for key in ("p", "i", "d", "i_clamp"))
    plant = GazeboPlant(mount) if gazebo else ArmPlant(ROBOT, mount=mount, seed=4)
    start = plant.measure().q
    sign = np.where(start > 0.5 * (ROBOT.lower + ROBOT.upper), -1.0, 1.0)
    integral, errors, torques = np.zeros(8), [], []
    limits, tau = ROBOT.current_limits, np.zeros(8)
    for k in range(9000):
        share = np.clip((k * STEP_S - 2.0) / 3.0, 0.0, 1.0)
        blend, rate = share**2 * (3.0 - 2.0 * share), 6.0 * share * (1.0 - share) / 3.0
        reading = plant.measure()
        plant.set_currents(np.clip(tau / ROBOT.torque_constants, -limits, limits))  # a cycle late, as in ros2_control
        error = start + sign * np.deg2rad(20.0) * blend - reading.q
        integral = np.clip(integral + i * error * STEP_S, -clamp, clamp)
        tau = gain * (p * error + integral + d * (sign * np.deg2rad(20.0) * rate - reading.dq))
        plant.advance(STEP_S)
        errors.append(error)
        torques.append(tau)
    return np.array(errors), np.array(torques)


@pytest.mark.slow
@pytest.mark.parametrize("gazebo", [False, True], ids=["arm", "gazebo"])
@pytest.mark.parametrize("mount", ["upright", "hanging"])
def test_trajectory_controller_gains_keep_the_arm_within_tolerances(mount: str, gazebo: bool) -> None:
    constraints = parameters("joint_trajectory_controller")["constraints"]
    errors, torques = followed(mount, gazebo=gazebo)
    trajectory = [constraints[name]["trajectory"] for name in ROBOT.joint_names]
    goal = [constraints[name]["goal"] for name in ROBOT.joint_names]
    assert (np.abs(errors).max(axis=0) < trajectory).all()
    assert (np.abs(errors[-1]) < goal).all()
    assert (torques[-500:].std(axis=0) < 0.5).all()  # it rests, rather than oscillates within the tolerance


@pytest.mark.slow
def test_gains_that_are_too_high_are_noticed() -> None:
    """Far too high: the velocity is made from the encoder, so it rests while the joint moves within its play."""
    _, torques = followed("upright", gain=80.0)
    assert torques[-500:].std(axis=0).max() > 0.5


def test_no_integral_is_left_without_its_limit() -> None:
    """ "none" ignores the clamp in Jazzy, and "legacy" is unknown to later versions: the default limits it in both."""
    gains = parameters("joint_trajectory_controller")["gains"]
    for name in ROBOT.joint_names:
        assert "antiwindup_strategy" not in gains[name]
        assert gains[name]["i_clamp_max"] == -gains[name]["i_clamp_min"] == gains[name]["i_clamp"] > 0.0


def test_documented_limits_are_those_of_the_file() -> None:
    docs = Path(__file__).parents[2].joinpath("docs", "ros2.md").read_text(encoding="utf-8")
    ignored = re.search(r"ignores these limits unless its parameter `enforce_command_limits` is true", docs) is not None
    assert ignored is not parameters("controller_manager").get("enforce_command_limits", False)
