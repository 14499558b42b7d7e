"""Limits of an arm's standard parameters: linear constraints for a solver, and a check that names a violated limit."""

import numpy as np

from dynid.model.dynamics import ArmModel
from dynid.model.parameters import StandardParameters
from dynid.model.standard import pseudo_inertia, to_link_frame
from dynid.robot import FloatArray
from dynid.robot.link_limits import ArmLimits, LinkLimits

# Units of the rows, so that masses, moments and inertias are all of order one.
LENGTH_UNIT_M = 0.1
MASS_UNIT_KG = 0.1
BOUND_TOLERANCE = 1e-3  # tolerance of bounds relative to their scale: the solver's accuracy


def spread_out(parameters: FloatArray, spread: float) -> FloatArray:
    """Return the matrix (4, 4) that is positive semidefinite if a link's mass is spread out widely enough.

    The condition is a standard deviation of the mass distribution of at least `spread` in every direction. The matrix
    is the pseudo-inertia with mass times spread^2 subtracted from its second moments [kg m^2, kg m, kg].

    Args:
        parameters: ten standard parameters of the link, (10,), SI.
        spread: required standard deviation of the mass distribution [m].
    """
    return np.asarray(pseudo_inertia(parameters) - parameters[9] * spread**2 * np.diag([1.0, 1.0, 1.0, 0.0]))


def link_rows(link: LinkLimits, placement: FloatArray, reserve: float = 0.0) -> tuple[FloatArray, FloatArray]:
    """Return linear conditions G x >= h, with G (m, 10) and h (m,), on the ten standard parameters x of a link, SI.

    The conditions keep mass and centre of mass within their bounds. They also limit the second moments to those of mass
    inside the link's box. Let a and b be the distances of a point from two faces of the box, positive inside. If all
    mass is inside, the mean of the product a * b over the mass is not negative. This is required for each two faces.
    The rows are scaled so that their values are of order one.

    Args:
        link: limits of the link.
        placement: placement of the link's modified DH frame in the URDF link frame, (4, 4).
        reserve: fraction of the box's size by which every side is moved inwards.
    """
    parameters = np.eye(10)
    unit_inertias = np.array([pseudo_inertia(one) for one in parameters])
    faces = link.faces(reserve) @ placement
    first, second = np.triu_indices(6, 1)
    products = np.einsum("ra,kab,rb->rk", faces[first], unit_inertias, faces[second])
    moment = np.hstack([np.zeros((3, 6)), placement[:3, :3], placement[:3, 3:]])  # in the URDF link frame
    mass, (lower, upper) = parameters[9:], link.centre
    inside = np.vstack([moment - lower[:, None] * mass, upper[:, None] * mass - moment])
    G = np.vstack([mass, -mass, inside / LENGTH_UNIT_M, products / LENGTH_UNIT_M**2]) / MASS_UNIT_KG
    h = np.zeros(len(G))
    h[:2] = link.mass[0] / MASS_UNIT_KG, -link.mass[1] / MASS_UNIT_KG
    return G, h


def outside(standard: StandardParameters, model: ArmModel, limits: ArmLimits) -> str:
    """Return a sentence about the first limit of the arm that standard parameters violate; "" if they violate none.

    Masses, centres of mass and extents may exceed their limits by a solver's tolerance. The required smallest
    eigenvalue of the pseudo-inertias, `limits.margin`, has no tolerance.

    Args:
        standard: standard parameters.
        model: model of the arm.
        limits: limits of the links and of the total mass.
    """
    for j, link in enumerate(limits.links):
        ten = standard.link(j)
        lowest = float(np.linalg.eigvalsh(spread_out(ten, limits.spread))[0])
        if not lowest >= limits.margin:  # `not ... >=` is also true for NaN, the result of overflows
            return (
                f"smallest pseudo-inertia eigenvalue {lowest:.3g} of link {j + 1} is below the required "
                f"{limits.margin:.3g} beyond a spread of {limits.spread} m"
            )
        G, h = link_rows(link, model.mdh.in_link[j])
        with np.errstate(over="ignore", invalid="ignore"):
            inside = (G @ ten - h >= -BOUND_TOLERANCE * ten[9] / MASS_UNIT_KG).all()
        if not inside:
            body = to_link_frame(ten, model.mdh.in_link[j])
            gyration = np.round(np.sqrt(np.diag(body.inertia) / body.mass), 5).tolist()
            return (
                f"link {j + 1} with mass {body.mass:.6g} kg, centre of mass "
                f"{np.round(body.centre_of_mass, 5).tolist()} m and radii of gyration {gyration} m is outside its "
                f"bounds in robot.yaml or its box ({link.source})"
            )
    total = sum(standard[f"M{j + 1}"] for j in range(model.chain_size))
    return f"total mass {total:.6g} kg exceeds {limits.total_mass} kg" * (
        total > limits.total_mass * (1 + BOUND_TOLERANCE)
    )
