"""Matching of servos and joints: a servo moves a joint if only this servo turned while the user moved the joint."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dynid.errors import ConfigurationError, DataError
from dynid.hardware.bus.control_table import POSITION_RAD_PER_COUNT, IntArray
from dynid.hardware.startup.hand_motions import HandMotions, RecordedServo, unwrapped
from dynid.hardware.startup.standstill import moving_ranges
from dynid.robot import FloatArray, Robot, read_only

MOVED_DEG = 10.0  # minimum motion of a joint that counts as evidence [deg]
ALONE_FACTOR = 3.0  # minimum ratio of a servo's motion to that of any other servo, and to its own opposite motion
BEYOND_RANGE_DEG = 20.0  # motion beyond a joint's whole range that no limit stop explains [deg]
STILL_DEG = 1.0  # largest motion of an arm that is held still [deg]
FOLLOWING_SHARE = 0.1  # tolerance between the motions of servos of one joint, as a share of the motion
DEG_PER_COUNT = float(np.rad2deg(POSITION_RAD_PER_COUNT))


@dataclass(frozen=True)
class Follower:
    """A servo that moves a joint together with the joint's first servo.

    There are two kinds. A shadow executes the commands of the first servo, because its secondary ID is the ID of that
    servo. A paired servo gets its own commands and is listed under `paired` in robot.yaml.

    Attributes:
        index: index of the servo, its column in the recording.
        direction: sign of the servo's registers relative to those of the first servo, 1 or -1.
        shadow: whether the servo is a shadow; if not, it is a paired servo.
    """

    index: int
    direction: int
    shadow: bool


@dataclass(frozen=True)
class Evidence:
    """Finding that a servo moves a joint: it turned while the user moved this joint in its positive direction.

    Attributes:
        axis: index of the joint.
        index: index of the servo, its column in the recording.
        turned_deg: signed motion of the servo's position register [deg].
        followers: other servos of the joint, which turn together with this one.
    """

    axis: int
    index: int
    turned_deg: float
    followers: tuple[Follower, ...]


class Matcher:
    """Evaluator of hand motions that finds which servo moves which joint.

    Args:
        robot: joints in order, with limits and gear ratios; servo IDs may be missing or wrong.
        servos: the m servos on the line.

    Attributes:
        robot: the robot.
        servos: the m servos on the line.
        followers: dictionary for joints with several servos. The key is the index of the joint's first servo; the value
            lists the other servos of this joint.

    Raises:
        ConfigurationError: a joint is prismatic, or the joints are coupled, so that one joint turns several servos.
        DataError: a servo obeys a servo that itself obeys another servo, or the first servo of a joint has a homing
            offset, which shifts its zero.
    """

    def __init__(self, robot: Robot, servos: Sequence[RecordedServo]) -> None:
        refuse_unmatchable(robot)
        self.robot, self.servos = robot, tuple(servos)
        self._index = {one.servo_id: index for index, one in enumerate(self.servos)}
        self.followers = self._followers()
        self._second = {one.index for group in self.followers.values() for one in group}
        for index, one in enumerate(self.servos):
            if one.homing_offset and index not in self._second:
                raise DataError(
                    f"servo {one.servo_id} has homing offset {one.homing_offset}, which shifts its zero: set it to 0 "
                    "first, with DYNAMIXEL Wizard"
                )

    def _followers(self) -> dict[int, tuple[Follower, ...]]:
        """Return the dictionary `followers`, which maps a joint's first servo to the other servos of this joint."""
        found: dict[int, list[Follower]] = {}
        for index, one in enumerate(self.servos):
            first = self._index.get(-1 if one.obeys is None else one.obeys, index)
            if first == index:
                continue
            if self.servos[first].obeys in self._index:
                raise DataError(
                    f"servo {one.servo_id} obeys servo {one.obeys}, which obeys servo {self.servos[first].obeys}: one "
                    "servo of a joint commands all others; correct their secondary IDs"
                )
            found.setdefault(first, []).append(Follower(index, 1, shadow=True))
        for joint in self.robot.file.joints:
            first = self._index.get(-1 if joint.servo_id is None else joint.servo_id, -1)
            for pair in joint.paired:
                if first >= 0 and pair.servo_id in self._index:
                    own = Follower(self._index[pair.servo_id], pair.direction, shadow=False)
                    found.setdefault(first, []).append(own)
        return {first: tuple(group) for first, group in found.items()}

    def label(self, axis: int) -> str:
        """Return number and name of the joint with index `axis` as text."""
        return f"joint {axis + 1} ({self.robot.joint_names[axis]})"

    def joint(self, axis: int, counts: IntArray, before: Sequence[Evidence] = ()) -> Evidence:
        """Find the servo that turned while the user moved a joint, as evidence that this servo moves this joint.

        Args:
            axis: index of the joint that the user was asked to move.
            counts: positions of all servos during the motion, (N, m) [counts].
            before: evidence found for other joints; their servos are refused for this joint.

        Raises:
            DataError: the evidence is ambiguous; the message says why and what to do.
        """
        up, down = _turned(counts)
        size = np.maximum(up, down)
        index = self._largest(size)
        self._refuse_too_small(axis, index, size)
        self._refuse_company(axis, index, size, up > down)
        name, servo = self.label(axis), f"servo {self.servos[index].servo_id}"
        if size[index] < ALONE_FACTOR * min(up[index], down[index]):
            raise DataError(
                f"{name} was moved both ways: {servo} turned by +{up[index]:.0f} and -{down[index]:.0f} deg; move it "
                "in its positive direction only, and from there back at most to where it was"
            )
        if other := [one for one in before if one.index == index and one.axis != axis]:
            raise DataError(
                f"{servo} turned at {name}, and it turned at {self.label(other[0].axis)} before: move the joints in "
                "their order, each one alone"
            )
        turned = up[index] if up[index] > down[index] else -down[index]
        found = Evidence(axis, index, float(turned), self.followers.get(index, ()))
        for follower in found.followers:
            self._refuse_loose(found, follower, float(up[follower.index]), float(down[follower.index]))
        return found

    def leader(self, counts: IntArray) -> int:
        """Return the index of the servo that turned most, among the first servos of all joints.

        `counts` are positions of all servos, (N, m) [counts].
        """
        return self._largest(np.maximum(*_turned(counts)))

    def _largest(self, size: FloatArray) -> int:
        first = np.array([index not in self._second for index in range(len(self.servos))])
        return int(np.argmax(np.where(first, size, -1.0)))

    def _refuse_too_small(self, axis: int, index: int, size: FloatArray) -> None:
        """Raise DataError if a joint's motion is too small to be recognised, or larger than the joint's range.

        It is too small below `MOVED_DEG`. Both limits are converted to angles of the servo by the gear ratio.

        Args:
            axis: index of the joint.
            index: index of the servo that turned most.
            size: motion of each servo, (m,) [deg].
        """
        joint, name, servo = self.robot.file.joints[axis], self.label(axis), self.servos[index].servo_id
        turned, gear = float(size[index]), abs(joint.gear_ratio)
        if turned < MOVED_DEG * gear:
            raise DataError(
                f"no servo turned by {MOVED_DEG * gear:.0f} deg while {name} was to be moved (most: servo {servo}, "
                f"{turned:.1f} deg): move it by some 20 deg; if it was moved, its servo is not on this line"
            )
        most = (float(joint.upper_deg or 0.0) - float(joint.lower_deg or 0.0) + BEYOND_RANGE_DEG) * gear
        if turned > most:
            raise DataError(
                f"servo {servo} turned by {turned:.0f} deg while {name} was to be moved, and its range is "
                f"{most - BEYOND_RANGE_DEG * gear:.0f} deg at the servo: another joint was moved, or its limits or "
                "gear_ratio in robot.yaml are wrong"
            )

    def _refuse_company(self, axis: int, index: int, size: FloatArray, upward: "np.ndarray") -> None:
        """Raise DataError if servos of other joints also turned.

        Args:
            axis: index of the joint that the user was asked to move.
            index: index of the servo that turned most.
            size: motion of each servo, (m,) [deg].
            upward: mask of the servos whose register turned upwards, (m,).
        """
        own = {index, *(one.index for one in self.followers.get(index, ()))}
        others = [one for one in np.argsort(-size) if int(one) not in own]
        if not others or size[index] >= ALONE_FACTOR * size[others[0]]:
            return
        texts = [
            f"servo {self.servos[one].servo_id} ({'+' if upward[one] else '-'}{size[one]:.0f} deg)"
            for one in (index, int(others[0]))
        ]
        raise DataError(
            f"{' and '.join(texts)} turned while {self.label(axis)} was to be moved alone: hold the other joints, and "
            "move it again; if both servos move this joint, name the second one under paired of the joint in robot.yaml"
        )

    def _refuse_loose(self, found: Evidence, follower: Follower, up: float, down: float) -> None:
        """Raise DataError if a further servo of a joint does not match the motion of the joint's first servo.

        It must have turned by about the same angle, in the direction that its data state. A shadow, which executes the
        commands of the first servo, must also have the opposite reverse mode.

        Args:
            found: motion of the first servo.
            follower: the further servo.
            up: largest motion of the further servo above its start [deg].
            down: largest motion of the further servo below its start [deg].
        """
        first, second = self.servos[found.index], self.servos[follower.index]
        turned = up if up > down else -down
        names = f"servo {second.servo_id} {'obeys' if follower.shadow else 'is paired with'} servo {first.servo_id}"
        if abs(abs(turned) - abs(found.turned_deg)) > FOLLOWING_SHARE * abs(found.turned_deg):
            cure = "clear its secondary ID" if follower.shadow else "correct paired in robot.yaml"
            raise DataError(
                f"{names}, but turned by {turned:+.1f} deg where that turned by {found.turned_deg:+.1f} deg: it does "
                f"not move {self.label(found.axis)}; {cure}, or check its horn"
            )
        if turned * found.turned_deg * follower.direction < 0.0:
            cure = "correct bit 0 of its drive mode" if follower.shadow else "correct its direction in robot.yaml"
            raise DataError(
                f"{names}, but turned by {turned:+.1f} deg where that turned by {found.turned_deg:+.1f} deg: with "
                f"torque on, they would pull against each other; {cure} before torque comes on"
            )
        if follower.shadow and first.reverse_mode == second.reverse_mode:
            raise DataError(
                f"{names}, and both have the same reverse mode: dynid expects a shadow that faces its first servo, "
                "with the opposite mode; make it a pair: clear its secondary ID and write paired in robot.yaml"
            )

    def pose(self, counts: IntArray) -> FloatArray:
        """Return the mean positions of all servos while the user holds the known pose, (m,) [counts].

        `counts` are the positions of all servos in this time, (N, m) [counts].

        Raises:
            DataError: the arm was not held still.
        """
        positions = unwrapped(counts)
        moved = np.ptp(positions, axis=0) * DEG_PER_COUNT
        index = int(np.argmax(moved))
        if moved[index] > STILL_DEG:
            raise DataError(
                f"servo {self.servos[index].servo_id} turned by {moved[index]:.1f} deg while the pose was read: hold "
                "the arm still for a second"
            )
        return np.asarray(positions.mean(axis=0))


def refuse_unmatchable(robot: Robot) -> None:
    """Raise an error for a robot whose servos cannot be matched to joints by moving one joint at a time.

    Raises:
        ConfigurationError: a joint is prismatic, or the joints are coupled, so that one joint turns several servos.
    """
    if sliding := [name for name, slides in zip(robot.joint_names, robot.prismatic, strict=True) if slides]:
        raise ConfigurationError(
            f"joint {sliding[0]} of {robot.name} slides: dynid matches and drives revolute joints only"
        )
    if robot.file.coupling is not None:
        raise ConfigurationError(
            f"{robot.name} has a coupling: moving one joint by hand turns several servos, so they cannot be matched; "
            "write servo_id and direction by hand, and do the sign test"
        )


def _turned(counts: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return the largest motion of each servo above and below its first position, (m,) each [deg].

    `counts` are positions of all servos, (N, m) [counts].
    """
    positions = unwrapped(counts)
    away = (positions - positions[0]) * DEG_PER_COUNT
    return np.asarray(away.max(axis=0)), np.asarray(-away.min(axis=0))


def match_recording(robot: Robot, motions: HandMotions) -> tuple[list[Evidence], FloatArray]:
    """Find the servo of each joint in a recording of hand motions.

    Returns:
        The evidence for each of the n joints, and the positions of all m servos in the known pose, (m,) [counts].

    Raises:
        ConfigurationError: the robot's servos cannot be matched, see `Matcher`.
        DataError: the number of motions differs from the number of joints, or it is ambiguous which servo moves a
            joint.
    """
    matcher, counts = Matcher(robot, motions.servos), motions.unwrapped
    steps = motions.steps or tuple(find_steps(matcher, motions))
    if len(steps) != robot.size + 1:
        raise DataError(f"the recording has {len(steps)} steps; {robot.name} needs {robot.size} joints and a pose")
    found: list[Evidence] = []
    for axis, (begin, end) in enumerate(steps[:-1]):
        found.append(matcher.joint(axis, counts[begin:end], found))
    return found, matcher.pose(counts[slice(*steps[-1])])


def find_steps(matcher: Matcher, motions: HandMotions) -> Iterator[tuple[int, int]]:
    """Yield the range (first, end) of samples of each joint's motion, then that of the pose at the end.

    The motions in the recording are separated by standstill. The ranges have the format of `HandMotions.steps`.

    Raises:
        DataError: the number of motions differs from the number of joints, or the arm moves at the end.
    """
    time, counts, size = motions.time, motions.unwrapped, matcher.robot.size
    ranges, still_from = moving_ranges(time, read_only(counts * DEG_PER_COUNT))
    leaders = [matcher.leader(counts[begin:end]) for begin, end in ranges]
    first = [k for k, one in enumerate(leaders) if k == 0 or leaders[k - 1] != one]  # a return belongs to its motion
    if len(first) not in (size, size + 1):
        order = ", ".join(str(matcher.servos[leaders[k]].servo_id) for k in first) or "none"
        raise DataError(
            f"the recording has {len(first)} motions (of servos {order}), and {matcher.robot.name} has {size} joints: "
            "move each joint once and alone, in the order of robot.yaml, with a second of standstill before the next; "
            "then bring the arm to the pose and hold it there"
        )
    yield from (ranges[k] for k in first[:size])
    yield still_from, len(time)
