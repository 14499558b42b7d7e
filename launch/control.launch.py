"""The arm with the trajectory executor: `bringup` and the executor node.

Then: `hardware/enable` switches torque on, parameters `trajectory` and `profile` of `executor` choose a motion,
`executor/execute` runs it, `executor/cancel` brakes. With `start_hardware:=false command_output:=effort_controller` it
drives an arm under ros2_control instead, such as the one of `gazebo.launch.py`. With `contact:=report` or
`contact:=stop` the node `external_torque` publishes what acts on the arm from outside, and with `stop` nothing moves
while contact is detected or cannot be judged. With `payload:=report` or `payload:=apply` the node
`payload` weighs the payload while the arm moves, and `apply` adds it to the executor's model.
"""

import os

from launch import LaunchContext, LaunchDescription
from launch.action import Action
from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription, OpaqueFunction, RegisterEventHandler
from launch.conditions import IfCondition
from launch.event_handlers import OnProcessExit
from launch.launch_description_sources import PythonLaunchDescriptionSource, load_python_launch_file_as_module
from launch.substitutions import LaunchConfiguration, NotEqualsSubstitution
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue

HERE = os.path.dirname(os.path.abspath(__file__))
shared = load_python_launch_file_as_module(os.path.join(HERE, "shared.py"))
refuse_unknown_arguments = shared.refusal_of_unknown_arguments(os.path.abspath(__file__))


def refuse_sensing_that_would_not_work(context: LaunchContext) -> list[Action]:
    """An arm that is thought to stop at a touch, or to weigh what it holds, must not move without that."""
    given = context.launch_configurations
    for name in ("contact", "payload"):
        if not given[name]:
            continue
        if not given["model_file"]:
            raise ValueError(f"{name} needs a model: give model_file, the model.yaml of an accepted model")
        if given["command_output"] != "joint_commands" or given["start_hardware"].lower() != "true":
            raise ValueError(
                f"{name} is sensed by the states, torques and settings of the hardware node: leave command_output and "
                "start_hardware at their defaults"
            )
    return []


def generate_launch_description() -> LaunchDescription:
    """Arguments, bringup, executor, contact."""
    bringup = os.path.join(HERE, "bringup.launch.py")
    names = ("robot", "mount", "trajectory", "profile", "controller", "model_file", "effort_topic", "contact")
    settings: dict[str, object] = {name: ParameterValue(LaunchConfiguration(name), value_type=str) for name in names}
    settings["output"] = ParameterValue(LaunchConfiguration("command_output"), value_type=str)
    settings["use_sim_time"] = ParameterValue(LaunchConfiguration("use_sim_time"), value_type=bool)
    sensing: dict[str, object] = {
        name: ParameterValue(LaunchConfiguration(name), value_type=str) for name in ("robot", "model_file")
    }
    contact = Node(
        executable="external_torque_node",
        name="external_torque",
        parameters=[sensing],
        **shared.NODE,
        condition=IfCondition(NotEqualsSubstitution(LaunchConfiguration("contact"), "")),
    )
    weighing = {**sensing, "policy": ParameterValue(LaunchConfiguration("payload"), value_type=str)}
    payload = Node(
        executable="payload_node",
        name="payload",
        parameters=[weighing],
        **shared.NODE,
        condition=IfCondition(NotEqualsSubstitution(LaunchConfiguration("payload"), "")),
    )
    return LaunchDescription(
        [
            OpaqueFunction(function=refuse_unknown_arguments),
            OpaqueFunction(function=shared.set_middleware),
            DeclareLaunchArgument("trajectory", default_value="", description="Motion for executor/execute."),
            DeclareLaunchArgument(
                "profile",
                default_value="limited",
                description="Excitation profile; 'limited' keeps the joint limits of the real arm.",
            ),
            DeclareLaunchArgument(
                "controller",
                default_value="ff_pd",
                description="ff_pd, gravity_compensation or computed_torque; the last two need a model.",
            ),
            DeclareLaunchArgument("model_file", default_value="", description="model.yaml of an accepted model."),
            DeclareLaunchArgument(
                "contact",
                default_value="",
                choices=["", "report", "stop"],
                description="report or stop: also start external_torque, which needs model_file; empty: do not.",
            ),
            DeclareLaunchArgument(
                "payload",
                default_value="",
                choices=["", "report", "apply"],
                description="report or apply: also weigh the payload, which needs model_file; empty: do not.",
            ),
            DeclareLaunchArgument(
                "command_output",
                default_value="joint_commands",
                description="joint_commands, or effort_controller of ros2_control.",
            ),
            DeclareLaunchArgument(
                "effort_topic", default_value="effort_controller/commands", description="Topic of that controller."
            ),
            DeclareLaunchArgument(
                "start_hardware",
                default_value="true",
                description="false: do not start the hardware node; states come from elsewhere.",
            ),
            DeclareLaunchArgument("use_sim_time", default_value="false", description="true: use time from /clock."),
            DeclareLaunchArgument("robot", default_value="crane_x7", description="Robot name, or a folder."),
            DeclareLaunchArgument("mount", default_value="", description="How the arm is mounted; empty: the default."),
            DeclareLaunchArgument("namespace", default_value="", description="Namespace of all nodes."),
            OpaqueFunction(function=refuse_sensing_that_would_not_work),
            IncludeLaunchDescription(
                PythonLaunchDescriptionSource(bringup), condition=IfCondition(LaunchConfiguration("start_hardware"))
            ),
            Node(executable="executor_node", name="executor", parameters=[settings], **shared.NODE),
            contact,
            payload,
            RegisterEventHandler(
                OnProcessExit(target_action=contact, on_exit=[shared.give_up("external_torque has ended")])
            ),
        ]
    )
