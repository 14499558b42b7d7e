"""Servos of a drafted robot: fields of robot.yaml derived from servo files of other software.

In all functions, a row is a joint's drafted entry of robot.yaml, as a dictionary of fields.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from dynid.errors import ConfigurationError, UnknownNameError
from dynid.hardware.servos.models import DYNAMIXELS, Dynamixel, dynamixel_named
from dynid.hardware.servos.registers import BAUD_RATES
from dynid.robot.servo_sources import JointServos, ServoLine, ServoSource

STALL_SHARE = 0.5  # proposed current limit [share of the stall current]
CYCLES_S = (0.001, 0.002, 0.003, 0.004)  # periods of the cycle rates that the driver supports [s]
BITS_PER_BYTE, WIRE_MARGIN_S = 10, 0.00035  # bits per byte on the wire; time of adapter and host per cycle
USUAL_RATE = 1_000_000
SLIDING_RAD_PER_M = 100.0  # proposed gear ratio of a sliding joint: a pinion of 10 mm radius


def model_of(name: str) -> Dynamixel:
    """Return the servo model with a given name.

    Raises:
        UnknownNameError: dynid does not know the model, or it has no current control.
    """
    model = dynamixel_named(name)
    if model is None or not model.has_current_control:
        raise UnknownNameError("servo model", name, tuple(one.name for one in DYNAMIXELS.values() if one.limits))
    return model


def cycle_s(servos: int, baudrate: int) -> float:
    """Return the shortest cycle in `CYCLES_S` [s] for reading and writing `servos` servos at a baud rate [bit/s].

    If no cycle is long enough, the longest one is returned; see `unfit_rate`.
    """
    needed_s = _needed_s(servos, baudrate, 21 * servos)
    return next((cycle for cycle in CYCLES_S if cycle >= needed_s), CYCLES_S[-1])


def _needed_s(servos: int, baudrate: int, reply: int) -> float:
    """Return the time for reading and writing servos, with a margin [s].

    Args:
        servos: number of servos.
        baudrate: baud rate [bit/s].
        reply: length of all replies [bytes].
    """
    read, write = 14 + servos, 14 + 3 * servos
    return (read + reply + write) * BITS_PER_BYTE / baudrate + WIRE_MARGIN_S


def unfit_rate(servos: int, baudrate: int) -> str:
    """Return a sentence if a baud rate [bit/s] is unknown to the servos or too slow for `servos` servos, else ''.

    It is too slow if even the shortest replies, those of a fast sync read, do not fit into the longest cycle.
    """
    rates, shortest = sorted(BAUD_RATES.values()), 8 + 14 * servos
    usable = [f"{rate}" for rate in rates if _needed_s(servos, rate, shortest) <= CYCLES_S[-1]]
    if baudrate not in rates:
        return f"DYNAMIXEL servos have no baud rate of {baudrate} bit/s: choose one of {', '.join(usable)} bit/s"
    if (needed_s := _needed_s(servos, baudrate, shortest)) <= CYCLES_S[-1]:
        return ""
    return (
        f"at {baudrate} bit/s a cycle of {servos} servos takes {needed_s * 1e3:.3g} ms, and the driver needs at most "
        f"{CYCLES_S[-1] * 1e3:g} ms: set the servos to one of {', '.join(usable)} bit/s"
    )


def add_servos(
    rows: list[dict[str, Any]], source: ServoSource, models: Mapping[str, str], questions: dict[str, str]
) -> dict[str, Any]:
    """Write servo IDs, signs and current limits into `rows`; return the blocks `servos` and `bus` of robot.yaml.

    Args:
        rows: joint entries of robot.yaml, changed in place.
        source: assignment of servos to joints, read from a file of other software.
        models: names of servo models that `source` does not state, by joint name. The key "" applies to all joints
            without their own entry. A question is added for each model that remains unknown.
        questions: questions that the user must answer, by field; new questions are added, answered questions removed.

    Raises:
        UnknownNameError: a joint or a servo model is unknown.
        ConfigurationError: the joints are on several lines, and two servos have the same ID.
    """
    servos: dict[str, Any] = {}
    names = {row["name"] for row in rows}
    if unknown := [name for name in models if name and name not in names]:
        raise UnknownNameError("joint", unknown[0], tuple(sorted(names)))
    for row in rows:
        own = source.joints.get(row["name"])
        if own is None:
            questions[f"joints.{row['name']}.servo_id"] = f"{source.name} names no servo of this joint: which moves it?"
            continue
        row |= _fields(own)
        if "lower_m" in row and own.gear_ratio == 1.0:
            row["gear_ratio"] = SLIDING_RAD_PER_M
            questions[f"joints.{row['name']}.gear_ratio"] = (
                f"this joint slides: how far does its servo turn for a metre? Proposed: {SLIDING_RAD_PER_M:g} rad/m, a "
                "pinion of 10 mm radius"
            )
        named = models.get(row["name"]) or own.model or models.get("", "")
        if not named:
            questions[f"joints.{row['name']}.servo_model"] = (
                f"{source.name} does not name the model of servo {own.servo_id}: which is it? Give --servo-model "
                "if all are alike"
            )
            continue
        known = dynamixel_named(named) or model_of(named)
        if not known.has_current_control:
            questions[f"joints.{row['name']}.servo_model"] = (
                f"{known.name} has no current control: dynid cannot drive this joint, and its servo reports no torque. "
                "Is another servo there, or does something else measure the torque?"
            )
            continue
        servos[known.name] = {
            "model_number": known.number,
            "torque_constant_nm_per_a": known.torque_constant_nm_per_a or 1.0,
        }
        row["servo_model"] = known.name
        _add_limit(row, known, questions)
        _lower_speed(row, known, questions)
    for name in servos:
        _ask_constant(DYNAMIXELS[servos[name]["model_number"]], questions)
    if servos:
        questions.pop("joints.torque_constant_nm_per_a", None)
    others = sorted(_other_ids(rows, source))
    if others:
        questions["bus.other_ids"] = (
            f"{source.name} has servos that move no joint of this robot ({', '.join(map(str, others))}), such as those "
            "of fingers: they stay without torque. Is this correct?"
        )
    if source.notes:
        questions["joints.servo_id"] = f"{'; '.join(source.notes)}. Is every joint moved by the servo that it has here?"
    bus = _bus(rows, source, questions) | ({"other_ids": others} if others else {})
    return {"servos": servos, "bus": bus} if servos else {"bus": bus}


def _lines(rows: list[dict[str, Any]], source: ServoSource) -> dict[ServoLine, list[str]]:
    """Return the serial lines of the drafted joints, each with the names of its joints."""
    lines: dict[ServoLine, list[str]] = {}
    for row in rows:
        if (own := source.joints.get(row["name"])) is not None:
            lines.setdefault(own.line, []).append(row["name"])
    return lines


def _bus(rows: list[dict[str, Any]], source: ServoSource, questions: dict[str, str]) -> dict[str, Any]:
    """Return the block `bus` of robot.yaml, without other IDs; add questions about port and baud rate.

    Args:
        rows: joint entries of robot.yaml.
        source: assignment of servos to joints.
        questions: questions that the user must answer, by field; new questions are added.

    Raises:
        ConfigurationError: the joints are on several lines, and two servos have the same ID.
    """
    lines = _lines(rows, source)
    line = next(iter(lines), ServoLine())
    if len(lines) > 1:
        listed = "; ".join(f"{', '.join(joints)} on {one.port or 'another line'}" for one, joints in lines.items())
        several = f"the joints are on several lines ({listed}), and dynid drives one"
        ids = [row["servo_id"] for row in rows if "servo_id" in row]
        if len(set(ids)) < len(ids):
            raise ConfigurationError(
                f"{several}: end the chain with --tip, or give one line's joints a URDF of their own"
            )
        questions["bus.port"] = f"{several}: which of them are the arm's?"
    rate = line.baudrate or USUAL_RATE
    count = sum(1 + len(row.get("shadow_ids", ())) for row in rows if "servo_id" in row)
    if line.baudrate is None:
        questions["bus.baudrate"] = f"{source.name} gives no baud rate; proposed: {USUAL_RATE} bit/s"
    elif why := unfit_rate(count, rate):
        questions["bus.baudrate"] = why
    return {"baudrate": rate, "cycle_s": cycle_s(count, rate)} | ({"port": line.port} if line.port else {})


def _fields(own: JointServos) -> dict[str, Any]:
    """Return the servo fields of a joint for robot.yaml, except fields that equal their defaults."""
    fields: dict[str, Any] = {"servo_id": own.servo_id}
    fields |= {"reverse_mode": True} if own.reverse_mode else {}
    fields |= {"direction": own.direction} if own.direction != 1 else {}
    fields |= {"gear_ratio": own.gear_ratio} if own.gear_ratio != 1.0 else {}
    return fields | ({"shadow_ids": list(own.shadow_ids)} if own.shadow_ids else {})


def _other_ids(rows: list[dict[str, Any]], source: ServoSource) -> Iterator[int]:
    """Yield the IDs of the servos on the drafted joints' lines that move no drafted joint."""
    taken, lines = {row["name"] for row in rows}, _lines(rows, source)
    for name, own in source.joints.items():
        if name not in taken and own.line in lines:
            yield from (own.servo_id, *own.shadow_ids)


def joint_constant(row: dict[str, Any]) -> float:
    """Return the torque at a joint if each of its servos carries 1 A [N m/A].

    `row` is the joint's entry of robot.yaml, which must name a servo model. A servo model without a published torque
    constant counts as 1 N m/A.
    """
    own = model_of(row["servo_model"]).torque_constant_nm_per_a or 1.0
    return (1 + len(row.get("shadow_ids", ()))) * own * abs(float(row.get("gear_ratio", 1.0)))


def joint_torque_nm(row: dict[str, Any]) -> float:
    """Return a joint's torque at its current limit, or else its torque limit [N m; N]; inf without limits.

    `row` is the joint's entry of robot.yaml.
    """
    if "current_limit_a" in row and "servo_model" in row:
        return joint_constant(row) * float(row["current_limit_a"])
    return float(row.get("torque_limit_nm", math.inf))


def most_current_a(model: Dynamixel, share: float = STALL_SHARE) -> float:
    """Return the lower value of a servo model's factory current limit and a share of its stall current [A].

    With the default share, this is the largest current limit that a draft proposes. The stall current is that at the
    recommended supply voltage; if it is unknown, the result is the factory limit. The model must have current control.
    """
    assert model.current_limit_a is not None
    stalled = [point.current_a for point in model.stall if math.isclose(point.supply_v, model.supply_v)]
    return min([model.current_limit_a, *(share * current for current in stalled)])


def _add_limit(row: dict[str, Any], model: Dynamixel, questions: dict[str, str]) -> None:
    """Replace a joint's torque limit by a current limit, because servos limit current and not torque.

    Args:
        row: the joint's entry of robot.yaml, changed in place.
        model: servo model of the joint.
        questions: questions that the user must answer, by field; a question about the torque limit is removed.
    """
    constant = joint_constant(row)
    most = most_current_a(model)
    key = f"joints.{row['name']}.torque_limit_nm"
    stated = row.pop("torque_limit_nm", None)
    real = stated is not None and key not in questions  # a placeholder already has a question
    questions.pop(key, None)
    if real:
        most = min(most, stated / constant)
    row["current_limit_a"] = round_down(most)


def _lower_speed(row: dict[str, Any], model: Dynamixel, questions: dict[str, str]) -> None:
    """Lower a joint's velocity limit to the speed that its servo reaches without load, and ask about it.

    The limit stays if the servo's speed is not published.

    Args:
        row: the joint's entry of robot.yaml, changed in place.
        model: servo model of the joint.
        questions: questions that the user must answer, by field; a question about the limit is replaced.
    """
    speeds = [speed for supply, speed in model.no_load_rad_s if math.isclose(supply, model.supply_v)]
    field = "velocity_limit_m_s" if "lower_m" in row else "velocity_limit_rad_s"
    if not speeds or row[field] <= (most := speeds[0] / abs(float(row.get("gear_ratio", 1.0)))):
        return
    stated, row[field] = row[field], round_down(most)
    unit = "m/s" if "lower_m" in row else "rad/s"
    questions[f"joints.{row['name']}.{field}"] = (
        f"proposed: {row[field]:g} {unit}, which {model.name} reaches without load at {model.supply_v:g} V, instead of "
        f"{stated:g} {unit}. How fast may this joint move?"
    )


def round_down(value: float) -> float:
    """Round a positive value down to three significant figures, so that rounding never raises a limit."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 2)
    return float(f"{math.floor(value / unit + 1e-9) * unit:.3g}")


def _ask_constant(model: Dynamixel, questions: dict[str, str]) -> None:
    points = [point for point in model.stall if math.isclose(point.supply_v, model.supply_v)]
    how = "measure it with a known mass: `dynid torque-constants`"
    if points:
        stall = points[0]
        text = (
            f"proposed: stall torque over stall current, {stall.torque_nm:g} N m over {stall.current_a:g} A at "
            f"{stall.supply_v:g} V. Published constants of one model differ by 30 %; {how}"
        )
    else:
        text = f"nothing is published of this model, 1 N m/A is no more than a place for your figure; {how}"
    questions[f"servos.{model.name}.torque_constant_nm_per_a"] = text
