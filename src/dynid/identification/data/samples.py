"""Samples of a recording: states and torques for the regression, and how they were made."""

from dataclasses import dataclass

import numpy as np

from dynid.identification.data.fine_states import FineStates, Function
from dynid.identification.data.signals import DataQuality
from dynid.identification.settings import Rows, TorqueSource
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray, Strict, read_only


class SampleSettings(Strict):
    """Description of how samples were made, which is stored in the result.

    For averages under test functions, the filter order is 0 and cut-off frequencies are those with a gain of one half.
    """

    rows: Rows = "filtered"
    interval_s: float
    grid_s: float
    filter_order: int
    cutoff_hz: float
    state_cutoff_hz: float | None = None
    torque_source: TorqueSource
    torque_delay_s: float
    window_s: tuple[float, float]
    trimmed_s: tuple[float, float]
    missed_cycles: int
    dropped_samples: int
    samples: int
    selection: str = ""  # sentence, if only part of a long recording is used


@dataclass(frozen=True, eq=False)
class Samples:
    """States and torques on the target grid, for the regression; arrays are read-only.

    Attributes:
        joint_names: names of the joints, (n,).
        time: instants (N,) [s], on the recording's time axis.
        q: positions (N, n) [rad].
        dq: velocities (N, n) [rad/s].
        ddq: accelerations (N, n) [rad/s^2].
        tau: torques (N, n) [N m].
        settings: how the samples were made.
        quality: data quality of the raw signals, for every recording in order.
        fine: states on a fine grid, from which `low_passed` computes, for every recording in order; () if the states
            themselves passed the torques' filter.
        torque_limits: largest torque of each joint's drive, (n,) [N m]; None in tests that do not need it.
        other_tau: torques of the current that was not chosen for `tau`, (N, n) [N m], NaN outside its record; None if
            it was not recorded.
        prior: prior estimate of the base parameters, with a diagonal covariance; None if there is none.
    """

    joint_names: tuple[str, ...]
    time: FloatArray
    q: FloatArray
    dq: FloatArray
    ddq: FloatArray
    tau: FloatArray
    settings: SampleSettings
    quality: tuple[DataQuality, ...] = ()
    fine: tuple[FineStates, ...] = ()
    other_tau: FloatArray | None = None
    torque_limits: FloatArray | None = None
    prior: BaseParameters | None = None

    def __post_init__(self) -> None:
        for name in ("time", "q", "dq", "ddq", "tau", "other_tau"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, read_only(getattr(self, name)))

    def __len__(self) -> int:
        return len(self.time)

    def low_passed(self, function: Function) -> FloatArray:
        """Return a function of the states after the low-pass that the torques have passed, (N, ...).

        Args:
            function: maps q, dq and ddq, (M, n) each in SI units, to values (M, ...).

        Returns:
            Values at the samples, (N, ...).
        """
        if not self.fine:
            return function(self.q, self.dq, self.ddq)
        return np.concatenate([part.low_passed(function) for part in self.fine])
