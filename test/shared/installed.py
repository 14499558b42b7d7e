"""Two installations of dynid from a copy of the packaged folders alone: a wheel in a virtual environment of its own,
and a workspace that colcon built. Nothing of the checkout is on their paths.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from made import Made
from package_copy import ROOT, bring_machine_code, copy_package

COLCON = [sys.executable, "-c", "import sys; from colcon_core.command import main; sys.exit(main())"]
UNSET = ("PYTHONPATH", "PYTHONHOME", "AMENT_PREFIX_PATH")


def environment(**more: str) -> dict[str, str]:
    """The environment of what is installed: without paths into a checkout."""
    return {name: value for name, value in os.environ.items() if name not in UNSET} | more


def finished(words: list[str], folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end and return it; fail with what it printed if it ended with another code than 0."""
    done = subprocess.run(
        words, cwd=folder, env=environment(**more), capture_output=True, text=True, check=False, timeout=800
    )
    assert done.returncode == 0, f"{words}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done


def install_wheel(folder: Path) -> None:
    """Build the wheel, and install it into an environment that has dynid's dependencies."""
    package, wheels, venv = copy_package(folder / "package"), folder / "wheels", folder / "venv"
    pip = ["-m", "pip", "--disable-pip-version-check", "--quiet"]
    build = [*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", str(wheels), str(package)]
    finished([sys.executable, *build], folder)
    (wheel,) = wheels.glob("dynid-*.whl")
    finished([sys.executable, "-m", "venv", "--without-pip", str(venv)], folder)
    (site,) = venv.glob("lib/python*/site-packages")
    lines = [sysconfig.get_path("purelib")]
    for name in ("cmeel", "ros_wheels_bootstrapper"):  # what pinocchio and the wheels of ROS run at the start
        path = Path(lines[0]) / f"{name}.pth"
        lines += path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    (site / "dependencies.pth").write_text("\n".join(lines) + "\n", encoding="utf-8")
    # pip of the dependencies, by the new environment's Python: pip 22 cannot be told another one
    install = [*pip, "install", "--ignore-installed", "--no-deps", "--no-index", "--no-compile", str(wheel)]
    finished([str(venv / "bin" / "python"), *install], folder)
    bring_machine_code(site / "dynid")
    shutil.rmtree(package)


def wheel_command(made: Made) -> list[str]:
    """The installed wheel's `dynid`: its Python, and the script."""
    venv = made("wheel", install_wheel) / "venv"
    (script,) = (path for path in (venv / "bin" / "dynid", venv / "lib/dynid/dynid") if path.is_file())
    return [str(venv / "bin" / "python"), str(script)]


def build_workspace(folder: Path) -> None:
    """Build a workspace that holds this package, with one of its tests."""
    package = copy_package(folder / "src" / "dynid")
    (package / "test").mkdir()
    shutil.copy(ROOT / "test/robot/test_robot.py", package / "test")
    finished([*COLCON, "build"], folder)


def built_workspace(made: Made) -> Path:
    """A workspace that colcon built."""
    pytest.importorskip("colcon_core", reason="colcon is not installed")
    pytest.importorskip("colcon_ros", reason="colcon's ROS extensions are not installed")
    return made("workspace", build_workspace)
