"""Export of an arm as a MuJoCo model: kinematics from the URDF; inertias, rotors and friction as identified.

MJCF holds what a URDF cannot: rotor inertia is `armature`, viscous friction is `damping`, and Coulomb friction is
`frictionloss`. A motor whose angle depends on several joints is a fixed tendon with these three fields. A linear spring
is the joint's `stiffness` and `springref`. Gravity comes from the mount. Contacts are disabled, because the identified
model does not include them.
"""

import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field

import mujoco
import numpy as np

from dynid.errors import ConfigurationError, DataError
from dynid.export.urdf import TOKEN_INERTIA_KG_M2, TOKEN_MASS_KG
from dynid.model.standard import StandardFile, springs_of
from dynid.robot import FloatArray, Robot, read_only
from dynid.robot.urdf_text import read_urdf_text

# Distance of the stops from the joint limits, so that a driver's guard acts visibly before the arm hits the stop.
STOP_MARGIN_RAD, STOP_MARGIN_M = float(np.deg2rad(5.0)), 0.005  # for revolute joints; for prismatic joints
# MuJoCo's dry friction is a soft constraint, so joints creep under loads just below the friction. These values reduce
# the creep to 1e-4 rad/s; the defaults give 2e-2 rad/s, too fast to count as stiction.
FRICTION_SOLREF = (0.002, 1.0)
FRICTION_SOLIMP = (0.99, 0.999, 0.001, 0.5, 2.0)


@dataclass(frozen=True, eq=False)
class PlantOptions:
    """Options of a MuJoCo model, besides the robot and its standard parameters.

    Attributes:
        mount: name of a mount in robot.yaml, which determines gravity; None is the default mount.
        coulomb_friction: Coulomb friction, (n,) [N m]; None means the values of the standard parameters.
        stops: lower and upper joint stops, (n,) each [rad; m if prismatic]; None means the result of `default_stops`.
        geometry: whether to keep the shapes for viewers, and joints that are not axes of robot.yaml, such as coupled
            fingers. The simulation is then slower.
        motors: whether to add an actuator for every axis, with the name of the joint. Its control is the joint torque
            [N m].
    """

    mount: str | None = None
    coulomb_friction: FloatArray | None = None
    stops: tuple[FloatArray, FloatArray] | None = None
    geometry: bool = False
    motors: bool = False


DEFAULT_OPTIONS = PlantOptions()


def build_spec(robot: Robot, standard: StandardFile, options: PlantOptions = DEFAULT_OPTIONS) -> mujoco.MjSpec:
    """Return the editable MuJoCo model of a robot.

    Joints that are not axes of robot.yaml are fixed at zero, unless `options.geometry` keeps them.

    Args:
        robot: the robot, with its URDF.
        standard: standard parameters of the robot's links and axes.
        options: options of the model.

    Raises:
        ConfigurationError: MuJoCo rejects the URDF, the URDF lacks a joint or link, or the standard parameters have
            spring coefficients for other exponents than robot.yaml declares.
        DataError: the standard parameters are not this robot's.
    """
    _check(robot, standard)
    try:
        spec = mujoco.MjSpec.from_string(read_urdf_text(robot.urdf_path))
    except ValueError as error:
        raise ConfigurationError(f"{robot.urdf_path} is not valid for MuJoCo: {error}") from error
    spec.modelname = robot.name
    spec.option.timestep = robot.file.simulation.step_s
    # MuJoCo's default and implicitfast are of first order: at 0.25 ms they change an inertia by 0.3 %, the size of an
    # identification's error. Runge-Kutta is exact to 1e-8 rad even with steps of 1 ms, dry friction included.
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_RK4
    spec.option.gravity = robot.gravity(options.mount)
    # the search for islands is disabled, since there is only one kinematic tree
    spec.option.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT | mujoco.mjtDisableBit.mjDSBL_ISLAND
    if not options.geometry:
        _strip(spec, robot)
    for name, row in zip(robot.joint_names, standard.links, strict=False):  # decoupled axes have no separate link
        body = _joint(spec, robot, name).parent
        body.mass, body.ipos, body.iquat = row.mass_kg, row.centre_of_mass_m, (1.0, 0.0, 0.0, 0.0)
        xx, xy, xz, yy, yz, zz = row.inertia_kg_m2
        body.fullinertia = (xx, yy, zz, xy, xz, yz)
        body.explicitinertial = True
    _empty_carried(spec, robot)
    _set_axes(spec, robot, standard, options)
    _add_springs(spec, robot, standard)
    _add_coupled_motors(spec, robot, standard)
    if options.motors:
        _add_actuators(spec, robot)
    return spec


def _check(robot: Robot, standard: StandardFile) -> None:
    joints = tuple(axis.joint for axis in standard.axes)
    if joints != robot.joint_names or len(standard.links) != robot.chain_size:
        raise DataError(
            f"standard parameters of '{standard.robot}' ({len(standard.links)} links, axes {', '.join(joints)}) "
            f"are not those of robot '{robot.name}' ({robot.chain_size} links, axes {', '.join(robot.joint_names)})"
        )


def _joint(spec: mujoco.MjSpec, robot: Robot, name: str) -> mujoco.MjsJoint:
    joint = spec.joint(name)
    if joint is None:
        raise ConfigurationError(f"{robot.urdf_path} has no movable joint '{name}' that robot.yaml lists")
    return joint


def _strip(spec: mujoco.MjSpec, robot: Robot) -> None:
    """Remove all elements that the dynamics does not need: shapes, and joints that are not axes of robot.yaml."""
    extra = [joint for joint in spec.joints if joint.name not in robot.joint_names]
    for element in [*spec.geoms, *spec.equalities, *extra]:
        spec.delete(element)


def _empty_carried(spec: mujoco.MjSpec, robot: Robot) -> None:
    """Remove the mass of the links that are not in the model's chain, such as fingers.

    The chain has one link for each axis of robot.yaml, except decoupled axes, such as that of a gripper. The
    parameters of a chain link include all links that it carries, so the mass of the carried links is set to zero. A
    carried link with its own joint, such as a finger, gets a negligible mass, because MuJoCo does not allow moving
    bodies without mass.
    """
    chain = {_joint(spec, robot, name).parent.name for name in robot.joint_names[: robot.chain_size]}
    for body in spec.bodies:
        if body.name in chain or body == spec.worldbody:
            continue
        moves = bool(body.joints)
        body.mass = TOKEN_MASS_KG if moves else 0.0
        inertia = TOKEN_INERTIA_KG_M2 if moves else 0.0
        body.ipos, body.iquat = (0.0, 0.0, 0.0), (1.0, 0.0, 0.0, 0.0)
        body.inertia, body.fullinertia = (inertia,) * 3, (np.nan, 0.0, 0.0, 0.0, 0.0, 0.0)  # NaN: not set
        body.explicitinertial = True


def _set_axes(spec: mujoco.MjSpec, robot: Robot, standard: StandardFile, options: PlantOptions) -> None:
    lower, upper = options.stops or default_stops(robot)
    coupled = _coupled_motors(robot)
    for index, (name, axis) in enumerate(zip(robot.joint_names, standard.axes, strict=True)):
        joint = _joint(spec, robot, name)
        joint.armature = 0.0 if index in coupled else axis.rotor_inertia_kg_m2
        _set_damping(joint, axis.viscous_friction_nm_s_per_rad)
        given = options.coulomb_friction
        joint.frictionloss = axis.coulomb_friction_nm if given is None else float(given[index])
        joint.solref_friction, joint.solimp_friction = FRICTION_SOLREF, FRICTION_SOLIMP
        joint.limited, joint.range = True, (float(lower[index]), float(upper[index]))
        joint.actfrclimited = False  # the servo limits the current; the URDF's effort limit is ignored


def _set_damping(element: mujoco.MjsJoint | mujoco.MjsTendon, value: float) -> None:
    element.damping = _linear(element.damping, value)


def _linear(field: object, value: float) -> FloatArray | float:
    """Return a linear coefficient in the form of a field of a MuJoCo element.

    In newer versions of MuJoCo such a field is an array of polynomial coefficients, the linear one first. In older
    versions it is a number.

    Args:
        field: present content of the field.
        value: linear coefficient, such as damping or stiffness.
    """
    given = np.zeros_like(np.atleast_1d(np.asarray(field, dtype=np.float64)))
    given[0] = value
    return given if given.size > 1 else float(given[0])


def _add_springs(spec: mujoco.MjSpec, robot: Robot, standard: StandardFile) -> None:
    """Set the stiffness and rest position of joints to the linear part of the springs that robot.yaml declares.

    MuJoCo cannot hold the nonlinear part; `mjcf_text` lists it in a comment.
    """
    for spring in springs_of(robot, standard):
        joint = _joint(spec, robot, robot.joint_names[spring.joint])
        stiffness, joint.springref = spring.linear()
        joint.stiffness = _linear(joint.stiffness, stiffness)


def _coupled_motors(robot: Robot) -> list[int]:
    """Return the indices of motors whose angle depends on several joints."""
    return np.flatnonzero((robot.coupling != np.eye(robot.size)).any(axis=1)).tolist()


def _add_coupled_motors(spec: mujoco.MjSpec, robot: Robot, standard: StandardFile) -> None:
    """Add a fixed tendon for every motor whose angle depends on several joints; the tendon's length is this angle.

    The angle is a row of C q, with the coupling matrix C of robot.yaml and the joint positions q.
    """
    for motor in _coupled_motors(robot):
        axis = standard.axes[motor]
        tendon = spec.add_tendon(name=f"motor_{axis.joint}")
        for joint in np.flatnonzero(robot.coupling[motor]):
            tendon.wrap_joint(robot.joint_names[joint], float(robot.coupling[motor, joint]))
        tendon.armature = axis.rotor_inertia_kg_m2
        _set_damping(tendon, axis.motor_viscous_friction_nm_s_per_rad or 0.0)
        tendon.frictionloss = axis.motor_coulomb_friction_nm or 0.0
        tendon.solref_friction, tendon.solimp_friction = FRICTION_SOLREF, FRICTION_SOLIMP


def _add_actuators(spec: mujoco.MjSpec, robot: Robot) -> None:
    """Add torque actuators for simulators and mujoco_ros2_control; at zero control they have no effect."""
    try:
        limits = robot.torque_limits
    except ConfigurationError:  # a robot that is never driven may lack limits
        limits = np.full(robot.size, np.nan)
    for name, largest in zip(robot.joint_names, limits, strict=True):
        motor = spec.add_actuator(name=name, trntype=mujoco.mjtTrn.mjTRN_JOINT, target=name)
        if np.isfinite(largest):
            motor.ctrllimited, motor.ctrlrange = True, (-float(largest), float(largest))


def default_stops(robot: Robot, limits: tuple[FloatArray, FloatArray] | None = None) -> tuple[FloatArray, FloatArray]:
    """Return joint stops slightly beyond the joint limits, or beyond the limits of a profile if these are wider.

    Args:
        robot: the robot.
        limits: lower and upper position limits of a profile in excitation.yaml, (n,) each [rad; m if prismatic]; None
            means only the joint limits.

    Returns:
        Lower and upper stops, (n,) each [rad; m if prismatic].
    """
    lower, upper = limits or (robot.lower, robot.upper)
    margin = np.where(robot.prismatic, STOP_MARGIN_M, STOP_MARGIN_RAD)
    return read_only(np.minimum(robot.lower, lower) - margin), read_only(np.maximum(robot.upper, upper) + margin)


@dataclass(frozen=True, eq=False)
class PlantModel:
    """Compiled MuJoCo model with the index of each axis in its vectors.

    Attributes:
        model: the compiled model.
        dofs: index of every axis in qpos and qvel, (n,).
    """

    model: mujoco.MjModel
    dofs: "np.ndarray" = field(repr=False)


def compile_plant(robot: Robot, standard: StandardFile, options: PlantOptions = DEFAULT_OPTIONS) -> PlantModel:
    """Return the compiled MuJoCo model of a robot; errors are those of `build_spec`.

    Args:
        robot: the robot, with its URDF.
        standard: standard parameters of the robot's links and axes.
        options: options of the model.
    """
    model = build_spec(robot, standard, options).compile()
    dofs = np.array([model.joint(name).dofadr[0] for name in robot.joint_names])
    dofs.flags.writeable = False
    return PlantModel(model, dofs)


def mjcf_text(robot: Robot, standard: StandardFile, options: PlantOptions = DEFAULT_OPTIONS, note: str = "") -> str:
    """Return the MuJoCo model of a robot as MJCF text, with inertial and joint values in full precision.

    MuJoCo writes only six digits, too few for torques that must agree to 1e-6 N m. So these values are replaced by
    those of the compiled model. It raises what `build_spec` raises.

    Args:
        robot: the robot, with its URDF.
        standard: standard parameters of the robot's links and axes.
        options: options of the model.
        note: text of a comment at the top of the file; "" adds none.
    """
    spec = build_spec(robot, standard, options)
    model = spec.compile()
    root = ElementTree.fromstring(spec.to_xml())  # noqa: S314 (MuJoCo wrote it just now)
    for body in root.iter("body"):
        inertial, number = body.find("inertial"), model.body(body.attrib["name"]).id
        if inertial is not None:
            inertial.attrib = {
                "pos": _digits(model.body_ipos[number]),
                "quat": _digits(model.body_iquat[number]),
                "mass": _digits(model.body_mass[number]),
                "diaginertia": _digits(model.body_inertia[number]),
            }
        for joint in body.findall("joint"):
            address = model.joint(joint.attrib["name"]).dofadr[0]
            joint.set("armature", _digits(model.dof_armature[address]))
            joint.set("damping", _digits(model.dof_damping[address]))
            joint.set("frictionloss", _digits(model.dof_frictionloss[address]))
            joint.set("range", _digits(model.joint(joint.attrib["name"]).range))
            number = model.joint(joint.attrib["name"]).id
            if stiffness := float(np.atleast_1d(model.jnt_stiffness[number])[0]):
                joint.set("stiffness", _digits(stiffness))
                joint.set("springref", _digits(model.qpos_spring[model.jnt_qposadr[number]]))
    for tendon in root.iter("fixed"):
        number = model.tendon(tendon.attrib["name"]).id
        for key in ("armature", "damping", "frictionloss"):
            tendon.set(key, _digits(np.atleast_1d(getattr(model, f"tendon_{key}")[number])[0]))
    if missing := _without_place(robot, standard):
        root.insert(0, ElementTree.Comment(f" Not in this file, because MuJoCo cannot hold them: {missing} "))
    if note:
        root.insert(0, ElementTree.Comment(f" {note} "))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def _without_place(robot: Robot, standard: StandardFile) -> str:
    """Return text that lists the friction offsets, Stribeck friction and nonlinear springs; '' if there are none.

    MJCF cannot hold these terms.
    """
    fields = {"offset": "friction_offset_nm", "Stribeck friction": "stribeck_friction_nm"}
    listed = [
        f"{word} of {axis.joint} {value:.6g} N m"
        for word, field in fields.items()
        for axis in standard.axes
        if (value := getattr(axis, field))
    ]
    for spring in springs_of(robot, standard):
        if beyond := spring.beyond_linear():
            name, slides = robot.joint_names[spring.joint], robot.prismatic[spring.joint]
            listed.append(f"torque of the spring of {beyond.words(name, slides)}")
    return ", ".join(listed)


def _digits(values: object) -> str:
    return " ".join(repr(float(value)) for value in np.atleast_1d(np.asarray(values)))
