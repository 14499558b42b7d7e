"""An installed dynid, without a checkout in sight: every command has its help, and the methods run to their end.

Two installations are made from a copy of the packaged folders alone: the wheel in a virtual environment of its own, and
a workspace that colcon built. All work is done from a folder that holds nothing else.
"""

import json
import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from package_copy import ROOT, copy_package

from dynid.commands import COMMANDS

ROBOT = "crane_x7"
METHODS = ("regression", "closed-loop", "campaign")
MOTIONS = ("demo_identification", "demo_validation")
Command = Callable[..., subprocess.CompletedProcess[str]]
pytestmark = pytest.mark.slow


def finished(words: list[str], folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a command to its end and return it; fail with what it printed if it ended with another code than 0."""
    unset = ("PYTHONPATH", "PYTHONHOME", "AMENT_PREFIX_PATH")
    kept = {name: value for name, value in os.environ.items() if name not in unset}
    done = subprocess.run(
        words, cwd=folder, env={**kept, **environment}, capture_output=True, text=True, check=False, timeout=800
    )
    assert done.returncode == 0, f"{words}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done


def wheel_command(folder: Path) -> list[str]:
    """Build the wheel, install it into an environment that has dynid's dependencies, and return its command."""
    package, wheels, venv = copy_package(folder / "package"), folder / "wheels", folder / "venv"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    finished([*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", str(wheels), str(package)], folder, {})
    (wheel,) = wheels.glob("dynid-*.whl")
    finished([sys.executable, "-m", "venv", "--without-pip", str(venv)], folder, {})
    (site,) = venv.glob("lib/python*/site-packages")
    lines = [sysconfig.get_path("purelib")]
    for name in ("cmeel", "ros_wheels_bootstrapper"):  # what pinocchio and the wheels of ROS run at the start
        path = Path(lines[0]) / f"{name}.pth"
        lines += path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    (site / "dependencies.pth").write_text("\n".join(lines) + "\n", encoding="utf-8")
    python = str(venv / "bin" / "python")
    finished([*pip, "--python", python, "install", "--no-deps", "--no-index", str(wheel)], folder, {})
    (script,) = (path for path in (venv / "bin" / "dynid", venv / "lib/dynid/dynid") if path.is_file())
    return [python, str(script)]


def workspace_command(folder: Path) -> list[str]:
    """Build a workspace by colcon, and return the command that it installed."""
    pytest.importorskip("colcon_core", reason="colcon is not installed")
    pytest.importorskip("colcon_ros", reason="colcon's ROS extensions are not installed")
    copy_package(folder / "src" / "dynid")
    code = "import sys; from colcon_core.command import main; sys.exit(main())"
    finished([sys.executable, "-c", code, "build"], folder, {})
    return [str(folder / "install/dynid/lib/dynid/dynid")]


@pytest.fixture(scope="module", params=["wheel", "workspace"])
def installed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Command:
    """What runs the installed `dynid` in a folder that holds only results."""
    home, here = tmp_path_factory.mktemp(request.param), tmp_path_factory.mktemp("work")
    environment = {"DYNID_CACHE": str(home / "cache"), "NUMBA_CACHE_DIR": str(home / "numba")}
    if request.param == "wheel":
        words = wheel_command(home)
    else:
        words = workspace_command(home)
        (site,) = (home / "install/dynid").glob("lib/python*/site-packages")
        environment |= {"PYTHONPATH": str(site), "AMENT_PREFIX_PATH": str(home / "install/dynid")}

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        """Run a command to its end; one whose result is refused ends with another code than 0, which fails."""
        return finished([*words, *map(str, arguments)], here, environment)

    run.folder, run.kind, run.home = here, request.param, home  # type: ignore[attr-defined]
    return run


def test_it_is_the_installed_package_that_runs(installed: Command) -> None:
    listed = json.loads(installed("trajectories", "list", "--robot", ROBOT, "--json").stdout)
    assert listed
    assert str(ROOT) not in installed("--help").stdout


def test_every_command_has_its_help_and_none_speaks_of_a_checkout(installed: Command) -> None:
    texts = [installed("--help").stdout, *(installed(name, "--help").stdout for name in COMMANDS)]
    assert not [text for text in texts if re.search(r"benchmark|checkout|source tree", text)]


def test_the_methods_run_to_their_end(installed: Command) -> None:
    folder: Path = installed.folder  # type: ignore[attr-defined]
    installed("simulate", *MOTIONS, "--robot", ROBOT, "--friction", "viscous", "--out", "bags")
    bag, held_out = (f"bags/{name}" for name in MOTIONS)
    common = ("--robot", ROBOT)
    for method in METHODS:
        out = f"model_{method}"
        installed("identify", bag, "--validate", held_out, *common, "--method", method, "--out", out)
        assert (folder / out / "report.html").is_file() and (folder / out / "model.yaml").is_file()
    installed("campaign", bag, "--validate", held_out, *common, "--out", "campaign", "--processes", 1)
    installed("validate", "model_regression", held_out, *common)
    installed("report", "model_regression", "--compare", "campaign", "--out", "both.html")
    installed("compare", bag, "--hold-out", 0.3, *common)
    installed("payload", bag, held_out, *common)
    np.savetxt(folder / "states.csv", np.full((2, 3 * 8), 0.1), delimiter=",")
    installed("regressor", "states.csv", "--out", "regressor.npz", *common)
    installed("excite", "one-joint", "--out", "alone.yaml", *common)
    assert (folder / "campaign/model.yaml").is_file() and (folder / "both.html").is_file()


def test_joints_are_identified_one_by_one(installed: Command) -> None:
    installed("joint-id", "--joint", 7, "--friction", "viscous", "--out", "controller.yaml")
    assert (installed.folder / "controller.yaml").is_file()  # type: ignore[attr-defined]


def test_the_demo_is_accepted(installed: Command) -> None:
    if installed.kind == "workspace":  # type: ignore[attr-defined]
        installed("demo", "--help")  # the wheel's demo starts the same nodes
        return
    assert json.loads(installed("demo", "--no-gain", "--out", "demo", "--json").stdout)["accepted"]
