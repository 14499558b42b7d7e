"""Every field of a robot's files is used by the code that is listed here as its owner.

An owner is a module with the name that it reads: the field itself, or a property of `ACCESSORS` that uses the field.
`a.b` requires the attribute b of an object named a; b alone may belong to any object.
"""

import ast
import typing
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from pydantic import BaseModel

from dynid.control.controller import ControllerSettings
from dynid.hardware.safety.settings import SafetySettings
from dynid.robot.file import RobotFile
from dynid.trajectory.excitation_schema import ExcitationFile

SOURCE = Path(__file__).parents[1] / "src" / "dynid"
FILES = {
    "robot.yaml": RobotFile,
    "safety.yaml": SafetySettings,
    "controller.yaml": ControllerSettings,
    "excitation.yaml": ExcitationFile,
}
ACCESSORS = (
    "robot/robot.py",
    "robot/file.py",
    "robot/servo_fields.py",
    "model/transmission.py",
    "trajectory/excitation_schema.py",
)
DRIVER, GUARD, HOLD = "hardware/arm/dynamixel_arm.py", "hardware/safety/guard.py", "hardware/safety/hold.py"
LOWERING = "hardware/safety/lowering.py"
GUIDING, LOADS = "control/guiding.py", "control/load_watch.py"
LOOP, CHECK, FAMILIES = "hardware/loop/arm_cycle.py", "control/motion_check.py", "trajectory/families.py"
SERVOS, PLANT, NUISANCES = "simulation/servo/chain.py", "simulation/plant/arm.py", "simulation/plant/nuisances.py"
BOUNDS, TERMS, SPRINGS = "robot/link_limits.py", "model/drive.py", "model/springs.py"
UNITS, SHAFTS = "hardware/bus/servo_units.py", "simulation/servo/shafts.py"
CHECKS = "hardware/startup/servo_checks.py"
BETWEEN, DRIVABLE = "model/transmission.py", "model/drivable.py"

# field: who obeys it, as (role, module, what is read there)
OWNERS: dict[str, tuple[tuple[str, str, str], ...]] = {
    # -- robot.yaml
    "RobotFile.name": (("identification", "recording/settings.py", "robot.name"),),
    "RobotFile.title": (("report", "reporting/report.py", "file.title"),),
    "RobotFile.urdf": (("model", "model/chain.py", "urdf_path"),),
    "RobotFile.base_link": (("contact", "nodes/external_torque_node.py", "file.base_link"),),
    "RobotFile.undecided": (
        ("driver", DRIVER, "servo_ids"),
        ("identification", "identification/pipeline.py", "undecided"),
    ),
    "RobotFile.servos": (
        ("driver", "hardware/startup/servo_snapshot.py", "wired_servos"),
        ("simulation", SERVOS, "wired_servos"),
    ),
    "RobotFile.joints": (("driver", CHECKS, "file.joints"),),
    "RobotFile.coupling": (
        ("driver, guard, simulated servos", BETWEEN, "robot.coupling"),
        ("identification", "model/dynamics.py", "robot.coupling"),
        ("export", "export/mjcf.py", "robot.coupling"),
    ),
    "RobotFile.springs": (("every user of the model", SPRINGS, "file.springs"),),
    "RobotFile.bus": (("driver", DRIVER, "file.bus"), ("guard", GUARD, "file.bus")),
    "RobotFile.mounts_gravity_m_s2": (("identification", "model/dynamics.py", "robot.gravity"),),
    "RobotFile.default_mount": (("driver", "nodes/hardware_node.py", "file.default_mount"),),
    "RobotFile.structure": (("identification", "model/dynamics.py", "file.structure"),),
    "RobotFile.geometry_profiles_m": (("audit", "commands/audit.py", "geometry_profiles_m"),),
    "RobotFile.physical_bounds": (("identification", "identification/conclusion.py", "physical_bounds"),),
    "RobotFile.audit_domain": (("identification", "identification/conclusion.py", "audit_lower"),),
    "RobotFile.simulation": (("simulation", PLANT, "file.simulation"),),
    "RobotFile.rest_posture_deg": (("executor", "control/plan.py", "rest_posture"),),
    "RobotFile.rest_posture": (("executor", "control/plan.py", "rest_posture"),),
    "RobotFile.tool_m": (("contact", "contact/force.py", "tool_m"),),
    "ServoModel.model_number": (
        ("driver", "hardware/startup/servo_snapshot.py", "wired_servos"),
        ("conversion of counts", UNITS, "current_units"),
    ),
    "ServoModel.torque_constant_nm_per_a": (("guard", GUARD, "joint_constants"), ("driver", DRIVER, "joint_constants")),
    "ServoModel.factory_current_limit_a": (("schema", "robot/file.py", "most_current_a"),),
    "Joint.name": (("driver", "hardware/safety/servo_watch.py", "wired_servos"),),
    "Joint.servo_id": (("driver", DRIVER, "servo_ids"),),
    "Joint.servo_model": (
        ("driver", "hardware/startup/servo_snapshot.py", "wired_servos"),
        ("overload", "hardware/safety/overload.py", "servo_model"),
    ),
    "Joint.lower_deg": (
        ("guard", GUARD, "robot.lower"),
        ("executor", CHECK, "robot.lower"),
        ("hold", HOLD, "robot.lower"),
    ),
    "Joint.upper_deg": (
        ("guard", GUARD, "robot.upper"),
        ("executor", CHECK, "robot.upper"),
        ("hold", HOLD, "robot.upper"),
    ),
    "Joint.lower_m": (("executor", CHECK, "robot.lower"),),
    "Joint.upper_m": (("executor", CHECK, "robot.upper"),),
    "Joint.velocity_limit_rad_s": (
        ("guard", GUARD, "velocity_limits"),
        ("executor", "hardware/safety/overload.py", "velocity_limits"),
    ),
    "Joint.velocity_limit_m_s": (("executor", "hardware/safety/overload.py", "velocity_limits"),),
    "Joint.current_limit_a": (
        ("driver", DRIVER, "current_limits"),
        ("guard", GUARD, "current_limits"),
        ("startup", "hardware/startup/servo_checks.py", "current_limit_a"),
    ),
    "Joint.torque_limit_nm": (("guard", GUARD, "torque_limits"), ("export", "export/mjcf.py", "torque_limits")),
    "Joint.role": (("model", "model/chain.py", "chain_size"),),
    "Joint.torque_constant_nm_per_a": (("guard", GUARD, "joint_constants"), ("driver", DRIVER, "joint_constants")),
    "Joint.gear_ratio": (
        ("driver, guard, simulated servos", BETWEEN, "gear_ratios"),
        ("guard", GUARD, "joint_constants"),
    ),
    "Joint.direction": (("driver", UNITS, "robot.directions"), ("simulated servos", SHAFTS, "robot.directions")),
    "Joint.reverse_mode": (("driver", CHECKS, "wired.reverse_mode"), ("simulated servos", SHAFTS, "one.reverse_mode")),
    "Joint.centre_count": (("driver", UNITS, "centre_counts"), ("simulated servos", SHAFTS, "one.centre_count")),
    "Joint.shadow_ids": (("driver", DRIVER, "all_servo_ids"), ("startup", CHECKS, "wired_servos")),
    "Joint.paired": (("driver", DRIVER, "robot.followers"),),
    "PairedServo.servo_id": (("driver", DRIVER, "all_servo_ids"),),
    "PairedServo.direction": (("driver", "hardware/bus/state_cycle.py", "one.direction"),),
    "PairedServo.reverse_mode": (("driver", CHECKS, "wired.reverse_mode"),),
    "PairedServo.centre_count": (("hold", "hardware/arm/servo_side_hold.py", "one.centre_count"),),
    "Joint.zero_offset_rad": (
        ("driver", DRIVER, "zero_offsets"),
        ("hold", "hardware/arm/servo_side_hold.py", "zero_offsets"),
    ),
    "Joint.beyond_urdf": (("driver", DRIVABLE, "beyond_urdf"),),
    "Spring.joint": (("model", SPRINGS, "spring.joint"),),
    "Spring.about_deg": (("model", SPRINGS, "about_deg"),),
    "Spring.powers": (("model", SPRINGS, "powers"),),
    "Bus.port": (("driver", "nodes/hardware_node.py", "bus.port"),),
    "Bus.baudrate": (("driver", DRIVER, "bus.baudrate"),),
    "Bus.cycle_s": (
        ("driver", "hardware/arm/cycle_rate.py", "bus.cycle_s"),
        ("guard", GUARD, "bus.cycle_s"),
        ("loop", "hardware/loop/cycle.py", "bus.cycle_s"),
    ),
    "Bus.other_ids": (("driver", "hardware/startup/servo_snapshot.py", "bus.other_ids"),),
    "Bus.centre_count": (("driver", UNITS, "centre_counts"), ("simulated servos", SHAFTS, "one.centre_count")),
    "Structure.products_of_inertia": (("identification", "model/base_parameters.py", "products_of_inertia"),),
    "Structure.rotor_inertia": (("identification", TERMS, "structure.rotor_inertia"),),
    "Structure.viscous_friction": (("identification", TERMS, "structure.viscous_friction"),),
    "Structure.coulomb_friction": (("identification", TERMS, "structure.coulomb_friction"),),
    "Structure.friction_offset": (("identification", TERMS, "structure.friction_offset"),),
    "Structure.stribeck": (("identification", TERMS, "structure.stribeck"),),
    "Stribeck.velocity_rad_s": (("identification", TERMS, "stribeck.velocity_rad_s"),),
    "Stribeck.exponent": (("identification", TERMS, "stribeck.exponent"),),
    "PhysicalBounds.total_mass_kg": (("identification", BOUNDS, "total_mass_kg"),),
    "PhysicalBounds.pseudo_inertia_margin": (("identification", BOUNDS, "pseudo_inertia_margin"),),
    "PhysicalBounds.minimal_spread_m": (("identification", BOUNDS, "minimal_spread_m"),),
    "PhysicalBounds.links": (("identification", BOUNDS, "bounds.links"),),
    "LinkBounds.mass_kg": (("identification", BOUNDS, "mass_kg"),),
    "LinkBounds.centre_of_mass_lower_m": (("identification", BOUNDS, "centre_of_mass_lower_m"),),
    "LinkBounds.centre_of_mass_upper_m": (("identification", BOUNDS, "centre_of_mass_upper_m"),),
    "LinkBounds.box_lower_m": (("identification", BOUNDS, "box_lower_m"),),
    "LinkBounds.box_upper_m": (("identification", BOUNDS, "box_upper_m"),),
    "AuditDomain.lower_deg": (("identification", "identification/conclusion.py", "audit_lower"),),
    "AuditDomain.upper_deg": (("identification", "identification/conclusion.py", "audit_upper"),),
    "Simulation.step_s": (("simulation", PLANT, "simulation.step_s"),),
    "Simulation.baudrate": (("simulation", "nodes/chain.py", "simulation.baudrate"),),
    "Simulation.standard_parameters": (
        ("identification", "identification/nominal_prior.py", "simulation.standard_parameters"),
    ),
    "Simulation.plant_parameters": (("simulation", PLANT, "simulation.plant_parameters"),),
    "Simulation.friction": (("simulation", "simulation/plant/gear_friction.py", "simulation.friction"),),
    "Simulation.nuisances": (("simulation", NUISANCES, "robot.nuisances"),),
    "Nuisances.coulomb_friction_nm": (("simulation", NUISANCES, "coulomb_friction_nm"),),
    "Nuisances.torque_noise_nm": (("simulation", NUISANCES, "torque_noise_nm"),),
    "Nuisances.encoder_counts_per_turn": (("simulation", NUISANCES, "encoder_counts_per_turn"),),
    "Nuisances.quantise_current": (("simulation", NUISANCES, "quantise_current"),),
    "Nuisances.stamp_jitter_s": (("simulation", NUISANCES, "stamp_jitter_s"),),
    "Nuisances.backlash_deg": (("simulation", NUISANCES, "backlash_deg"),),
    "Nuisances.communication_delay_s": (("simulation", NUISANCES, "communication_delay_s"),),
    "Nuisances.warm_up_share": (("simulation", PLANT, "nuisances.warm_up_share"),),
    "Nuisances.warm_up_time_s": (("simulation", PLANT, "nuisances.warm_up_time_s"),),
    # -- controller.yaml
    "ControllerSettings.proportional_gain_1_s2": (
        ("executor", "control/ff_pd.py", "proportional_gain_1_s2"),
        ("executor", "control/model_laws.py", "proportional_gain_1_s2"),
    ),
    "ControllerSettings.velocity_gain_1_s": (
        ("executor", "control/ff_pd.py", "velocity_gain_1_s"),
        ("executor", "control/model_laws.py", "velocity_gain_1_s"),
    ),
    "ControllerSettings.inertia_kg_m2": (("executor", "control/ff_pd.py", "inertia_kg_m2"),),
    "ControllerSettings.damping_nm_s_rad": (("executor", "control/ff_pd.py", "damping_nm_s_rad"),),
    "ControllerSettings.pseudo_differentiation_s": (("executor", "control/ff_pd.py", "pseudo_differentiation_s"),),
    "ControllerSettings.effort_share": (("executor", "control/effort_bounds.py", "effort_share"),),
    "ControllerSettings.effort_deflection_rad": (("executor", "control/effort_bounds.py", "effort_deflection_rad"),),
    "ControllerSettings.friction_share": (("executor", "control/model_laws.py", "friction_share"),),
    "ControllerSettings.sway_rad": (("executor", "control/selection.py", "sway_rad"),),
    "ControllerSettings.sway_hz": (("executor", "control/selection.py", "sway_hz"),),
    # -- excitation.yaml
    "ExcitationFile.velocity_rad_s": (("trajectories", FAMILIES, "velocity_rad_s"),),
    "ExcitationFile.acceleration_rad_s2": (("trajectories", FAMILIES, "acceleration_rad_s2"),),
    "ExcitationFile.levels": (("trajectories", FAMILIES, "levels"),),
    "ExcitationFile.speed_factors": (("trajectories", FAMILIES, "speed_factors"),),
    "ExcitationFile.postures_deg": (("trajectories", FAMILIES, "postures_deg"),),
    "ExcitationFile.wrist_variant": (("trajectories", FAMILIES, "wrist_variant"),),
    "ExcitationFile.patterns": (("trajectories", FAMILIES, "patterns"),),
    "ExcitationFile.profiles": (("trajectories", FAMILIES, "profiles"),),
    "ExcitationFile.trajectories": (("trajectories", FAMILIES, "trajectories"),),
    "WristVariant.joint": (("trajectories", FAMILIES, "wrist_variant.joint"),),
    "PrimitiveStep.joints": (("trajectories", FAMILIES, "joints"),),
    "PrimitiveStep.signs": (("trajectories", FAMILIES, "signs"),),
    "PrimitiveStep.speed": (("trajectories", FAMILIES, "speed"),),
    "PrimitiveStep.wrist": (("trajectories", FAMILIES, "wrist"),),
    "Profile.about": (("list of motions", "commands/trajectories.py", "about"),),
    **{
        f"Profile.{name}": (("trajectories", FAMILIES, name),)
        for name in ("joint_limits_deg", "margin_deg", "margin_m", "wrist_offset_deg", "speed_scale", "amplitudes_deg")
    },
    **{f"PatternMotion.{name}": (("trajectories", FAMILIES, name),) for name in ("posture", "pattern", "level")},
    "Concatenation.concatenate": (("trajectories", FAMILIES, "concatenate"),),
    "WaypointMotion.waypoints_deg": (("trajectories", FAMILIES, "waypoints_deg"),),
    "WaypointMotion.waypoints": (("trajectories", FAMILIES, "rows"),),
    "WaypointMotion.speed_factor": (("trajectories", FAMILIES, "speed_factor"),),
    "WaypointMotion.dwell_s": (("trajectories", FAMILIES, "dwell_s"),),
}
# -- safety.yaml: the guard, the hold, the loop and the start
SAFETY = {
    GUARD: "command_timeout_s refused_above commands_ended_s first_command_s current_ramp_s release_s current_rate_1_s "
    "soft_zone_rad approach_deceleration_rad_s2 blind_brake_s blind_alone_s hold_s lean_fraction lower_tool_m_s "
    "table_height_m table_near_m table_tool_m_s enable_tolerance_rad derate_from_deg_c derate_to_deg_c "
    "derated_fraction slow_data_old_s slow_data_lost_s overload_limits tool_limit_m_s",
    HOLD: "soft_zone_rad hold_damping_nm_s_rad damping_fraction hold_stiffness_1_s hold_integral_1_s load_average_s "
    "inertia_kg_m2 viscous_friction_nm_s_rad coulomb_friction_nm hold_slip_rad capture_velocity_rad_s capture_s "
    "lower_s lower_rad_s",
    LOWERING: "stop_velocity_rad_s lower_rad_s stop_dwell_s lower_from_s lower_dwell_s lean_s stop_time_s "
    "longest_stop_s",
    "control/guiding_speed.py": "guiding_damped_rad_s guiding_damped_m_s guiding_stop_rad_s guiding_stop_m_s",
    GUIDING: "guiding_alone_s guiding_alone_rad",
    LOADS: "guiding_load_n guiding_load_m",
    LOOP: "blind_travel_s fault_deg_c slow_data_lost_s",
}
for _module, _names in SAFETY.items():
    for _name in _names.split():
        OWNERS[f"SafetySettings.{_name}"] = (*OWNERS.get(f"SafetySettings.{_name}", ()), ("safety", _module, _name))


def schemas(kind: object, seen: list[type[BaseModel]] | None = None) -> list[type[BaseModel]]:
    """A schema and all that its fields hold."""
    found = [] if seen is None else seen
    for part in typing.get_args(kind):
        schemas(part, found)
    if isinstance(kind, type) and issubclass(kind, BaseModel) and kind not in found:
        found.append(kind)
        for field in kind.model_fields.values():
            schemas(field.annotation, found)
    return found


def fields() -> Iterator[str]:
    """Every field of the files, as Class.field; a schema's version is obeyed by the schema that allows one only."""
    for root in FILES.values():
        for schema in schemas(root):
            for name, field in schema.model_fields.items():
                if name != "schema_version":
                    yield f"{schema.__name__}.{name}"
                else:
                    assert typing.get_args(field.annotation) == (1,)


@cache
def tree(module: str) -> ast.Module:
    return ast.parse((SOURCE / module).read_text(encoding="utf-8"))


def reads(node: ast.AST) -> set[str]:
    """Attributes that are read below a node, alone and with what they are read from; and names in strings."""
    found = set()
    for one in ast.walk(node):
        if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Load):
            found.add(one.attr)
            owner = one.value.attr if isinstance(one.value, ast.Attribute) else getattr(one.value, "id", "")
            found.add(f"{owner.lstrip('_')}.{one.attr}")
        elif isinstance(one, ast.Constant) and isinstance(one.value, str) and one.value.isidentifier():
            found.add(one.value)  # of getattr
    return found


@cache
def accessors() -> dict[str, set[str]]:
    """What each function of `ACCESSORS` reads, by its name."""
    found: dict[str, set[str]] = {}
    for module in ACCESSORS:
        for node in ast.walk(tree(module)):
            if isinstance(node, ast.FunctionDef):
                found.setdefault(node.name, set()).update(reads(node))
    return found


def leads_to(read: str, field: str) -> bool:
    """Whether reading this attribute is reading the field, directly or through properties."""
    seen, left = set[str](), [read.rsplit(".", 1)[-1]]
    while left:
        name = left.pop()
        if name == field:
            return True
        if name not in seen:
            seen.add(name)
            left += accessors().get(name, set())
    return False


def objection(field: str, module: str, read: str) -> str:
    """Return why reading this attribute does not make a module use the field; '' if it does."""
    if not (SOURCE / module).is_file():
        return f"{field}: there is no {module}"
    if read not in reads(tree(module)):
        return f"{field}: {module} does not read {read}"
    if not leads_to(read, field.split(".")[1]):
        return f"{field}: {read} does not lead to it"
    return ""


def test_every_field_has_an_owner_and_every_owner_a_field() -> None:
    known = set(fields())
    assert sorted(known - set(OWNERS)) == [], "fields that nobody obeys"
    assert sorted(set(OWNERS) - known) == [], "owners of fields that are gone"
    assert all(OWNERS.values())


def test_the_owners_read_their_fields() -> None:
    found = [objection(field, module, read) for field, own in OWNERS.items() for _, module, read in own]
    assert [text for text in found if text] == []


@pytest.mark.parametrize(
    ("field", "module", "read", "words"),
    [
        ("Joint.gear_ratio", "model/no_such.py", "gear_ratios", "there is no"),
        ("Joint.gear_ratio", "hardware/safety/relief.py", "gear_ratios", "does not read gear_ratios"),
        ("Joint.gear_ratio", GUARD, "torque_limits_", "does not read"),
        ("Joint.gear_ratio", GUARD, "joint_names", "joint_names does not lead to it"),
        ("Bus.centre_count", GUARD, "bus.cycle_s", "bus.cycle_s does not lead to it"),
        ("RobotFile.tool_m", "contact/force.py", "arm.tool_m", "does not read arm.tool_m"),
    ],
)
def test_a_false_owner_is_found(field: str, module: str, read: str, words: str) -> None:
    assert words in objection(field, module, read)
