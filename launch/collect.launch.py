"""One recorded experiment: `control`, the recorder, and a client that enables, records, executes and disables.

The arm MOVES as soon as everything is up. Everything ends when the bag is closed.
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
from launch.event_handlers import OnProcessExit, OnProcessStart
from launch.events import Shutdown, matches_action
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import LifecycleNode, Node
from launch_ros.event_handlers import OnStateTransition
from launch_ros.events.lifecycle import ChangeState
from launch_ros.parameter_descriptions import ParameterValue
from lifecycle_msgs.msg import Transition

COMMON = {
    "package": "dynid",
    "namespace": LaunchConfiguration("namespace"),
    "additional_env": {"DYNID_END_WITH_PARENT": str(os.getpid())},
    "output": "screen",
}


def change(node: LifecycleNode, transition: int) -> EmitEvent:
    """Ask for a lifecycle transition."""
    return EmitEvent(event=ChangeState(lifecycle_node_matcher=matches_action(node), transition_id=transition))


def end(context: LaunchContext) -> list[Action]:
    """End everything, unless that is under way."""
    return [] if context.is_shutdown else [EmitEvent(event=Shutdown(reason="the experiment ended"))]


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
    """Arguments, control, recorder, client."""
    control = os.path.join(os.path.dirname(os.path.abspath(__file__)), "control.launch.py")
    settings = {name: ParameterValue(LaunchConfiguration(name), value_type=str) for name in ("robot", "storage")}
    recorder = LifecycleNode(executable="recorder_node", name="recorder", parameters=[settings], **COMMON)
    names = ("trajectory", "profile", "output")
    client = Node(
        executable="collect_client",
        name="collect",
        parameters=[{name: ParameterValue(LaunchConfiguration(name), value_type=str) for name in names}],
        **COMMON,
    )
    configure = change(recorder, Transition.TRANSITION_CONFIGURE)
    activate = OnStateTransition(
        target_lifecycle_node=recorder,
        start_state="configuring",
        goal_state="inactive",
        entities=[change(recorder, Transition.TRANSITION_ACTIVATE)],
    )
    record = OnStateTransition(target_lifecycle_node=recorder, goal_state="active", entities=[client])
    finish = OnProcessExit(target_action=client, on_exit=[OpaqueFunction(function=end)])
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
