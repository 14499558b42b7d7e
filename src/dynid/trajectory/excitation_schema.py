"""Schema of excitation.yaml, which defines primitives, patterns, profiles and trajectories.

Joints are counted from 1, as in the papers and the arm's documentation. Angles are in degrees if the key says so.
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
    """Joint by which the wrist variant of a posture differs from the posture; the profile gives the angle."""

    joint: JointNumber


class PrimitiveStep(Strict):
    """One primitive of a pattern: joints, directions, name of the speeds, and posture (nominal or wrist variant)."""

    joints: Annotated[tuple[JointNumber, ...], Field(min_length=1, max_length=2)]
    signs: tuple[Literal[-1, 1], ...] | None = None
    speed: str = "normal"
    wrist: bool = False


class Profile(Strict):
    """Limits and amplitudes of one profile, that is, of one variant of all named trajectories.

    `joint_limits_deg` replaces the robot's limits of single revolute joints. Every motion keeps a distance of
    `margin_deg` from the limits, or `margin_m` for prismatic joints. `amplitudes_deg` holds one row for each posture
    and one for its wrist variant (`<posture>_wrist`).
    """

    about: str
    joint_limits_deg: dict[int, tuple[float, float]] = {}
    margin_deg: NonNegative = 0.0
    margin_m: NonNegative = 0.0
    wrist_offset_deg: float = 0.0
    speed_scale: Annotated[float, Field(gt=0, le=1)] = 1.0
    amplitudes_deg: dict[str, tuple[Amplitude, ...]] = {}


class PatternMotion(Strict):
    """A pattern of primitives at a posture and a speed level."""

    posture: str
    pattern: str
    level: str


class Concatenation(Strict):
    """A sequence of other trajectories of the same profile, or of patterns without a name of their own."""

    concatenate: Annotated[tuple[str | PatternMotion, ...], Field(min_length=1)]


class WaypointMotion(Strict):
    """A multi-axis motion through explicit waypoints, the same in every profile.

    `waypoints` [rad, or m for prismatic joints] replaces `waypoints_deg` for arms with prismatic joints.
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
        """Waypoints in the unit in which the file gives them."""
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
    """Content of excitation.yaml; speed factors then scale its limits of velocity and acceleration.

    For prismatic joints, the unit rad stands for m. A file without patterns has neither levels nor postures.
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
        problems += self._undefined_references()
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def _undefined_references(self) -> list[str]:
        """Return the references to names that the file does not define, one sentence each."""
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
