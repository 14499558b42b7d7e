"""Required torques, torque limits, rotor inertias and friction of a drafted robot's drives, estimated from its URDF.

In all functions, `rows` are the drafted joint entries of robot.yaml, one dictionary of fields per joint.
"""

from typing import Any

import numpy as np

from dynid.model.chain import SerialChain
from dynid.model.pinocchio_library import pinocchio
from dynid.model.standard import AxisRow
from dynid.robot import FloatArray

CLEAR = 0.1  # margin at the limits [share of a joint's range]
ENDS = ("lower", "upper")
LOOKED_AT = 256  # number of random postures at which loads and inertias are evaluated
SMALL, LEAST_ROTOR = 0.005, 5e-4  # minimum rotor inertia: share of the arm's largest one, and absolute [kg m^2; kg]
BRISK = 5.0  # acceleration that a drive must manage [rad/s^2 or m/s^2]
LAMBDA_MIN, EIGENVALUE_SHARE = 1e-4, 0.1  # bound for M(q): default [kg m^2; kg], share of the URDF's
# A torque limit is a placeholder if it exceeds the joint's need by PLACEHOLDER and the largest of its kind by
# OF_LARGEST. The proposal is HEADROOM times the required torque, which is at least LEAST_NEED of the largest one.
PLACEHOLDER, OF_LARGEST, HEADROOM, LEAST_NEED = 100.0, 10.0, 4.0, 0.1
LEAST_LAMBDA = 1e-6  # smallest eigenvalue bound of M(q) [kg m^2; kg]


def reach(rows: list[dict[str, Any]], clear: float = 0.0) -> tuple[FloatArray, FloatArray]:
    """Return the lower and upper ends of the range of motion of drafted joints, (n,) each [rad or m].

    The joint limits give the range; for revolute joints it ends at most half a turn from zero. It is shortened at both
    ends by the fraction `clear` of its width. `rows` are the joint entries of robot.yaml.
    """
    slides = np.array(["lower_m" in row for row in rows])
    ends = ([row[f"{end}_m"] if f"{end}_m" in row else np.deg2rad(row[f"{end}_deg"]) for row in rows] for end in ENDS)
    limits = np.array(list(ends))
    reach = np.where(slides, np.inf, np.pi)
    lower, upper = np.maximum(limits[0], -reach), np.minimum(limits[1], reach)
    lower, upper = np.where(lower < upper, (lower, upper), limits)
    return lower + clear * (upper - lower), upper - clear * (upper - lower)


def gravity_loads(chain: SerialChain, rows: list[dict[str, Any]]) -> tuple[FloatArray, FloatArray]:
    """Return K postures within the joint limits, (K, n) [rad or m], and their gravity torques, (K, n) [N m; N].

    The first posture is the one nearest to zero that keeps a margin from the limits; all others are random.
    `rows` are the joints of robot.yaml.
    """
    (lower, upper), clear = reach(rows), reach(rows, CLEAR)
    near = np.clip(0.0, *clear)
    poses = np.vstack([near, np.random.default_rng(0).uniform(lower, upper, (LOOKED_AT, len(rows)))])
    size, data = chain.size, chain.model.createData()
    loads = np.zeros_like(poses)
    for q, load in zip(poses, loads, strict=True):
        load[:size] = pinocchio.computeGeneralizedGravity(chain.model, data, q[:size])
    return poses, loads


def inertia_matrices(chain: SerialChain, poses: FloatArray) -> FloatArray:
    """Return the inertia matrices of the links at K postures (K, n), as (K, c, c) [kg m^2; kg] for c chain joints.

    Rotor inertias are not included. Only the upper triangles are filled.
    """
    data = chain.model.createData()
    return np.array([pinocchio.crba(chain.model, data, q[: chain.size]) for q in poses])


def proposed_drives(rows: list[dict[str, Any]], loads: FloatArray, M: FloatArray) -> tuple[FloatArray, list[AxisRow]]:
    """Return each drive's required torque, (n,) [N m; N], and proposed rotor inertias and viscous friction.

    The required torque holds the largest gravity load and accelerates the joint by `BRISK` [rad/s^2 or m/s^2]. It is at
    least the fraction `SMALL` of the largest required torque among joints of the same kind (revolute or prismatic), and
    at most the torque limit in `rows`. A URDF states neither rotor inertia nor friction, so these rules give proposals:

    - A rotor inertia is the largest of four values: a fifth of the mean inertia of the links that the joint moves; the
      largest gravity load divided by 60 rad/s^2; the fraction `SMALL` of the largest such mean inertia among joints of
      the same kind; and `LEAST_ROTOR`.
    - Viscous friction is 5 % of the required torque at the speed limit, or at 2 rad/s if that is lower.

    Args:
        rows: joints of robot.yaml.
        loads: gravity torques at K postures, (K, n) [N m; N].
        M: inertia matrices of the links at these postures, upper triangles, (K, c, c) [kg m^2; kg] for c chain joints.
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
    """Return the inertia of the links about each joint, averaged over K postures, (n,) [kg m^2; kg].

    Decoupled joints get a small constant. `rows` are the joints of robot.yaml, and `M` are the inertia matrices of the
    links at the K postures, (K, c, c) [kg m^2; kg] for c chain joints.
    """
    inertia = np.full(len(rows), 1e-3)
    inertia[: M.shape[1]] = np.mean(np.diagonal(M, axis1=1, axis2=2), axis=0)
    return inertia


def brisk_torques(rows: list[dict[str, Any]], M: FloatArray, drives: list[AxisRow]) -> FloatArray:
    """Return the torques (n,) [N m; N] that accelerate links and rotors by `BRISK` [rad/s^2 or m/s^2].

    The inertia of the links about each joint is its mean over K postures.

    Args:
        rows: joints of robot.yaml.
        M: inertia matrices of the links at the K postures, (K, c, c) [kg m^2; kg] for c chain joints.
        drives: drive parameters of all joints, with the rotor inertias.
    """
    return BRISK * (_mean_inertia(rows, M) + [drive.rotor_inertia_kg_m2 for drive in drives])


def _largest_of_kind(rows: list[dict[str, Any]], values: FloatArray) -> FloatArray:
    """Return for each joint the largest of `values` (n,) among all joints of its kind, revolute or prismatic, (n,).

    `rows` are the joints of robot.yaml, which state the kind.
    """
    slides = np.array(["lower_m" in row for row in rows])
    return np.array([values[slides == one].max() for one in slides])


def propose_limits(rows: list[dict[str, Any]], need: FloatArray, questions: dict[str, str]) -> None:
    """Propose torque limits in `rows` where they are missing or implausibly high, and add questions about them.

    Torque limits serve to detect recorded torques in a wrong unit. With a limit of 1000 N m for a small arm, all
    torques would seem to be in a wrong unit. A limit is implausible if it far exceeds the torques that this joint and
    all others of its kind (revolute or prismatic) require. The other joints count because a wrist may have a servo as
    strong as the shoulder's. For a decoupled joint, the joints of the chain count too.

    Args:
        rows: joints of robot.yaml; torque limits are changed in place.
        need: torques that a motion requires of the joints, (n,) [N m; N].
        questions: questions that the user must answer, by field; new questions are added.
    """
    largest = _largest_of_kind(rows, need)
    strongest = max(own for row, own in zip(rows, need.tolist(), strict=True) if "role" not in row)
    for row, own, most in zip(rows, need.tolist(), largest.tolist(), strict=True):
        stated, unit = row.get("torque_limit_nm"), "N" if "lower_m" in row else "N m"
        # the load of a hand is unknown, but not ten times that of the arm
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
    """Return the smallest eigenvalue of M(q) with which identification shall accept a model [kg m^2; kg].

    It is `EIGENVALUE_SHARE` times the smallest eigenvalue of the matrices `M`, clipped to the range from `LEAST_LAMBDA`
    to `LAMBDA_MIN`. Rotor inertias, which increase the eigenvalues, are not counted, because they may be almost zero.

    Args:
        M: inertia matrices of the links at K postures, upper triangles, (K, c, c) [kg m^2; kg] for c chain joints.
    """
    least = float(np.linalg.eigvalsh(M, UPLO="U").min())
    return float(np.clip(three_figures(EIGENVALUE_SHARE * least), LEAST_LAMBDA, LAMBDA_MIN))


def _speed(row: dict[str, Any]) -> float:
    return float(row.get("velocity_limit_rad_s") or row["velocity_limit_m_s"])


def three_figures(value: float) -> float:
    """Return a value rounded to three significant figures."""
    return float(f"{value:.3g}")
