"""What the joints of a drafted robot need of their drives, from its URDF's loads: proposals with their questions."""

from typing import Any

import numpy as np

from dynid.model.chain import SerialChain
from dynid.model.pinocchio_library import pinocchio
from dynid.model.standard import AxisRow
from dynid.robot import FloatArray

CLEAR = 0.1  # of a joint's range
ENDS = ("lower", "upper")
LOOKED_AT = 256  # random poses, at which load and inertia of every joint are looked at
SMALL, LEAST_ROTOR = 0.005, 5e-4  # of the arm's largest figure; and kg m^2, or kg
BRISK = 5.0  # rad/s^2 or m/s^2
LAMBDA_MIN, EIGENVALUE_SHARE = 1e-4, 0.1  # that M(q) must keep [kg m^2; kg], and of the least that the URDF's has
# A limit that nobody has looked up is so many times what its joint needs, and what the neediest joint of its kind does;
# proposed are so many times the joint's need, which counts as a tenth of the largest one at least.
PLACEHOLDER, OF_LARGEST, HEADROOM, LEAST_NEED = 100.0, 10.0, 4.0, 0.1
LEAST_LAMBDA = 1e-6  # kg m^2; kg


def reach(rows: list[dict[str, Any]], clear: float = 0.0) -> tuple[FloatArray, FloatArray]:
    """Where drafted joints are moved, (n,) each [rad or m], `clear` of that range away from its ends.

    Within half a turn to either side, where limits allow it: more only winds cables up.
    """
    slides = np.array(["lower_m" in row for row in rows])
    ends = ([row[f"{end}_m"] if f"{end}_m" in row else np.deg2rad(row[f"{end}_deg"]) for row in rows] for end in ENDS)
    limits = np.array(list(ends))
    reach = np.where(slides, np.inf, np.pi)
    lower, upper = np.maximum(limits[0], -reach), np.minimum(limits[1], reach)
    lower, upper = np.where(lower < upper, (lower, upper), limits)
    return lower + clear * (upper - lower), upper - clear * (upper - lower)


def gravity_loads(chain: SerialChain, rows: list[dict[str, Any]]) -> tuple[FloatArray, FloatArray]:
    """Random poses within the limits, (K, n), the first near zero; and what gravity takes at each, (K, n) [N m; N]."""
    (lower, upper), clear = reach(rows), reach(rows, CLEAR)
    near = np.clip(0.0, *clear)
    poses = np.vstack([near, np.random.default_rng(0).uniform(lower, upper, (LOOKED_AT, len(rows)))])
    size, data = chain.size, chain.model.createData()
    loads = np.zeros_like(poses)
    for q, load in zip(poses, loads, strict=True):
        load[:size] = pinocchio.computeGeneralizedGravity(chain.model, data, q[:size])
    return poses, loads


def inertia_matrices(chain: SerialChain, poses: FloatArray) -> FloatArray:
    """M(q) of the links alone at poses (K, n), the upper triangles of (K, chain, chain) [kg m^2; kg]."""
    data = chain.model.createData()
    return np.array([pinocchio.crba(chain.model, data, q[: chain.size]) for q in poses])


def proposed_drives(rows: list[dict[str, Any]], loads: FloatArray, M: FloatArray) -> tuple[FloatArray, list[AxisRow]]:
    """What the joints need, (n,) [N m; N], and proposals for rotors and friction, of which no URDF says anything.

    A rotor is worth a fifth of the inertia behind the joint at least, and what its load could not move faster than 60
    rad/s^2; friction is a tenth of what the joint needs, viscous at its speed limit.
    """
    inertia = _mean_inertia(rows, M)
    load = np.abs(loads).max(axis=0)
    rotors = np.maximum.reduce(
        [0.2 * inertia, load / 60.0, np.maximum(SMALL * _largest_of_kind(rows, inertia), LEAST_ROTOR)]
    )
    need = load + BRISK * (inertia + rotors)
    need = np.maximum(need, SMALL * _largest_of_kind(rows, need)).clip(
        max=[row.get("torque_limit_nm", np.inf) for row in rows]
    )
    return need, [
        AxisRow(
            joint=row["name"],
            rotor_inertia_kg_m2=three_figures(rotor),
            viscous_friction_nm_s_per_rad=three_figures(0.05 * torque / min(_speed(row), 2.0)),
        )
        for row, rotor, torque in zip(rows, rotors, need, strict=True)
    ]


def _mean_inertia(rows: list[dict[str, Any]], M: FloatArray) -> FloatArray:
    """Mean inertia of the links behind all joints, (n,) [kg m^2; kg]."""
    inertia = np.full(len(rows), 1e-3)
    inertia[: M.shape[1]] = np.mean(np.diagonal(M, axis1=1, axis2=2), axis=0)
    return inertia


def brisk_torques(rows: list[dict[str, Any]], M: FloatArray, drives: list[AxisRow]) -> FloatArray:
    """What a brisk acceleration of links and rotors takes, (n,) [N m; N]."""
    return BRISK * (_mean_inertia(rows, M) + [drive.rotor_inertia_kg_m2 for drive in drives])


def _largest_of_kind(rows: list[dict[str, Any]], values: FloatArray) -> FloatArray:
    """The largest of the values (n,) of all joints that turn, or that slide, like each joint, (n,)."""
    slides = np.array(["lower_m" in row for row in rows])
    return np.array([values[slides == one].max() for one in slides])


def propose_limits(rows: list[dict[str, Any]], need: FloatArray, questions: dict[str, str]) -> None:
    """Torque limits that are missing, or far beyond what joints need, (n,) [N m; N], as proposals with a question.

    Torques are judged by their limit: with 1000 N m of a small arm, every torque looks as if it had a wrong unit. A
    wrist whose servo is as strong as the shoulder's is no such case.
    """
    largest = _largest_of_kind(rows, need)
    strongest = max(own for row, own in zip(rows, need.tolist(), strict=True) if "role" not in row)
    for row, own, most in zip(rows, need.tolist(), largest.tolist(), strict=True):
        stated, unit = row.get("torque_limit_nm"), "N" if "lower_m" in row else "N m"
        # of a hand nobody knows what it needs, but not ten times what the arm does
        compared = max(most, strongest) if "role" in row else most
        if stated is not None and stated <= max(PLACEHOLDER * own, OF_LARGEST * compared):
            continue
        row["torque_limit_nm"] = three_figures(HEADROOM * max(own, LEAST_NEED * most))
        why = "has no effort limit"
        if stated is not None:
            why = (
                f"has an effort limit of {stated:g} {unit}, {stated / own:.0f} times what a motion needs: a placeholder"
            )
        questions[f"joints.{row['name']}.torque_limit_nm"] = (
            f"the URDF {why}. Proposed: {row['torque_limit_nm']:g} {unit}. What does the drive reach at the joint? Or "
            "give current_limit_a and torque_constant_nm_per_a"
        )


def least_eigenvalue(M: FloatArray) -> float:
    """What M(q) must keep: a share of the least that the links alone have, as drives may have next to no rotors.

    M holds upper triangles, (K, chain, chain) [kg m^2; kg].
    """
    least = float(np.linalg.eigvalsh(M, UPLO="U").min())
    return float(np.clip(three_figures(EIGENVALUE_SHARE * least), LEAST_LAMBDA, LAMBDA_MIN))


def _speed(row: dict[str, Any]) -> float:
    return float(row.get("velocity_limit_rad_s") or row["velocity_limit_m_s"])


def three_figures(value: float) -> float:
    """Three significant figures."""
    return float(f"{value:.3g}")
