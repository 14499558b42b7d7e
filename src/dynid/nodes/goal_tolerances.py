"""Tolerances of a FollowJointTrajectory goal, and their check with the messages of driver and executor.

Values have the same meaning as in ros2_controllers. 0 means that the goal states no limit; the arm's own limits apply.
-1 allows every deviation. All other values are limits [rad, rad/s].
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dynid.errors import ConfigurationError
from dynid.nodes.common import seconds
from dynid.recording.messages import JOINT_STATE, JOINT_TRAJECTORY, decode, header_stamp_ns
from dynid.robot import FloatArray

NO_LIMIT = -1.0
STANDSTILL_RAD_S = 1e-6
KEPT_STATES = 64  # states kept until the reference that was computed from them arrives
UNITS = {"position": "rad", "velocity": "rad/s"}


@dataclass(frozen=True)
class Tolerances:
    """Tolerances of a FollowJointTrajectory goal, along its path and at its end.

    Attributes:
        path: limits along the path by quantity ("position" [rad] or "velocity" [rad/s]) and joint name.
        goal: limits at the end of the path, by quantity and joint name.
        goal_time_s: time after the end of the trajectory within which the arm must reach the goal [s]; 0 means
            that the node chooses the time.
    """

    path: Mapping[tuple[str, str], float]
    goal: Mapping[tuple[str, str], float]
    goal_time_s: float

    @classmethod
    def of(cls, request: Any) -> "Tolerances":
        """Return the tolerances that a FollowJointTrajectory goal contains.

        Raises:
            ConfigurationError: a tolerance is for a joint that the trajectory does not move, or for an acceleration,
                which is not measured. Or its value is neither positive, nor 0 (not specified), nor -1 (no limit).
        """
        joints = tuple(request.trajectory.joint_names)
        return cls(
            _limits(request.path_tolerance, "path", joints),
            _limits(request.goal_tolerance, "goal", joints),
            max(0.0, seconds(request.goal_time_tolerance)),
        )


def _limits(given: Sequence[Any], kind: str, joints: Sequence[str]) -> dict[tuple[str, str], float]:
    found = {}
    for one in given:
        if one.name not in joints:
            raise ConfigurationError(f"the {kind} tolerance names '{one.name}', which is no joint of the trajectory")
        if one.acceleration > 0.0:
            raise ConfigurationError(
                f"the {kind} tolerance of '{one.name}' limits its acceleration, which is not measured: leave it at 0"
            )
        for quantity in UNITS:
            limit = float(getattr(one, quantity))
            if not np.isfinite(limit) or (limit < 0.0 and limit != NO_LIMIT):
                raise ConfigurationError(
                    f"the {kind} tolerance of '{one.name}' has {quantity} {limit:g}, expected a limit, 0 or -1"
                )
            if limit > 0.0:
                found[quantity, one.name] = limit
    return found


@dataclass(frozen=True)
class Moment:
    """Reference and measured state of one control cycle.

    Attributes:
        joints: names of the n joints.
        desired: reference by quantity, "position" [rad] and "velocity" [rad/s], (n,) each in the order of `joints`.
        actual: measured state by quantity, like `desired`.
    """

    joints: tuple[str, ...]
    desired: Mapping[str, FloatArray]
    actual: Mapping[str, FloatArray]


class GoalMonitor:
    """Monitor of one goal's tolerances, which compares each reference with the state from which it was computed.

    Args:
        request: the FollowJointTrajectory goal.

    Raises:
        ConfigurationError: a tolerance is not valid, see `Tolerances.of`, or the last point does not have one position
            per joint.
    """

    def __init__(self, request: Any) -> None:
        self.tolerances = Tolerances.of(request)
        points, self._joints = request.trajectory.points, tuple(request.trajectory.joint_names)
        self._end = np.array(points[-1].positions if points else (), dtype=float)
        if len(self._end) != len(self._joints):
            raise ConfigurationError(f"the last point has {len(self._end)} positions for {len(self._joints)} joints")
        self._states: dict[int, bytes] = {}
        self._reference = b""

    def on_state(self, raw: bytes) -> None:
        """Store a serialized `joint_states` message; drop the oldest one if more than `KEPT_STATES` are stored."""
        self._states[header_stamp_ns(raw)] = raw
        if len(self._states) > KEPT_STATES:
            del self._states[next(iter(self._states))]

    def on_reference(self, raw: bytes) -> None:
        """Store a serialized `reference` message, whose timestamp is that of the state from which it was computed."""
        self._reference = raw

    def unknown_joints(self) -> tuple[str, ...]:
        """Return the names of the goal's joints that the last `joint_states` does not contain; () before the first."""
        if not self._states:
            return ()
        names = decode(next(reversed(self._states.values())), JOINT_STATE).name
        return tuple(one for one in self._joints if one not in names)

    def braking(self) -> bool:
        """Return whether the last reference of the executor still has a velocity other than zero."""
        if not self._reference:
            return False
        return bool(np.abs(decode(self._reference, JOINT_TRAJECTORY).points[0].velocities).max() > STANDSTILL_RAD_S)

    def moment(self) -> Moment | None:
        """Return the last reference with the state from which it was computed; None if either is missing."""
        state = self._states.get(header_stamp_ns(self._reference)) if self._reference else None
        if state is None:
            return None
        reference, measured = decode(self._reference, JOINT_TRAJECTORY), decode(state, JOINT_STATE)
        names, point = reference.joint_names, reference.points[0]
        return Moment(
            self._joints,
            {"position": self._of(names, point.positions), "velocity": self._of(names, point.velocities)},
            {key: self._of(measured.name, getattr(measured, key)) for key in UNITS},
        )

    def _of(self, names: Sequence[str], values: Sequence[float]) -> FloatArray:
        """Return values in the order of the goal's joints, (n,) in any unit; NaN for a joint without a value.

        Args:
            names: names of the joints in the order of `values`.
            values: one value per joint.
        """
        by_name = dict(zip(names, values, strict=False))
        return np.array([by_name.get(one, np.nan) for one in self._joints])

    def off_path(self, moment: Moment | None) -> str:
        """Return a sentence about the first path tolerance that the arm violates; "" if it keeps all.

        `moment` is the present reference and state. Before the first reference it is None, which violates no tolerance.
        """
        return "" if moment is None else _first_beyond(self.tolerances.path, moment, moment.desired, "path")

    def off_goal(self, moment: Moment | None) -> str:
        """Return a sentence about the first goal tolerance that the arm violates; "" if it keeps all.

        The goal is the position of the trajectory's last point, at zero velocity. `moment` is the present reference and
        state. If no reference with its state was received, `moment` is None, and any goal tolerance counts as violated.
        """
        if moment is None:
            return "no state of the arm was received" if self.tolerances.goal else ""
        end = {"position": self._end, "velocity": np.zeros(len(self._joints))}
        return _first_beyond(self.tolerances.goal, moment, end, "goal")


def _first_beyond(
    limits: Mapping[tuple[str, str], float], moment: Moment, desired: Mapping[str, FloatArray], kind: str
) -> str:
    for (quantity, joint), limit in limits.items():
        index = moment.joints.index(joint)
        error = abs(float(moment.actual[quantity][index] - desired[quantity][index]))
        if not error <= limit:  # NaN, not measured, violates the limit, too
            unit = UNITS[quantity]
            return (
                f"{quantity} of '{joint}' is {error:.4g} {unit} off, more than the {kind} tolerance of {limit:g} {unit}"
            )
    return ""
