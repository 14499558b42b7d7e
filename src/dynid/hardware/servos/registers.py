"""Registers of DYNAMIXEL servos with protocol 2.0: address, size, unit, and the values that may be written.

`registers.csv` has one row per register. The row contains the register's default and range in an XM430-W350, and the
series of servo models that have this register (empty if all have it).
"""

import csv
from collections.abc import Container, Iterator
from dataclasses import dataclass
from pathlib import Path

EEPROM_END = 64  # first address of the RAM area
# baud rate [bit/s] by raw value of the baud rate register
BAUD_RATES = {0: 9_600, 1: 57_600, 2: 115_200, 3: 1_000_000, 4: 2_000_000, 5: 3_000_000, 6: 4_000_000, 7: 4_500_000}
FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Register:
    """One register of a DYNAMIXEL servo's control table, little-endian.

    Attributes:
        name: name as in ROBOTIS' e-manual, in lower case.
        address: address of the first byte.
        size: number of bytes.
        signed: whether the value is signed.
        writable: whether the register can be written.
        unit: unit of one count; "current" for currents, whose unit depends on the model.
        limit: name of the register that bounds the magnitude of this register's value; '' if there is none.
        series: series of servo models that have the register; () if all series have it.
    """

    name: str
    address: int
    size: int
    signed: bool = False
    writable: bool = True
    unit: str = ""
    limit: str = ""
    series: tuple[str, ...] = ()

    @property
    def in_eeprom(self) -> bool:
        """Whether the register is in EEPROM: it keeps its value without power, and is locked while torque is on."""
        return self.address < EEPROM_END

    @property
    def end(self) -> int:
        """Address after the register's last byte."""
        return self.address + self.size

    def to_bytes(self, count: int) -> bytes:
        """Return a raw value as the register's bytes.

        Raises:
            OverflowError: the value does not fit into the register.
        """
        return int(count).to_bytes(self.size, "little", signed=self.signed or count < 0)

    def from_bytes(self, data: bytes | bytearray) -> int:
        """Return the raw value that the register's bytes encode."""
        return int.from_bytes(data, "little", signed=self.signed)


@dataclass(frozen=True)
class Entry:
    """A register in the control table of one servo model.

    Attributes:
        register: the register.
        default: raw value after delivery (EEPROM) or power-on (RAM).
        allowed: raw values that may be written.
    """

    register: Register
    default: int
    allowed: Container[int]


@dataclass(frozen=True)
class Indirect:
    """A block of indirect data: each byte is a copy of another byte of the control table, given by a 2-byte pointer.

    Attributes:
        first: first address of the block.
        end: address after the block's last byte.
        pointers: address of the first pointer.
    """

    first: int
    end: int
    pointers: int


# e-manual: 56 indirect bytes, in two blocks; the 330 series has 20
_USUAL_INDIRECT = (Indirect(224, 252, 168), Indirect(634, 662, 578))
_INDIRECT = {"X330": (Indirect(208, 228, 168),)}
# values that may be written, by (series, register name), if the series differs from the X430
_RANGES = {
    ("X330", "baud rate"): "0..6",
    ("X330", "drive mode"): "0|1|4|5",
    ("X330", "protocol type"): "2|20|21|22",
    ("X330", "velocity limit"): "0..2047",
    ("X540", "drive mode"): "0..15",
}


def indirect_of(series: str) -> tuple[Indirect, ...]:
    """Return the blocks of indirect data of the servo models of a series, such as "X330"."""
    return _INDIRECT.get(series, _USUAL_INDIRECT)


def allowed(register: Register, text: str) -> Container[int]:
    """Return the raw values that may be written to a register.

    Args:
        register: the register.
        text: range in the notation of `registers.csv`, which is `least..greatest`, values separated by |, or '' for all
            values that fit into the register.
    """
    if not text:
        half = 1 << 8 * register.size - 1
        return range(-half, half) if register.signed else range(2 * half)
    if ".." in text:
        least, greatest = map(int, text.split(".."))
        return range(least, greatest + 1)
    return frozenset(map(int, text.split("|")))


def _read_rows() -> list[tuple[Register, int, str]]:
    """Return (register, raw default value, range of writable values as text) of each row of registers.csv."""
    with (FOLDER / "registers.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    found = []
    for row in rows:
        shape = int(row["address"]), int(row["size"]), row["signed"] == "yes", "W" in row["access"]
        register = Register(row["name"], *shape, row["unit"], row["limit"], tuple(row["series"].split()))
        found.append((register, int(row["default"]), row["range"]))
    return found


_ROWS = _read_rows()
REGISTERS = {register.name: register for register, _, _ in _ROWS}


def _indirect_entries(series: str) -> Iterator[Entry]:
    blocks, number = indirect_of(series), 0
    targets = range(EEPROM_END, blocks[-1].end)
    for block in blocks:
        for at in range(block.first, block.end):
            number += 1
            pointer = Register(f"indirect address {number}", block.pointers + 2 * (at - block.first), 2)
            yield Entry(pointer, at, targets)
            yield Entry(Register(f"indirect data {number}", at, 1), 0, range(256))


def entries_of(series: str, defaults: dict[str, int], ranges: dict[str, str]) -> dict[int, Entry]:
    """Return the control table of one servo model, by register address.

    Args:
        series: the model's series, as in `models.csv`.
        defaults: raw default values specific to the model, by register name.
        ranges: ranges of writable values specific to the model, by register name, in the notation of `registers.csv`.
    """
    entries = {}
    for register, default, text in _ROWS:
        if register.series and series not in register.series:
            continue
        text = ranges.get(register.name, _RANGES.get((series, register.name), text))
        entry = Entry(register, defaults.get(register.name, default), allowed(register, text))
        entries[register.address] = entry
    entries |= {entry.register.address: entry for entry in _indirect_entries(series)}
    return dict(sorted(entries.items()))
