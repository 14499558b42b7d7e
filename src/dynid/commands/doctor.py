"""`dynid doctor`: looks at a set-up before anything moves."""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from dynid.commands.options import DEFAULT_ROBOT, JsonOption, RobotOption
from dynid.commands.terminal import stdout

if TYPE_CHECKING:
    from dynid.hardware.doctor import Diagnosis

MARKS = {"ok": "[green]ok[/green]     ", "warning": "[yellow]warning[/yellow]", "error": "[bold red]error[/bold red]  "}


def doctor(
    port: Annotated[str | None, typer.Argument(help="Serial port; else the one of robot.yaml.")] = None,
    robot: RobotOption = DEFAULT_ROBOT,
    baudrate: Annotated[int | None, typer.Option(help="Of the servos [bit/s]; else the robot's.")] = None,
    fix: Annotated[
        list[str] | None,
        typer.Option(help="Change this: latency-timer, baud-rate, torque-off, reboot or eeprom; repeatable."),
    ] = None,
    cycles: Annotated[int, typer.Option(min=10, help="How many reads of all servos are timed.")] = 1000,
    as_json: JsonOption = False,
) -> None:
    """Look at port, servos, limits, temperatures and the achievable cycle; say what to do about each finding.

    Nothing moves and nothing is changed but by --fix (torque-off and reboot let an arm drop that nobody holds).
    Exit code 1 if something must be done.
    """
    from dynid.hardware.doctor import examine
    from dynid.hardware.doctor_fixes import apply_fixes
    from dynid.robot import load_robot

    loaded = load_robot(robot)
    chosen = port or loaded.file.bus.port
    fixed = apply_fixes(loaded, chosen, baudrate, fix) if fix else []
    found = examine(loaded, chosen, baudrate, cycles=cycles)
    if as_json:
        content = {"port": found.port, "baudrate": found.baudrate, "robot": loaded.name, "fixed": fixed}
        findings = [asdict(finding) for finding in found.findings]
        print(json.dumps({**content, "findings": findings, "must_act": found.must_act}))
    else:
        _print(stdout(), found, fixed, asked=bool(fix))
    raise typer.Exit(1 if found.must_act else 0)


def _print(console: Console, found: "Diagnosis", fixed: list[str], *, asked: bool) -> None:
    for line in fixed or (["nothing to fix"] if asked else []):
        console.print(f"changed  {escape(line)}" if fixed else line, soft_wrap=True, highlight=False)
    for finding in found.findings:
        text = f"{MARKS[finding.level]}  {finding.check}: {escape(finding.text)}"
        console.print(text, soft_wrap=True, highlight=False)
        if finding.remedy:
            console.print(f"           -> {escape(finding.remedy)}", soft_wrap=True, highlight=False)
    outcome = "something must be done before the arm can be driven" if found.must_act else "the arm can be driven"
    console.print(outcome)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(doctor)
