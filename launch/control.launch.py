"""The arm with the trajectory executor: `bringup` and the executor node.

Then: `hardware/enable` switches torque on, parameters `trajectory` and `profile` of `executor` choose a motion,
`executor/execute` runs it, `executor/cancel` brakes.
"""

import os

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution, ThisLaunchFileDir
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue


def generate_launch_description() -> LaunchDescription:
    """Arguments, bringup, executor."""
    bringup = PathJoinSubstitution([ThisLaunchFileDir(), "bringup.launch.py"])
    names = ("robot", "trajectory", "profile", "controller", "model_file")
    return LaunchDescription(
        [
            DeclareLaunchArgument("trajectory", default_value="", description="Motion that executor/execute runs."),
            DeclareLaunchArgument(
                "profile", default_value="limited", description="Excitation profile; limited keeps the real limits."
            ),
            DeclareLaunchArgument(
                "controller",
                default_value="ff_pd",
                description="ff_pd, gravity_compensation or computed_torque; the last two need a model.",
            ),
            DeclareLaunchArgument("model_file", default_value="", description="model.yaml of an accepted model."),
            IncludeLaunchDescription(PythonLaunchDescriptionSource(bringup)),
            Node(
                package="dynid",
                executable="executor_node",
                name="executor",
                namespace=LaunchConfiguration("namespace"),
                parameters=[{name: ParameterValue(LaunchConfiguration(name), value_type=str) for name in names}],
                additional_env={"DYNID_END_WITH_PARENT": str(os.getpid())},
                output="screen",
            ),
        ]
    )
