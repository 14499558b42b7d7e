"""`dynid demo`: all steps from recording motor currents to a controller that uses the identified model."""

import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from dynid.commands import options as opt
from dynid.commands.adaptive import chosen_settings, exit_code, run_and_show
from dynid.commands.consent import YesOption, ask_before_moving, words_of_motions
from dynid.commands.terminal import print_json, say, stderr, stdout
from dynid.errors import ConfigurationError


def demo(
    robot: opt.RobotOption = opt.DEFAULT_ROBOT,
    out: Annotated[Path | None, typer.Option(help="New folder for bags, model and logs.")] = None,
    real_arm: opt.RealArmOption = None,
    yes: YesOption = False,
    mount: opt.MountOption = None,
    identification: Annotated[
        str | None,
        typer.Option(
            help="Trajectory, or a YAML file, to identify from; default demo_identification, or gentle_identification "
            "where overload is limited."
        ),
    ] = None,
    validation: Annotated[
        str | None,
        typer.Option(
            help="Trajectory, or a YAML file, to validate on; default demo_validation, or gentle_validation likewise."
        ),
    ] = None,
    without: opt.WithoutOption = None,
    friction: opt.FrictionOption = None,
    seed: opt.SeedOption = 0,
    adapter: opt.AdapterOption = "uart",
    rate: opt.RateOption = 0,
    motor: opt.MotorOption = None,
    gain: Annotated[
        bool, typer.Option(help="Repeat the validation motion with computed torque and compare the tracking errors.")
    ] = True,
    wall_clock: Annotated[
        bool, typer.Option("--wall-clock", help="Do not pause the simulated arm's clock while this machine is late.")
    ] = False,
    two_arms: Annotated[
        bool, typer.Option("--two-arms", help="Instead: two simulated arms in lock-step, a hand and a wall.")
    ] = False,
    adaptive: Annotated[
        bool,
        typer.Option(
            "--adaptive", help="Instead, in lock-step: plan each segment where the model is least certain, then stop."
        ),
    ] = False,
    as_json: opt.JsonOption = False,
) -> None:
    """Run all steps: drive the arm, record, identify, validate, publish the model, check it, and control with it."""
    if two_arms:
        return _two_arms(robot, out, real_arm, mount, seed, as_json)
    from dynid.reporting.tables import print_verdict

    output = _output(out, "demo")
    if adaptive:
        if real_arm or without:
            raise ConfigurationError(
                "--adaptive moves the simulated arm with all nuisances: leave --real-arm and --without out"
            )
        loaded = opt.load_arm(robot, mount, None, friction)
        result = run_and_show(loaded, output, None, chosen_settings(None, None), seed, mount, friction, as_json)
        raise typer.Exit(exit_code(result))
    loaded = opt.load_arm(robot, mount, without, friction)
    with opt.needs_ros("the demo"):
        from dynid.demo.demo import DemoOptions, chosen_motions, run_demo, usual_motions
        from dynid.nodes.chain import ChainOptions
    from dynid.trajectory.families import load_excitation
    from dynid.trajectory.files import named_motion

    chain = ChainOptions(
        robot,
        real_arm,
        mount,
        tuple(without or ()),
        seed,
        paused_clock=not wall_clock,
        friction=friction,
        adapter=adapter,
        rate_hz=rate,
        motor=tuple(motor or ()),
    )
    usual = usual_motions(loaded, chain)
    motions = chosen_motions(loaded, identification or usual[0], validation or usual[1])
    if real_arm is not None:
        trajectories = [named_motion(load_excitation(loaded), wanted) for wanted in motions.values()]
        shown = words_of_motions(loaded, trajectories + trajectories[1:] * gain)
        chain = replace(chain, consented=ask_before_moving(loaded, real_arm, shown, yes))
    began = time.monotonic()
    console = stderr() if as_json else stdout()
    verdict = run_demo(loaded, DemoOptions(chain, output, motions, gain=gain), console)
    if as_json:
        checks = [check.model_dump(mode="json") | {"passed": check.passed} for check in verdict.checks]
        print_json({"accepted": verdict.accepted, "checks": checks, "output": str(output)})
        raise typer.Exit(0 if verdict.accepted else 1)
    print_verdict(console, verdict, f"{loaded.file.title}: from motor current to a model")
    _list_results(output)
    outcome = "accepted: every check passed" if verdict.accepted else "NOT accepted"
    console.print(f"{outcome}; {time.monotonic() - began:.0f} s")
    raise typer.Exit(0 if verdict.accepted else 1)


def _two_arms(robot: str, out: Path | None, real_arm: str | None, mount: str | None, seed: int, as_json: bool) -> None:
    """Run the demo of two arms under bilateral control; the arguments are options of the command.

    The follower arm touches a wall, and the leader arm reproduces the force.
    """
    from dynid.commands.terminal import stages
    from dynid.demo.two_arms import run_two_arms
    from dynid.reporting.tables import print_verdict

    if real_arm is not None:
        raise ConfigurationError("--two-arms runs two simulated arms; leave --real-arm out")
    loaded = opt.load_arm(robot, mount, None)
    output = _output(out, "two-arms")
    with stages("demo", 3) as begin:
        verdict = run_two_arms(loaded, output, mount=mount, seed=seed, progress=begin)
    if as_json:
        print_json(verdict.as_dict() | {"output": str(output)})
    else:
        print_verdict(stdout(), verdict, "Two arms as one")
        say(f"report: {output / 'report.html'}")
    raise typer.Exit(0 if verdict.accepted else 1)


def _output(out: Path | None, name: str) -> Path:
    """Return the absolute path of the folder `out`, or of runs/NAME-TIME if `out` is None; no folder is created."""
    return (out or Path("runs") / f"{name}-{datetime.now():%Y%m%d-%H%M%S}").absolute()


def _list_results(output: Path) -> None:
    """Print the path and meaning of each file of the demo's result."""
    report = "report.html" if (output / "report.html").is_file() else "model/report.html"
    kinds = {
        report: "the report: open it in a browser",
        "bags": "recorded motions (rosbag2)",
        "model/model.yaml": "the model, its verdict and provenance",
        "model/model.urdf": "the model as a URDF",
        "model/rotor_inertias.yaml": "rotor inertias, which a URDF cannot hold",
        "logs": "the log of each process",
    }
    say(*(f"  {output / name}  [dim]{meaning}[/dim]" for name, meaning in kinds.items()))
