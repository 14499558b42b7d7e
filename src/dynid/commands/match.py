"""`dynid robot match`: assignment of servos to joints, with signs and zeros, from motions of the arm by hand."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.markup import escape

from dynid.commands.keys import typed_keys
from dynid.commands.options import JsonOption
from dynid.commands.terminal import print_json, say, stdout, table
from dynid.errors import ConfigurationError, UnknownNameError

if TYPE_CHECKING:
    from dynid.hardware.startup.hand_motions import HandMotions
    from dynid.hardware.startup.match_blocks import Proposal
    from dynid.robot import FloatArray, Robot

COLUMNS = ("name", "servo_id", "servo_model", "direction", "reverse_mode", "turned_deg", "zero_error_deg", "changes")
CONFIRMING, ENDING = set(b"\n\r "), set(b"q\x1b")
LONGEST_S = 900.0  # longest recording without questions [s]


def match(
    robot: Annotated[str, typer.Option(help="Robot name, or a folder with a robot.yaml, whose joints are moved.")],
    port: Annotated[str | None, typer.Option(help="Serial port of the servos.")] = None,
    recording: Annotated[
        Path | None, typer.Option(help="Earlier motions in place of --port: a file of --record, or a driver's bag.")
    ] = None,
    pose: Annotated[
        Literal["zero", "rest"], typer.Option(help="Pose that the arm is brought to at the end, see `robot poses`.")
    ] = "zero",
    at: Annotated[
        list[str] | None,
        typer.Option(metavar="JOINT:=DEG", help="Other angle of a joint in the pose, such as a stop's; repeatable."),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(min=5.0, max=LONGEST_S, help="Record for this time without questions, for hands that are busy."),
    ] = None,
    baudrate: Annotated[int | None, typer.Option(help="Baud rate [bit/s]; default: from robot.yaml.")] = None,
    record: Annotated[Path | None, typer.Option(help="New YAML file for the motions.")] = None,
    out: Annotated[Path | None, typer.Option(help="New YAML file for the blocks servos, joints and bus.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Find which servo moves which joint, and its sign and zero, while you move the arm by hand without torque.

    Move each joint in its positive direction when asked, then bring the arm to the zero or rest pose. Nothing is
    written to the servos or to robot.yaml. Ambiguous motions are refused. Exit code 1 if servos, motions and robot.yaml
    are inconsistent.
    """
    from dynid.hardware.startup.hand_motions import load_hand_motions
    from dynid.hardware.startup.joint_match import match_recording, refuse_unmatchable
    from dynid.hardware.startup.match_blocks import propose
    from dynid.resources import refuse_existing, write_whole, yaml_text
    from dynid.robot import load_robot

    if (port is None) == (recording is None):
        raise typer.BadParameter("give --port for an arm, or --recording for earlier motions")
    if recording is not None and (seconds is not None or baudrate is not None or record is not None):
        raise typer.BadParameter("--seconds, --baudrate and --record are for --port")
    loaded = load_robot(robot)
    refuse_unmatchable(loaded)
    angles = pose_angles(loaded, pose, at or [])
    for file in filter(None, (record, out)):
        refuse_existing(file)
    if recording is not None:
        motions = load_hand_motions(recording, loaded)
    else:
        motions = _moved_by_hand(loaded, str(port), baudrate, seconds, _pose_words(loaded, angles))
    if record is not None:
        motions.save(record)
    found, reference = match_recording(loaded, motions)
    proposal = propose(loaded, motions, found, reference, angles)
    if out is not None:
        write_whole(out, yaml_text(proposal.blocks))
    if as_json:
        joints = [one.as_dict() for one in proposal.joints]
        print_json({"joints": joints, "blocks": proposal.blocks, "oddities": list(proposal.oddities)})
    else:
        _print(loaded, proposal)
    raise typer.Exit(1 if proposal.oddities else 0)


def pose_angles(robot: "Robot", pose: str, at: list[str]) -> "FloatArray":
    """Return the joint angles of the pose to which the user brings the arm, (n,) [rad].

    Args:
        robot: the robot.
        pose: "zero" or "rest".
        at: angles that replace those of single joints, as `JOINT:=DEG`.

    Raises:
        ConfigurationError: the robot has no rest posture, or an entry of `at` does not have this form or exceeds
            360 deg.
        UnknownNameError: the robot has no such joint.
    """
    import numpy as np

    angles = np.zeros(robot.size) if pose == "zero" else np.array(robot.rest_posture)
    for text in at:
        name, sign, degrees = text.rpartition(":=")
        try:
            angle = float(degrees)
        except ValueError:
            angle = np.nan
        if not sign or not np.isfinite(angle) or abs(angle) > 360.0:
            raise ConfigurationError(f"--at {text}: expected JOINT:=DEG with an angle of at most 360 deg")
        if name not in robot.joint_names:
            raise UnknownNameError("joint", name, robot.joint_names)
        angles[robot.joint_names.index(name)] = np.deg2rad(angle)
    return angles


def _pose_words(robot: "Robot", angles: "FloatArray") -> str:
    """Return a description of a pose for the user; `angles` are its joint angles, (n,) [rad]."""
    import numpy as np

    if not angles.any():
        return "the zero pose of the figure of dynid robot poses"
    listed = zip(robot.joint_names, np.rad2deg(angles).tolist(), strict=True)
    return "the pose with " + ", ".join(f"{name} at {degrees:.1f} deg" for name, degrees in listed)


def _moved_by_hand(robot: "Robot", port: str, baudrate: int | None, seconds: float | None, pose: str) -> "HandMotions":
    """Record motions of an arm by hand, and return them.

    Args:
        robot: the robot.
        port: serial port of the servos.
        baudrate: baud rate [bit/s]; None is that of robot.yaml.
        seconds: duration of a recording without questions [s]; None asks the user for one joint after the other.
        pose: description of the pose to which the user brings the arm at the end.
    """
    from dynid.hardware.bus.servo_bus import ServoBus
    from dynid.hardware.startup.hand_session import record_for, record_guided, watched_line
    from dynid.hardware.startup.joint_match import Matcher

    if seconds is None and not sys.stdin.isatty():
        raise ConfigurationError(
            "there is no terminal to ask for motions: give --seconds to record without questions, or --recording"
        )
    with watched_line(ServoBus(port, baudrate or robot.file.bus.baudrate, ())) as line, typed_keys() as typed:
        matcher, user = Matcher(robot, line.servos), _Terminal(typed)
        listed = ", ".join(str(one.servo_id) for one in line.servos)
        user.ask(f"{len(line.servos)} servos without torque: {listed}. Keep a hand under the arm: it falls. q ends")
        if seconds is None:
            return record_guided(line, matcher, user, pose)
        user.ask(
            f"recording for {seconds:g} s: stand still for a second; move {', '.join(robot.joint_names)} one after the "
            f"other, each alone in its positive direction, with a second of standstill between; then hold {pose}"
        )
        return record_for(line, seconds)


class _Terminal:
    """Dialogue with the user at the terminal; texts go to standard error, so that results can be piped.

    Args:
        typed: function that returns the keys pressed since its last call.
    """

    def __init__(self, typed: Callable[[], bytes]) -> None:
        self._typed = typed

    def ask(self, text: str) -> None:
        """Show a sentence to the user, without waiting for an answer."""
        print(text, file=sys.stderr, flush=True)

    def confirmed(self) -> bool:
        """Return whether Enter or space was pressed since the last call; after q or Esc, end the command."""
        keys = set(self._typed())
        if keys & ENDING:
            raise typer.Abort
        return bool(keys & CONFIRMING)


def _print(robot: "Robot", proposal: "Proposal") -> None:
    from dynid.resources import yaml_text

    shown = table(f"joints of {robot.name}", *COLUMNS, words=3)
    for one in proposal.joints:
        values = one.as_dict() | {"changes": "; ".join(one.changes) or "none"}
        shown.add_row(*(str(values[key]) for key in COLUMNS))
    stdout().print(shown)
    say(escape(yaml_text(proposal.blocks)))
    say(*(f"[yellow]{escape(text)}[/yellow]" for text in proposal.oddities))
    changed = [one.name for one in proposal.joints if one.changes]
    say(f"robot.yaml differs at {', '.join(changed)}" if changed else "the joints of robot.yaml agree with the arm")
