"""Samples of a recording: states and torques as the regression takes them, and how they were made."""

from dataclasses import dataclass

import numpy as np

from dynid.identification.data.fine_states import FineStates, Function
from dynid.identification.data.signals import DataQuality
from dynid.identification.settings import Rows, TorqueSource
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray, Strict, read_only


class SampleSettings(Strict):
    """How samples were made; goes into the result.

    Averages under test functions have order 0, and the cut-off frequencies at which one half is left.
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
    selection: str = ""  # in words, if not all of a long recording is used


@dataclass(frozen=True, eq=False)
class Samples:
    """States and torques on the target grid, ready for the regression; arrays are read-only.

    Attributes:
        joint_names: (n,).
        time: (N,) [s], on the recording's axis.
        q, dq, ddq: (N, n) [rad, rad/s, rad/s^2].
        tau: (N, n) [N m].
        settings: how they were made.
        quality: of the raw signals of every recording in order.
        fine: what `seen` stands on, for every recording in order; () where states passed the torques' filter.
        torque_limits: what each joint's driver can give at most, (n,) [N m]; None in tests that need none.
        other_tau: torques of the current that `tau` is not of, (N, n) [N m], NaN where its record does not reach; None
            if it was not recorded.
        prior: what is known of the base parameters beforehand, with a diagonal covariance; None: nothing.
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

    def seen(self, function: Function) -> FloatArray:
        """A function of the states as it is in the torques, whose low-pass it passes.

        Args:
            function: of q, dq, ddq, (M, n) each; gives (M, ...).

        Returns:
            (N, ...).
        """
        if not self.fine:
            return function(self.q, self.dq, self.ddq)
        return np.concatenate([part.seen(function) for part in self.fine])
