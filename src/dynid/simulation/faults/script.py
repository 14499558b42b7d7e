"""Scripts of servo bus faults in YAML, and the injector that executes them.

An example of a script:

schema_version: 1
seed: 7
clock: first_current        # times count from the first motor current; `start`: from the start of the bus
faults:
  - {kind: missing_reply, at_s: 2.0, servo: 4, replies: 3}
  - {kind: late_reply, at_s: 2.5, delay_s: 0.008}
  - {kind: hardware_error, at_s: 3.0, servo: 3, error: overload}
  - {kind: unplugged, at_s: 4.0, for_s: 1.0}
random: {probability: 0.01}
"""

import sys
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import AfterValidator, Field

from dynid.errors import ConfigurationError
from dynid.hardware.bus import control_table as table
from dynid.resources import load_validated
from dynid.robot import NonNegative, Positive, Strict
from dynid.simulation.faults.line import LINE_FAULTS, LineFaultKind, Pieces, with_fault
from dynid.simulation.servo.chain import ServoChain
from dynid.simulation.servo.servo import Servo

FACTORY_BAUD_CODE = 1
HARDWARE_ERROR_BITS = {text: 1 << bit for bit, text in table.HARDWARE_ERRORS.items()}
HardwareError = Literal["input voltage", "overheating", "motor encoder", "electrical shock", "overload"]
ServoId = Annotated[int, Field(ge=0, le=252)]
REGISTERS = {register.name: register for register in table.REGISTERS}


def _known_register(name: str) -> str:
    if name not in REGISTERS:
        raise ValueError(f"{name!r} is no register; known: {', '.join(REGISTERS)}")
    return name


RegisterName = Annotated[str, AfterValidator(_known_register)]


class LineFault(Strict):
    """Corrupted replies of one servo, or of all servos if `servo` is None.

    The fault affects the next `replies` replies from `at_s` [s] on. If `for_s` [s] is given, it affects all replies
    during this time instead. `delay_s` [s] is the delay of a late reply.
    """

    kind: LineFaultKind
    at_s: NonNegative = 0.0
    servo: ServoId | None = None
    replies: Annotated[int, Field(ge=1)] = 1
    for_s: Positive | None = None
    delay_s: Positive = 0.010


class ServoError(Strict):
    """A hardware error of a servo at `at_s` [s]; the error switches torque off if the shutdown register selects it."""

    kind: Literal["hardware_error"]
    at_s: NonNegative = 0.0
    servo: ServoId
    error: HardwareError


class ServoReboot(Strict):
    """A spontaneous reboot of a servo: its torque is switched off, and its operating mode is kept.

    For `absent_s` [s] after the reboot the servo neither receives nor answers.
    """

    kind: Literal["reboot"]
    at_s: NonNegative = 0.0
    servo: ServoId
    absent_s: NonNegative = 0.1


class Unplugged(Strict):
    """A cable that is pulled at `at_s` [s] and plugged in again after `for_s` [s], or never if `for_s` is None."""

    kind: Literal["unplugged"]
    at_s: NonNegative = 0.0
    for_s: Positive | None = None


class CableCut(Strict):
    """A cable that breaks permanently at `at_s`: servos beyond the break neither receive nor answer.

    The break is after `servo`, or before the first servo if `servo` is None. If `powered`, the servos beyond it keep
    their currents until their watchdogs trip. Otherwise the cable carried the supply, and these servos lose power.
    """

    kind: Literal["cable_cut"]
    at_s: NonNegative = 0.0
    servo: ServoId | None = None
    powered: bool = True


class Stall(Strict):
    """A pause of the simulated arm's process for `for_s` [s] before it executes an instruction.

    `request` is the number of the instruction, counted from 1 at the start of the bus.
    """

    kind: Literal["stall"]
    request: Annotated[int, Field(ge=1)]
    for_s: Positive


class OtherValue(Strict):
    """Change of a servo's register to `value` at `at_s` [s], without the checks of a write instruction."""

    kind: Literal["register"]
    at_s: NonNegative = 0.0
    servo: ServoId
    register_name: RegisterName
    value: int


class Unread(Strict):
    """A fault by which a servo, from `at_s` on, no longer answers reads of the register `register_name`."""

    kind: Literal["unread"]
    at_s: NonNegative = 0.0
    servo: ServoId
    register_name: RegisterName


class MissedWrite(Strict):
    """Loss of group writes (sync or bulk) to the register `register_name` of a servo.

    The first `writes` group writes to this register are lost, or all of them if `writes` is None.
    """

    kind: Literal["missed_write"]
    servo: ServoId
    register_name: RegisterName
    writes: Annotated[int, Field(ge=1)] | None = None


class OtherBaudRate(Strict):
    """A wrong baud rate of one servo, or of all servos if `servo` is None, from the start of the bus."""

    kind: Literal["baud_rate"]
    servo: ServoId | None = None
    baudrate: Literal[9_600, 57_600, 115_200, 1_000_000, 2_000_000, 3_000_000, 4_000_000, 4_500_000]


class SameId(Strict):
    """An ID that two servos share from the start: servo `servo` gets the ID `of`, which belongs to another servo.

    If `servo` is None, an additional servo with the ID `of` is added.
    """

    kind: Literal["same_id"]
    servo: ServoId | None = None
    of: ServoId


class FactoryFresh(Strict):
    """Servos with factory settings, except for IDs, from the start: 57,600 bit/s, position mode, return delay 250."""

    kind: Literal["factory_fresh"]


class RandomFaults(Strict):
    """Random corruption: from `at_s` [s] on, each reply gets a random fault of `kinds` with probability `probability`.

    `delay_s` [s] is the delay of a late reply.
    """

    probability: Annotated[float, Field(ge=0.0, le=1.0)]
    kinds: tuple[LineFaultKind, ...] = LINE_FAULTS
    at_s: NonNegative = 0.0
    delay_s: Positive = 0.010


StartFault = OtherBaudRate | SameId | FactoryFresh | MissedWrite
LaterFault = ServoError | ServoReboot | CableCut | OtherValue | Unread
Fault = Annotated[LineFault | Unplugged | Stall | LaterFault | StartFault, Field(discriminator="kind")]


class FaultScript(Strict):
    """Script of servo bus faults with their times.

    If `clock` is "first_current", times count from the first motor current instead of the start of the bus. `seed`
    seeds all random choices.
    """

    schema_version: Literal[1] = 1
    seed: int = 0
    clock: Literal["start", "first_current"] = "start"
    faults: tuple[Fault, ...] = ()
    random: RandomFaults | None = None

    @property
    def unplugs(self) -> bool:
        """Whether the script pulls the cable."""
        return any(isinstance(fault, Unplugged) for fault in self.faults)


def load_faults(path: Path) -> FaultScript:
    """Read a fault script from a YAML file.

    Raises:
        ConfigurationError: the script is not valid; the message names file, field and value.
    """
    return load_validated(path, FaultScript)


class FaultInjector:
    """Injector that executes a fault script on the servos of a bus.

    Args:
        script: the script; faults that exist from the start take effect at construction.
        chain: the servos.

    Attributes:
        plugged: whether the cable is plugged in.
        injected: number of faults that have taken effect, by kind.
        requests: number of instructions received so far.

    Raises:
        ConfigurationError: the script names a missing servo.
    """

    def __init__(self, script: FaultScript, chain: ServoChain) -> None:
        self.script, self.chain = script, chain
        self.plugged = True
        self.injected: dict[str, int] = {}
        self._random = np.random.default_rng(script.seed)
        self._zero_s: float | None = 0.0 if script.clock == "start" else None
        self._line = [fault for fault in script.faults if isinstance(fault, LineFault)]
        self._left = [fault.replies for fault in self._line]
        self.requests = 0
        self._stalls = {fault.request: fault.for_s for fault in script.faults if isinstance(fault, Stall)}
        self._cable = [fault for fault in script.faults if isinstance(fault, Unplugged)]
        self._later = [fault for fault in script.faults if isinstance(fault, LaterFault)]
        self._later.sort(key=lambda fault: fault.at_s)
        for fault in script.faults:
            self._check(fault)
        for fault in script.faults:
            if isinstance(fault, StartFault):
                self._begin(fault)

    def advance(self) -> None:
        """Execute all faults that are due by the servos' clock, such as hardware errors, reboots and a pulled cable."""
        now_s = self._now_s()
        if now_s is None:
            return
        while self._later and self._later[0].at_s <= now_s:
            fault = self._later.pop(0)
            self._count(fault.kind)
            if isinstance(fault, ServoReboot):
                self.chain.restart(fault.servo, fault.absent_s)
            elif isinstance(fault, CableCut):
                self.chain.cut(fault.servo, powered=fault.powered)
            elif isinstance(fault, OtherValue):
                self.chain.set_register(fault.servo, REGISTERS[fault.register_name], fault.value)
            elif isinstance(fault, Unread):
                self.chain.unread.add((fault.servo, REGISTERS[fault.register_name].address))
            else:
                self.chain.raise_hardware_error(fault.servo, HARDWARE_ERROR_BITS[fault.error])
        out = any(one.at_s <= now_s < one.at_s + (one.for_s or float("inf")) for one in self._cable)
        if out and self.plugged:
            self._count("unplugged")
        self.plugged = not out

    def stall_s(self) -> float:
        """Return the pause [s] before the instruction that has arrived is executed; call this once per instruction."""
        self.requests += 1
        if self.requests not in self._stalls:
            return 0.0
        self._count("stall")
        return self._stalls[self.requests]

    def line(self, frames: list[bytes]) -> Pieces:
        """Return the bytes and pauses [s] to send instead of the frames of a reply, under the faults active now."""
        now_s = self._now_s()
        if now_s is None:
            return list(frames)
        for index, fault in enumerate(self._line):
            until_s = float("inf") if fault.for_s is None else fault.at_s + fault.for_s
            if fault.at_s <= now_s < until_s and (fault.for_s is not None or self._left[index] > 0):
                pieces = with_fault(
                    fault.kind, frames, fault.servo, self._random, fault.delay_s, self.chain.replies_chained
                )
                if pieces != frames:
                    self._left[index] -= 1
                    self._count(fault.kind)
                    return pieces
        chance = self.script.random
        if chance is not None and now_s >= chance.at_s and self._random.random() < chance.probability:
            kind = chance.kinds[int(self._random.integers(len(chance.kinds)))]
            self._count(kind)
            return with_fault(kind, frames, None, self._random, chance.delay_s)
        return list(frames)

    def _now_s(self) -> float | None:
        """Return the script's time [s]; None if it counts from the first current, and no current has flowed yet."""
        if self._zero_s is None and self.chain.max_abs_current_a.any():
            self._zero_s = self.chain.time_s
        return None if self._zero_s is None else self.chain.time_s - self._zero_s

    def _count(self, kind: str) -> None:
        self.injected[kind] = self.injected.get(kind, 0) + 1

    def _check(self, fault: "Fault") -> None:
        named = (getattr(fault, "servo", None), getattr(fault, "of", None))
        for servo_id in named:
            if servo_id is not None and servo_id not in self.chain.servos:
                known = ", ".join(map(str, self.chain.servos))
                raise ConfigurationError(f"fault {fault.kind}: there is no servo {servo_id}; the ids are {known}")

    def _begin(self, fault: StartFault) -> None:
        self._count(fault.kind)
        if isinstance(fault, MissedWrite):
            place = (fault.servo, REGISTERS[fault.register_name].address)
            self.chain.missed_writes[place] = fault.writes or sys.maxsize
            return
        if isinstance(fault, SameId):
            if fault.servo is not None:
                self.chain.assign_duplicate_id(fault.servo, fault.of)
            else:
                first = self.chain.servos[fault.of]
                more = Servo(fault.of, first.get(table.MODEL_NUMBER))
                more.set(table.PRESENT_POSITION, int(self._random.integers(table.COUNTS_PER_TURN)))
                self.chain.duplicate_id_servos[fault.of] = more
            return
        code = FACTORY_BAUD_CODE
        if isinstance(fault, OtherBaudRate):
            code = next(code for code, rate in table.BAUD_RATES.items() if rate == fault.baudrate)
        chosen = getattr(fault, "servo", None)
        for servo_id, servo in self.chain.servos.items():
            if chosen in (None, servo_id):
                servo.set(table.BAUD_RATE, code)
