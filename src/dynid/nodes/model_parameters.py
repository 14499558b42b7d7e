"""A model as ROS parameters: the same names at the node that identified it and at those that use it.

A model travels whole, in one atomic call: `model.phi.<NAME>` for every base parameter, `model.friction.FC<axis>` for
the Coulomb friction of every axis, `model.robot`, `model.structure_hash` and `model.accepted`.
"""

from collections.abc import Iterable, Mapping

import numpy as np
from rclpy.node import Node
from rclpy.parameter import Parameter

from dynid.control.control_model import ControlModel
from dynid.errors import SafetyError
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters
from dynid.nodes.common import declare

PREFIX = "model."
ROBOT, STRUCTURE, ACCEPTED = "model.robot", "model.structure_hash", "model.accepted"
NOT_A_MODEL = float("nan")


def friction_names(axes: int) -> tuple[str, ...]:
    """FC1 ... FCn."""
    return tuple(f"FC{axis + 1}" for axis in range(axes))


def phi_name(name: str) -> str:
    """The parameter that holds a base parameter."""
    return f"model.phi.{name}"


def friction_name(name: str) -> str:
    """The parameter that holds the Coulomb friction of an axis, FC1 ... FCn."""
    return f"model.friction.{name}"


def declare_model(node: Node, model: ArmModel) -> None:
    """Declare the parameters of a model, none being there yet."""
    declare(node, ROBOT, "", "which robot the model is of")
    declare(node, STRUCTURE, "", "which model structure and geometry the parameters belong to")
    declare(node, ACCEPTED, False, "whether every check of the verdict passed")
    for name in model.names:
        declare(node, phi_name(name), NOT_A_MODEL, model.regrouping.formula(name))
    for axis, name in enumerate(friction_names(model.axes)):
        declare(node, friction_name(name), NOT_A_MODEL, f"Coulomb friction of axis {axis + 1} [N m]")


def as_values(content: ControlModel) -> dict[str, object]:
    """All parameters of a model with their values."""
    phi, names = content.phi, friction_names(len(content.coulomb))
    values: dict[str, object] = {phi_name(name): float(phi[name]) for name in phi.names}
    values |= {friction_name(name): float(value) for name, value in zip(names, content.coulomb, strict=True)}
    return values | {ROBOT: content.robot, STRUCTURE: content.structure_hash, ACCEPTED: content.accepted}


def from_parameters(parameters: Iterable[Parameter], model: ArmModel) -> ControlModel | None:
    """The model that one call of parameters holds; None where it holds none.

    Raises:
        SafetyError: it holds a part of one, or values that are no finite numbers.
    """
    given: Mapping[str, object] = {one.name: one.value for one in parameters if one.name.startswith(PREFIX)}
    if not given:
        return None
    friction = friction_names(model.axes)
    needed = {ROBOT, STRUCTURE, ACCEPTED, *map(phi_name, model.names), *map(friction_name, friction)}
    missing = sorted(needed - set(given))
    if missing:
        raise SafetyError(
            f"a model comes whole, in one call: {len(missing)} of its {len(needed)} parameters are missing, "
            f"{missing[0]} first"
        )
    phi = np.array([given[phi_name(name)] for name in model.names], dtype=float)
    coulomb = np.array([given[friction_name(name)] for name in friction], dtype=float)
    if not (np.isfinite(phi).all() and np.isfinite(coulomb).all()):
        raise SafetyError("the model's parameters are not all finite numbers")
    return ControlModel(
        str(given[ROBOT]), str(given[STRUCTURE]), BaseParameters(model.names, phi), coulomb, given[ACCEPTED] is True
    )
