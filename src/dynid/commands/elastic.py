"""`dynid elastic`: study of arms with elastic joints: identifiable parameters and their accuracy."""

import typer
from rich.table import Table

from dynid.commands.options import JsonOption, RobotOption
from dynid.commands.terminal import print_json, stages, stdout

EXAMPLE_ROBOT = "planar_2r_elastic"
# ratio of break-away torque to Coulomb friction, and Stribeck velocity [rad/s]
SHAPES = ((1.3, 0.05), (1.3, 0.1), (1.3, 0.3), (1.5, 0.3), (2.0, 0.3))
elastic = typer.Typer(
    no_args_is_help=True,
    help="Study arms with elastic joints (links and motors measured); see elastic.yaml of a robot.",
)


@elastic.command()
def classify(robot: RobotOption = EXAMPLE_ROBOT, as_json: JsonOption = False) -> None:
    """Classify every parameter of an arm with elastic joints as unidentifiable, dependent or independent."""
    from dynid.identification.elastic.classification import classify_structure
    from dynid.identification.elastic.model import ElasticModel
    from dynid.identification.elastic.settings import load_elastic
    from dynid.robot import load_robot

    loaded = load_robot(robot)
    found = classify_structure(ElasticModel(loaded, load_elastic(loaded)))
    groups = {name: found.group(name) for name in found.names}
    if as_json:
        print_json({"kinds": found.kinds, "groups": groups})
        return
    console = stdout()
    for kind in ("independent", "dependent", "unidentifiable"):
        console.print(f"{kind}: {', '.join(name for name, one in found.kinds.items() if one == kind)}")
    for name, parts in groups.items():
        if len(parts) > 1:
            console.print(f"  {name} = {' '.join(f'{factor:+.6g} {part}' for part, factor in parts.items())}")


@elastic.command()
def study(robot: RobotOption = EXAMPLE_ROBOT, as_json: JsonOption = False) -> None:
    """Simulate an arm with elastic joints, identify it, and report the parameter errors without and with noise."""
    from dynid.identification.elastic.study import study as run_study
    from dynid.robot import load_robot

    with stages("elastic", 1) as report:
        report(f"simulating and identifying {robot}")
        result = run_study(load_robot(robot))
    if as_json:
        figures = {
            "error": result.error,
            "error_no_static_friction": result.error_no_static_friction,
            "errors": result.errors,
            "deflection_deg": result.deflection_deg.tolist(),
            "samples": result.samples,
            "noise_db": {f"{ratio:g}": error for ratio, error in result.noise.items()},
        }
        print_json(figures)
        return
    table = Table("group", "true", "estimated", "relative error")
    for name, true, value in zip(result.estimate.names, result.true, result.estimate.values, strict=True):
        error = result.errors.get(name)
        table.add_row(name, f"{true:.5g}", f"{value:.5g}", "" if error is None else f"{error:.4f}")
    console = stdout()
    console.print(table)
    console.print(
        f"mean relative error {result.error:.5f}; without static friction {result.error_no_static_friction:.5f}"
    )
    for ratio, error in result.noise.items():
        console.print(f"  noise at {ratio:g} dB: {error:.5f}")


@elastic.command()
def shapes(robot: RobotOption = EXAMPLE_ROBOT, as_json: JsonOption = False) -> None:
    """Repeat `dynid elastic study` for several shapes of the Stribeck friction curve, and report the errors.

    Publications seldom state the shape of this curve, so it must often be assumed.
    """
    from dynid.identification.elastic.study import error_by_stribeck
    from dynid.robot import load_robot

    with stages("elastic", 1) as report:
        report(f"simulating and identifying {robot} with {len(SHAPES)} shapes")
        errors = error_by_stribeck(load_robot(robot), SHAPES)
    if as_json:
        rows = [
            {"breakaway_ratio": ratio, "velocity_rad_s": speed, "error": error}
            for (ratio, speed), error in errors.items()
        ]
        print_json({"shapes": rows})
        return
    table = Table("break-away over Coulomb", "Stribeck speed, rad/s", "mean relative error")
    for (ratio, speed), error in errors.items():
        table.add_row(f"{ratio:g}", f"{speed:g}", f"{error:.3g}")
    stdout().print(table)
