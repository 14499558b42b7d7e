"""Slowest recorded velocities near the states of a fine grid, which show stops that the low-pass of positions hides.

A controller that reads the steps of an encoder kicks its joint at every step. At some hundredths of a rad/s the joint
then stops between the steps, several times within the memory of the low-pass: positions show a constant speed, the
velocity register shows the stops. While a joint stands, its friction is below that of sliding, so its mean torque is
smaller than any law of the mean speed says.
"""

import numpy as np

from dynid.robot import FloatArray


def slowest_velocities(time: FloatArray, dq: FloatArray, recorded_time: FloatArray, recorded: FloatArray) -> FloatArray:
    """Return the least recorded velocity in the direction of motion near each state, (M, n) [rad/s].

    A recorded velocity is near the state that is closest to it. A state without any has an infinite value. Whether
    recorded velocities agree with positions at all is a check of the data (`velocity_ratio`).

    Args:
        time: times of the states, (M,) [s], evenly spaced.
        dq: velocities of the states, derived from positions, (M, n) [rad/s].
        recorded_time: times of the recorded velocities, (N,) [s].
        recorded: recorded velocities, (N, n) [rad/s].
    """
    found = np.full(dq.shape, np.inf)
    place = np.rint((recorded_time - time[0]) / (time[1] - time[0])).astype(np.int64)
    inside = (place >= 0) & (place < len(time))
    np.minimum.at(found, place[inside], recorded[inside] * np.sign(dq)[place[inside]])
    return found
