"""Shared by the launch files, which load it through launch because they belong to no package."""

import os
import sys

import rclpy
from launch import LaunchContext
from launch.action import Action
from launch.actions import (
    DeclareLaunchArgument,
    EmitEvent,
    IncludeLaunchDescription,
    OpaqueFunction,
    RegisterEventHandler,
    SetEnvironmentVariable,
)
from launch.event_handlers import OnProcessExit, OnProcessStart
from launch.events import Shutdown, matches_action
from launch.launch_description_sources import PythonLaunchDescriptionSource, load_python_launch_file_as_module
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import LifecycleNode, Node
from launch_ros.event_handlers import OnStateTransition
from launch_ros.events.lifecycle import ChangeState
from launch_ros.parameter_descriptions import ParameterValue
from lifecycle_msgs.msg import Transition

# Should launch itself die, the kernel ends the nodes, and the hardware node brings the arm to rest.
END_WITH_LAUNCH = {"DYNID_END_WITH_PARENT": str(os.getpid())}
NODE = {  # what all nodes of this package have
    "package": "dynid",
    "namespace": LaunchConfiguration("namespace"),
    "additional_env": END_WITH_LAUNCH,
    "output": "screen",
}


HERE = os.path.dirname(os.path.abspath(__file__))
# Installed beside this file; in a checkout, the package's own. This Python need not be the one that dynid is in.
MIDDLEWARE = [
    os.path.join(HERE, *parts) for parts in (("middleware.py",), ("..", "src", "dynid", "nodes", "middleware.py"))
]


def set_middleware(context: LaunchContext) -> list[Action]:
    """Have every process that is started from here on, of whatever package, listen on this machine only.

    A user's own choice stays, as for dynid's nodes. It also holds for the node in launch's own process.
    """
    middleware = load_python_launch_file_as_module(next(path for path in MIDDLEWARE if os.path.isfile(path)))
    rmw = rclpy.get_rmw_implementation_identifier()
    found = middleware.middleware_defaults(context.environment, rmw)
    return [SetEnvironmentVariable(name, value) for name, value in found.items()]


def change(node: LifecycleNode, transition: int) -> EmitEvent:
    """Ask for a lifecycle transition."""
    return EmitEvent(event=ChangeState(lifecycle_node_matcher=matches_action(node), transition_id=transition))


def give_up(reason: str) -> OpaqueFunction:
    """End everything, unless that is under way."""

    def end(context: LaunchContext) -> list[Action]:
        return [] if context.is_shutdown else [EmitEvent(event=Shutdown(reason=reason))]

    return OpaqueFunction(function=end)


def text(name: str) -> ParameterValue:
    """A launch argument as a parameter that is a text, whatever it looks like."""
    return ParameterValue(LaunchConfiguration(name), value_type=str)


def recorded(client: Node, **control: LaunchConfiguration) -> list[Action]:
    """`control`, the recorder, and a client that moves and records the arm; all ends with the client.

    `control` are arguments of control.launch.py beside those of the command line.
    """
    here = os.path.dirname(os.path.abspath(__file__))
    settings = {name: text(name) for name in ("robot", "storage")}
    recorder = LifecycleNode(executable="recorder_node", name="recorder", parameters=[settings], **NODE)
    activate = OnStateTransition(
        target_lifecycle_node=recorder,
        start_state="configuring",
        goal_state="inactive",
        entities=[change(recorder, Transition.TRANSITION_ACTIVATE)],
    )
    configure = change(recorder, Transition.TRANSITION_CONFIGURE)
    record = OnStateTransition(target_lifecycle_node=recorder, goal_state="active", entities=[client])
    return [
        DeclareLaunchArgument("output", description="Folder of what is recorded; it must not exist."),
        DeclareLaunchArgument("storage", default_value="mcap", description="mcap or sqlite3."),
        IncludeLaunchDescription(
            PythonLaunchDescriptionSource(os.path.join(here, "control.launch.py")), launch_arguments=control.items()
        ),
        RegisterEventHandler(OnProcessStart(target_action=recorder, on_start=[configure])),
        RegisterEventHandler(activate),
        RegisterEventHandler(record),
        RegisterEventHandler(OnProcessExit(target_action=client, on_exit=[give_up("the experiment ended")])),
        recorder,
    ]


def refusal_of_unknown_arguments(file: str):
    """Refuses unknown arguments of a launch file, which launch itself ignores silently."""

    def refuse(context: LaunchContext) -> list[Action]:
        if os.path.basename(file) not in [os.path.basename(text) for text in sys.argv]:
            return []  # included by another one, which has arguments of its own
        described = PythonLaunchDescriptionSource(file).get_launch_description(context)
        known = {one.name for one in described.get_launch_arguments(conditional_inclusion=True)}
        unknown = sorted({text.split(":=")[0] for text in context.argv if ":=" in text} - known)
        if unknown:
            raise ValueError(f"unknown launch argument {', '.join(unknown)}; known: {', '.join(sorted(known))}")
        return []

    return refuse
