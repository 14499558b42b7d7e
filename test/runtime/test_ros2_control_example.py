"""The example for ros2_control with a stub of its interfaces gives the torques of `Model.controller`."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from benchmarks.speed.known_models import known_model, random_states
from typer.testing import CliRunner

from dynid.cli import app
from dynid.model.model_file import ModelFile, friction_block, parameter_rows, save_model
from dynid.runtime.model import load_model

GXX = shutil.which("g++")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(GXX is None, reason="g++ is not installed")]
EXAMPLE = Path(__file__).parents[2] / "examples" / "ros2_control_controller"
MAIN = r"""
#include "dynid_effort_controller/core.hpp"

#include <cstdio>
#include <optional>

using namespace dynid_effort_controller;

struct State {  // as hardware_interface::LoanedStateInterface
  double now;
  std::optional<double> get_optional() const { return now; }
};
struct Command {  // as hardware_interface::LoanedCommandInterface
  double given;
  bool set_value(double value) { given = value; return true; }
};

int main() {
  std::vector<State> states(2 * kAxes);
  std::vector<Command> commands(kAxes, Command{-7.0});
  Core core;
  for (const auto &name : interface_names({"effort"})) std::printf("%s\n", name.c_str());
  Reference reference;
  auto read = [](double &value) { return std::scanf("%lf", &value) == 1; };
  bool first = true;
  for (;;) {
    for (auto &state : states) if (!read(state.now)) return 0;
    for (auto *row : {&reference.q, &reference.dq, &reference.ddq}) for (auto &value : *row) if (!read(value)) return 1;
    if (first) first = !core.activate(states);
    const bool done = core.update(states, first ? core.held() : reference, commands);
    std::printf("%d %d", done ? 1 : 0, usable(reference) ? 1 : 0);
    for (const auto &command : commands) std::printf(" %.17g", command.given);
    std::printf("\n");
  }
}
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return the program, and the model.yaml that is compiled into it."""
    folder = tmp_path_factory.mktemp("controller")
    known = known_model("crane_x7")
    assert known.friction_law is not None
    content = ModelFile(
        robot="crane_x7",
        structure_hash=known.arm().structure_hash,
        accepted=True,
        parameters=parameter_rows(known.arm(), known.base),
        friction_law=friction_block(known.friction_law),
    )
    save_model(folder / "model.yaml", content)
    exported = CliRunner().invoke(app, ["export", "c", str(folder / "model.yaml"), "--out", str(folder / "c")])
    assert exported.exit_code == 0, exported.output
    (folder / "main.cpp").write_text(MAIN)
    defined = ['-DDYNID_HEADER="crane_x7.h"', "-DDYNID_MODEL=crane_x7", "-DDYNID_MODEL_UPPER=CRANE_X7"]
    strict = ["-Wall", "-Wextra", "-Werror", "-O1"]
    subprocess.run(["gcc", "-std=c99", *strict, "-c", "c/crane_x7.c", "-o", "model.o"], cwd=folder, check=True)
    places = [f"-I{EXAMPLE / 'include'}", "-Ic"]
    command = ["g++", "-std=c++17", *strict, *defined, *places, "main.cpp", "model.o", "-o", "controller"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "controller", folder / "model.yaml"


def test_torques_are_those_of_the_python_controller(built: tuple[Path, Path]) -> None:
    program, path = built
    model = load_model(path)
    q, dq, ddq = random_states(8, 20, seed=2)
    q, near = 0.3 * q, 0.05 * np.roll(q, 1, axis=0)
    rows = [
        np.concatenate([np.stack([a, b], axis=1).ravel(), a + c, b, d])
        for a, b, c, d in zip(q, dq, near, ddq, strict=True)
    ]
    lines = ran(program, [*rows, np.full(40, np.nan)])
    assert lines[:8] == [f"{name}/effort" for name in model.robot.joint_names]
    values = np.array([line.split() for line in lines[8:]], dtype=float)
    controller = model.controller(500.0, proportional_gain_1_s2=400.0, velocity_gain_1_s=40.0)
    for row, a, b, c, d in zip(values, q, dq, near, ddq, strict=False):
        assert row[0] == 1.0
        np.testing.assert_allclose(row[2:], controller.step(a, a + c, b, d, dq=b), atol=1e-9)
    assert values[-1, 0] == values[-1, 1] == 0.0, "a state that is no number is an error, and so is such a reference"
    np.testing.assert_array_equal(values[-1, 2:], values[-2, 2:])


def test_rejected_model_does_not_compile(built: tuple[Path, Path], tmp_path: Path) -> None:
    folder = built[0].parent
    shutil.copytree(folder / "c", tmp_path / "c")
    header = tmp_path / "c" / "crane_x7.h"
    header.write_text(header.read_text().replace("CRANE_X7_ACCEPTED 1", "CRANE_X7_ACCEPTED 0"))
    defined = ['-DDYNID_HEADER="crane_x7.h"', "-DDYNID_MODEL=crane_x7", "-DDYNID_MODEL_UPPER=CRANE_X7"]
    command = ["g++", "-std=c++17", *defined, f"-I{EXAMPLE / 'include'}", "-Ic", "-fsyntax-only", folder / "main.cpp"]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert found.returncode != 0 and "must not move an arm" in found.stderr


def ran(program: Path, rows: list[np.ndarray]) -> list[str]:
    """Return the lines that the program prints for rows of states and references."""
    given = "\n".join(" ".join(map(repr, row.tolist())) for row in rows)
    return subprocess.run(
        [program], input=given, capture_output=True, text=True, check=True, timeout=60
    ).stdout.splitlines()
