"""Least-squares payload estimation with payloads modelled as sums of point masses in a box around the tool.

Every sum of point masses is a physically possible body: its mass is not negative, its centre lies in the box, and its
pseudo-inertia is positive semidefinite. The box also gives a prior. For a mass m and half a side b of the box, the
standard deviations are m b / sqrt(3) for first moments about the tool and m b^2 for inertias. Because this prior
depends on m, the estimate is repeated a few times, each time with the mass of the previous estimate.
"""

from itertools import product

import numpy as np
from scipy.linalg import solve_triangular

from dynid.contact.force import ToolForce
from dynid.model.dynamics import ArmModel
from dynid.model.standard import six
from dynid.nonnegative import nonnegative_least_squares
from dynid.robot import FloatArray, Robot

BOX_M = 0.1
GRID = (-1.0, 0.0, 1.0)
STANDARD_GRAVITY = 9.80665
ROUNDS, LEAST_KG = 4, 0.01  # rounds of the prior, and lower bound of its mass [kg]
BODY = 10  # number of standard parameters of a body


class PointMasses:
    """Least-squares estimator of a payload that consists of point masses in a box around the tool.

    Args:
        robot: robot whose robot.yaml states the tool and the drives' torque limits.
        arm: geometry of the arm.
        box_m: half a side of the box about the tool that contains the payload [m].

    Attributes:
        tool: position of the tool in the last URDF link frame, (3,) [m].
        rotation: rotation of the last modified DH frame in the last URDF link frame, (3, 3).
        origin: origin of the last modified DH frame in the last URDF link frame, (3,) [m].
    """

    def __init__(self, robot: Robot, arm: ArmModel, box_m: float = BOX_M) -> None:
        placement = arm.mdh.in_link[-1]
        self.rotation, self.origin = placement[:3, :3], placement[:3, 3]
        self.tool, self._box_m = np.array(robot.file.tool_m), box_m
        self._most_kg = ToolForce(robot, arm.mdh).largest_n / STANDARD_GRAVITY
        self._to_tool = np.linalg.inv(_from_point(self.rotation.T @ (self.tool - self.origin)))
        points = [self.rotation.T @ (self.tool + box_m * np.array(p) - self.origin) for p in product(GRID, repeat=3)]
        self._masses = np.array([point_mass(point) for point in points]).T

    def solve(self, information: FloatArray, score: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Estimate the most probable payload together with k other unknowns, such as a change of friction.

        Args:
            information: information matrix of the payload's ten standard parameters, in the last modified DH frame, and
                of the other unknowns, (10 + k, 10 + k), SI. It includes the prior of the other unknowns, but not that
                of the payload.
            score: information matrix times the unconstrained solution, (10 + k,).

        Returns:
            The unknowns, (10 + k,), and their covariance, which follows from data and prior but ignores the physical
            constraints.
        """
        others = len(score) - BODY
        signed = np.kron(np.eye(others), [[1.0, -1.0]])  # difference of two non-negative numbers
        shapes = np.block(
            [
                [self._masses, np.zeros((BODY, 2 * others))],
                [np.zeros((others, self._masses.shape[1])), signed.reshape(others, 2 * others)],
            ]
        )
        mass = self._most_kg
        for _ in range(ROUNDS):
            moment = mass * self._box_m / np.sqrt(3.0)
            sizes = np.array([mass * self._box_m**2] * 6 + [moment] * 3 + [self._most_kg])
            known = self._to_tool / sizes[:, None]
            whole = information.copy()
            whole[:BODY, :BODY] += known.T @ known
            root = np.linalg.cholesky(whole)
            weights = nonnegative_least_squares(root.T @ shapes, solve_triangular(root, score, lower=True))
            found = shapes @ weights
            mass = max(float(found[9]), LEAST_KG)
        return found, np.asarray(np.linalg.inv(whole), dtype=np.float64)


def point_mass(place: FloatArray) -> FloatArray:
    """Return the ten standard parameters of a point mass of 1 kg at a position (3,) [m]."""
    inertia = (place @ place) * np.eye(3) - np.outer(place, place)
    return np.concatenate([six(inertia), place, [1.0]])


def _from_point(place: FloatArray) -> FloatArray:
    """Return the matrix (10, 10) that maps standard parameters about a point (3,) [m] to those about the origin.

    The axes of both frames are parallel.
    """
    out = np.eye(BODY)
    for k, unit in enumerate(np.eye(3)):
        out[:6, 6 + k] = six(2.0 * (place @ unit) * np.eye(3) - np.outer(place, unit) - np.outer(unit, place))
    out[:, 9] = point_mass(place)
    return out
