"""Figures of the documentation: each has a command, and pages declare figures of an earlier simulated arm."""

import re
import shlex
from pathlib import Path

import pytest
import typer
from benchmarks.cli import app
from benchmarks.doc_figures import DOCS, EARLIER, FILE, Figures, FiguresFile, fingerprint, wrong_pages

from dynid.resources import load_validated
from dynid.robot import Robot

FIGURES = load_validated(FILE, FiguresFile).figures
MEASURED = {"adaptive", "bilateral", "control", "coverage", "faults", "feel", "friction", "logs", "plants"}


def test_pages_measured_on_an_older_arm_say_so(robot: Robot) -> None:
    assert wrong_pages(FIGURES, fingerprint(robot)) == []


def test_outdated_pages_and_outdated_marks_are_reported(tmp_path: Path) -> None:
    (tmp_path / "old.md").write_text("12 %")
    (tmp_path / "marked.md").write_text(f"Figures were\n{EARLIER}.")
    rows = [Figures(page=page, command="./run benchmark x", arm="0" * 12) for page in ("old.md", "marked.md")]
    assert wrong_pages(rows, "0" * 12, tmp_path) == [
        f"marked.md says '{EARLIER}', but its figures are of the present one"
    ]
    assert wrong_pages(rows, "1" * 12, tmp_path) == [
        "old.md: figures of './run benchmark x' are older than the simulated arm: measure again"
    ]


@pytest.mark.parametrize("change", ["plant", "friction", "nuisances", "servos"])
def test_the_fingerprint_is_that_of_the_simulated_arm(robot: Robot, change: str) -> None:
    simulated, before = robot.file.simulation, fingerprint(robot)
    servos = {name: one.model_copy(update={"torque_constant_nm_per_a": 2.0}) for name, one in robot.file.servos.items()}
    changed = {
        "plant": {"simulation": simulated.model_copy(update={"plant_parameters": None})},
        "friction": {"simulation": simulated.model_copy(update={"friction": "viscous"})},
        "nuisances": {"simulation": simulated.model_copy(update={"nuisances": None})},
        "servos": {"servos": servos},
    }[change]
    assert fingerprint(Robot(robot.file.model_copy(update=changed), robot.folder)) != before
    title = robot.file.model_copy(update={"title": "another"})
    assert fingerprint(Robot(title, robot.folder)) == before


def test_every_listed_command_exists_and_every_measured_page_is_listed() -> None:
    benchmark = typer.main.get_command(app).get_command(None, "benchmark")
    for one in FIGURES:
        words = shlex.split(one.command)
        if words[:2] == ["./run", "benchmark"]:
            assert benchmark.get_command(None, words[2]) is not None, one.command
        else:
            assert (FILE.parents[1] / words[1]).is_file(), one.command
    listed = {(one.page, *shlex.split(one.command)[2:3]) for one in FIGURES}
    for page in set(DOCS.glob("*.md")) - {DOCS / "commands.md"}:  # which lists commands, without figures
        named = set(re.findall(r"\./run benchmark ([a-z]+)", page.read_text(encoding="utf-8"))) & MEASURED
        assert {(page.name, name) for name in named} - listed <= {("friction.md", "control"), ("verdict.md", "plants")}
