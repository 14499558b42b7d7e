"""Slowest recorded velocity near each state, to detect short stops that low-pass filtered positions do not show.

The encoder quantises a controller's feedback, so the controller's torque changes in steps. At some hundredths of a
rad/s the joint then stops between encoder steps, several times within the averaging time of the low-pass. Filtered
positions show a constant speed, but the servo's velocity register shows the stops. The friction of a joint at rest
is below that of a moving joint, so the mean torque is smaller than any friction law predicts from the mean speed.
"""

import numpy as np

from dynid.robot import FloatArray


def slowest_velocities(time: FloatArray, dq: FloatArray, recorded_time: FloatArray, recorded: FloatArray) -> FloatArray:
    """Return the smallest recorded velocity near each state, positive in the direction of motion, (M, n) [rad/s].

    A value near 0 or below reveals a short stop that velocities derived from positions do not show. Each recorded
    velocity belongs to the state that is closest in time. The value is infinite for a state to which no recorded
    velocity belongs.

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
