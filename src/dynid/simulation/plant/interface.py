"""Interface between the emulated servo bus and the simulated arm that it moves."""

from dataclasses import dataclass
from typing import Protocol

from dynid.robot import FloatArray


@dataclass(frozen=True)
class PlantReading:
    """Sensor readings of all n joints at one time; each array is (n,), in the order of robot.yaml.

    Attributes:
        q: joint angles [rad].
        dq: joint velocities [rad/s].
        current_a: joint currents [A]; times `Robot.joint_constants` they are the motor torques at the joints.
    """

    q: FloatArray
    dq: FloatArray
    current_a: FloatArray


class Plant(Protocol):
    """Interface of a simulated arm that is moved by currents; the emulated servo bus advances its time."""

    @property
    def size(self) -> int:
        """Number of axes n."""
        ...

    def advance(self, duration_s: float) -> None:
        """Advance the arm by a time [s] with constant currents."""
        ...

    def set_currents(self, current_a: FloatArray) -> None:
        """Set the joint currents from now on, (n,) [A]; the caller passes 0 for joints whose torque is off.

        A joint current times `Robot.joint_constants` is the motor torque at the joint.
        """
        ...

    def measure(self) -> PlantReading:
        """Return the sensor readings of all joints now."""
        ...
