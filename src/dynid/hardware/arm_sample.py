"""What one read of an arm brought, in SI units."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dynid.robot import FloatArray


@dataclass(frozen=True, slots=True)
class ArmSample:
    """The arm's state from one read; each (n,), joint order.

    Attributes:
        stamp_ns: when the replies had arrived [ns since the epoch]: the monotonic clock and its distance from the
            wall clock when the port was opened, so that setting the clock does not bend the motion.
        q: joint angles [rad]; where `valid` is False the last valid ones, as for all values.
        dq: joint velocities [rad/s].
        current_a: present motor currents [A].
        tau_present: torque by the present current and the robot's torque constants [N m].
        valid: whether this read brought the joint's values.
        alert: whether the servo reports a hardware error.
        complete: whether all are valid.
        repeated: whether a complete read brought the one before it again, to the bit, though the arm moves.
    """

    stamp_ns: int
    q: FloatArray
    dq: FloatArray
    current_a: FloatArray
    tau_present: FloatArray
    valid: NDArray[np.bool_]
    alert: NDArray[np.bool_]
    complete: bool
    repeated: bool = False
