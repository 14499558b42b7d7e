"""Schema of `config/<robot>/robot.yaml`; `dynid.robot` loads the file and returns SI arrays."""

import re
from collections.abc import Iterator
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from dynid.robot.servo_fields import Direction, PairedServo, ServoId, names_another_model
from dynid.robot.servo_fields import ServoModel as ServoModel
from dynid.robot.values import NonNegative, Positive, Strict, Vector3

FASTEST_SERVO_RAD_S = 48.0  # fastest DYNAMIXEL, 456 rpm of the XL330-M077 (e-manual)
LARGEST_TORQUE_RATIO = 2.0  # plausible torque limit relative to the torque at the factory current limit


# Names become names of files and folders, so they start with a word character and hold no path separator.
NAME_PATTERN = r"^\w[^/\\\x00-\x1f\x7f]*$"
Name = Annotated[str, Field(pattern=NAME_PATTERN, max_length=100)]
# Joint names are those of the URDF and may hold slashes (left/waist); `file_stem` makes file names of them.
JointName = Annotated[str, Field(pattern=r"^\w[^\\\x00-\x1f\x7f]*$", max_length=100)]


def file_stem(name: str) -> str:
    """Return a joint's name as a valid file name: other characters than letters, digits, `.` and `-` become `_`."""
    return re.sub(r"[^\w.-]", "_", name)


class Joint(Strict):
    """One joint of the arm in robot.yaml, with its limits and servos.

    The servo fields are needed only for driving the arm, not for identification. A joint may have several servos of one
    model, which all get the current of the first servo. For a prismatic joint, N m means N.

    Attributes:
        servo_id: ID of the joint's first servo.
        servo_model: name of the servo model, a key of `servos` in robot.yaml.
        lower_deg: lower limit of a revolute joint; a prismatic joint has `lower_m` instead.
        upper_deg: upper limit of a revolute joint; a prismatic joint has `upper_m` instead.
        velocity_limit_m_s: speed limit of a prismatic joint; alternatively, velocity_limit_rad_s is interpreted in m/s.
        role: "chain" for a joint of the serial arm; "decoupled" for a joint (of a hand) that is modelled by inertia and
            friction alone.
        torque_constant_nm_per_a: torque of all servos of the joint together per ampere of one servo, on the motor's
            side of the gear. If None, it is the servo model's constant times the number of servos.
        gear_ratio: motor angle over joint angle, for data measured at the motors.
        direction: -1 if the motor angle of the joint falls while its first servo's position register rises, else 1.
        reverse_mode: whether the first servo counts backwards (bit 0 of its drive mode). The driver requires this
            value of the servo and does not change it.
        centre_count: position register at angle zero; None selects the value of `bus`.
        shadow_ids: IDs of further servos that execute the first servo's commands by their secondary ID. They are
            mounted opposite to the first servo, so their reverse mode is the opposite.
        paired: further servos of the joint that are commanded by their own IDs.
        zero_offset_rad: angle that the driver adds to the encoder's angle; `dynid identify --estimate-setup` estimates
            it.
        beyond_urdf: kinds of limits that intentionally exceed those of the URDF. If a limit of another kind exceeds
            that of the URDF, the arm is not driven.
    """

    name: JointName
    servo_id: ServoId | None = None
    servo_model: str | None = None
    lower_deg: float | None = None
    upper_deg: float | None = None
    lower_m: float | None = None
    upper_m: float | None = None
    velocity_limit_rad_s: Positive | None = None
    velocity_limit_m_s: Positive | None = None
    current_limit_a: Positive | None = None
    torque_limit_nm: Positive | None = None
    role: Literal["chain", "decoupled"] = "chain"
    torque_constant_nm_per_a: Positive | None = None
    gear_ratio: float = 1.0
    direction: Direction = 1
    reverse_mode: bool = False
    centre_count: int | None = None
    shadow_ids: tuple[ServoId, ...] = ()
    paired: tuple[PairedServo, ...] = ()
    zero_offset_rad: Annotated[float, Field(ge=-np.pi, le=np.pi)] = 0.0
    beyond_urdf: tuple[Literal["position", "velocity", "torque"], ...] = ()

    @model_validator(mode="after")
    def _complete(self) -> "Joint":
        turns = (self.lower_deg, self.upper_deg)
        slides = (self.lower_m, self.upper_m)
        given = [pair for pair in (turns, slides) if pair != (None, None)]
        if len(given) != 1 or None in given[0]:
            raise ValueError(
                f"joint {self.name}: needs lower_deg and upper_deg (revolute) or lower_m and upper_m (prismatic)"
            )
        lower, upper = given[0]
        if lower >= upper:  # type: ignore[operator]
            key = "deg" if given[0] is turns else "m"
            raise ValueError(f"joint {self.name}: lower_{key} {lower} must be below upper_{key} {upper}")
        if (self.velocity_limit_rad_s is None) == (self.velocity_limit_m_s is None):
            raise ValueError(
                f"joint {self.name}: needs velocity_limit_rad_s (revolute) or velocity_limit_m_s (prismatic)"
            )
        if self.velocity_limit_m_s is not None and not self.prismatic:
            raise ValueError(
                f"joint {self.name}: velocity_limit_m_s is for prismatic joints: give velocity_limit_rad_s"
            )
        if self.follower_ids and self.servo_id is None:
            raise ValueError(f"joint {self.name}: shadow_ids and paired need a servo_id: add it, or remove them")
        if self.gear_ratio == 0.0:
            raise ValueError(
                f"joint {self.name}: gear_ratio must not be 0 (negative if motor and joint turn in opposite directions)"
            )
        return self

    @property
    def follower_ids(self) -> tuple[int, ...]:
        """IDs of all servos of the joint except the first one."""
        return (*self.shadow_ids, *(one.servo_id for one in self.paired))

    @property
    def servo_count(self) -> int:
        """Number of servos that move the joint."""
        return 1 + len(self.follower_ids)

    @property
    def velocity_limit(self) -> float:
        """Speed limit of the joint [rad/s or m/s]."""
        return self.velocity_limit_m_s or self.velocity_limit_rad_s or 0.0

    @property
    def prismatic(self) -> bool:
        """Whether the joint is prismatic."""
        return self.lower_m is not None


class Bus(Strict):
    """Serial line that connects the servos, in robot.yaml.

    Attributes:
        port: path of the serial port; '' if the user states it when starting the driver.
        baudrate: baud rate [bit/s].
        cycle_s: duration of a control cycle [s].
        centre_count: position register at angle zero, for joints without their own value.
        other_ids: IDs of servos on the line that move no joint of this robot, such as finger servos. The driver does
            not command them, and their torque stays off.
    """

    port: str = ""
    baudrate: int = 3_000_000
    cycle_s: Positive = 0.001
    centre_count: int = 2048
    other_ids: tuple[ServoId, ...] = ()


class Stribeck(Strict):
    """Stribeck friction, which decreases with speed: sign(dq) exp(-(|dq| / velocity_rad_s)^exponent) times a magnitude.

    This class fixes velocity and exponent; the magnitude is identified.
    """

    velocity_rad_s: Positive
    exponent: Positive = 2.0


class Structure(Strict):
    """Terms of the identified dynamic model; the default is the model of arXiv:2605.15949 with 39 parameters.

    Attributes:
        products_of_inertia: whether links have products of inertia.
        rotor_inertia: whether axes have a rotor inertia.
        viscous_friction: whether axes have viscous friction.
        coulomb_friction: whether axes have Coulomb friction.
        friction_offset: whether axes have a constant torque (amplifier offset, or friction that differs by direction).
        stribeck: shape of the friction that decreases with speed, whose magnitude is identified; None without such
            friction.
    """

    products_of_inertia: bool = False
    rotor_inertia: bool = True
    viscous_friction: bool = True
    coulomb_friction: bool = False
    friction_offset: bool = False
    stribeck: Stribeck | None = None


class Spring(Strict):
    """Spring or hydraulic counterbalance: a torque that is a polynomial in the position of one joint.

    Attributes:
        joint: name of a chain joint; a joint has at most one spring.
        about_deg: joint position at which the polynomial's variable is 0 [deg]; 0 for a prismatic joint.
        powers: exponents of the polynomial; their coefficients are identified, see `dynid.model.springs`.
    """

    joint: str
    about_deg: float = 0.0
    powers: Annotated[tuple[Annotated[int, Field(ge=0, le=6)], ...], Field(min_length=1)]


class LinkBounds(Strict):
    """Physical bounds of one moving link, in its URDF frame.

    Attributes:
        mass_kg: smallest and largest mass; if None, only the arm's total mass bounds the mass.
        centre_of_mass_lower_m: lower corner of the box that contains the centre of mass.
        centre_of_mass_upper_m: upper corner of the box that contains the centre of mass.
        box_lower_m: lower corner of the box that contains all mass of the link; None derives the box from the URDF's
            shapes, see `robot.link_limits`.
        box_upper_m: upper corner of the box that contains all mass.
    """

    mass_kg: tuple[Positive, Positive] | None = None
    centre_of_mass_lower_m: Vector3
    centre_of_mass_upper_m: Vector3
    box_lower_m: Vector3 | None = None
    box_upper_m: Vector3 | None = None

    @model_validator(mode="after")
    def _boxed(self) -> "LinkBounds":
        lower, upper = self.box_lower_m, self.box_upper_m
        if (lower is None) != (upper is None):
            raise ValueError("box_lower_m and box_upper_m belong together: give both, or none")
        if lower is not None and upper is not None and any(a >= b for a, b in zip(lower, upper, strict=True)):
            raise ValueError(f"box_lower_m {list(lower)} must be below box_upper_m {list(upper)}")
        return self


class PhysicalBounds(Strict):
    """Bounds that physically consistent standard parameters must satisfy.

    Attributes:
        total_mass_kg: largest mass of all moving links together; None if it is not known.
        pseudo_inertia_margin: smallest allowed eigenvalue of a link's pseudo-inertia matrix.
        minimal_spread_m: minimum standard deviation of a link's mass distribution along any direction. For comparison,
            it is 5 mm across a solid rod of 20 mm, and 8 mm across a small servo of 28 mm.
        links: bounds of each link, in joint order.
    """

    total_mass_kg: Positive | None = None
    pseudo_inertia_margin: Positive = 1e-6
    minimal_spread_m: NonNegative = 0.005
    links: tuple[LinkBounds, ...]


class AuditDomain(Strict):
    """Ranges [deg] of the chain joints in which M(q) must be positive definite; for chains of revolute joints only."""

    lower_deg: tuple[float, ...]
    upper_deg: tuple[float, ...]


class Nuisances(Strict):
    """Magnitudes of effects that the simulated arm has but the identified model lacks; each effect can be disabled.

    Attributes:
        coulomb_friction_nm: additional Coulomb friction of each axis.
        torque_noise_nm: standard deviation of each axis' torque noise.
        encoder_counts_per_turn: encoder resolution; None for no quantisation.
        quantise_current: whether currents are rounded to the resolution of the servos.
        stamp_jitter_s: standard deviation of a timestamp's error.
        backlash_deg: width of the gap between joint and encoder.
        communication_delay_s: time from reading a state until the current computed from it takes effect.
        warm_up_share: fraction of friction that vanishes while gears warm up.
        warm_up_time_s: time constant of the warm-up.
    """

    coulomb_friction_nm: tuple[NonNegative, ...]
    torque_noise_nm: tuple[NonNegative, ...]
    encoder_counts_per_turn: int | None = 4096
    quantise_current: bool = True
    stamp_jitter_s: NonNegative = 0.0
    backlash_deg: NonNegative = 0.0
    communication_delay_s: NonNegative = 0.0
    warm_up_share: Annotated[float, Field(ge=0, lt=1)] = 0.0
    warm_up_time_s: Positive = 180.0


class Simulation(Strict):
    """Settings of the simulated arm in robot.yaml, and the file of the arm's CAD parameters.

    Attributes:
        step_s: longest step of the integration [s].
        baudrate: baud rate of the simulated servos [bit/s]; None is the baud rate of `bus`.
        standard_parameters: file in the robot's folder with standard parameters close to the real arm's, such as CAD
            values; the file may be missing.
        plant_parameters: file with the standard parameters of the simulated arm; None selects `standard_parameters`.
        friction: gear friction: "viscous" (viscous and Coulomb friction), or a model that friction.yaml in the robot's
            folder contains.
        nuisances: effects of a real arm, such as noise; None if they are unknown.
    """

    step_s: Positive = 0.001
    baudrate: int | None = None
    standard_parameters: str = "models/nominal.yaml"
    plant_parameters: str | None = None
    friction: str = "viscous"
    nuisances: Nuisances | None = None


class RobotFile(Strict):
    """Schema of robot.yaml.

    Attributes:
        coupling: matrix C (n, n) with one row per motor, such that q_motor = gear_ratio * (C q_joint) and
            tau_joint = C' (gear_ratio * tau_motor); None if every motor moves one joint.
        springs: torques that depend on the position of one joint alone, see `Spring`.
        undecided: questions that the user must answer before the robot is used, by field of this file.
        rest_posture: rest posture of arms with prismatic joints [rad; m if prismatic], instead of rest_posture_deg.
        tool_m: contact point of the tool, in the URDF frame of the last chain joint.
    """

    schema_version: Literal[1]
    name: Name
    title: str
    urdf: str
    base_link: str
    undecided: dict[str, str] = {}
    servos: dict[str, ServoModel] = {}
    joints: Annotated[tuple[Joint, ...], Field(min_length=1)]
    coupling: tuple[tuple[float, ...], ...] | None = None
    springs: tuple[Spring, ...] = ()
    bus: Bus = Bus()
    mounts_gravity_m_s2: dict[str, Vector3]
    default_mount: str
    structure: Structure = Structure()
    geometry_profiles_m: dict[str, dict[str, float]] = {}
    physical_bounds: PhysicalBounds
    audit_domain: AuditDomain | None = None
    simulation: Simulation = Simulation()
    rest_posture_deg: tuple[float, ...] | None = None
    rest_posture: tuple[float, ...] | None = None
    tool_m: Vector3 = (0.0, 0.0, 0.0)

    @model_validator(mode="after")
    def _complete(self) -> "RobotFile":
        names = [joint.name for joint in self.joints]
        ids = [joint.servo_id for joint in self.joints if joint.servo_id is not None]
        ids += [one for joint in self.joints for one in joint.follower_ids] + list(self.bus.other_ids)
        roles = [joint.role for joint in self.joints]
        problems = []
        if len(set(names)) != len(names) or len(set(ids)) != len(ids):
            problems.append("joint names and servo ids must be unique")
        if roles != sorted(roles) or "chain" not in roles:
            problems.append("list chain joints first and decoupled joints last; expected at least one chain joint")
        problems += [
            f"joint {j.name}: servo model '{j.servo_model}' is not under servos"
            for j in self.joints
            if j.servo_model is not None and j.servo_model not in self.servos
        ]
        problems += [text for name, servo in self.servos.items() if (text := names_another_model(name, servo))]
        problems += [text for j in self.joints if j.servo_model in self.servos for text in self._no_servo_can(j)]
        problems += self._spring_problems()
        if self.default_mount not in self.mounts_gravity_m_s2:
            problems.append(f"default_mount '{self.default_mount}' is not under mounts_gravity_m_s2")
        problems += [
            f"{key} has {got} entries, expected {want}" for key, (got, want) in self._lengths().items() if got != want
        ]
        problems += self._prismatic_problems() + self._coupling_problems()
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def _no_servo_can(self, joint: Joint) -> Iterator[str]:
        """Yield an error sentence for each limit of a joint that exceeds what its servo can do."""
        servo = self.servos[str(joint.servo_model)]
        speed, current = joint.velocity_limit * abs(joint.gear_ratio), servo.most_current_a
        constant = joint.torque_constant_nm_per_a or joint.servo_count * servo.torque_constant_nm_per_a
        most = LARGEST_TORQUE_RATIO * constant * current * abs(joint.gear_ratio)
        name = f"joint {joint.name}"
        if speed > FASTEST_SERVO_RAD_S:
            yield (
                f"{name}: its velocity limit requires {speed:.4g} rad/s of the servo, and no servo turns faster than "
                f"{FASTEST_SERVO_RAD_S:g} rad/s: lower it, or correct gear_ratio"
            )
        if joint.current_limit_a is not None and joint.current_limit_a > current:
            yield f"{name}: current_limit_a {joint.current_limit_a:g} is above factory_current_limit_a {current:.4g}"
        if joint.torque_limit_nm is not None and joint.torque_limit_nm > most:
            yield (
                f"{name}: torque_limit_nm {joint.torque_limit_nm:g} is more than {joint.servo_model} can give: "
                f"expected at most {most:.4g}"
            )

    def _lengths(self) -> dict[str, tuple[int, int]]:
        """Return the actual and the expected number of entries of each list in robot.yaml, by field name."""
        size = len(self.joints)
        chain = sum(joint.role == "chain" for joint in self.joints)
        lengths = {"physical_bounds.links": (len(self.physical_bounds.links), chain)}
        if self.audit_domain is not None:
            lengths["audit_domain.lower_deg"] = (len(self.audit_domain.lower_deg), chain)
            lengths["audit_domain.upper_deg"] = (len(self.audit_domain.upper_deg), chain)
        for key in ("rest_posture_deg", "rest_posture"):
            if (row := getattr(self, key)) is not None:
                lengths[key] = (len(row), size)
        nuisances = self.simulation.nuisances
        if nuisances is not None:
            lengths["simulation.nuisances.coulomb_friction_nm"] = (len(nuisances.coulomb_friction_nm), size)
            lengths["simulation.nuisances.torque_noise_nm"] = (len(nuisances.torque_noise_nm), size)
        return lengths

    def _spring_problems(self) -> list[str]:
        """Return an error sentence for each fault of `springs`."""
        chain = {joint.name: joint for joint in self.joints if joint.role == "chain"}
        sprung, problems = [spring.joint for spring in self.springs], []
        for name in dict.fromkeys(sprung):
            if name not in chain:
                problems.append(f"springs: '{name}' is no chain joint of this robot")
            if sprung.count(name) > 1:
                problems.append(f"springs: '{name}' has {sprung.count(name)}; list all powers under one")
        for spring in self.springs:
            if len(set(spring.powers)) != len(spring.powers):
                problems.append(f"springs: powers of '{spring.joint}' are {list(spring.powers)}; list each once")
            if 0 in spring.powers and self.structure.friction_offset:
                problems.append(f"springs: power 0 of '{spring.joint}' is the friction_offset of structure; keep one")
            if spring.about_deg and spring.joint in chain and chain[spring.joint].prismatic:
                problems.append(f"springs: '{spring.joint}' slides, so about_deg must be 0; add power 0 instead")
        return problems

    def _prismatic_problems(self) -> list[str]:
        """Return an error sentence for each posture field in degrees if the arm has a prismatic joint."""
        sliding = [joint.name for joint in self.joints if joint.prismatic]
        given = [key for key in ("audit_domain", "rest_posture_deg") if getattr(self, key) is not None]
        return [f"{key} is in degrees, but joint {sliding[0]} is prismatic: remove it" for key in given if sliding]

    def _coupling_problems(self) -> list[str]:
        if self.coupling is None:
            return []
        size = len(self.joints)
        shape = (len(self.coupling), *{len(row) for row in self.coupling})
        if shape != (size, size):
            return [f"coupling must be a {size} x {size} matrix, one row per motor, one column per joint"]
        matrix = np.array(self.coupling)
        if abs(np.linalg.det(matrix)) < 1e-9 or not np.all(np.diag(matrix)):
            return ["coupling must be invertible, with a diagonal without zeros"]
        return []
