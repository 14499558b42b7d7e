"""`dynid joint-id`: identify a first-order lag with dead time per joint, and write a controller.yaml from it.

The model is eq. 1 of arXiv:2605.15949, G(s) = Kp / (1 + Tp1 s) exp(-Td s) from torque to velocity.
"""

import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dynid.commands import options as opt
from dynid.commands.consent import YesOption, ask_before_moving, words_within_limits
from dynid.commands.terminal import print_json, progress_bar, say, stdout, table
from dynid.errors import ConfigurationError, UnknownNameError
from dynid.parallel import in_processes

if TYPE_CHECKING:
    from dynid.identification.joint_level.excitation import JointLevel
    from dynid.robot import Robot


@dataclass(frozen=True)
class _Job:
    """Job of identifying one joint in a worker process.

    Attributes:
        robot: name or folder of the robot.
        joint: index of the joint.
        bags: bags to which the model is fitted.
        mount: name of the mount; None is the default mount.
        seed: seed of the simulated arm's noise.
        without: names of nuisances (such as noise or backlash) of the simulated arm to leave out.
        friction: name of the simulated arm's friction model; None is the choice of robot.yaml.
        simulate: whether the first bag must be recorded with the simulated arm before the fit.
        kept: whether the simulated bag is kept; if not, it is in a temporary folder.
    """

    robot: str
    joint: int
    bags: tuple[Path, ...]
    mount: str | None = None
    seed: int = 0
    without: tuple[str, ...] = ()
    friction: str | None = None
    simulate: bool = False
    kept: bool = True


def _simulate(job: _Job) -> None:
    from dynid.control.controller import load_controller
    from dynid.control.open_loop import PROFILE, OpenLoopJoint
    from dynid.identification.joint_level.excited_arm import simulate_excitation
    from dynid.robot import load_robot
    from dynid.simulation.lockstep.simulated_bag import write_bag
    from dynid.trajectory.families import load_excitation

    robot = load_robot(job.robot)
    controller, limits = load_controller(robot), load_excitation(robot).acceleration_limits
    run = simulate_excitation(
        robot,
        controller,
        job.joint,
        limits,
        mount=job.mount,
        seed=job.seed,
        switched_off=job.without,
        friction=job.friction,
    )
    write_bag(run, robot, controller, job.bags[0], profile=PROFILE, law=OpenLoopJoint.name)


def _identify(job: _Job) -> "JointLevel":
    """Fit the model of a job's joint to all excitations of this joint in the job's bags.

    If the job requires a simulation, the bag is recorded first.
    """
    from dynid.control.controller import load_controller
    from dynid.identification.joint_level.excitation import excited_joints, identify_joint
    from dynid.recording.driver_recording import load_driver_recording
    from dynid.robot import load_robot

    if job.simulate:
        _simulate(job)
    robot = load_robot(job.robot)
    excited_joints_of_bags = [one for bag in job.bags for one in excited_joints(load_driver_recording(bag, robot))]
    found = identify_joint(
        [one for one in excited_joints_of_bags if one.joint == job.joint], robot, load_controller(robot)
    )
    return replace(found, source=f"simulated arm, seed {job.seed}") if job.simulate and not job.kept else found


def chosen_joints(robot: "Robot", wanted: Sequence[str]) -> list[int]:
    """Return the indices, from 0, of joints given by number (counted from 1) or name; all joints if none is given.

    Raises:
        UnknownNameError: the robot has no such joint.
    """
    names = robot.joint_names
    indices = []
    for text in wanted:
        if text in names:
            indices.append(names.index(text))
        elif text.isdigit() and 1 <= int(text) <= robot.size:
            indices.append(int(text) - 1)
        else:
            raise UnknownNameError("joint", text, (f"1 to {robot.size}", *names))
    return list(dict.fromkeys(indices)) or list(range(robot.size))


def _jobs_of_bags(robot: "Robot", name: str, bags: Sequence[Path], wanted: Sequence[str]) -> list[_Job]:
    """Return one job for each joint that the bags excite, or only for the joints in `wanted`.

    `name` is the name or folder of the robot; `wanted` are numbers (from 1) or names of joints, empty for all.

    Raises:
        UnknownNameError: a wanted joint is unknown, or no bag excites it.
    """
    from dynid.identification.joint_level.excitation import excited_joints
    from dynid.recording.driver_recording import load_driver_recording

    bags_by_joint: dict[int, list[Path]] = {}
    for bag in bags:
        for one in excited_joints(load_driver_recording(bag, robot)):
            bags_by_joint.setdefault(one.joint, []).append(bag)
    joints = chosen_joints(robot, wanted) if wanted else sorted(bags_by_joint)
    missing = [str(joint + 1) for joint in joints if joint not in bags_by_joint]
    if missing:
        raise UnknownNameError("excited joint", missing[0], [str(joint + 1) for joint in sorted(bags_by_joint)])
    return [_Job(name, joint, tuple(dict.fromkeys(bags_by_joint[joint]))) for joint in joints]


def joint_id(
    bags: Annotated[
        list[Path] | None, typer.Argument(help="Bags of joint excitations; default: excite the simulated arm.")
    ] = None,
    robot: opt.RobotOption = opt.DEFAULT_ROBOT,
    joint: Annotated[list[str] | None, typer.Option(help="Joint by number or name; repeatable; default: all.")] = None,
    out: Annotated[Path | None, typer.Option(help="New controller.yaml with M_hat = Tp1/Kp and D_hat = 1/Kp.")] = None,
    record: Annotated[Path | None, typer.Option(help="New folder for the bags of the excitation.")] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Excite the simulated arm in real time, through all nodes.")
    ] = False,
    real_arm: opt.RealArmOption = None,
    yes: YesOption = False,
    mount: opt.MountOption = None,
    without: opt.WithoutOption = None,
    friction: opt.FrictionOption = None,
    seed: opt.SeedOption = 0,
    plot: Annotated[
        Path | None, typer.Option(help="New figure (.png, .svg or .pdf) of the frequency responses.")
    ] = None,
    as_json: opt.JsonOption = False,
) -> None:
    """Identify joints one by one: gain, time constant and dead time with confidence bounds, and a fourth-order model.

    Square waves and binary sequences of current excite each joint in open loop around the rest posture. An excitation
    stops when the joint comes close to its limits. To record your own arm without --real-arm, set the parameter
    `trajectory` of the executor node to joint_excitation_<number>, record, and pass the bags to this command. If a
    result is unreliable, the exit code is 1, and no controller.yaml is written.
    """
    from dynid.control.controller import load_controller
    from dynid.identification.joint_level.excitation import write_controller
    from dynid.reporting.joint_figure import check_output, write_joint_figure
    from dynid.resources import refuse_existing

    if bags and (live or real_arm or record or without or mount or friction):
        raise ConfigurationError(
            "bags were given, but --live, --real-arm, --record, --mount, --without and --friction belong to an "
            "excitation: leave them out"
        )
    for path in (out, record):
        if path is not None:
            refuse_existing(path)
    if plot is not None:
        check_output(plot)
    loaded, wanted = opt.load_arm(robot, mount, without, friction), joint or []
    with tempfile.TemporaryDirectory(prefix="dynid-joint-id-") as work:
        folder = record or Path(work)
        if bags:
            jobs = _jobs_of_bags(loaded, robot, bags, wanted)
        else:
            places = [(index, (folder / f"joint_{index + 1}",)) for index in chosen_joints(loaded, wanted)]
            common = (mount, seed, tuple(without or ()), friction, not (live or real_arm), record is not None)
            jobs = [_Job(robot, index, bag, *common) for index, bag in places]
            shown = _excitation_words(loaded, [index for index, _ in places])
            consented = ask_before_moving(loaded, real_arm, shown, yes)
            folder.mkdir(parents=True, exist_ok=True)
        if live or real_arm:
            _excite_live(loaded, jobs, folder, real_arm, consented)
        found: dict[int, JointLevel] = {}
        with progress_bar("identifying joints", len(jobs)) as advance:
            for index, result in in_processes(_identify, jobs):
                found[jobs[index].joint] = result
                advance(f"identified joint {jobs[index].joint + 1}")
    results = [found[key] for key in sorted(found)]
    all_trusted = not any(one.first_order.doubts for one in results)
    if out is not None and all_trusted:
        write_controller(out, results, load_controller(loaded))
    if plot is not None:
        write_joint_figure(results, plot)
    if as_json:
        print_json({one.name: one.as_dict() for one in results}, by_name=True)
    else:
        _print(results, [path for path in (out if all_trusted else None, plot, record) if path is not None])
    raise typer.Exit(0 if all_trusted else 1)


def _excitation_words(robot: "Robot", joints: Sequence[int]) -> str:
    """Return a description of the excitation of some joints, for the request for consent."""
    from dynid.control.breakaway import RAMP_S
    from dynid.control.open_loop import LONGEST_RETURN_S, ExcitationSettings, signals

    chosen, step_s = ExcitationSettings(), robot.file.bus.cycle_s
    motion_s = len(chosen.levels) * sum(len(one) * step_s + LONGEST_RETURN_S for one in signals(step_s, 1.0))
    motion_s += 2.0 * (RAMP_S + LONGEST_RETURN_S)
    numbers = ", ".join(str(joint + 1) for joint in joints)
    motion = (
        f"joint {numbers}, one after the other, without feedback by up to {math.degrees(chosen.window_rad):.0f} deg"
    )
    return words_within_limits(robot, motion, chosen.fastest_rad_s, f"for at most {len(joints) * motion_s:.0f} s")


def _excite_live(robot: "Robot", jobs: Sequence[_Job], folder: Path, port: str | None, consented: bool) -> None:
    """Start all ROS nodes, excite the joints of the jobs one after the other, and record one bag for each joint.

    The bag of a job is written to the first path in its `bags`, and the logs to the subfolder `logs` of `folder`.
    `port` is the serial port of a real arm, None for the simulated arm. `consented` is whether the user consented to
    motions of a real arm.
    """
    from dynid.control.open_loop import PREFIX, PROFILE
    from dynid.nodes.chain import Chain, ChainOptions
    from dynid.nodes.supervisor import lower_arm

    first = jobs[0]
    options = ChainOptions(
        first.robot, port, first.mount, first.without, first.seed, friction=first.friction, consented=consented
    )
    with progress_bar("exciting joints", len(jobs)) as advance, Chain(robot, options, folder / "logs") as chain:
        chain.bring_up()
        for job in jobs:
            name = f"{PREFIX}{job.joint + 1}"
            chain.run_trajectory(name, PROFILE, job.bags[0], lambda *_: None)
            advance(f"excited joint {job.joint + 1}")
        lower_arm(chain.supervisor)


def _print(results: Sequence["JointLevel"], written: Sequence[Path]) -> None:
    title = "joints: G(s) = Kp / (1 + Tp1 s) exp(-Td s) from torque to velocity"
    units = ("Kp [rad/s/N m]", "Tp1 [s]", "Td [ms]", "M_hat [kg m^2]", "D_hat [N m s/rad]", "friction [N m]")
    fits = table(title, "joint", *units, words=0)
    for one in results:
        fit = one.first_order
        gain, lag, dead_time = fit.gain, fit.time_constant, fit.dead_time
        fits.add_row(
            str(one.joint + 1),
            f"{gain.value:.4g} ({gain.lower:.4g} to {gain.upper:.4g})",
            f"{lag.value:.4g} ({lag.lower:.4g} to {lag.upper:.4g})",
            f"{1e3 * dead_time.value:.2f} ({1e3 * dead_time.lower:.2f} to {1e3 * dead_time.upper:.2f})",
            f"{fit.inertia:.4g}",
            f"{fit.damping:.4g}",
            f"{fit.coulomb.value:.3g}",
        )
    stdout().print(fits)
    hertz = results[0].as_dict()["response"]["frequency_hz"]
    columns = ("joint", *(f"{value:g} Hz" for value in hertz))
    responses = table("magnitude of eq. 1 / of the fourth-order model [dB]", *columns, words=0)
    for one in results:
        response = one.as_dict()["response"]
        first = response["first_order"]["magnitude_db"]
        arx_magnitudes = (
            [f"{value:.1f}" for value in response["arx"]["magnitude_db"]] if "arx" in response else ["-"] * len(first)
        )
        responses.add_row(str(one.joint + 1), *(f"{a:.1f} / {b}" for a, b in zip(first, arx_magnitudes, strict=True)))
    stdout().print(responses)
    for one in results:
        for doubt in one.first_order.doubts:
            say(f"[bold red]joint {one.joint + 1}: {doubt}[/bold red]")
        if isinstance(one.arx, str):
            say(f"[yellow]joint {one.joint + 1}: no fourth-order model: {one.arx}[/yellow]")
    say(*(f"  {path}" for path in written))
