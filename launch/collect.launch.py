"""One recorded experiment: `control`, the recorder, and a client that enables, records, executes and disables.

The arm MOVES as soon as everything is up. Everything ends when the bag is closed.
"""

import os

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction
from launch.launch_description_sources import load_python_launch_file_as_module
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

HERE = os.path.dirname(os.path.abspath(__file__))
shared = load_python_launch_file_as_module(os.path.join(HERE, "shared.py"))
refuse_unknown_arguments = shared.refusal_of_unknown_arguments(os.path.abspath(__file__))


def generate_launch_description() -> LaunchDescription:
    """Arguments, control, recorder, client."""
    client = Node(
        executable="collect_client",
        name="collect",
        parameters=[{name: shared.text(name) for name in ("trajectory", "profile", "output")}],
        sigterm_timeout="105",  # interrupted, it waits until the arm is at rest
        **shared.NODE,
    )
    return LaunchDescription(
        [
            OpaqueFunction(function=refuse_unknown_arguments),
            OpaqueFunction(function=shared.set_middleware),
            DeclareLaunchArgument("trajectory", description="Motion to execute; `dynid trajectories` lists them."),
            *shared.recorded(client, trajectory=LaunchConfiguration("trajectory")),
        ]
    )
