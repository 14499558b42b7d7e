"""Commands that need a checkout: a checkout has them all, an installed package names them and says where they are."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from dynid import cli
from dynid.commands import checkout
from dynid.errors import InputNotFoundError


def names(app: typer.Typer) -> set[str]:
    command: Any = typer.main.get_command(app)
    return set(command.list_commands(command.make_context("dynid", [], resilient_parsing=True)))


def test_a_checkout_has_every_command() -> None:
    assert set(checkout.GROUPS) <= names(cli.app)
    for name in checkout.GROUPS:
        assert checkout.find(name).help


def test_an_installed_package_refuses_them_in_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(checkout, "ROOT", tmp_path)
    assert set(checkout.GROUPS) <= names(cli.app)
    assert all("Needs a checkout" in checkout.find(name).help for name in checkout.GROUPS)
    result = CliRunner().invoke(cli.app, ["campaign", "bags/a", "--out", "x"])
    assert isinstance(result.exception, InputNotFoundError) and "use ./run in a checkout" in str(result.exception)


def test_a_command_loads_no_other() -> None:
    program = (
        "import sys; from dynid.cli import app; app(['bag', '--help'], standalone_mode=False); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = {name for name in done.stdout.split() if name.startswith(("dynid.commands.", "benchmarks"))}
    assert "dynid.commands.bag" in loaded and not loaded & {"dynid.commands.identify", "benchmarks.commands.groups"}


def test_a_misspelt_command_is_answered_by_the_one_that_was_meant() -> None:
    result = CliRunner().invoke(cli.app, ["identfy"], standalone_mode=False)
    assert "Did you mean 'identify'" in str(result.exception)
