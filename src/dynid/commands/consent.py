"""Consent of the user to actions on a REAL arm: by an answer at the terminal, or by the option `--yes` in scripts."""

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from dynid.errors import SafetyError

if TYPE_CHECKING:
    from dynid.robot import FloatArray, Robot
    from dynid.trajectory.motion import Motion

YesOption = Annotated[bool, typer.Option("--yes", help="Confirm beforehand what a REAL arm will do: for scripts.")]
SAMPLES = 2000  # number of samples of a motion to find its range


def ask_before_moving(robot: "Robot", port: str | None, motion: str, yes: bool) -> bool:
    """Describe how a real arm will move, and ask the user for consent; a simulated arm needs none.

    Args:
        robot: robot that will move.
        port: serial port; None is the simulated arm.
        motion: description of the motion: its range, speed and duration.
        yes: whether consent was given beforehand.

    Returns:
        True with consent to move a real arm; False for a simulated arm.

    Raises:
        SafetyError: consent was not given.
    """
    return ask(port, f"the REAL arm on {port} ({robot.file.title}) will move: {motion}", yes)


def ask(port: str | None, sentence: str, yes: bool) -> bool:
    """Print what will happen to the arm on a port, and ask for consent at the terminal; a simulated arm needs none.

    Args:
        port: serial port; None is the simulated arm.
        sentence: description of what will happen.
        yes: whether consent was given beforehand.

    Returns:
        True with consent, False for a simulated arm. Pass this value to the driver that opens the port later. After
        False, this driver refuses to open the port if a real arm has replaced the simulated arm in the meantime.

    Raises:
        SafetyError: consent was not given, or there is no terminal and `yes` was not given.
    """
    from dynid.hardware.bus.simulated_line import is_simulated_port

    if port is None or is_simulated_port(port):
        return False
    print(sentence, file=sys.stderr, flush=True)  # even with --quiet
    if yes:
        return True
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise SafetyError(
            f"nothing was done on {port}: there is no terminal for the confirmation; confirm beforehand with --yes"
        )
    if not typer.confirm("Is its workspace clear, and the emergency stop within reach?", err=True):
        raise SafetyError(f"nothing was done on {port}: not confirmed")
    return True


def words_of_motions(robot: "Robot", motions: Sequence["Motion"]) -> str:
    """Return a description of motions: names, ranges of all joints, peak velocity and duration."""
    names = ", ".join(dict.fromkeys(motion.name for motion in motions))
    postures = [robot.rest_posture[None]]
    postures += [one.sample_all(np.linspace(0.0, one.duration, SAMPLES))[0] for one in motions]
    q = np.vstack(postures)
    fastest = np.max([motion.peak_velocities for motion in motions], axis=0)
    seconds = sum(motion.duration for motion in motions)
    return (
        f"{names}; {ranges(q.min(axis=0), q.max(axis=0))}; at up to {fastest.max():.2f} rad/s "
        f"(joint {int(fastest.argmax()) + 1}); for {seconds:.0f} s; {words_of_approach()}"
    )


def ranges(lower: "FloatArray", upper: "FloatArray") -> str:
    """Return a text with the range of each joint in degrees; `lower` and `upper` are (n,) each [rad]."""
    ends: Iterable[tuple[float, float]] = zip(np.rad2deg(lower).tolist(), np.rad2deg(upper).tolist(), strict=True)
    return "joints " + ", ".join(f"{k}: {low:.0f} to {high:.0f}" for k, (low, high) in enumerate(ends, 1)) + " deg"


def words_within_limits(robot: "Robot", law: str, fastest_rad_s: float, seconds: str) -> str:
    """Return a description of a motion whose path is not known beforehand.

    Args:
        robot: the robot; its joint limits are stated as ranges.
        law: beginning of the description, which states how or where the arm moves.
        fastest_rad_s: peak velocity [rad/s].
        seconds: description of the duration.
    """
    return (
        f"{law}; {ranges(robot.lower, robot.upper)}; at up to {fastest_rad_s:.2f} rad/s; {seconds}; "
        f"{words_of_approach()}"
    )


def words_of_approach() -> str:
    """Return a phrase on the motions from and to the rest posture, before and after the requested motion.

    The phrase states the largest planned speed of these motions.
    """
    from dynid.control.plan import APPROACH_RAD_S

    return (
        "before and after that it moves between its present and its rest posture, at up to "
        f"{max(APPROACH_RAD_S):.2f} rad/s"
    )
