"""Names of commands: complete, independent imports, and suggestions for misspelt names."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from benchmarks import cli as checkout
from typer.testing import CliRunner

from dynid import cli
from dynid.commands import COMMANDS

ROOT = Path(__file__).parents[2]


def names(app: typer.Typer) -> list[str]:
    command: Any = typer.main.get_command(app)
    return list(command.list_commands(command.make_context("dynid", [], resilient_parsing=True)))


def test_every_module_of_a_command_is_named_and_every_name_has_its_help() -> None:
    command: Any = typer.main.get_command(cli.app)
    assert names(cli.app) == list(COMMANDS) and len(COMMANDS) > 25
    assert [name for name in COMMANDS if not command.get_command(None, name).help] == []
    assert {"minimal-set", "mapping"} <= set(command.get_command(None, "robot").commands)


def test_only_a_checkout_has_the_benchmark_command() -> None:
    assert names(checkout.app) == [*COMMANDS, "benchmark"]
    assert "No such command 'benchmark'" in str(CliRunner().invoke(cli.app, ["benchmark"], standalone_mode=False))


@pytest.mark.slow
@pytest.mark.parametrize("words", [("benchmark",), ("simulate",), ()])
def test_run_finds_benchmarks_from_any_folder(words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "logs.py").write_text("raise SystemExit('a stranger of that name')\n")
    command = [sys.executable, str(ROOT / "benchmarks"), *words, "--help"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert f"Usage: {' '.join(['./run', *words])}" in done.stdout
    assert ("compiling" in done.stdout) == (words == ("benchmark",))


def test_a_command_loads_no_other() -> None:
    program = (
        "import sys; from dynid.cli import app; app(['bag', '--help'], standalone_mode=False); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = {name for name in done.stdout.split() if name.startswith(("dynid.commands.", "benchmarks"))}
    assert "dynid.commands.bag" in loaded and not loaded & {"dynid.commands.identify", "benchmarks"}


def test_a_misspelt_command_is_answered_with_a_suggestion() -> None:
    result = CliRunner().invoke(cli.app, ["identfy"], standalone_mode=False)
    assert "Did you mean 'identify'" in str(result.exception)
