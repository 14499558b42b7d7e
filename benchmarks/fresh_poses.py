"""Audit of every accepted run of a finished campaign on fresh poses, by sampling alone and with a seed of its own.

python benchmarks/fresh_poses.py campaign --poses 5000000

Prints one JSON object; the exit code is 1 if a run's M(q) falls below the campaign's own limit at any pose.
"""

import argparse
import json
import sys
from pathlib import Path

from dynid.identification.campaign.run import RunRecord, phi_of
from dynid.identification.feasibility.audit import Auditor
from dynid.identification.settings import load_identification
from dynid.model.dynamics import ArmModel
from dynid.parallel import in_processes
from dynid.robot import load_robot

SEED = 424_242  # seed that no stage of a campaign uses


def smallest(job: tuple[Path, int]) -> tuple[str, float, int] | None:
    """Return the label of an accepted run, its smallest eigenvalue [kg m^2], and the number of audited poses."""
    path, poses = job
    run = RunRecord.model_validate_json(path.read_text(encoding="utf-8"))
    if not run.accepted or run.final is None:
        return None
    robot = load_robot("crane_x7")
    model = ArmModel.of(robot, mount=run.mount)
    auditor = Auditor(model, robot.audit_lower, robot.audit_upper)
    found = auditor.audit(phi_of(run.final, model.names), poses=poses, searches=0, seed=SEED)
    return run.label, found.lambda_min, found.poses_checked


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("campaign", type=Path)
    parser.add_argument("--poses", type=int, default=5_000_000)
    arguments = parser.parse_args()
    files = sorted((arguments.campaign / "runs").glob("*.json"))
    results = [one for _, one in in_processes(smallest, [(path, arguments.poses) for path in files]) if one]
    if not results:
        sys.exit(f"{arguments.campaign} holds no accepted runs")
    limit = load_identification(load_robot("crane_x7")).acceptance.lambda_min_kg_m2
    failed = sorted(label for label, value, _ in results if value < limit)
    label, value, poses = min(results, key=lambda one: one[1])
    print(
        json.dumps(
            {
                "runs": len(files),
                "accepted": len(results),
                "poses_each": poses,
                "limit": limit,
                "lambda_min": value,
                "lowest_run": label,
                "failed": failed,
            }
        )
    )
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
