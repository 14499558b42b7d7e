"""Emulated servos of one arm on one bus line, with the simulated arm (plant) that they move; without I/O."""

import struct
from collections.abc import Iterable

import numpy as np

from dynid.hardware.bus import control_table as table
from dynid.hardware.bus.protocol import BROADCAST_ID, MAX_SERVO_ID, Instruction, Packet, build_fast_reply, build_status
from dynid.model.transmission import Transmission
from dynid.robot import FloatArray, Robot
from dynid.simulation.plant.interface import Plant, PlantReading
from dynid.simulation.plant.motor import Motors
from dynid.simulation.servo.instructions import GROUP_READS, RESET_ALL, bulk_writes, carry_out, sync_writes
from dynid.simulation.servo.own_loops import OwnLoops
from dynid.simulation.servo.servo import REVERSED, Servo
from dynid.simulation.servo.shafts import Shafts
from dynid.simulation.servo.undocumented import UndocumentedBehaviour

LONGEST_STEP_S = 0.001
_BAUD_CODES = {rate: code for code, rate in table.BAUD_RATES.items()}
OVERHEATING, OVERLOAD = 1 << 2, 1 << 5  # bits of the hardware error status


class ServoChain:
    """Chain of emulated servos that executes instruction packets and advances the plant, the simulated arm.

    Args:
        robot: robot with the servos' IDs, models and centre counts.
        plant: the arm; its axes are the robot's joints in order.
        baud_code: value of the servos' baud rate register; None selects the rate of the robot's bus.
        lock_step: whether `execute` advances time by one control cycle with every sync write of goal currents.

    Attributes:
        servos: servos by ID; a test may remove, add or change one.
        duplicate_id_servos: second servo of each ID that two servos share, by ID. Its replies collide with those of
            the first servo, which is in `servos`.
        line_code: the host's baud rate as a register value; servos with a different rate receive nothing. With None,
            all servos receive.
        knows_fast_read: whether the servos' firmware supports the fast sync read.
        replies_chained: whether each servo answers a sync or bulk read only after the reply of the previous servo, as
            a logic analyser showed (DynamixelSDK issues 331 and 364). Then a missing reply silences all later servos.
        undocumented: behaviour that the e-manual leaves open, for all servos.
        time_s: the servos' clock [s].
        missed_writes: number of further group writes (sync or bulk) that will be lost, by (servo ID, register address).
        unread: set of (servo ID, register address); a read of such a register gets no answer.
        max_abs_current_a: largest absolute current commanded to each motor since the start, (n,) [A].
    """

    def __init__(self, robot: Robot, plant: Plant, *, baud_code: int | None = None, lock_step: bool = False) -> None:
        if plant.size != robot.size:
            raise ValueError(f"the plant has {plant.size} axes, robot {robot.name} has {robot.size}")
        self.robot, self.plant, self.lock_step = robot, plant, lock_step
        self._transmission, self._shafts = Transmission(robot), Shafts(robot)
        self.undocumented = UndocumentedBehaviour()
        code = _BAUD_CODES[robot.file.bus.baudrate] if baud_code is None else baud_code
        self.servos = {
            one.servo_id: Servo(one.servo_id, one.model_number, code, self.undocumented) for one in robot.wired_servos
        }
        self._wired_servos = [self.servos[servo_id] for servo_id in robot.all_servo_ids]
        for wired, servo in zip(robot.wired_servos, self._wired_servos, strict=True):  # as in robot.yaml
            servo.set(table.DRIVE_MODE, REVERSED if wired.reverse_mode else 0)
            servo.set(table.SECONDARY_ID, table.NO_ID if wired.obeys is None else wired.obeys)
        self._motors: Motors | None = getattr(plant, "motors", None)
        self.duplicate_id_servos: dict[int, Servo] = {}
        self.missed_writes: dict[tuple[int, int], int] = {}
        self.unread: set[tuple[int, int]] = set()
        self.line_code: int | None = None
        self.knows_fast_read = self.replies_chained = True
        self.time_s = 0.0
        self._absent_until_s: dict[int, float] = {}
        self.max_abs_current_a = np.zeros(robot.size)
        self._followers: dict[int, list[Servo]] = {}  # followers by secondary ID
        hottest = [one.get(table.TEMPERATURE_LIMIT) for one in self._wired_servos[: robot.size]]
        self._hottest_deg_c = np.array(hottest)
        self._drive_counts: list[int] = []
        self._own_loops, self._self_controlled = OwnLoops(robot), list[int]()
        self._last_instruction_s = 0.0
        self._cut_off: set[int] = set()
        self._cut_s = float("inf")
        self._shortest_watchdog_s = float("inf")
        self._update_drive()

    def advance(self, duration_s: float) -> None:
        """Advance servos and plant by `duration_s` [s], in steps of at most 1 ms; watchdogs may trip meanwhile."""
        remaining = duration_s
        while remaining > 0.0:
            step = min(remaining, LONGEST_STEP_S)
            if self._self_controlled:
                self._drive_by_own_loops(step)
            self.plant.advance(step)
            self.time_s += step
            remaining -= step
            if self._motors is not None:
                self._protect(self._motors)
            if self.time_s - min(self._last_instruction_s, self._cut_s) >= self._shortest_watchdog_s:
                self._trip_watchdogs()

    def _protect(self, motors: Motors) -> None:
        """Set the error bits of overloaded or overheated servos, and switch their torque off."""
        for axis in np.flatnonzero(motors.overloaded | (motors.temperature_deg_c >= self._hottest_deg_c)):
            servo = self._wired_servos[axis]
            if servo.torque_enabled:
                servo.raise_hardware_error(OVERLOAD if motors.overloaded[axis] else OVERHEATING)
                self._update_drive()

    def execute(self, packet: Packet) -> list[bytes]:
        """Execute one instruction packet; return the servos' status frames, in their order on the wire."""
        self._last_instruction_s = self.time_s
        instruction, payload = packet.instruction, packet.payload
        if packet.packet_id != BROADCAST_ID:
            return (
                [] if instruction == Instruction.STATUS else self._execute_one(packet.packet_id, instruction, payload)
            )
        if instruction in GROUP_READS:
            return self._read_group(GROUP_READS[instruction](payload), fast=instruction in _FAST)
        if instruction in (Instruction.SYNC_WRITE, Instruction.BULK_WRITE):
            self._write_group(instruction, payload)
            return []
        if instruction == Instruction.FACTORY_RESET and payload == RESET_ALL:
            return []  # a broadcast ID write would give all servos one ID
        replies = [self._execute_one(servo_id, instruction, payload) for servo_id in sorted(self.servos)]
        return [frame for frames in replies for frame in frames] if instruction == Instruction.PING else []

    def answer_damaged(self, servo_id: int) -> list[bytes]:
        """Return the status frames with which a servo answers an instruction that arrived with a wrong CRC.

        The list is empty if the servo does not answer.
        """
        servo = self.servo_at(servo_id)
        if servo is None or not self.undocumented.crc_error_answered or _level(servo) < table.STATUS_RETURN_ALL:
            return []
        return [build_status(servo_id, table.CRC_ERROR | servo.alert)]

    def reply_delay_s(self, frame: bytes) -> float:
        """Return the reply delay of the servo that sends `frame` [s]."""
        servo = self.servos.get(frame[4])
        return servo.get(table.RETURN_DELAY_TIME) * table.RETURN_DELAY_S_PER_COUNT if servo else 0.0

    def servo_at(self, servo_id: int) -> Servo | None:
        """Return the servo that receives packets to this ID now, or None.

        A servo receives nothing while it restarts, beyond a broken cable, or if its baud rate differs from the host's.
        """
        servo = self.servos.get(servo_id)
        if servo is None or self._absent_until_s.get(servo_id, 0.0) > self.time_s:
            return None
        return servo if self.line_code in (None, servo.bytes[table.BAUD_RATE.address]) else None

    def restart(self, servo_id: int, absent_s: float = 0.0) -> None:
        """Reboot a servo without an instruction, so that its RAM registers, torque included, are as after power-on.

        For the next `absent_s` seconds the servo neither receives nor answers.
        """
        self.servos[servo_id].reboot()
        self._absent_until_s[servo_id] = self.time_s + absent_s
        self._update_drive()

    def cut(self, servo_id: int | None, *, powered: bool) -> None:
        """Break the cable permanently, so that the servos beyond the break neither receive nor answer.

        Args:
            servo_id: last servo before the break; None breaks the cable before the first servo.
            powered: whether the servos beyond the break keep their supply. They then hold their goal currents until
                their watchdogs trip; without supply they lose torque at once.
        """
        ids = tuple(one.servo_id for one in sorted(self.robot.wired_servos, key=lambda one: one.axis))
        behind = ids[0 if servo_id is None else ids.index(servo_id) + 1 :]
        for one in behind:
            self._absent_until_s[one] = float("inf")
            if not powered:
                self.servos[one].reboot()
        self._cut_off.update(behind)
        self._cut_s = min(self._cut_s, self.time_s)
        self._update_drive()

    def raise_hardware_error(self, servo_id: int, bits: int) -> None:
        """Set bits of a servo's hardware error status; bits in its shutdown register switch its torque off."""
        self.servos[servo_id].raise_hardware_error(bits)
        self._update_drive()

    def set_register(self, servo_id: int, register: table.Register, count: int) -> None:
        """Set a register of a servo to a raw value, without the checks of a write instruction."""
        self.servos[servo_id].set(register, count)
        self._update_drive()

    def assign_duplicate_id(self, servo_id: int, other_id: int) -> None:
        """Change the ID of servo `servo_id` to `other_id`, which belongs to another servo, so that both answer."""
        twin = self.servos.pop(servo_id)
        twin.set(table.ID, other_id)
        self.duplicate_id_servos[other_id] = twin

    @property
    def torque_on(self) -> bool:
        """Whether at least one servo has its torque on."""
        return any(servo.torque_enabled for servo in self._wired_servos)

    def summary(self) -> dict[str, list[float] | list[bool] | float]:
        """Return the servos' state as a dictionary, which shows whether the servos were left without current.

        Its entries are torque states, goal and motor currents, the largest currents so far, watchdogs and the
        time. Lists have one entry per servo, except `max_abs_current_a`, which has one per motor.
        """
        servos, units = self._wired_servos, self._shafts.current_a.tolist()
        return {
            "torque_enabled": [servo.torque_enabled for servo in servos],
            "torque_was_enabled": [servo.torque_was_enabled for servo in servos],
            "goal_current_a": [round(one.get(table.GOAL_CURRENT) * a, 5) for one, a in zip(servos, units, strict=True)],
            "drive_current_a": [round(one.drive_current_count * a, 5) for one, a in zip(servos, units, strict=True)],
            "max_abs_current_a": [round(float(value), 5) for value in self.max_abs_current_a],
            "watchdog_tripped": [servo.watchdog_tripped for servo in servos],
            "time_s": round(self.time_s, 6),
        }

    def _read_group(self, blocks: list[tuple[int, int, int]], *, fast: bool) -> list[bytes]:
        """Return the reply frames to a sync or bulk read of (ID, address, size) blocks.

        A fast read gets one common frame, or none if a servo's block is missing or in error.
        """
        requested = []
        for servo_id, address, size in blocks:
            servo = self.servo_at(servo_id)
            if servo is not None and _level(servo) > 0:
                requested.append((servo, address, size))
            elif fast or self.replies_chained:
                break
        self._refresh()
        replies = [(servo, *servo.read(address, size)) for servo, address, size in requested]
        if not fast:
            frames = [build_status(servo.servo_id, error | servo.alert, data) for servo, error, data in replies]
            if not self.duplicate_id_servos:
                return frames
            return [self._collided(frame, block[1:]) for frame, block in zip(frames, requested, strict=True)]
        # Each servo waits for the previous one's block, so a missing servo prevents the whole reply.
        incomplete = len(requested) < len(blocks) or any(error for _, error, _ in replies)
        if not blocks or incomplete or self.duplicate_id_servos or not self.knows_fast_read:
            return []
        ids = [servo.servo_id for servo, _, _ in replies]
        return [build_fast_reply(ids, [servo.alert for servo, _, _ in replies], [data for _, _, data in replies])]

    def _write_group(self, instruction: int, payload: bytes) -> None:
        if instruction == Instruction.BULK_WRITE:
            self._write_blocks(bulk_writes(payload))
        elif payload[:4] != _GOAL_CURRENT_BLOCK:
            self._write_blocks(sync_writes(payload))
        elif len(payload) % _GOAL_BLOCK.size == 4 % _GOAL_BLOCK.size:
            for servo_id, count in _GOAL_BLOCK.iter_unpack(payload[4:]):
                if self.missed_writes and self._misses_write(servo_id, table.GOAL_CURRENT.address):
                    continue
                for servo in self._receivers(servo_id):
                    servo.write_goal_current(count)
            self._drive()
            if self.lock_step:
                self.advance(self.robot.file.bus.cycle_s)

    def _write_blocks(self, blocks: list[tuple[int, int, bytes]]) -> None:
        for servo_id, address, data in blocks:
            if self._misses_write(servo_id, address):
                continue
            for servo in self._receivers(servo_id):
                if address >= table.EEPROM_END or servo.servo_id == servo_id:
                    servo.write(address, data)
        self._settle()

    def _misses_write(self, servo_id: int, address: int) -> bool:
        """Return whether a group write to this servo and register is lost.

        If so, the number of further lost writes in `missed_writes` decreases by 1.
        """
        left = self.missed_writes.get((servo_id, address), 0)
        if left > 0:
            self.missed_writes[servo_id, address] = left - 1
        return left > 0

    def _receivers(self, servo_id: int) -> Iterable[Servo]:
        """Return the servos that execute a write to an ID, including servos that have this ID as secondary ID."""
        servo, twin = self.servo_at(servo_id), self.duplicate_id_servos.get(servo_id)
        found = () if servo is None else (servo,)
        if twin is None and not self._followers:
            return found
        return [*found, *([twin] if twin else []), *self._followers.get(servo_id, ())]

    def _execute_one(self, servo_id: int, instruction: int, payload: bytes) -> list[bytes]:
        """Execute an instruction at the servo with this ID; return its reply frame, or an empty list if it is silent.

        If two servos have this ID, both execute it, and the frame is the superposition of both replies. Followers,
        the servos with this secondary ID, execute it without a reply.
        """
        if instruction in (Instruction.READ, Instruction.CLEAR):
            self._refresh()
        servo, twin = self.servo_at(servo_id), self.duplicate_id_servos.get(servo_id)
        own = [] if servo is None else [servo, *([twin] if twin else [])]
        replies = [self._reply(one, instruction, payload) for one in own]
        in_eeprom = int.from_bytes(payload[:2], "little") < table.EEPROM_END
        if instruction not in _EEPROM_WRITES and not (instruction in _WRITES and in_eeprom):
            for follower in self._followers.get(servo_id, ()):
                carry_out(follower, instruction, payload)
        if instruction not in (Instruction.PING, Instruction.READ):
            self._settle()
        frames = [frame for frame in replies if frame]
        return [superposed(*frames)] if len(frames) > 1 else frames

    def _reply(self, servo: Servo, instruction: int, payload: bytes) -> bytes:
        """Execute an instruction at a servo; return its status frame, or b"" if it does not answer.

        A servo does not answer if its status return level excludes the instruction, or if a fault blocks the read.
        """
        level, servo_id = _level(servo), servo.servo_id
        if self.unread and instruction == Instruction.READ and self._is_unread(servo_id, payload):
            return b""
        error, data = carry_out(servo, instruction, payload)
        if level < _ANSWERED_FROM.get(instruction, table.STATUS_RETURN_ALL):
            return b""
        return build_status(servo.servo_id if self.undocumented.new_id_answers else servo_id, error | servo.alert, data)

    def _is_unread(self, servo_id: int, payload: bytes) -> bool:
        """Return whether a read covers a register in `unread`, so that the servo must not answer it.

        The payload of the read instruction holds address and size.
        """
        first, size = int.from_bytes(payload[:2], "little"), int.from_bytes(payload[2:], "little")
        return any(one == servo_id and first <= address < first + size for one, address in self.unread)

    def _settle(self) -> None:
        """Update the tables of servos and followers by ID, then the motor currents; called after a write to registers.

        The write may have changed IDs. Followers of an ID are the servos with this secondary ID.
        """
        every = [*self.servos.values(), *self.duplicate_id_servos.values()]
        if any(
            servo.servo_id != servo_id for servo_id, servo in [*self.servos.items(), *self.duplicate_id_servos.items()]
        ):
            self.servos.clear()
            self.duplicate_id_servos.clear()
            for servo in every:
                (self.duplicate_id_servos if servo.servo_id in self.servos else self.servos)[servo.servo_id] = servo
        self._followers = {}
        for servo in every:
            secondary = servo.bytes[table.SECONDARY_ID.address]
            if secondary <= MAX_SERVO_ID and secondary != servo.servo_id:
                self._followers.setdefault(secondary, []).append(servo)
        self._update_drive()

    def _collided(self, frame: bytes, block: tuple[int, int]) -> bytes:
        """Return a servo's reply frame, superposed with the reply of a second servo with the same ID, if there is one.

        Args:
            frame: reply of the first servo to a sync or bulk read.
            block: address and size of the read.
        """
        twin = self.duplicate_id_servos.get(frame[4])
        if twin is None:
            return frame
        error, data = twin.read(*block)
        return superposed(frame, build_status(frame[4], error | twin.alert, data))

    def _refresh(self) -> PlantReading:
        """Write the plant's present readings into the servos' registers; return these readings."""
        reading, motors = self.plant.measure(), self._transmission
        turned = motors.motor_motion(reading.q - self.robot.zero_offsets)
        counts = zip(
            self._wired_servos,
            *self._shafts.counts(motors.motor_currents(reading.current_a), motors.motor_motion(reading.dq), turned),
            strict=True,
        )
        tick_ms = int(self.time_s * 1000.0) % 32768
        for servo, current, velocity, position in counts:
            servo.set_state(current, velocity, position, tick_ms)
        if self._motors is not None:
            degrees = self._motors.temperature_deg_c.round().tolist()
            for wired, servo in zip(self.robot.wired_servos, self._wired_servos, strict=True):
                servo.set(table.PRESENT_TEMPERATURE, int(degrees[wired.axis]))
        return reading

    def _update_drive(self) -> None:
        """Update the list of servos whose internal loop sets their current, then the motor currents.

        Call this after a change of registers.
        """
        controlled = [place for place, servo in enumerate(self._wired_servos) if servo.controls_itself]
        if controlled != self._self_controlled:
            for place in set(self._self_controlled) - set(controlled):
                self._own_loops.forget(place)
            self._self_controlled, self._drive_counts = controlled, []
        self._drive()

    def _drive(self) -> None:
        """Pass the commanded motor currents to the plant if any of them has changed."""
        servos = self._wired_servos
        self._shortest_watchdog_s = min(servo.watchdog_s for servo in servos)
        counts = [servo.drive_current_count for servo in servos]
        if counts != self._drive_counts:
            self._drive_counts = counts
            self._set_currents(self._shafts.carried(np.array(counts)))

    def _drive_by_own_loops(self, step_s: float) -> None:
        """Set the plant's currents for the next `step_s` [s].

        If a servo has torque and is not in current mode, its internal loop computes its current. All other servos have
        the commanded currents.
        """
        dq = self._shafts.velocities(self._transmission.motor_motion(self._refresh().dq))
        current_a = self._shafts.carried(np.array(self._drive_counts))
        for place in self._self_controlled:
            current_a[place] = self._own_loops.current(place, self._wired_servos[place], float(dq[place]), step_s)
        self._set_currents(current_a)

    def _set_currents(self, shaft_a: FloatArray) -> None:
        """Set the plant's joint currents from the currents of the m servos, (m,) [A] in the sign of their shafts."""
        current_a = self._shafts.motor_currents(shaft_a)
        np.maximum(self.max_abs_current_a, np.abs(current_a), out=self.max_abs_current_a)
        self.plant.set_currents(self._transmission.joint_currents(current_a))

    def _trip_watchdogs(self) -> None:
        for servo in self._wired_servos:
            heard_s = min(self._last_instruction_s, self._cut_s if servo.servo_id in self._cut_off else np.inf)
            if self.time_s - heard_s >= servo.watchdog_s:
                servo.trip_watchdog()
        self._update_drive()


def _level(servo: Servo) -> int:
    """Return a servo's status return level: at 0 it answers only pings, at 1 also reads, at 2 every instruction."""
    return servo.bytes[table.STATUS_RETURN_LEVEL.address]


def superposed(first: bytes, second: bytes) -> bytes:
    """Return the bytes that the host receives if two frames are sent at once: the bitwise AND, padded with 0xff."""
    longest = max(len(first), len(second))
    pairs = zip(first.ljust(longest, b"\xff"), second.ljust(longest, b"\xff"), strict=True)
    return bytes(one & other for one, other in pairs)


_GOAL_BLOCK = struct.Struct("<Bh")
_GOAL_CURRENT_BLOCK = struct.pack("<HH", table.GOAL_CURRENT.address, table.GOAL_CURRENT.size)
_FAST = (Instruction.FAST_SYNC_READ, Instruction.FAST_BULK_READ)
_ANSWERED_FROM: dict[int, int] = {Instruction.PING: 0, Instruction.READ: 1}
_WRITES = (Instruction.WRITE, Instruction.REG_WRITE)
_EEPROM_WRITES = (Instruction.FACTORY_RESET, Instruction.BACKUP)
