"""Plot the contents of a bag: python examples/plot_bag.py BAG FIGURE.png

Position, velocity and torque of every joint over time, as recorded.
"""

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from dynid.recording.recording import load_recording
from dynid.reporting.joint_names import short_names
from dynid.robot import load_robot


def main() -> None:
    """Read the bag, draw one row per joint."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bag", type=Path)
    parser.add_argument("figure", type=Path, help="new .png, .svg or .pdf")
    parser.add_argument("--robot", default="crane_x7")
    arguments = parser.parse_args()
    if arguments.figure.exists():
        raise SystemExit(f"{arguments.figure} exists")

    robot = load_robot(arguments.robot)
    recording = load_recording(arguments.bag, robot)
    time = recording.time - recording.time[0]
    names = short_names(recording.joint_names)
    figure = Figure(figsize=(12.0, 1.5 * len(names) + 0.5), layout="constrained")
    grid = figure.subplots(len(names), 3, sharex=True, squeeze=False)
    for j, name in enumerate(names):
        curves = (
            ("q [deg]", np.rad2deg(recording.q[:, j])),
            ("dq [rad/s]", recording.dq[:, j]),
            ("tau [N m]", recording.tau_present[:, j]),
        )
        for axes, (label, values) in zip(grid[j], curves, strict=True):
            axes.plot(time, values, linewidth=0.8)
            axes.set_ylabel(label)
            axes.grid(alpha=0.3)
        grid[j, 0].set_title(name, loc="left", fontsize=9)
    for axes in grid[-1]:
        axes.set_xlabel("time [s]")
    figure.savefig(arguments.figure)
    print(f"{len(time)} samples of {len(names)} joints, {time[-1]:.1f} s - {arguments.figure}")


if __name__ == "__main__":
    main()
