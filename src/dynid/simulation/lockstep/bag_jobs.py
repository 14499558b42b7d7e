"""Bags of simulated runs, made by several processes for `dynid simulate` and the benchmark."""

import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from dynid.control.controller import load_controller
from dynid.control.ff_pd import FeedforwardPd
from dynid.errors import UnknownNameError
from dynid.export.mjcf import default_stops
from dynid.parallel import in_processes
from dynid.resources import move_to_output
from dynid.robot import load_robot
from dynid.simulation.lockstep.run import simulate
from dynid.simulation.lockstep.simulated_bag import write_bag
from dynid.trajectory.families import load_excitation
from dynid.trajectory.files import is_file_name, named_motion

FROM_FILE = "file"  # profile name of trajectories from files, as on the real-time chain


def chosen_names(patterns: Sequence[str], known: tuple[str, ...]) -> list[str]:
    """Return trajectory names that match names or patterns such as 'PA*', and file names, in order, each once.

    Raises:
        UnknownNameError: a pattern without a match.
    """
    names: list[str] = []
    for pattern in patterns:
        if is_file_name(pattern):
            names.append(pattern)
            continue
        found = [name for name in known if fnmatchcase(name, pattern)]
        if not found:
            raise UnknownNameError("trajectory", pattern, known)
        names += found
    return list(dict.fromkeys(names))


@dataclass(frozen=True)
class BagJob:
    """Settings of one simulated bag: robot, trajectory of a profile or file, options of the simulation, new folder."""

    robot: str
    trajectory: str
    profile: str
    mount: str | None
    seed: int
    without: tuple[str, ...]
    folder: Path
    friction: str | None = None


@dataclass(frozen=True)
class BagMade:
    """Duration of the motion, wall time and processor time of simulating and writing it [s]."""

    motion_s: float
    seconds: float
    processor_s: float


def make_bag(job: BagJob) -> BagMade:
    """Simulate one trajectory and write its bag, which appears under its name only when it is complete.

    Raises:
        OutputExistsError: the folder exists.
        UnknownNameError: no such robot, trajectory, profile, mount or nuisance.
        SafetyError: the arm does not follow the trajectory.
    """
    begin, processor_begin = time.perf_counter(), time.process_time()
    robot = load_robot(job.robot)
    excitation, controller = load_excitation(robot), load_controller(robot)
    run = simulate(
        robot,
        named_motion(excitation, job.trajectory, job.profile),
        FeedforwardPd(controller),
        mount=job.mount,
        seed=job.seed,
        switched_off=job.without,
        friction=job.friction,
        stops=default_stops(robot, excitation.limits(job.profile)),
    )
    with tempfile.TemporaryDirectory(dir=job.folder.parent, prefix=f".{job.folder.name}.") as work:
        made = Path(work) / job.folder.name
        write_bag(run, robot, controller, made, profile=FROM_FILE if is_file_name(job.trajectory) else job.profile)
        move_to_output(made, job.folder)
    return BagMade(float(run.stamps_ns[-1]) / 1e9, time.perf_counter() - begin, time.process_time() - processor_begin)


def make_bags(jobs: Sequence[BagJob], processes: int | None = None) -> Iterator[tuple[BagJob, BagMade]]:
    """Make all bags in parallel processes; yield each when it is finished. None uses one process per core."""
    for index, made in in_processes(make_bag, jobs, processes):
        yield jobs[index], made
