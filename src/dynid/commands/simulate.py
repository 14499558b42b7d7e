"""`dynid simulate`: trajectories on the simulated arm in lock-step, faster than real time, as bags."""

import json
import tempfile
import time
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from dynid.commands.options import DEFAULT_ROBOT, JsonOption, MountOption, RobotOption, WithoutOption
from dynid.commands.progress import progress_bar
from dynid.errors import UnknownNameError
from dynid.parallel import in_processes


@dataclass(frozen=True)
class _Job:
    """One bag to make."""

    robot: str
    trajectory: str
    profile: str
    mount: str | None
    seed: int
    without: tuple[str, ...]
    folder: Path


@dataclass(frozen=True)
class _Done:
    """One bag made: how long the motion and its simulation took [s]."""

    motion_s: float
    simulation_s: float


def _simulate(job: _Job) -> _Done:
    """Simulate one trajectory and write its bag, which appears under its name only when it is complete."""
    from dynid.control.controller import load_controller
    from dynid.control.ff_pd import FeedforwardPd
    from dynid.resources import refuse_existing
    from dynid.robot import load_robot
    from dynid.simulation.lockstep import simulate
    from dynid.simulation.mjcf import default_stops
    from dynid.simulation.simulated_bag import write_bag
    from dynid.trajectory.families import load_excitation

    robot = load_robot(job.robot)
    excitation, controller = load_excitation(robot), load_controller(robot)
    begin = time.perf_counter()
    run = simulate(
        robot, excitation.trajectory(job.trajectory, job.profile), FeedforwardPd(controller), mount=job.mount,
        seed=job.seed, switched_off=job.without, stops=default_stops(robot, excitation.limits(job.profile)),
    )  # fmt: skip
    seconds = time.perf_counter() - begin
    with tempfile.TemporaryDirectory(dir=job.folder.parent, prefix=f".{job.folder.name}.") as work:
        made = Path(work) / job.folder.name
        write_bag(run, robot, controller, made, profile=job.profile)
        refuse_existing(job.folder)
        made.rename(job.folder)
    return _Done(float(run.stamps_ns[-1]) / 1e9, seconds)


def chosen_names(patterns: list[str], known: tuple[str, ...]) -> list[str]:
    """The trajectories that names or patterns such as 'PA*' mean, in the order given, each once.

    Raises:
        UnknownNameError: a pattern that means none.
    """
    names: list[str] = []
    for pattern in patterns:
        found = [name for name in known if fnmatchcase(name, pattern)]
        if not found:
            raise UnknownNameError("trajectory", pattern, known)
        names += found
    return list(dict.fromkeys(names))


def simulate(
    trajectories: Annotated[list[str], typer.Argument(help="Trajectories, or quoted patterns such as 'PA*'.")],
    out: Annotated[Path, typer.Option(help="Folder for the bags; existing bags are not overwritten.")],
    robot: RobotOption = DEFAULT_ROBOT,
    profile: Annotated[str, typer.Option(help="Excitation profile; see excitation.yaml.")] = "limited",
    seed: Annotated[int, typer.Option(help="Seed of the first trial's noise; every further trial adds one.")] = 0,
    trials: Annotated[int, typer.Option(min=1, help="Repetitions of every trajectory.")] = 1,
    mount: MountOption = None,
    without: WithoutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run trajectories on the simulated arm, faster than real time, and write the bags a real run would give."""
    from dynid.resources import refuse_existing
    from dynid.robot import load_robot
    from dynid.simulation.nuisances import magnitudes
    from dynid.trajectory.families import load_excitation

    loaded = load_robot(robot)
    excitation = load_excitation(loaded)
    names = chosen_names(trajectories, excitation.names)
    loaded.gravity(mount)
    magnitudes(loaded, without or ())
    durations = {name: excitation.trajectory(name, profile).duration for name in names}
    jobs = [
        _Job(
            robot, name, profile, mount, seed + trial, tuple(without or ()),
            out / (name if trials == 1 else f"{name}-{trial + 1}"),
        )
        for name in sorted(names, key=lambda name: -durations[name])
        for trial in range(trials)
    ]  # fmt: skip
    for job in jobs:
        refuse_existing(job.folder)
    out.mkdir(parents=True, exist_ok=True)
    done: dict[str, _Done] = {}
    begin = time.perf_counter()
    with progress_bar("simulating", len(jobs)) as advance:
        for index, result in in_processes(_simulate, jobs):
            done[jobs[index].folder.name] = result
            advance(f"simulated {jobs[index].folder.name}")
    _report(done, out, time.perf_counter() - begin, as_json)


def _report(done: dict[str, _Done], out: Path, seconds: float, as_json: bool) -> None:
    motion = sum(one.motion_s for one in done.values())
    factor = motion / sum(one.simulation_s for one in done.values())
    if as_json:
        bags = {str(out / name): {"duration_s": one.motion_s} for name, one in sorted(done.items())}
        print(json.dumps({"bags": bags, "seconds": seconds, "realtime_factor_per_core": factor}))
        return
    console = Console()
    for name in sorted(done):
        console.print(f"  {out / name}  {done[name].motion_s:.1f} s", soft_wrap=True, highlight=False)
    console.print(f"{motion:.0f} s of motion in {seconds:.1f} s; the simulation runs {factor:.0f} x real time per core")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(simulate)
