"""`dynid prepare`: compile the numerical programs of commands and nodes before they are needed."""

from dynid.commands import options as opt
from dynid.commands.terminal import print_json, say


def prepare(
    robot: opt.RobotOption = opt.DEFAULT_ROBOT, mount: opt.MountOption = None, as_json: opt.JsonOption = False
) -> None:
    """Compile the numerical programs of commands and nodes now, so that later commands start without a delay."""
    from dynid.rehearsal.compiling import ensure_compiled
    from dynid.robot import load_robot

    compiled = ensure_compiled(load_robot(robot), mount)
    if as_json:
        return print_json({"compiled": compiled})
    say("compiled" if compiled else "everything was compiled before")
