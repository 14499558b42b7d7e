"""DYNAMIXEL models by number and by name: unit of current, limits, control table, stall torque and firmware.

`models.csv` has one row per model. Source: ROBOTIS e-manual (pages of the models and their table of specifications),
and the model numbers of ROBOTIS' dynamixel_hardware_interface. The last column of `models.csv` names the values that
these sources lack and that are taken from a sibling model. This module does not communicate with servos.
"""

import csv
import math
import re
from dataclasses import dataclass, field
from functools import cached_property

from dynid.hardware.servos.registers import FOLDER, Entry, Indirect, entries_of, indirect_of

RAD_S_PER_RPM = 2.0 * math.pi / 60.0


@dataclass(frozen=True)
class StallPoint:
    """Published torque [N m] and current [A] of a stalled servo at one supply voltage [V]."""

    supply_v: float
    torque_nm: float
    current_a: float


@dataclass(frozen=True)
class ServoLimits:
    """Factory values of the limit registers of a servo model with current control, as raw register values.

    Attributes:
        current: current limit, in the model's unit of current.
        velocity: velocity limit, in the unit of the velocity registers.
        temperature: temperature limit [deg C].
        least_voltage: min voltage limit [0.1 V].
        most_voltage: max voltage limit [0.1 V].
        voltage_range: smallest and largest value that the two voltage limits accept [0.1 V].
        shutdown: bits of the errors after which the servo switches its torque off.
    """

    current: int
    velocity: int
    temperature: int
    least_voltage: int
    most_voltage: int
    voltage_range: tuple[int, int]
    shutdown: int


@dataclass(frozen=True)
class Dynamixel:
    """Published data of one servo model.

    Attributes:
        name: name as ROBOTIS writes it, without the letter of the connector.
        number: model number, as in the reply to a ping.
        series: series of models that share a control table.
        current_unit_a: size of one count of goal, present and limit current [A]; None without current control.
        limits: factory limits; None without current control.
        gains: raw values after power-on of velocity I and P gains, then of position D, I and P gains.
        supply_v: recommended supply voltage [V].
        gear_ratio: motor angle over shaft angle; None if not published.
        stall: torque and current at stall, one point per supply voltage; () if not published.
        no_load_rad_s: speeds without load, as (supply voltage [V], speed [rad/s]).
        watchdog_firmware: first firmware version with a bus watchdog.
        fast_read_firmware: first firmware version with the fast sync read; None if not known (the driver tries it).
        assumed: names of the values that are not published for this model and are taken from a similar one.
    """

    name: str
    number: int
    series: str
    current_unit_a: float | None
    limits: ServoLimits | None
    gains: tuple[int, ...]
    supply_v: float
    gear_ratio: float | None
    stall: tuple[StallPoint, ...]
    no_load_rad_s: tuple[tuple[float, float], ...]
    watchdog_firmware: int
    fast_read_firmware: int | None
    assumed: str = field(default="", compare=False)

    @property
    def has_current_control(self) -> bool:
        """Whether the model can be commanded by current, which dynid needs."""
        return self.current_unit_a is not None

    @property
    def current_limit_a(self) -> float | None:
        """Highest current limit that the model accepts [A]; None without current control."""
        if self.limits is None or self.current_unit_a is None:
            return None
        return self.limits.current * self.current_unit_a

    @property
    def torque_constant_nm_per_a(self) -> float | None:
        """Proposed torque constant [N m/A]: stall torque over stall current at the recommended supply voltage.

        The result is None if these data are not published.
        """
        points = [point for point in self.stall if math.isclose(point.supply_v, self.supply_v)]
        return round(points[0].torque_nm / points[0].current_a, 3) if points else None

    @property
    def indirect(self) -> tuple[Indirect, ...]:
        """Address blocks of the model's indirect data, whose bytes are copies of bytes at other, settable addresses."""
        return indirect_of(self.series)

    @cached_property
    def entries(self) -> dict[int, Entry]:
        """Control table of the model, by register address.

        The table contains all registers of the model's series, including the current registers of models without
        current control.
        """
        gains = ("velocity I gain", "velocity P gain", "position D gain", "position I gain", "position P gain")
        defaults = {"model number": self.number, "present input voltage": round(10 * self.supply_v)}
        defaults |= dict(zip(gains, self.gains, strict=False))
        limits = self.limits
        if limits is None:
            return entries_of(self.series, defaults, {})
        voltages = "{}..{}".format(*limits.voltage_range)
        defaults |= {
            "current limit": limits.current,
            "goal current": limits.current,
            "velocity limit": limits.velocity,
            "temperature limit": limits.temperature,
            "min voltage limit": limits.least_voltage,
            "max voltage limit": limits.most_voltage,
            "shutdown": limits.shutdown,
        }
        ranges = {"current limit": f"0..{limits.current}", "max voltage limit": voltages, "min voltage limit": voltages}
        return entries_of(self.series, defaults, ranges)

    @cached_property
    def listed(self) -> frozenset[int]:
        """Addresses of all bytes that belong to a register of the model's control table."""
        return frozenset(at for one in self.entries.values() for at in range(one.register.address, one.register.end))

    def __str__(self) -> str:
        unit = "no current control" if self.current_unit_a is None else f"{self.current_unit_a * 1e3:g} mA per count"
        return f"{self.name}, {unit}"


def _parts(text: str) -> list[list[float]]:
    """Return the numbers of each group in a text; `|` separates groups, and `:` the numbers of a group."""
    return [[float(number) for number in part.split(":")] for part in text.split("|") if part]


def _range(text: str) -> tuple[int, int]:
    least, greatest = map(int, text.split(".."))
    return least, greatest


def _limits(row: dict[str, str]) -> ServoLimits | None:
    if not row["current_unit_ma"]:
        return None
    least, most = _range(row["voltage_limits"])
    return ServoLimits(
        current=int(row["current_limit"]),
        velocity=int(row["velocity_limit"]),
        temperature=int(row["temperature_limit"]),
        least_voltage=least,
        most_voltage=most,
        voltage_range=_range(row["voltage_range"]),
        shutdown=int(row["shutdown"]),
    )


def _model(row: dict[str, str]) -> Dynamixel:
    unit, ratio, fast = row["current_unit_ma"], row["gear_ratio"], row["fast_read_firmware"]
    return Dynamixel(
        name=row["model"],
        number=int(row["number"]),
        series=row["series"],
        current_unit_a=float(unit) / 1e3 if unit else None,
        limits=_limits(row),
        gains=tuple(map(int, row["gains"].split())),
        supply_v=float(row["supply_v"]),
        gear_ratio=float(ratio) if ratio else None,
        stall=tuple(StallPoint(*point) for point in _parts(row["stall"])),
        no_load_rad_s=tuple((volts, rpm * RAD_S_PER_RPM) for volts, rpm in _parts(row["no_load"])),
        watchdog_firmware=int(row["watchdog_firmware"] or 0),
        fast_read_firmware=int(fast) if fast else None,
        assumed=row["assumed"],
    )


def _read_models() -> dict[int, Dynamixel]:
    with (FOLDER / "models.csv").open(encoding="utf-8", newline="") as file:
        found = [_model(row) for row in csv.DictReader(file)]
    return {model.number: model for model in found}


DYNAMIXELS = _read_models()  # by model number
_BY_NAME = {model.name: model for model in DYNAMIXELS.values()}
MOST_CURRENT_A = max(model.current_limit_a or 0.0 for model in DYNAMIXELS.values())  # highest limit of all models [A]
USUAL_UNIT_A = DYNAMIXELS[1020].current_unit_a or 0.0  # XM430-W350, for simulated joints without a servo model


def dynamixel_named(name: str) -> Dynamixel | None:
    """Return the model with a name such as XM430-W350, XM430-W350-T or xm430_w350; None if the name is unknown."""
    plain = re.sub(r"[-_ ]([TR]|AT|AR)$", "", name.strip().upper().replace("_", "-"))
    return _BY_NAME.get(plain) or _BY_NAME.get(plain.removesuffix("T").removesuffix("R"))


def model_text(number: int) -> str:
    """Return a model number as text, with the model's name and unit of current if they are known."""
    model = DYNAMIXELS.get(number)
    return f"model {number}" if model is None else f"model {number} ({model})"
