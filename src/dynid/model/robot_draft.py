"""A first robot.yaml from a URDF: what the URDF says, and as questions what only a person can decide."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from dynid.errors import ConfigurationError
from dynid.model.chain import SerialChain, pinocchio_chain_model, read_urdf_text
from dynid.model.urdf_tree import UrdfJoint, UrdfTree, read_tree
from dynid.resources import whole_folder, write_whole
from dynid.robot import FloatArray, RobotFile

GRAVITY_M_S2 = 9.80665
DEFAULT_VELOCITY = 3.0  # rad/s or m/s, where the URDF gives none
MASS_FACTOR = 3.0  # a URDF's mass may be wrong by so much either way
UNKNOWN_MASS_KG = (0.01, 20.0)
TOKEN_MASS_KG = 1e-6  # what is lighter stands for no mass known
BOX_MARGIN_M = 0.06  # around the link's origin, its centre of mass and the next joint
ENDLESS_RAD = 100.0  # limits beyond this are none

HEAD = """\
# Drafted from {urdf}. What the URDF cannot say stands under `undecided` as a question: decide, change the
# field that it names, and take the question out. `dynid robot check {name}` says what is left.
"""
IDENTIFICATION = """\
# How data of this arm are identified. The cut-off must lie above what the motion has, and below what noise has.
schema_version: 1
estimator: wls
sampling_interval_s: 0.02
filter: {order: 4, cutoff_of_nyquist: 0.8, maximum_cutoff_hz: 10.0, state_cutoff_ratio: 1.5, settling_periods: 3.0}
acceptance: {lambda_min_kg_m2: 1.0e-4, fresh_poses: 20000, relative_torque_error: 0.2, condition_number: 10000}
"""


@dataclass(frozen=True)
class Draft:
    """What a URDF gives: the content of robot.yaml, joints in the chain, decoupled and left out."""

    content: dict[str, Any]
    chain: tuple[str, ...]
    decoupled: tuple[str, ...]
    left_out: tuple[str, ...]

    @property
    def questions(self) -> dict[str, str]:
        """What a person must decide, by field."""
        return dict(self.content["undecided"])


def _axes(tree: UrdfTree, tip: str | None, apart: Collection[str]) -> tuple[list[UrdfJoint], list[UrdfJoint]]:
    """The chain's joints, and movable ones beyond its end.

    Without a tip the chain ends where the movable joints branch, or before one of those that stand `apart`.

    Raises:
        ConfigurationError: no link of this name, no movable joint, or arms that branch off at once.
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
                f"serial chain; choose its last link with --tip, such as one of {tips}"
            )
    if not chain:
        raise ConfigurationError("the URDF has no movable joint" + (f" between {tree.root} and {tip}" if tip else ""))
    names = {joint.name for joint in chain}
    beyond = [j for j in movable if j not in chain and names <= {up.name for up in tree.path_to(j.parent)}]
    return chain, beyond


def _next(tree: UrdfTree, movable: list[UrdfJoint], chain: list[UrdfJoint]) -> list[UrdfJoint]:
    """The movable joints that come next after a chain: those with no other movable one between."""
    found = []
    for joint in movable:
        above = [one for one in tree.path_to(joint.parent) if one.movable]
        if above == chain:
            found.append(joint)
    return found


def _joint_row(joint: UrdfJoint, role: str, questions: dict[str, str]) -> dict[str, Any]:
    """One joint of robot.yaml; asks where the URDF gives no limit."""
    row: dict[str, Any] = {"name": joint.name}
    endless = joint.kind == "continuous" or joint.lower is None or joint.upper is None or joint.lower >= joint.upper
    endless |= max(abs(joint.lower or 0.0), abs(joint.upper or 0.0)) > ENDLESS_RAD
    lower, upper = (-np.pi, np.pi) if endless else (joint.lower or 0.0, joint.upper or 0.0)
    if joint.kind == "prismatic":
        row |= {"lower_m": -1.0 if endless else lower, "upper_m": 1.0 if endless else upper}
    else:
        row |= {"lower_deg": round(float(np.rad2deg(lower)), 6), "upper_deg": round(float(np.rad2deg(upper)), 6)}
    if endless:
        questions[f"joints.{joint.name}.limits"] = "the URDF gives no limits: how far may this joint move?"
    if joint.velocity:
        row["velocity_limit_rad_s"] = joint.velocity
    else:
        row["velocity_limit_rad_s"] = DEFAULT_VELOCITY
        questions[f"joints.{joint.name}.velocity_limit_rad_s"] = "the URDF gives no limit: how fast may this joint be?"
    if joint.effort:
        row["torque_limit_nm"] = joint.effort
    else:
        questions[f"joints.{joint.name}.torque_limit_nm"] = (
            "the URDF gives no effort: what can the drive give at the joint? Or give current_limit_a and "
            "torque_constant_nm_per_a"
        )
    return row | ({"role": role} if role != "chain" else {})


def _bounds(chain: SerialChain, questions: dict[str, str]) -> dict[str, Any]:
    """Bounds of masses and centres of mass, proposed from the URDF's inertials."""
    links, masses = [], []
    for j in range(chain.size):
        inertia = chain.model.inertias[j + 1]
        known = inertia.mass > TOKEN_MASS_KG
        masses.append(inertia.mass)
        mass = (inertia.mass / MASS_FACTOR, MASS_FACTOR * inertia.mass) if known else UNKNOWN_MASS_KG
        points = [np.zeros(3), np.array(inertia.lever)] if known else [np.zeros(3)]
        if j + 1 < chain.size:
            points.append(_next_origin(chain, j))
        lower, upper = np.min(points, axis=0) - BOX_MARGIN_M, np.max(points, axis=0) + BOX_MARGIN_M
        links.append(
            {
                "mass_kg": [_figures(value) for value in mass],
                "centre_of_mass_lower_m": [_figures(value) for value in lower],
                "centre_of_mass_upper_m": [_figures(value) for value in upper],
            }
        )
    light = [chain.model.names[j + 1] for j, mass in enumerate(masses) if mass <= TOKEN_MASS_KG]
    without = f" The URDF gives no mass beyond {', '.join(light)}." if light else ""
    questions["physical_bounds"] = (
        "proposed: a third to three times the URDF's masses, centres of mass within a box around the link. Within "
        f"which masses and boxes is the truth for certain? Weigh the arm.{without}"
    )
    total = sum(masses) if not light else UNKNOWN_MASS_KG[1]
    return {"total_mass_kg": _figures(1.5 * total if not light else total), "links": links}


def _next_origin(chain: SerialChain, j: int) -> FloatArray:
    """Origin of joint frame j + 1 in joint frame j, (3,) [m], at q = 0."""
    step = np.linalg.inv(chain.joint_placements[j]) @ chain.joint_placements[j + 1]
    return np.asarray(step[:3, 3])


def _figures(value: float) -> float:
    """Three significant figures."""
    return float(f"{value:.3g}")


def draft_robot(name: str, urdf: Path, tip: str | None = None, decoupled: Collection[str] = ()) -> Draft:
    """What robot.yaml can say of a URDF.

    Args:
        name: of the robot.
        urdf: the file.
        tip: last link of the chain; None: the chain ends where the movable joints branch.
        decoupled: joints (of a hand) that are no part of the chain.

    Raises:
        InputNotFoundError, ConfigurationError: no URDF of a serial chain; names what is in the way.
    """
    text = read_urdf_text(urdf)
    tree = read_tree(text)
    joints, beyond = _axes(tree, tip, decoupled)
    chain = tuple(joint.name for joint in joints)
    serial = SerialChain(pinocchio_chain_model(text, chain))
    taken = {joint.name for joint in (*joints, *beyond)}
    left_out = tuple(joint.name for joint in tree.joints if joint.kind != "fixed" and joint.name not in taken)
    hand = tuple(joint.name for joint in beyond)
    questions = {
        "joints": _joints_question(chain, hand, left_out),
        "mounts_gravity_m_s2": f"does gravity point along -z of {tree.root}? Give one line per way of mounting.",
        "structure": "which terms: products of inertia, rotors, viscous and Coulomb friction, offset, Stribeck? The "
        "URDF knows nothing of drives.",
        "joints.gear_ratio": "are positions and torques measured at the joints? If at the motors, give every joint its "
        "gear_ratio, and `coupling` where a motor moves several joints.",
        "joints.torque_constant_nm_per_a": "does the arm report currents? Then give torque constants, and check them "
        "with a known mass.",
    }
    rows = [_joint_row(joint, "chain", questions) for joint in joints]
    rows += [_joint_row(joint, "decoupled", questions) for joint in beyond]
    content = {
        "schema_version": 1, "name": name, "title": tree.name or name, "urdf": f"{name}.urdf", "base_link": tree.root,
        "joints": rows,
        "mounts_gravity_m_s2": {"upright": [0.0, 0.0, -GRAVITY_M_S2]}, "default_mount": "upright",
        "structure": {"products_of_inertia": True, "rotor_inertia": True, "viscous_friction": True,
                      "coulomb_friction": True},
        "physical_bounds": _bounds(serial, questions),
        "undecided": questions,
    }  # fmt: skip
    RobotFile.model_validate(content)
    return Draft(content, chain, hand, left_out)


def _joints_question(chain: tuple[str, ...], decoupled: tuple[str, ...], left_out: tuple[str, ...]) -> str:
    parts = [f"the chain is taken as {', '.join(chain)}"]
    if decoupled:
        parts.append(f"{', '.join(decoupled)} as decoupled (rotor inertia and friction only)")
    if left_out:
        parts.append(f"{', '.join(left_out)} as fixed at zero")
    return f"{'; '.join(parts)}. Is that so?"


def write_draft(draft: Draft, urdf: Path, folder: Path) -> None:
    """Write robot.yaml, identification.yaml and a copy of the URDF into a new folder: all or nothing.

    Raises:
        OutputExistsError: the folder exists.
    """
    name = draft.content["name"]
    text = read_urdf_text(urdf)
    content = {key: value for key, value in draft.content.items() if key != "undecided"}
    body = yaml.safe_dump(content, sort_keys=False, width=140, default_flow_style=None, allow_unicode=True)
    body += "\n" + yaml.safe_dump({"undecided": draft.questions}, sort_keys=False, width=110, allow_unicode=True)
    with whole_folder(folder) as work:
        write_whole(work / f"{name}.urdf", text)
        write_whole(work / "robot.yaml", HEAD.format(urdf=urdf.name, name=folder) + body)
        write_whole(work / "identification.yaml", IDENTIFICATION)
