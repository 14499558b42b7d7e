"""Regressor columns of possible changes of an arm: bodies, zeros, torque scales, offsets, friction, the mount."""

from dataclasses import dataclass

import numpy as np

from dynid.identification.data.samples import Samples
from dynid.identification.diagnosis.nuisance_columns import links_regressor, perpendicular_axes, sliding
from dynid.identification.estimators.regression import Regression
from dynid.model.drive import RESISTING, of_kinds
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray

BODY, ZERO, SCALE, OFFSET, FRICTION, MOUNT = "body", "zero", "scale", "offset", "friction", "mount"
LOAD = ("M", "MX", "MY", "MZ")  # parameters of a body at the last link
STEP_RAD = 1e-4  # step of numerical derivatives by positions


@dataclass(frozen=True, eq=False)
class TestedQuantity:
    """A quantity that may change during the recordings, with its regressor columns.

    Attributes:
        kind: kind of the quantity: `BODY`, `ZERO`, `SCALE`, `OFFSET`, `FRICTION` or `MOUNT`.
        axes: indices of the joints concerned, from 0; () for a body, for the mount, and for all joints together.
        columns: torques per unit of the quantity, (N, n, k): per kg and kg m, per rad, per share, or per N m.
    """

    kind: str
    axes: tuple[int, ...]
    columns: FloatArray


def tested_quantities(model: ArmModel, samples: Samples, regression: Regression) -> tuple[TestedQuantity, ...]:
    """Return all quantities that are tested, linearised at the least-squares fit of a regression."""
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
    found += _zeros(model, samples, base)
    if size := float(np.linalg.norm(model.gravity)):
        tilts = [model.gravity_torque(samples.q, base, size * one) for one in perpendicular_axes(model.gravity)]
        found.append(TestedQuantity(MOUNT, (), np.stack(tilts, axis=2)))
    slides = sliding(regression, count)[..., None]
    return tuple(TestedQuantity(one.kind, one.axes, one.columns * slides) for one in found)


def _body(model: ArmModel, regression: Regression, count: int) -> FloatArray:
    """Return torques (N, n, 4) [SI] per unit of a body's mass and first moments in the last link's frame."""
    standard = [f"{kind}{model.chain_size}" for kind in LOAD]
    of_load = model.regrouping.K[:, [model.regrouping.standard.index(name) for name in standard]]
    return np.asarray(links_regressor(regression)[:count] @ of_load)


def _zeros(model: ArmModel, samples: Samples, base: BaseParameters) -> list[TestedQuantity]:
    """Return the effects of a small error of each joint's zero on the torques."""
    given = model.inverse_dynamics(samples.q, samples.dq, samples.ddq, base)
    found = []
    for axis in range(model.chain_size):
        moved = np.array(samples.q)
        moved[:, axis] += STEP_RAD
        change = model.inverse_dynamics(moved, samples.dq, samples.ddq, base) - given
        found.append(TestedQuantity(ZERO, (axis,), (change / STEP_RAD)[..., None]))
    return found
