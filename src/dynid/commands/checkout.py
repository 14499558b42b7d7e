"""Commands that need a checkout: what they run stands beside the wheel, in the folder `benchmarks`."""

import importlib
import sys
from pathlib import Path
from typing import Any

import typer

from dynid.commands.typer_command import typer_command
from dynid.errors import InputNotFoundError

ROOT = Path(__file__).resolve().parents[3]
GROUPS = {
    "demo": "Run the whole chain, from motor current to a controller that uses the model.",
    "campaign": "Identify from every bag at every sampling interval, and accept one model.",
    "regressor": "Compute the regressor W (tau = W phi), with names, units and groupings.",
    "joint-id": "Identify joints one by one: gain, time constant and dead time, and a fourth-order model.",
    "payload": "Estimate what changed at the last link between two runs.",
    "torque-constants": "Check torque constants against a body of known mass.",
    "compare": "Compare estimators on the same data: errors in and out of sample, consistency, run time.",
    "essential": "Cancel the base parameters that the motion does not show.",
    "excite": "Design excitation motions.",
    "elastic": "Study arms with elastic joints (links and motors measured); see elastic.yaml of a robot.",
    "benchmark": "Run benchmarks on this machine.",
}
ANY_WORDS = {"allow_extra_args": True, "ignore_unknown_options": True}


def find(name: str) -> Any:
    """The command or group of a checkout that has this name; an installed dynid says where it is instead."""
    if (groups := _groups()) is not None:
        return typer_command(name, groups.find(name))
    return typer_command(name, _refused, help=f"{GROUPS[name]} Needs a checkout.", context_settings=ANY_WORDS)


def extended(robot: typer.Typer) -> typer.Typer:
    """The group `robot`, in a checkout with the commands that stand beside the wheel."""
    if (groups := _groups()) is not None:
        groups.extend(robot)
    return robot


def _groups() -> Any:
    if not (ROOT / "benchmarks" / "commands").is_dir():
        return None
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    return importlib.import_module("benchmarks.commands.groups")


def _refused() -> None:
    raise InputNotFoundError(
        f"this command needs the folder 'benchmarks' of dynid's source tree, and {ROOT} has none; use ./run in a "
        "checkout"
    )
