"""Recorded motions as columns for tables and figures: time, positions, velocities and torques."""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dynid.errors import DataError, MissingLibraryError
from dynid.identification.data.signals import Signals
from dynid.recording.driver_recording import DriverRecording
from dynid.robot import FloatArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH_IN, ROW_IN = 12.0, 1.5  # width of the figure, and height of one joint's row [inch]


class Columns:
    """Time, positions, velocities and torques of a recorded motion, one column per joint of the robot, in SI units.

    Access to these arrays raises DataError if the signals were released from memory.

    Attributes:
        path: path of the recording.
        joint_names: names of the joints in the order of the columns, (n,).
        driver: complete recording, if dynid's driver wrote it; else None.
        rows: signals of a recording that another source wrote; else None.
    """

    path: Path
    joint_names: tuple[str, ...]
    driver: DriverRecording | None
    rows: Signals | None

    @property
    def time(self) -> FloatArray:
        """Timestamps (N,) [s]; in bags, they start at 0."""
        return self._columns()[0]

    @property
    def q(self) -> FloatArray:
        """Positions (N, n) [rad]."""
        return self._columns()[1]

    @property
    def dq(self) -> FloatArray | None:
        """Velocities (N, n) [rad/s]; None if they were not recorded."""
        return self._columns()[2]

    @property
    def tau(self) -> FloatArray:
        """Torques (N, n) [N m], measured or computed from the measured motor currents."""
        return self._columns()[3]

    def to_pandas(self) -> Any:
        """Return the recording as a pandas DataFrame with columns such as "joint_1 position" and the index "time".

        Raises:
            MissingLibraryError: pandas is not installed.
        """
        try:
            pandas: Any = import_module("pandas")
        except ImportError as error:
            raise MissingLibraryError("to_pandas needs pandas, which is not installed: pip install pandas") from error
        time, *values = self._columns()
        columns = {
            f"{name} {kind}": rows[:, j]
            for kind, rows in zip(("position", "velocity", "torque"), values, strict=True)
            if rows is not None
            for j, name in enumerate(self.joint_names)
        }
        return pandas.DataFrame(columns, index=pandas.Index(time, name="time"))

    def plot(self) -> "Figure":
        """Return a matplotlib figure of position, velocity and torque of every joint over time."""
        from matplotlib.figure import Figure

        time, q, dq, tau = self._columns()
        names = self.joint_names
        shown = [("q [deg]", np.rad2deg(q)), *([] if dq is None else [("dq [rad/s]", dq)]), ("tau [N m]", tau)]
        figure = Figure(figsize=(WIDTH_IN, ROW_IN * len(names) + 0.5), layout="constrained")
        grid = figure.subplots(len(names), len(shown), sharex=True, squeeze=False)
        for j, name in enumerate(names):
            for axes, (label, values) in zip(grid[j], shown, strict=True):
                axes.plot(time - time[0], values[:, j], linewidth=0.8)
                axes.set_ylabel(label)
                axes.grid(alpha=0.3)
            grid[j, 0].set_title(name, loc="left", fontsize=9)
        for axes in grid[-1]:
            axes.set_xlabel("time [s]")
        return figure

    def _columns(self) -> tuple[FloatArray, FloatArray, FloatArray | None, FloatArray]:
        """Return time (N,), positions (N, n), velocities (N, n) or None, and torques (N, n), in SI units.

        Raises:
            DataError: the signals were released from memory.
        """
        if (bag := self.driver) is not None:
            return bag.time, bag.q, bag.dq, bag.tau_present
        if (rows := self.rows) is None:
            raise DataError(f"the columns of {self.path} are no longer in memory: read it again")
        return rows.time, rows.q, rows.dq, rows.tau
