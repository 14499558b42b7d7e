"""Named trajectories of a robot, built from its excitation.yaml.

The structure is that of arXiv:2605.15949 (Table II, Appendix B): patterns of primitives at nominal postures and speed
levels, their concatenations, and multi-axis motions through explicit waypoints.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dynid.errors import ConfigurationError, InputNotFoundError, UnknownNameError
from dynid.resources import load_validated
from dynid.robot import FloatArray, Robot, read_only
from dynid.trajectory import excitation_schema as schema
from dynid.trajectory.primitives import primitive
from dynid.trajectory.trajectory import Trajectory, concatenate, through

DEFAULT_PROFILE = "limited"
# speed factor of the moves between the parts of a concatenation [-]
JOINING_FACTOR = 0.3


class Excitation:
    """Named trajectories of one robot, each available in several variants (profiles) with their own limits.

    A named trajectory is checked against the limits of its profile before it is returned.

    Args:
        file: content of excitation.yaml.
        robot: the robot.
    """

    def __init__(self, file: schema.ExcitationFile, robot: Robot) -> None:
        self.file = file
        self.robot = robot
        if len(file.velocity_rad_s) != robot.size:
            raise ConfigurationError(
                f"excitation of robot '{robot.name}' is for {len(file.velocity_rad_s)} axes; the robot has {robot.size}"
            )
        self._velocity = read_only(file.velocity_rad_s)
        self._acceleration = read_only(file.acceleration_rad_s2)

    @property
    def names(self) -> tuple[str, ...]:
        """All trajectory names, in the order of the file."""
        return tuple(self.file.trajectories)

    @property
    def profiles(self) -> tuple[str, ...]:
        """Names of the profiles, that is, of the variants in which all trajectories are available."""
        return tuple(self.file.profiles)

    @property
    def acceleration_limits(self) -> FloatArray:
        """Acceleration limits (n,) [rad/s^2] of the trajectories at a speed factor of 1."""
        return self._acceleration

    def limits(self, profile: str = DEFAULT_PROFILE) -> tuple[FloatArray, FloatArray]:
        """Return the lower and upper position limits of a profile, (n,) each [rad], narrowed by the profile's margin.

        Raises:
            UnknownNameError: the profile does not exist.
        """
        settings = self._profile(profile)
        lower, upper = np.rad2deg(self.robot.lower), np.rad2deg(self.robot.upper)
        for number, (low, high) in settings.joint_limits_deg.items():
            lower[number - 1], upper[number - 1] = low, high
        margin = np.where(self.robot.prismatic, settings.margin_m, np.deg2rad(settings.margin_deg))
        return read_only(np.deg2rad(lower) + margin), read_only(np.deg2rad(upper) - margin)

    def trajectory(self, name: str, profile: str = DEFAULT_PROFILE) -> Trajectory:
        """Return one variant of a named trajectory, for all n axes.

        Args:
            name: one of `names`.
            profile: name of the variant, one of `profiles`. For a real arm, choose a profile whose joint limits lie
                within those of the arm.

        Raises:
            UnknownNameError: the trajectory or the profile does not exist.
            SafetyError: the trajectory leaves the profile's joint limits or the robot's velocity limits.
        """
        trajectory = self._build(name, profile)
        lower, upper = self.limits(profile)
        trajectory.check_limits(lower, upper, self.robot.velocity_limits)
        return trajectory

    def _profile(self, name: str) -> schema.Profile:
        if name not in self.file.profiles:
            raise UnknownNameError("trajectory profile", name, self.profiles)
        return self.file.profiles[name]

    def _build(self, name: str, profile: str) -> Trajectory:
        self._profile(profile)
        if name not in self.file.trajectories:
            raise UnknownNameError("trajectory", name, self.names)
        motion = self.file.trajectories[name]
        if isinstance(motion, schema.Concatenation):
            parts = [
                self._build(part, profile) if isinstance(part, str) else self._pattern(name, part, profile)
                for part in motion.concatenate
            ]
            return concatenate(name, parts, JOINING_FACTOR * self._velocity, JOINING_FACTOR * self._acceleration)
        if isinstance(motion, schema.WaypointMotion):
            return self.through_waypoints(name, motion)
        return self._pattern(name, motion, profile)

    def through_waypoints(self, name: str, motion: schema.WaypointMotion) -> Trajectory:
        """Return a multi-axis trajectory through waypoints, not yet checked against any limit.

        Args:
            name: name of the trajectory.
            motion: the waypoints with speed factor and pause.

        Raises:
            ConfigurationError: waypoints and robot differ in their number of axes.
        """
        widths = {len(row) for row in motion.rows}
        if widths != {self.robot.size}:
            raise ConfigurationError(
                f"trajectory '{name}' has waypoints of {', '.join(map(str, sorted(widths)))} entries; robot "
                f"'{self.robot.name}' has {self.robot.size} axes"
            )
        points = np.array(motion.rows) if motion.waypoints_deg is None else np.deg2rad(motion.rows)
        return self._through(name, points, [motion.speed_factor] * (len(points) - 1), motion.dwell_s)

    def _pattern(self, name: str, motion: schema.PatternMotion, profile: str) -> Trajectory:
        settings = self._profile(profile)
        level = self.file.levels.index(motion.level)
        nominal = np.deg2rad(self.file.postures_deg[motion.posture])
        points, factors = [nominal], []
        for step in self.file.patterns[motion.pattern]:
            posture, row = nominal.copy(), motion.posture
            if step.wrist:
                posture[self.file.wrist_variant.joint - 1] += np.deg2rad(settings.wrist_offset_deg)
                row += schema.WRIST_SUFFIX
            amplitudes = _both_sides(settings.amplitudes_deg[row])
            corners = primitive(posture, [j - 1 for j in step.joints], amplitudes, step.signs)
            points.extend(corners)
            factor = settings.speed_scale * self.file.speed_factors[step.speed][level]
            factors += [factor] * len(corners)
        points.append(nominal)
        factors.append(factors[-1])
        return self._through(name, np.array(points), factors, 0.0)

    def _through(self, name: str, points: FloatArray, factors: Sequence[float], dwell: float) -> Trajectory:
        return through(name, self.robot.joint_names, points, self._velocity, self._acceleration, factors, dwell)


def _both_sides(row: tuple[schema.Amplitude, ...]) -> FloatArray:
    """Return the amplitudes of primitives in negative and positive direction, (n, 2) [rad].

    Args:
        row: amplitude of each joint [deg]; a single number counts for both directions.
    """
    return np.deg2rad([pair if isinstance(pair, tuple) else (pair, pair) for pair in row])


def load_excitation(robot: Robot, path: Path | None = None) -> Excitation:
    """Load the named trajectories of a robot from its excitation.yaml, or from another file of the same schema.

    Raises:
        InputNotFoundError: the file does not exist.
        ConfigurationError: the file is not valid, or is for another number of axes.
    """
    own = robot.folder / "excitation.yaml"
    if path is None and not own.exists():
        raise InputNotFoundError(f"no such file: {own}; `dynid robot motions {robot.folder}` drafts it")
    return Excitation(load_validated(path or own, schema.ExcitationFile), robot)
