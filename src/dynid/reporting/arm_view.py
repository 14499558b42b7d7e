"""Data for the report's view of the arm: its worst pose, and the links' masses and inertias with their bounds.

The worst pose is the one in which the smallest eigenvalue of the inertia matrix M(q) is lowest.
"""

from dataclasses import dataclass

import numpy as np

from dynid.identification.feasibility.quick_audit import quick_audit
from dynid.model.chain import SerialChain
from dynid.model.dynamics import ArmModel
from dynid.model.model_file import ModelFile
from dynid.model.standard import from_file
from dynid.model.within_limits import spread_out
from dynid.robot import FloatArray, Robot

POSES = 20_000


@dataclass(frozen=True, eq=False)
class WorstPose:
    """Pose at which the smallest eigenvalue of the inertia matrix is lowest.

    Attributes:
        lambda_min: smallest eigenvalue of M(q) at this pose [kg m^2].
        q: positions of all axes, (n,) [rad or m].
        direction: unit eigenvector of this eigenvalue, which is the joint acceleration that needs the least torque,
            (n,).
        points: origins of base and joints in the base frame, then the last link's centre of mass if it is known,
            (k, 3) [m].
        centres: centres of mass of the c links in the base frame, (c, 3) [m]; (0, 3) without standard parameters.
        masses: masses of the c links, (c,) [kg].
        gravity: unit vector of gravity in the base frame, (3,); zeros without gravity.
    """

    lambda_min: float
    q: FloatArray
    direction: FloatArray
    points: FloatArray
    centres: FloatArray
    masses: FloatArray
    gravity: FloatArray


def worst_pose(robot: Robot, content: ModelFile, poses: int = POSES) -> WorstPose:
    """Return the pose at which the smallest eigenvalue of the inertia matrix is lowest.

    Args:
        robot: robot of the model.
        content: model file. If it states the worst pose, that pose is returned; otherwise the pose is searched.
        poses: number of random poses from which a search starts.

    Raises:
        DataError: the model is of another robot or structure.
    """
    model = ArmModel.of(robot, mount=content.mount, lengths_m=content.geometry_overrides_m)
    phi = content.base_parameters(model)
    if (q := np.array(content.provenance.get("worst_pose_rad", ()))).shape != (robot.size,):
        q = quick_audit(model, phi, robot.audit_lower, robot.audit_upper, poses=poses).pose
    values, vectors = np.linalg.eigh(model.inertia_matrix(q, phi).reshape(robot.size, robot.size))
    placements = SerialChain.from_robot(robot).placements(q[: robot.chain_size])
    points = [np.zeros(3), *placements[:, :3, 3]]
    centres, masses = np.zeros((0, 3)), np.zeros(0)
    if content.standard is not None:
        rows = content.standard.links
        local = np.array([[*row.centre_of_mass_m, 1.0] for row in rows])
        centres = np.einsum("jab,jb->ja", placements, local)[:, :3]
        masses = np.array([row.mass_kg for row in rows])
        points.append(centres[-1])
    strength = float(np.linalg.norm(model.gravity))
    gravity = np.asarray(model.gravity) / strength if strength else np.zeros(3)
    return WorstPose(float(values[0]), q, vectors[:, 0], np.array(points), centres, masses, gravity)


@dataclass(frozen=True)
class LinkMargin:
    """Mass and pseudo-inertia of one link with their bounds.

    Attributes:
        joint: name of the link's joint.
        mass: mass [kg].
        lowest: lower bound of the mass [kg].
        highest: upper bound of the mass [kg].
        eigenvalue: smallest eigenvalue of the link's pseudo-inertia matrix about the origin of its modified DH frame,
            in SI units (its entries are in kg m^2, kg m and kg), after mass times the square of `minimal_spread_m` of
            robot.yaml was subtracted from the second moments.
        required: `pseudo_inertia_margin` of robot.yaml, the lower bound of this eigenvalue.
    """

    joint: str
    mass: float
    lowest: float
    highest: float
    eigenvalue: float
    required: float

    @property
    def at_bound(self) -> bool:
        """Whether the mass lies at a bound of robot.yaml, which means that the data do not determine it."""
        return min(self.mass - self.lowest, self.highest - self.mass) < 0.01 * (self.highest - self.lowest)


def link_margins(robot: Robot, content: ModelFile) -> list[LinkMargin]:
    """Return masses and pseudo-inertia eigenvalues of all links with their bounds; [] without standard parameters."""
    if content.standard is None:
        return []
    model = ArmModel.of(robot, mount=content.mount, lengths_m=content.geometry_overrides_m)
    standard, limits = from_file(content.standard, model.mdh), model.limits(robot.file.physical_bounds)
    rows = zip(content.standard.links, limits.links, robot.joint_names, strict=False)
    return [
        LinkMargin(
            joint,
            row.mass_kg,
            *bound.mass,
            float(np.linalg.eigvalsh(spread_out(standard.link(j), limits.spread))[0]),
            limits.margin,
        )
        for j, (row, bound, joint) in enumerate(rows)
    ]
