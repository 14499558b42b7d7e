"""Error measures of torque predictions: relative, absolute and normalised errors of every axis."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dynid.errors import DataError
from dynid.robot import FloatArray, read_only

MOVING_RAD_S = 0.05  # velocity above which joints are in motion [rad/s]


@dataclass(frozen=True, eq=False)
class TorqueErrors:
    """Errors of predicted torques; arrays are per axis (n,), scalars over all axes.

    Attributes:
        relative_per_axis: || tau - tau_hat || / || tau || of each axis; infinite if an axis has no torque.
        relative: relative error over all axes and samples.
        rmse_per_axis: root-mean-square error of each axis [N m].
        rmse: root-mean-square error over all axes and samples [N m].
        mne_per_axis: mean |tau - tau_hat| / (max tau - min tau) of each axis.
        mne: mean normalised error, the mean of `mne_per_axis` (arXiv:2605.15949 uses the name without a definition).
        torque_rms_per_axis: root mean square of the measured torques [N m].
        moving: relative error over all axes and samples in motion, see `in_motion`.
        moving_per_axis: relative error of each axis while the axis is in motion; NaN if it is never in motion.
        moving_torque_rms: root mean square of each axis's torques while the axis is in motion [N m]; NaN if it is never
            in motion.
    """

    relative_per_axis: FloatArray
    relative: float
    rmse_per_axis: FloatArray
    rmse: float
    mne_per_axis: FloatArray
    mne: float
    torque_rms_per_axis: FloatArray
    moving: float
    moving_per_axis: FloatArray
    moving_torque_rms: FloatArray


def in_motion(dq: FloatArray) -> NDArray[np.bool_]:
    """Return a mask (N, n) of joints in motion, from consecutive velocities dq (N, n) [rad/s].

    A joint is in motion if it is faster than `MOVING_RAD_S` and moves in the same direction in both neighbouring
    samples. If the direction changes between two samples, the joint may have stuck for an unknown time, in which its
    torque does not follow from the motion.
    """
    direction = np.sign(np.pad(dq, ((1, 1), (0, 0)), mode="edge"))
    one_way = (direction[:-2] == direction[1:-1]) & (direction[2:] == direction[1:-1])
    return np.asarray(one_way & (np.abs(dq) > MOVING_RAD_S))


def torque_errors(tau: FloatArray, tau_hat: FloatArray, dq: FloatArray | None = None) -> TorqueErrors:
    """Return the errors of predicted torques tau_hat relative to measured tau, both (N, n) [N m].

    Args:
        tau: measured torques, (N, n) [N m].
        tau_hat: predicted torques, (N, n) [N m].
        dq: velocities of consecutive samples, (N, n) [rad/s], which determine the joints in motion; None counts all
            joints as moving.

    Raises:
        DataError: if shapes differ, there are no samples, or values are not finite.
    """
    if tau.shape != tau_hat.shape or tau.ndim != 2 or not len(tau):
        raise DataError(f"torques have shapes {tau.shape} and {tau_hat.shape}, expected two equal (N, n)")
    if not (np.isfinite(tau).all() and np.isfinite(tau_hat).all()):
        raise DataError("measured or predicted torques are not finite; first repair the model or the data")
    error = tau - tau_hat
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.linalg.norm(error, axis=0) / np.linalg.norm(tau, axis=0)
        mne = np.abs(error).mean(axis=0) / np.ptp(tau, axis=0)
        total = float(np.linalg.norm(error) / np.linalg.norm(tau))
        fast = np.ones(tau.shape, dtype=bool) if dq is None else in_motion(dq)
        moving = float(np.linalg.norm(error[fast]) / np.linalg.norm(tau[fast]))
        count = np.where(fast.any(axis=0), fast.sum(axis=0), np.nan)
        left, torque = (np.sqrt(((x * fast) ** 2).sum(axis=0) / count) for x in (error, tau))
        own = np.where((left == 0.0) & (torque == 0.0), 0.0, left / torque)
    # an axis without torque has an error of zero or infinity
    relative, mne = (np.where(np.isnan(v), 0.0, v) for v in (relative, mne))
    return TorqueErrors(
        read_only(relative),
        0.0 if np.isnan(total) else total,
        read_only(np.sqrt((error**2).mean(axis=0))),
        float(np.sqrt((error**2).mean())),
        read_only(mne),
        float(mne.mean()),
        read_only(np.sqrt((tau**2).mean(axis=0))),
        0.0 if np.isnan(moving) else moving,
        read_only(own),
        read_only(torque),
    )
