"""Regressor columns of possible changes of an arm: body, position zeros, torque scales, offsets, friction, mount."""

from dataclasses import dataclass

import numpy as np

from dynid.identification.data.samples import Samples
from dynid.identification.diagnosis.nuisance_columns import links_regressor, perpendicular_axes, sliding
from dynid.identification.estimators.regression import Regression
from dynid.model.drive import KINDS, RESISTING, of_kinds
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray

BODY, ZERO, SCALE, OFFSET, MOUNT = "body", "zero", "scale", "offset", "mount"
FRICTION, LOAD_FRICTION = "friction", "friction by load"
LOAD = ("M", "MX", "MY", "MZ")  # parameters of a body at the last link
STEP_RAD = 1e-4  # step of numerical derivatives by positions


@dataclass(frozen=True, eq=False)
class TestedQuantity:
    """Property of an arm that may change during its recordings, such as friction, with its regressor columns.

    Attributes:
        kind: `BODY` (mass at the last link), `ZERO` (zero of a joint's position), `SCALE` (scale of torques), `OFFSET`
            (torque offset), `FRICTION` (friction of the model), `LOAD_FRICTION` (additional friction in proportion to
            load) or `MOUNT` (tilt of gravity).
        axes: indices of the joints concerned, from 0; () for a body, for the mount, and for all joints together.
        columns: torques per unit of the property, (N, n, k). The units are kg and kg m for a body, rad for a position
            zero and for the tilt of the mount, N m for an offset, relative changes for scale and friction, and N m per
            N m of load for friction by load.
    """

    kind: str
    axes: tuple[int, ...]
    columns: FloatArray


def tested_quantities(model: ArmModel, samples: Samples, regression: Regression) -> tuple[TestedQuantity, ...]:
    """Return all properties of the arm whose change is tested, each with its regressor columns.

    The columns are linearised at the least-squares fit of a regression.

    Args:
        model: model of the arm.
        samples: the fitted samples.
        regression: regression of the samples.
    """
    solution = regression.solve()
    count, n = samples.q.shape
    base = BaseParameters(model.names, solution.phi)
    links = np.asarray(links_regressor(regression)[:count] @ of_kinds(base, RESISTING, others=True).values)
    whole = regression.torques - regression.misfit(solution.phi, solution.friction)
    rubs = whole - links
    each = np.eye(n)
    own = [(k,) for k in range(n)]
    found = [TestedQuantity(BODY, (), _body(model, regression, count))]
    found += [TestedQuantity(SCALE, (), whole[..., None])]
    found += [TestedQuantity(SCALE, one, (whole * each[one])[..., None]) for one in own]
    found += [TestedQuantity(OFFSET, one, np.broadcast_to(each[one], (count, n))[..., None]) for one in own]
    found += [TestedQuantity(FRICTION, (), rubs[..., None])]
    found += [TestedQuantity(FRICTION, one, (rubs * each[one])[..., None]) for one in own]
    # a fit may mistake friction that grows with load for mass; then the friction above lacks this part
    loads = np.asarray(links_regressor(regression)[:count] @ of_kinds(base, KINDS, others=True).values)
    found += [
        TestedQuantity(LOAD_FRICTION, one, (np.sign(samples.dq) * np.abs(loads) * each[one])[..., None]) for one in own
    ]
    found += _zeros(model, samples, base)
    if size := float(np.linalg.norm(model.gravity)):
        tilts = [model.gravity_torque(samples.q, base, size * one) for one in perpendicular_axes(model.gravity)]
        found.append(TestedQuantity(MOUNT, (), np.stack(tilts, axis=2)))
    slides = sliding(regression, count)[..., None]
    return tuple(TestedQuantity(one.kind, one.axes, one.columns * slides) for one in found)


def _body(model: ArmModel, regression: Regression, count: int) -> FloatArray:
    """Return torques per unit of mass and of three first moments of a body attached to the last link, (N, n, 4) [SI].

    The first moments are those in the last link's frame.

    Args:
        model: model of the arm.
        regression: regression of the samples.
        count: number N of samples.
    """
    standard = [f"{kind}{model.chain_size}" for kind in LOAD]
    of_load = model.regrouping.K[:, [model.regrouping.standard.index(name) for name in standard]]
    return np.asarray(links_regressor(regression)[:count] @ of_load)


def _zeros(model: ArmModel, samples: Samples, base: BaseParameters) -> list[TestedQuantity]:
    """Return the position zeros of the kinematic chain's joints as properties that are tested for changes over time.

    Each has one regressor column: the derivative of all torques by the joint's position.

    Args:
        model: model of the arm.
        samples: the fitted samples.
        base: base parameters with which the torques are computed.
    """
    given = model.inverse_dynamics(samples.q, samples.dq, samples.ddq, base)
    found = []
    for axis in range(model.chain_size):
        moved = np.array(samples.q)
        moved[:, axis] += STEP_RAD
        change = model.inverse_dynamics(moved, samples.dq, samples.ddq, base) - given
        found.append(TestedQuantity(ZERO, (axis,), (change / STEP_RAD)[..., None]))
    return found
