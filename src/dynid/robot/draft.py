"""Draft of robot.yaml from a URDF; decisions that only the user can make become questions."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from dynid.errors import ConfigurationError
from dynid.model.chain import SerialChain
from dynid.model.gear_presets import FILE_NAME as GEAR_FILE
from dynid.model.standard import AxisRow, LinkRow, StandardFile, save_standard, six
from dynid.resources import guarded, invalid_fields, whole_folder, write_whole, yaml_text
from dynid.robot import FloatArray, RobotFile
from dynid.robot.draft_drives import (
    LAMBDA_MIN,
    brisk_torques,
    gravity_loads,
    inertia_matrices,
    least_eigenvalue,
    propose_limits,
    proposed_drives,
    three_figures,
)
from dynid.robot.draft_gears import HEAD as GEAR_HEAD
from dynid.robot.draft_gears import MODEL, DraftedGears, draft_gears
from dynid.robot.draft_rest import rest_posture
from dynid.robot.draft_servos import add_servos
from dynid.robot.file import NAME_PATTERN
from dynid.robot.link_limits import Box, shape_boxes
from dynid.robot.meshes import copy_meshes
from dynid.robot.servo_sources import ServoSource, servos_of_file, servos_of_urdf
from dynid.robot.urdf_text import read_urdf_text
from dynid.robot.urdf_tree import UrdfJoint, UrdfTree, read_tree

GRAVITY_M_S2 = 9.80665
DEFAULT_VELOCITY = {"velocity_limit_rad_s": 3.0, "velocity_limit_m_s": 0.25}  # defaults if the URDF gives none
MASS_FACTOR = 3.0  # bounds of a link's mass relative to the URDF's, either way
TOTAL_FACTOR = 1.5  # bound of the sum of masses relative to the URDF's
TOKEN_MASS_KG = 1e-6  # a lighter mass in a URDF means unknown mass
MOTION_SHARE, SLIDING = 0.6, 0.05  # speed of motions relative to the limit; their minimum [rad/s; m/s]
BOX_MARGIN_M = 0.06  # margin of boxes around the link's origin, its centre of mass and the next joint
CLEAR_DEG = 1.5  # minimum distance of an imported rest posture from a limit
ENDLESS_RAD = 100.0  # limits beyond this count as absent
LEAST_BRANCH = 2  # number of joints from which on a branch beyond a chain may be an arm
FINGER_M = 0.1  # a prismatic joint at the end of an arm with a shorter stroke is a finger of its gripper
COULOMB_SHARE = 0.05  # Coulomb friction of a drive of unknown gears [share of the joint's torque]
DRIVE_SHARE = 0.03  # minimum torque for proposing a drive's friction [share of its limit]

HEAD = """\
# Drafted from {urdf}. What the URDF cannot say stands under `undecided` as a question: decide, change the
# field that it names, and take the question out. `dynid robot check {name}` lists the open questions.
"""
IDENTIFICATION = """\
# How data of this arm are identified. The cut-off must lie above what the motion has, and below what noise has.
schema_version: 1
estimator: wls
sampling_interval_s: 0.02
filter: {{order: 4, cutoff_of_nyquist: 0.8, maximum_cutoff_hz: 10.0, state_cutoff_ratio: 1.5, settling_periods: 3.0}}
acceptance: {{lambda_min_kg_m2: {least:g}, fresh_poses: 20000, relative_torque_error: 0.2, condition_number: 10000}}
"""


@dataclass(frozen=True)
class Draft:
    """Draft of a robot's folder.

    Attributes:
        content: content of robot.yaml.
        chain: names of the joints of the serial arm, from the base on.
        decoupled: names of joints beyond the end of the serial arm, such as those of a hand, that are modelled by rotor
            inertia and friction alone.
        left_out: names of movable joints of the URDF that the draft treats as fixed, including `fingers`.
        fingers: names of omitted joints that are fingers of a gripper.
        nominal: standard parameters from the URDF's inertias, or a sentence why they are not usable.
        lambda_min: smallest eigenvalue of M(q) with which identification accepts a model [kg m^2; kg].
        gears: friction and rotor inertias of the servo models' gears.
    """

    content: dict[str, Any]
    chain: tuple[str, ...]
    decoupled: tuple[str, ...]
    left_out: tuple[str, ...]
    fingers: tuple[str, ...]
    nominal: StandardFile | str
    lambda_min: float
    gears: DraftedGears

    @property
    def questions(self) -> dict[str, str]:
        """Questions that the user must answer, by field of robot.yaml."""
        return dict(self.content["undecided"])


def _axes(tree: UrdfTree, tip: str | None, apart: Collection[str]) -> tuple[list[UrdfJoint], list[UrdfJoint]]:
    """Return the joints of the chain, and the movable joints beyond its end that are not treated as fixed.

    Args:
        tree: tree of the URDF.
        tip: last link of the chain; joints beyond it are treated as fixed, except joints in `apart`. None ends the
            chain where the movable joints branch, or before a joint in `apart`; then no movable joint is treated as
            fixed.
        apart: names of joints, such as those of a hand, that are modelled by rotor inertia and friction alone
            (decoupled joints).

    Raises:
        ConfigurationError: the URDF lacks the link `tip` or a joint in `apart`, has no movable joint or several arms
            that branch off at the root, or a joint in `apart` cannot be decoupled.
    """
    movable = [joint for joint in tree.joints if joint.movable]
    for name in apart:
        tree.joint(name)
    if tip is not None:
        if tip not in tree.links:
            raise ConfigurationError(f"the URDF has no link '{tip}'; it has {', '.join(tree.links)}")
        chain = [joint for joint in tree.path_to(tip) if joint.movable and joint.name not in apart]
    else:
        chain = []
        while len(below := _next(tree, movable, chain)) == 1 and below[0].name not in apart:
            chain.append(below[0])
        if not chain and len(below) > 1:
            tips = ", ".join(link for link in tree.links if link not in {joint.parent for joint in tree.joints})
            raise ConfigurationError(
                f"the joints {', '.join(joint.name for joint in below)} branch off {tree.root}: dynid identifies one "
                f"serial chain; choose its last link with --tip: {tips}"
            )
    if not chain:
        raise ConfigurationError("the URDF has no movable joint" + (f" between {tree.root} and {tip}" if tip else ""))
    names = {joint.name for joint in chain}
    beyond = [j for j in movable if j not in chain and names <= {up.name for up in tree.path_to(j.parent)}]
    if tip is None:
        _refuse_arm_beyond(tree, chain, beyond, apart)
    if inside := [name for name in apart if name not in {joint.name for joint in beyond}]:
        raise ConfigurationError(
            f"{', '.join(inside)} cannot be decoupled: it is fixed, follows another joint, or joints of the chain move "
            "with it; only movable joints beyond the chain can"
        )
    return chain, beyond if tip is None else [joint for joint in beyond if joint.name in apart]


def _refuse_arm_beyond(tree: UrdfTree, chain: list[UrdfJoint], beyond: list[UrdfJoint], apart: Collection[str]) -> None:
    """Raise ConfigurationError if a branch beyond the chain is at least as long as the chain: it is no hand.

    Args:
        tree: tree of the URDF.
        chain: joints of the chain, which ends where the movable joints branch.
        beyond: movable joints beyond its end.
        apart: names of joints that the user has declared as decoupled.
    """
    free = [joint for joint in beyond if joint.name not in apart]
    for joint in free:
        branch = [one.name for one in tree.path_to(joint.child) if one in free]
        if len(branch) >= max(len(chain), LEAST_BRANCH):
            raise ConfigurationError(
                f"the movable joints branch behind {chain[-1].name}, and one branch ({', '.join(branch)}) is as long "
                f"as the chain before: choose the arm's last link with --tip, such as --tip {joint.child}, or name "
                "the joints of a hand with --decoupled"
            )


def _without_fingers(
    chain: list[UrdfJoint], beyond: list[UrdfJoint], apart: Collection[str]
) -> tuple[list[UrdfJoint], list[UrdfJoint], tuple[str, ...]]:
    """Remove the joints of gripper fingers; return the chain, the joints beyond the chain, and the fingers' names.

    The stroke of a finger is too short to identify its drive, so a model with a finger would never pass the acceptance
    checks. Joints in `apart`, the decoupled joints, are not removed.
    """

    def is_finger(joint: UrdfJoint) -> bool:
        stroke = (joint.upper or 0.0) - (joint.lower or 0.0)  # zero without limits
        return joint.kind == "prismatic" and stroke < FINGER_M and joint.name not in apart

    hand = [joint for joint in beyond if not is_finger(joint)]
    kept, fingers = list(chain), [joint.name for joint in beyond if is_finger(joint)]
    while len(kept) > 1 and not hand and is_finger(kept[-1]):  # a sliding joint that carries a hand is no finger
        fingers.insert(0, kept.pop().name)
    return kept, hand, tuple(fingers)


def _next(tree: UrdfTree, movable: list[UrdfJoint], chain: list[UrdfJoint]) -> list[UrdfJoint]:
    """Return the joints in `movable` that follow directly after the last joint of the chain in the URDF's tree."""
    found = []
    for joint in movable:
        above = [one for one in tree.path_to(joint.parent) if one.movable]
        if above == chain:
            found.append(joint)
    return found


def _joint_row(joint: UrdfJoint, role: str, questions: dict[str, str]) -> dict[str, Any]:
    """Return a joint's entry of robot.yaml; add a question to `questions` for each limit missing in the URDF.

    `role` is "chain" for a joint of the serial arm, or "decoupled" for a joint that is modelled by rotor inertia and
    friction alone.
    """
    row: dict[str, Any] = {"name": joint.name}
    lower, upper = joint.lower or 0.0, joint.upper or 0.0  # 0 if the URDF has no limit, as in `is_finger`
    endless = joint.kind == "continuous" or joint.upper is None or lower >= upper
    endless |= max(abs(lower), abs(upper)) > ENDLESS_RAD
    lower, upper = (-np.pi, np.pi) if endless else (lower, upper)
    if joint.kind == "prismatic":
        row |= {"lower_m": -1.0 if endless else lower, "upper_m": 1.0 if endless else upper}
    else:
        row |= {"lower_deg": round(float(np.rad2deg(lower)), 6), "upper_deg": round(float(np.rad2deg(upper)), 6)}
    if endless:
        questions[f"joints.{joint.name}.limits"] = "the URDF has no limits: how far may this joint move?"
    speed = "velocity_limit_m_s" if joint.kind == "prismatic" else "velocity_limit_rad_s"
    stated = _positive(joint.velocity)
    row[speed] = stated or DEFAULT_VELOCITY[speed]
    if stated is None:
        questions[f"joints.{joint.name}.{speed}"] = "the URDF has no velocity limit: how fast may this joint move?"
    elif MOTION_SHARE * stated < SLIDING:
        questions[f"joints.{joint.name}.{speed}"] = (
            f"motions pass {MOTION_SHARE:g} of the limit of {stated:g}, and friction is separated from {SLIDING:g} on: "
            "is the joint that slow? Then no model of it will be accepted"
        )
    if (effort := _positive(joint.effort)) is not None:
        row["torque_limit_nm"] = effort
    else:
        questions[f"joints.{joint.name}.torque_limit_nm"] = (
            "the URDF has no effort limit: what torque does the drive reach at the joint? Or give current_limit_a and "
            "torque_constant_nm_per_a"
        )
    return row | ({"role": role} if role != "chain" else {})


def _positive(limit: float | None) -> float | None:
    """Return a limit from a URDF; None if it is missing, not finite or not positive."""
    return limit if limit is not None and np.isfinite(limit) and limit > 0.0 else None


def _bounds(
    chain: SerialChain, boxes: list[Box | str], stated_kg: float | None, questions: dict[str, str]
) -> dict[str, Any]:
    """Return proposed `physical_bounds` of robot.yaml, and add questions about them.

    Args:
        chain: serial chain with the inertias of the URDF.
        boxes: for each link, the box around its URDF shapes, or a sentence why there is no box.
        stated_kg: mass of all moving links, as given by the user; None if unknown.
        questions: questions that the user must answer, by field; new questions are added.
    """
    inertias = list(chain.model.inertias)[1 : chain.size + 1]
    known = [inertia.mass > TOKEN_MASS_KG for inertia in inertias]
    total = sum(inertia.mass for inertia in inertias)
    scale = stated_kg / total if stated_kg and all(known) else 1.0
    links = []
    for j, inertia in enumerate(inertias):
        row: dict[str, Any] = {}
        if known[j]:
            heaviest = min(MASS_FACTOR * scale * inertia.mass, stated_kg or np.inf)
            row["mass_kg"] = [three_figures(scale * inertia.mass / MASS_FACTOR), three_figures(heaviest)]
        points = [np.zeros(3), np.array(inertia.lever)] if known[j] else [np.zeros(3)]
        if j + 1 < chain.size:
            points.append(_next_origin(chain, j))
        corners = np.min(points, axis=0) - BOX_MARGIN_M, np.max(points, axis=0) + BOX_MARGIN_M
        row |= _corners("centre_of_mass", *corners)
        if not isinstance(box := boxes[j], str):
            row |= _corners("box", *box)
        links.append(row)
    names = list(chain.model.names)[1:]
    light = [name for name, there in zip(names, known, strict=False) if not there]
    without = f" The URDF has no mass beyond {', '.join(light)}." if light else ""
    boxless = {box for box in boxes if isinstance(box, str)}
    drawn = f" Boxes of links without shapes ({'; '.join(sorted(boxless))}) reach from joint to joint." * bool(boxless)
    questions["physical_bounds"] = (
        "proposed: a third to three times the URDF's masses, centres of mass and all mass within boxes around the "
        f"links. Which bounds surely contain the true values? Weigh the arm.{without}{drawn}"
    )
    if stated_kg:
        return {"total_mass_kg": stated_kg, "links": links}
    proposal = three_figures(TOTAL_FACTOR * total)
    questions["physical_bounds.total_mass_kg"] = (
        "what does the part of the arm that moves weigh? A data sheet or a scale says it."
        + (without or f" Proposed: {TOTAL_FACTOR} times the {three_figures(total)} kg of the URDF.")
        + " No model is heavier; without a number there is none at all."
    )
    return ({} if light else {"total_mass_kg": proposal}) | {"links": links}


def _corners(name: str, lower: FloatArray, upper: FloatArray) -> dict[str, list[float]]:
    return {f"{name}_lower_m": [*map(three_figures, lower)], f"{name}_upper_m": [*map(three_figures, upper)]}


def _nominal(name: str, urdf: Path, chain: SerialChain, axes: list[AxisRow]) -> StandardFile | str:
    """Return the standard parameters from the URDF's inertias, or a sentence why they are not usable.

    `axes` are the proposed rotor inertias and friction parameters of all joints.
    """
    rows = []
    for joint, inertia in zip(list(chain.model.names)[1:], list(chain.model.inertias)[1:], strict=True):
        tensor = np.array(inertia.inertia)
        moments = np.linalg.eigvalsh(tensor)
        if inertia.mass <= TOKEN_MASS_KG or moments[0] <= 0.0 or moments[0] + moments[1] <= moments[2]:
            return f"the URDF's inertial of the link after {joint} belongs to no body"
        centre, products = [*map(float, inertia.lever)], [*map(float, six(tensor))]
        rows.append(LinkRow(mass_kg=float(inertia.mass), centre_of_mass_m=centre, inertia_kg_m2=products))
    source = f"Inertials of {urdf.name}; rotors and friction are proposals for the simulated arm"
    return StandardFile(robot=name, source=source, links=tuple(rows), axes=tuple(axes))


def _next_origin(chain: SerialChain, j: int) -> FloatArray:
    """Return the position of the origin of joint frame j + 1 in joint frame j at q = 0, (3,) [m]."""
    step = np.linalg.inv(chain.joint_placements[j]) @ chain.joint_placements[j + 1]
    return np.asarray(step[:3, 3])


def draft_robot(
    name: str,
    urdf: Path,
    tip: str | None = None,
    decoupled: Collection[str] = (),
    total_mass_kg: float | None = None,
    servos: Path | None = None,
    servo_models: Mapping[str, str] | None = None,
) -> Draft:
    """Draft the content of robot.yaml from a URDF.

    Args:
        name: name of the robot.
        urdf: path of the URDF.
        tip: last link of the chain; all joints beyond it are treated as fixed, except decoupled joints. None ends the
            chain where the movable joints branch.
        decoupled: names of joints (of a hand) that are modelled by inertia and friction alone.
        total_mass_kg: mass of all moving links; if None, the draft contains a question about it.
        servos: file of other software that assigns servos to joints, see `servo_sources`; None uses the URDF's
            `<ros2_control>` block if it has one.
        servo_models: names of servo models that the servo file does not state, by joint name. The key "" applies to all
            joints without their own entry. The draft contains a question about each model that remains unknown.

    Raises:
        InputNotFoundError: the URDF or the file of servos does not exist.
        ConfigurationError: the URDF does not describe a serial chain, or other input is invalid; the message states the
            reason.
    """
    source = None
    if servos is not None:
        with guarded(servos, "file of servos", ConfigurationError):
            source = servos_of_file(servos)
    with guarded(urdf, "URDF of an arm", ConfigurationError):
        source = source or servos_of_urdf(read_urdf_text(urdf))
        if source is None and servo_models:
            raise ConfigurationError(
                f"no file gives the ids of the servos {', '.join(servo_models.values())}: the URDF has no "
                "<ros2_control> block with ids; name a file with --servos"
            )
        draft = _draft(name, urdf, tip, decoupled, total_mass_kg, source, servo_models or {})
        try:
            RobotFile.model_validate(draft.content)
        except ValidationError as error:
            given = urdf if source is None else f"{urdf} with the servos of {source.name}"
            raise ConfigurationError(f"{given}: {invalid_fields(error, RobotFile)}") from error
        return draft


def _drop_answered(questions: dict[str, str], rows: list[dict[str, Any]], geared: bool, whole: bool) -> None:
    """Remove the questions that a file of servos answers, in place; do nothing if a joint has no servo ID.

    Args:
        questions: questions that the user must answer, by field.
        rows: the joints' entries of robot.yaml.
        geared: whether the friction of all gears is known, which answers the question about terms of the model.
        whole: whether the chain contains every movable joint of the URDF, which answers the question about the choice
            of joints.
    """
    if not all("servo_id" in row for row in rows):
        return
    del questions["joints.gear_ratio"]  # a servo measures at its horn, and the source gives the ratio of further gears
    if geared:
        del questions["structure"]
    if whole:
        del questions["joints"]


def _draft(
    name: str,
    urdf: Path,
    tip: str | None,
    decoupled: Collection[str],
    total_mass_kg: float | None,
    source: ServoSource | None,
    servo_models: Mapping[str, str],
) -> Draft:
    """Draft a robot with the servos in `source` (None without servos); other arguments are those of `draft_robot`."""
    if not re.match(NAME_PATTERN, name):
        raise ConfigurationError(f"the robot's name is '{name}'; expected a word, such as my_arm")
    tree = read_tree(read_urdf_text(urdf), str(urdf))
    joints, beyond = _axes(tree, tip, decoupled)
    fingers: tuple[str, ...] = ()
    if tip is None:
        joints, beyond, fingers = _without_fingers(joints, beyond, decoupled)
    chain = tuple(joint.name for joint in joints)
    serial = SerialChain.of_file(urdf, chain)
    taken = {joint.name for joint in (*joints, *beyond)}
    left_out = tuple(joint.name for joint in tree.joints if joint.kind != "fixed" and joint.name not in taken)
    hand = tuple(joint.name for joint in beyond)
    questions = {
        "joints": _joints_question(chain, hand, left_out, fingers, _followers(tree, joints)),
        "mounts_gravity_m_s2": f"does gravity point along -z of {tree.root}? Give one line per mount.",
        "structure": "which terms: products of inertia, rotors, viscous and Coulomb friction, offset, Stribeck? A URDF "
        "does not describe drives. Gears whose friction grows with load or falls with speed need coulomb_friction and "
        "friction_offset false: then the data choose the friction's structure.",
        "joints.gear_ratio": "are positions and torques measured at the joints? If at the motors, give every joint its "
        "gear_ratio, and `coupling` if a motor moves several joints.",
        "joints.torque_constant_nm_per_a": "does the arm report currents? Then give torque constants and check them "
        "with a known mass.",
    }
    rows = [_joint_row(joint, "chain", questions) for joint in joints]
    rows += [_joint_row(joint, "decoupled", questions) for joint in beyond]
    poses, loads = gravity_loads(serial, rows)
    M = inertia_matrices(serial, poses)
    need, drives = proposed_drives(rows, loads, M)
    if all(inertia.mass > TOKEN_MASS_KG for inertia in list(serial.model.inertias)[1:]):
        propose_limits(rows, need, questions)
    # friction grows with the drive's size, even if the drive is much stronger than the joint requires
    size = np.maximum(need, [DRIVE_SHARE * row.get("torque_limit_nm", 0.0) for row in rows])
    driven = {} if source is None else add_servos(rows, source, servo_models, questions)
    coulomb = [three_figures(COULOMB_SHARE * torque) for torque in size]
    gears = draft_gears(rows)
    for place, row in enumerate(rows):
        if (drive := gears.drive(row)) is not None:
            drives[place], coulomb[place] = drive
    gears.ask_for_current(rows, np.abs(loads).max(axis=0), brisk_torques(rows, M, drives), questions)
    geared = bool(driven) and gears.knows(rows)
    _drop_answered(questions, rows, geared, not (left_out or hand))
    if source is not None and all(row["name"] in source.rest and "lower_deg" in row for row in rows):
        resting = {"rest_posture_deg": [_within(row, np.rad2deg(source.rest[row["name"]])) for row in rows]}
        how = f"where {source.name} lets the arm sleep"
    else:
        easy = np.array([gears.easy_load(row) for row in rows])
        resting, how = rest_posture(urdf, serial, rows, easy, poses, loads)
    questions["rest_posture"] = (
        f"proposed: {how}. In which posture may the arm be left without current, and start? "
        "`dynid robot poses` draws it"
    )
    content = {
        "schema_version": 1,
        "name": name,
        "title": tree.name or name,
        "urdf": f"{name}.urdf",
        "base_link": tree.root,
        **{key: driven[key] for key in ("servos",) if key in driven},
        "joints": rows,
        **{key: driven[key] for key in ("bus",) if key in driven},
        "mounts_gravity_m_s2": {"upright": [0.0, 0.0, -GRAVITY_M_S2]},
        "default_mount": "upright",
        "structure": {
            "products_of_inertia": True,
            "rotor_inertia": True,
            "viscous_friction": True,
            "coulomb_friction": not geared,  # if the gears are known, data select the friction structure
            "friction_offset": not geared,
        },
        "physical_bounds": _bounds(serial, shape_boxes(urdf, chain, serial), total_mass_kg, questions),
        **resting,
        "simulation": {
            **({"friction": MODEL} if geared else {}),
            "nuisances": {
                "coulomb_friction_nm": coulomb,
                "torque_noise_nm": [three_figures(0.005 * torque) for torque in need],
                "encoder_counts_per_turn": 4096 if driven else 65536,
                "quantise_current": "servos" in driven,
                "stamp_jitter_s": 5e-5,
                "communication_delay_s": 9e-4,
            },
        },
        "undecided": questions,
    }
    nominal = _nominal(name, urdf, serial, drives)
    least = LAMBDA_MIN if isinstance(nominal, str) else least_eigenvalue(M)
    return Draft(content, chain, hand, left_out, fingers, nominal, least, gears)


def _within(row: dict[str, Any], angle_deg: float) -> float:
    """Move an angle [deg] of an imported rest posture to at least `CLEAR_DEG` from a joint's limits; round it to 0.1.

    Drafted motions begin in the rest posture, and need room on both sides. `row` is the joint's entry of robot.yaml.
    """
    return round(float(np.clip(angle_deg, row["lower_deg"] + CLEAR_DEG, row["upper_deg"] - CLEAR_DEG)), 1)


def _followers(tree: UrdfTree, chain: list[UrdfJoint]) -> dict[str, str]:
    """Return the joints that lie within the chain and follow another joint (`<mimic>`), with the joint they follow."""
    return {joint.name: joint.mimics for joint in tree.path_to(chain[-1].parent) if joint.mimics is not None}


def _joints_question(
    chain: tuple[str, ...],
    decoupled: tuple[str, ...],
    left_out: tuple[str, ...],
    fingers: tuple[str, ...],
    followers: Mapping[str, str],
) -> str:
    """Return the question about the choice of joints.

    Args:
        chain: names of the chain's joints.
        decoupled: names of joints that are modelled by rotor inertia and friction alone.
        left_out: names of joints that are treated as fixed.
        fingers: those of them that are fingers.
        followers: those of them that lie within the chain and follow another joint, with the joint that they follow.
    """
    parts = [f"the chain is taken as {', '.join(chain)}"]
    if decoupled:
        parts.append(f"{', '.join(decoupled)} as decoupled (rotor inertia and friction only)")
    others = [name for name in left_out if name not in fingers]
    if others:
        parts.append(f"{', '.join(others)} as fixed at zero")
    for name, followed in followers.items():
        parts.append(f"but {name} follows {followed} in the URDF, so the model of all links beyond it would be wrong")
    if fingers:
        parts.append(
            f"{', '.join(fingers)} for fingers with too short a stroke to show their drives, fixed at zero "
            "(--decoupled or --tip takes them in)"
        )
    return f"{'; '.join(parts)}. Is this correct?"


def write_draft(draft: Draft, urdf: Path, folder: Path) -> None:
    """Write a robot's new folder, completely or not at all: robot.yaml, its other settings files, URDF and meshes.

    Raises:
        OutputExistsError: the folder exists.
    """
    name = draft.content["name"]
    text = read_urdf_text(urdf)
    content = {key: value for key, value in draft.content.items() if key != "undecided"}
    body = yaml_text(content, rows=True)
    body += "\n" + yaml_text({"undecided": draft.questions}, width=110)
    with whole_folder(folder) as work:
        write_whole(work / f"{name}.urdf", text)
        copy_meshes(read_tree(text, str(urdf)), urdf.parent, work)
        write_whole(work / "robot.yaml", HEAD.format(urdf=urdf.name, name=folder) + body)
        write_whole(work / "identification.yaml", IDENTIFICATION.format(least=draft.lambda_min))
        if draft.gears.file.servos:
            gears = draft.gears.file.model_dump(mode="json", exclude_defaults=True)
            write_whole(work / GEAR_FILE, GEAR_HEAD + yaml_text(gears))
        if not isinstance(draft.nominal, str):
            save_standard(work / "models" / "nominal.yaml", draft.nominal)
