"""All emulated servos of one arm on one line, with the plant behind them and their common clock; no I/O."""

import itertools
import struct

import numpy as np

from dynid.hardware.bus import control_table as table
from dynid.hardware.bus.protocol import BROADCAST_ID, Instruction, Packet, build_fast_reply, build_status
from dynid.robot import Robot
from dynid.simulation.plant.interface import Plant
from dynid.simulation.plant.motor import Motors
from dynid.simulation.servo.servo import INSTRUCTION_ERROR, LENGTH_ERROR, Servo

LONGEST_STEP_S = 0.001
OVERHEATING, OVERLOAD = 1 << 2, 1 << 5  # bits of the hardware error status
HOTTEST_DEG_C = 80.0  # the factory's temperature limit


class ServoChain:
    """Carries out instruction packets and advances the plant.

    Args:
        robot: gives ids, models and the centre count.
        plant: the arm; its axes are the robot's joints in order.
        baud_code: value of the servos' baud rate register.
        lock_step: every sync write of goal currents moves time on by one control cycle, and nothing else does.

    Attributes:
        servos: by id; a test may remove, add or change one.
        twins: by id; a second servo that was given the same id, and collides with the first whenever that answers.
        line_code: the baud rate register's value at which the host speaks; servos set to another receive nothing. None
            is whatever they are set to.
        knows_fast_read: whether the firmware is new enough for the fast sync read.
        replies_chained: whether a servo answers a sync read only after it has seen the reply of the one before it, as a
            logic analyser showed (DynamixelSDK issues 331 and 364): behind one that is silent, all others are.
        time_s: the servos' clock [s].
        max_abs_current_a: largest current commanded to each motor since the start, (n,) [A].
    """

    def __init__(self, robot: Robot, plant: Plant, *, baud_code: int = 5, lock_step: bool = False) -> None:
        if plant.size != robot.size:
            raise ValueError(f"the plant has {plant.size} axes, robot {robot.name} has {robot.size}")
        self.robot, self.plant, self.lock_step = robot, plant, lock_step
        self.servos = {
            servo_id: Servo(
                servo_id,
                model.model_number,
                round(model.factory_current_limit_a / table.CURRENT_A_PER_COUNT),
                baud_code,
            )
            for servo_id, model in zip(robot.servo_ids, robot.servo_models, strict=True)
        }
        self._motors: Motors | None = getattr(plant, "motors", None)
        self.twins: dict[int, Servo] = {}
        self.line_code: int | None = None
        self.knows_fast_read = self.replies_chained = True
        self.time_s = 0.0
        self._absent_until_s: dict[int, float] = {}
        self.max_abs_current_a = np.zeros(robot.size)
        self._axis = {servo_id: axis for axis, servo_id in enumerate(robot.servo_ids)}
        self._axis_servos = [self.servos[servo_id] for servo_id in robot.servo_ids]
        self._drive_counts: list[int] = []
        self._last_instruction_s = 0.0
        self._shortest_watchdog_s = float("inf")
        self._update_drive()

    def advance(self, duration_s: float) -> None:
        """Move time on by `duration_s`, in steps of at most 1 ms, watchdogs included."""
        remaining = duration_s
        while remaining > 0.0:
            step = min(remaining, LONGEST_STEP_S)
            self.plant.advance(step)
            self.time_s += step
            remaining -= step
            if self._motors is not None:
                self._protect(self._motors)
            if self.time_s - self._last_instruction_s >= self._shortest_watchdog_s:
                self._trip_watchdogs()

    def _protect(self, motors: Motors) -> None:
        """Servos that are overloaded or too hot say so, and switch their torque off."""
        for axis in np.flatnonzero(motors.overloaded | (motors.temperature_deg_c >= HOTTEST_DEG_C)):
            servo = self._axis_servos[axis]
            if servo.torque_enabled:
                servo.raise_hardware_error(OVERLOAD if motors.overloaded[axis] else OVERHEATING)
                self._update_drive()

    def execute(self, packet: Packet) -> list[bytes]:
        """Carry out one instruction; the status frames that the servos send back, in their order on the wire."""
        self._last_instruction_s = self.time_s
        instruction, payload = packet.instruction, packet.payload
        if packet.packet_id == BROADCAST_ID and instruction in _GROUP:
            return self._execute_group(instruction, payload)
        if packet.packet_id == BROADCAST_ID:
            replies = [self._execute_one(servo_id, instruction, payload) for servo_id in list(self.servos)]
            return [frame for frames in replies for frame in frames] if instruction == Instruction.PING else []
        if instruction == Instruction.STATUS:
            return []
        return self._execute_one(packet.packet_id, instruction, payload)

    def reply_delay_s(self, frame: bytes) -> float:
        """How long the servo that sends `frame` waits before it does [s]."""
        servo = self.servos.get(frame[4])
        return servo.get(table.RETURN_DELAY_TIME) * table.RETURN_DELAY_S_PER_COUNT if servo else 0.0

    def servo_at(self, servo_id: int) -> Servo | None:
        """The servo that receives what is sent to an id now; None if there is none."""
        servo = self.servos.get(servo_id)
        if servo is None or self._absent_until_s.get(servo_id, 0.0) > self.time_s:
            return None
        return servo if self.line_code in (None, servo.bytes[table.BAUD_RATE.address]) else None

    def restart(self, servo_id: int, absent_s: float = 0.0) -> None:
        """A servo reboots by itself: torque off, RAM as after power-on; for a while it neither receives nor answers."""
        self.servos[servo_id].reboot()
        self._absent_until_s[servo_id] = self.time_s + absent_s
        self._update_drive()

    def raise_hardware_error(self, servo_id: int, bits: int) -> None:
        """A servo finds a hardware error; see `Servo.raise_hardware_error`."""
        self.servos[servo_id].raise_hardware_error(bits)
        self._update_drive()

    def give_id_of(self, servo_id: int, other_id: int) -> None:
        """The servo `servo_id` now has the id of another, and answers beside it."""
        twin = self.servos.pop(servo_id)
        twin.set(table.ID, other_id)
        self.twins[other_id] = twin

    def summary(self) -> dict[str, list[float] | list[bool] | float]:
        """Present and past commands to the motors: for the proof that an arm was left without current."""
        unit = table.CURRENT_A_PER_COUNT
        servos = self._axis_servos
        return {
            "torque_enabled": [servo.torque_enabled for servo in servos],
            "torque_was_enabled": [servo.torque_was_enabled for servo in servos],
            "goal_current_a": [round(servo.get(table.GOAL_CURRENT) * unit, 5) for servo in servos],
            "drive_current_a": [round(servo.drive_current_count * unit, 5) for servo in servos],
            "max_abs_current_a": [round(float(value), 5) for value in self.max_abs_current_a],
            "watchdog_tripped": [servo.watchdog_tripped for servo in servos],
            "time_s": round(self.time_s, 6),
        }

    def _execute_group(self, instruction: int, payload: bytes) -> list[bytes]:
        if len(payload) < 5:
            return []
        address, size = int.from_bytes(payload[:2], "little"), int.from_bytes(payload[2:4], "little")
        if instruction == Instruction.SYNC_WRITE:
            self._sync_write(address, size, payload[4:])
            return []
        present = [self.servo_at(servo_id) for servo_id in payload[4:]]
        if instruction == Instruction.SYNC_READ and self.replies_chained:
            present = list(itertools.takewhile(_answers, present))
        asked = [servo for servo in present if servo is not None and _answers(servo)]
        self._refresh()
        if instruction == Instruction.SYNC_READ:
            frames = []
            for servo in asked:
                error, data = servo.read(address, size)
                frames.append(build_status(servo.servo_id, error | servo.alert, data))
            return [self._collided(frame, (address, size)) for frame in frames] if self.twins else frames
        replies = [servo.read(address, size) for servo in asked]
        # Each servo waits for the block of the one before it, so one that is missing costs the whole reply.
        incomplete = len(asked) < len(payload) - 4 or any(error for error, _ in replies)
        if incomplete or self.twins or not self.knows_fast_read:
            return []
        ids = [servo.servo_id for servo in asked]
        return [build_fast_reply(ids, [servo.alert for servo in asked], [data for _, data in replies])]

    def _sync_write(self, address: int, size: int, blocks: bytes) -> None:
        if size == 0 or len(blocks) % (size + 1):
            return
        if address == table.GOAL_CURRENT.address and size == table.GOAL_CURRENT.size:
            for servo_id, count in _GOAL_BLOCK.iter_unpack(blocks):
                for servo in (self.servo_at(servo_id), self.twins.get(servo_id)):
                    if servo is not None:
                        servo.write_goal_current(count)
            self._after_write(address)
            return
        for start in range(0, len(blocks), size + 1):
            for servo in (self.servo_at(blocks[start]), self.twins.get(blocks[start])):
                if servo is not None:
                    servo.write(address, blocks[start + 1 : start + 1 + size])
        self._after_write(address)

    def _after_write(self, address: int) -> None:
        self._update_drive()
        if self.lock_step and address == table.GOAL_CURRENT.address:
            self.advance(self.robot.file.bus.cycle_s)

    def _execute_one(self, servo_id: int, instruction: int, payload: bytes) -> list[bytes]:
        """The reply of the servo with this id, or of two at once, which only a receiver that is lucky understands."""
        servo, twin = self.servo_at(servo_id), self.twins.get(servo_id)
        if servo is None:
            return []
        replies = self._carry_out(servo, instruction, payload)
        if twin is None:
            return replies
        return [superposed(*both) for both in zip(replies, self._carry_out(twin, instruction, payload), strict=False)]

    def _collided(self, frame: bytes, block: tuple[int, int]) -> bytes:
        """What arrives when a second servo with the sender's id answers the same sync read."""
        twin = self.twins.get(frame[4])
        if twin is None:
            return frame
        error, data = twin.read(*block)
        return superposed(frame, build_status(frame[4], error | twin.alert, data))

    def _carry_out(self, servo: Servo, instruction: int, payload: bytes) -> list[bytes]:
        level = servo.get(table.STATUS_RETURN_LEVEL)
        data, error, answered = b"", 0, level == table.STATUS_RETURN_ALL
        if instruction == Instruction.PING:
            data, answered = servo.read(0, 2)[1] + servo.read(6, 1)[1], True
        elif instruction == Instruction.READ:
            answered = level > 0
            error, data = LENGTH_ERROR, b""
            if len(payload) == 4:
                self._refresh()
                error, data = servo.read(int.from_bytes(payload[:2], "little"), int.from_bytes(payload[2:], "little"))
        elif instruction == Instruction.WRITE:
            address = int.from_bytes(payload[:2], "little")
            error = servo.write(address, payload[2:]) if len(payload) > 2 else LENGTH_ERROR
            self._update_drive()
        elif instruction == Instruction.REBOOT:
            servo.reboot()
            self._update_drive()
        else:
            error = INSTRUCTION_ERROR
        return [build_status(servo.servo_id, error | servo.alert, data)] if answered else []

    def _refresh(self) -> None:
        """Put the plant's present state into the servos' registers."""
        reading = self.plant.measure()
        counts = zip(
            self._axis_servos,
            table.current_to_counts(reading.current_a).tolist(),
            table.velocity_to_counts(reading.dq).tolist(),
            table.position_to_counts(reading.q, self.robot.file.bus.centre_count).tolist(),
            strict=True,
        )
        tick_ms = int(self.time_s * 1000.0) % 32768
        for servo, current, velocity, position in counts:
            servo.set_state(current, velocity, position, tick_ms)
        if self._motors is not None:
            for servo, deg_c in zip(self._axis_servos, self._motors.temperature_deg_c.round().tolist(), strict=True):
                servo.set(table.PRESENT_TEMPERATURE, int(deg_c))

    def _update_drive(self) -> None:
        """Hand the motors' currents to the plant when one has changed."""
        servos = self._axis_servos
        self._shortest_watchdog_s = min(servo.watchdog_s for servo in servos)
        counts = [servo.drive_current_count for servo in servos]
        if counts != self._drive_counts:
            self._drive_counts = counts
            current_a = table.current_from_counts(np.array(counts))
            np.maximum(self.max_abs_current_a, np.abs(current_a), out=self.max_abs_current_a)
            self.plant.set_currents(current_a)

    def _trip_watchdogs(self) -> None:
        silence_s = self.time_s - self._last_instruction_s
        for servo in self._axis_servos:
            if silence_s >= servo.watchdog_s:
                servo.trip_watchdog()
        self._update_drive()


def _answers(servo: Servo | None) -> bool:
    """Whether a servo is there, and set to reply to reads."""
    return servo is not None and servo.get(table.STATUS_RETURN_LEVEL) > 0


def superposed(first: bytes, second: bytes) -> bytes:
    """Two frames sent at the same time: where they differ, the line shows neither."""
    longest = max(len(first), len(second))
    pairs = zip(first.ljust(longest, b"\xff"), second.ljust(longest, b"\xff"), strict=True)
    return bytes(one & other for one, other in pairs)


_GOAL_BLOCK = struct.Struct("<Bh")
_GROUP = (Instruction.SYNC_READ, Instruction.FAST_SYNC_READ, Instruction.SYNC_WRITE)
