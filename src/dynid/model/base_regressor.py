"""Base regressor of a robot for user code: names, columns and groupings for any states.

from dynid.model.base_regressor import base_regressor

found = base_regressor("tx40", q, dq, ddq)      # states (N, n)
tau = found.regressor @ phi                      # (N, n)
print(found.groupings["ZZR1"])                   # {'ZZ1': 1.0, 'YY2': 1.0, ...}
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dynid.model.dynamics import ArmModel
from dynid.robot import FloatArray, Robot, load_robot, read_only


@dataclass(frozen=True, eq=False)
class BaseRegressor:
    """Inverse-dynamics regressor of a robot, with the names of its columns; arrays are read-only.

    Attributes:
        joint_names: names of the joints, in the order of the torques, (n,).
        names: names of the columns, (p,).
        units: SI units of the parameters, (p,).
        regressor: W with tau = W phi, (N, n, p).
        groupings: for each column name the factors of the combined standard parameters, by name.
        structure_hash: hash of names, groupings and geometry; models with equal hashes can exchange parameters.
    """

    joint_names: tuple[str, ...]
    names: tuple[str, ...]
    units: tuple[str, ...]
    regressor: FloatArray
    groupings: Mapping[str, Mapping[str, float]]
    structure_hash: str


def base_regressor(
    robot: Robot | str | Path,
    q: FloatArray,
    dq: FloatArray,
    ddq: FloatArray,
    *,
    mount: str | None = None,
    standard: bool = False,
) -> BaseRegressor:
    """Return the regressor W with tau = W phi at states (N, n) or (n,) [rad, rad/s, rad/s^2].

    Prismatic joints have metres in place of rad.

    Args:
        robot: a robot, its name, or its folder.
        q: joint positions, in the robot's joint order.
        dq: joint velocities.
        ddq: joint accelerations.
        mount: mount of the arm; None is the default of robot.yaml.
        standard: return columns of all standard parameters instead of the base parameters.

    Raises:
        UnknownNameError: no such robot or mount.
        DataError: states of other shapes than (N, n) or (n,).
    """
    loaded = robot if isinstance(robot, Robot) else load_robot(robot)
    model = ArmModel.of(loaded, mount=mount)
    regrouping = model.regrouping
    if standard:
        names, W = regrouping.standard, model.standard_regressor(q, dq, ddq)
        groupings = {name: {name: 1.0} for name in names}
    else:
        names, W = model.names, model.regressor(q, dq, ddq)
        groupings = {
            name: {regrouping.standard[k]: float(row[k]) for k in np.flatnonzero(row)}
            for name, row in zip(names, regrouping.K, strict=True)
        }
    return BaseRegressor(
        joint_names=loaded.joint_names,
        names=names,
        units=tuple(map(model.unit, names)),
        regressor=read_only(W),
        groupings=groupings,
        structure_hash=model.structure_hash,
    )
