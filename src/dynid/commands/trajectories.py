"""`dynid trajectories`: list of a robot's motions, and a figure of each."""

from pathlib import Path
from typing import Annotated

import typer

from dynid.commands.options import DEFAULT_PROFILE, DEFAULT_ROBOT, JsonOption, ProfileOption, RobotOption
from dynid.commands.terminal import print_json, say

trajectories = typer.Typer(invoke_without_command=True)


@trajectories.callback()
def motions(
    context: typer.Context,
    robot: RobotOption = DEFAULT_ROBOT,
    profile: ProfileOption = DEFAULT_PROFILE,
    as_json: JsonOption = False,
) -> None:
    """List or plot the excitation and validation motions of a robot."""
    if context.invoked_subcommand is None:
        _list(robot, profile, as_json)
        return
    for name in context.params:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise typer.BadParameter(
                f"put options after the command: '{context.command_path} {context.invoked_subcommand} ...'", context
            )


@trajectories.command("list")
def list_motions(
    robot: RobotOption = DEFAULT_ROBOT, profile: ProfileOption = DEFAULT_PROFILE, as_json: JsonOption = False
) -> None:
    """List a robot's motions with durations and peak velocities."""
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
        print_json(rows, by_name=True)
        return
    for name, row in rows.items():
        say(f"{name:22} {row['duration_s']:7.1f} s   peak {row['peak_velocity_rad_s']:.2f} rad/s")
    say(f"profile {profile}: {excitation.file.profiles[profile].about}", markup=False)


@trajectories.command()
def plot(
    trajectory: Annotated[str, typer.Argument(help="Name of the motion.")],
    out: Annotated[Path, typer.Option(help="New file (.png, .svg or .pdf).")],
    robot: RobotOption = DEFAULT_ROBOT,
    profile: ProfileOption = DEFAULT_PROFILE,
    as_json: JsonOption = False,
) -> None:
    """Plot position, velocity and acceleration of every joint during a motion, with their limits."""
    from dynid.reporting.trajectory_figure import check_output, write_trajectory_figure
    from dynid.robot import load_robot
    from dynid.trajectory.families import load_excitation

    check_output(out)
    loaded = load_robot(robot)
    excitation = load_excitation(loaded)
    motion = excitation.trajectory(trajectory, profile)
    write_trajectory_figure(loaded, excitation, motion, profile, out)
    if as_json:
        print_json({"figure": str(out)})
        return
    say(f"  {out}")
