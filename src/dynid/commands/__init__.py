"""Commands of `dynid`: each command is a function or command group in the module of the same name."""

import os
from typing import Any

from typer.core import TyperGroup

from dynid.commands.typer_command import compiled_first, imported, typer_command
from dynid.threads import one_thread_each

one_thread_each()  # numerical libraries read the setting when they are loaded with the first command
os.environ.setdefault("MUJOCO_GL", "disable")  # no command renders, and searching for a display takes time

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
# Commands that compile their programs at the start; commands that start ROS nodes compile when they start the nodes.
COMPILED = ("simulated-arm", "simulate", "identify", "adaptive", "audit", "validate", "feel", "posterior")


class Commands(TyperGroup):
    """Group of all `dynid` commands; it imports a command's module only when the command or its help is requested."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        names: dict[str, Any] = dict.fromkeys(COMMANDS)
        self.commands = names  # for the help, and for suggestions after a mistyped name

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command with this name; None if there is no such command."""
        if cmd_name not in COMMANDS:
            return None
        found = imported("dynid.commands", cmd_name)
        panel = next(panel for panel, names in PANELS.items() if cmd_name in names)
        return typer_command(cmd_name, compiled_first(found) if cmd_name in COMPILED else found, panel)
