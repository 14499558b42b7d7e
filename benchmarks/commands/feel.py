"""`./run benchmark feel`: contact without a sensor, weighing, and hand guiding, on the simulated arm in lock-step."""

from typing import Annotated, Any

import typer

from benchmarks.commands.figures import figure_table, report_figures
from dynid.commands.options import DEFAULT_ROBOT, JsonOption, RobotOption
from dynid.commands.terminal import stages


def feel(
    robot: RobotOption = DEFAULT_ROBOT,
    places: Annotated[int, typer.Option(min=1, help="Pulls at the tool per force, moving and still.")] = 50,
    minutes: Annotated[float, typer.Option(min=0.05, help="Motion without contact, for false alarms.")] = 10.0,
    payloads: Annotated[int, typer.Option(min=1, help="Motions per held mass.")] = 10,
    arms: Annotated[int, typer.Option(min=0, help="Drawn arms that are identified and weigh each mass once.")] = 24,
    as_json: JsonOption = False,
) -> None:
    """Pull at the simulated arm's tool, estimate its payload, and guide it by hand; all nuisances are on.

    Figures are those of an identified model; `..._nominal` are those of the CAD model without friction, with the same
    thresholds. Exit code 1 if a limit is missed; null is a force that was not detected reliably.
    """
    from benchmarks.contact.feel import benchmark_feel, missed
    from dynid.robot import load_robot

    with stages("benchmark", 19 + arms) as begin:
        figures = benchmark_feel(load_robot(robot), places, minutes, payloads, arms, begin)
    report_figures(figures, [_table(figures)], missed(figures), as_json)


def _table(figures: dict[str, Any]) -> Any:
    table = figure_table("feel", figures)
    for joint, ratio in figures["push_ratio"].items():
        table.add_row(f"push with help over push without, {joint}", f"{ratio:.2f}")
    for state, rows in figures["by_force"].items():
        for size, one in rows.items():
            shares = f"{100 * one['found_share']:.0f} %, within 20 ms {100 * one['found_in_20_ms_share']:.0f} %"
            median = "-" if one["median_ms"] is None else f"{one['median_ms']:.0f} ms"
            force = (
                f"force RMS {one['rms_n']:.2f} N, {100 * one['in_90_percent_interval_share']:.0f} % in 90 % intervals"
            )
            table.add_row(f"{size} N, {state}: found", f"{shares}, median {median}; {force}")
    for key, value in (figures["drawn_arms"] or {}).items():
        table.add_row(f"drawn arms: {key}", str(value) if isinstance(value, dict | list) else f"{value:.3g}")
    return table


def register(group: typer.Typer) -> None:
    """Add the benchmark."""
    group.command()(feel)
