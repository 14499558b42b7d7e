"""The guard's settings, and one robot's `safety.yaml`."""

from typing import Literal

from pydantic import Field

from dynid.errors import ConfigurationError
from dynid.resources import load_validated
from dynid.robot import NonNegative, Positive, Robot, Strict

TEMPERATURES = ("derate_from_deg_c", "derate_to_deg_c", "fault_deg_c")
USUAL_LIMIT_DEG_C = 80  # of the temperature limit of most models, for which the defaults are made
PER_JOINT = ("hold_damping_nm_s_rad", "inertia_kg_m2", "viscous_friction_nm_s_rad", "coulomb_friction_nm")


class SafetySettings(Strict):
    """Settings of the guard.

    Attributes:
        command_timeout_s: a command, or a complete reading, older than this is not followed any more: the arm is braked
            and held.
        refused_above: a command beyond so many times the joint's torque limit is no torque that any controller means,
            and refused; between that and the limit it is cut.
        commands_ended_s: an enabled arm that had a good command, and then none for so long, is stopped.
        first_command_s: an enabled arm that gets no good command for so long is stopped.
        current_ramp_s: time in which the command takes over from the hold, counted from the first good command after
            enable, while the hold works with the share that is left; without a good command the command's share falls
            with `release_s`, so that one late command costs little and a pause restarts the fade-in. 0 is at once.
        release_s: time constant of that fall.
        current_rate_1_s: how fast a current may change, in current limits per second.
        soft_zone_rad: within this distance of a joint limit only current that leads back inside passes.
        approach_deceleration_rad_s2: a joint that could not stop before its soft zone with this is braked.
        hold_damping_nm_s_rad: damping of braking and holding, (n,); None is `damping_fraction`.
        damping_fraction: instead: damping current at the joint's velocity limit, as a fraction of its current limit.
        hold_stiffness_1_s: stiffness of the hold over its damping: how fast a joint returns.
        hold_integral_1_s: how fast the hold learns the load.
        load_average_s: the load with which a hold begins is found from the currents' mean over so long.
        inertia_kg_m2: what a joint carries, roughly, (n,): to separate the load from what accelerates; None is nothing.
        viscous_friction_nm_s_rad: of a joint, roughly, (n,); None is none.
        coulomb_friction_nm: of a joint, roughly, (n,); None is none.
        hold_slip_rad: pushed away farther than this, the held position follows.
        capture_velocity_rad_s: below this a braked joint is held where it is; all are `capture_s` after the begin.
        capture_s: see there.
        blind_brake_s: the velocity of a joint that is not read any more counts as falling with this time constant.
        blind_alone_s: the same where no joint is read. What brakes then lasts for long cycles and may meet a small
            inertia: with `blind_brake_s` it drove joints the other way (CRANE-X7, docs/faults.md).
        blind_travel_s: at its last velocity, a joint that is not read any more goes on for about so long.
        hold_s: a stop that nobody asked for holds for so long before it lets the arm down.
        lower_s: time in which the current fades that holds a joint that is not read.
        stop_velocity_rad_s: below this velocity a joint stands still.
        stop_dwell_s: how long all joints must stand still for a stop to go on.
        lower_from_s: from this time of a stop on the arm is lowered, whatever the joints do.
        lower_rad_s: largest velocity at which a joint is lowered.
        lower_tool_m_s: largest speed of the tool, and of the links' ends, at which the arm is lowered.
        table_height_m: height of a table over the base link's origin, upwards; None if there is none. A link that is
            deeper than 5 cm below it shows that it is not there.
        table_tool_m_s: the speed above at the table, in place of `lower_tool_m_s`.
        table_near_m: from this height over the table on the speed falls to that.
        lean_fraction: current, as a part of its limit, that pushes a joint out of a balance before torque goes off.
        lean_s: how long all joints must stand still under it.
        lower_dwell_s: how long the arm must stay where it is, without any current, before torque goes off.
        stop_time_s: after this time a stop is complete where no joint is read.
        longest_stop_s: the same where joints are read: an arm that never comes to rest loses its torque then.
        tool_limit_m_s: speed of the tool, or of another link's end, that is a fault in any mode; None watches none. ISO
            10218-1 asks for at most 0.25 m/s in reduced-speed operation.
        guiding_damped_rad_s: speed of a joint from which hand guiding is damped.
        guiding_damped_m_s: speed of the tool, or of another link's end, from which it is damped.
        guiding_stop_rad_s: speed of a joint at which a guided arm is braked and held.
        guiding_stop_m_s: speed of the tool, or of another link's end, at which it is.
        guiding_load_n: smallest force along gravity at the tool that counts as a load which appeared or vanished [N].
        guiding_load_m: path along which such a force must move the tool before the arm is held; more than 0.015 m.
        guiding_alone_s: how long the arm must stand by itself, once a law without a reference has taken over, before it
            may be led.
        guiding_alone_rad: movement of a joint until then at which the arm is held.
        enable_tolerance_rad: enable is refused while a joint reads further than this outside its limits.
        derate_from_deg_c: servo temperature from which the current limit falls, in a straight line.
        derate_to_deg_c: temperature at which it has fallen to `derated_fraction`.
        derated_fraction: see there.
        overload_limits: lower the current limit of a servo that is near its overload, and stop the arm if it needs more
            for long, see `dynid.hardware.safety.overload`; without it the diagnostics only warn.
        fault_deg_c: temperature that is a fault; below the one at which the servo would switch itself off.
        slow_data_old_s: from this age of a servo's slow values (temperature, errors, settings) on its current limit
            falls, in a straight line. A round of them takes half a second, in a loop that is late four times as long.
        slow_data_lost_s: age at which the limit has fallen to `derated_fraction`, and the arm is stopped by a fault.
    """

    schema_version: Literal[1] = 1
    command_timeout_s: Positive = 0.020
    refused_above: float = Field(default=4.0, ge=1.0)
    commands_ended_s: Positive = 1.0
    first_command_s: Positive = 60.0
    current_ramp_s: NonNegative = 0.5
    release_s: Positive = 0.05
    current_rate_1_s: Positive = 500.0
    soft_zone_rad: NonNegative = 0.05
    approach_deceleration_rad_s2: Positive = 15.0
    hold_damping_nm_s_rad: tuple[Positive, ...] | None = None
    damping_fraction: float = Field(default=1.0, gt=0.0, le=1.0)
    hold_stiffness_1_s: NonNegative = 10.0
    hold_integral_1_s: NonNegative = 4.0
    load_average_s: Positive = 0.1
    inertia_kg_m2: tuple[Positive, ...] | None = None
    viscous_friction_nm_s_rad: tuple[NonNegative, ...] | None = None
    coulomb_friction_nm: tuple[NonNegative, ...] | None = None
    hold_slip_rad: Positive = 0.1
    capture_velocity_rad_s: Positive = 0.1
    capture_s: Positive = 0.15
    blind_brake_s: Positive = 0.035
    blind_alone_s: Positive = 0.012
    blind_travel_s: Positive = 0.035
    hold_s: NonNegative = 1.5
    lower_s: Positive = 1.0
    stop_velocity_rad_s: Positive = 0.05
    stop_dwell_s: Positive = 0.1
    lower_from_s: Positive = 2.5
    lower_rad_s: Positive = 0.6
    lower_tool_m_s: Positive = 0.25
    table_height_m: float | None = None
    table_tool_m_s: Positive = 0.1
    table_near_m: Positive = 0.1
    lean_fraction: float = Field(default=0.1, ge=0.0, le=0.3)
    lean_s: Positive = 0.4
    lower_dwell_s: Positive = 1.0
    stop_time_s: Positive = 4.0
    longest_stop_s: Positive = 28.0
    tool_limit_m_s: Positive | None = None
    guiding_damped_rad_s: Positive = 0.5
    guiding_damped_m_s: Positive = 0.25
    guiding_stop_rad_s: Positive = 2.0
    guiding_stop_m_s: Positive = 0.4
    guiding_load_n: Positive = 0.7
    guiding_load_m: float = Field(default=0.04, ge=0.02)
    guiding_alone_s: NonNegative = 0.3
    guiding_alone_rad: Positive = 0.06
    enable_tolerance_rad: NonNegative = 0.087
    derate_from_deg_c: float = 65.0
    derate_to_deg_c: float = 75.0
    derated_fraction: float = Field(default=0.3, gt=0.0, le=1.0)
    fault_deg_c: float = 78.0
    slow_data_old_s: Positive = 5.0
    slow_data_lost_s: Positive = 10.0
    overload_limits: bool = False


def load_safety(robot: Robot) -> SafetySettings:
    """The safety settings of a robot: its safety.yaml, or the defaults where it has none.

    Temperatures that the file does not give are lower for servos that switch themselves off below 80 deg C.

    Raises:
        ConfigurationError: the file is not valid, not one value per joint, or its temperatures are not in order.
    """
    path = robot.folder / "safety.yaml"
    settings = load_validated(path, SafetySettings) if path.is_file() else SafetySettings()
    settings = _for_cooler_servos(settings, robot)
    for name in PER_JOINT:
        values = getattr(settings, name)
        if values is not None and len(values) != robot.size:
            raise ConfigurationError(f"{path}: {name} has {len(values)} entries, expected {robot.size}, one per joint")
    temperatures = (settings.derate_from_deg_c, settings.derate_to_deg_c, settings.fault_deg_c)
    if not temperatures[0] < temperatures[1] <= temperatures[2]:
        raise ConfigurationError(
            f"{path}: derate_from_deg_c, derate_to_deg_c and fault_deg_c are {temperatures}; they must rise"
        )
    if not settings.slow_data_old_s < settings.slow_data_lost_s:
        raise ConfigurationError(
            f"{path}: slow_data_old_s {settings.slow_data_old_s} must be less than slow_data_lost_s "
            f"{settings.slow_data_lost_s}: the current limit falls in between"
        )
    for damped, stop in (("guiding_damped_rad_s", "guiding_stop_rad_s"), ("guiding_damped_m_s", "guiding_stop_m_s")):
        if not getattr(settings, damped) < getattr(settings, stop):
            raise ConfigurationError(
                f"{path}: {damped} {getattr(settings, damped)} must be less than {stop} {getattr(settings, stop)}: "
                "hand guiding is damped in between"
            )
    return settings


def _for_cooler_servos(settings: SafetySettings, robot: Robot) -> SafetySettings:
    """Lower the temperatures that are not given by as much as the coolest servo's limit is below the usual one."""
    known = [servo.known for servo in robot.file.servos.values()]
    limits = [one.limits.temperature for one in known if one is not None and one.limits is not None]
    cooler = USUAL_LIMIT_DEG_C - min(limits, default=USUAL_LIMIT_DEG_C)
    if cooler <= 0:
        return settings
    lowered = {name: getattr(settings, name) - cooler for name in TEMPERATURES if name not in settings.model_fields_set}
    return settings.model_copy(update=lowered)
