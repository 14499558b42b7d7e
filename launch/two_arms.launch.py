"""Two arms that are coupled: `bringup` for a leader and a follower, each in its namespace, and the node `bilateral`.

Torque stays off until a user calls `bilateral/engage`. Real ports are refused without `allow_real_port:=true`.
"""

import os

from launch import LaunchDescription
from launch.actions import (
    DeclareLaunchArgument,
    GroupAction,
    IncludeLaunchDescription,
    OpaqueFunction,
    RegisterEventHandler,
)
from launch.event_handlers import OnProcessExit
from launch.launch_description_sources import PythonLaunchDescriptionSource, load_python_launch_file_as_module
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

HERE = os.path.dirname(os.path.abspath(__file__))
shared = load_python_launch_file_as_module(os.path.join(HERE, "shared.py"))
refuse_unknown_arguments = shared.refusal_of_unknown_arguments(os.path.abspath(__file__))


def arm(name: str) -> GroupAction:
    """One arm's driver, in a scope of its own: both take arguments of the same names."""
    bringup = PythonLaunchDescriptionSource(os.path.join(HERE, "bringup.launch.py"))
    given = {"namespace": name, "port_name": LaunchConfiguration(f"{name}_port"), "rate_hz": "1000"}
    return GroupAction([IncludeLaunchDescription(bringup, launch_arguments=given.items())])


def generate_launch_description() -> LaunchDescription:
    """Arguments, both arms, what couples them."""
    settings = {name: shared.text(name) for name in ("robot", "leader_model", "follower_model", "mode")}
    coupling = Node(
        executable="bilateral_node", name="bilateral", parameters=[settings], **{**shared.NODE, "namespace": ""}
    )
    return LaunchDescription(
        [
            OpaqueFunction(function=refuse_unknown_arguments),
            OpaqueFunction(function=shared.set_middleware),
            DeclareLaunchArgument("robot", default_value="crane_x7", description="What both arms are: name or folder."),
            DeclareLaunchArgument("mount", default_value="", description="How both are mounted; empty: the default."),
            DeclareLaunchArgument(
                "leader_port", default_value="/dev/ttyUSB0", description="Serial port of the leader."
            ),
            DeclareLaunchArgument("follower_port", default_value="/dev/ttyUSB1", description="That of the follower."),
            DeclareLaunchArgument(
                "baudrate", default_value="", description="Baud rate of all servos [bit/s]; empty: the robot's."
            ),
            DeclareLaunchArgument("use_sim", default_value="false", description="true: start two simulated arms."),
            DeclareLaunchArgument(
                "allow_real_port", default_value="false", description="true: REAL arms may move on both ports."
            ),
            DeclareLaunchArgument("leader_model", description="Accepted model.yaml of the leader."),
            DeclareLaunchArgument(
                "follower_model", default_value="", description="That of the follower; empty: the leader's."
            ),
            DeclareLaunchArgument(
                "mode", default_value="four_channel", description="four_channel, force_reflecting or unilateral."
            ),
            arm("leader"),
            arm("follower"),
            coupling,
            RegisterEventHandler(
                OnProcessExit(target_action=coupling, on_exit=[shared.give_up("bilateral has ended")])
            ),
        ]
    )
