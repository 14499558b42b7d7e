"""An adaptive identification: `control`, the recorder, and a client that plans segments while the arm moves.

The arm MOVES as soon as everything is up. Everything ends when the result is written.
"""

import os

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction
from launch.launch_description_sources import load_python_launch_file_as_module
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue

HERE = os.path.dirname(os.path.abspath(__file__))
shared = load_python_launch_file_as_module(os.path.join(HERE, "shared.py"))
refuse_unknown_arguments = shared.refusal_of_unknown_arguments(os.path.abspath(__file__))


def generate_launch_description() -> LaunchDescription:
    """Arguments, control, recorder, client."""
    settings = {name: shared.text(name) for name in ("robot", "output", "scene", "after")}
    settings["longest_s"] = ParameterValue(LaunchConfiguration("longest_s"), value_type=float)
    client = Node(
        executable="adaptive_client",
        name="adaptive",
        parameters=[settings],
        sigterm_timeout="105",  # interrupted, it waits until the arm is at rest
        **shared.NODE,
    )
    return LaunchDescription(
        [
            OpaqueFunction(function=refuse_unknown_arguments),
            OpaqueFunction(function=shared.set_middleware),
            DeclareLaunchArgument("scene", default_value="", description="Free space as YAML; empty: the robot's."),
            DeclareLaunchArgument("longest_s", default_value="0.0", description="Motion at most [s]; 0: as usual."),
            DeclareLaunchArgument("after", default_value="", description="model.yaml of the arm before a change."),
            *shared.recorded(client),
        ]
    )
