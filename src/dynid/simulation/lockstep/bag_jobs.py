"""Simulation of many runs in parallel processes, and writing of their bags, for `dynid simulate` and benchmarks."""

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
    """Return the known trajectory names that match names or patterns such as 'PA*', in order and without duplicates.

    File names among the patterns are returned unchanged.

    Raises:
        UnknownNameError: a pattern matches no known name.
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
    """Settings of one simulated bag.

    Attributes:
        robot: name of the robot.
        trajectory: name of a trajectory, or of a file that contains a trajectory.
        profile: name of a profile in excitation.yaml, that is, of one variant of all trajectories with its limits.
        mount: name of a mount in robot.yaml; None is the default mount.
        seed: seed of all random nuisances (such as noise and jitter).
        without: names of nuisances (such as noise or backlash) to leave out.
        folder: folder of the bag, which must not exist yet.
        friction: name of the friction model of the gears; None is the choice of robot.yaml.
    """

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
    """Durations of one simulated bag [s].

    Attributes:
        motion_s: simulated time from the first state to the last.
        seconds: wall time of simulation and writing.
        processor_s: processor time of simulation and writing.
    """

    motion_s: float
    seconds: float
    processor_s: float


def make_bag(job: BagJob) -> BagMade:
    """Simulate one trajectory and write its bag; the bag's folder appears only when it is complete.

    Raises:
        OutputExistsError: the folder exists.
        UnknownNameError: the name of a robot, trajectory, profile, mount, friction model or nuisance is unknown.
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
    """Make all bags in parallel processes; yield each job with its durations when its bag is finished.

    `processes` is the number of processes; None uses one per core.
    """
    for index, made in in_processes(make_bag, jobs, processes):
        yield jobs[index], made
