"""Commands that need a checkout: a checkout has them all, an installed package names them and says where they are."""

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
    beside = typer.Typer()
    checkout.register(beside)
    assert names(beside) == set(checkout.GROUPS)


def test_an_installed_package_refuses_them_in_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(checkout, "ROOT", tmp_path)
    installed = typer.Typer()
    checkout.register(installed)
    assert names(installed) == set(checkout.GROUPS)
    result = CliRunner().invoke(installed, ["campaign", "bags/a", "--out", "x"])
    assert isinstance(result.exception, InputNotFoundError) and "use ./run in a checkout" in str(result.exception)
