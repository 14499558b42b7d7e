"""Likely reasons why measured holding torques of an arm differ from those that its model predicts."""

from collections.abc import Iterator, Sequence

import numpy as np

from dynid.robot import FloatArray
from dynid.runtime.model import Model

Shown = tuple[FloatArray, FloatArray, FloatArray, FloatArray]  # place, measured, expected, allowed, (n,) each
LARGEST_RESIDUAL = 0.35  # maximum residual of an explanation [fraction of the squared difference]
LEAST_MASS_KG = 0.02
REQUIRED_GAIN = 1.2  # required improvement by a later explanation [factor]


def reason_of(model: Model, shown: Sequence[Shown]) -> str:
    """Return a sentence with the most likely reason why measured holding torques differ from a model.

    `shown` has an entry per posture: positions [rad], measured torques, predicted torques and allowed differences
    [N m], (n,) each.
    """
    q, measured, expected, allowed = (np.array(rows) for rows in zip(*shown, strict=True))

    def squared_error(explained: FloatArray) -> float:
        return float((((measured - explained) / allowed) ** 2).sum())

    unexplained = squared_error(expected)
    best, words = LARGEST_RESIDUAL * unexplained, ""
    for text, explained in _explanations(model, q, measured, expected, allowed):
        if (now := squared_error(explained)) < best:
            best, words = now / REQUIRED_GAIN, text
    if words:
        return f"It looks like {words}"
    return "No single cause explains it: identify the arm again as it is now, and check its mount and what it carries"


def _explanations(
    model: Model, q: FloatArray, measured: FloatArray, expected: FloatArray, allowed: FloatArray
) -> Iterator[tuple[str, FloatArray]]:
    """Yield possible explanations as text, each with the holding torques that it predicts, (N, n) [N m].

    The explanations are, from the most to the least reliable: another mount, the opposite sign of a joint, another
    scale of all torques, a payload, and another scale of one joint's torque.

    Args:
        model: model of the arm.
        q: N postures, (N, n) [rad].
        measured: measured holding torques, (N, n) [N m].
        expected: torques that the model predicts, (N, n) [N m].
        allowed: allowed differences, (N, n) [N m].
    """
    still, names, gravity = np.zeros_like(q), model.robot.joint_names, model.gravity(q)
    own = model.mount or model.robot.file.default_mount
    for mount in model.robot.file.mounts_gravity_m_s2:
        if mount != own and model.arm(mount).names == model.base.names:  # else other parameters determine its gravity
            other = model.arm(mount).inverse_dynamics(q, still, still, model.base)
            yield f"an arm that is mounted {mount}, not {own}: give --mount {mount}", expected - gravity + other
    for k, name in enumerate(names):
        sign = np.ones(q.shape[1])
        sign[k] = -1.0
        text = f"{name} turning the other way than robot.yaml says: repeat the sign test of docs/real_arm.md"
        yield text, expected - gravity + sign * model.gravity(sign * q)
    if (scale := _fit(expected / allowed, measured / allowed)) > 0.0:
        text = f"torques of {100 * scale:.0f} % of the model's in all joints: check the torque constants"
        yield text, scale * expected
    lifted = model.jacobian(q)[:, :3].transpose(0, 2, 1) @ -np.array(model.arm().gravity)
    if (mass := _fit(lifted / allowed, (measured - expected) / allowed)) > LEAST_MASS_KG:
        text = (
            f"a body of about {mass:.1g} kg in the hand that the model does not have: take it off, or identify with it"
        )
        yield text, expected + mass * lifted
    for k, name in enumerate(names):
        if (factor := _fit(expected[:, k], measured[:, k])) > 0.0:
            explained = expected.copy()
            explained[:, k] *= factor
            yield f"{name} giving {100 * factor:.0f} % of the model's torque: check its torque constant", explained


def _fit(column: FloatArray, values: FloatArray) -> float:
    """Return the factor with which `column` fits `values` best in least squares; 0 if the column is zero.

    Both arrays have the same shape, such as (N, n).
    """
    size = float((column * column).sum())
    return float((column * values).sum()) / size if size else 0.0
