"""Gravity compensation: `control`, and a client that checks the arm, compensates its gravity, and lowers it at the end.

The arm MOVES as soon as everything is up: to and fro about two postures. Gravity compensation starts only if the torque
of every joint agrees with the model. Everything ends with the client, after `seconds` or with Ctrl-C.
"""

import os

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription, OpaqueFunction, RegisterEventHandler
from launch.event_handlers import OnProcessExit
from launch.launch_description_sources import PythonLaunchDescriptionSource, load_python_launch_file_as_module
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue

HERE = os.path.dirname(os.path.abspath(__file__))
shared = load_python_launch_file_as_module(os.path.join(HERE, "shared.py"))
refuse_unknown_arguments = shared.refusal_of_unknown_arguments(os.path.abspath(__file__))


def generate_launch_description() -> LaunchDescription:
    """Arguments, control, client."""
    settings: dict[str, object] = {name: shared.text(name) for name in ("robot", "mount")}
    settings["model_file"] = shared.text("model")  # the executor gets it after the checks
    settings["seconds"] = ParameterValue(LaunchConfiguration("seconds"), value_type=float)
    client = Node(
        executable="hold_client",
        name="hold",
        parameters=[settings],
        sigterm_timeout="105",  # interrupted, it waits until the arm is at rest
        **shared.NODE,
    )
    control = PythonLaunchDescriptionSource(os.path.join(HERE, "control.launch.py"))
    return LaunchDescription(
        [
            OpaqueFunction(function=refuse_unknown_arguments),
            OpaqueFunction(function=shared.set_middleware),
            DeclareLaunchArgument("model", description="model.yaml of an accepted model."),
            DeclareLaunchArgument("seconds", default_value="0.0", description="How long [s]; 0.0: until Ctrl-C."),
            IncludeLaunchDescription(control),
            RegisterEventHandler(OnProcessExit(target_action=client, on_exit=[shared.give_up("hold has ended")])),
            client,
        ]
    )
