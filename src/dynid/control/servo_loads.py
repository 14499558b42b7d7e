"""Running estimate of the servos' used overload capacity, with which the check of the next motion begins."""

import numpy as np

from dynid.hardware.safety.overload import OverloadModel
from dynid.model.transmission import Transmission
from dynid.robot import FloatArray, Robot

LONGEST_STEP_S = 1.0  # longest time for which a current is assumed to have flowed before it was measured [s]


class ServoLoads:
    """Used share of each servo's overload capacity, counted from measured torques as the driver's guard counts it.

    The driver's own count replaces the estimate whenever it arrives. In between the estimate goes on: it rises with
    the current and decays while the servos carry less than their nominal currents. The driver reports its count only
    while it limits overload; before the first report the load is zero, because the model of the servos may not apply.

    Args:
        robot: robot whose servos are counted; without motors.yaml their load is unknown and stays zero.
    """

    def __init__(self, robot: Robot) -> None:
        self._overload, self._transmission = OverloadModel.of(robot), Transmission(robot)
        self._load, self._last_ns, self._reported = np.zeros(robot.size), 0, False
        if self._overload is not None:
            self._constants = robot.joint_constants
            self._overload.step(self._load, self._load, 0.0)  # compile now, not while the arm moves

    @property
    def now(self) -> FloatArray:
        """Present estimate of used overload capacity, (n,) [-]: at 1 a servo switches off. The array is a copy."""
        return self._load.copy()

    def note(self, stamp_ns: int, torque: FloatArray) -> None:
        """Count the measured torques, (n,) [N m] at the joints, since the previous state.

        A timestamp that is not later than the previous one shows that the driver has restarted, and adds no load.

        Args:
            stamp_ns: timestamp of the state [ns].
            torque: torques that the servos report; a state that is not finite is left out.
        """
        if self._overload is None or not self._reported or not np.isfinite(torque).all():
            return
        passed_s = (stamp_ns - self._last_ns) * 1e-9 if 0 < self._last_ns < stamp_ns else 0.0
        self._last_ns = stamp_ns
        current = self._transmission.motor_currents(torque / self._constants)
        self._load = self._overload.step(self._load, current, min(passed_s, LONGEST_STEP_S))

    def report(self, load: FloatArray) -> None:
        """Replace the estimate by the driver's own count, (n,) [-]; negative values and non-finite ones are ignored."""
        if self._overload is not None and load.shape == self._load.shape:
            self._reported = True
            self._load = np.where(np.isfinite(load) & (load >= 0.0), load, self._load)
