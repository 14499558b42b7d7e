"""`dynid excite`: motions that tell the parameters of a robot; one subcommand per method."""

import json
import time
from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.table import Table

from dynid.commands.options import DEFAULT_ROBOT, JsonOption, MountOption, RobotOption
from dynid.commands.terminal import stages, stdout
from dynid.errors import SafetyError

group = typer.Typer(no_args_is_help=True)


class SeriesName(str, Enum):
    """Of what the motion is made."""

    fourier = "fourier"
    spline = "spline"


class ObjectiveName(str, Enum):
    """What is made small."""

    condition = "condition"
    d_optimal = "d_optimal"


@group.callback()
def excite() -> None:
    """Make motions that tell the parameters of a robot."""


@group.command()
def optimised(
    out: Annotated[Path, typer.Option(help="New YAML file for the motion.")],
    duration: Annotated[float, typer.Option(min=5.0, help="Length of the motion, in seconds.")] = 26.0,
    robot: RobotOption = DEFAULT_ROBOT,
    profile: Annotated[str, typer.Option(help="Profile whose positions and speeds are kept.")] = "limited",
    series: Annotated[SeriesName, typer.Option(help="What the motion is made of.")] = SeriesName.fourier,
    objective: Annotated[ObjectiveName, typer.Option(help="What is made small.")] = ObjectiveName.condition,
    starts: Annotated[int, typer.Option(min=1, help="Random motions to start from; the best result counts.")] = 1,
    seed: Annotated[int, typer.Option(help="Seed of the first start.")] = 0,
    mount: MountOption = None,
    as_json: JsonOption = False,
) -> None:
    """Optimise a motion within all limits, for `dynid simulate`, the executor and the demo; beside the primitives."""
    from dynid.control.optimised_excitation import (
        ExcitationOptimiser,
        ExcitationWish,
        condition_number,
        trajectory_file,
    )
    from dynid.resources import refuse_existing, write_whole
    from dynid.robot import load_robot
    from dynid.trajectory.families import load_excitation

    refuse_existing(out)
    loaded = load_robot(robot)
    excitation = load_excitation(loaded)
    optimiser = ExcitationOptimiser(loaded, excitation, mount)
    begin = time.perf_counter()
    with stages("excite", 2) as tell:
        tell(f"optimising {duration:g} s of motion")
        wish = ExcitationWish(duration, series.value, objective.value, profile=profile, starts=starts, seed=seed)
        found = optimiser.optimise(out.stem, wish)
        seconds = time.perf_counter() - begin
        write_whole(out, trajectory_file(found.motion))
        tell("comparing with the primitives")
        rows = {}
        for name in excitation.names:
            try:
                motion = excitation.trajectory(name, profile)
            except SafetyError:  # a primitive that this robot may not execute is nothing to compare with
                continue
            rows[name] = {"duration_s": motion.duration, "kappa": condition_number(optimiser.regressor, motion)}
    shorter = {name: row for name, row in rows.items() if row["duration_s"] <= duration * 1.01}
    best = min(shorter, key=lambda name: shorter[name]["kappa"], default=None)
    figures = {
        "file": str(out), "duration_s": duration, "kappa": found.kappa, "seconds": seconds,
        "peak_velocity_rad_s": float(found.motion.peak_velocities.max()), "primitives": rows,
        "best_primitive_not_longer": best,
    }  # fmt: skip
    if as_json:
        print(json.dumps(figures))
        return
    console = stdout()
    console.print(f"  {out}  {duration:g} s, condition number {found.kappa:.1f}, in {seconds:.0f} s", soft_wrap=True)
    if best is not None:
        row = rows[best]
        console.print(f"  best primitive of at most that length: {best}, {row['duration_s']:.1f} s, {row['kappa']:.1f}")


@group.command("one-joint")
def one_joint(
    out: Annotated[Path, typer.Option(help="New YAML file for the motion.")],
    periods: Annotated[int, typer.Option(min=2, help="Periods of every sine.")] = 4,
    postures: Annotated[int, typer.Option(min=1, help="Postures at which all joints move, one after the other.")] = 3,
    amplitude: Annotated[float, typer.Option(min=0.1, max=1.0, help="Share of what the joint ranges leave.")] = 0.8,
    robot: RobotOption = DEFAULT_ROBOT,
    profile: Annotated[str, typer.Option(help="Profile whose positions and speeds are kept.")] = "limited",
    seed: Annotated[int, typer.Option(help="Of the postures after the first.")] = 0,
    mount: MountOption = None,
    as_json: JsonOption = False,
) -> None:
    """One joint at a time from the last one inward, each on the fastest sine that the limits allow."""
    from dynid.control.one_joint_excitation import OneJointWish
    from dynid.control.optimised_excitation import ExcitationOptimiser, condition_number, rank, trajectory_file
    from dynid.resources import refuse_existing, write_whole
    from dynid.robot import load_robot
    from dynid.trajectory.families import load_excitation

    refuse_existing(out)
    loaded = load_robot(robot)
    with stages("excite", 1) as tell:
        tell("raising frequencies")
        maker = ExcitationOptimiser(loaded, load_excitation(loaded), mount)
        wish = OneJointWish(periods, postures, amplitude, seed=seed)
        motion, sines = maker.one_joint(profile).motion(out.stem, wish)
        told = rank(maker.regressor, motion)
        whole = told == len(maker.names)
        kappa = condition_number(maker.regressor, motion) if whole else None
    write_whole(out, trajectory_file(motion))
    if as_json:
        rows = [asdict(sine) for sine in sines]
        print(
            json.dumps({"file": str(out), "duration_s": motion.duration, "kappa": kappa, "rank": told, "sines": rows})
        )
        return
    console = stdout()
    table = Table("joint", "amplitude, deg", "frequency, rad/s")
    for sine in sines:
        table.add_row(sine.joint, f"{np.rad2deg(sine.amplitude_rad):.1f}", f"{sine.frequency_rad_s:.2f}")
    console.print(table)
    said = f"condition number {kappa:.1f}" if whole else f"tells {told} of {len(maker.names)} parameters: more postures"
    console.print(f"  {out}  {motion.duration:.1f} s, {said}", soft_wrap=True, highlight=False)


def register(app: typer.Typer) -> None:
    """Add the group with every method."""
    app.add_typer(group, name="excite")
