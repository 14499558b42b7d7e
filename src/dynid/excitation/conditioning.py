"""Condition number of the regressor on each reference trajectory, compared with arXiv:2605.15949, Appendix A.

    python -m dynid.excitation.conditioning [--robot crane_x7] [--sampling-ms 40] [--csv table.csv]

The paper's values are for measured motions; this program computes values for noise-free reference motions. At low
speed and short sampling intervals, noise in the measured accelerations makes the paper's condition number kappa
smaller. paper_condition_numbers.csv holds kappa of arXiv:2605.15949v2, Appendix A (CC BY 4.0), for sampling intervals
of 10, 20, 40 and 80 ms.
"""

import argparse
import csv
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from dynid.excitation.optimiser import condition_number
from dynid.model.dynamics import ArmModel
from dynid.resources import write_whole
from dynid.robot import load_robot
from dynid.trajectory.families import load_excitation

PAPER = Path(__file__).with_name("paper_condition_numbers.csv")
SAMPLING_MS = (10, 20, 40, 80)  # sampling intervals in the paper's tables [ms]


def paper_condition_numbers(sampling_ms: int) -> dict[str, float]:
    """Return the condition numbers of arXiv:2605.15949v2, Appendix A, by name of the trajectory.

    Args:
        sampling_ms: sampling interval [ms], one of `SAMPLING_MS`.
    """
    with PAPER.open(encoding="utf-8", newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if int(row["sampling_ms"]) == sampling_ms]
    return {row["trajectory"]: float(row["kappa"]) for row in rows}


def compare(robot_name: str, sampling_ms: int) -> list[dict[str, object]]:
    """Return the regressor's condition numbers on a robot's motions as table rows, one for each trajectory and profile.

    Args:
        robot_name: name of the robot.
        sampling_ms: sampling interval of the motions [ms], one of `SAMPLING_MS`.

    Raises:
        UnknownNameError: the robot does not exist.
    """
    robot = load_robot(robot_name)
    model, excitation, paper = ArmModel.of(robot), load_excitation(robot), paper_condition_numbers(sampling_ms)
    rows = []
    for name in excitation.names:
        for profile in excitation.profiles:
            trajectory = excitation.trajectory(name, profile)
            kappa = condition_number(model.regressor, trajectory, sampling_ms / 1000.0)
            rows.append(
                {
                    "trajectory": name,
                    "profile": profile,
                    "duration_s": round(trajectory.duration, 2),
                    "peak_velocity_rad_s": round(float(trajectory.peak_velocities.max()), 3),
                    "peak_acceleration_rad_s2": round(float(trajectory.peak_accelerations.max()), 3),
                    "kappa": round(kappa, 1),
                    "kappa_paper": paper.get(name, ""),
                    "ratio": round(kappa / paper[name], 3) if name in paper else "",
                }
            )
    return rows


def main() -> None:
    """Print a table that compares the condition numbers of all trajectories with the paper's (arXiv:2605.15949)."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--robot", default="crane_x7")
    parser.add_argument("--sampling-ms", type=int, choices=SAMPLING_MS, default=40)
    parser.add_argument("--csv", type=Path, help="write the table here; must not exist")
    arguments = parser.parse_args()
    rows = compare(arguments.robot, arguments.sampling_ms)
    table = Table(*rows[0], title=f"kappa(W) at {arguments.sampling_ms} ms")
    for row in rows:
        table.add_row(*(str(value) for value in row.values()))
    Console().print(table)
    for profile in dict.fromkeys(str(row["profile"]) for row in rows):
        ratios = [float(str(row["ratio"])) for row in rows if row["profile"] == profile and row["ratio"] != ""]
        print(
            f"{profile}: ratio ours/paper over {len(ratios)} trajectories: median {np.median(ratios):.2f}, "
            f"smallest {min(ratios):.2f}, largest {max(ratios):.2f}"
        )
    if arguments.csv:
        lines = [",".join(rows[0]), *(",".join(str(value) for value in row.values()) for row in rows)]
        write_whole(arguments.csv, "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
