"""Bar charts as figure files, for example of the torque errors of several models."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from dynid.reporting.trajectory_figure import DOTS_PER_INCH, write_figure

Series = Mapping[str, Sequence[float | None]]
ROW_IN, WIDTH_IN = 0.2, 9.0


def bars(title: str, axis: str, names: Sequence[str], series: Series) -> Figure:
    """Draw a chart with one group of horizontal bars per name, and in each group one bar per series.

    Args:
        title: title of the figure.
        axis: label of the horizontal axis.
        names: names of the groups.
        series: for each series, by its name, one value per group; None draws no bar.
    """
    height = ROW_IN * len(names) * (len(series) + 1) + 1.2
    figure = Figure(figsize=(WIDTH_IN, height), dpi=DOTS_PER_INCH, layout="constrained")
    axes, places = figure.subplots(), np.arange(len(names))
    for k, (label, values) in enumerate(series.items()):
        known = [(place, value) for place, value in zip(places, values, strict=True) if value is not None]
        at, widths = (np.array(column) for column in zip(*known, strict=True)) if known else (np.zeros(0), np.zeros(0))
        drawn = axes.barh(at + (k + 0.5) / (len(series) + 1), widths, 0.9 / (len(series) + 1), label=label)
        axes.bar_label(drawn, fmt="%.3g", padding=2, fontsize="x-small")
    axes.set_yticks(places + 0.5 * len(series) / (len(series) + 1), names)
    axes.invert_yaxis()
    axes.set_xlabel(axis)
    axes.legend(frameon=False)
    figure.suptitle(title)
    return figure


def write_bars(path: Path, title: str, axis: str, names: Sequence[str], series: Series) -> None:
    """Write a chart with one group of horizontal bars per name, one bar per series, to a new file.

    Args:
        path: the file; its suffix selects the format.
        title: title of the figure.
        axis: label of the horizontal axis.
        names: names of the groups.
        series: for each series, by its name, one value per group; None draws no bar.

    Raises:
        UnknownNameError: the suffix is not a figure format.
        OutputExistsError: the file exists.
    """
    write_figure(path, lambda: bars(title, axis, names, series))


def write_campaign_figures(folder: Path, summary: Mapping[str, Any]) -> None:
    """Write two bar charts of a campaign, spread.svg and held_out.svg.

    A campaign identifies one model for each bag and sampling interval. spread.svg shows the scatter of the models'
    parameters (trace of their covariance) after each stage of the identification and for each sampling interval.
    held_out.svg shows the torque errors of several parameter sets on motions that were not used for identification; it
    is not written if there are no such motions.

    Args:
        folder: folder for the files.
        summary: content of campaign.json.
    """
    spread = {(one["stage"], one["sampling_ms"]): one["trace"] for one in summary["spread"]}
    stages, intervals = (list(dict.fromkeys(key[k] for key in spread)) for k in (0, 1))
    names = ["all" if one is None else f"{one:g} ms" for one in intervals]
    traces = {stage: [spread.get((stage, one)) for one in intervals] for stage in stages}
    write_bars(folder / "spread.svg", "Spread of the cloud", "trace of the covariance", names, traces)
    sets = {name: errors for name, errors in summary["held_out"].items() if errors}
    motions = list(dict.fromkeys(motion for errors in sets.values() for motion in errors))
    if motions:
        errors = {
            motion: [100 * one[motion]["relative_moving"] if motion in one else None for one in sets.values()]
            for motion in motions
        }
        axis = "relative torque error of joints in motion [%]"
        write_bars(folder / "held_out.svg", "Held-out motions", axis, list(sets), errors)
