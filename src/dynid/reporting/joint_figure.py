"""Figure of joint-level models: frequency responses of two models from torque to velocity, one row per joint.

The models are the first-order lag with dead time (arXiv:2605.15949, eq. 1) and a fourth-order ARX model.
"""

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from dynid.identification.joint_level.excitation import JointLevel
from dynid.reporting.trajectory_figure import DOTS_PER_INCH, METADATA, STYLE, check_output
from dynid.resources import write_whole

__all__ = ["check_output", "joint_figure", "write_joint_figure"]

FREQUENCIES_HZ = np.geomspace(0.2, 90.0, 300)
ROW_IN, WIDTH_IN = 1.9, 11.0
FIRST_ORDER, FOURTH_ORDER = "#1f5fa8", "#c77700"


def joint_figure(results: Sequence[JointLevel]) -> Figure:
    """Draw the frequency responses of all joints' models: one row per joint, columns magnitude [dB] and phase [deg]."""
    figure = Figure(figsize=(WIDTH_IN, ROW_IN * len(results) + 0.9), dpi=DOTS_PER_INCH, layout="constrained")
    grid = figure.subplots(len(results), 2, sharex=True, squeeze=False)
    for row, one in zip(grid, results, strict=True):
        models = (("eq. 1", FIRST_ORDER, one.first_order), ("ARX, fourth order", FOURTH_ORDER, one.arx))
        for label, colour, model in models:
            if isinstance(model, str):
                continue  # the report text states why there is no model
            response = model.response(FREQUENCIES_HZ)
            row[0].semilogx(FREQUENCIES_HZ, 20.0 * np.log10(np.abs(response)), color=colour, label=label, linewidth=1.2)
            row[1].semilogx(FREQUENCIES_HZ, np.rad2deg(np.unwrap(np.angle(response))), color=colour, linewidth=1.2)
        row[0].set_ylabel(f"joint {one.joint + 1} [dB]")
        row[1].set_ylabel("[deg]")
        for axes in row:
            axes.grid(alpha=0.3)
    for axes in grid[-1]:
        axes.set_xlabel("frequency [Hz]")
    grid[0, 0].legend(loc="lower left", frameon=False)
    figure.suptitle("Torque to velocity: first-order lag with dead time, and fourth-order ARX model")
    return figure


def write_joint_figure(results: Sequence[JointLevel], path: Path) -> None:
    """Write the frequency responses of all joints' models to a new figure file, in the format of its suffix.

    Raises:
        UnknownNameError: the suffix is not a figure format.
        OutputExistsError: the file exists.
    """
    check_output(path)
    suffix, content = path.suffix.lower(), BytesIO()
    with matplotlib.rc_context(STYLE):
        joint_figure(results).savefig(content, format=suffix[1:], metadata=METADATA[suffix])
    write_whole(path, content.getvalue())
