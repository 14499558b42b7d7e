"""The arm in Gazebo, bolted to the world, with ros2_control inside the simulator.

Needs the packages ros_gz_sim, ros_gz_bridge and gz_ros2_control. Torques of the executor reach it by
`control.launch.py start_hardware:=false command_output:=effort_controller use_sim_time:=true`.
"""

import os
import sys

from launch import LaunchContext, LaunchDescription
from launch.action import Action
from launch.actions import (
    DeclareLaunchArgument,
    EmitEvent,
    IncludeLaunchDescription,
    OpaqueFunction,
    RegisterEventHandler,
)
from launch.event_handlers import OnProcessExit
from launch.events import Shutdown
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node
from launch_ros.substitutions import FindPackageShare


def give_up(context: LaunchContext) -> list[Action]:
    """End everything, unless that is under way."""
    return [] if context.is_shutdown else [EmitEvent(event=Shutdown(reason="the clock bridge ended"))]


def refuse_unknown_arguments(context: LaunchContext) -> list[Action]:
    """Name an argument that there is not; launch itself passes it over in silence."""
    if os.path.basename(__file__) not in [os.path.basename(text) for text in sys.argv]:
        return []  # included by another one, which has arguments of its own
    known = {one.name for one in generate_launch_description().get_launch_arguments(conditional_inclusion=True)}
    unknown = sorted({text.split(":=")[0] for text in context.argv if ":=" in text} - known)
    if unknown:
        raise ValueError(f"unknown launch argument {', '.join(unknown)}; known: {', '.join(sorted(known))}")
    return []


def generate_launch_description() -> LaunchDescription:
    """Gazebo, the arm in it, its clock, the controllers."""
    simulator = PathJoinSubstitution([FindPackageShare("ros_gz_sim"), "launch", "gz_sim.launch.py"])
    control = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ros2_control.launch.py")
    namespace = LaunchConfiguration("namespace")
    create = Node(
        package="ros_gz_sim", executable="create", namespace=namespace, output="screen",
        arguments=["-topic", "robot_description", "-name", "crane_x7", "-allow_renaming", "true"],
    )  # fmt: skip
    bridge = Node(
        package="ros_gz_bridge", executable="parameter_bridge", output="screen",
        arguments=["/clock@rosgraph_msgs/msg/Clock[gz.msgs.Clock"],
    )  # fmt: skip
    over = OnProcessExit(target_action=bridge, on_exit=[OpaqueFunction(function=give_up)])
    return LaunchDescription(
        [
            OpaqueFunction(function=refuse_unknown_arguments),
            DeclareLaunchArgument(
                "gz_args", default_value="-r -v 2 empty.sdf", description="Arguments of gz sim; add -s for no window."
            ),
            DeclareLaunchArgument(
                "controller",
                default_value="joint_trajectory_controller",
                description="The active one: it holds the arm; effort_controller lets it fall until torques come.",
            ),
            DeclareLaunchArgument("namespace", default_value="", description="Namespace of the arm's nodes."),
            IncludeLaunchDescription(
                PythonLaunchDescriptionSource(simulator),
                launch_arguments={"gz_args": LaunchConfiguration("gz_args"), "on_exit_shutdown": "true"}.items(),
            ),
            bridge,
            RegisterEventHandler(over),
            create,
            IncludeLaunchDescription(
                PythonLaunchDescriptionSource(control),
                launch_arguments={"ros2_control": "gazebo", "controller": LaunchConfiguration("controller")}.items(),
            ),
        ]
    )
