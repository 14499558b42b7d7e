"""Gear friction of the simulated arm: MuJoCo's friction parameters for the next step, from motor torque and load.

MuJoCo has one constant friction loss and one damping per joint. Both are set before every step, as in BAM (Better
Actuator Models). The load is the torque of gravity, springs, Coriolis and centrifugal forces, `qfrc_spring - qfrc_bias`
after the previous step. MuJoCo computes it at the last Runge-Kutta stage. It differs from the load in the present state
by less than 1e-4 N m (`test_gear_friction`).
"""

import math
from collections.abc import Collection
from typing import Any

import numba
import numpy as np

from dynid.errors import ConfigurationError, DataError, UnknownNameError
from dynid.model.friction import FA, FS, FV, KM, WS, FrictionLaw, budget_of
from dynid.model.gear_presets import VISCOUS, gear_friction, known_models
from dynid.model.standard import StandardFile
from dynid.robot import FloatArray, Robot
from dynid.simulation.plant.nuisances import COULOMB, Magnitudes

LOCKED_NM = 1000.0  # friction of a locked joint [N m]


def check_friction(robot: Robot, chosen: str | None) -> str:
    """Return the name of the friction model of a simulated arm: `chosen`, or that in robot.yaml if `chosen` is None.

    Raises:
        UnknownNameError: the name is neither "viscous" nor a model for which the robot's folder has values.
    """
    name = chosen or robot.file.simulation.friction
    if name != VISCOUS and name not in known_models(robot):
        raise UnknownNameError("friction", name, (VISCOUS, *known_models(robot)))
    return name


def plant_friction(
    robot: Robot, standard: StandardFile, nuisances: Magnitudes, switched_off: Collection[str], chosen: str | None
) -> FrictionLaw:
    """Return the friction law of a simulated arm's joints.

    Args:
        robot: the robot.
        standard: standard parameters of the simulated arm, with its viscous and Coulomb friction.
        nuisances: nuisances of the robot; they include additional Coulomb friction.
        switched_off: names of nuisances (such as noise or backlash) to leave out. If "coulomb" is among them, only the
            viscous and Coulomb friction of `standard` remain, whatever `chosen` is.
        chosen: "viscous" for viscous and Coulomb friction, or a gear model for which the robot's folder has values;
            None is the choice of robot.yaml.

    Raises:
        UnknownNameError: the robot's folder has no values for this model.
        ConfigurationError: a gear model is chosen, but motors move several joints.
    """
    name = check_friction(robot, chosen)
    if name == VISCOUS or COULOMB in switched_off:
        own = np.array([(axis.viscous_friction_nm_s_per_rad, axis.coulomb_friction_nm) for axis in standard.axes])
        return FrictionLaw.of(robot.size, {"fv": own[:, 0], "fb": own[:, 1] + nuisances.coulomb_friction})
    if (robot.coupling != np.eye(robot.size)).any():
        raise ConfigurationError(f"robot '{robot.name}': friction '{name}' needs gears that move one joint each")
    return gear_friction(robot, name)


@numba.njit(cache=True)
def resist(
    p: FloatArray,
    warm: float,
    dq: FloatArray,
    applied: FloatArray,
    hand: FloatArray,
    bias: FloatArray,
    spring: FloatArray,
    loss: FloatArray,
    damping: FloatArray,
) -> None:
    """Compute the friction of all axes: the largest dry friction torque `loss` and the viscous friction `damping`.

    Args:
        p: parameters of the friction law, (terms, n).
        warm: factor on all friction [-]; it falls from 1 while gears warm up.
        dq: joint velocities, (n,) [rad/s].
        applied: torques of motors and hand, (n,) [N m].
        hand: external part of `applied`, which counts as load, (n,) [N m].
        bias: MuJoCo's `qfrc_bias`, (n,) [N m]: torques of gravity, Coriolis and centrifugal forces on the joints, with
            the opposite sign.
        spring: torques that springs exert on the joints, (n,) [N m].
        loss: result, the largest friction torque without the viscous friction, (n,) [N m].
        damping: result, the viscous friction coefficient, (n,) [N m s/rad].
    """
    for i in range(dq.shape[0]):
        load = hand[i] + spring[i] - bias[i]
        loss[i] = warm * budget_of(p, i, float(np.sign(dq[i])), dq[i], applied[i] - hand[i], load)
        damping[i] = warm * p[FV, i]


class GearFriction:
    """Gear friction of a MuJoCo model, computed from a friction law before every step.

    The joints of the MuJoCo model are the axes of the law, in order.

    Args:
        law: friction law of all axes.
        warm_up: fraction by which friction has decreased after the warm-up [-], and time constant of the warm-up [s].
        model: MuJoCo's model, into which friction is written.
        data: MuJoCo's data, from which the state is read.

    Attributes:
        hand: external torque of a hand, or of a spring that MuJoCo cannot model, (n,) [N m]; it loads the gears.
        varies: whether friction changes from step to step, so that `update` must be called before every step.

    Raises:
        DataError: the law has an offset, which MuJoCo's friction cannot represent.
    """

    def __init__(self, law: FrictionLaw, warm_up: tuple[float, float], model: Any, data: Any) -> None:
        if law["of"].any():
            raise DataError(f"the simulated arm's friction has an offset OF of {law['of']} N m; expected 0")
        self._p, self._share, self._time_constant = np.array(law.values), warm_up[0], warm_up[1]
        self._loss, damping = model.dof_frictionloss, model.dof_damping
        self._damping = damping if damping.ndim == 1 else damping[:, 0]
        self.hand = np.zeros(law.axes)
        self._locked: list[int] = []
        self._data = data
        self._dq, self._torque, self._bias, self._spring = (
            data.qvel,
            data.qfrc_applied,
            data.qfrc_bias,
            data.qfrc_spring,
        )
        self.varies = bool(law.values[[FA, FS, *range(KM, WS)]].any() or self._share)
        self.update(0.0)

    def warmth(self, time_s: float) -> float:
        """Return the factor on friction after the gears have run for `time_s` [s]; it is 1 for cold gears [-]."""
        return 1.0 - self._share * (1.0 - math.exp(-time_s / self._time_constant))

    def update(self, time_s: float) -> None:
        """Compute the friction at time `time_s` [s] from the arm's state, and write it into the MuJoCo model."""
        warm = self.warmth(time_s)
        seen = self._dq, self._torque, self.hand, self._bias, self._spring
        resist(self._p, warm, *seen, self._loss, self._damping)
        self._loss[self._locked] = LOCKED_NM

    def lock(self, axes: Collection[int]) -> None:
        """Lock the joints with these indices from now on, as by a brake; all other joints are unlocked."""
        self._locked = list(axes)
        self.update(self._data.time)
