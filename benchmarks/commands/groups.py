"""`dynid benchmark`: figures that anybody can measure again; one file per benchmark, each with a `register(group)`."""

from importlib import import_module

import typer

group = typer.Typer(no_args_is_help=True)
BENCHMARKS = (
    "adaptive",
    "attack",
    "bilateral",
    "bus",
    "clie",
    "control",
    "coverage",
    "faults",
    "feel",
    "friction",
    "interrupts",
    "logs",
    "memory",
    "methods",
    "parser",
    "plants",
    "readers",
    "recorder",
    "verdict",
)


@group.callback()
def benchmark() -> None:
    """Measure what dynid promises, on this machine."""


def register(app: typer.Typer) -> None:
    """Add what needs a checkout: the studies beside the paper's method, and every benchmark."""
    from benchmarks.commands import elastic
    from benchmarks.commands.campaign import campaign
    from benchmarks.commands.compare import compare
    from benchmarks.commands.demo import demo
    from benchmarks.commands.essential import essential
    from benchmarks.commands.excite import excite
    from benchmarks.commands.joint_id import joint_id
    from benchmarks.commands.mapping import mapping
    from benchmarks.commands.minimal_set import minimal_set
    from benchmarks.commands.payload import payload
    from benchmarks.commands.regressor import regressor
    from benchmarks.commands.torque_constants import torque_constants
    from dynid.commands.robot import robot

    elastic.register(app)
    for command in (demo, campaign, joint_id, regressor, payload, torque_constants, compare, essential):
        app.command()(command)
    app.add_typer(excite, name="excite")
    robot.command("minimal-set")(minimal_set)
    robot.command("mapping")(mapping)
    for name in BENCHMARKS:
        import_module(f"benchmarks.commands.{name}").register(group)
    app.add_typer(group, name="benchmark")
