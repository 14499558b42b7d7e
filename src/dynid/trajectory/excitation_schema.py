"""Schema of excitation.yaml, which defines the named trajectories of a robot.

A pattern is a sequence of primitives, motions of one or two joints to both sides of a posture. A trajectory is a
pattern at a posture and a speed, a sequence of other trajectories, or a motion through waypoints. A profile is a
variant of all trajectories, with its own limits and amplitudes.

Joints are counted from 1, as in arXiv:2605.15949 and the arm's documentation. Angles are in degrees if the key ends
with `_deg`.
"""

from collections.abc import Container
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from dynid.robot import NonNegative, Positive, Strict
from dynid.robot.file import Name

JointNumber = Annotated[int, Field(ge=1)]
SpeedFactor = Annotated[float, Field(gt=0, le=1)]
Posture = tuple[float, ...]
# amplitude in both directions, or a pair: amplitude in negative and in positive direction
Amplitude = NonNegative | tuple[NonNegative, NonNegative]
WRIST_SUFFIX = "_wrist"
Reference = tuple[str, str, str, Container[str]]  # field, kind of reference, name, known names


class WristVariant(Strict):
    """Definition of the wrist variants of postures: each differs from a nominal posture in the angle of one joint.

    Attributes:
        joint: number of the differing joint from 1; the profile's `wrist_offset_deg` is added to its angle.
    """

    joint: JointNumber


class PrimitiveStep(Strict):
    """One primitive of a pattern, that is, a motion of one joint or of two adjacent joints to both sides of a posture.

    Attributes:
        joints: numbers of the moving joints from 1.
        signs: direction of each of these joints; None means 1.
        speed: name of a row of the field `speed_factors` in excitation.yaml.
        wrist: whether the primitive is run at the wrist variant of the posture instead of the nominal posture.
    """

    joints: Annotated[tuple[JointNumber, ...], Field(min_length=1, max_length=2)]
    signs: tuple[Literal[-1, 1], ...] | None = None
    speed: str = "normal"
    wrist: bool = False


class Profile(Strict):
    """Limits and amplitudes of one profile, that is, of one variant of all named trajectories.

    Attributes:
        about: description of the profile.
        joint_limits_deg: position limits that replace the robot's, by number of the revolute joint from 1.
        margin_deg: distance that every motion keeps from the limits of revolute joints.
        margin_m: distance that every motion keeps from the limits of prismatic joints.
        wrist_offset_deg: difference of one joint's angle between a posture and its wrist variant, see `WristVariant`.
        speed_scale: factor by which the speed factors of all patterns are multiplied.
        amplitudes_deg: amplitudes of primitives, one row for each posture and one for its wrist variant
            (`<posture>_wrist`); each row has one entry per joint.
    """

    about: str
    joint_limits_deg: dict[int, tuple[float, float]] = {}
    margin_deg: NonNegative = 0.0
    margin_m: NonNegative = 0.0
    wrist_offset_deg: float = 0.0
    speed_scale: Annotated[float, Field(gt=0, le=1)] = 1.0
    amplitudes_deg: dict[str, tuple[Amplitude, ...]] = {}


class PatternMotion(Strict):
    """Definition of a trajectory as a pattern of primitives at a posture and a speed level, each given by its name."""

    posture: str
    pattern: str
    level: str


class Concatenation(Strict):
    """Definition of a trajectory as a sequence of other trajectories, each given by its name or as a pattern."""

    concatenate: Annotated[tuple[str | PatternMotion, ...], Field(min_length=1)]


class WaypointMotion(Strict):
    """Definition of a trajectory as a multi-axis motion through explicit waypoints, the same in every profile.

    Attributes:
        waypoints_deg: postures at which the motion stops [deg].
        waypoints: postures in place of `waypoints_deg` for arms with prismatic joints [rad; m].
        speed_factor: factor by which the velocity and acceleration limits of excitation.yaml are multiplied.
        dwell_s: duration of the pause at every inner waypoint.
    """

    waypoints_deg: Annotated[tuple[Posture, ...], Field(min_length=2)] | None = None
    waypoints: Annotated[tuple[Posture, ...], Field(min_length=2)] | None = None
    speed_factor: SpeedFactor
    dwell_s: NonNegative = 0.0

    @model_validator(mode="after")
    def _one_kind(self) -> "WaypointMotion":
        if (self.waypoints_deg is None) == (self.waypoints is None):
            raise ValueError("give waypoints_deg, or waypoints [rad; m where a joint slides]")
        return self

    @property
    def rows(self) -> tuple[Posture, ...]:
        """Waypoints in the unit of the file: degrees for `waypoints_deg`, rad or m for `waypoints`."""
        return self.waypoints_deg or self.waypoints or ()


def _kind(value: Any) -> str:
    keys = value if isinstance(value, dict) else vars(value)
    return next(
        (key for key in ("concatenate", "waypoints_deg") if key in keys),
        "waypoints_deg" if "waypoints" in keys else "pattern",
    )


Motion = Annotated[
    Annotated[PatternMotion, Tag("pattern")]
    | Annotated[Concatenation, Tag("concatenate")]
    | Annotated[WaypointMotion, Tag("waypoints_deg")],
    Discriminator(_kind),
]


class ExcitationFile(Strict):
    """Content of excitation.yaml, which defines the named trajectories of a robot.

    For prismatic joints, the unit rad stands for m. A file without patterns has neither levels nor postures.

    Attributes:
        schema_version: version of the file's schema.
        velocity_rad_s: velocity limit of each joint at a speed factor of 1.
        acceleration_rad_s2: acceleration limit of each joint at a speed factor of 1.
        levels: names of the speed levels.
        speed_factors: rows of speed factors by name, one factor per level. A factor multiplies velocity and
            acceleration limits.
        postures_deg: nominal postures by name.
        wrist_variant: joint whose angle differs between a posture and its wrist variant.
        patterns: sequences of primitives by name.
        profiles: limits and amplitudes by name of the profile.
        trajectories: definitions of the trajectories by name.
    """

    schema_version: Literal[1]
    velocity_rad_s: tuple[Positive, ...]
    acceleration_rad_s2: tuple[Positive, ...]
    levels: tuple[str, ...] = ()
    speed_factors: dict[str, tuple[SpeedFactor, ...]] = {}
    postures_deg: dict[str, Posture] = {}
    wrist_variant: WristVariant = WristVariant(joint=1)
    patterns: dict[str, tuple[PrimitiveStep, ...]] = {}
    profiles: dict[str, Profile]
    trajectories: dict[Name, Motion]

    @model_validator(mode="after")
    def _complete(self) -> "ExcitationFile":
        size = len(self.velocity_rad_s)
        rows: dict[str, int] = {"acceleration_rad_s2": len(self.acceleration_rad_s2)}
        rows |= {f"postures_deg.{name}": len(row) for name, row in self.postures_deg.items()}
        for profile, content in self.profiles.items():
            rows |= {
                f"profiles.{profile}.amplitudes_deg.{name}": len(row) for name, row in content.amplitudes_deg.items()
            }
        for name, motion in self.trajectories.items():
            if isinstance(motion, WaypointMotion):
                rows |= {f"trajectories.{name}.waypoints_deg[{k}]": len(row) for k, row in enumerate(motion.rows)}
        problems = [f"{key} has {got} entries, expected {size}" for key, got in rows.items() if got != size]
        problems += [
            f"speed_factors.{name} has {len(row)} entries, expected {len(self.levels)}, one per level"
            for name, row in self.speed_factors.items()
            if len(row) != len(self.levels)
        ]
        problems += self._impossible_limits(size) + self._undefined_references()
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def _impossible_limits(self, size: int) -> list[str]:
        """Return one sentence for each position limit of a joint that the robot lacks, or that leaves no room."""
        found = []
        if self.wrist_variant.joint > size:
            found.append(f"wrist_variant.joint: {self.wrist_variant.joint} is no joint, expected one from 1 to {size}")
        for profile, content in self.profiles.items():
            for number, (low, high) in content.joint_limits_deg.items():
                key = f"profiles.{profile}.joint_limits_deg: {number}"
                if not 1 <= number <= size:
                    found.append(f"{key} is no joint, expected a number from 1 to {size}")
                elif not low < high:
                    found.append(f"{key} is from {low:g} to {high:g} deg; the lower limit must come first")
        return found

    def _undefined_references(self) -> list[str]:
        """Return one sentence for each reference to a name that the file does not define."""
        postures = [*self.postures_deg, *(name + WRIST_SUFFIX for name in self.postures_deg)]
        needed: list[Reference] = []
        for name, steps in self.patterns.items():
            needed += [(f"patterns.{name}", "speed set", step.speed, self.speed_factors) for step in steps]
        for name, profile in self.profiles.items():
            at = f"profiles.{name}"
            needed += [(at, "amplitude row", posture, profile.amplitudes_deg) for posture in postures]
        earlier: list[str] = []
        for name, motion in self.trajectories.items():
            at = f"trajectories.{name}"
            if isinstance(motion, Concatenation):
                parts = [part for part in motion.concatenate if isinstance(part, str)]
                needed += [(at, "earlier trajectory", part, tuple(earlier)) for part in parts]
                patterns = [part for part in motion.concatenate if isinstance(part, PatternMotion)]
                needed += [reference for part in patterns for reference in self._references(at, part)]
            elif isinstance(motion, PatternMotion):
                needed += self._references(at, motion)
            earlier.append(name)
        return [f"{at}: {kind} '{name}' is not defined" for at, kind, name, known in needed if name not in known]

    def _references(self, at: str, motion: PatternMotion) -> list[Reference]:
        return [
            (at, "posture", motion.posture, self.postures_deg),
            (at, "pattern", motion.pattern, self.patterns),
            (at, "level", motion.level, self.levels),
        ]
