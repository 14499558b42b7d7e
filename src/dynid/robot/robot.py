"""Loaded robots. A robot is a folder `config/<robot>/` with `robot.yaml`, other settings files and one URDF.

`load_robot("crane_x7")` loads a robot that is part of dynid, `load_robot("path/to/folder")` loads any other robot.
Angles and limits in the file carry their unit in the name; all attributes are in SI units (rad, m, kg, N m, A, s).
"""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from dynid.errors import ConfigurationError, UnknownNameError
from dynid.hardware.servos.models import USUAL_UNIT_A
from dynid.resources import load_validated, share_folder
from dynid.robot.file import Joint, Nuisances, RobotFile, ServoModel
from dynid.robot.servo_fields import WiredServo, undrivable_number
from dynid.robot.values import FloatArray, read_only


class Robot:
    """A loaded robot: the validated content of robot.yaml, its folder, and per-joint values as read-only SI arrays.

    n is the number of all axes, chain joints first, then decoupled joints; `chain_size` is the number of chain joints.
    """

    def __init__(self, file: RobotFile, folder: Path) -> None:
        self.file = file
        self.folder = folder

    def __repr__(self) -> str:
        return f"Robot({self.name}, {self.size} joints, {self.folder})"

    def at_cycle(self, cycle_s: float) -> "Robot":
        """Return a copy of this robot with another duration of the control cycle [s]."""
        bus = self.file.bus.model_copy(update={"cycle_s": cycle_s})
        return Robot(self.file.model_copy(update={"bus": bus}), self.folder)

    @property
    def name(self) -> str:
        """Name of the robot, as in robot.yaml."""
        return self.file.name

    @property
    def urdf_path(self) -> Path:
        """Absolute path of the robot's URDF."""
        return (self.folder / self.file.urdf).resolve()

    @cached_property
    def joint_names(self) -> tuple[str, ...]:
        """Names of all axes, (n,)."""
        return tuple(joint.name for joint in self.file.joints)

    @property
    def size(self) -> int:
        """Number of axes n, including decoupled joints."""
        return len(self.file.joints)

    @cached_property
    def chain_size(self) -> int:
        """Number of joints of the serial chain."""
        return sum(joint.role == "chain" for joint in self.file.joints)

    def _servo(self, joint: Joint) -> ServoModel:
        """Return the servo model that drives a joint.

        Raises:
            ConfigurationError: robot.yaml has no servo model for the joint.
        """
        if joint.servo_model is None:
            raise ConfigurationError(
                f"joint {joint.name} of robot '{self.name}' has no servo_model in robot.yaml: dynid can identify it "
                "from data, but cannot drive it"
            )
        return self.file.servos[joint.servo_model]

    def _torque_constant(self, joint: Joint) -> float:
        """Return the total torque of a joint's servos per ampere of one servo, before the gear [N m/A].

        Raises:
            ConfigurationError: the joint has neither a torque constant nor a servo model.
        """
        if joint.torque_constant_nm_per_a is not None:
            return joint.torque_constant_nm_per_a
        if joint.servo_model is None:
            raise ConfigurationError(
                f"joint {joint.name} of robot '{self.name}' has no torque_constant_nm_per_a in robot.yaml, so its "
                "current cannot be converted to torque"
            )
        return joint.servo_count * self._servo(joint).torque_constant_nm_per_a

    @cached_property
    def servo_ids(self) -> tuple[int, ...]:
        """ID of the first servo of each joint, in joint order, (n,).

        Raises:
            ConfigurationError: a joint has no servo_id, or robot.yaml has undecided questions.
        """
        if self.file.undecided:
            raise ConfigurationError(
                f"robot.yaml of '{self.name}' leaves {', '.join(self.file.undecided)} undecided, so dynid does not "
                f"drive the arm: answer the questions of 'dynid robot check {self.name}'"
            )
        missing = [joint.name for joint in self.file.joints if joint.servo_id is None]
        if missing:
            raise ConfigurationError(
                f"robot '{self.name}' has no servo_id for {', '.join(missing)} in robot.yaml: dynid can identify it "
                "from data, but cannot drive it"
            )
        return tuple(joint.servo_id for joint in self.file.joints if joint.servo_id is not None)

    @cached_property
    def servo_models(self) -> tuple[ServoModel, ...]:
        """Servo model of each joint, in joint order, (n,)."""
        return tuple(self._servo(joint) for joint in self.file.joints)

    @cached_property
    def wired_servos(self) -> tuple[WiredServo, ...]:
        """All m servos that move joints: the first servos of the n joints in joint order, then all further servos.

        Raises:
            ConfigurationError: a joint has no servo, or robot.yaml has undecided questions.
        """
        first, others = list[WiredServo](), list[WiredServo]()
        for axis, (servo_id, joint) in enumerate(zip(self.servo_ids, self.file.joints, strict=True)):
            centre = self.centre_counts[axis]
            what = (axis, joint.name, str(joint.servo_model), self._servo(joint).model_number)
            first.append(WiredServo(servo_id, *what, joint.reverse_mode, 1, centre))
            for one in joint.shadow_ids:
                others.append(WiredServo(one, *what, not joint.reverse_mode, 1, centre, servo_id, first=False))
            for pair in joint.paired:
                own = centre if pair.centre_count is None else pair.centre_count
                others.append(
                    WiredServo(pair.servo_id, *what, pair.reverse_mode, pair.direction, own, None, first=False)
                )
        return (*first, *others)

    @cached_property
    def all_servo_ids(self) -> tuple[int, ...]:
        """IDs of all m servos that move joints, in the order of `wired_servos`."""
        return tuple(one.servo_id for one in self.wired_servos)

    @property
    def followers(self) -> tuple[WiredServo, ...]:
        """All servos that are not the first servo of their joint; `wired_servos` lists them last."""
        return self.wired_servos[self.size :]

    @cached_property
    def current_units(self) -> FloatArray:
        """Current per register count of each joint's servo, (n,) [A]; a joint without servo model counts as XM430.

        Raises:
            ConfigurationError: a servo model is not known, or has no current control.
        """
        return read_only([self._current_unit(joint) for joint in self.file.joints])

    def _current_unit(self, joint: Joint) -> float:
        if joint.servo_model is None:
            return USUAL_UNIT_A
        servo = self._servo(joint)
        for reason in undrivable_number(f"servo model {joint.servo_model} of robot '{self.name}'", servo.model_number):
            raise ConfigurationError(reason)
        assert servo.known is not None and servo.known.current_unit_a is not None
        return servo.known.current_unit_a

    @cached_property
    def directions(self) -> FloatArray:
        """Sign of each joint's motor angle relative to the position register of its first servo, (n,), 1 or -1."""
        return read_only([joint.direction for joint in self.file.joints])

    @cached_property
    def centre_counts(self) -> tuple[int, ...]:
        """Position register of each joint's first servo at which the motor angle is zero, (n,) [counts]."""
        usual = self.file.bus.centre_count
        return tuple(usual if one.centre_count is None else one.centre_count for one in self.file.joints)

    @cached_property
    def torque_constants(self) -> FloatArray:
        """Torque of all servos of a joint per ampere of one servo, on the motor's side of the gear, (n,) [N m/A].

        Raises:
            ConfigurationError: a joint has neither a torque constant nor a servo model.
        """
        return read_only([self._torque_constant(joint) for joint in self.file.joints])

    @cached_property
    def joint_constants(self) -> FloatArray:
        """Torque at the joint per ampere of its motor, (n,) [N m/A].

        Raises:
            ConfigurationError: a joint has neither a torque constant nor a servo model.
        """
        return read_only(self.torque_constants * np.abs(self.gear_ratios))

    def motor_constants(self, joint_constants: Sequence[float]) -> tuple[float, ...]:
        """Return torque constants on the motors' side of the gears, as robot.yaml states them, (n,) [N m/A].

        Twelve digits are kept, so that the rounding of the division does not show.

        Args:
            joint_constants: torque at each joint per ampere of its motor, (n,) [N m/A]; () if torques were recorded.
        """
        pairs = zip(joint_constants, np.abs(self.gear_ratios).tolist(), strict=False)
        return tuple(float(f"{constant / ratio:.12g}") for constant, ratio in pairs)

    @cached_property
    def zero_offsets(self) -> FloatArray:
        """Offsets that the driver adds to the joint angles from the encoders, (n,) [rad]."""
        return read_only([joint.zero_offset_rad for joint in self.file.joints])

    @cached_property
    def has_torque_constants(self) -> bool:
        """Whether every joint has a torque constant, its own or that of its servo model."""
        return all(j.torque_constant_nm_per_a is not None or j.servo_model is not None for j in self.file.joints)

    @cached_property
    def prismatic(self) -> tuple[bool, ...]:
        """Whether each axis is prismatic, (n,)."""
        return tuple(joint.prismatic for joint in self.file.joints)

    @property
    def position_units(self) -> tuple[str, ...]:
        """Unit of each axis's position, (n,): "m" for prismatic joints, else "rad"."""
        return tuple("m" if slides else "rad" for slides in self.prismatic)

    @cached_property
    def gear_ratios(self) -> FloatArray:
        """Motor angle over joint angle, (n,); 1 for direct drives. See `model.transmission`."""
        return read_only([joint.gear_ratio for joint in self.file.joints])

    @cached_property
    def coupling(self) -> FloatArray:
        """Matrix C in q_motor = gear_ratio * (C q_joint), (n, n); the identity if every motor moves one joint."""
        return read_only(np.eye(self.size) if self.file.coupling is None else np.array(self.file.coupling))

    @cached_property
    def lower(self) -> FloatArray:
        """Lower position limits, (n,) [rad or m]."""
        return read_only([_position(j.lower_deg, j.lower_m) for j in self.file.joints])

    @cached_property
    def upper(self) -> FloatArray:
        """Upper position limits, (n,) [rad or m]."""
        return read_only([_position(j.upper_deg, j.upper_m) for j in self.file.joints])

    @cached_property
    def farthest(self) -> FloatArray:
        """Largest plausible |position| of each joint in recorded data, (n,) [rad or m].

        This is the joint's largest |limit| plus 1, but at least 2 pi.
        """
        return read_only(np.maximum(2.0 * np.pi, 1.0 + np.maximum(np.abs(self.lower), np.abs(self.upper))))

    @cached_property
    def velocity_limits(self) -> FloatArray:
        """Velocity limits of the joints, (n,) [rad/s or m/s]."""
        return read_only([j.velocity_limit for j in self.file.joints])

    @cached_property
    def current_limits(self) -> FloatArray:
        """Current limits of the joints in robot.yaml, which the driver does not exceed, (n,) [A].

        Raises:
            ConfigurationError: a joint has no current limit.
        """
        limits = [j.current_limit_a for j in self.file.joints]
        missing = [j.name for j in self.file.joints if j.current_limit_a is None]
        if missing:
            raise ConfigurationError(f"robot '{self.name}' has no current_limit_a for {', '.join(missing)}")
        return read_only(limits)

    @cached_property
    def torque_limits(self) -> FloatArray:
        """Largest torques of the drives at the joints, (n,) [N m].

        The limits are torque_limit_nm in robot.yaml, or else the torques at the current limits current_limit_a.

        Raises:
            ConfigurationError: a joint has neither torque_limit_nm nor current_limit_a, or it has current_limit_a alone
                and neither a torque constant nor a servo model.
        """
        limits = []
        for joint in self.file.joints:
            if joint.torque_limit_nm is None and joint.current_limit_a is None:
                raise ConfigurationError(
                    f"joint {joint.name} of robot '{self.name}' has neither torque_limit_nm nor current_limit_a in "
                    "robot.yaml, which is needed to detect torques in a wrong unit"
                )
            limit = joint.torque_limit_nm
            if limit is None:
                limit = self._torque_constant(joint) * (joint.current_limit_a or 0.0) * abs(joint.gear_ratio)
            limits.append(limit)
        return read_only(limits)

    @cached_property
    def drive_constants(self) -> FloatArray:
        """Torque at each joint per unit of command, (n,).

        If all joints have a torque constant or a servo model, commands are currents, and the constants are
        `joint_constants` [N m/A]. If no joint has one, commands are torques, and the constants are 1.

        Raises:
            ConfigurationError: some joints have a torque constant or a servo model, and others have neither.
        """
        bare = not any(j.torque_constant_nm_per_a or j.servo_model for j in self.file.joints)
        return read_only(np.ones(self.size)) if bare else self.joint_constants

    @cached_property
    def drive_limits(self) -> FloatArray:
        """Largest command of each joint within its current and torque limits, (n,).

        The unit is A if commands are currents, and N m if commands are torques, see `drive_constants`.

        Raises:
            ConfigurationError: only some joints have a current limit, a joint has neither current nor torque limit, or
                only some joints have a torque constant or a servo model.
        """
        if all(j.current_limit_a is None for j in self.file.joints):
            return read_only(self.torque_limits / self.drive_constants)
        stated = np.array([np.inf if j.torque_limit_nm is None else j.torque_limit_nm for j in self.file.joints])
        return read_only(np.minimum(self.current_limits, stated / self.drive_constants))

    @property
    def nuisances(self) -> Nuisances:
        """Magnitudes of effects in the simulated arm that the identified model does not contain.

        Raises:
            ConfigurationError: robot.yaml has no `simulation.nuisances`.
        """
        if self.file.simulation.nuisances is None:
            raise ConfigurationError(
                f"robot '{self.name}' has no simulation.nuisances in robot.yaml, which simulation and contact need"
            )
        return self.file.simulation.nuisances

    @cached_property
    def rest_posture(self) -> FloatArray:
        """Posture in which torque may be switched off, (n,) [rad; m for prismatic joints].

        Raises:
            ConfigurationError: robot.yaml has no rest posture.
        """
        if self.file.rest_posture is not None:
            return read_only(self.file.rest_posture)
        if self.file.rest_posture_deg is None:
            raise ConfigurationError(f"robot '{self.name}' has no rest_posture_deg in robot.yaml, which a motion needs")
        return read_only(np.deg2rad(self.file.rest_posture_deg))

    @cached_property
    def audit_lower(self) -> FloatArray:
        """Lower ends of the chain joints' ranges in which M(q) must be positive definite, (chain_size,) [rad or m].

        `audit_domain` in robot.yaml states them. Without it they are the lower joint limits, or -pi if a revolute joint
        has a lower limit below -pi.
        """
        return self._audit_corner(np.maximum, self.lower, -np.pi, "lower_deg")

    @cached_property
    def audit_upper(self) -> FloatArray:
        """Upper ends of the chain joints' ranges in which M(q) must be positive definite, (chain_size,) [rad or m].

        `audit_domain` in robot.yaml states them. Without it they are the upper joint limits, or pi if a revolute joint
        has an upper limit above pi.
        """
        return self._audit_corner(np.minimum, self.upper, np.pi, "upper_deg")

    def _audit_corner(self, inner: np.ufunc, limits: FloatArray, half_turn: float, key: str) -> FloatArray:
        if self.file.audit_domain is not None:
            return read_only(np.deg2rad(getattr(self.file.audit_domain, key)))
        own, prismatic = limits[: self.chain_size], self.prismatic[: self.chain_size]
        return read_only(np.where(prismatic, own, inner(own, half_turn)))  # poses repeat beyond half a turn

    def gravity(self, mount: str | None = None) -> FloatArray:
        """Return the gravitational acceleration in the base link's frame, (3,) [m/s^2].

        Args:
            mount: name of a mount (orientation of the base) in mounts_gravity_m_s2; None is the default mount.

        Raises:
            UnknownNameError: robot.yaml has no mount of this name.
        """
        mounts = self.file.mounts_gravity_m_s2
        name = mount or self.file.default_mount
        if name not in mounts:
            raise UnknownNameError("mount", name, tuple(mounts))
        return read_only(mounts[name])


def _position(degrees: float | None, metres: float | None) -> float:
    """Return a joint position in SI units, from an angle [deg] or a length [m]."""
    return float(np.deg2rad(degrees)) if degrees is not None else float(metres or 0.0)


def known_robots() -> tuple[str, ...]:
    """Return the names of the robots that are part of dynid."""
    return tuple(sorted(path.parent.name for path in (share_folder() / "config").glob("*/robot.yaml")))


def load_robot(name_or_folder: str | Path) -> Robot:
    """Load a robot that is part of dynid by its name, or any robot by its folder.

    Raises:
        UnknownNameError: the text is neither a known robot's name nor a folder with a robot.yaml.
        ConfigurationError: robot.yaml is not valid.
    """
    as_path = Path(name_or_folder)
    is_folder = (as_path / "robot.yaml").is_file()
    if not is_folder and str(name_or_folder) not in known_robots():
        raise UnknownNameError("robot", str(name_or_folder), (*known_robots(), "or a folder with a robot.yaml"))
    folder = as_path if is_folder else share_folder() / "config" / str(name_or_folder)
    return Robot(load_validated(folder / "robot.yaml", RobotFile), folder.resolve())
