"""CSV recordings of any robot: a smooth motion, and the torques of a model with known parameters."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import yaml

from dynid.model.dynamics import ArmModel
from dynid.model.standard import load_standard
from dynid.robot import FloatArray, Robot

WriteRun = Callable[..., Path]


def motion(robot: Robot, seconds: float, rate_hz: float, seed: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Positions, velocities, accelerations (N, n) of a sum of sines that stays within the joint limits."""
    rng = np.random.default_rng(seed)
    t = np.arange(round(seconds * rate_hz)) / rate_hz
    middle, half = 0.5 * (robot.lower + robot.upper), 0.5 * np.minimum(robot.upper - robot.lower, 4.0)
    q, dq, ddq = (np.zeros((len(t), robot.size)) for _ in range(3))
    for j in range(robot.size):
        shares = rng.dirichlet(np.ones(4)) * 0.9 * half[j]
        for amplitude, frequency, phase in zip(shares, rng.uniform(0.15, 0.7, 4), rng.uniform(0, 6, 4), strict=True):
            w = 2 * np.pi * frequency
            q[:, j] += amplitude * np.sin(w * t + phase)
            dq[:, j] += amplitude * w * np.cos(w * t + phase)
            ddq[:, j] -= amplitude * w**2 * np.sin(w * t + phase)
    return q + middle, dq, ddq


@pytest.fixture
def without_motions(monkeypatch: pytest.MonkeyPatch) -> None:
    """`robot new` drafts no motions: that takes its time, and kernels of its own for every arm."""
    monkeypatch.setattr("dynid.control.motion_draft.write_motions", lambda *_: None)


@pytest.fixture
def write_run(tmp_path: Path) -> WriteRun:
    """Write a CSV and its mapping (`mapping.yaml` beside it): torques of the robot's nominal parameters."""

    def write(
        robot: Robot,
        name: str = "run.csv",
        *,
        seconds: float = 30.0,
        rate_hz: float = 100.0,
        seed: int = 1,
        load: FloatArray | None = None,
        scale: FloatArray | float = 1.0,
        noise: float = 0.01,
    ) -> Path:
        model = ArmModel.of(robot)
        path = robot.folder / robot.file.simulation.standard_parameters
        standard = load_standard(path, model.mdh, model.regrouping.standard)
        values = np.array(standard.values)
        if load is not None:
            values[10 * (robot.chain_size - 1) : 10 * robot.chain_size] += load
        q, dq, ddq = motion(robot, seconds, rate_hz, seed)
        tau = model.regressor(q, dq, ddq) @ (model.regrouping.K @ values)
        rng = np.random.default_rng(seed + 100)
        tau = (tau + noise * robot.torque_limits * rng.normal(size=tau.shape) * 0.1) * scale
        header = ",".join(["t", *(f"q_{j}" for j in robot.joint_names), *(f"tau_{j}" for j in robot.joint_names)])
        rows = np.column_stack([np.arange(len(q)) / rate_hz, q, tau])
        np.savetxt(tmp_path / name, rows, delimiter=",", header=header, comments="", fmt="%.9g")
        mapping = {
            "schema_version": 1,
            "time": {"column": "t"},
            "position": {"columns": [f"q_{j}" for j in robot.joint_names], "unit": "rad"},
            "torque": {"columns": [f"tau_{j}" for j in robot.joint_names], "unit": "N m"},
        }
        (tmp_path / "mapping.yaml").write_text(yaml.safe_dump(mapping))
        return tmp_path / name

    return write
