"""Plot the contents of a recording: python examples/plot_bag.py BAG FIGURE.png

Position, velocity and torque of every joint over time, as recorded.
"""

import argparse
from pathlib import Path

import dynid


def main() -> None:
    """Read the recording, draw one row per joint."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bag", type=Path)
    parser.add_argument("figure", type=Path, help="new .png, .svg or .pdf")
    parser.add_argument("--robot", default="crane_x7")
    arguments = parser.parse_args()
    if arguments.figure.exists():
        raise SystemExit(f"{arguments.figure} exists")

    recording = dynid.load_recording(arguments.bag, dynid.load_robot(arguments.robot))
    recording.plot().savefig(arguments.figure)
    time, joints = recording.time, len(recording.joint_names)
    print(f"{len(time)} samples of {joints} joints, {time[-1] - time[0]:.1f} s - {arguments.figure}")


if __name__ == "__main__":
    main()
