"""`dynid doctor`: check of serial port, servos and cycle time before an arm is driven."""

import shlex
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from dynid.commands.consent import YesOption, ask
from dynid.commands.options import DEFAULT_ROBOT, JsonOption, RobotOption
from dynid.commands.terminal import print_json, say

if TYPE_CHECKING:
    from dynid.hardware.startup.doctor import Diagnosis

MARKS = {"ok": "[green]ok[/green]     ", "warning": "[yellow]warning[/yellow]", "error": "[bold red]error[/bold red]  "}

CHANGES = {
    "baud-rate": "their baud rate",
    "torque-off": "torque goes off, and an arm without support falls",
    "reboot": "those with a hardware error reboot, and an arm without support falls",
    "eeprom": "settings in their EEPROM that the driver relies on",
}


def doctor(
    port: Annotated[str | None, typer.Argument(help="Serial port; default: from robot.yaml.")] = None,
    robot: RobotOption = DEFAULT_ROBOT,
    baudrate: Annotated[
        int | None, typer.Option(help="Baud rate of the servos [bit/s]; default: from robot.yaml.")
    ] = None,
    fix: Annotated[
        list[str] | None,
        typer.Option(help="Fix to apply: latency-timer, baud-rate, torque-off, reboot or eeprom; repeatable."),
    ] = None,
    cycles: Annotated[int, typer.Option(min=10, help="Number of timed reads of all servos.")] = 1000,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Check port, servos, limits, temperatures and the achievable cycle time, and suggest a fix for each finding.

    The command moves nothing. It changes only what --fix names, and asks before it changes servos of a real arm. With
    the fixes torque-off and reboot the arm falls unless something supports it. Exit code 1 if something must be fixed.
    """
    from dynid.hardware.startup.doctor import examine
    from dynid.hardware.startup.doctor_fixes import apply_fixes
    from dynid.robot import load_robot

    loaded = load_robot(robot)
    chosen = port or loaded.file.bus.port
    consented = False
    if fix and (changes := [CHANGES[name] for name in fix if name in CHANGES]):
        consented = ask(
            chosen,
            f"the servos of the REAL arm on {chosen} ({loaded.file.title}) will change: {'; '.join(changes)}",
            yes,
        )
    fixed = apply_fixes(loaded, chosen, baudrate, fix, consented=consented) if fix else []
    found = _with_arguments(examine(loaded, chosen, baudrate, cycles=cycles), robot, baudrate)
    if as_json:
        content = {"port": found.port, "baudrate": found.baudrate, "robot": loaded.name, "fixed": fixed}
        findings = [asdict(finding) for finding in found.findings]
        print_json({**content, "findings": findings, "must_act": found.must_act})
    else:
        _print(found, fixed, asked=bool(fix))
    raise typer.Exit(1 if found.must_act else 0)


def _with_arguments(found: "Diagnosis", robot: str, baudrate: int | None) -> "Diagnosis":
    """Return the diagnosis with the user's port, robot and baud rate inserted into the commands that it proposes."""
    from dynid.hardware.startup.servo_checks import with_arguments

    arguments = [found.port]
    arguments += [] if robot == DEFAULT_ROBOT else ["--robot", robot]
    arguments += [] if baudrate is None else ["--baudrate", str(baudrate)]
    text = shlex.join(arguments)
    named = [
        replace(one, text=with_arguments(one.text, text), remedy=with_arguments(one.remedy, text))
        for one in found.findings
    ]
    return replace(found, findings=tuple(named))


def _print(found: "Diagnosis", fixed: list[str], *, asked: bool) -> None:
    for line in fixed or (["nothing to fix"] if asked else []):
        say(f"changed  {escape(line)}" if fixed else line)
    for finding in found.findings:
        say(f"{MARKS[finding.level]}  {finding.check}: {escape(finding.text)}")
        if finding.remedy:
            say(f"           -> {escape(finding.remedy)}")
    say("fix the errors above before you drive the arm" if found.must_act else "the arm is ready to be driven")
