"""A model as C99: strict compilers accept it, sanitizers report nothing, and its values equal the model's."""

import ctypes
import math
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benchmarks.speed.c_library import STRICT, CLibrary
from benchmarks.speed.known_models import LAWS, ROBOTS, known_model, random_states
from geared_arms import variant
from spring_arms import spring_arm
from tracked_sine import tracked

from dynid.errors import ConfigurationError
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray, Robot
from dynid.runtime.c_folder import write_c
from dynid.runtime.c_function import CFunction
from dynid.runtime.c_program import double_number, float_number
from dynid.runtime.c_source import CSource, identifier
from dynid.runtime.model import Model

GCC = shutil.which("gcc")
pytestmark = pytest.mark.skipif(GCC is None, reason="gcc is not installed")
COMPILERS = (("gcc", "-std=c99"), ("clang", "-std=c99"), ("g++", "-x", "c++", "-std=c++11"))
CRANE = known_model("crane_x7")


def written(model: Model, folder: Path, single: bool = False) -> tuple[Path, str]:
    """Write a model as C into a new folder; returns the folder and the prefix."""
    folder.mkdir()
    source = CSource(model, 64 * "a", single)
    write_c(folder, source)
    return folder, source.name


def build(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, timeout=300)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr[:4000]}"


def ran(folder: Path, name: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(folder / name)], capture_output=True, text=True, check=False, timeout=60)


def compare(model: Model, library: CLibrary, tolerance: float, states: int = 300, turns: float = 0.0) -> None:
    n = model.robot.size
    q, dq, ddq = (np.asarray(one.astype(library.kind), dtype=np.float64) for one in random_states(n, states, seed=7))
    slides = np.array(model.robot.prismatic)
    far = q + np.where(
        slides, 0.0, 2.0 * np.pi * np.round(turns * np.random.default_rng(1).uniform(-1.0, 1.0, q.shape))
    )
    load = model.gravity(q)
    pairs = (
        (library("inverse_dynamics", n, far, dq, ddq), model.torques(far, dq, ddq)),
        (library("gravity", n, far), model.gravity(far)),
        (library("friction", n, dq, load), model.friction(dq, load)),
        (library("inertia_matrix", n * n, far), model.inertia_matrix(far).reshape(states, -1)),
    )
    for found, expected in pairs:
        scale = max(1.0, float(np.abs(expected).max()))
        np.testing.assert_allclose(found, expected, atol=tolerance * scale, rtol=0.0)


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("robot", ROBOTS)
def test_values_are_the_models_at_angles_of_any_size(robot: str, law: str, tmp_path: Path) -> None:
    model = known_model(robot, law)
    compare(model, CLibrary(model, tmp_path / "c"), 1e-9, turns=5.0)


@pytest.mark.slow
def test_float_is_near_enough_for_a_microcontroller(tmp_path: Path) -> None:
    compare(CRANE, CLibrary(CRANE, tmp_path / "c", single=True), 1e-4)


def with_every_dry_term(robot: Robot) -> Model:
    """The arm with Coulomb friction, offsets and coupled motors' friction among its base parameters."""
    structure = robot.file.structure.model_copy(update={"coulomb_friction": True, "friction_offset": True})
    robot = Robot(robot.file.model_copy(update={"structure": structure}), robot.folder)
    names = ArmModel.of(robot).names
    return Model(robot, BaseParameters(names, np.linspace(0.2, 1.0, len(names))), accepted=True)


@pytest.mark.slow
def test_springs_coupled_motors_and_dry_base_parameters_are_there(tmp_path: Path) -> None:
    sprung, dry = known_model(spring_arm()), with_every_dry_term(variant("coupled", tmp_path))
    for k, model in enumerate((sprung, dry)):
        compare(model, CLibrary(model, tmp_path / str(k)), 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("command", COMPILERS, ids=lambda one: one[0])
def test_strict_compilers_accept_it_and_its_own_test_passes(command: tuple[str, ...], tmp_path: Path) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    bare = replace(known_model("puma560"), friction_law=None)
    for k, (model, single) in enumerate(((CRANE, False), (known_model("puma560", "plain"), True), (bare, False))):
        folder, name = written(model, tmp_path / str(k), single)
        for program in (f"test_{name}", f"example_{name}"):
            build([*command, "-O1", *STRICT, f"{name}.c", f"{program}.c", "-o", program, "-lm"], folder)
            assert ran(folder, program).returncode == 0
        assert re.search(r"largest difference [\d.e-]+, allowed", ran(folder, f"test_{name}").stdout)


def test_conditions_have_one_pair_of_parentheses_as_clang_asks(tmp_path: Path) -> None:
    folder, name = written(CRANE, tmp_path / "c")
    text = (folder / f"{name}.c").read_text(encoding="utf-8")
    assert re.search(r"if \([^()]+ == [^()]+\) \{", text)
    assert re.findall(r"if \(\([^()]*\)\)", text) == []


@pytest.mark.slow
def test_sanitizers_report_no_error(tmp_path: Path) -> None:
    folder, name = written(CRANE, tmp_path / "c")
    check = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    for program in (f"test_{name}", f"example_{name}"):
        build(["gcc", "-std=c99", *STRICT, *check, f"{name}.c", f"{program}.c", "-o", program, "-lm"], folder)
        done = ran(folder, program)
        assert done.returncode == 0 and done.stderr == "", done.stderr[:2000]


def test_the_generated_test_rejects_a_changed_parameter(tmp_path: Path) -> None:
    folder, name = written(CRANE, tmp_path / "c")
    text = (folder / f"{name}.c").read_text(encoding="utf-8")
    first = re.search(r"PHI\[\d+\] = \{([^,]+),", text)
    assert first is not None
    changed = text.replace(f"= {{{first[1]},", f"= {{{float(first[1]) + 1e-6!r},")
    (folder / f"{name}.c").write_text(changed, encoding="utf-8")
    build(["gcc", "-std=c99", f"{name}.c", f"test_{name}.c", "-o", "values", "-lm"], folder)
    assert ran(folder, "values").returncode == 1


def test_the_c_source_has_no_writable_globals(tmp_path: Path) -> None:
    if shutil.which("nm") is None:
        pytest.skip("nm is not installed")
    folder, name = written(CRANE, tmp_path / "c")
    build(["gcc", "-std=c99", "-fno-pic", "-c", f"{name}.c", "-o", "model.o"], folder)
    listed = subprocess.run(["nm", "model.o"], capture_output=True, text=True, check=True, cwd=folder).stdout
    kinds = {line.split()[-2] for line in listed.splitlines()}
    assert kinds <= set("rRtTU"), listed  # read-only data, code, and what libm has
    undefined = {line.split()[-1] for line in listed.splitlines() if " U " in line}
    assert undefined <= {"tanh", "exp", "pow", "floor", "copysign", "fabs", "_GLOBAL_OFFSET_TABLE_"}


def test_control_law_is_that_of_the_python_controller(tmp_path: Path) -> None:
    library, n = CLibrary(CRANE, tmp_path / "c"), CRANE.robot.size
    q, dq, ddq = random_states(n, 50, seed=9)
    gains = {"proportional_gain_1_s2": 30.0, "velocity_gain_1_s": 5.0}
    controller = CRANE.controller(1000.0, **gains)
    ones = np.ones_like(q)
    found = library("computed_torque", n, q, dq[::-1], q + 0.1, dq, ddq, 30.0 * ones, 5.0 * ones)
    expected = [controller.step(q[k], q[k] + 0.1, dq[k], ddq[k], dq=dq[49 - k]).copy() for k in range(50)]
    np.testing.assert_allclose(found, expected, atol=1e-9)
    far = library("computed_torque", n, q, dq, q + 9.0, dq, ddq, 300.0 * ones, 5.0 * ones)
    assert (np.abs(far) <= CRANE.robot.torque_limits).all()
    assert (np.abs(far) == CRANE.robot.torque_limits).any()
    broken, kept = np.where(np.arange(n) == 3, np.nan, q[0]), np.full(n, 7.0)
    given = (broken, dq[0], q[0], dq[0], ddq[0], ones[0], ones[0], kept)
    call = library.library.crane_x7_computed_torque
    assert call(*(np.ascontiguousarray(one).ctypes.data_as(ctypes.c_void_p) for one in given)) == -1


@pytest.mark.slow
def test_control_law_follows_a_sine_in_mujoco_as_the_python_controller_does(tmp_path: Path) -> None:
    n, library, controller = CRANE.robot.size, CLibrary(CRANE, tmp_path / "c"), CRANE.controller(1000.0)
    gains = 400.0 * np.ones(n), 40.0 * np.ones(n)

    def in_c(*inputs: FloatArray) -> FloatArray:
        return library("computed_torque", n, *(one[None] for one in (*inputs, *gains)))[0]

    def in_python(q: FloatArray, dq: FloatArray, *reference: FloatArray) -> FloatArray:
        return controller.step(q, *reference, dq=dq)

    found, expected = tracked(CRANE, 1000.0, in_c), tracked(CRANE, 1000.0, in_python)
    assert found.max() < 0.2
    np.testing.assert_allclose(found, expected, atol=1e-6)


OWN_PARTS = r"""
#include <stdio.h>
static double written;
static int held;
static void read_state(double *q, double *dq) { for (int i = 0; i < 8; i++) { q[i] = READ; dq[i] = 0.1; } }
static void next_reference(double *q, double *dq, double *ddq)
{
    for (int i = 0; i < 8; i++) { q[i] = 0.3; dq[i] = 0.1; ddq[i] = 0.0; }
}
static void hold_by_the_servos(void) { held = 1; }
static void write_torques(const double *tau) { written = tau[1]; }
void every_2_ms(void);
"""


@pytest.mark.slow
def test_loop_of_the_documentation_writes_the_models_torques_or_holds(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "controller.md").read_text(encoding="utf-8")
    block = re.findall(r"^```c\n(.*?)^```", page, re.MULTILINE | re.DOTALL)[0]
    folder, name = written(CRANE, tmp_path / "c")
    shown = 'int main(void) { every_2_ms(); printf("%.12g %d\\n", written, held); return 0; }\n'
    (folder / "loop.c").write_text(OWN_PARTS + block + shown, encoding="utf-8")
    lines = []
    for k, read in enumerate(("0.3", "HUGE_VAL")):
        command = ["gcc", "-std=c99", *STRICT, "-include", "math.h", f"-DREAD={read}", f"{name}.c", "loop.c", "-lm"]
        build([*command, "-o", f"loop{k}"], folder)
        lines.append(ran(folder, f"loop{k}").stdout.split())
    rate, near = np.full((2, 8), 0.1), np.full(8, 0.3)
    expected = CRANE.controller(500.0).step(near, near, rate[0], 0.0 * near, dq=rate[1])
    assert float(lines[0][0]) == pytest.approx(expected[1], abs=1e-9) and lines[0][1] == "0"
    assert lines[1] == ["0", "1"]


def test_names_limits_and_acceptance_are_in_the_files(tmp_path: Path) -> None:
    folder, name = written(CRANE, tmp_path / "c")
    header, source = ((folder / f"{name}.{end}").read_text(encoding="utf-8") for end in "hc")
    assert "#define CRANE_X7_ACCEPTED 1" in header and 64 * "a" in source and ": accepted." in header
    assert all(f'"{one}"' in source for one in CRANE.robot.joint_names)
    assert f"torque_limit[N] = {{{float(CRANE.robot.torque_limits[0])!r}," in source
    rejected = CSource(replace(CRANE, accepted=False), 64 * "b")
    assert rejected.name == "crane_x7_rejected" and "NOT ACCEPTED: never move an arm" in rejected.header()
    assert "#define CRANE_X7_REJECTED_ACCEPTED 0" in rejected.header()
    assert identifier("7 dof/arm-α") == "arm_7_dof_arm__"


@pytest.mark.slow
def test_cmake_builds_and_tests_it(tmp_path: Path) -> None:
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not installed")
    folder, _ = written(CRANE, tmp_path / "c")
    for command in (
        ["cmake", "-S", ".", "-B", "build"],
        ["cmake", "--build", "build"],
        ["ctest", "--test-dir", "build"],
    ):
        build(command, folder)


def test_python_without_a_translation_is_refused() -> None:
    def looked_up(x: float) -> float:
        return {"a": x}["a"]

    with pytest.raises(ConfigurationError, match=r"looked_up has .*no translation to C"):
        CFunction(looked_up, {}, {}, double_number, "several", frozenset()).text()


@pytest.mark.parametrize("value", [0.0, 1.0, -2.5, 1e-12, 123456789.0, math.pi, 1e20])
def test_numbers_are_c_literals_that_read_back(value: float) -> None:
    assert float(double_number(value)) == value and re.fullmatch(r"-?[\d.e+-]+", double_number(value))
    single = float_number(value)
    assert re.fullmatch(r"-?\d+(\.\d+)?(e[+-]\d+)?f", single) and ("." in single or "e" in single)
    assert np.float32(float(single[:-1])) == np.float32(value)
