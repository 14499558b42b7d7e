"""A small result to report: a planar arm that is identified from one CSV file and judged by another."""

from pathlib import Path

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

from dynid.cli import app
from dynid.model.dynamics import ArmModel
from dynid.model.standard import load_standard
from dynid.robot import Robot, load_robot


def write_motion(robot: Robot, path: Path, seconds: float, seed: int, coulomb: float = 0.0) -> None:
    """A CSV of a sum of sines with the torques of the robot's nominal parameters, noise, and Coulomb friction."""
    rng, t = np.random.default_rng(seed), np.arange(0.0, seconds, 0.01)
    q, dq, ddq = np.zeros((3, len(t), robot.size))
    for j in range(robot.size):
        for frequency in rng.uniform(0.15, 0.7, 4):
            w, phase = 2 * np.pi * frequency, rng.uniform(0, 6)
            q[:, j] += 0.4 * np.sin(w * t + phase)
            dq[:, j] += 0.4 * w * np.cos(w * t + phase)
            ddq[:, j] -= 0.4 * w**2 * np.sin(w * t + phase)
    model = ArmModel.of(robot)
    standard = load_standard(robot.folder / "models" / "nominal.yaml", model.mdh, model.regrouping.standard)
    tau = model.regressor(q, dq, ddq) @ (model.regrouping.K @ standard.values) + coulomb * np.tanh(dq / 0.02)
    tau += 0.002 * robot.torque_limits * rng.normal(size=tau.shape)
    names = [f"{kind}{j}" for kind in ("q", "tau") for j in range(robot.size)]
    np.savetxt(path, np.column_stack([t, q, tau]), delimiter=",", header=",".join(["t", *names]), comments="")


@pytest.fixture(scope="session")
def runs(tmp_path_factory) -> Path:
    """A folder with fit.csv, other.csv and mapping.yaml of the planar arm."""
    folder, robot = tmp_path_factory.mktemp("runs"), load_robot("planar_3r")
    write_motion(robot, folder / "fit.csv", 30.0, 1)
    write_motion(robot, folder / "other.csv", 12.0, 7)
    mapping = {
        "schema_version": 1,
        "time": {"column": "t"},
        "position": {"columns": ["q0", "q1", "q2"], "unit": "rad"},
        "torque": {"columns": ["tau0", "tau1", "tau2"], "unit": "N m"},
    }
    (folder / "mapping.yaml").write_text(yaml.safe_dump(mapping))
    return folder


@pytest.fixture(scope="session")
def planar_result(runs: Path) -> Path:
    """The folder that `dynid identify` wrote."""
    arguments = [runs / "fit.csv", "--mapping", runs / "mapping.yaml", "--validate", runs / "other.csv"]
    out = runs / "model"
    command = ["identify", *map(str, arguments), "--robot", "planar_3r", "--out", str(out), "--json"]
    assert CliRunner().invoke(app, command, catch_exceptions=False).exit_code == 0
    return out
