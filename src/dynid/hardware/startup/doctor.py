"""Examination of an arm before it moves: port, serial line, servos and cycle time.

The examination only reads, and each fault comes with a remedy. A value that cannot be read is reported as an error, so
an arm counts as ready only if everything was checked.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dynid.errors import BusError, MuteServoError, SilentLineError
from dynid.hardware.bus import control_table as table
from dynid.hardware.bus.clock import SYSTEM_CLOCK, Clock
from dynid.hardware.bus.port import WaitingPortHandler, open_port
from dynid.hardware.bus.servo_bus import ServoBus
from dynid.hardware.bus.servo_units import ServoUnits
from dynid.hardware.bus.state_cycle import StateCycle
from dynid.hardware.bus.usb_latency import GOOD_MS, SYSTEM, latency_ms
from dynid.hardware.safety.settings import load_safety
from dynid.hardware.startup.bring_up import presence_text
from dynid.hardware.startup.realtime_permission import read_limit, realtime_permitted
from dynid.hardware.startup.servo_checks import Finding, Level, judge_servos
from dynid.hardware.startup.servo_snapshot import Presence, Snapshot, find_elsewhere, find_servos, read_snapshot
from dynid.model.drivable import undrivable
from dynid.model.transmission import Transmission
from dynid.robot import Robot
from dynid.robot.draft_servos import CYCLES_S

CYCLES = 1000
LIMITS = {"settings", "current limit", "homing offset", "firmware", "firmware versions", "shutdown", "voltage"} | {
    "goal PWM",
    "temperature limit",
}
SOME_INCOMPLETE, MANY_INCOMPLETE = 0.001, 0.01  # shares of the timed reads
LATENCY_FIX, BAUD_FIX = "latency-timer", "baud-rate"
WRITE_BYTES_PER_SERVO, WRITE_OVERHEAD = 3, 14  # bytes in a sync write of goal currents


@dataclass(frozen=True)
class Diagnosis:
    """Result of an examination of an arm: the port, the baud rate [bit/s] and the findings."""

    port: str
    baudrate: int
    findings: tuple[Finding, ...]

    @property
    def must_act(self) -> bool:
        """Whether a finding is an error, which must be fixed before the arm can be driven."""
        return any(finding.level == "error" for finding in self.findings)


def examine(
    robot: Robot,
    port: str,
    baudrate: int | None = None,
    *,
    cycles: int = CYCLES,
    system: Path = SYSTEM,
    clock: Clock = SYSTEM_CLOCK,
    opener: Callable[[str, int], WaitingPortHandler] = open_port,
) -> Diagnosis:
    """Examine everything on which the start of a driver depends; nothing is written to the servos.

    Args:
        robot: robot whose servos must be on the line.
        port: path of the serial device.
        baudrate: baud rate [bit/s]; None for the baud rate in robot.yaml.
        cycles: number of timed reads of all servos.
        system: root of sysfs, which contains the latency timers of serial adapters.
        clock: clock of the line, see `ServoBus`.
        opener: opens the port, see `ServoBus`.
    """
    bus = ServoBus(port, baudrate or robot.file.bus.baudrate, robot.servo_ids, clock=clock, opener=opener)
    described = [Finding("robot", "error", text) for text in undrivable(robot)]
    findings, snapshots = list[Finding](), dict[int, Snapshot]()
    try:
        bus.open()
        findings += [Finding("port", "ok", f"{port} can be opened and is not in use"), _latency(port, system)]
        findings += _line(bus, robot, cycles, snapshots)
    except SilentLineError as error:
        findings.append(Finding("servos", "error", str(error), "fix that first"))
    except BusError as error:
        findings.append(Finding("port", "error", str(error), "check the cable" if findings else ""))
    finally:
        bus.close()
    if bus.dialogue.late:
        findings.append(Finding("reply time", "warning", bus.dialogue.lateness, "end other programs on this machine"))
    found = (*described, *findings, *_unchecked(robot, findings, snapshots), *_host())
    return Diagnosis(port, bus.baudrate, found)


def _unchecked(robot: Robot, findings: list[Finding], snapshots: Mapping[int, Snapshot]) -> Iterator[Finding]:
    """Yield a finding that lists the preconditions of a start that could not be checked, if there are any.

    Args:
        robot: the robot.
        findings: findings so far. A check counts as done if it has produced a finding, even an error.
        snapshots: registers by ID of the servos that could be read.
    """
    checks = {finding.check for finding in findings}
    unread = tuple(servo_id for servo_id in robot.all_servo_ids if servo_id not in snapshots)
    parts = [f"registers of servo{'s' * (len(unread) > 1)} {', '.join(map(str, unread))}"] if unread else []
    parts += ["settings, limits, temperatures and posture of the arm"] if "posture" not in checks else []
    parts += ["cycle time"] if "cycle" not in checks else []
    if parts:
        text = f"not ready: {'; '.join(parts)} could not be checked"
        yield Finding("not checked", "error", text, "fix the findings above, and run the doctor again", "", unread)


def _latency(port: str, system: Path) -> Finding:
    milliseconds = latency_ms(port, system)
    if milliseconds is None:
        return Finding("USB latency", "ok", "no latency timer: not an FTDI adapter")
    if milliseconds <= GOOD_MS:
        return Finding("USB latency", "ok", f"latency timer {milliseconds} ms")
    text = f"latency timer {milliseconds} ms: every reply would wait that long"
    remedy = (
        "set it to 1 ms: 'dynid doctor --fix latency-timer' until the cable is unplugged; permanently with a udev "
        'rule: ACTION=="add", SUBSYSTEM=="usb-serial", DRIVER=="ftdi_sio", ATTR{latency_timer}="1"'
    )
    return Finding("USB latency", "error", text, remedy, LATENCY_FIX)


def _line(bus: ServoBus, robot: Robot, cycles: int, snapshots: dict[int, Snapshot]) -> Iterator[Finding]:
    """Yield findings about the servos on the line and the cycle time; add each servo's registers to `snapshots`.

    Args:
        bus: an open bus.
        robot: the expected robot.
        cycles: number of timed reads of all servos.
        snapshots: output, registers by servo ID.
    """
    simulated = bus.simulated
    presence = find_servos(bus, robot, simulated)
    if not presence.complete:
        yield from _absent(bus, robot, presence, simulated)
        yield from _unknown_shadows(bus, robot, presence.unexpected)
    else:
        yield Finding(
            "servos", "ok", f"all {len(robot.all_servo_ids)} servos answer at {bus.baudrate} bit/s, and no others"
        )
    known = [servo_id for servo_id in robot.all_servo_ids if servo_id in presence.models]
    for servo_id in known:
        try:
            snapshots[servo_id] = read_snapshot(bus, servo_id)
        except MuteServoError as error:
            remedy = "start the driver once, which enables the servo's replies"
            yield Finding("answers", "warning", str(error), remedy, "", (servo_id,))
        except BusError as error:
            if isinstance(error, SilentLineError) or not bus.is_open:
                raise
            yield Finding("servos", "error", str(error), "", "", (servo_id,))
    if len(snapshots) == len(robot.all_servo_ids):
        yield from _fit(robot, [snapshots[servo_id] for servo_id in robot.all_servo_ids])
        if presence.complete:
            yield _cycle(bus, robot, cycles)


def _absent(bus: ServoBus, robot: Robot, presence: Presence, simulated: bool) -> Iterator[Finding]:
    """Yield a finding about servos that differ from the robot's file; search for missing ones at other baud rates."""
    elsewhere = find_elsewhere(bus, simulated) if presence.missing else {}
    ids = tuple(sorted({one for servos in elsewhere.values() for one, _ in servos} & set(robot.all_servo_ids)))
    yield Finding(
        "servos",
        "error",
        presence_text(bus, robot, presence, elsewhere),
        "",
        BAUD_FIX if ids else "",
        ids or (*presence.missing, *presence.unexpected, *presence.wrong, *presence.garbled),
    )


def _unknown_shadows(bus: ServoBus, robot: Robot, unexpected: Sequence[int]) -> Iterator[Finding]:
    """Yield a finding for each unexpected servo that obeys a servo of the robot by its secondary ID.

    Such a servo moves a joint together with the obeyed servo, but robot.yaml does not list it.
    """
    for servo_id in unexpected:
        try:
            obeyed = bus.read(servo_id, table.SECONDARY_ID)
        except BusError:
            if not bus.is_open:
                raise
            continue
        if obeyed in robot.servo_ids:
            joint = robot.joint_names[robot.servo_ids.index(obeyed)]
            text = f"servo {servo_id} obeys servo {obeyed} by its secondary ID: a second servo of joint {joint}"
            remedy = f"write shadow_ids: [{servo_id}] to joint {joint} in robot.yaml, and leave both servos as they are"
            yield Finding("shadow", "error", text, remedy, "", (servo_id,))


def _fit(robot: Robot, snapshots: list[Snapshot]) -> Iterator[Finding]:
    """Yield findings on whether the servos are fit to be driven, and on whether the arm's posture is plausible.

    Args:
        robot: the robot.
        snapshots: registers of all servos, in the order of `Robot.wired_servos`.
    """
    settings = load_safety(robot)
    found = judge_servos(robot, settings, snapshots)
    yield from found
    checks = {finding.check for finding in found}
    warmest = max(one.get(table.PRESENT_TEMPERATURE) for one in snapshots)
    if "temperature" not in checks:
        yield Finding("temperature", "ok", f"the warmest servo is at {warmest} deg C")
    if not checks & LIMITS:
        yield Finding("limits", "ok", "settings, firmware, current limits, voltages and shutdown bits are correct")
    counts = np.array([one.get(table.PRESENT_POSITION) for one in snapshots[: robot.size]])
    q = Transmission(robot).joint_motion(ServoUnits(robot).positions(counts)) + robot.zero_offsets
    tolerance = settings.enable_tolerance_rad
    outside = [
        f"{name} reads {np.rad2deg(angle):.1f} deg, its limits are {np.rad2deg(low):.0f} to {np.rad2deg(high):.0f} deg"
        for name, angle, low, high in zip(robot.joint_names, q, robot.lower, robot.upper, strict=True)
        if not low - tolerance <= angle <= high + tolerance
    ]
    if outside:
        yield Finding("posture", "error", "; ".join(outside), "move it back by hand, or check the servo's zero")
    else:
        listed = ", ".join(f"{name} {np.rad2deg(angle):.1f}" for name, angle in zip(robot.joint_names, q, strict=True))
        yield Finding("posture", "ok", f"every joint is within its limits: {listed} deg")


def _cycle(bus: ServoBus, robot: Robot, cycles: int) -> Finding:
    """Return a finding about the cycle time: the measured time to read all servos plus the computed time to write all.

    `cycles` is the number of timed reads.
    """
    cycle = StateCycle(bus)
    fast = cycle.probe()
    took_us, incomplete = np.zeros(cycles), 0
    for k in range(cycles):
        began_ns = bus.clock.monotonic_ns()
        complete = cycle.read().complete
        took_us[k] = (bus.clock.monotonic_ns() - began_ns) * 1e-3
        if not complete:
            incomplete += 1
            bus.dialogue.settle()  # a stall of the host counts as one fault, not hundreds
    took_us += bus.wire_s(WRITE_OVERHEAD + WRITE_BYTES_PER_SERVO * robot.size) * 1e6
    p50, p99 = np.percentile(took_us, (50, 99))
    period_us = robot.file.bus.cycle_s * 1e6
    how = "fast sync read" if fast else "sync read"
    text = f"a cycle takes {p50:.0f} us, 99 % at most {p99:.0f} us, of {period_us:.0f} us ({how})"
    if incomplete > SOME_INCOMPLETE * cycles:
        level: Level = "error" if incomplete > max(2.0, MANY_INCOMPLETE * cycles) else "warning"
        remedy = "check plugs and cable, and other load on this machine"
        return Finding("cycle", level, f"{text}; {incomplete} of {cycles} reads were incomplete", remedy)
    if p50 > period_us:
        remedy = "raise the servos' baud rate, or update their firmware (fast sync read)"
        if p50 <= 1e6 * CYCLES_S[-1]:
            remedy += ", or raise cycle_s in robot.yaml"
        return Finding("cycle", "error", text, remedy)
    if p99 > period_us:
        return Finding("cycle", "warning", text, "check other load on this machine")
    return Finding("cycle", "ok", text)


def _host() -> Iterator[Finding]:
    """Yield a finding on whether this user may run real-time programs, which is optional."""
    if not realtime_permitted():
        text = "SCHED_FIFO is not permitted for this user; it is optional"
        yield Finding("real time", "ok", f"{text} (rtprio in /etc/security/limits.conf permits it)")
    else:
        limit = read_limit()
        note = "" if limit is None else f"; real-time programs may take {limit.share:.0%} of a processor"
        yield Finding("real time", "ok", f"SCHED_FIFO is permitted{note}")
