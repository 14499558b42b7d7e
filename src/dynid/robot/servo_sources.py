"""Readers of `<ros2_control>` blocks and of servo files by Interbotix and RT, which assign servos to joints.

The readers return joint names, IDs, port, baud rate, reverse modes, and shadow servos, which execute another servo's
commands. A servo model that the file does not name stays unknown, because only the servo's answer to a ping shows it.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as data_field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from dynid.documents import read_yaml
from dynid.errors import ConfigurationError
from dynid.hardware.servos.models import dynamixel_named
from dynid.hardware.servos.registers import BAUD_RATES

NO_ID, LARGEST_ID = 255, 252
REVERSED = 1 << 0  # reverse-mode bit of the drive mode
REDUCTIONS = "mechanical_reduction", "mechanicalReduction"  # of ros2_control and of its predecessor
PORT_NAMES = ("port_name", "usb_port", "port")


@dataclass(frozen=True)
class ServoLine:
    """Serial line to which servos are connected, as read from a file of other software.

    Attributes:
        port: path of the serial port; '' if the file names none.
        baudrate: baud rate [bit/s]; None if the file gives none.
    """

    port: str = ""
    baudrate: int | None = None


@dataclass(frozen=True)
class JointServos:
    """Servos of one joint, as read from a file of other software.

    Attributes:
        servo_id: ID of the joint's first servo.
        reverse_mode: whether the first servo counts backwards (bit 0 of its drive mode).
        shadow_ids: IDs of further servos, which execute the first servo's commands.
        direction: sign of the joint relative to the first servo's registers, 1 or -1.
        gear_ratio: motor angle over joint angle.
        model: name of the servo model; '' if the file does not name a model that dynid knows.
        line: serial line of the servos.
    """

    servo_id: int
    reverse_mode: bool = False
    shadow_ids: tuple[int, ...] = ()
    direction: int = 1
    gear_ratio: float = 1.0
    model: str = ""
    line: ServoLine = ServoLine()


@dataclass(frozen=True)
class ServoSource:
    """Servos of an arm as read from a file of other software.

    Attributes:
        name: name of the file or block, for messages.
        joints: servos by joint.
        notes: sentences on entries that the user should verify.
        rest: rest posture of the arm by joint [rad]; {} if the file has none.
    """

    name: str
    joints: Mapping[str, JointServos]
    notes: tuple[str, ...] = ()
    rest: Mapping[str, float] = data_field(default_factory=dict)


def servos_of_urdf(urdf_text: str) -> ServoSource | None:
    """Return the servos that the `<ros2_control>` blocks of a URDF assign to joints; None if they assign none.

    Raises:
        ConfigurationError: a value in such a block is not a number.
    """
    root = ElementTree.fromstring(urdf_text)  # noqa: S314 - no DOCTYPE gets here
    found, notes = dict[str, JointServos](), list[str]()
    for block in root.findall("ros2_control"):
        hardware = block.find("hardware")
        given = {} if hardware is None else _parameters(hardware)
        port = next((given[key] for key in PORT_NAMES if given.get(key)), "")
        line = ServoLine(port, _whole(given["baud_rate"], "baud_rate") if given.get("baud_rate") else None)
        own = dict(_by_joint(block)) or dict(_by_gpio(block, given, notes))
        found |= {name: replace(servos, line=line) for name, servos in own.items()}
    _refuse_impossible_ids("<ros2_control>", found)
    notes += _unread_reductions(root, found)
    return ServoSource("<ros2_control>", found, tuple(notes)) if found else None


def _refuse_impossible_ids(name: str, joints: Mapping[str, JointServos]) -> None:
    """Raise ConfigurationError if an ID is out of range, or if two servos on one line have the same ID.

    Args:
        name: name of the file or block, for the message.
        joints: servos by joint.
    """
    taken: dict[tuple[ServoLine, int], str] = {}
    for joint, own in joints.items():
        for servo_id in (own.servo_id, *own.shadow_ids):
            if not 0 <= servo_id <= LARGEST_ID:
                raise ConfigurationError(
                    f"{name} gives joint {joint} the servo ID {servo_id}, expected 0 to {LARGEST_ID}"
                )
            if (other := taken.setdefault((own.line, servo_id), joint)) != joint:
                raise ConfigurationError(
                    f"{name} gives the joints {other} and {joint} the same servo ID, {servo_id}, on one line: correct "
                    "one of them"
                )


def _unread_reductions(root: ElementTree.Element, joints: Collection[str]) -> Iterator[str]:
    """Yield one sentence for each `<transmission>` of a joint with a reduction other than 1, which is not read."""
    for transmission in root.iter("transmission"):
        names = {one.get("name", "") for one in transmission.iter("joint")} & set(joints)
        texts = {(one.text or "").strip() for one in transmission.iter() if one.tag in REDUCTIONS}
        for text in sorted(one for one in texts if one and not _is_one(one)):
            yield (
                f"joint {', '.join(sorted(names)) or 'of a transmission'} has a mechanical reduction of {text}, which "
                "was not used: if a gear follows the servo, write its gear_ratio by hand"
            )


def _is_one(text: str) -> bool:
    """Return whether a text is the number 1, such as "1.000"."""
    try:
        return float(text) == 1.0
    except ValueError:
        return False


def _parameters(element: ElementTree.Element) -> dict[str, str]:
    return {one.get("name", ""): (one.text or "").strip() for one in element.findall("param")}


def _whole(text: str, what: str) -> int:
    try:
        return int(text, 16 if text.lower().startswith("0x") else 10)
    except ValueError:
        raise ConfigurationError(f"the <ros2_control> block has {what} '{text}', expected a whole number") from None


def _by_joint(block: ElementTree.Element) -> Iterator[tuple[str, JointServos]]:
    """Yield (joint, servos) for joints with an `id` parameter, the format of the package dynamixel_hardware."""
    for joint in block.findall("joint"):
        own = _parameters(joint)
        if "id" in own:
            ratio = float(own.get("gear_ratio") or 1.0) or 1.0
            yield (
                joint.get("name", ""),
                JointServos(
                    _whole(own["id"], "id"),
                    bool(_whole(own.get("Drive_Mode") or "0", "Drive_Mode") & REVERSED),
                    gear_ratio=ratio,
                ),
            )


def _by_gpio(
    block: ElementTree.Element, line: Mapping[str, str], notes: list[str]
) -> Iterator[tuple[str, JointServos]]:
    """Yield (joint, servos) from `<gpio>` elements of type dxl, the format of ROBOTIS.

    Servo k moves joint k, unless a transmission matrix assigns another joint. A servo whose secondary ID is the ID of
    another servo executes that one's commands, and is no servo of its own.

    Args:
        block: the `<ros2_control>` block.
        line: parameters of its `<hardware>` element by name.
        notes: sentences on entries that the user should verify; new notes are added.
    """
    listed = [own for gpio in block.findall("gpio") if (own := _parameters(gpio)).get("type") == "dxl" and "ID" in own]
    shadows = _shadows(listed)
    obeying = {one for ids in shadows.values() for one in ids}
    servos = [own for own in listed if _whole(own["ID"], "ID") not in obeying]
    if moved := [own["ID"] for own in listed if _whole(own.get("Homing Offset") or "0", "Homing Offset")]:
        notes.append(
            f"servos {', '.join(moved)} have a homing offset, which moves their zero and was not used: set it to 0 on "
            "the servo, or state the joint's centre_count"
        )
    own_motion = ["mimic" not in _parameters(one) for one in block.findall("joint")]
    names = [one.get("name", "") for one in block.findall("joint")]
    joints = [name for name, moves in zip(names, own_motion, strict=True) if moves]
    text = line.get("transmission_to_joint_matrix", "")
    rows = _matrix(text, len(names), len(servos))  # of all joints, those that mimic another one included
    matrix = [row for row, moves in zip(rows, own_motion, strict=False) if moves]
    matrix = matrix or _matrix(text, len(joints), len(servos))
    if text.strip() and not matrix:
        notes.append(
            f"the block's transmission_to_joint_matrix is not one of {len(names)} joints by {len(servos)} servos, and "
            "was not used: check the servo, direction and gear_ratio of every joint"
        )
    for k, joint in enumerate(joints):
        row = matrix[k] if matrix else [float(k == other) for other in range(len(servos))]
        moved_by = [place for place, share in enumerate(row) if share]
        if len(moved_by) > 1:
            notes.append(f"joint {joint} is moved by {len(moved_by)} servos at once: write its coupling by hand")
        elif moved_by:
            own, share = servos[moved_by[0]], row[moved_by[0]]
            reverse = bool(_whole(own.get("Drive Mode") or "0", "Drive Mode") & REVERSED)
            direction, ratio = (1 if share > 0 else -1), 1.0 / abs(share)  # turns of the servo per turn of the joint
            servo_id = _whole(own["ID"], "ID")
            yield joint, JointServos(servo_id, reverse, shadows.get(servo_id, ()), direction, ratio)
    if len(servos) != len(joints) and not matrix:
        notes.append(f"the block has {len(servos)} servos for {len(joints)} joints: compare them one by one")


def _shadows(listed: Sequence[Mapping[str, str]]) -> dict[int, tuple[int, ...]]:
    """Return the IDs of the servos that execute another listed servo's commands, by that servo's ID.

    `listed` are the parameters of each servo's `<gpio>` element by name.
    """
    found: dict[int, tuple[int, ...]] = {}
    ids = {_whole(own["ID"], "ID") for own in listed}
    for own in listed:
        obeyed = _whole(own.get("Secondary ID") or str(NO_ID), "Secondary ID")
        if obeyed in ids and obeyed != _whole(own["ID"], "ID"):
            found[obeyed] = (*found.get(obeyed, ()), _whole(own["ID"], "ID"))
    return found


def _matrix(text: str, rows: int, columns: int) -> list[list[float]]:
    """Parse a matrix from text that lists it row by row; return [] if the text does not have rows x columns numbers."""
    try:
        numbers = [float(number) for number in text.replace(",", " ").split()]
    except ValueError:
        return []
    if not numbers or len(numbers) != rows * columns:
        return []
    return [numbers[row * columns : (row + 1) * columns] for row in range(rows)]


def servos_of_file(path: Path) -> ServoSource:
    """Return the servos in a YAML file of Interbotix' xs_sdk (with `motors`) or of RT (with `joint_groups`).

    Raises:
        InputNotFoundError: the file does not exist.
        ConfigurationError: the file has neither `motors` nor `joint_groups`, or an invalid value.
    """
    content = read_yaml(path)
    if isinstance(content, dict) and isinstance(content.get("motors"), dict):
        return _interbotix(path, content)
    if isinstance(content, dict) and isinstance(content.get("joint_groups"), dict):
        return _rt(path, content)
    raise ConfigurationError(
        f"{path} names no servos: expected a file of Interbotix' xs_sdk, with `motors`, or RT's "
        "manipulator_config.yaml, with `joint_groups`"
    )


def _figure(path: Path, name: str, row: object, key: str, usual: int | None = None) -> int:
    value = row.get(key, usual) if isinstance(row, dict) else None
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConfigurationError(f"{path}: {name} has {key} {value!r}, expected a whole number")
    return value


def _interbotix(path: Path, content: dict[str, Any]) -> ServoSource:
    motors, notes = content["motors"], list[str]()
    ids = {name: _figure(path, name, row, "ID") for name, row in motors.items()}
    obeyed = {name: _figure(path, name, row, "Secondary_ID", NO_ID) for name, row in motors.items()}
    joints, names = {}, {servo_id: name for name, servo_id in ids.items()}
    for name, row in motors.items():
        if obeyed[name] != NO_ID:
            if obeyed[name] not in names:
                notes.append(f"servo {ids[name]} ({name}) obeys servo {obeyed[name]}, which is not in the file")
            continue
        reverse = bool(_figure(path, name, row, "Drive_Mode", 0) & REVERSED)
        shadows = tuple(ids[other] for other in motors if obeyed[other] == ids[name])
        for other in motors:
            if obeyed[other] == ids[name] and reverse == bool(
                _figure(path, other, motors[other], "Drive_Mode", 0) & REVERSED
            ):
                notes.append(
                    f"servos {ids[name]} and {ids[other]} of {name} have the same direction: are they mounted face "
                    "to face?"
                )
        joints[name] = JointServos(ids[name], reverse, shadows)
    codes = {_figure(path, name, row, "Baud_Rate", 3) for name, row in motors.items()}
    rate = BAUD_RATES.get(codes.pop()) if len(codes) == 1 else None
    if rate is None:
        notes.append("the file gives no baud rate that all servos share")
    if content.get("sisters"):
        notes.append("sisters are two servos in one housing: compare their joints one by one")
    port = content.get("port")
    order, sleep = content.get("joint_order"), content.get("sleep_positions")
    rest: dict[str, float] = {}
    if isinstance(order, list) and isinstance(sleep, list) and len(order) == len(sleep):
        rest = {str(name): float(angle) for name, angle in zip(order, sleep, strict=True)}
    line = ServoLine(port if isinstance(port, str) else "", rate)
    joints = {name: replace(own, line=line) for name, own in joints.items()}
    _refuse_impossible_ids(str(path), joints)
    return ServoSource(str(path), joints, tuple(notes), rest)


def _rt(path: Path, content: dict[str, Any]) -> ServoSource:
    joints = {}
    for group in content["joint_groups"].values():
        for name in (group or {}).get("joints") or ():
            row = content.get(name)
            model = str(row.get("dynamixel") or "") if isinstance(row, dict) else ""
            known = dynamixel_named(model)
            joints[str(name)] = JointServos(
                _figure(path, str(name), row, "id"), model="" if known is None else known.name
            )
    _refuse_impossible_ids(str(path), joints)
    return ServoSource(str(path), joints)
