"""`dynid robot scan`: list of the servos on a serial line, with the entries that robot.yaml needs."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from dynid.commands.options import JsonOption
from dynid.commands.terminal import print_json, say, stdout, table

COLUMNS = ("id", "model", "baudrate", "firmware", "operating_mode", "reverse_mode", "obeys", "current_limit_a")
DETAIL_COLUMNS = ("position_count", "torque", "voltage_v", "temperature_deg_c", "hardware_error")


def scan(
    port: Annotated[str, typer.Option(help="Serial port of the servos.")],
    robot: Annotated[str | None, typer.Option(help="Robot name or folder to compare with.")] = None,
    baudrate: Annotated[
        list[int] | None, typer.Option(help="Baud rate to try [bit/s]; repeatable; default: the usual ones.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="New YAML file for the blocks `servos` and `bus`.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List the servos on a serial line with model, firmware, mode, secondary ID, limits and state, and their conflicts.

    The command writes nothing to the servos. It prints the blocks `servos` and `bus` of robot.yaml; torque constants in
    them are proposals. Exit code 1 if no servo answers, if a servo cannot be driven, or if servos are inconsistent with
    each other or with robot.yaml.
    """
    from dynid.hardware.startup.line_scan import blocks, oddities, scan_port
    from dynid.hardware.startup.servo_snapshot import OTHER_BAUD_RATES
    from dynid.resources import refuse_existing, write_whole, yaml_text
    from dynid.robot import load_robot

    loaded = None if robot is None else load_robot(robot)
    if out is not None:
        refuse_existing(out)
    found = scan_port(port, baudrate or OTHER_BAUD_RATES)
    wrong = list(oddities(found, loaded)) if found else [f"no servo answers on {port}: check power, cable and rates"]
    written = blocks(found, port)
    if out is not None:
        write_whole(out, yaml_text(written))
    servos = [one.as_dict() for one in found]
    if as_json:
        print_json({"port": port, "servos": servos, "blocks": written, "oddities": wrong})
    else:
        shown = table(f"{len(servos)} servos on {port}", *COLUMNS, *DETAIL_COLUMNS, words=2)
        for one in servos:
            shown.add_row(*("" if one.get(key) is None else str(one.get(key)) for key in (*COLUMNS, *DETAIL_COLUMNS)))
        stdout().print(shown)
        say(escape(yaml_text(written)))
        say(*(f"[yellow]{escape(text)}[/yellow]" for text in wrong))
        say("torque constants are proposals: stall torque over stall current; measure them with a known mass")
    raise typer.Exit(1 if wrong else 0)
