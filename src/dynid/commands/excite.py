"""`dynid excite`: design of excitation motions for a robot; one subcommand per method."""

import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import typer

from dynid.commands.options import DEFAULT_ROBOT, JsonOption, MountOption, RobotOption
from dynid.commands.terminal import print_json, say, stages, stdout, table
from dynid.errors import SafetyError

excite = typer.Typer(no_args_is_help=True, help="Design excitation motions.")


@excite.command()
def optimised(
    out: Annotated[Path, typer.Option(help="New YAML file for the motion.")],
    duration: Annotated[float, typer.Option(min=5.0, help="Duration of the motion [s].")] = 26.0,
    robot: RobotOption = DEFAULT_ROBOT,
    profile: Annotated[str, typer.Option(help="Excitation profile that limits positions and speeds.")] = "limited",
    series: Annotated[Literal["fourier", "spline"], typer.Option(help="Basis functions of the motion.")] = "fourier",
    objective: Annotated[Literal["condition", "d_optimal"], typer.Option(help="Quantity to minimise.")] = "condition",
    starts: Annotated[int, typer.Option(min=1, help="Number of random starts; the best result is kept.")] = 1,
    seed: Annotated[int, typer.Option(help="Seed of the first start.")] = 0,
    mount: MountOption = None,
    as_json: JsonOption = False,
) -> None:
    """Optimise a motion for identification within the robot's limits, and compare it with the robot's own motions.

    The file can be used with `dynid simulate`, the executor and `dynid demo`.
    """
    from dynid.excitation.optimiser import ExcitationOptimiser, ExcitationWish, condition_number, trajectory_file
    from dynid.resources import refuse_existing, write_whole
    from dynid.robot import load_robot
    from dynid.trajectory.families import load_excitation

    refuse_existing(out)
    loaded = load_robot(robot)
    excitation = load_excitation(loaded)
    optimiser = ExcitationOptimiser(loaded, excitation, mount)
    begin = time.perf_counter()
    with stages("excite", 2) as report:
        report(f"optimising {duration:g} s of motion")
        request = ExcitationWish(duration, series, objective, profile=profile, starts=starts, seed=seed)
        found = optimiser.optimise(out.stem, request)
        seconds = time.perf_counter() - begin
        write_whole(out, trajectory_file(found.motion))
        report("comparing with the primitives")
        rows = {}
        for name in excitation.names:
            try:
                motion = excitation.trajectory(name, profile)
            except SafetyError:  # skip the comparison if the robot may not execute this primitive
                continue
            rows[name] = {"duration_s": motion.duration, "kappa": condition_number(optimiser.regressor, motion)}
    shorter = {name: row for name, row in rows.items() if row["duration_s"] <= duration * 1.01}
    best = min(shorter, key=lambda name: shorter[name]["kappa"], default=None)
    figures = {
        "file": str(out),
        "duration_s": duration,
        "kappa": found.kappa,
        "seconds": seconds,
        "peak_velocity_rad_s": float(found.motion.peak_velocities.max()),
        "primitives": rows,
        "best_primitive_not_longer": best,
    }
    if as_json:
        print_json(figures)
        return
    say(f"  {out}  {duration:g} s, condition number {found.kappa:.1f}, in {seconds:.0f} s")
    if best is not None:
        row = rows[best]
        say(f"  best primitive of at most that length: {best}, {row['duration_s']:.1f} s, {row['kappa']:.1f}")


@excite.command("one-joint")
def one_joint(
    out: Annotated[Path, typer.Option(help="New YAML file for the motion.")],
    periods: Annotated[int, typer.Option(min=2, help="Number of periods of every sine.")] = 4,
    postures: Annotated[int, typer.Option(min=1, help="Number of postures at which all joints move in turn.")] = 3,
    amplitude: Annotated[
        float, typer.Option(min=0.1, max=1.0, help="Amplitude as a share of the available joint range.")
    ] = 0.8,
    robot: RobotOption = DEFAULT_ROBOT,
    profile: Annotated[str, typer.Option(help="Excitation profile that limits positions and speeds.")] = "limited",
    seed: Annotated[int, typer.Option(help="Seed of the postures after the first.")] = 0,
    mount: MountOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a motion that moves one joint at a time, from the last to the first, on sines as fast as limits permit.

    This is repeated at each of the --postures.
    """
    from dynid.excitation.one_joint import OneJointWish
    from dynid.excitation.optimiser import ExcitationOptimiser, condition_number, rank, trajectory_file
    from dynid.resources import refuse_existing, write_whole
    from dynid.robot import load_robot
    from dynid.trajectory.families import load_excitation

    refuse_existing(out)
    loaded = load_robot(robot)
    with stages("excite", 1) as report:
        report("raising frequencies")
        maker = ExcitationOptimiser(loaded, load_excitation(loaded), mount)
        request = OneJointWish(periods, postures, amplitude, seed=seed)
        motion, sines = maker.one_joint(profile).motion(out.stem, request)
        determined = rank(maker.regressor, motion)
        complete = determined == len(maker.names)
        kappa = condition_number(maker.regressor, motion) if complete else None
    write_whole(out, trajectory_file(motion))
    if as_json:
        rows = [asdict(sine) for sine in sines]
        print_json({"file": str(out), "duration_s": motion.duration, "kappa": kappa, "rank": determined, "sines": rows})
        return
    listed, prismatic = (
        table(None, "joint", "amplitude", "frequency, rad/s"),
        dict(zip(loaded.joint_names, loaded.prismatic, strict=True)),
    )
    for sine in sines:
        size = f"{sine.amplitude_rad:.3f} m" if prismatic[sine.joint] else f"{np.rad2deg(sine.amplitude_rad):.1f} deg"
        listed.add_row(sine.joint, size, f"{sine.frequency_rad_s:.2f}")
    stdout().print(listed)
    summary = (
        f"condition number {kappa:.1f}"
        if complete
        else f"determines {determined} of {len(maker.names)} parameters: add postures"
    )
    say(f"  {out}  {motion.duration:.1f} s, {summary}")
