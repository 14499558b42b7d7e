"""`dynid robot`: draft a folder for your own robot from its URDF, and check it."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from dynid.commands.mapping import mapping
from dynid.commands.match import match
from dynid.commands.minimal_set import minimal_set
from dynid.commands.options import JsonOption
from dynid.commands.scan import scan
from dynid.commands.terminal import print_json, say, stdout
from dynid.errors import DynidError

if TYPE_CHECKING:
    from dynid.model.standard import StandardFile
    from dynid.robot.check import RobotCheck
    from dynid.robot.draft import Draft

robot = typer.Typer(help="Create your own robot from a URDF, and check a robot's folder.", no_args_is_help=True)


@robot.command("new")
def new(
    name: Annotated[str, typer.Argument(help="Name of the robot and of its new folder, or that folder's path.")],
    urdf: Annotated[Path, typer.Option(help="URDF of the arm, or a .xacro of it; it is copied.")],
    out: Annotated[Path | None, typer.Option(help="New folder, if it is not NAME.")] = None,
    tip: Annotated[str | None, typer.Option(help="Last link of the chain; nothing beyond it moves.")] = None,
    decoupled: Annotated[list[str] | None, typer.Option(help="Joint of the gripper or hand; repeatable.")] = None,
    total_mass: Annotated[
        float | None, typer.Option(min=1e-3, help="Mass of all moving parts [kg]; default: a question in robot.yaml.")
    ] = None,
    servos: Annotated[
        Path | None, typer.Option(help="File that names the servos, of Interbotix' xs_sdk or RT's manipulators.")
    ] = None,
    servo_model: Annotated[
        list[str] | None,
        typer.Option(help="Model of servos that no file names: XM430-W350, or JOINT:=MODEL for one joint; repeatable."),
    ] = None,
    xacro_arg: Annotated[list[str] | None, typer.Option(help="NAME:=VALUE for a .xacro; repeatable.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Draft a robot's folder from its URDF, with questions that you must answer in robot.yaml.

    Servos, port and baud rate are read from the URDF's <ros2_control> block, or from --servos.
    """
    from dynid.resources import refuse_existing

    own = Path(name)
    if out is not None and own.name != name:
        raise typer.BadParameter(f"{name} is the new folder's path: leave --out {out} out, or give a name alone")
    folder = out or own
    refuse_existing(folder)
    with _plain_urdf(urdf, xacro_arg or []) as plain:
        draft = _written_draft(own.name, plain, folder, tip, decoupled or [], total_mass, servos, servo_model or [])
    missing = _drafted_motions(folder, draft.nominal)
    if as_json:
        found = {
            "folder": str(folder),
            "motions": missing or "drafted",
            "chain": list(draft.chain),
            "decoupled": list(draft.decoupled),
            "left_out": list(draft.left_out),
            "fingers": list(draft.fingers),
        }
        print_json(found | {"questions": dict(draft.questions)})
        return
    counted = f"{len(draft.chain)} chain joints, {len(draft.decoupled)} decoupled, {len(draft.left_out)} left out"
    say(f"{folder / 'robot.yaml'}: {counted}")
    _print_questions(draft.questions)
    if missing:
        say(f"no excitation.yaml: {escape(missing)}; then run: dynid robot motions {folder}")
    say(f"answer the questions, then run: dynid robot check {folder}")


def _written_draft(
    name: str,
    urdf: Path,
    folder: Path,
    tip: str | None,
    decoupled: list[str],
    total_mass: float | None,
    servos: Path | None,
    servo_model: list[str],
) -> "Draft":
    """Draft a robot from a URDF, write its folder and return the draft; arguments are the options of the command."""
    from dynid.robot.draft import draft_robot, write_draft

    pairs = (text.rpartition(":=") for text in servo_model)
    models = {joint: model for joint, _, model in pairs}
    draft = draft_robot(name, urdf, tip, decoupled, total_mass, servos, models)
    write_draft(draft, urdf, folder)
    return draft


@contextmanager
def _plain_urdf(urdf: Path, arguments: list[str]) -> Iterator[Path]:
    """Yield the path of the URDF, or of a temporary URDF to which a .xacro file was expanded, with its meshes.

    `arguments` are xacro arguments of the form NAME:=VALUE.
    """
    from dynid.robot.meshes import copy_meshes
    from dynid.robot.urdf_tree import read_tree
    from dynid.robot.xacro_file import SUFFIX, expanded

    pairs = [text.partition(":=") for text in arguments]
    if wrong := [text for text, (name, sign, _) in zip(arguments, pairs, strict=True) if not (name and sign)]:
        raise typer.BadParameter(f"{wrong[0]} is not a xacro argument: expected NAME:=VALUE")
    if urdf.suffix != SUFFIX:
        if arguments:
            raise typer.BadParameter(f"{urdf} is no .xacro, so it takes no --xacro-arg")
        yield urdf
        return
    with tempfile.TemporaryDirectory() as folder:
        text = expanded(urdf, {name: value for name, _, value in pairs})
        plain = Path(folder) / urdf.name.removesuffix(SUFFIX)
        plain.write_text(text, encoding="utf-8")
        copy_meshes(read_tree(text, str(urdf)), urdf.parent, Path(folder))
        yield plain


def _drafted_motions(folder: Path, nominal: "StandardFile | str") -> str:
    """Write files of motions and gains into a robot's new folder; return why this failed, '' if it succeeded.

    `nominal` are the standard parameters from the URDF, or the reason why they are not usable.
    """
    from dynid.control.motion_draft import write_motions
    from dynid.robot import load_robot

    if isinstance(nominal, str):
        return f"{nominal}, so there is no {folder / 'models' / 'nominal.yaml'} to predict torques with: write it"
    try:
        write_motions(load_robot(folder), folder)
    except DynidError as error:
        return str(error)
    return ""


@robot.command("motions")
def motions(
    robot: Annotated[str, typer.Argument(help="Robot name, or a folder with a robot.yaml.")],
    out: Annotated[Path | None, typer.Option(help="Folder for the files; default: the robot's own.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Draft a robot's motions, controller gains and safety settings from its limits.

    The command writes excitation.yaml and controller.yaml, or nothing if one of them exists. It also writes
    safety.yaml, unless that file exists.
    """
    from dynid.control.motion_draft import FILES, HOLD_FILE, write_motions
    from dynid.robot import load_robot
    from dynid.trajectory.families import load_excitation

    loaded = load_robot(robot)
    folder = out or loaded.folder
    write_motions(loaded, folder)
    excitation = load_excitation(loaded, folder / FILES[0])
    seconds = {name: excitation.trajectory(name).duration for name in excitation.names}
    if as_json:
        print_json({"folder": str(folder), "duration_s": seconds})
        return
    say(*(f"{name:22} {duration:7.1f} s" for name, duration in seconds.items()))
    say(f"{folder / FILES[0]}, {FILES[1]} and {HOLD_FILE}: read what they say on safety")


@robot.command("check")
def check(
    robot: Annotated[str, typer.Argument(help="Robot name, or a folder with a robot.yaml.")],
    as_json: JsonOption = False,
) -> None:
    """Report what a robot is ready for and what is missing, and list its base parameters.

    Exit code 1 if the robot cannot be identified yet. Missing entries that are needed only to drive the arm do not
    change the exit code.
    """
    from dynid.robot import load_robot
    from dynid.robot.check import check_robot
    from dynid.simulation.plant.trial import unusable_motions, unusable_plant

    loaded = load_robot(robot)
    found = check_robot(loaded).tried(
        {
            "simulate": lambda: unusable_motions(loaded) or unusable_plant(loaded),
            "drive the arm": lambda: unusable_motions(loaded),
        }
    )
    if as_json:
        print_json(found.as_dict())
    else:
        _print(found, loaded.file.title)
    raise typer.Exit(0 if found.complete else 1)


@robot.command("poses")
def poses(
    robot: Annotated[str, typer.Argument(help="Robot name, or a folder with a robot.yaml.")],
    out: Annotated[Path, typer.Option(help="New file for the figure: .png, .svg or .pdf.")],
    as_json: JsonOption = False,
) -> None:
    """Draw the arm at zero angles, at rest, and with each joint moved in its positive direction.

    Compare the figure with the real arm before its first motion, to check zeros and signs of the joint angles.
    """
    from dynid.reporting.pose_figure import write_pose_figure
    from dynid.robot import load_robot

    write_pose_figure(load_robot(robot), out)
    if as_json:
        print_json({"figure": str(out)})
    else:
        say(f"{out}: compare it with the arm, joint by joint, before its first motion")


robot.command("minimal-set")(minimal_set)
robot.command("mapping")(mapping)
robot.command("scan")(scan)
robot.command("match")(match)


def _print_questions(questions: dict[str, str]) -> None:
    for field, question in questions.items():
        say(f"  [yellow]?[/yellow] [bold]{escape(field)}[/bold]: {escape(question)}")


def _print(found: "RobotCheck", title: str) -> None:
    regrouping = found.model.regrouping
    table = Table(title=f"{escape(title)}: base parameters", title_justify="left")
    for heading in ("name", "standard parameters in it"):
        table.add_column(heading, overflow="fold")
    for name, terms in found.groupings().items():
        table.add_row(name, terms)
    stdout().print(table)
    counted = f"{len(regrouping.standard)} standard parameters, {len(regrouping.names)} base parameters"
    say(f"{counted} (groups by {regrouping.method})")
    if found.silent:
        say(f"without effect on any torque: {', '.join(found.silent)}")
    for note in found.notes:
        say(f"  [yellow]{escape(note)}[/yellow]")
    for use in found.uses:
        state = "[green]ready[/green]" if use.ready else f"not ready: {escape(use.missing)}"
        say(f"  {use.name}: {state}")
    if found.undecided:
        say("[bold red]undecided[/bold red] in robot.yaml:")
        _print_questions(found.undecided)
