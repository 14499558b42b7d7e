"""What the emulated servo bus asks of the arm behind it."""

from dataclasses import dataclass
from typing import Protocol

from dynid.robot import FloatArray


@dataclass(frozen=True)
class PlantReading:
    """What the sensors read at one moment, at the joints; each (n,), in the order of robot.yaml.

    Attributes:
        q: joint angles [rad].
        dq: joint velocities [rad/s].
        current_a: currents [A], as counted at the joints (`dynid.model.transmission`).
    """

    q: FloatArray
    dq: FloatArray
    current_a: FloatArray


class Plant(Protocol):
    """An arm that currents move; the bus advances its time."""

    @property
    def size(self) -> int:
        """Number of axes n."""
        ...

    def advance(self, duration_s: float) -> None:
        """Move on by a time [s] with the currents held."""
        ...

    def set_currents(self, current_a: FloatArray) -> None:
        """Currents from now on, (n,) [A] at the joints; zero where torque is off."""
        ...

    def measure(self) -> PlantReading:
        """The sensors' readings now."""
        ...
