"""`dynid simulate`: trajectories on the simulated arm in lock-step, faster than real time, as bags."""

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dynid.commands.options import DEFAULT_ROBOT, JsonOption, MountOption, RobotOption, WithoutOption
from dynid.commands.terminal import progress_bar, stdout

if TYPE_CHECKING:
    from dynid.simulation.bag_jobs import BagMade


def simulate(
    trajectories: Annotated[list[str], typer.Argument(help="Trajectories, patterns such as 'PA*', or YAML files.")],
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
    from dynid.simulation.bag_jobs import BagJob, chosen_names, make_bags, wanted_motion
    from dynid.simulation.nuisances import magnitudes
    from dynid.trajectory.families import load_excitation

    loaded = load_robot(robot)
    excitation = load_excitation(loaded)
    names = chosen_names(trajectories, excitation.names)
    loaded.gravity(mount)
    magnitudes(loaded, without or ())
    motions = {name: wanted_motion(excitation, name, profile) for name in names}
    jobs = [
        BagJob(
            robot, name, profile, mount, seed + trial, tuple(without or ()),
            out / (motions[name].name if trials == 1 else f"{motions[name].name}-{trial + 1}"),
        )
        for name in sorted(names, key=lambda name: -motions[name].duration)
        for trial in range(trials)
    ]  # fmt: skip
    for job in jobs:
        refuse_existing(job.folder)
    out.mkdir(parents=True, exist_ok=True)
    done: dict[str, BagMade] = {}
    begin = time.perf_counter()
    with progress_bar("simulating", len(jobs)) as advance:
        for job, made in make_bags(jobs):
            done[job.folder.name] = made
            advance(f"simulated {job.folder.name}")
    _report(done, out, time.perf_counter() - begin, as_json)


def _report(done: "dict[str, BagMade]", out: Path, seconds: float, as_json: bool) -> None:
    """The bags, and motion over the time that simulating and writing it took, by the clock and of the processor."""
    motion = sum(one.motion_s for one in done.values())
    factor = motion / sum(one.seconds for one in done.values())
    if as_json:
        figures = {
            "bags": {str(out / name): {"duration_s": one.motion_s} for name, one in sorted(done.items())},
            "seconds": seconds,
            "realtime_factor_per_core": factor,
            "realtime_factor_of_processor_time": motion / sum(one.processor_s for one in done.values()),
        }
        print(json.dumps(figures))
        return
    console = stdout()
    for name in sorted(done):
        console.print(f"  {out / name}  {done[name].motion_s:.1f} s", soft_wrap=True, highlight=False)
    console.print(
        f"{motion:.0f} s of motion in {seconds:.1f} s; simulating and writing run {factor:.0f} x real time per core"
    )


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(simulate)
