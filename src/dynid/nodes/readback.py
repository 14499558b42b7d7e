"""Program that reads the published model through ROS, as a user's program would, and prints it as JSON.

It reads the parameters and the robot description. It runs as a separate process: `python -m dynid.nodes.readback
identification NAME...`.
"""

import json
import sys

from rcl_interfaces.msg import ParameterType

from dynid.errors import DynidError, NodeError
from dynid.nodes.common import end_with_expected_parent
from dynid.nodes.supervisor import Supervisor

PREFIX = "model.phi."


def read_back(node: str, names: list[str]) -> dict[str, object]:
    """Return the model that a node publishes, read from its ROS parameters and the topic `robot_description`.

    Args:
        node: name of the node.
        names: names of the base parameters.

    Returns:
        Dict with the keys phi (values of the base parameters by name), structure_hash, accepted, and robot_description
            (text of the URDF).

    Raises:
        NodeError: the node does not answer, or a base parameter is not set.
    """
    with Supervisor() as client:
        values = client.get_parameters(node, [PREFIX + name for name in names])
        unset = [
            name for name, value in zip(names, values, strict=True) if value.type != ParameterType.PARAMETER_DOUBLE
        ]
        if unset:
            raise NodeError(f"{node} has no value for {', '.join(unset)}")
        structure, accepted = client.get_parameters(node, ["model.structure_hash", "model.accepted"])
        return {
            "phi": {name: value.double_value for name, value in zip(names, values, strict=True)},
            "structure_hash": structure.string_value,
            "accepted": accepted.bool_value,
            "robot_description": client.latched_text("robot_description"),
        }


def main() -> None:
    """Print the published model as one JSON object."""
    end_with_expected_parent()
    try:
        print(json.dumps(read_back(sys.argv[1], sys.argv[2:])))
    except DynidError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
