"""The simplest arm behind an emulated servo bus, and the bus served within the test's process."""

import numpy as np

from dynid.hardware.bus.protocol import PacketParser
from dynid.robot import FloatArray, Robot
from dynid.simulation.bus.running import running_bus as running_bus  # tests take it from here
from dynid.simulation.plant.interface import PlantReading
from dynid.simulation.servo.chain import ServoChain


class IndependentAxesPlant:
    """Axes without gravity or coupling, I ddq = k i - d dq, for tests and benchmarks of the bus alone.

    Args:
        robot: gives the number of axes and the torque constants.
        inertia: of every axis [kg m^2].
        damping: of every axis [N m s/rad].
        q: start angles, (n,) [rad]; None is the middle of the joint range.
    """

    def __init__(
        self, robot: Robot, *, inertia: float = 0.05, damping: float = 0.05, q: FloatArray | None = None
    ) -> None:
        self.size = robot.size
        self._torque_constants = robot.torque_constants
        self._inertia, self._damping = inertia, damping
        self.q = np.array(0.5 * (robot.lower + robot.upper) if q is None else q, dtype=np.float64)
        self.dq = np.zeros(self.size)
        self.current_a = np.zeros(self.size)
        self.time_s = 0.0

    def advance(self, duration_s: float) -> None:
        """Advance by a time [s]: exact solution for the velocity, trapezoidal rule for the angle."""
        terminal = self._torque_constants * self.current_a / self._damping
        decay = np.exp(-self._damping / self._inertia * duration_s)
        dq = terminal + (self.dq - terminal) * decay
        self.q += 0.5 * duration_s * (self.dq + dq)
        self.dq = dq
        self.time_s += duration_s

    def set_currents(self, current_a: FloatArray) -> None:
        """Set the motor currents from now on, (n,) [A]."""
        self.current_a[:] = current_a

    def measure(self) -> PlantReading:
        """Return exact angles, velocities and currents."""
        return PlantReading(self.q.copy(), self.dq.copy(), self.current_a.copy())


def send(chain: ServoChain, frame: bytes) -> list[bytes]:
    """Return the replies to one frame."""
    (packet,) = PacketParser().feed(frame)
    return chain.execute(packet)


def ask(chain: ServoChain, frame: bytes) -> tuple[int, bytes]:
    """Return the status error and the parameters of the single reply."""
    (reply,) = send(chain, frame)
    (packet,) = PacketParser().feed(reply)
    return packet.error, packet.parameters
