"""`dynid simulated-arm`: process that serves a simulated arm with emulated servos behind a serial port."""

from pathlib import Path
from typing import Annotated

import typer

from dynid.commands import options as opt


def simulated_arm(
    robot: opt.RobotOption = opt.DEFAULT_ROBOT,
    mount: opt.MountOption = None,
    seed: opt.SeedOption = 0,
    link: Annotated[Path | None, typer.Option(help="New symbolic link to the port.")] = None,
    port_file: Annotated[
        Path | None,
        typer.Option(help="New file for the path of the port, written when it is served and removed at the end."),
    ] = None,
    baudrate: Annotated[int | None, typer.Option(help="Baud rate of the servos [bit/s]; default: the robot's.")] = None,
    wire_time: Annotated[
        bool, typer.Option("--wire-time/--no-wire-time", help="Include the transmission time of a line of this rate.")
    ] = True,
    clock: Annotated[
        Path | None,
        typer.Option(help="New file for the paused clock, which stops while the driver is late; see clock_file."),
    ] = None,
    adapter: opt.AdapterOption = "uart",
    latency_timer: Annotated[int, typer.Option(min=1, max=255, help="Latency timer of the u2d2 [ms].")] = 1,
    without: opt.WithoutOption = None,
    friction: opt.FrictionOption = None,
    motor: opt.MotorOption = None,
    push: Annotated[
        list[str] | None,
        typer.Option(metavar="JOINT:TORQUE_NM:PERIOD_S", help="Push a joint to and fro, as a hand does; repeatable."),
    ] = None,
    lead: Annotated[
        str | None,
        typer.Option(metavar="TRAJECTORY", help="Simulate hand guiding along a trajectory: a name, or a YAML file."),
    ] = None,
    held_kg: Annotated[
        float | None,
        typer.Option(
            min=0.001, help="A body for the hand [kg]: SIGUSR1 takes it, SIGUSR2 puts it down; not with --link."
        ),
    ] = None,
    faults: Annotated[Path | None, typer.Option(help="YAML file with faults to inject.")] = None,
    trace: Annotated[Path | None, typer.Option(help="New file for the true motion of the arm (.npz).")] = None,
    lock_step: Annotated[bool, typer.Option("--lock-step", help="Advance time only with goal-current writes.")] = False,
    ignore_interrupt: Annotated[bool, typer.Option("--ignore-interrupt", help="Ignore SIGINT.")] = False,
) -> None:
    """Serve a simulated arm behind a serial port: print the port, then run until SIGINT or SIGTERM."""
    from dynid.hardware.loop.realtime import prefer_latency
    from dynid.rehearsal.arm import rehearse_arm
    from dynid.rehearsal.late_work import watch_late_work
    from dynid.robot import load_robot
    from dynid.simulation.bus.adapter import adapter_of
    from dynid.simulation.bus.process import serve, traced
    from dynid.simulation.faults.script import load_faults
    from dynid.simulation.plant.arm import ArmPlant
    from dynid.simulation.plant.hand import Lead, Push, guiding_pace
    from dynid.simulation.plant.held import HeldBody
    from dynid.simulation.plant.motor import Motors
    from dynid.trajectory.families import load_excitation
    from dynid.trajectory.files import named_motion

    if held_kg is not None and link is not None:
        raise typer.BadParameter("--held-kg and --link exclude each other: both use SIGUSR1 and SIGUSR2")
    prefer_latency()
    loaded = load_robot(robot)

    path = None if lead is None else named_motion(load_excitation(loaded), lead)
    speed = 1.0 if path is None else guiding_pace(loaded, path)

    def arm_in_the_simulation() -> ArmPlant:
        return ArmPlant(
            loaded,
            mount=mount,
            seed=seed,
            switched_off=without or (),
            friction=friction,
            motors=Motors(loaded, motor, seed) if motor else None,
            hand=[Push.parse(text, loaded) for text in push or ()],
            lead=None if path is None else Lead(path, pace=speed),
        )

    rehearse_arm(loaded, arm_in_the_simulation())
    plant = arm_in_the_simulation()
    with traced(plant, trace) as arm:
        serve(
            loaded,
            arm,
            baudrate=baudrate,
            wire_time=wire_time,
            lock_step=lock_step,
            clock=clock,
            link=link,
            faults=None if faults is None else load_faults(faults),
            ignore_interrupt=ignore_interrupt,
            adapter=adapter_of(adapter, latency_timer),
            body=None if held_kg is None else HeldBody(plant, held_kg),
            ready=lambda: watch_late_work("simulated_arm"),
            port_file=port_file,
        )
