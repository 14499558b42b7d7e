"""Trajectories from YAML files of the user, with waypoints at which the arm stops, or with points in time."""

from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Discriminator, Field, RootModel, Tag, model_validator

from dynid.errors import ConfigurationError
from dynid.resources import load_validated, refuse_existing, write_whole, yaml_text
from dynid.robot import FloatArray, NonNegative, Strict
from dynid.trajectory.excitation_schema import WaypointMotion
from dynid.trajectory.families import DEFAULT_PROFILE, Excitation
from dynid.trajectory.motion import Motion
from dynid.trajectory.polynomial import PolynomialTrajectory, through_points
from dynid.trajectory.trajectory import Trajectory

SUFFIXES = (".yaml", ".yml")
Row = tuple[float, ...]
# The name becomes a bag's name, so it must not lead to another folder: letters, digits, and . _ + - after the first.
Name = Annotated[str, Field(pattern=r"^(\w[\w.+-]*)?$", max_length=100)]
MOST_POINTS, LONGEST_S = 20_000, 3600.0  # largest number of points, and longest duration [s]; both limit memory


class WaypointFile(WaypointMotion):
    """Schema of a trajectory file that contains waypoints at which the arm stops, and a speed factor."""

    schema_version: Literal[1]
    name: Name = ""


class TimedPoint(Strict):
    """Point of a trajectory file: state of the joints at one time, as in trajectory_msgs/JointTrajectoryPoint."""

    time_s: NonNegative
    positions_rad: Row
    velocities_rad_s: Row | None = None
    accelerations_rad_s2: Row | None = None


class PointFile(Strict):
    """Schema of a trajectory file with timed points; joints that the file does not name keep their position."""

    schema_version: Literal[1]
    name: Name = ""
    joint_names: Annotated[tuple[str, ...], Field(min_length=1)]
    points: Annotated[tuple[TimedPoint, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _uniform(self) -> "PointFile":
        for key in ("velocities_rad_s", "accelerations_rad_s2"):
            if len({getattr(point, key) is None for point in self.points}) > 1:
                raise ValueError(f"{key} must be given for every point or for none")
        return self


def _kind(value: object) -> str:
    return "points" if isinstance(value, dict) and "points" in value else "waypoints"


class _TrajectoryFile(
    RootModel[
        Annotated[Annotated[WaypointFile, Tag("waypoints")] | Annotated[PointFile, Tag("points")], Discriminator(_kind)]
    ]
):
    """Schema of a trajectory file, with waypoints or with timed points."""


def is_file_name(name: str) -> bool:
    """Return whether a trajectory's name is a path to a file instead of a name in excitation.yaml."""
    return name.endswith(SUFFIXES)


def spread(
    all_joints: tuple[str, ...], hold: FloatArray, joints: tuple[str, ...], rows: FloatArray | None, *, still: bool
) -> FloatArray | None:
    """Expand values (k, m) of some joints at k points to values (k, n) of all joints, in the robot's order.

    Args:
        all_joints: names of the robot's joints, (n,).
        hold: positions for the joints that have no values, (n,) [rad].
        joints: names of the joints that have values, (m,).
        rows: values, (k, m) [rad, rad/s or rad/s^2]; None is returned as None.
        still: whether joints without values get zeros (for velocities and accelerations) instead of `hold`.

    Raises:
        ConfigurationError: the robot lacks a joint, a joint is named twice, or `rows` does not have m columns.
    """
    unknown = [name for name in joints if name not in all_joints]
    if unknown or len(set(joints)) != len(joints):
        raise ConfigurationError(
            f"the trajectory names the joints {', '.join(joints)}; expected each at most once, of "
            f"{', '.join(all_joints)}"
        )
    if rows is None:
        return None
    if rows.ndim != 2 or rows.shape[1] != len(joints):
        raise ConfigurationError(f"the trajectory has rows of shape {rows.shape} for {len(joints)} joints")
    full = np.tile(np.zeros(len(all_joints)) if still else hold, (len(rows), 1))
    full[:, [all_joints.index(name) for name in joints]] = rows
    return full


def spread_points(
    name: str,
    all_joints: tuple[str, ...],
    hold: FloatArray,
    joints: tuple[str, ...],
    times: FloatArray,
    positions: FloatArray,
    velocities: FloatArray | None = None,
    accelerations: FloatArray | None = None,
) -> PolynomialTrajectory:
    """Return a trajectory of all n joints through timed points of m joints; the other joints keep their position.

    Args:
        name: name of the trajectory.
        all_joints: names of the robot's joints, (n,).
        hold: positions of the joints without points, (n,) [rad].
        joints: names of the joints with points, (m,).
        times: times of the points, (K,) [s].
        positions: positions at these times, (K, m) [rad].
        velocities: velocities at these times, (K, m) [rad/s], if given.
        accelerations: accelerations at these times, (K, m) [rad/s^2], if given.

    Raises:
        ConfigurationError: a joint is unknown or named twice, the points are not valid (see `through_points`), there
            are more than `MOST_POINTS` points, or a time is beyond `LONGEST_S`.
    """
    if len(times) > MOST_POINTS:
        raise ConfigurationError(
            f"trajectory '{name}' has {len(times)} points, expected at most {MOST_POINTS}: split it"
        )
    if not np.all(np.abs(times) <= LONGEST_S):
        longest = np.abs(times).max()
        raise ConfigurationError(
            f"trajectory '{name}' lasts {longest:.0f} s, expected at most {LONGEST_S:.0f} s: split it"
        )
    q = spread(all_joints, hold, joints, positions, still=False)
    assert q is not None
    return through_points(
        name,
        all_joints,
        times,
        q,
        spread(all_joints, hold, joints, velocities, still=True),
        spread(all_joints, hold, joints, accelerations, still=True),
    )


def _array(file: Path, rows: list[Row | None], key: str) -> FloatArray | None:
    present = [row for row in rows if row is not None]
    if not present:
        return None
    if len({len(row) for row in present}) > 1:
        raise ConfigurationError(
            f"{file}: {key} have {sorted({len(row) for row in present})} entries; expected one count"
        )
    return np.array(present)


def load_trajectory_file(path: Path, excitation: Excitation, hold: FloatArray) -> Motion:
    """Load a trajectory from a YAML file.

    Args:
        path: the file; its stem is the trajectory's name unless the file gives one.
        excitation: excitation.yaml of the robot, whose velocity and acceleration limits apply between waypoints.
        hold: positions of joints that the file does not name, (n,) [rad].

    Raises:
        InputNotFoundError: the file does not exist.
        ConfigurationError: the file is not valid, or has joints that the robot lacks. The message names file and field.
    """
    content = load_validated(path, _TrajectoryFile).root
    name = content.name or path.stem
    if isinstance(content, WaypointFile):
        return excitation.through_waypoints(name, content)
    points = content.points
    return spread_points(
        name,
        excitation.robot.joint_names,
        hold,
        content.joint_names,
        np.array([point.time_s for point in points]),
        np.array(_array(path, [point.positions_rad for point in points], "positions_rad")),
        _array(path, [point.velocities_rad_s for point in points], "velocities_rad_s"),
        _array(path, [point.accelerations_rad_s2 for point in points], "accelerations_rad_s2"),
    )


def save_trajectory_file(path: Path, motion: PolynomialTrajectory, positions: FloatArray) -> None:
    """Write a motion as a trajectory file with timed points, without velocities.

    Args:
        path: the file.
        motion: the motion; its name, joints and knots (times of the points) are written.
        positions: positions of the points, that is, at the k knots of the motion, (k, n) [rad].

    Raises:
        OutputExistsError: the file exists.
    """
    rows = zip(np.round(motion.knots, 6).tolist(), np.round(positions, 7).tolist(), strict=True)
    points = tuple(TimedPoint(time_s=t, positions_rad=tuple(row)) for t, row in rows)
    content = PointFile(schema_version=1, name=motion.name, joint_names=motion.joint_names, points=points)
    text = yaml_text(content.model_dump(mode="json", exclude_none=True))
    refuse_existing(path)
    write_whole(path, text)


def save_stops(path: Path, motion: Trajectory) -> None:
    """Write a trajectory file with the waypoints of a motion as timed points; all joints are at rest at waypoints.

    Raises:
        OutputExistsError: the file exists.
    """
    still = (0.0,) * len(motion.joint_names)
    points = tuple(
        TimedPoint(time_s=t, positions_rad=tuple(row), velocities_rad_s=still, accelerations_rad_s2=still)
        for t, row in zip(np.round(motion.knots, 6).tolist(), motion.waypoints.tolist(), strict=True)
    )
    content = PointFile(schema_version=1, name=motion.name, joint_names=motion.joint_names, points=points)
    refuse_existing(path)
    write_whole(path, yaml_text(content.model_dump(mode="json")))


def named_motion(excitation: Excitation, name: str, profile: str = DEFAULT_PROFILE) -> Motion:
    """Return a trajectory by its name or from a YAML file; joints that a file does not name stay at the rest posture.

    Raises:
        UnknownNameError: the trajectory or the profile does not exist.
        InputNotFoundError, ConfigurationError: the file does not exist, or is not valid.
        SafetyError: a named trajectory leaves its profile's limits.
    """
    if is_file_name(name):
        return load_trajectory_file(Path(name), excitation, excitation.robot.rest_posture)
    return excitation.trajectory(name, profile)
