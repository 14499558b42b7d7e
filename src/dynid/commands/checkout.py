"""Commands that need a checkout: what they run stands beside the wheel, in the folder `benchmarks`."""

import importlib
import sys
from pathlib import Path

import typer

from dynid.errors import InputNotFoundError

ROOT = Path(__file__).resolve().parents[3]
GROUPS = {
    "demo": "Run the whole chain, from motor current to a controller that uses the model.",
    "campaign": "Identify from every bag at every sampling interval, and accept one model.",
    "regressor": "Compute the regressor W (tau = W phi), with names, units and groupings.",
    "payload": "Estimate what changed at the last link between two runs.",
    "torque-constants": "Check torque constants against a body of known mass.",
    "compare": "Compare estimators on the same data: errors in and out of sample, consistency, run time.",
    "essential": "Cancel the base parameters that the motion does not show.",
    "excite": "Design excitation motions.",
    "elastic": "Study arms with elastic joints (links and motors measured); see elastic.yaml of a robot.",
    "benchmark": "Run benchmarks on this machine.",
}
ANY_WORDS = {"allow_extra_args": True, "ignore_unknown_options": True}


def register(app: typer.Typer) -> None:
    """Add the groups of a checkout; an installed dynid says where they are instead."""
    if (ROOT / "benchmarks" / "commands").is_dir():
        sys.path.insert(0, str(ROOT))
        importlib.import_module("benchmarks.commands.groups").register(app)
        return
    for name, text in GROUPS.items():
        app.command(name, help=f"{text} Needs a checkout.", context_settings=ANY_WORDS)(_refused)


def _refused() -> None:
    raise InputNotFoundError(
        f"this command needs the folder 'benchmarks' of dynid's source tree, and {ROOT} has none; use ./run in a "
        "checkout"
    )
