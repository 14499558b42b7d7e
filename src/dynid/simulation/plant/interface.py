"""Interface between the emulated servo bus and the arm behind it."""

from dataclasses import dataclass
from typing import Protocol

from dynid.robot import FloatArray


@dataclass(frozen=True)
class PlantReading:
    """Sensor readings at one time, at the joints; each (n,), in the order of robot.yaml.

    Attributes:
        q: joint angles [rad].
        dq: joint velocities [rad/s].
        current_a: currents [A] at the joints (`dynid.model.transmission`).
    """

    q: FloatArray
    dq: FloatArray
    current_a: FloatArray


class Plant(Protocol):
    """An arm that is moved by currents; the bus advances its time."""

    @property
    def size(self) -> int:
        """Number of axes n."""
        ...

    def advance(self, duration_s: float) -> None:
        """Advance the arm by a time [s] with constant currents."""
        ...

    def set_currents(self, current_a: FloatArray) -> None:
        """Set the currents from now on, (n,) [A] at the joints; zero if torque is off."""
        ...

    def measure(self) -> PlantReading:
        """Return the present sensor readings."""
        ...
