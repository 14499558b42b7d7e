"""One recorded experiment: `control`, the recorder, and a client that enables, records, executes and disables.

The arm MOVES as soon as everything is up. Everything ends when the bag is closed.
"""

import os

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription, OpaqueFunction, RegisterEventHandler
from launch.event_handlers import OnProcessExit, OnProcessStart
from launch.launch_description_sources import PythonLaunchDescriptionSource, load_python_launch_file_as_module
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import LifecycleNode, Node
from launch_ros.event_handlers import OnStateTransition
from launch_ros.parameter_descriptions import ParameterValue
from lifecycle_msgs.msg import Transition

HERE = os.path.dirname(os.path.abspath(__file__))
shared = load_python_launch_file_as_module(os.path.join(HERE, "shared.py"))
refuse_unknown_arguments = shared.refusal_of_unknown_arguments(os.path.abspath(__file__))


def generate_launch_description() -> LaunchDescription:
    """Arguments, control, recorder, client."""
    control = os.path.join(HERE, "control.launch.py")
    settings = {name: ParameterValue(LaunchConfiguration(name), value_type=str) for name in ("robot", "storage")}
    recorder = LifecycleNode(executable="recorder_node", name="recorder", parameters=[settings], **shared.NODE)
    names = ("trajectory", "profile", "output")
    client = Node(
        executable="collect_client",
        name="collect",
        parameters=[{name: ParameterValue(LaunchConfiguration(name), value_type=str) for name in names}],
        sigterm_timeout="75",  # interrupted, it waits until the arm is at rest
        **shared.NODE,
    )
    configure = shared.change(recorder, Transition.TRANSITION_CONFIGURE)
    activate = OnStateTransition(
        target_lifecycle_node=recorder,
        start_state="configuring",
        goal_state="inactive",
        entities=[shared.change(recorder, Transition.TRANSITION_ACTIVATE)],
    )
    record = OnStateTransition(target_lifecycle_node=recorder, goal_state="active", entities=[client])
    finish = OnProcessExit(target_action=client, on_exit=[shared.give_up("the experiment ended")])
    return LaunchDescription(
        [
            OpaqueFunction(function=refuse_unknown_arguments),
            DeclareLaunchArgument("trajectory", description="Motion to execute; `dynid trajectories` lists them."),
            DeclareLaunchArgument("output", description="Folder of the new bag; it must not exist."),
            DeclareLaunchArgument("storage", default_value="mcap", description="mcap or sqlite3."),
            IncludeLaunchDescription(
                PythonLaunchDescriptionSource(control),
                launch_arguments={"trajectory": LaunchConfiguration("trajectory")}.items(),
            ),
            RegisterEventHandler(OnProcessStart(target_action=recorder, on_start=[configure])),
            RegisterEventHandler(activate),
            RegisterEventHandler(record),
            RegisterEventHandler(finish),
            recorder,
        ]
    )
