"""An installed dynid without a checkout: every command has its help, and the methods run to their end.

The wheel in a separate virtual environment does all work, from an otherwise empty folder; test_chain.py runs its demo.
A workspace that colcon built has the same files and finds them.
"""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from installed import built_workspace, finished, wheel_command
from made import Made
from package_copy import ROOT

from dynid.commands import COMMANDS

ROBOT = "openmanipulator_x"  # a small arm and short motions; only joint-id uses the default robot
MOTIONS = ("fast", "slow")
SEVERAL = """
import contextlib, io, json, sys
import dynid
from dynid.cli import main

done = [dynid.__file__]
for words in json.loads(sys.argv[1]):
    sys.argv, text = ["dynid", *words], io.StringIO()
    try:
        with contextlib.redirect_stdout(text):
            main()
    except SystemExit as ended:
        done.append((words, ended.code, text.getvalue()))
print(json.dumps(done))
"""
pytestmark = pytest.mark.slow


class Installed(NamedTuple):
    """What was installed, and a folder that holds only results.

    Attributes:
        kind: of installation.
        package: folder of the package.
        share: folder of the robots and launch files.
        run: runs `dynid ARGUMENTS` there.
        several: runs several commands, each as a list of words, in one process, and returns what each printed.
        folder: the results.
    """

    kind: str
    package: Path
    share: Path
    run: Callable[..., str]
    several: Callable[..., list[str]]
    folder: Path


@pytest.fixture(scope="module", params=["wheel", "workspace"])
def installed(request: pytest.FixtureRequest, made: Made, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    here, more = tmp_path_factory.mktemp("work"), {}
    if request.param == "wheel":
        python, script = wheel_command(made)
        words, prefix = [python, script], Path(python).parents[1]
        (package,) = prefix.glob("lib/python*/site-packages/dynid")
    else:
        prefix = built_workspace(made) / "install/dynid"
        python, words = sys.executable, [str(prefix / "lib/dynid/dynid")]
        (package,) = prefix.glob("lib/python*/site-packages/dynid")
        more = {"PYTHONPATH": str(package.parent), "AMENT_PREFIX_PATH": str(prefix)}

    def run(*arguments: object) -> str:
        return finished([*words, *map(str, arguments)], here, **more).stdout

    def several(*commands: tuple[object, ...]) -> list[str]:
        asked = json.dumps([list(map(str, one)) for one in commands])
        done = finished([python, "-c", SEVERAL, asked], here, **more)
        where, *ended = json.loads(done.stdout)
        assert Path(where).parent == package
        for one, code, text in ended:
            assert code == 0, f"{one}: {text[-3000:]}\n{done.stderr[-3000:]}"
        return [text for _, _, text in ended]

    return Installed(request.param, package, prefix / "share/dynid", run, several, here)


def test_commands_run_the_installed_package(installed: Installed) -> None:
    assert json.loads(installed.run("trajectories", "list", "--robot", ROBOT, "--json"))
    assert str(ROOT) not in installed.run("--help")


def test_every_command_has_help_that_names_no_checkout(installed: Installed) -> None:
    texts = installed.several(("--help",), *((name, "--help") for name in COMMANDS))
    assert all(f"dynid {name}" in text for name, text in zip(COMMANDS, texts[1:], strict=True))
    assert not [text for text in texts if re.search(r"benchmark|checkout|source tree", text)]


def files(folder: Path) -> dict[str, bytes]:
    """All that lies in a folder but compiled files, and notes for those who read the code."""
    paths = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths if path.suffix != ".md"}


def test_the_installation_contains_the_files_of_the_checkout(installed: Installed) -> None:
    """Equal files mean that results of one installation hold for the other."""
    assert files(installed.package) == files(ROOT / "src/dynid")
    for name in ("config", "urdf"):
        assert files(installed.share / name) == files(ROOT / name)


@pytest.mark.parametrize("installed", ["wheel"], indirect=True)  # the workspace has the same files
def test_the_methods_run_to_their_end(installed: Installed) -> None:
    """A campaign refines by simulation in closed loop, as `identify --method closed-loop` does (test_methods.py)."""
    common = ("--robot", ROBOT)
    bag, held_out = (f"bags/{name}" for name in MOTIONS)
    identify = ("identify", bag, "--validate", held_out, *common)
    commands = [("simulate", *MOTIONS, *common, "--friction", "viscous", "--out", "bags")]
    commands += [(*identify, "--out", "model")]
    np.savetxt(installed.folder / "states.csv", np.full((2, 3 * 5), 0.1), delimiter=",")
    commands += [
        ("validate", "model", held_out, *common),
        ("campaign", bag, "--validate", held_out, *common, "--out", "campaign", "--processes", 1),
        ("report", "model", "--compare", "campaign", "--out", "both.html"),
        ("compare", bag, "--hold-out", 0.3, *common),
        ("payload", bag, held_out, *common),
        ("regressor", "states.csv", "--out", "regressor.npz", *common),
        ("excite", "one-joint", "--out", "alone.yaml", *common),
        ("joint-id", "--joint", 7, "--friction", "viscous", "--out", "controller.yaml"),
    ]
    installed.several(*commands)
    written = [
        "model/report.html",
        "model/model.yaml",
        "campaign/model.yaml",
        "both.html",
        "regressor.npz",
        "alone.yaml",
        "controller.yaml",
    ]
    assert [name for name in written if not (installed.folder / name).is_file()] == []
