"""Time of a whole campaign: bags made in the same way as by `dynid simulate`, then from bags on disk to tables."""

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dynid.errors import DataError
from dynid.identification.campaign.campaign import Campaign, campaign
from dynid.identification.campaign.files import identification_of
from dynid.reporting.result_writer import write_result
from dynid.robot import Robot
from dynid.simulation.lockstep.bag_jobs import BagJob, BagMade, make_bag, make_bags
from dynid.trajectory.families import Excitation

Progress = Callable[[str], None]
BYTES_PER_VALUE, VALUES_PER_JOINT = 8, 8  # bytes per value, and values per joint in the four 1 kHz topics of a cycle
BYTES_OF_NAMES = 2000  # upper bound of all other bytes of a cycle
MOVING_THERE_S = 10.0  # upper bound of the time of approach and return in a bag [s]


@dataclass(frozen=True)
class BagSet:
    """Set of bags: robot by name or folder, trajectories for identification and validation, and settings."""

    robot: str
    identification: tuple[str, ...]
    held_out: tuple[str, ...]
    profile: str
    mount: str | None
    seed: int

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all trajectories."""
        return (*self.identification, *self.held_out)

    def job(self, name: str, folder: Path) -> BagJob:
        """Return the job that makes one of the bags in a folder, under its trajectory's name."""
        return BagJob(self.robot, name, self.profile, self.mount, self.seed, (), folder / name)


def refuse_full_disk(bags: BagSet, robot: Robot, excitation: Excitation, folder: Path) -> None:
    """Raise DataError if the bags do not fit on the disk.

    Raises:
        DataError: names the folder, the free space and the required space.
    """
    seconds = sum(excitation.trajectory(name, bags.profile).duration + MOVING_THERE_S for name in bags.names)
    cycle = BYTES_PER_VALUE * VALUES_PER_JOINT * robot.size + BYTES_OF_NAMES
    needed, free = seconds / robot.file.bus.cycle_s * cycle, shutil.disk_usage(folder).free
    if free < needed:
        raise DataError(
            f"the benchmark's bags need up to {needed / 1e9:.1f} GB, {folder} has {free / 1e9:.1f} GB free; choose a "
            "folder on a larger disk with --work"
        )


def simulation_figures(bags: BagSet, first: str, timed: str, folder: Path) -> dict[str, Any]:
    """Make two bags in this process; return for the second the ratio of motion time to computing and writing time."""
    make_bag(bags.job(first, folder))  # loads or compiles what the loop needs
    made = make_bag(bags.job(timed, folder))
    return {
        "simulate_realtime_factor": made.motion_s / made.seconds,
        "simulate_realtime_factor_of_processor_time": made.motion_s / made.processor_s,
        "simulate_trajectory": timed,
        "simulate_motion_seconds": made.motion_s,
    }


def make_rest(bags: BagSet, folder: Path, progress: Progress) -> dict[str, Any]:
    """Make the missing bags, one process per core, long ones first."""
    jobs = [bags.job(name, folder) for name in bags.names if not (folder / name).exists()]
    begin = time.perf_counter()
    made: list[BagMade] = []
    for job, one in make_bags(jobs):
        made.append(one)
        progress(f"simulated {job.trajectory}, {len(made)} of {len(jobs)}")
    return {
        "bags_made": len(made),
        "bags_seconds": time.perf_counter() - begin,
        "bags_motion_seconds": sum(one.motion_s for one in made),
    }


def campaign_figures(bags: BagSet, robot: Robot, folder: Path, out: Path, progress: Progress) -> dict[str, Any]:
    """Return the time of a campaign from bags on disk to its written result.

    Args:
        bags: the set of bags.
        robot: the robot.
        folder: folder of the bags.
        out: new folder for the result.
        progress: function that is called for every finished bag.
    """
    runs = out.with_name(f"{out.name}.runs")
    count = 0

    def advance(text: str) -> None:
        nonlocal count
        count += 1
        progress(f"identified {text}, {count} of {len(bags.identification)}")

    begin, processor_begin = time.perf_counter(), _processor_s()
    result = campaign(
        robot,
        [folder / name for name in bags.identification],
        runs,
        validation_bags=[folder / name for name in bags.held_out],
        advance=advance,
    )
    write_result(identification_of(result, runs), out)
    seconds = time.perf_counter() - begin
    return {
        "campaign_seconds": seconds,
        "campaign_processor_seconds": _processor_s() - processor_begin,  # relevant on a shared machine
        **_outcome(result),
    }


def _processor_s() -> float:
    """Return the processor time of this process and of its ended children [s]."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def _outcome(result: Campaign) -> dict[str, Any]:
    """Return the campaign's main figures."""
    refused = {run.label: run.refusal for run in result.runs if not run.accepted}
    return {
        "campaign_runs": len(result.runs),
        "campaign_feasible": len(result.runs) - len(refused),
        "campaign_refused": refused,
        "campaign_failed_bags": dict(result.failures),
        "campaign_accepted": result.verdict.accepted,
        "campaign_failed_checks": [check.name for check in (*result.processing.failed, *result.verdict.failed)],
        "campaign_clie_seconds": sum(run.clie.seconds for run in result.runs if run.clie is not None),
    }
