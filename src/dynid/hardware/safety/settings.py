"""Settings of the safety guard, and the loader of a robot's `safety.yaml`."""

import math
from typing import Literal

from pydantic import Field

from dynid.errors import ConfigurationError
from dynid.model.drivable import ENABLE_TOLERANCE_DEG
from dynid.resources import load_validated
from dynid.robot import NonNegative, Positive, Robot, Strict

TEMPERATURES = ("derate_from_deg_c", "derate_to_deg_c", "fault_deg_c")
USUAL_LIMIT_DEG_C = 80  # temperature limit of most servo models, for which the defaults are chosen [deg C]
PER_JOINT = ("hold_damping_nm_s_rad", "inertia_kg_m2", "viscous_friction_nm_s_rad", "coulomb_friction_nm")


class SafetySettings(Strict):
    """Settings of the safety guard, in SI units; temperatures are in deg C.

    Attributes:
        schema_version: version of the file's schema.
        command_timeout_s: if the present command, or the last complete reading of the arm, is older than this, the arm
            is braked and held. While a servo is silent, cycles are long; the expected duration of the next cycle is
            then added to both ages, so that the arm is braked in time.
        refused_above: ratio of a command to the joint's torque limit above which the command counts as an error and is
            refused; between the limit and this ratio it is clipped to the limit.
        commands_ended_s: time after the last good command at which an enabled arm is stopped.
        first_command_s: time after enable at which the arm is stopped if it has received no good command.
        current_ramp_s: duration of the fade-in of commands. The current is a weighted sum of command and hold; the
            weight of the command rises from 0 to 1 in this time after the first good command. 0 switches at once.
            Without a good command, the weight falls with time constant `release_s`: one late command hardly reduces
            it, and a pause restarts the fade-in.
        release_s: time constant with which the weight of the command (see `current_ramp_s`) falls without a good
            command.
        current_rate_1_s: largest rate of change of a current, in current limits per second.
        soft_zone_rad: width of the soft zones inside the joint limits. In a soft zone, only current that drives the
            joint back inside is permitted.
        approach_deceleration_rad_s2: a joint is braked if it could not stop before its soft zone with this
            deceleration.
        hold_damping_nm_s_rad: damping of braking and holding, (n,); None derives it from `damping_fraction`.
        damping_fraction: damping current at the joint's velocity limit, as a fraction of its current limit; used if
            `hold_damping_nm_s_rad` is None.
        hold_stiffness_1_s: ratio of the hold's stiffness to its damping [1/s], which sets how fast a joint returns.
        hold_integral_1_s: ratio of the hold's integral gain to its stiffness [1/s]; the integral estimates the load.
        load_average_s: averaging time of the currents from which the initial load of a hold is estimated.
        inertia_kg_m2: rough inertia at each joint, (n,), which separates the load from accelerating current; None is
            zero.
        viscous_friction_nm_s_rad: rough viscous friction of each joint, (n,); None is zero.
        coulomb_friction_nm: rough Coulomb friction of each joint, (n,); None is zero.
        hold_slip_rad: largest distance of a held joint from its held position; if the joint is pushed farther, the held
            position follows.
        capture_velocity_rad_s: velocity below which a braked joint is held where it is.
        capture_s: time after the start of braking at which all joints are held, regardless of their velocity.
        blind_brake_s: assumed time constant with which the velocity of an unread joint falls while it is braked.
        blind_alone_s: time constant in place of `blind_brake_s` while no joint is read. Cycles are then long. With
            `blind_brake_s`, the braking current lasted too long for joints with small inertia, and reversed their
            motion (CRANE-X7, docs/faults.md).
        blind_travel_s: time for which a joint that is no longer read is assumed to continue at its last velocity.
        hold_s: shortest time for which a stop holds the arm before lowering it, if the operator did not request the
            stop.
        lower_s: time in which the current that holds an unread joint fades while the arm is lowered.
        stop_velocity_rad_s: velocity below which a joint counts as standing still.
        stop_dwell_s: time for which all joints must stand still before a stop enters its next phase.
        lower_from_s: time after the start of a stop from which the arm is lowered even if joints still move.
        lower_rad_s: largest velocity of a joint while the arm is lowered.
        lower_tool_m_s: largest speed of the tool, and of the links' ends, while the arm is lowered.
        table_height_m: height of a table above the base link's origin; None if there is no table. For a link's
            end more than 5 cm below this height, no table is assumed.
        table_tool_m_s: largest speed at the table, in place of `lower_tool_m_s`.
        table_near_m: height above the table from which the largest speed falls from `lower_tool_m_s`, linearly, to
            `table_tool_m_s` at the table.
        lean_fraction: current, as a fraction of its limit, that pushes a joint out of an unstable balance before torque
            goes off.
        lean_s: time for which all joints must stand still under the current of `lean_fraction` before the push ends.
        lower_dwell_s: time for which the arm must stay in place without current before torque goes off.
        stop_time_s: longest duration of a stop while no joint is read.
        longest_stop_s: longest duration of a stop while joints are read. After it, torque goes off even if the arm
            still moves.
        tool_limit_m_s: speed of the tool, or of another link's end, that is a fault in any mode; None disables the
            check. ISO 10218-1 asks for at most 0.25 m/s in reduced-speed operation.
        guiding_damped_rad_s: speed of a joint from which hand guiding is damped.
        guiding_damped_m_s: speed of the tool, or of another link's end, from which hand guiding is damped.
        guiding_stop_rad_s: speed of a joint at which a guided arm is braked and held.
        guiding_stop_m_s: speed of the tool, or of another link's end, at which a guided arm is braked and held.
        guiding_load_n: smallest external force along gravity at the tool that counts as an added or missing load [N].
        guiding_load_m: distance over which a load (see `guiding_load_n`) must move the tool before the arm is held; at
            least 0.02 m.
        guiding_alone_s: time for which the arm must stand still, without a hand that moves it, before hand guiding is
            permitted. The time is counted after the change to a control law without a position reference.
        guiding_alone_rad: movement of a joint since the change of control law (see `guiding_alone_s`) at which the arm
            is braked and held if hand guiding is not permitted yet.
        enable_tolerance_rad: distance of a joint angle outside its limits above which enable is refused; at most 6 deg.
            After power-on, an encoder may be wrong by a whole turn if the joint's limits allow the motor to leave the
            single revolution that the encoder measures. The driver accepts such a robot only if this error moves the
            joint angle so far outside its limits that enable is refused.
        derate_from_deg_c: servo temperature above which the current limit falls linearly.
        derate_to_deg_c: servo temperature at which the current limit has fallen to `derated_fraction`.
        derated_fraction: fraction of the current limit that remains for a servo that is hot or whose slow values are
            lost.
        overload_limits: whether to lower the current limit of a servo that is near overload, and to stop the arm if the
            limit acts for long. If False, the diagnostics only warn. See `dynid.hardware.safety.overload`.
        fault_deg_c: servo temperature that is a fault; it must be below the temperature at which the servo switches
            itself off.
        slow_data_old_s: age of a servo's slow values (temperature, errors, settings) above which its current limit
            falls linearly. Reading them all once takes half a second, or two seconds in a loop with late cycles.
        slow_data_lost_s: age of a servo's slow values at which its current limit has fallen to `derated_fraction`, and
            a fault stops the arm.
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
    enable_tolerance_rad: float = Field(default=0.087, ge=0.0, le=math.radians(ENABLE_TOLERANCE_DEG))
    derate_from_deg_c: float = 65.0
    derate_to_deg_c: float = 75.0
    derated_fraction: float = Field(default=0.3, gt=0.0, le=1.0)
    fault_deg_c: float = 78.0
    slow_data_old_s: Positive = 5.0
    slow_data_lost_s: Positive = 10.0
    overload_limits: bool = False


def load_safety(robot: Robot) -> SafetySettings:
    """Return the safety settings from a robot's safety.yaml, or the defaults if it has no such file.

    Default temperatures are lowered for servos that switch themselves off below 80 deg C.

    Raises:
        ConfigurationError: the file is not valid, a setting with one value per joint has more or fewer values than the
            robot has joints, or thresholds are not in ascending order.
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
    """Return the settings, with lower default temperatures if a servo model's factory limit is below 80 deg C.

    The defaults, chosen for a limit of 80 deg C, are lowered by the difference of the lowest limit to 80 deg C.
    Temperatures that safety.yaml gives are kept.
    """
    known = [servo.known for servo in robot.file.servos.values()]
    limits = [one.limits.temperature for one in known if one is not None and one.limits is not None]
    cooler = USUAL_LIMIT_DEG_C - min(limits, default=USUAL_LIMIT_DEG_C)
    if cooler <= 0:
        return settings
    lowered = {name: getattr(settings, name) - cooler for name in TEMPERATURES if name not in settings.model_fields_set}
    return settings.model_copy(update=lowered)
