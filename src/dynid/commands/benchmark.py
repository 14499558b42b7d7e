"""`dynid benchmark`: figures that anybody can measure again; one file per benchmark, each with a `register(group)`."""

import typer

group = typer.Typer(no_args_is_help=True)


@group.callback()
def benchmark() -> None:
    """Measure what dynid promises, on this machine."""


def register(app: typer.Typer) -> None:
    """Add the group with every benchmark."""
    from dynid.commands import (
        benchmark_bus,
        benchmark_clie,
        benchmark_control,
        benchmark_faults,
        benchmark_methods,
        benchmark_parser,
        benchmark_recorder,
    )

    modules = (
        benchmark_bus, benchmark_clie, benchmark_control, benchmark_faults, benchmark_methods, benchmark_parser,
        benchmark_recorder,
    )  # fmt: skip
    for module in modules:
        module.register(group)
    app.add_typer(group, name="benchmark")
