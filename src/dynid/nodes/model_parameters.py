"""A model as ROS parameters, with the same names at the node that identified it and at the nodes that use it.

A complete model is set in one atomic call. It consists of `model.phi.<NAME>` for every base parameter,
`model.friction.<NAME><axis>` for every term of the additional friction (`dynid.model.friction.TERMS`) and every axis,
`model.robot`, `model.structure_hash` and `model.accepted`.
"""

from collections.abc import Iterable, Mapping

import numpy as np
from rclpy.node import Node
from rclpy.parameter import Parameter

from dynid.control.control_model import ControlModel
from dynid.errors import SafetyError
from dynid.model.dynamics import ArmModel
from dynid.model.friction import TERMS, FrictionLaw
from dynid.model.parameters import BaseParameters
from dynid.nodes.common import declare

PREFIX = "model."
ROBOT, STRUCTURE, ACCEPTED = "model.robot", "model.structure_hash", "model.accepted"
NOT_A_MODEL = float("nan")


def friction_names(axes: int) -> list[str]:
    """Return the names of the friction terms of all axes, ordered by term: FV1 ... FVn, FC1 ... FCn and so on."""
    return [f"{term.prefix}{axis + 1}" for term in TERMS for axis in range(axes)]


def phi_name(name: str) -> str:
    """Return the name of the ROS parameter for a base parameter."""
    return f"model.phi.{name}"


def friction_name(name: str) -> str:
    """Return the name of the ROS parameter for a friction term of an axis, such as FC1."""
    return f"model.friction.{name}"


def declare_model(node: Node, model: ArmModel) -> None:
    """Declare the ROS parameters of a model, with values that mean "no model"."""
    declare(node, ROBOT, "", "robot of the model")
    declare(node, STRUCTURE, "", "model structure and geometry of the parameters")
    declare(node, ACCEPTED, False, "whether every check of the verdict passed")
    for name in model.names:
        declare(node, phi_name(name), NOT_A_MODEL, model.regrouping.formula(name))
    for term in TERMS:
        for axis in range(model.axes):
            description = f"friction {term.symbol} of axis {axis + 1} in addition to model.phi [{term.unit}]"
            declare(node, friction_name(f"{term.prefix}{axis + 1}"), NOT_A_MODEL, description)


def as_values(content: ControlModel) -> dict[str, object]:
    """Return the names and values of all ROS parameters of a model."""
    phi, law = content.phi, content.friction
    values: dict[str, object] = {phi_name(name): float(phi[name]) for name in phi.names}
    names = friction_names(law.axes)
    values |= {friction_name(name): float(value) for name, value in zip(names, law.values.flat, strict=True)}
    return values | {ROBOT: content.robot, STRUCTURE: content.structure_hash, ACCEPTED: content.accepted}


def from_parameters(parameters: Iterable[Parameter], model: ArmModel) -> ControlModel | None:
    """Return the model that one service call sets by ROS parameters, or None if it sets no model parameter.

    Args:
        parameters: ROS parameters that the service call sets; those of other names are ignored.
        model: geometry and structure of the arm's model.

    Raises:
        SafetyError: the call contains only a part of a model, or values that are not finite numbers.
        DataError: the friction is physically impossible.
    """
    given: Mapping[str, object] = {one.name: one.value for one in parameters if one.name.startswith(PREFIX)}
    if not given:
        return None
    friction = friction_names(model.axes)
    required = {ROBOT, STRUCTURE, ACCEPTED, *map(phi_name, model.names), *map(friction_name, friction)}
    missing = sorted(required - set(given))
    if missing:
        raise SafetyError(
            f"set a complete model in one call: {len(missing)} of its {len(required)} parameters are missing, first "
            f"{missing[0]}"
        )
    phi = np.array([given[phi_name(name)] for name in model.names], dtype=float)
    terms = np.array([given[friction_name(name)] for name in friction], dtype=float)
    if not (np.isfinite(phi).all() and np.isfinite(terms).all()):
        raise SafetyError("the model's parameters are not all finite numbers")
    law = FrictionLaw(terms.reshape(len(TERMS), model.axes))
    return ControlModel(
        str(given[ROBOT]), str(given[STRUCTURE]), BaseParameters(model.names, phi), law, given[ACCEPTED] is True
    )
