"""`dynid audit`: check that a model's inertia matrix M(q) is positive definite at every pose within given limits."""

from typing import Annotated

import numpy as np
import typer

from dynid.commands.options import DEFAULT_ROBOT, JsonOption, RobotOption, model_path, parameters_for, read_model
from dynid.commands.terminal import print_json, say, stages
from dynid.errors import UnknownNameError


def audit(
    model: Annotated[str, typer.Argument(help="A model.yaml, a result folder, or the name of a shipped model.")],
    robot: RobotOption = DEFAULT_ROBOT,
    profile: Annotated[str | None, typer.Option(help="Geometry profile in robot.yaml; default: the URDF.")] = None,
    poses: Annotated[int, typer.Option(min=1, help="Number of poses to sample before the search.")] = 1_000_000,
    seed: Annotated[int, typer.Option(help="Seed of the sample.")] = 1,
    as_json: JsonOption = False,
) -> None:
    """Search for the smallest eigenvalue of the inertia matrix M(q); exit code 1 unless it is shown to be positive.

    The search covers the joint ranges under `audit_domain` in robot.yaml, or else the joint limits. If the sign depends
    on the rounding of the parameters in the file, the answer is "undecided within rounding".
    """
    from dynid.identification.feasibility.audit import Auditor
    from dynid.identification.feasibility.rounding import eigenvalue_rounding_error, rounding_of
    from dynid.model.dynamics import ArmModel
    from dynid.robot import load_robot

    loaded = load_robot(robot)
    profiles = loaded.file.geometry_profiles_m
    if profile is not None and profile not in profiles:
        raise UnknownNameError("geometry profile", profile, tuple(profiles))
    content = read_model(loaded, model_path(loaded, model))
    arm = ArmModel.of(loaded, mount=content.mount, lengths_m=profiles[profile] if profile else None)
    phi = parameters_for(arm, content, loaded)
    with stages("audit", 1) as begin:
        begin("auditing")
        auditor = Auditor(arm, loaded.audit_lower, loaded.audit_upper)
        result = auditor.audit(phi, poses=poses, seed=seed)
    rounding = rounding_of(one.value for one in content.parameters)
    open_by = eigenvalue_rounding_error(auditor.functions, phi.values, result.pose, rounding)
    decided = abs(result.lambda_min) > open_by
    positive = result.lambda_min > 0.0 and decided
    degrees = [round(value, 4) for value in np.rad2deg(result.pose).tolist()]
    if as_json:
        found = {
            "lambda_min": result.lambda_min,
            "pose_deg": degrees,
            "poses_checked": result.poses_checked,
            "certificate": result.certificate,
            "positive_definite": positive if decided else None,
            "rounding_kg_m2": open_by,
            "profile": profile or "urdf",
        }
        print_json(found)
    else:
        words = {True: "[green]positive definite[/green]", False: "[bold red]NOT positive definite[/bold red]"}
        answer = words[positive] if decided else "[yellow]undecided within rounding[/yellow]"
        say(f"{answer}: smallest eigenvalue {result.lambda_min:.4g} kg m^2 ({result.certificate})")
        if not decided:
            say(f"  the file rounds parameters to +-{rounding:.1g}, which moves it by up to {open_by:.2g} kg m^2")
        say(f"  at ({', '.join(f'{value:.1f}' for value in degrees)}) deg, {result.poses_checked:,} poses")
    raise typer.Exit(0 if positive else 1)
