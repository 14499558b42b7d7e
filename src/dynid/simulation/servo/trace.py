"""Record of the simulated arm's true motion, to check a driver independently of the driver's own data."""

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dynid.resources import write_whole
from dynid.robot import FloatArray
from dynid.simulation.plant.arm import ArmPlant
from dynid.simulation.plant.interface import PlantReading
from dynid.simulation.plant.motor import Motors

CHUNK = 4096


@dataclass(frozen=True, eq=False)
class ArmTrace:
    """True motion of the simulated arm, K samples of n axes, read-only.

    Attributes:
        time_s: time since the start of the arm, or on the monotonic clock if the arm runs in real time, (K,) [s].
        q: true joint angles, (K, n) [rad].
        dq: true joint velocities, (K, n) [rad/s].
        current_a: joint currents that were set during the step before each sample, (K, n) [A]; times
            `Robot.joint_constants` they are the motor torques at the joints.
    """

    time_s: FloatArray
    q: FloatArray
    dq: FloatArray
    current_a: FloatArray

    def __post_init__(self) -> None:
        for array in (self.time_s, self.q, self.dq, self.current_a):
            array.flags.writeable = False

    def between(self, begin_s: float, end_s: float) -> "ArmTrace":
        """Return the samples with times after `begin_s` [s] and up to `end_s` [s]."""
        first, last = np.searchsorted(self.time_s, [begin_s, end_s], side="right")
        part = slice(int(first), int(last))
        return ArmTrace(self.time_s[part], self.q[part], self.dq[part], self.current_a[part])

    def save(self, path: Path) -> None:
        """Write the arrays to a new .npz file, completely or not at all.

        Raises:
            OutputExistsError: the file exists.
        """
        stream = io.BytesIO()
        np.savez(stream, time_s=self.time_s, q=self.q, dq=self.dq, current_a=self.current_a)
        write_whole(path, stream.getvalue())


class TracedArm:
    """Simulated arm that records every step; implements `dynid.simulation.plant.interface.Plant`.

    Args:
        plant: the arm to record.
        keep_s: minimum time for which samples are kept [s]; older samples are discarded in chunks. None keeps all.

    Attributes:
        zero_s: offset that is added to the arm's simulated time in the record [s].
    """

    def __init__(self, plant: ArmPlant, keep_s: float | None = None) -> None:
        self.plant, self._keep_s = plant, keep_s
        self.zero_s = 0.0
        self._current = np.zeros(plant.size)
        self._chunks: list[FloatArray] = []
        self._rows = np.empty((CHUNK, 1 + 3 * plant.size))
        self._filled = 0

    @property
    def size(self) -> int:
        """Number of axes n."""
        return self.plant.size

    @property
    def motors(self) -> Motors | None:
        """Simulated motors, which convert goal currents to torques; None if the arm has no motor model."""
        return self.plant.motors

    def advance(self, duration_s: float) -> None:
        """Advance the arm by a time [s] with constant currents, and record its state afterwards."""
        plant, n = self.plant, self.plant.size
        plant.advance(duration_s)
        if self._filled == CHUNK:
            self._next_chunk()
        row = self._rows[self._filled]
        row[0] = self.zero_s + plant.time_s
        row[1 : 1 + n], row[1 + n : 1 + 2 * n], row[1 + 2 * n :] = plant.q, plant.dq, self._current
        self._filled += 1

    def set_currents(self, current_a: FloatArray) -> None:
        """Set the joint currents from now on, (n,) [A]; times `Robot.joint_constants` they are motor torques."""
        self._current[:] = current_a
        self.plant.set_currents(current_a)

    def measure(self) -> PlantReading:
        """Return the sensor readings of all joints now."""
        return self.plant.measure()

    def trace(self) -> ArmTrace:
        """Return the motion recorded so far."""
        rows = np.concatenate([*self._chunks, self._rows[: self._filled]])
        n = self.plant.size
        return ArmTrace(rows[:, 0].copy(), rows[:, 1 : 1 + n], rows[:, 1 + n : 1 + 2 * n], rows[:, 1 + 2 * n :])

    def _next_chunk(self) -> None:
        self._chunks.append(self._rows)
        self._rows = np.empty_like(self._rows)
        self._filled = 0
        while self._keep_s is not None and len(self._chunks) > 1:
            if self._chunks[1][0, 0] > self.zero_s + self.plant.time_s - self._keep_s:
                break
            self._chunks.pop(0)
