"""`dynid teach`: record the arm while a person guides it by hand."""

from pathlib import Path
from typing import Annotated

import typer

from dynid.commands import options as opt
from dynid.commands.collect import motion_bar
from dynid.commands.consent import YesOption, ask_before_moving, words_within_limits
from dynid.commands.terminal import print_json, say


def teach(
    model: Annotated[str, typer.Option("--model", help="A model.yaml, or a result folder; it must be accepted.")],
    out: Annotated[Path, typer.Option(help="New folder for the bag, the motion and the logs.")],
    hand: Annotated[
        str,
        typer.Option(
            metavar="TRAJECTORY", help="Simulated arm: trajectory along which a simulated hand guides it; name or YAML."
        ),
    ] = "demo_validation",
    rest: Annotated[float, typer.Option(min=1.0, help="Time at rest after which the recording ends [s].")] = 3.0,
    speed: opt.SpeedOption = 1.0,
    robot: opt.RobotOption = opt.DEFAULT_ROBOT,
    real_arm: opt.RealArmOption = None,
    yes: YesOption = False,
    mount: opt.MountOption = None,
    without: opt.WithoutOption = None,
    friction: opt.FrictionOption = None,
    seed: opt.SeedOption = 0,
    as_json: opt.JsonOption = False,
) -> None:
    """Record the arm while you guide it by hand; it carries its own weight and stays where you leave it.

    First the torques of a real arm are compared with the model, as by `dynid hold`. The recording ends when the arm has
    rested for some seconds; the arm is then lowered. The motion is written to motion.yaml, smoothed, and slowed where
    it exceeds limits. `dynid replay` runs it.
    """
    loaded = opt.load_arm(robot, mount, without, friction)
    path = opt.model_path(loaded, model).absolute()
    with opt.needs_ros("teaching"):
        from dynid.nodes.chain import Chain, ChainOptions
        from dynid.nodes.holding import check_holding, check_motions
        from dynid.nodes.supervisor import lower_arm
        from dynid.nodes.teaching import record_guided_motion
    from dynid.control.guided_replay import replay_of_bag
    from dynid.resources import refuse_existing
    from dynid.runtime.model import load_model

    model_content = load_model(path, loaded).mounted(mount or loaded.file.default_mount)
    # a simulated arm is not compared with the model, because the simulated hand guides it from the start
    motions = check_motions(model_content) if real_arm else ()
    what = words_within_limits(
        loaded,
        "to and fro about two postures; then it compensates gravity and follows a guiding hand",
        float(loaded.velocity_limits.max()),
        f"until it has rested for {rest:g} s",
    )
    consented = ask_before_moving(loaded, real_arm, what, yes)
    lead = None if real_arm else hand
    options = ChainOptions(
        robot,
        real_arm,
        mount,
        tuple(without or ()),
        seed,
        identification=False,
        friction=friction,
        lead=lead,
        consented=consented,
    )
    refuse_existing(out)
    bag, motion = out.absolute() / "bag", out.absolute() / "motion.yaml"
    with motion_bar() as report, Chain(loaded, options, out.absolute() / "logs") as chain:
        chain.activate()
        if motions:
            chain.supervisor.set_enabled("hardware", True)
            chain.supervisor.trigger("executor/hold")
            check_holding(chain.supervisor, model_content, motions, report)
        record_guided_motion(chain, path, bag, report, rest)
        report("bringing the arm to rest", 0.0, 0.0)
        lower_arm(chain.supervisor)
    demonstration = replay_of_bag(loaded, bag, out.name, speed)
    demonstration.save(motion)
    if as_json:
        print_json({"bag": str(bag), "motion": str(motion)} | demonstration.as_dict())
    else:
        say(f"  {bag}", f"  {motion}  [dim]{demonstration.in_words()}[/dim]")
