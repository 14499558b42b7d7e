"""Figure of a trajectory: position, velocity and acceleration of every joint, with the limits that apply."""

from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from dynid.errors import UnknownNameError
from dynid.reporting.joint_names import short_names
from dynid.resources import refuse_existing, write_whole
from dynid.robot import FloatArray, Robot
from dynid.trajectory.families import Excitation
from dynid.trajectory.trajectory import Trajectory

Span = tuple[float, float]
SUFFIXES = (".png", ".svg", ".pdf")
SAMPLES = 4000  # samples per curve, more than a page can show
ROW_IN, TOP_IN, BOTTOM_IN, WIDTH_IN = 1.35, 0.75, 0.85, 13.0
DOTS_PER_INCH = 130
CURVE, PROFILE, ARM = "#1f5fa8", "#c77700", "#b3261e"
OUTSIDE_STYLE: dict[str, Any] = {"color": ARM, "alpha": 0.08, "linewidth": 0}
# Without the time of writing and with fixed identifiers, equal motions give equal files.
METADATA = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
STYLE = {"svg.hashsalt": "dynid", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}


def check_output(path: Path) -> None:
    """Check that a figure can be written to a path.

    Raises:
        UnknownNameError: the suffix is not a figure format.
        OutputExistsError: the file exists.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise UnknownNameError("figure format", path.suffix or path.name, SUFFIXES)
    refuse_existing(path)


def trajectory_figure(robot: Robot, excitation: Excitation, trajectory: Trajectory, profile: str) -> Figure:
    """Draw a trajectory in one row per joint, with columns for position q, velocity dq and acceleration ddq.

    The limits of the arm and those of excitation.yaml are drawn, too. excitation.yaml defines several profiles, each
    with its own position limits; `profile` is the name of the profile to draw.
    """
    times = np.linspace(0.0, trajectory.duration, SAMPLES)
    samples = trajectory.sample_all(times)
    turning = ~np.array(robot.prismatic)
    scale = np.where(turning, np.rad2deg(1.0), 1.0)  # joint angles are shown in degrees
    n = robot.size
    height = ROW_IN * n + TOP_IN + BOTTOM_IN
    figure = Figure(figsize=(WIDTH_IN, height), dpi=DOTS_PER_INCH)
    grid = figure.subplots(n, 3, sharex=True, squeeze=False)
    figure.subplots_adjust(
        left=0.05, right=0.99, top=1.0 - TOP_IN / height, bottom=BOTTOM_IN / height, wspace=0.17, hspace=0.32
    )
    lower, upper = excitation.limits(profile)
    peaks = trajectory.peak_velocities, trajectory.peak_accelerations
    speed, acceleration = robot.velocity_limits, np.array(excitation.file.acceleration_rad_s2)
    for j, name in enumerate(short_names(robot.joint_names)):
        length = "rad" if turning[j] else "m"
        position, velocity, change = grid[j]
        position.set_title(f"{j + 1}  {name}", loc="left", fontweight="bold", fontsize=9)
        q, own = samples[0][:, j] * scale[j], (robot.lower[j] * scale[j], robot.upper[j] * scale[j])
        span = f"{q.min():.4g} to {q.max():.4g} {'deg' if turning[j] else 'm'}"
        _curve(position, times, q, f"q [{'deg' if turning[j] else 'm'}]", span)
        _limits(position, own, (lower[j] * scale[j], upper[j] * scale[j]))
        _curve(velocity, times, samples[1][:, j], f"dq [{length}/s]", f"peak {peaks[0][j]:.2f} {length}/s")
        _limits(velocity, (-speed[j], speed[j]), None)
        unit = f"{length}/s$^2$"
        _curve(change, times, samples[2][:, j], f"ddq [{unit}]", f"peak {peaks[1][j]:.2f} {unit}")
        _limits(change, None, (-acceleration[j], acceleration[j]))
    for axes in grid[-1]:
        axes.set_xlabel("time [s]")
        axes.set_xlim(0.0, trajectory.duration)
    figure.align_ylabels()
    figure.suptitle(
        f"{trajectory.name}, profile '{profile}': {robot.file.title}, {trajectory.duration:.1f} s",
        y=1.0 - 0.15 / height,
        va="top",
        fontsize=14,
        fontweight="bold",
    )
    _legend(figure, profile)
    return figure


def _curve(axes: Axes, times: FloatArray, values: FloatArray, label: str, note: str) -> None:
    axes.plot(times, values, color=CURVE, linewidth=1.1)
    axes.set_ylabel(label)
    axes.grid(alpha=0.25, linewidth=0.5)
    axes.set_title(note, loc="right", fontsize=8, color="0.35")


def _limits(axes: Axes, arm: Span | None, profile: Span | None) -> None:
    """Draw the limits of the plotted quantity as lines, and shade the range beyond the arm's limits.

    `arm` are the lower and upper limit of the arm, and `profile` those of excitation.yaml; one of them may be None,
    which draws no limits. The vertical axis is extended so that all limits are visible.
    """
    bottom, top = axes.get_ylim()
    given = [value for span in (arm, profile) if span for value in span]
    bottom, top = min(bottom, *given), max(top, *given)
    room = 0.06 * (top - bottom)
    bottom, top = bottom - room, top + room
    if arm:
        axes.axhspan(bottom, arm[0], **OUTSIDE_STYLE)
        axes.axhspan(arm[1], top, **OUTSIDE_STYLE)
    for span, colour, style in ((arm, ARM, "-"), (profile, PROFILE, "--")):
        for value in span or ():
            axes.axhline(value, color=colour, linestyle=style, linewidth=0.9)
    axes.set_ylim(bottom, top)


def _legend(figure: Figure, profile: str) -> None:
    handles = [
        Line2D([], [], color=CURVE, label="reference"),
        Line2D([], [], color=PROFILE, linestyle="--", label=f"limit of profile '{profile}'"),
        Line2D([], [], color=ARM, label="limit of the arm"),
        Patch(**OUTSIDE_STYLE, label="beyond the limit"),
    ]
    figure.legend(handles=handles, loc="lower center", ncols=len(handles), frameon=False, fontsize=10)


def write_trajectory_figure(
    robot: Robot, excitation: Excitation, trajectory: Trajectory, profile: str, path: Path
) -> None:
    """Write a figure of position, velocity and acceleration of all joints in a trajectory to a new file.

    Args:
        robot: the robot, whose limits are drawn.
        excitation: excitation.yaml of the robot, whose limits are drawn.
        trajectory: the trajectory.
        profile: name of the profile of excitation.yaml whose position limits are drawn.
        path: the file; its suffix selects the format.

    Raises:
        UnknownNameError: the suffix is not a figure format.
        OutputExistsError: the file exists.
    """
    write_figure(path, lambda: trajectory_figure(robot, excitation, trajectory, profile))


def write_figure(path: Path, draw: Callable[[], Figure]) -> None:
    """Write the figure that `draw` returns to a new file in the format of the suffix; if this fails, no file remains.

    Raises:
        UnknownNameError: the suffix is not a figure format.
        OutputExistsError: the file exists.
    """
    check_output(path)
    suffix, content = path.suffix.lower(), BytesIO()
    with matplotlib.rc_context(STYLE):
        draw().savefig(content, format=suffix[1:], metadata=METADATA[suffix])
    write_whole(path, content.getvalue())
