"""`dynid simulate`: run trajectories on the simulated arm in lock-step, faster than real time, and write bags."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dynid.commands import options as opt
from dynid.commands.terminal import print_json, progress_bar, say

if TYPE_CHECKING:
    from dynid.simulation.lockstep.bag_jobs import BagMade


def simulate(
    trajectories: Annotated[list[str], typer.Argument(help="Trajectories, patterns such as 'PA*', or YAML files.")],
    out: Annotated[Path, typer.Option(help="Folder for the bags; existing bags are never overwritten.")],
    robot: opt.RobotOption = opt.DEFAULT_ROBOT,
    profile: opt.ProfileOption = opt.DEFAULT_PROFILE,
    seed: Annotated[int, typer.Option(help="Noise seed of the first trial; each further trial adds one.")] = 0,
    trials: Annotated[int, typer.Option(min=1, help="Number of runs of every trajectory.")] = 1,
    mount: opt.MountOption = None,
    without: opt.WithoutOption = None,
    friction: opt.FrictionOption = None,
    as_json: opt.JsonOption = False,
) -> None:
    """Run trajectories on the simulated arm, faster than real time, and write bags like those of a real arm."""
    from dynid.resources import make_folder, refuse_existing
    from dynid.simulation.lockstep.bag_jobs import BagJob, chosen_names, make_bags
    from dynid.trajectory.families import load_excitation
    from dynid.trajectory.files import named_motion

    excitation = load_excitation(opt.load_arm(robot, mount, without, friction))
    names = chosen_names(trajectories, excitation.names)
    motions = {name: named_motion(excitation, name, profile) for name in names}
    jobs = [
        BagJob(
            robot,
            name,
            profile,
            mount,
            seed + trial,
            tuple(without or ()),
            out / (motions[name].name if trials == 1 else f"{motions[name].name}-{trial + 1}"),
            friction,
        )
        for name in sorted(names, key=lambda name: -motions[name].duration)
        for trial in range(trials)
    ]
    for job in jobs:
        refuse_existing(job.folder)
    make_folder(out)
    done: dict[str, BagMade] = {}
    began_s = time.perf_counter()
    with progress_bar("simulating", len(jobs)) as advance:
        for job, made in make_bags(jobs):
            done[job.folder.name] = made
            advance(f"simulated {job.folder.name}")
    _report(done, out, time.perf_counter() - began_s, as_json)


def _report(done: "dict[str, BagMade]", out: Path, seconds: float, as_json: bool) -> None:
    """Print the bags that were made, and the ratio of simulated time to wall-clock time.

    `seconds` is the wall-clock time of the whole command [s].
    """
    motion = sum(one.motion_s for one in done.values())
    factor = motion / sum(one.seconds for one in done.values())
    if as_json:
        figures = {
            "bags": {str(out / name): {"duration_s": one.motion_s} for name, one in sorted(done.items())},
            "seconds": seconds,
            "realtime_factor_per_core": factor,
            "realtime_factor_of_processor_time": motion / sum(one.processor_s for one in done.values()),
        }
        print_json(figures)
        return
    say(*(f"  {out / name}  {done[name].motion_s:.1f} s" for name in sorted(done)))
    say(f"{motion:.0f} s of motion in {seconds:.1f} s: {factor:.0f} x real time per core")
