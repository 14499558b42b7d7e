"""Diagnostics of a driver: status messages of the control loop, the serial line and the servos.

Each message has a name, a level (OK, WARN or ERROR), a text, and values by key.
"""

import dataclasses

import numpy as np

from dynid import __version__
from dynid.hardware.arm.dynamixel_arm import DynamixelArm
from dynid.hardware.bus.clock import boot_id
from dynid.hardware.bus.state_cycle import OLDEST_REPLY_S
from dynid.hardware.loop.cycle import ControlLoop
from dynid.hardware.loop.realtime import settings_in_effect
from dynid.hardware.safety.guard import SafetyGuard
from dynid.hardware.safety.guard_states import GuardState, Reason
from dynid.hardware.safety.overload import WARNING
from dynid.recording.messages import DiagnosticStatus
from dynid.recording.settings import HardwareSettings, recorded_current_unit
from dynid.robot import Robot

OK, WARN, ERROR = 0, 1, 2
LOOP, LINE, SERVOS = "hardware", "hardware line", "hardware servos"
IN_FORCE = "in force"
STALE_DETECTION = (  # how replies to earlier requests are recognised
    f"input discarded before each request, quarantine after an unanswered request, and for {OLDEST_REPLY_S * 1e3:.0f} "
    "ms after it a different size of each reply; the tick is not read"
)
ENABLED = GuardState.ENABLED.value  # start of `state_text` while commands are followed
COMMANDERS = "commanders"  # key of the loop's status: number of known publishers of commands
STATE = "state"  # key of the loop's status: the guard's state, or `ENDED`
ENDED = "ended"  # value of `STATE` after an error ended the loop
RATE = "cycle rate"  # key of the loop's status: text on whether this machine keeps the cycle rate
TIMES_OFF = "times_torque_off"  # key of the loop's status: number of times that torque was switched off
WARMEST = "warmest [deg C]"  # key of the servos' status; missing until all servos were read
LOADS = "overload"  # key of the loop's status, if overload is limited: used shares of the servos' capacity, by axis
THROTTLED = "holes"  # key of the loop's status: explanation of gaps that the kernel's real-time limit causes
FOUND_AGAIN = "switch the arm's power off; or, once it answers again, call hardware/reopen, which switches torque off"
LATENESS_FAULTS = ("no reply", "no complete reading", "bus watchdog tripped")  # a slow machine may cause them, too
_HELD = (Reason.NO_COMMAND, Reason.STALE_COMMAND, Reason.BAD_COMMAND, Reason.HUGE_COMMAND, Reason.NO_FEEDBACK)


def driver_settings(
    robot: Robot, mount: str, port: str, *, simulated: bool, stamp_offset_ns: int | None = None
) -> HardwareSettings:
    """Return the settings that a reader of this driver's recorded states needs.

    Args:
        robot: the driven robot.
        mount: name of the mount in robot.yaml.
        port: path of the serial device.
        simulated: whether the arm is simulated.
        stamp_offset_ns: timestamps minus this host's monotonic clock [ns]; None if timestamps follow another clock.
    """
    gravity = robot.gravity(mount)
    return HardwareSettings(
        robot=robot.name,
        joint_names=robot.joint_names,
        torque_constants_nm_per_a=tuple(robot.joint_constants.tolist()),
        mount=mount,
        gravity_m_s2=(float(gravity[0]), float(gravity[1]), float(gravity[2])),
        current_unit_a=recorded_current_unit(robot),
        cycle_s=robot.file.bus.cycle_s,
        simulated=simulated,
        port=port,
        dynid_version=__version__,
        boot_id="" if stamp_offset_ns is None else boot_id(),
        stamp_offset_ns=stamp_offset_ns or 0,
    )


def state_text(loop: ControlLoop) -> str:
    """Return one line of text: the loop's error, the fault or the reason of a stop if there is one, else the state."""
    guard = loop.guard
    if loop.torque_off_unconfirmed:
        return f"{loop.complaint}{loop.error}; {FOUND_AGAIN}"
    if stopped := str(loop.error or "") or guard.fault_text or guard.stop_text:
        late = bool(loop.error or guard.stop_text) or guard.fault_text.startswith(LATENESS_FAULTS)
        return f"{loop.complaint if late else ''}{stopped}"
    if guard.state is GuardState.ENABLED:
        held = next((reason for reason in loop.last_result.reasons if reason in _HELD), None)
        return f"{ENABLED}, holding: {held.value}" if held else ENABLED
    return str(guard.state.value)


def loop_status(loop: ControlLoop, published: int, last_stamp_ns: int, commanders: int) -> DiagnosticStatus:
    """Return the diagnostic status of the control loop: rates, jitter, missed cycles and the guard's interventions.

    Args:
        loop: the control loop.
        published: number of published states.
        last_stamp_ns: timestamp of the last published state [ns].
        commanders: number of known nodes that publish commands.
    """
    # counters stay integers, because they decide whether a bag is complete
    counted = dataclasses.asdict(loop.statistics())
    counted |= {f"guard_{reason}": count for reason, count in counted.pop("interventions").items()}
    values = {key: str(value) if isinstance(value, int) else f"{value:.6g}" for key, value in counted.items()}
    values |= {
        "states_published": str(published),
        "last_state_stamp_ns": str(last_stamp_ns),
        COMMANDERS: str(commanders),
        TIMES_OFF: str(loop.times_off),
        STATE: ENDED if loop.error else str(loop.guard.state.value),
    }
    if loop.guard.settings.overload_limits:
        values[LOADS] = " ".join(f"{share:.4f}" for share in loop.guard.load.tolist())
    if loop.throttling:
        values[THROTTLED] = loop.throttling
    level = ERROR if loop.error or loop.guard.state is GuardState.FAULT else OK
    if loop.guard.stop_text or loop.throttling:
        level = max(level, WARN)
    return DiagnosticStatus(LOOP, level, state_text(loop), loop.arm.robot.name, values)


def line_status(loop: ControlLoop, rate: str = "") -> DiagnosticStatus:
    """Return the diagnostic status of the serial line: errors by kind and servo, cycle rate, and real-time settings.

    Args:
        loop: the control loop.
        rate: text about the cycle rate.
    """
    arm, parser = loop.arm, loop.arm.bus.parser
    counters = dataclasses.asdict(arm.counters)
    by_servo = {name: values for name, values in counters.items() if isinstance(values, np.ndarray)}
    values = {name: str(value) for name, value in counters.items() if name not in by_servo}
    values |= {
        "crc_errors": str(parser.crc_errors),
        "malformed": str(parser.malformed),
        "skipped_bytes": str(parser.skipped_bytes),
        "retries": str(arm.bus.retries),
        "surplus_packets": str(arm.bus.surplus),
        "late answers while set up": str(arm.bus.dialogue.late),
        "latest of them [ms]": f"{arm.bus.dialogue.slowest_s * 1e3:.0f}",
    }
    for name, counts in by_servo.items():
        for joint, count in zip(arm.robot.file.joints, counts.tolist(), strict=True):
            if count:
                values[f"{name}: {joint.servo_id}"] = str(count)
    for servo_id in arm.robot.all_servo_ids:
        if count := parser.crc_errors_by_id[servo_id]:
            values[f"crc_errors_by_servo: {servo_id}"] = str(count)
    values |= {
        "cycle rate": rate,
        "read": "fast sync read" if arm.cycle.fast_read else "sync read",
        "stale replies are told by": ("wire time, " if arm.cycle.wire_timed else "") + STALE_DETECTION,
    }
    settings = {"SCHED_FIFO": loop.fifo} | settings_in_effect()
    values |= {name: IN_FORCE if yes else "no" for name, yes in settings.items()}
    faults = sum(int(np.sum(value)) for value in counters.values()) - counters["late"] - counters["repeated"]
    text = "no errors" if not faults else f"{counters['timeouts']} incomplete reads"
    return DiagnosticStatus(LINE, WARN if faults else OK, text, arm.bus.port, values)


def servo_status(arm: DynamixelArm, guard: SafetyGuard) -> DiagnosticStatus:
    """Return the diagnostic status of the servos.

    It contains temperature, voltage, errors, torque, bus watchdog and used overload capacity of each servo, and the age
    of these values.
    """
    slow, settings, values = arm.slow, guard.settings, {}
    old_s = settings.slow_data_old_s
    ages_s = slow.age_s(arm.bus.clock.monotonic_ns())
    for axis, wired in enumerate(arm.robot.wired_servos):
        known = f"{slow.temperature_deg_c[axis]:.0f} deg C, {slow.voltage_v[axis]:.1f} V"
        rest = (int(array[axis]) for array in (slow.torque_enable, slow.hardware_error, slow.watchdog))
        torque, error, watchdog = (str(value) if value >= -1 else "not read yet" for value in rest)
        difference = "" if wired.first else f"; {slow.mismatch_deg[axis]:.1f} deg from the first servo of its joint"
        values[wired.label.removeprefix("servo ")] = (
            f"{known}, torque {torque}, hardware error {error}, bus watchdog {watchdog}; {ages_s[axis]:.1f} s old; "
            f"{guard.load[wired.axis]:.0%} of overload{difference}"
        )
    warmest = np.nan_to_num(slow.temperature_deg_c).max()
    if np.isfinite(slow.temperature_deg_c).all():
        values[WARMEST] = f"{warmest:.0f}"
    warm = bool(warmest >= settings.derate_from_deg_c)
    text = f"warmest {warmest:.0f} deg C" + (", current limits lowered" if warm else "")
    silent = [str(servo_id) for servo_id, age_s in zip(arm.robot.all_servo_ids, ages_s, strict=True) if age_s > old_s]
    if silent:
        text += f"; no slow data for {old_s:g} s from servo {', '.join(silent)}, whose current limit falls"
    loaded = float(guard.load.max()) >= WARNING
    if loaded:
        text += f"; servo {arm.robot.servo_ids[int(guard.load.argmax())]} near overload ({guard.load.max():.0%})"
    return DiagnosticStatus(SERVOS, WARN if warm or silent or loaded else OK, text, arm.robot.name, values)
