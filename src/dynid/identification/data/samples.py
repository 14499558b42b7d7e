"""Samples of a recording: states and torques for the regression, with the settings of their preprocessing."""

from dataclasses import dataclass

import numpy as np

from dynid.identification.data.fine_states import FineStates, Function
from dynid.identification.data.signals import DataQuality
from dynid.identification.settings import Rows, TorqueSource
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray, Strict, read_only


class SampleSettings(Strict):
    """Settings and outcome of the preprocessing of samples; they are stored with the identification result.

    rows: "filtered" if signals were low-pass filtered, "averaged" if they were averaged over short times, with test
    functions as weights (`weak_form`). For averages, `filter_order` is 0, and the gain at `cutoff_hz` is one half.
    interval_s: time between samples [s].
    grid_s: step of the finer time grid on which signals are filtered or averaged [s].
    filter_order: order of the Butterworth low-pass.
    cutoff_hz: cut-off frequency of the torques' low-pass [Hz].
    state_cutoff_hz: cut-off frequency of the states' filter [Hz]; None if states pass the torques' low-pass.
    torque_source: motor current from which the torques come, "present" (measured) or "goal" (commanded).
    torque_delay_s: delay from the timestamp of a torque to the middle of the interval in which it acts [s].
    window_s: start and end of the motion [s].
    trimmed_s: durations of the parts at the start and at the end of the motion that give no samples [s].
    missed_cycles: number of missing control cycles.
    dropped_samples: number of samples dropped near gaps of the recording.
    samples: number of samples.
    selection: sentence about the part of a long recording that is used; "" if all of it is used.
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
    """States and torques of an arm, sampled for the regression of its parameters; arrays are read-only.

    Attributes:
        joint_names: names of the joints, (n,).
        time: instants (N,) [s], on the recording's time axis.
        q: positions (N, n) [rad].
        dq: velocities (N, n) [rad/s].
        ddq: accelerations (N, n) [rad/s^2].
        tau: torques (N, n) [N m].
        settings: settings and outcome of the preprocessing.
        quality: data quality of the raw signals, one entry per recording.
        fine: states on a finer time grid, one or more entries per recording, which `low_passed` uses; () if the states
            passed the same filter as the torques.
        torque_limits: largest torque of each joint's drive, (n,) [N m]; None only in unit tests.
        other_tau: torques from the current (present or goal) that `tau` does not come from, (N, n) [N m]; NaN outside
            the time for which this current was recorded; None if it was not recorded.
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
        """Return a function of the states, low-pass filtered in the same way as the torques, (N, ...).

        Args:
            function: maps q, dq and ddq, (M, n) each in SI units, to values (M, ...).

        Returns:
            Filtered values of the function at the N samples, (N, ...).
        """
        if not self.fine:
            return function(self.q, self.dq, self.ddq)
        return np.concatenate([part.low_passed(function) for part in self.fine])
