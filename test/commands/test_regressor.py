"""The base regressor for any robot and states, with names and groupings, as a command and a function."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from dynid.cli import app
from dynid.errors import ConfigurationError, DataError, OutputExistsError, UnknownNameError
from dynid.model.base_regressor import base_regressor
from dynid.model.dynamics import ArmModel
from dynid.model.standard import load_standard
from dynid.robot import load_robot


def run(*arguments: str) -> Any:
    result = CliRunner().invoke(app, ["regressor", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.stdout


def states(path: Path, size: int, count: int = 4) -> np.ndarray:
    values = np.random.default_rng(1).uniform(-1, 1, (count, 3 * size))
    np.savetxt(path, values, delimiter=",")
    return values


@pytest.mark.parametrize("name", ["crane_x7", "tx40", "planar_3r"])
def test_regressor_names_and_groupings_belong_together(name: str) -> None:
    """The torques of standard parameters come out by way of the groupings that are handed out."""
    robot = load_robot(name)
    model = ArmModel.of(robot)
    standard = load_standard(robot.folder / "models" / "nominal.yaml", model.mdh, model.regrouping.standard)
    q, dq, ddq = np.random.default_rng(2).uniform(-1, 1, (3, 20, robot.size))
    base, full = base_regressor(name, q, dq, ddq), base_regressor(robot, q, dq, ddq, standard=True)
    phi = [sum(factor * standard[term] for term, factor in base.groupings[one].items()) for one in base.names]
    np.testing.assert_allclose(
        base.regressor @ phi, model.inverse_dynamics(q, dq, ddq, model.base_parameters(standard))
    )
    assert base.regressor.shape == (20, robot.size, len(base.names)) and len(base.units) == len(base.names)
    assert full.names == standard.names
    if model.structure.products_of_inertia and model.structure.coulomb_friction:
        np.testing.assert_allclose(full.regressor @ standard.values, base.regressor @ phi, atol=1e-9)
    assert not base.regressor.flags.writeable


def test_the_mount_changes_the_regressor_and_wrong_shapes_are_refused() -> None:
    q = np.zeros(3)
    up, flat = base_regressor("planar_3r", q, q, q), base_regressor("planar_3r", q, q, q, mount="flat")
    assert up.regressor.shape == (1, 3, 17) and flat.regressor.shape == (1, 3, 15)
    with pytest.raises(DataError, match=r"states must be \(N, 3\)"):
        base_regressor("planar_3r", np.zeros(2), np.zeros(2), np.zeros(2))
    with pytest.raises(UnknownNameError, match="unknown robot 'nope'"):
        base_regressor("nope", q, q, q)


def test_command_writes_the_result_of_the_function(tmp_path: Path) -> None:
    values = states(tmp_path / "states.csv", 6)
    out = tmp_path / "W.npz"
    text = run(str(tmp_path / "states.csv"), "--robot", "puma560", "--out", str(out))
    assert "4 states, 6 joints, 52 columns" in text and "ZZR1" in text
    stored = np.load(out)
    expected = base_regressor("puma560", values[:, :6], values[:, 6:12], values[:, 12:])
    np.testing.assert_allclose(stored["regressor"], expected.regressor)
    assert tuple(stored["names"]) == expected.names and tuple(stored["joint_names"]) == expected.joint_names
    assert json.loads(str(stored["groupings"])) == {name: dict(terms) for name, terms in expected.groupings.items()}
    with pytest.raises(OutputExistsError):
        run(str(tmp_path / "states.csv"), "--robot", "puma560", "--out", str(out))


def test_without_states_the_parameters_are_listed() -> None:
    found = json.loads(run("--robot", "planar_3r", "--json"))
    assert found["parameters"][1] == {"name": "MXR1", "unit": "kg*m", "grouping": {"MX1": 1.0, "M2": 0.3, "M3": 0.3}}
    assert len(found["parameters"]) == 17 and found["joints"] == ["joint_1", "joint_2", "joint_3"]
    assert len(json.loads(run("--robot", "planar_3r", "--standard", "--json"))["parameters"]) == 39


def test_unsuitable_options_and_state_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "states.csv"
    states(path, 3)
    with pytest.raises(ConfigurationError, match="give both states and --out"):
        run(str(path), "--robot", "planar_3r")
    with pytest.raises(ConfigurationError, match=r"must end with \.npz"):
        run(str(path), "--robot", "planar_3r", "--out", str(tmp_path / "W.csv"))
    with pytest.raises(DataError, match="has 9 columns; there is no column 10"):
        run(str(path), "--robot", "puma560", "--out", str(tmp_path / "W.npz"))
    states(path, 4)
    with pytest.raises(DataError, match="has 12 columns; expected 9"):
        run(str(path), "--robot", "planar_3r", "--out", str(tmp_path / "W.npz"))
    path.write_text("1,2,3,4,5,6,7,8,9\n1,2,3,4,5,6,7,8,x\n")
    with pytest.raises(DataError, match="line 2: 'x' in column 9 is not a number"):
        run(str(path), "--robot", "planar_3r", "--out", str(tmp_path / "W.npz"))
    assert not (tmp_path / "W.npz").exists()
