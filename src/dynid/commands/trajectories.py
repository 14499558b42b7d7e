"""`dynid trajectories`: the motions of a robot as a list, and one of them as a figure."""

import json
from pathlib import Path
from typing import Annotated

import typer

from dynid.commands.options import DEFAULT_ROBOT, JsonOption, RobotOption
from dynid.commands.terminal import stdout

ProfileOption = Annotated[str, typer.Option("--profile", help="Excitation profile; see excitation.yaml.")]
DEFAULT_PROFILE = "limited"

group = typer.Typer(invoke_without_command=True)


@group.callback()
def trajectories(
    context: typer.Context,
    robot: RobotOption = DEFAULT_ROBOT,
    profile: ProfileOption = DEFAULT_PROFILE,
    as_json: JsonOption = False,
) -> None:
    """The excitation and validation motions of a robot; without a further word, their list."""
    if context.invoked_subcommand is None:
        _list(robot, profile, as_json)
        return
    for name in context.params:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise typer.BadParameter(
                f"options belong behind the command: '{context.command_path} {context.invoked_subcommand} ...'", context
            )


@group.command("list")
def list_motions(
    robot: RobotOption = DEFAULT_ROBOT, profile: ProfileOption = DEFAULT_PROFILE, as_json: JsonOption = False
) -> None:
    """List the motions with durations and peak velocities."""
    _list(robot, profile, as_json)


def _list(robot: str, profile: str, as_json: bool) -> None:
    from dynid.robot import load_robot
    from dynid.trajectory.families import load_excitation

    excitation = load_excitation(load_robot(robot))
    rows = {}
    for name in excitation.names:
        motion = excitation.trajectory(name, profile)
        rows[name] = {"duration_s": motion.duration, "peak_velocity_rad_s": float(motion.peak_velocities.max())}
    if as_json:
        print(json.dumps(rows))
        return
    console = stdout()
    for name, row in rows.items():
        console.print(f"{name:22} {row['duration_s']:7.1f} s   peak {row['peak_velocity_rad_s']:.2f} rad/s")


@group.command()
def plot(
    trajectory: Annotated[str, typer.Argument(help="Name of the motion.")],
    out: Annotated[Path, typer.Option(help="New file; its suffix .png, .svg or .pdf names the format.")],
    robot: RobotOption = DEFAULT_ROBOT,
    profile: ProfileOption = DEFAULT_PROFILE,
    as_json: JsonOption = False,
) -> None:
    """Draw position, velocity and acceleration of every joint, with their limits."""
    from dynid.reporting.trajectory_figure import check_output, write_trajectory_figure
    from dynid.robot import load_robot
    from dynid.trajectory.families import load_excitation

    check_output(out)
    loaded = load_robot(robot)
    excitation = load_excitation(loaded)
    motion = excitation.trajectory(trajectory, profile)
    write_trajectory_figure(loaded, excitation, motion, profile, out)
    if as_json:
        print(json.dumps({"figure": str(out)}))
        return
    stdout().print(f"  {out}", soft_wrap=True, highlight=False)


def register(app: typer.Typer) -> None:
    """Add the command and what it consists of."""
    app.add_typer(group, name="trajectories")
