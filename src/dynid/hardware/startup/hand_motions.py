"""Recordings of servo positions while a user moves an arm without torque by hand, and their files.

The user first moves each joint alone, in the order of robot.yaml. Then the user brings the arm to a pose with known
joint angles, from which the zeros of the joints follow. A bag of the driver can also be read as such a recording.
"""

from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from dynid.errors import DataError, InputNotFoundError
from dynid.hardware.bus.control_table import IntArray
from dynid.hardware.bus.servo_units import ServoUnits
from dynid.model.transmission import Transmission
from dynid.recording.driver_recording import load_driver_recording
from dynid.resources import load_validated, write_whole, yaml_text
from dynid.robot import FloatArray, Robot, read_only
from dynid.robot.servo_fields import TURN_COUNTS, ServoId
from dynid.robot.values import Strict

SAMPLE_S = 0.05  # interval of samples: a hand turns a joint by a few degrees in this time [s]
FILE_SUFFIXES = (".yaml", ".yml")  # other paths are bags
Step = tuple[Annotated[int, Field(ge=0)], Annotated[int, Field(ge=0)]]


class RecordedServo(Strict):
    """A servo on the line while the arm was moved by hand.

    Attributes:
        servo_id: ID of the servo.
        model_number: model number of the servo.
        reverse_mode: whether the servo counts backwards (bit 0 of its drive mode).
        obeys: ID of another servo whose commands this servo also executes (secondary ID); None if it has no secondary
            ID.
        homing_offset: offset that the servo's position register contains [counts].
    """

    servo_id: ServoId
    model_number: int
    reverse_mode: bool = False
    obeys: ServoId | None = None
    homing_offset: int = 0


class HandMotions(Strict):
    """Positions of all servos on a line over time, while the user moves each joint by hand and then holds a known pose.

    Attributes:
        schema_version: version of the file's schema.
        port: serial port of the line.
        baudrate: baud rate [bit/s].
        servos: the m servos, in the order of the columns of `counts`.
        time_s: times, increasing, (N,) [s].
        counts: position registers, (N, m).
        steps: range of samples (first, end) of each joint's motion, in the order of robot.yaml, then that of the known
            pose. The sample `end` is not included. If the tuple is empty, the evaluation finds the ranges; the
            recording must then contain a second of standstill between any two motions, and before the pose.
    """

    schema_version: Literal[1] = 1
    port: str = ""
    baudrate: int
    servos: Annotated[tuple[RecordedServo, ...], Field(min_length=1)]
    time_s: Annotated[tuple[float, ...], Field(min_length=2)]
    counts: tuple[tuple[int, ...], ...]
    steps: tuple[Step, ...] = ()

    @model_validator(mode="after")
    def _complete(self) -> "HandMotions":
        rows, ids = len(self.time_s), [one.servo_id for one in self.servos]
        if len(self.counts) != rows or any(len(row) != len(ids) for row in self.counts):
            raise ValueError(f"counts must have {rows} rows (time_s) of {len(ids)} values (servos)")
        if len(set(ids)) != len(ids):
            raise ValueError("servo ids must be unique")
        if any(after <= before for before, after in zip(self.time_s, self.time_s[1:], strict=False)):
            raise ValueError("time_s must increase")
        if wrong := [step for step in self.steps if not step[0] < step[1] <= rows]:
            raise ValueError(f"steps: {list(wrong[0])} is not a range of the {rows} rows")
        return self

    @property
    def time(self) -> FloatArray:
        """Times of the samples, (N,) [s]."""
        return read_only(self.time_s)

    @property
    def unwrapped(self) -> IntArray:
        """Position registers of all servos over time without jumps of a whole turn, (N, m) [counts]."""
        return unwrapped(np.array(self.counts, dtype=np.int64))

    def save(self, path: Path) -> None:
        """Write the recording to a new YAML file.

        Raises:
            OutputExistsError: the file exists.
            OutputWriteError: the disk is full, or the system refuses.
        """
        write_whole(path, yaml_text(self.model_dump(mode="json")))


def unwrapped(counts: IntArray) -> IntArray:
    """Return positions (N, m) [counts] without jumps of a whole turn.

    Such jumps occur because encoders in position mode count within one turn.
    """
    return np.asarray(np.unwrap(counts, period=TURN_COUNTS, axis=0))


def load_hand_motions(path: Path, robot: Robot) -> HandMotions:
    """Read a recording of hand motions.

    Args:
        path: YAML file that `HandMotions.save` wrote, or a bag of the robot's driver.
        robot: robot that was recorded. A bag contains joint angles; the robot's data convert them back to counts.

    Raises:
        InputNotFoundError: the path does not exist.
        ConfigurationError: the file is not such a recording, or the robot has no servos yet.
        DataError: the bag contains no states of this robot, or not the states of all servos.
    """
    if not path.exists():
        raise InputNotFoundError(f"{path} does not exist: name a recording of hand motions, or a bag")
    return load_validated(path, HandMotions) if path.suffix in FILE_SUFFIXES else _of_bag(path, robot)


def _of_bag(path: Path, robot: Robot) -> HandMotions:
    """Return the hand motions in a bag of the driver, as positions in counts at intervals of about `SAMPLE_S`."""
    if robot.followers:
        raise DataError(
            f"the bag {path} holds one servo of each joint, and {robot.name} has joints with several: record on the "
            "line, with dynid robot match --port"
        )
    recording = load_driver_recording(path, robot)
    instants = np.arange(0.0, float(recording.time[-1]), SAMPLE_S)
    rows = np.unique(np.searchsorted(recording.time, instants))
    motor = Transmission(robot).motor_motion(recording.q[rows] - robot.zero_offsets)
    servos = [
        RecordedServo(servo_id=one.servo_id, model_number=one.model_number, reverse_mode=one.reverse_mode)
        for one in robot.wired_servos
    ]
    return HandMotions(
        port=robot.file.bus.port,
        baudrate=robot.file.bus.baudrate,
        servos=tuple(servos),
        time_s=tuple(recording.time[rows].tolist()),
        counts=tuple(tuple(row) for row in ServoUnits(robot).position_counts(motor).tolist()),
    )
