"""Compiled functions for the control cycle, each for all joints at once, with the same results as numpy to the bit.

A numpy call on the few numbers of an arm takes some microseconds, whatever it computes, and without these functions
a control cycle would need dozens of such calls.
"""

import numba
import numpy as np

from dynid.robot import FloatArray


@numba.njit(cache=True)
def tracking_error(q: FloatArray, q_ref: FloatArray, largest: float) -> tuple[FloatArray, bool]:
    """Return the tracking errors q - q_ref (n,) [rad], and whether all their absolute values are at most `largest`.

    An error of NaN counts as larger than the limit.

    Args:
        q: measured positions, (n,) [rad].
        q_ref: reference positions, (n,) [rad].
        largest: limit of every joint [rad].
    """
    error, kept = np.empty(len(q)), True
    for j in range(len(q)):
        error[j] = q[j] - q_ref[j]
        kept &= abs(error[j]) <= largest
    return error, kept


@numba.njit(cache=True)
def add_error(error: FloatArray, tolerance: FloatArray, squares: FloatArray, largest: FloatArray) -> bool:
    """Add the tracking errors of one state to their statistics; return whether an error exceeds its tolerance.

    Args:
        error: errors, none of them NaN, (n,) [rad].
        tolerance: tolerance of each joint, (n,) [rad].
        squares: sums of the squared errors, changed in place, (n,) [rad^2].
        largest: largest absolute errors, changed in place, (n,) [rad].
    """
    beyond = False
    for j in range(len(error)):
        squares[j] += error[j] * error[j]
        largest[j] = max(largest[j], abs(error[j]))
        beyond |= abs(error[j]) > tolerance[j]
    return beyond


@numba.njit(cache=True)
def reduce_yielding(given: FloatArray, most: float, q_ref: FloatArray, held: FloatArray) -> None:
    """Reduce the displacements of held joints, and write reference plus displacement into `held`.

    Such a displacement was added to the reference of a held joint to relieve its motor.

    Args:
        given: displacement of each joint from its reference, reduced in place, (n,) [rad].
        most: largest reduction of a displacement in this call [rad].
        q_ref: reference positions, (n,) [rad].
        held: output, (n,) [rad].
    """
    for j in range(len(given)):
        given[j] -= min(max(given[j], -most), most)
        held[j] = q_ref[j] + given[j]


@numba.njit(cache=True)
def differentiate(x: FloatArray, before: FloatArray, output: FloatArray, decay: float, gain: float) -> FloatArray:
    """Advance the filter of a pseudo-differentiation by one sample; return its output as a new array (n,).

    Args:
        x: new sample, (n,) in any unit.
        before: previous sample, (n,); overwritten by the new sample.
        output: output of the filter, changed in place, (n,) in the sample's unit per second.
        decay: factor of the previous output.
        gain: factor of the sample's change [1/s].
    """
    found = np.empty(len(x))
    for j in range(len(x)):
        output[j] = found[j] = decay * output[j] + (x[j] - before[j]) * gain
        before[j] = x[j]
    return found


@numba.njit(cache=True)
def stands(dq: FloatArray, ddq: FloatArray) -> bool:
    """Return whether a reference stands still, with velocities [rad/s] and accelerations [rad/s^2], (n,), of zero."""
    for j in range(len(dq)):
        if dq[j] != 0.0 or ddq[j] != 0.0:
            return False
    return True


@numba.njit(cache=True)
def pd_torque(
    q: FloatArray, dq: FloatArray, q_ref: FloatArray, dq_ref: FloatArray, ddq_ref: FloatArray, gains: FloatArray
) -> FloatArray:
    """Return the torque of feed-forward plus PD control, (n,) [N m].

    Args:
        q: measured positions, (n,) [rad].
        dq: estimated velocities, (n,) [rad/s].
        q_ref: reference positions, (n,) [rad].
        dq_ref: reference velocities, (n,) [rad/s].
        ddq_ref: reference accelerations, (n,) [rad/s^2].
        gains: factors of velocity error, position error, reference acceleration and reference velocity, (4, n) in SI.
    """
    torque = np.empty(len(q))
    for j in range(len(q)):
        feedback = gains[0, j] * (dq_ref[j] - dq[j]) + gains[1, j] * (q_ref[j] - q[j])
        torque[j] = feedback + gains[2, j] * ddq_ref[j] + gains[3, j] * dq_ref[j]
    return torque
