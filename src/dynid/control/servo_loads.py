"""Running estimate of the servos' used overload capacity.

The check of the next motion starts from this estimate. A servo that has used its overload capacity switches itself off,
see `dynid.hardware.safety.overload`.
"""

import numpy as np

from dynid.hardware.safety.overload import OverloadModel
from dynid.model.transmission import Transmission
from dynid.robot import FloatArray, Robot

LONGEST_STEP_S = 1.0  # longest time for which a current is assumed to have flowed before it was measured [s]


class ServoLoads:
    """Running estimate of the used fraction of each servo's overload capacity, from measured torques.

    A servo switches itself off when the fraction reaches 1. The driver computes the same fraction. It reports
    the fraction if the setting `overload_limits` is on. Each report replaces the estimate. Between two reports the
    estimate rises while servos carry more than their nominal currents, and decays while they carry less. Before the
    first report the estimate stays zero, because without a report it is not known whether the overload model applies to
    these servos.

    Args:
        robot: the robot; without motors.yaml the load of its servos is unknown and stays zero.
    """

    def __init__(self, robot: Robot) -> None:
        self._overload, self._transmission = OverloadModel.of(robot), Transmission(robot)
        self._load, self._last_ns, self._reported = np.zeros(robot.size), 0, False
        if self._overload is not None:
            self._overload.step(self._load, self._load, 0.0)  # compile now, not while the arm moves

    @property
    def now(self) -> FloatArray:
        """Present estimate of the used fraction of each servo's overload capacity, (n,) [-]; at 1 a servo switches off.

        The array is a copy.
        """
        return self._load.copy()

    def note(self, stamp_ns: int, torque: FloatArray) -> None:
        """Update the estimate of the used overload capacity with the torques measured in a state.

        If the timestamp is not later than the previous one, the time since then is unknown, for example because the
        driver has restarted. The estimate then stays unchanged.

        Args:
            stamp_ns: timestamp of the state [ns].
            torque: measured torques at the joints, (n,) [N m]; a state that is not finite is ignored.
        """
        if self._overload is None or not self._reported or not np.isfinite(torque).all():
            return
        passed_s = (stamp_ns - self._last_ns) * 1e-9 if 0 < self._last_ns < stamp_ns else 0.0
        self._last_ns = stamp_ns
        current = self._transmission.currents_for(torque)
        self._load = self._overload.step(self._load, current, min(passed_s, LONGEST_STEP_S))

    def report(self, load: FloatArray) -> None:
        """Replace the estimate of the used overload capacity by the values that the driver reports.

        Args:
            load: used fraction of each servo's overload capacity, (n,) [-]; negative and non-finite values are ignored.
        """
        if self._overload is not None and load.shape == self._load.shape:
            self._reported = True
            self._load = np.where(np.isfinite(load) & (load >= 0.0), load, self._load)
