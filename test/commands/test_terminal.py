"""Quiet, verbose, JSON and coloured output, and its streams."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from benchmarks.cli import app
from child import Child

from dynid.commands import terminal
from dynid.commands.collect import motion_bar
from dynid.commands.terminal import FLAGS, flags_first, with_deviation
from dynid.robot import load_robot

Run = Callable[..., Any]
AUDIT = ("audit", "nominal", "--robot", "planar_3r", "--poses", "2000")


def process(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dynid", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})


@pytest.mark.slow
def test_results_and_progress_do_not_mix_and_pipes_have_no_colour() -> None:
    done = process(*AUDIT)
    assert done.returncode == 0 and "positive definite" in done.stdout
    assert "\x1b" not in done.stdout + done.stderr


@pytest.mark.slow
def test_colour_follows_force_color_and_no_color() -> None:
    assert "\x1b[" in process(*AUDIT, FORCE_COLOR="1").stdout
    assert "\x1b[3" not in process(*AUDIT, FORCE_COLOR="1", NO_COLOR="1").stdout


def test_quiet_leaves_the_exit_code_errors_and_json(dynid: Run) -> None:
    done = dynid(*AUDIT, "--quiet")
    assert done == (0, "", "")
    refused = dynid("-q", "audit", "nothing", "--robot", "planar_3r")
    assert refused.returncode == 1 and refused.stdout == "" and refused.stderr.startswith("error: unknown model")
    assert json.loads(dynid(*AUDIT, "-q", "--json").stdout)["positive_definite"]


def test_verbose_prints_every_stage_with_its_time(dynid: Run) -> None:
    done = dynid(*AUDIT, "-v", "--json")
    assert json.loads(done.stdout)["positive_definite"]
    (line,) = done.stderr.splitlines()
    assert line.strip().endswith("s  auditing") and float(line.split()[0]) >= 0.0
    both = dynid("-q", "-v", *AUDIT)
    assert both.returncode == 2 and "exclude each other" in both.stderr


@pytest.mark.parametrize(
    ("given", "ordered"),
    [
        (["audit", "x", "-q"], ["-q", "audit", "x"]),
        (["-v", "audit"], ["-v", "audit"]),
        (["audit", "--", "-q"], ["audit", "--", "-q"]),
        ([], []),
    ],
)
def test_global_flags_may_stand_anywhere(given: list[str], ordered: list[str]) -> None:
    assert flags_first(given) == ordered


def commands() -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []

    def walk(command: Any, names: list[str], context: Any) -> None:
        if not hasattr(command, "list_commands"):
            found.append((" ".join(names), command))
            return
        for name in command.list_commands(context):
            walk(command.get_command(context, name), [*names, name], context)

    root: Any = typer.main.get_command(app)
    walk(root, [], root.make_context("dynid", [], resilient_parsing=True))
    return found


def test_every_command_prints_json_and_none_defines_a_global_flag() -> None:
    options = {name: {one for given in command.params for one in given.opts} for name, command in commands()}
    assert len(options) > 20
    assert [name for name, own in options.items() if own & set(FLAGS)] == []
    without = [name for name, own in options.items() if "--json" not in own]
    assert without == ["simulated-arm"]  # which serves, and prints its port only


def test_every_json_object_contains_its_version(dynid: Run) -> None:
    for arguments in (AUDIT, ("robot", "check", "planar_3r")):
        assert json.loads(dynid(*arguments, "--json").stdout)["schema_version"] == 1
    root = Path(__file__).parents[2]
    files = [*root.glob("src/dynid/commands/*.py"), root / "src/dynid/cli.py", *root.glob("benchmarks/commands/*.py")]
    printing = [path.name for path in files if re.search(r"print\(\s*json\.dumps", path.read_text(encoding="utf-8"))]
    assert printing == ["terminal.py"] and len(files) > 30  # `print_json` alone prints one


@pytest.mark.slow
def test_json_states_the_paths_of_figures_and_drafts(dynid: Run, tmp_path: Path) -> None:
    figure = tmp_path / "V01.svg"
    assert json.loads(dynid("trajectories", "plot", "V01", "--out", str(figure), "--json").stdout) == {
        "schema_version": 1,
        "figure": str(figure),
    }
    urdf = next((Path(__file__).parents[2] / "urdf/puma560").glob("*.urdf"))
    drafted = dynid("robot", "new", "mine", "--urdf", str(urdf), "--out", str(tmp_path / "mine"), "--json")
    found = json.loads(drafted.stdout)
    assert len(found["chain"]) == 6 and found["questions"] and (tmp_path / "mine/robot.yaml").is_file()


def test_an_interrupt_during_loading_prints_only_interrupted(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("import signal\nprint('loading', flush=True)\nsignal.pause()\n")
    path = os.pathsep.join([str(tmp_path), *sys.path])
    command, pipes = (
        [sys.executable, "-m", "dynid", "--version"],
        {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE},
    )
    with Child(command, env=os.environ | {"PYTHONPATH": path}, text=True, **pipes) as program:
        assert program.stdout.readline() == "loading\n"
        program.send_signal(signal.SIGINT)
        assert program.communicate(timeout=60)[1] == "interrupted\n"
        assert program.returncode in (130, -signal.SIGINT)


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_without_a_character_shows_another(tmp_path: Path, encoding: str) -> None:
    folder = tmp_path / "\u2026"
    shutil.copytree(load_robot("planar_3r").folder, folder)
    content = yaml.safe_load((folder / "robot.yaml").read_text())
    content |= {"title": "\u2026", "urdf": str(load_robot("planar_3r").urdf_path)}
    (folder / "robot.yaml").write_text(yaml.safe_dump(content))
    done = process("robot", "check", str(folder), PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (0, "") and "?" in done.stdout
    gone = process("robot", "check", str(tmp_path / "\u2026\u2026"), PYTHONIOENCODING=encoding)
    assert gone.returncode == 1 and gone.stderr.startswith("error: ") and "??" in gone.stderr


@pytest.mark.slow
def test_the_shell_completes_commands_and_options() -> None:
    """As docs/start.md says: the script of `dynid --show-completion` asks the program itself, by these variables."""
    ask = "import sys; sys.argv[0] = 'dynid'; from dynid.__main__ import main; main()"

    def completed(words: str, place: int) -> list[str]:
        own = {"_DYNID_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(place)}
        done = subprocess.run(
            [sys.executable, "-c", ask], env=os.environ | own, capture_output=True, text=True, check=True
        )
        return done.stdout.split()

    assert completed("dynid traj", 1) == ["trajectories"]
    assert completed("dynid identify --hold", 2) == ["--hold-out"]
    assert completed("dynid nothing", 1) == []


def test_help_shows_units() -> None:
    """Square brackets in a help text are units, no markup that disappears."""
    assert "interval [s]" in " ".join(process("validate", "--help", COLUMNS="200").stdout.split())


def test_version_is_printed_alone(dynid: Run) -> None:
    from dynid import __version__

    assert dynid("--version") == (0, f"dynid {__version__}\n", "")
    assert dynid("-q").returncode == 2 and "name a command" in dynid("-q").stderr


def test_long_commands_say_what_they_do_without_a_terminal(dynid: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "SILENT_S", -1.0)
    done = dynid(*AUDIT)
    assert done.stderr == "auditing ...\n" and "positive definite" in done.stdout
    assert dynid(*AUDIT, "-q").stderr == ""


@pytest.mark.parametrize(
    ("value", "deviation", "written"),
    [
        (34.21, 19.4, "34 +- 19"),
        (-6.31, 0.996, "-6.3 +- 1.0"),
        (0.1234, 0.0316, "0.123 +- 0.032"),
        (1234.0, 150.0, "1230 +- 150"),
        (3.0, 0.0, "3 +- 0"),
        (1.0, float("inf"), "1 +- inf"),
    ],
)
def test_a_value_is_written_to_the_second_digit_of_its_deviation(value: float, deviation: float, written: str) -> None:
    assert with_deviation(value, deviation) == written


def test_each_step_of_a_motion_is_printed_once_without_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dynid.commands.terminal.is_quiet", lambda: False)  # others call the program with --quiet
    with motion_bar() as report:
        for text in ("checking", "checking", "released [now]", "released [now]"):
            report(text, 0.0, 0.0)
    assert capsys.readouterr().err == "checking\nreleased [now]\n"
