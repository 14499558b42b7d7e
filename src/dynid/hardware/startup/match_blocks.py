"""Proposal for robot.yaml from hand motions: the servos of each joint, with their signs and zeros.

In the recording, the user first moves each joint alone by hand, and then holds the arm in a known pose.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import ValidationError

from dynid.errors import DynidError
from dynid.hardware.servos.models import DYNAMIXELS
from dynid.hardware.startup.hand_motions import HandMotions
from dynid.hardware.startup.joint_match import DEG_PER_COUNT, Evidence, Follower
from dynid.model.drivable import beyond_encoder
from dynid.resources import invalid_fields
from dynid.robot import FloatArray, Robot
from dynid.robot.draft_servos import cycle_s
from dynid.robot.file import Joint, RobotFile
from dynid.robot.servo_fields import TURN_COUNTS, undrivable_number, within_half_turn

KEPT_DEG = 5.0  # accuracy of a pose that is set by hand: a zero of robot.yaml that differs by less is kept [deg]
PAIR_KEPT_DEG = 1.0  # tolerance between the two servos of a pair, which one shaft couples [deg]
OUTSIDE_DEG = 10.0  # margin beyond a joint's limits, for limit stops that are wider than robot.yaml's limits [deg]
FIELDS = ("servo_id", "servo_model", "direction", "reverse_mode", "centre_count", "zero_offset_rad", "shadow_ids")


@dataclass(frozen=True)
class JointMatch:
    """Servo, sign and zero of a joint, determined from its motion by hand and from the known pose.

    Attributes:
        name: name of the joint.
        turned_deg: signed motion of the servo's register while the joint was moved in its positive direction [deg].
        zero_error_deg: error of the joint's zero in robot.yaml, as an angle of the joint [deg]; positive if the zero's
            register value is too high. An error of whole servo turns is not detected.
        row: proposed entry of the joint under `joints` of robot.yaml.
        changes: changed fields, as "field: old -> new".
    """

    name: str
    turned_deg: float
    zero_error_deg: float
    row: dict[str, Any]
    changes: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return all data of the match as a dictionary of plain values, for JSON.

        Fields that `row` does not contain get the defaults of robot.yaml.
        """
        fields = {key: self.row.get(key, Joint.model_fields[key].default) for key in FIELDS}
        fields["shadow_ids"] = list(fields["shadow_ids"])
        found = {"name": self.name, "turned_deg": round(self.turned_deg, 1)}
        return found | {"zero_error_deg": round(self.zero_error_deg, 1)} | fields | {"changes": list(self.changes)}


@dataclass(frozen=True)
class Proposal:
    """Proposed blocks for robot.yaml, determined from hand motions, and the inconsistencies found.

    Attributes:
        joints: servo, sign and zero of each joint.
        blocks: `servos`, `joints` and `bus` of robot.yaml.
        oddities: one sentence for each inconsistency.
    """

    joints: tuple[JointMatch, ...]
    blocks: dict[str, Any]
    oddities: tuple[str, ...]


def propose(
    robot: Robot, motions: HandMotions, found: Sequence[Evidence], reference: FloatArray, pose: FloatArray
) -> Proposal:
    """Determine blocks for robot.yaml from hand motions, and return them with the inconsistencies found.

    Args:
        robot: the robot; its file supplies all values that the motions do not determine.
        motions: recording of the hand motions.
        found: for each of the n joints, the servo that moves it.
        reference: positions of all servos in the known pose, (m,) [counts].
        pose: joint angles in the known pose, (n,) [rad].
    """
    names = {one.model_number: _model_name(robot, one.model_number) for one in motions.servos}
    joints = tuple(
        _match(joint, motions, one, reference, float(pose[one.axis]), names, robot.centre_counts[one.axis])
        for joint, one in zip(robot.file.joints, found, strict=True)
    )
    used = {index for one in found for index in (one.index, *(follower.index for follower in one.followers))}
    idle = [one.servo_id for index, one in enumerate(motions.servos) if index not in used]
    rows = [one.row for one in joints]
    blocks = {"servos": _servos(robot, names, rows), "joints": rows, "bus": _bus(robot, motions, len(used), idle)}
    oddities = [
        *_undrivable(motions, used),
        *_outside(robot, motions, found, reference, pose),
        *_strangers(robot, idle),
        *_invalid(robot, blocks),
    ]
    return Proposal(joints, blocks, tuple(oddities))


def _match(
    joint: Joint,
    motions: HandMotions,
    found: Evidence,
    reference: FloatArray,
    angle: float,
    names: Mapping[int, str],
    centre: int,
) -> JointMatch:
    """Return servo, direction and zero of one joint; the zero of robot.yaml is kept if it is wrong by up to `KEPT_DEG`.

    Args:
        joint: the joint in robot.yaml.
        motions: recording of the hand motions.
        found: the servo that moves the joint.
        reference: positions of all servos in the known pose, (m,) [counts].
        angle: angle of the joint in the known pose [rad].
        names: names of the servo models by model number.
        centre: position register at angle zero according to robot.yaml [counts].
    """
    servo = motions.servos[found.index]
    direction = int(np.sign(found.turned_deg * joint.gear_ratio))
    measured = _centre(float(reference[found.index]), direction, joint, angle - joint.zero_offset_rad)
    error = within_half_turn(centre - measured) * DEG_PER_COUNT / abs(joint.gear_ratio)
    row: dict[str, Any] = joint.model_dump(mode="json", exclude_unset=True)
    row |= {"servo_id": servo.servo_id, "servo_model": names[servo.model_number]}
    _set(row, "direction", direction, 1)
    _set(row, "reverse_mode", servo.reverse_mode, False)
    if abs(error) > KEPT_DEG:
        row["centre_count"] = round(_centre(float(reference[found.index]), direction, joint, angle)) % TURN_COUNTS
        row.pop("zero_offset_rad", None)
    shadows = [motions.servos[one.index].servo_id for one in found.followers if one.shadow]
    _set(row, "shadow_ids", shadows, [])
    first = (float(reference[found.index]), int(row.get("centre_count", centre)))
    pairs = [_pair(joint, motions, reference, one, first) for one in found.followers if not one.shadow]
    _set(row, "paired", pairs, [])
    return JointMatch(joint.name, found.turned_deg, error, row, tuple(_changes(joint, row)))


def _pair(
    joint: Joint, motions: HandMotions, reference: FloatArray, found: Follower, first: tuple[float, int]
) -> dict[str, Any]:
    """Return the entry under `paired` in robot.yaml of one more servo that drives the joint.

    Args:
        joint: the joint in robot.yaml.
        motions: recording of the hand motions.
        reference: positions of all servos in the known pose, (m,) [counts].
        found: the further servo.
        first: position in the known pose and position at angle zero of the joint's first servo [counts].
    """
    servo = motions.servos[found.index]
    own = {"servo_id": servo.servo_id, "direction": found.direction, "reverse_mode": servo.reverse_mode}
    position, centre = first
    measured = float(reference[found.index]) + found.direction * (centre - position)
    stated = [
        one.centre_count for one in joint.paired if one.servo_id == servo.servo_id and one.centre_count is not None
    ]
    usual = stated[0] if stated else centre
    kept = abs(within_half_turn(measured - usual)) * DEG_PER_COUNT <= PAIR_KEPT_DEG
    if stated or not kept:
        own["centre_count"] = usual if kept else round(measured) % TURN_COUNTS
    return own


def _centre(position: float, direction: int, joint: Joint, angle: float) -> float:
    """Return the value of a servo's position register at joint angle zero [counts].

    Args:
        position: value of the register in the known pose [counts].
        direction: sign of the register relative to the joint angle times the gear ratio, 1 or -1.
        joint: joint with the gear ratio.
        angle: angle of the joint in the known pose [rad].
    """
    return position - direction * joint.gear_ratio * float(np.rad2deg(angle)) / DEG_PER_COUNT


def _set(row: dict[str, Any], key: str, value: Any, default: Any) -> None:
    """Write a field to `row`, an entry of a joint in robot.yaml, if its value is not the default; else remove it."""
    if value != default:
        row[key] = value
    else:
        row.pop(key, None)


def _changes(joint: Joint, row: Mapping[str, Any]) -> Iterator[str]:
    before = joint.model_dump(mode="json")
    after = Joint.model_validate(dict(row)).model_dump(mode="json")
    for key in (*FIELDS, "paired"):
        if before[key] != after[key]:
            yield f"{key}: {before[key]} -> {after[key]}"


def _model_name(robot: Robot, number: int) -> str:
    """Return the name of a servo model: its name in robot.yaml, else the manufacturer's name."""
    own = [name for name, servo in robot.file.servos.items() if servo.model_number == number]
    known = DYNAMIXELS.get(number)
    return own[0] if own else f"model_{number}" if known is None else known.name


def _servos(robot: Robot, names: Mapping[int, str], rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the block `servos` for the servo models in `rows`.

    Entries of robot.yaml are copied. For a model without an entry in robot.yaml, the entry is a proposal.

    Args:
        robot: the robot.
        names: names of servo models by model number.
        rows: entries of the joints, which name their servo models.
    """
    used = {row["servo_model"] for row in rows}
    block: dict[str, Any] = {}
    for number, name in names.items():
        if name in robot.file.servos:
            block[name] = robot.file.servos[name].model_dump(mode="json", exclude_unset=True)
        elif name in used:
            known = DYNAMIXELS.get(number)
            constant = None if known is None else known.torque_constant_nm_per_a
            block[name] = {"model_number": number, "torque_constant_nm_per_a": constant or 1.0}
    return {name: block[name] for name in block if name in used}


def _bus(robot: Robot, motions: HandMotions, servos: int, idle: list[int]) -> dict[str, Any]:
    bus = robot.file.bus.model_dump(mode="json", exclude_unset=True)
    bus |= {"baudrate": motions.baudrate} | ({"port": motions.port} if motions.port else {})
    bus.setdefault("cycle_s", cycle_s(servos, motions.baudrate))
    present = {one.servo_id for one in motions.servos}
    _set(bus, "other_ids", sorted({*robot.file.bus.other_ids} - present | {*idle}), [])
    return bus


def _strangers(robot: Robot, idle: Sequence[int]) -> Iterator[str]:
    """Yield a sentence about servos that moved no joint and are missing from other_ids in robot.yaml.

    `idle` are the IDs of all servos that moved no joint.
    """
    if strangers := [str(one) for one in idle if one not in robot.file.bus.other_ids]:
        yield (
            f"servos that moved no joint of {robot.name}: {', '.join(strangers)}; other_ids lists them now, which "
            "is right for those of fingers only"
        )


def _undrivable(motions: HandMotions, used: set[int]) -> Iterator[str]:
    for index, one in enumerate(motions.servos):
        if index in used:
            yield from undrivable_number(f"servo {one.servo_id}", one.model_number)
        if one.obeys is not None and one.obeys not in {other.servo_id for other in motions.servos}:
            yield f"servo {one.servo_id} obeys servo {one.obeys}, which does not answer"


def _outside(
    robot: Robot, motions: HandMotions, found: Sequence[Evidence], reference: FloatArray, pose: FloatArray
) -> Iterator[str]:
    """Yield a sentence for each joint whose angle was far outside the joint limits during the hand motions.

    The angles follow from the servos that were found for the joints, and from the known pose.

    Args:
        robot: the robot.
        motions: recording of the hand motions.
        found: for each of the n joints, the servo that moves it.
        reference: positions of all servos in the known pose, (m,) [counts].
        pose: joint angles in the known pose, (n,) [rad].
    """
    turned = (motions.unwrapped - reference) * DEG_PER_COUNT
    for joint, one in zip(robot.file.joints, found, strict=True):
        sign = np.sign(one.turned_deg) / abs(joint.gear_ratio)
        angles = float(np.rad2deg(pose[one.axis])) + sign * turned[:, one.index]
        lower, upper = float(joint.lower_deg or 0.0), float(joint.upper_deg or 0.0)
        low, high = float(angles.min()), float(angles.max())
        if low < lower - OUTSIDE_DEG or high > upper + OUTSIDE_DEG:
            yield (
                f"joint {joint.name} was at {low:.0f} to {high:.0f} deg by this match, outside its limits of {lower:g} "
                f"to {upper:g} deg: it was moved in its negative direction, the pose was another one, or the limits "
                "are too narrow"
            )


def _invalid(robot: Robot, blocks: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each reason why a robot with these blocks in robot.yaml could not be driven."""
    try:
        file = RobotFile.model_validate(robot.file.model_dump(mode="json", exclude_unset=True) | dict(blocks))
        yield from beyond_encoder(Robot(file, robot.folder))
    except ValidationError as error:
        yield f"robot.yaml is invalid with these blocks: {invalid_fields(error, RobotFile)}"
    except DynidError as error:
        yield f"robot.yaml with these blocks cannot drive the arm: {error}"
