"""Identify from bags and keep the accepted model as parameters and as `robot_description` until interrupted.

Needs no arm. `bags` and `validation_bags` take one folder or several, separated by commas.
"""

import os

from launch import LaunchContext, LaunchDescription
from launch.action import Action
from launch.actions import DeclareLaunchArgument, OpaqueFunction, RegisterEventHandler
from launch.event_handlers import OnProcessStart
from launch.launch_description_sources import load_python_launch_file_as_module
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue

HERE = os.path.dirname(os.path.abspath(__file__))
shared = load_python_launch_file_as_module(os.path.join(HERE, "shared.py"))
refuse_unknown_arguments = shared.refusal_of_unknown_arguments(os.path.abspath(__file__))


def start(context: LaunchContext) -> list[Action]:
    """The identification node, and a client that starts its work."""
    parameters: dict[str, object] = {
        name: ParameterValue(LaunchConfiguration(name), value_type=str) for name in ("robot", "method", "output")
    }
    for name in ("bags", "validation_bags"):
        if folders := [f.strip() for f in LaunchConfiguration(name).perform(context).split(",") if f.strip()]:
            parameters[name] = folders
    node = Node(executable="identification_node", name="identification", parameters=[parameters], **shared.NODE)
    service = {"service": "identification/identify", "timeout_s": 3600.0}
    client = Node(executable="trigger_client", name="identify_client", parameters=[service], **shared.NODE)
    return [RegisterEventHandler(OnProcessStart(target_action=node, on_start=[client])), node]


def generate_launch_description() -> LaunchDescription:
    """Arguments and nodes."""
    return LaunchDescription(
        [
            OpaqueFunction(function=refuse_unknown_arguments),
            OpaqueFunction(function=shared.set_middleware),
            DeclareLaunchArgument(
                "robot", default_value="crane_x7", description="Robot name, or a folder with a robot.yaml."
            ),
            DeclareLaunchArgument("bags", description="Folders of the bags to identify from, separated by commas."),
            DeclareLaunchArgument(
                "validation_bags", default_value="", description="Folders of held-out bags, separated by commas."
            ),
            DeclareLaunchArgument(
                "method", default_value="regression", description="regression, closed-loop or campaign."
            ),
            DeclareLaunchArgument("output", description="Folder for the result; it must not exist."),
            DeclareLaunchArgument("namespace", default_value="", description="Namespace of the node."),
            OpaqueFunction(function=start),
        ]
    )
