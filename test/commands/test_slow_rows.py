"""A log of 50 rows per second with delayed torques, from `dynid identify` to the commands that use the result."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

from dynid.cli import app
from dynid.control.control_model import from_model_file
from dynid.control.controller import load_controller
from dynid.control.selection import ControllerSelection
from dynid.model.model_file import read_model_file
from dynid.robot import load_robot

ROBOT = load_robot("crane_x7")
LATE_ROWS, RATE_HZ = 6, 50.0


def run(*arguments: str) -> dict[str, Any]:
    done = CliRunner().invoke(app, [*arguments, "--json"])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def late(path: Path) -> Path:
    """Write the run again with its torques some rows later."""
    head, *lines = path.read_text(encoding="utf-8").splitlines()
    rows = np.array([[float(cell) for cell in line.split(",")] for line in lines])
    n = rows.shape[1] // 2
    moved = np.column_stack([rows[LATE_ROWS:, : 1 + n], rows[:-LATE_ROWS, 1 + n :]])
    np.savetxt(path, moved, delimiter=",", header=head, comments="", fmt="%.9g")
    return path


@pytest.mark.slow
def test_model_from_slow_late_rows_passes_through_every_command(write_run: Callable[..., Path], tmp_path: Path) -> None:
    fitted, held = (late(write_run(ROBOT, f"{seed}.csv", rate_hz=RATE_HZ, seconds=60.0, seed=seed)) for seed in (1, 2))
    mapping, folder = ["--mapping", str(tmp_path / "mapping.yaml")], tmp_path / "model"
    arguments = [str(fitted), *mapping, "--validate", str(held), "--rows", "averaged", "--out", str(folder)]
    found = run("identify", *arguments)
    assert found["accepted"], [check for check in found["checks"] if not check["passed"]]
    assert "averages under test functions" in found["rows"]
    (delay,) = found["setup"]
    assert delay["value"] == pytest.approx(LATE_ROWS / RATE_HZ, abs=2e-3)
    assert found["determined"]["determined"] and any("The data determine" in note for note in found["notes"])
    content = yaml.safe_load((folder / "model.yaml").read_text(encoding="utf-8"))
    flags = {row["name"]: row["determined"] for row in content["parameters"]}
    assert {name for name, own in flags.items() if own} == set(found["determined"]["determined"])
    model = str(folder)
    assert CliRunner().invoke(app, ["audit", model]).exit_code == 0
    assert run("posterior", model, "--arms", "4", "--out", str(tmp_path / "arms"))["arms"] == 4
    assert CliRunner().invoke(app, ["report", model, "--out", str(tmp_path / "report.html")]).exit_code == 0
    in_time = write_run(ROBOT, "3.csv", rate_hz=RATE_HZ, seconds=30.0, seed=3)
    assert run("validate", model, str(in_time), *mapping)["accepted"]
    selection = ControllerSelection(ROBOT, load_controller(ROBOT))
    chosen = from_model_file(read_model_file(folder / "model.yaml"), selection.arm_model)
    selection.gate.check(chosen)
    selection.exchange(model=chosen, name="computed_torque")
    rest, still = np.array(ROBOT.rest_posture), np.zeros(ROBOT.size)
    selection.controller.reset(rest)
    assert np.isfinite(selection.controller.update(0.001, rest, rest + 0.01, still, still)).all()


@pytest.mark.slow
def test_the_delay_of_a_slow_log_is_estimated_whatever_makes_its_rows(
    write_run: Callable[..., Path], tmp_path: Path
) -> None:
    """A low-pass suits 50 rows per second as well, if the arm's motion is slow enough."""
    log = late(write_run(ROBOT, "1.csv", rate_hz=RATE_HZ, seconds=40.0, seed=1))
    found = run("identify", str(log), "--mapping", str(tmp_path / "mapping.yaml"), "--out", str(tmp_path / "model"))
    assert found["rows"] == "Rows are filtered and decimated."
    (delay,) = found["setup"]
    assert delay["value"] == pytest.approx(LATE_ROWS / RATE_HZ, abs=2e-3)
    assert not [check for check in found["checks"] if check["id"] == "suspicion" and not check["passed"]]


@pytest.mark.slow
def test_every_command_compensates_the_delay_of_a_slow_log(write_run: Callable[..., Path], tmp_path: Path) -> None:
    """Two runs of one arm whose logger is late: the arm is as its model says, and did not change."""
    planar = load_robot("planar_3r")
    made = [late(write_run(planar, f"{seed}.csv", rate_hz=RATE_HZ, seed=seed)) for seed in (1, 2)]
    first, second = map(str, made)
    own = ["--mapping", str(tmp_path / "mapping.yaml"), "--robot", "planar_3r"]

    def delay_ms(note: str) -> float:
        return float(note.partition("torques lag ")[2].split()[0])

    judged = run("validate", "nominal", second, *own)
    assert judged["accepted"], [check for check in judged["checks"] if not check["passed"]]
    changed = run("payload", first, second, *own)
    assert not [name for name, one in changed["changes"].items() if one["significant"]]
    compared = run("compare", first, "--validate", second, "--estimator", "ols", *own)
    assert compared["estimators"]["ols"]["relative_torque_error"]["out_of_sample"]["all"] < 0.05
    for found, count in ((judged, 1), (changed, 2), (compared, 1)):
        delays = [delay_ms(note) for note in found["notes"] if "compensated" in note]
        assert delays == pytest.approx(count * [1e3 * LATE_ROWS / RATE_HZ], abs=2.0)
    rows = np.loadtxt(second, delimiter=",", skiprows=1)
    rows[:, 3] = 0.1  # joint 3 stands, so the parameters with which a delay is found are not determined
    np.savetxt(second, rows, delimiter=",", header=made[0].read_text().splitlines()[0], comments="", fmt="%.9g")
    notes = run("validate", "nominal", second, *own)["notes"]
    assert any("2.csv: the delay of torques is unknown, so none is compensated" in note for note in notes)
