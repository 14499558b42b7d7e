"""A robot is data: one folder `config/<robot>/` with `robot.yaml` and its companions, and one URDF.

`load_robot("crane_x7")` finds a shipped robot, `load_robot("path/to/folder")` one of the user's own. Angles and
limits in the file carry their unit in the name; everything that the classes hand out is SI (rad, m, kg, N m, A, s).
"""

from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

from dynid.errors import UnknownNameError
from dynid.resources import load_validated, share_folder

FloatArray = NDArray[np.float64]
Positive = Annotated[float, Field(gt=0)]
NonNegative = Annotated[float, Field(ge=0)]
Vector3 = tuple[float, float, float]


def read_only(values: object) -> FloatArray:
    """A float64 array that nobody can change in place."""
    array = np.array(values, dtype=np.float64)
    array.flags.writeable = False
    return array


class Strict(BaseModel):
    """Base of all configuration schemas: unknown keys are errors, values are frozen, NaN and infinity refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class ServoModel(Strict):
    """A servo type: what it answers to ping, and how its current becomes torque."""

    model_number: int
    torque_constant_nm_per_a: Positive
    factory_current_limit_a: Positive


class Joint(Strict):
    """One axis. `chain` joints form the serial arm; a `decoupled` one (a hand) has inertia and friction only."""

    name: str
    servo_id: Annotated[int, Field(ge=0, le=252)]
    servo_model: str
    lower_deg: float
    upper_deg: float
    velocity_limit_rad_s: Positive
    current_limit_a: Positive
    role: Literal["chain", "decoupled"] = "chain"
    torque_constant_nm_per_a: Positive | None = None

    @model_validator(mode="after")
    def _ordered(self) -> "Joint":
        if self.lower_deg >= self.upper_deg:
            raise ValueError(f"joint {self.name}: lower_deg {self.lower_deg} must be below upper_deg {self.upper_deg}")
        return self


class Bus(Strict):
    """The serial line that the servos hang on."""

    port: str
    baudrate: int = 3_000_000
    cycle_s: Positive = 0.001
    centre_count: int = 2048


class Structure(Strict):
    """Which terms the identified model has; the 39-parameter model of the paper is the default."""

    products_of_inertia: bool = False
    rotor_inertia: bool = True
    viscous_friction: bool = True
    coulomb_friction: bool = False


class LinkBounds(Strict):
    """Physical bounds of one moving link: mass, and a box for its centre of mass in the URDF link frame."""

    mass_kg: tuple[Positive, Positive]
    centre_of_mass_lower_m: Vector3
    centre_of_mass_upper_m: Vector3


class PhysicalBounds(Strict):
    """Bounds that keep a consistent standard-parameter set physical (design 5.3); links in joint order."""

    total_mass_kg: Positive
    pseudo_inertia_margin: Positive = 1e-6
    links: tuple[LinkBounds, ...]


class AuditDomain(Strict):
    """The joint ranges over which the inertia matrix must be positive definite, chain joints only."""

    lower_deg: tuple[float, ...]
    upper_deg: tuple[float, ...]


class Nuisances(Strict):
    """What a real arm does that the model does not: magnitudes for the simulated arm, each can be switched off."""

    coulomb_friction_nm: tuple[NonNegative, ...]
    torque_noise_nm: tuple[NonNegative, ...]
    encoder_counts_per_turn: int | None = 4096
    quantise_current: bool = True
    stamp_jitter_s: NonNegative = 0.0
    backlash_deg: NonNegative = 0.0
    communication_delay_s: NonNegative = 0.0


class Simulation(Strict):
    """The simulated arm."""

    step_s: Positive = 0.001
    baudrate: int | None = None
    standard_parameters: str = "models/nominal.yaml"
    nuisances: Nuisances


class RobotFile(Strict):
    """The schema of robot.yaml."""

    schema_version: Literal[1]
    name: str
    title: str
    urdf: str
    xacro: str | None = None
    base_link: str
    servos: dict[str, ServoModel]
    joints: tuple[Joint, ...]
    bus: Bus
    mounts_gravity_m_s2: dict[str, Vector3]
    default_mount: str
    structure: Structure = Structure()
    geometry_profiles_m: dict[str, dict[str, float]] = {}
    physical_bounds: PhysicalBounds
    audit_domain: AuditDomain
    simulation: Simulation
    rest_posture_deg: tuple[float, ...]

    @model_validator(mode="after")
    def _complete(self) -> "RobotFile":
        names = [joint.name for joint in self.joints]
        ids = [joint.servo_id for joint in self.joints]
        roles = [joint.role for joint in self.joints]
        chain = roles.count("chain")
        problems = []
        if len(set(names)) != len(names) or len(set(ids)) != len(ids):
            problems.append("joint names and servo ids must be unique")
        if roles != sorted(roles):
            problems.append("chain joints come first, decoupled ones last")
        problems += [
            f"joint {j.name}: servo model '{j.servo_model}' is not under servos"
            for j in self.joints
            if j.servo_model not in self.servos
        ]
        if self.default_mount not in self.mounts_gravity_m_s2:
            problems.append(f"default_mount '{self.default_mount}' is not under mounts_gravity_m_s2")
        lengths = {
            "physical_bounds.links": (len(self.physical_bounds.links), chain),
            "audit_domain.lower_deg": (len(self.audit_domain.lower_deg), chain),
            "audit_domain.upper_deg": (len(self.audit_domain.upper_deg), chain),
            "rest_posture_deg": (len(self.rest_posture_deg), len(names)),
            "simulation.nuisances.coulomb_friction_nm": (
                len(self.simulation.nuisances.coulomb_friction_nm),
                len(names),
            ),
            "simulation.nuisances.torque_noise_nm": (len(self.simulation.nuisances.torque_noise_nm), len(names)),
        }
        problems += [f"{key} has {got} entries, expected {want}" for key, (got, want) in lengths.items() if got != want]
        if problems:
            raise ValueError("; ".join(problems))
        return self


class Robot:
    """A loaded robot: the validated file, its folder, and the per-joint values as read-only SI arrays.

    n is the number of all axes (chain, then decoupled); `chain_size` the number of chain joints.
    """

    def __init__(self, file: RobotFile, folder: Path) -> None:
        self.file = file
        self.folder = folder

    @property
    def name(self) -> str:
        """The robot's name, as in robot.yaml."""
        return self.file.name

    @property
    def urdf_path(self) -> Path:
        """The plain URDF file."""
        return (self.folder / self.file.urdf).resolve()

    @cached_property
    def joint_names(self) -> tuple[str, ...]:
        """Names of all axes, (n,)."""
        return tuple(joint.name for joint in self.file.joints)

    @property
    def size(self) -> int:
        """Number of axes n, decoupled ones included."""
        return len(self.file.joints)

    @cached_property
    def chain_size(self) -> int:
        """Number of joints of the serial chain."""
        return sum(joint.role == "chain" for joint in self.file.joints)

    @cached_property
    def servo_ids(self) -> tuple[int, ...]:
        """Bus ids in joint order, (n,)."""
        return tuple(joint.servo_id for joint in self.file.joints)

    @cached_property
    def model_numbers(self) -> tuple[int, ...]:
        """Servo model numbers in joint order, (n,)."""
        return tuple(self.file.servos[joint.servo_model].model_number for joint in self.file.joints)

    @cached_property
    def torque_constants(self) -> FloatArray:
        """Torque per current, (n,) [N m/A]."""
        models = self.file.servos
        return read_only(
            [j.torque_constant_nm_per_a or models[j.servo_model].torque_constant_nm_per_a for j in self.file.joints]
        )

    @cached_property
    def lower(self) -> FloatArray:
        """Lower position limits, (n,) [rad]."""
        return read_only(np.deg2rad([j.lower_deg for j in self.file.joints]))

    @cached_property
    def upper(self) -> FloatArray:
        """Upper position limits, (n,) [rad]."""
        return read_only(np.deg2rad([j.upper_deg for j in self.file.joints]))

    @cached_property
    def velocity_limits(self) -> FloatArray:
        """Velocity limits, (n,) [rad/s]."""
        return read_only([j.velocity_limit_rad_s for j in self.file.joints])

    @cached_property
    def current_limits(self) -> FloatArray:
        """Software current limits, (n,) [A]."""
        return read_only([j.current_limit_a for j in self.file.joints])

    @cached_property
    def rest_posture(self) -> FloatArray:
        """Posture in which the arm may be left, (n,) [rad]."""
        return read_only(np.deg2rad(self.file.rest_posture_deg))

    @cached_property
    def audit_lower(self) -> FloatArray:
        """Lower corner of the audit domain, (chain_size,) [rad]."""
        return read_only(np.deg2rad(self.file.audit_domain.lower_deg))

    @cached_property
    def audit_upper(self) -> FloatArray:
        """Upper corner of the audit domain, (chain_size,) [rad]."""
        return read_only(np.deg2rad(self.file.audit_domain.upper_deg))

    def gravity(self, mount: str | None = None) -> FloatArray:
        """Gravitational acceleration in the base link's frame, (3,) [m/s^2].

        Args:
            mount: a name under mounts_gravity_m_s2; None is the default mount.
        """
        mounts = self.file.mounts_gravity_m_s2
        name = mount or self.file.default_mount
        if name not in mounts:
            raise UnknownNameError("mount", name, tuple(mounts))
        return read_only(mounts[name])


def known_robots() -> tuple[str, ...]:
    """Names of the shipped robots."""
    return tuple(sorted(path.parent.name for path in (share_folder() / "config").glob("*/robot.yaml")))


def load_robot(name_or_folder: str | Path) -> Robot:
    """Load a shipped robot by name, or any by its folder.

    Raises:
        UnknownNameError: neither a shipped robot nor a folder with a robot.yaml.
        ConfigurationError: robot.yaml is not valid.
    """
    as_path = Path(name_or_folder)
    is_folder = (as_path / "robot.yaml").is_file()
    if not is_folder and str(name_or_folder) not in known_robots():
        raise UnknownNameError("robot", str(name_or_folder), (*known_robots(), "or a folder that holds a robot.yaml"))
    folder = as_path if is_folder else share_folder() / "config" / str(name_or_folder)
    return Robot(load_validated(folder / "robot.yaml", RobotFile), folder.resolve())
