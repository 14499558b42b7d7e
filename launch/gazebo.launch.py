"""The arm in Gazebo, bolted to the world, with ros2_control inside the simulator.

Needs the packages ros_gz_sim, ros_gz_bridge and gz_ros2_control. Torques of the executor reach it by
`control.launch.py start_hardware:=false command_output:=effort_controller use_sim_time:=true`.
"""

import os

from launch import LaunchDescription
from launch.actions import (
    DeclareLaunchArgument,
    IncludeLaunchDescription,
    OpaqueFunction,
    RegisterEventHandler,
    SetEnvironmentVariable,
)
from launch.event_handlers import OnProcessExit
from launch.launch_description_sources import PythonLaunchDescriptionSource, load_python_launch_file_as_module
from launch.substitutions import EnvironmentVariable, LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node
from launch_ros.substitutions import FindPackageShare

HERE = os.path.dirname(os.path.abspath(__file__))
shared = load_python_launch_file_as_module(os.path.join(HERE, "shared.py"))
refuse_unknown_arguments = shared.refusal_of_unknown_arguments(os.path.abspath(__file__))


def generate_launch_description() -> LaunchDescription:
    """Gazebo, the arm in it, its clock, the controllers."""
    simulator = PathJoinSubstitution([FindPackageShare("ros_gz_sim"), "launch", "gz_sim.launch.py"])
    control = os.path.join(HERE, "ros2_control.launch.py")
    namespace = LaunchConfiguration("namespace")
    create = Node(
        package="ros_gz_sim",
        executable="create",
        namespace=namespace,
        output="screen",
        arguments=["-topic", "robot_description", "-name", "crane_x7", "-allow_renaming", "true"],
    )
    bridge = Node(
        package="ros_gz_bridge",
        executable="parameter_bridge",
        output="screen",
        arguments=["/clock@rosgraph_msgs/msg/Clock[gz.msgs.Clock"],
    )
    over = OnProcessExit(target_action=bridge, on_exit=[shared.give_up("the clock bridge ended")])
    return LaunchDescription(
        [
            OpaqueFunction(function=refuse_unknown_arguments),
            OpaqueFunction(function=shared.set_middleware),
            DeclareLaunchArgument(
                "gz_args", default_value="-r -v 2 empty.sdf", description="Arguments of gz sim; add -s for no window."
            ),
            DeclareLaunchArgument(
                "controller",
                default_value="joint_trajectory_controller",
                description=(
                    "Controller to activate: joint_trajectory_controller holds the arm, effort_controller lets it fall "
                    "until torques arrive."
                ),
            ),
            DeclareLaunchArgument("namespace", default_value="", description="Namespace of the arm's nodes."),
            SetEnvironmentVariable(
                "GZ_IP", EnvironmentVariable("GZ_IP", default_value="127.0.0.1")
            ),  # Gazebo's own topics
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
