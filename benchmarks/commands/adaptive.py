"""`./run benchmark adaptive`: from an unknown arm to an accepted model, against the long identification motion."""

from pathlib import Path
from typing import Annotated

import typer

from benchmarks.commands.figures import figure_table, report_figures
from dynid.commands.options import DEFAULT_ROBOT, JsonOption, RobotOption
from dynid.commands.terminal import stages


def adaptive(
    robot: RobotOption = DEFAULT_ROBOT,
    arms: Annotated[int, typer.Option(min=1, help="Simulated arms, each drawn anew.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first arm.")] = 0,
    gears: Annotated[str, typer.Option(help="Friction of the gears: a model of friction.yaml, or viscous.")] = "M6",
    scene: Annotated[Path | None, typer.Option(help="Free space, as a YAML file; by default the robot's own.")] = None,
    scenes: Annotated[
        int, typer.Option(min=0, help="Instead: number of short runs in random scenes, each with an arm of its own.")
    ] = 0,
    precision: Annotated[
        float | None, typer.Option(min=0.1, max=50.0, help="Limit of links and rotors [%] that ends a run.")
    ] = None,
    processes: Annotated[int, typer.Option(min=0, help="Processes; 0 is one per core.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Identify simulated arms adaptively and from the long motion; compare motion, true errors and violations.

    Exit code 1 unless every arm needs at most 30 s of motion, no error is above 1.1 times (torque) and 1.25 times
    (parameters) that of the long motion, and no limit is exceeded. With --scenes: unless no limit is exceeded, every
    scene without room is refused with a message, and the intervals of 95 % of the runs contain the true values.
    """
    from benchmarks.studies.adaptive import benchmark_adaptive
    from benchmarks.studies.adaptive_scenes import PRECISION, benchmark_scenes
    from dynid.adaptive.settings import AdaptiveSettings
    from dynid.control.safe_box import load_scene, scene_of
    from dynid.robot import load_robot

    loaded, count = load_robot(robot), processes or None
    if scenes:
        with stages("benchmark", scenes) as begin:
            runs = benchmark_scenes(
                loaded,
                scenes,
                first_seed=seed,
                gears=gears,
                precision=precision or PRECISION,
                processes=count,
                progress=begin,
            )
        figures = runs.as_dict()
        report_figures(figures, [figure_table("adaptive", figures)], runs.missed(), as_json)
        return
    own = AdaptiveSettings() if precision is None else AdaptiveSettings().as_precise_as(precision)
    free = load_scene(scene) if scene else scene_of(loaded)
    with stages("benchmark", arms) as begin:
        found = benchmark_adaptive(
            loaded, arms, first_seed=seed, gears=gears, scene=free, settings=own, processes=count, progress=begin
        )
    result = found.as_dict()
    report_figures(result, [figure_table("adaptive", result)], found.missed(), as_json)


def register(group: typer.Typer) -> None:
    """Add the benchmark."""
    group.command()(adaptive)
