"""Schema of the servos in robot.yaml: servo models, servos of a joint, and checks of these fields."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, model_validator

from dynid.hardware.servos.models import DYNAMIXELS, MOST_CURRENT_A, Dynamixel, dynamixel_named
from dynid.robot.values import Strict

TURN_COUNTS = 4096
LIMIT_TOLERANCE = 0.02  # tolerance between a factory limit in robot.yaml and the model's, since figures are rounded
ServoId = Annotated[int, Field(ge=0, le=252)]
Direction = Literal[1, -1]


class ServoModel(Strict):
    """Servo model in robot.yaml.

    Attributes:
        model_number: model number on the bus; current unit, limits and registers follow from it, see
            `dynid.hardware.servos`.
        torque_constant_nm_per_a: torque at the servo's shaft per ampere.
        factory_current_limit_a: factory current limit; if given, it must agree with the known limit of the servo model.
    """

    model_number: int
    torque_constant_nm_per_a: Annotated[float, Field(gt=0, le=10)]
    factory_current_limit_a: Annotated[float, Field(gt=0)] | None = None

    @property
    def known(self) -> Dynamixel | None:
        """Data of the servo model; None if dynid does not know its model number."""
        return DYNAMIXELS.get(self.model_number)

    @property
    def most_current_a(self) -> float:
        """Largest current that the servo model's factory limit allows [A]."""
        known = None if self.known is None else self.known.current_limit_a
        return self.factory_current_limit_a or known or MOST_CURRENT_A

    @model_validator(mode="after")
    def _plausible(self) -> "ServoModel":
        stated, known = self.factory_current_limit_a, self.known
        if stated is not None and known is None and stated > MOST_CURRENT_A:
            most = f"{MOST_CURRENT_A:.4g}"
            raise ValueError(f"factory_current_limit_a {stated:g} is more than any servo's: expected at most {most}")
        if stated is None or known is None or known.limits is None or known.current_limit_a is None:
            return self
        limit = known.current_limit_a
        if abs(stated - limit) > LIMIT_TOLERANCE * limit:
            raise ValueError(
                f"factory_current_limit_a {stated:g} is not that of model {self.model_number} ({known}): its limit of "
                f"{known.limits.current} counts is {limit:.4g} A; correct it, or leave the field out"
            )
        return self


class PairedServo(Strict):
    """Additional servo of a joint, commanded by its own ID with the current of the joint's first servo.

    Attributes:
        servo_id: ID of this servo.
        direction: sign of its registers relative to the first servo; -1 for servos that face each other.
        reverse_mode: whether this servo counts backwards (bit 0 of its drive mode).
        centre_count: its position register at angle zero; None selects the first servo's value.
    """

    servo_id: ServoId
    direction: Direction = -1
    reverse_mode: bool = False
    centre_count: int | None = None


@dataclass(frozen=True)
class WiredServo:
    """One servo on the bus, with the settings that robot.yaml requires.

    Attributes:
        servo_id: ID of the servo.
        axis: index of its joint.
        joint: name of its joint.
        model_name: name of its model under `servos` in robot.yaml.
        model_number: model number in its answer to a ping.
        reverse_mode: whether the servo counts backwards (bit 0 of its drive mode).
        direction: sign of its registers relative to the joint's first servo, 1 or -1.
        centre_count: position register at which the joint's angle is zero.
        obeys: secondary ID, which is the ID of a servo whose commands this servo also executes; None without one.
        first: whether this is the joint's first servo, whose readings are used for the joint.
    """

    servo_id: int
    axis: int
    joint: str
    model_name: str
    model_number: int
    reverse_mode: bool
    direction: int = 1
    centre_count: int = 2048
    obeys: int | None = None
    first: bool = True

    @property
    def label(self) -> str:
        """Description of the servo for messages, such as "servo 3 (elbow, shadow)"."""
        role = "" if self.first else f", {'shadow' if self.obeys is not None else 'pair'}"
        return f"servo {self.servo_id} ({self.joint}{role})"


def names_another_model(name: str, servo: ServoModel) -> str:
    """Return an error sentence if the name of a servo model contradicts its model number, else ''."""
    named, numbered = dynamixel_named(name), servo.known
    if named is None or named.number == servo.model_number:
        return ""
    if numbered is not None and _kind(named) == _kind(numbered):
        return ""  # siblings with the same units, such as XH430-W350 and XD430-T350
    other = "no model that dynid knows" if numbered is None else f"that of {numbered}"
    return (
        f"servos.{name}: model_number {servo.model_number} is {other}, but {named} reports {named.number}: correct "
        "one of the two"
    )


def _kind(model: Dynamixel) -> tuple[object, ...]:
    return model.current_unit_a, model.limits, model.gear_ratio


def undrivable_number(label: str, model_number: int) -> Iterator[str]:
    """Yield the reasons why a servo model cannot be driven: it is unknown, or has no current control."""
    known = DYNAMIXELS.get(model_number)
    if known is None:
        yield (
            f"{label} has model number {model_number}, which dynid does not know, so the unit of its current "
            "is unknown: choose a model with current control that docs/servos.md lists"
        )
    elif not known.has_current_control:
        yield f"{label} is {known.name}, which has no current control: dynid drives arms by their servos' currents"


def mismatch_deg(servo: WiredServo, first: WiredServo, position: int, first_position: int) -> float:
    """Return a servo's position minus the position that is expected from its joint's first servo [deg].

    Positions are angles of the servo's shaft. Their difference is reduced by whole turns to within half a turn.

    Args:
        servo: the servo.
        first: the first servo of its joint.
        position: position register of the servo [counts].
        first_position: position register of the first servo [counts].
    """
    wanted = servo.centre_count + servo.direction * (first_position - first.centre_count)
    return 360.0 / TURN_COUNTS * within_half_turn(position - wanted)


def within_half_turn(counts: float) -> float:
    """Reduce an encoder angle [counts] by whole turns to the range of plus or minus half a turn."""
    half = TURN_COUNTS // 2
    return (counts + half) % TURN_COUNTS - half
