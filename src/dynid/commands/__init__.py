"""Commands of `dynid`, one module each: the function or the group of commands that has the module's name."""

import os
from typing import Any

from typer.core import TyperGroup

from dynid.commands.typer_command import compiled_first, imported, typer_command
from dynid.threads import one_thread_each

one_thread_each()  # the libraries read it when they are loaded, which is when the first command is
os.environ.setdefault("MUJOCO_GL", "disable")  # no command draws; looking for a display takes time

# in the order of `dynid --help`, by panel
PANELS = {
    "Record": ("demo", "collect", "hold", "teach", "replay", "trajectories", "simulate", "bag"),
    "Identify": ("identify", "campaign", "joint-id", "adaptive", "logs", "payload", "torque-constants"),
    "Judge and use a model": ("validate", "audit", "report", "feel", "posterior", "export"),
    "Your robot": ("robot",),
    "Hardware": ("doctor", "simulated-arm", "prepare"),
    "Study": ("compare", "essential", "regressor", "excite", "elastic"),
}
COMMANDS = tuple(name for names in PANELS.values() for name in names)
# Commands that compile what they run before they begin; those that start a chain of nodes leave it to the chain.
COMPILED = ("simulated-arm", "simulate", "identify", "adaptive", "audit", "validate", "feel", "posterior")


class Commands(TyperGroup):
    """Every command of `dynid`; a module is imported when somebody names its command, or asks for help."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        names: dict[str, Any] = dict.fromkeys(COMMANDS)
        self.commands = names  # for the help, and to suggest one where another was meant

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command with this name, or None."""
        if cmd_name not in COMMANDS:
            return None
        found = imported("dynid.commands", cmd_name)
        panel = next(panel for panel, names in PANELS.items() if cmd_name in names)
        return typer_command(cmd_name, compiled_first(found) if cmd_name in COMPILED else found, panel)
