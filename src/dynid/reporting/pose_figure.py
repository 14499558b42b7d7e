"""Figure of poses for comparison with a real arm: zero pose, rest posture, and each joint moved positively."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from dynid.errors import ConfigurationError
from dynid.model.chain import SerialChain
from dynid.reporting.joint_names import short_names
from dynid.reporting.trajectory_figure import write_figure
from dynid.robot import FloatArray, Robot

MOVED_RAD, MOVED_M = np.deg2rad(20.0), 0.05  # displacement of a joint in the sign test [rad, m]
COLUMNS, PANEL_IN, DOTS_PER_INCH = 4, 3.1, 110
ARM, ZERO, AXIS = "#1f5fa8", "0.72", "#b3261e"
FRAME = ("#b3261e", "#2e7d32", "#1f5fa8")  # colours of the last link's x, y and z axes


def sign_test_poses(robot: Robot) -> dict[str, FloatArray]:
    """Return the poses that `pose_figure` draws, (n,) each [rad or m], by title.

    The poses are the zero pose and, if robot.yaml has one, the rest posture. A further pose for each chain joint is the
    zero pose with this joint moved in its positive direction.
    """
    poses = {"zero pose: all angles 0": np.zeros(robot.size)}
    try:
        poses["rest posture"] = np.array(robot.rest_posture)
    except ConfigurationError:
        pass  # an arm that is never driven may lack a rest posture
    for j, name in enumerate(short_names(robot.joint_names)[: robot.chain_size]):
        moved = np.zeros(robot.size)
        moved[j] = MOVED_M if robot.prismatic[j] else MOVED_RAD
        amount = f"+{MOVED_M * 100:.0f} cm" if robot.prismatic[j] else f"+{np.rad2deg(MOVED_RAD):.0f} deg"
        poses[f"{j + 1} {name.replace('_', ' ')}: {amount}"] = moved
    return poses


def skeleton(chain: SerialChain, q: FloatArray) -> FloatArray:
    """Return the origins of base and c chain joints in the base frame, (c + 1, 3) [m], at a pose q (c,) [rad or m]."""
    return np.array([np.zeros(3), *chain.placements(q)[:, :3, 3]])


def pose_figure(robot: Robot) -> Figure:
    """Draw one panel for each pose of `sign_test_poses`.

    A panel with a moved joint also shows the zero pose and the joint's axis.
    """
    chain, poses = SerialChain.from_robot(robot), sign_test_poses(robot)
    size = robot.chain_size
    zero = skeleton(chain, np.zeros(size))
    reach = max(float(np.linalg.norm(np.diff(zero, axis=0), axis=1).sum()), 0.1)
    rows = -(-len(poses) // COLUMNS)
    figure = Figure(figsize=(COLUMNS * PANEL_IN, rows * PANEL_IN + 0.6), dpi=DOTS_PER_INCH)
    moved_first = len(poses) - size
    for k, (title, q) in enumerate(poses.items()):
        axes = figure.add_subplot(rows, COLUMNS, k + 1, projection="3d")
        axes.set_title(title, fontsize=8, fontweight="bold")
        if k >= moved_first:
            _draw(axes, chain, np.zeros(size), ZERO, reach)
            _axis(axes, chain, k - moved_first, reach)
        _draw(axes, chain, q[:size], ARM, reach)
        _frame(axes, zero, reach)
    figure.suptitle(
        f"{robot.file.title}: angles read 0 in the first posture, and grow where the joint moves as shown "
        "(red: its axis; right-hand rule)",
        fontsize=10,
    )
    figure.subplots_adjust(left=0.01, right=0.99, bottom=0.02, top=1.0 - 0.7 / (rows * PANEL_IN), wspace=0.02)
    return figure


def _draw(axes: Any, chain: SerialChain, q: FloatArray, colour: str, reach: float) -> None:
    """Draw the chain at a pose q (c,) [rad or m]: links as lines, joints as dots, and axes of the last link's frame.

    `reach` is the length of the arm [m], which scales the frame.
    """
    points, last = skeleton(chain, q), chain.placements(q)[-1]
    axes.plot(*points.T, color=colour, linewidth=2.4, marker="o", markersize=3.5)
    for direction, own in zip(last[:3, :3].T, FRAME, strict=True):
        end = last[:3, 3] + 0.13 * reach * direction
        axes.plot(*np.array([last[:3, 3], end]).T, color=own if colour == ARM else colour, linewidth=1.4)


def _axis(axes: Any, chain: SerialChain, joint: int, reach: float) -> None:
    """Draw the axis of a joint in the zero pose as an arrow in its positive direction.

    `joint` is the index of the joint, from 0, and `reach` is the length of the arm [m], which scales the arrow.
    """
    origin, direction = chain.joint_placements[joint][:3, 3], chain.axes[joint]
    axes.quiver(*origin, *(0.3 * reach * direction), color=AXIS, linewidth=1.6, arrow_length_ratio=0.3)


def _frame(axes: Any, zero: FloatArray, reach: float) -> None:
    """Set axis limits with equal scales around the arm.

    `zero` are the origins of base and c joints in the zero pose, (c + 1, 3) [m], and `reach` is the arm's length [m].
    """
    centre = 0.5 * (zero.min(axis=0) + zero.max(axis=0))
    for limits, middle in zip((axes.set_xlim, axes.set_ylim, axes.set_zlim), centre, strict=True):
        limits(middle - 0.6 * reach, middle + 0.6 * reach)
    axes.set_box_aspect((1, 1, 1))
    axes.view_init(elev=18, azim=-58)
    axes.tick_params(labelsize=6, pad=-3)
    axes.set_xlabel("x [m]", fontsize=7, labelpad=-8)
    axes.set_ylabel("y [m]", fontsize=7, labelpad=-8)
    axes.set_zlabel("z [m]", fontsize=7, labelpad=-8)


def write_pose_figure(robot: Robot, path: Path) -> None:
    """Write the figure of `pose_figure` to a new file.

    Raises:
        OutputExistsError: the file exists.
        UnknownNameError: the suffix is not a figure format.
    """
    write_figure(path, lambda: pose_figure(robot))
