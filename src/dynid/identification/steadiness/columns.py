"""Regressor columns of possible changes of an arm: body, position zeros, torque scales, offsets, friction, mount."""

from collections.abc import Callable
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
    if np.any(model.gravity):
        found.append(TestedQuantity(MOUNT, (), _tilts(model, base, samples.q)))
    slides = sliding(regression, count)[..., None]
    return tuple(TestedQuantity(one.kind, one.axes, one.columns * slides) for one in found)


def gravity_columns(model: ArmModel, base: BaseParameters, tried: TestedQuantity, postures: FloatArray) -> FloatArray:
    """Return gravity torques per unit of a tested property in given postures, (m, n, k), in the units of its columns.

    Other properties than a body, a position zero and the mount give zeros: they do not change gravity itself.

    Args:
        model: model of the arm.
        base: base parameters with which the torques are computed.
        tried: the tested property.
        postures: joint positions, (m, n) [rad or m].
    """
    if tried.kind == BODY:
        still = np.zeros_like(postures)
        return np.asarray(model.regressor(postures, still, still) @ _of_load(model))
    if tried.kind == MOUNT:
        return _tilts(model, base, postures)
    if tried.kind == ZERO:
        return _by_position(lambda q: model.gravity_torque(q, base, model.gravity), postures, tried.axes[0])
    return np.zeros((*postures.shape, tried.columns.shape[2]))


def _tilts(model: ArmModel, base: BaseParameters, q: FloatArray) -> FloatArray:
    """Return torques per unit of tilt of gravity about two perpendicular axes, (N, n, 2) [N m/rad or N/rad].

    Args:
        model: model of the arm.
        base: base parameters with which the torques are computed.
        q: joint positions, (N, n) [rad or m].
    """
    size = float(np.linalg.norm(model.gravity))
    return np.stack([model.gravity_torque(q, base, size * one) for one in perpendicular_axes(model.gravity)], axis=2)


def _by_position(torque: Callable[[FloatArray], FloatArray], q: FloatArray, axis: int) -> FloatArray:
    """Return the derivative of torques by the position of one joint, (N, n, 1) [N m/rad or N/m].

    Args:
        torque: function that returns the torques (N, n) at given positions (N, n).
        q: joint positions, (N, n) [rad or m].
        axis: index of the joint.
    """
    moved = np.array(q)
    moved[:, axis] += STEP_RAD
    return np.asarray((torque(moved) - torque(q)) / STEP_RAD)[..., None]


def _body(model: ArmModel, regression: Regression, count: int) -> FloatArray:
    """Return torques per unit of mass and of three first moments of a body attached to the last link, (N, n, 4) [SI].

    The first moments are those in the last link's frame.

    Args:
        model: model of the arm.
        regression: regression of the samples.
        count: number N of samples.
    """
    return np.asarray(links_regressor(regression)[:count] @ _of_load(model))


def _of_load(model: ArmModel) -> FloatArray:
    """Return base parameters per unit of mass and of first moments of a body at the last link, (p, 4) [SI]."""
    standard = [f"{kind}{model.chain_size}" for kind in LOAD]
    return np.asarray(model.regrouping.K[:, [model.regrouping.standard.index(name) for name in standard]])


def _zeros(model: ArmModel, samples: Samples, base: BaseParameters) -> list[TestedQuantity]:
    """Return the position zeros of the kinematic chain's joints as properties that are tested for changes over time.

    Each has one regressor column: the derivative of all torques by the joint's position.

    Args:
        model: model of the arm.
        samples: the fitted samples.
        base: base parameters with which the torques are computed.
    """

    def torque(q: FloatArray) -> FloatArray:
        return np.asarray(model.inverse_dynamics(q, samples.dq, samples.ddq, base))

    axes = range(model.chain_size)
    return [TestedQuantity(ZERO, (axis,), _by_position(torque, samples.q, axis)) for axis in axes]
