"""`dynid export`: an identified model as source code for other programs."""

import hashlib
from pathlib import Path
from typing import Annotated

import typer

from dynid.commands.options import JsonOption
from dynid.commands.terminal import print_json, say
from dynid.errors import InputNotFoundError, SafetyError

export = typer.Typer(help="Write a model as source code for other programs.", no_args_is_help=True)


@export.callback()
def _group() -> None:
    """Write a model as source code for other programs."""  # without it, typer replaces a group by its only command


@export.command("c")
def c(
    result: Annotated[Path, typer.Argument(help="Result folder that identify wrote, or its model.yaml.")],
    out: Annotated[Path, typer.Option(help="New folder for the C files.")],
    single: Annotated[bool, typer.Option("--float", help="Use float, not double: for microcontrollers.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Write a model that was not accepted; its name says so.")
    ] = False,
    robot: Annotated[str | None, typer.Option(help="Name or folder of the robot; else the one of model.yaml.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Write a C99 header and source file with functions of the model.

    They compute torques with friction, gravity torques, the inertia matrix and a control law.
    """
    from dynid.resources import refuse_existing, whole_folder
    from dynid.robot import load_robot
    from dynid.runtime.c_folder import write_c
    from dynid.runtime.c_source import CSource
    from dynid.runtime.model import load_model

    refuse_existing(out)
    file = result / "model.yaml" if result.is_dir() else result
    if not file.is_file():
        raise InputNotFoundError(f"{result} holds no model.yaml: name the folder that identify wrote (--out)")
    model = load_model(file, None if robot is None else load_robot(robot))
    if not model.accepted and not force:
        raise SafetyError(
            f"the model in {result} was not accepted, so no arm may be moved with it: identify again; --force writes "
            "it under a name that says so"
        )
    source = CSource(model, hashlib.sha256(file.read_bytes()).hexdigest(), single)
    with whole_folder(out) as work:
        names = write_c(work, source)
    if as_json:
        print_json({"folder": str(out), "files": names, "prefix": source.name, "accepted": model.accepted})
        return
    say(*(str(out / name) for name in names), markup=False)
    say(f"build and test: cmake -S {out} -B {out}/build && cmake --build {out}/build && ctest --test-dir {out}/build")
