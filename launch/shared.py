"""Shared by the launch files, which load it through launch because they belong to no package."""

import os
import sys

from launch import LaunchContext
from launch.action import Action
from launch.actions import EmitEvent, OpaqueFunction
from launch.events import Shutdown, matches_action
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import LifecycleNode
from launch_ros.events.lifecycle import ChangeState

# Should launch itself die, the kernel ends the nodes, and the hardware node brings the arm to rest.
END_WITH_LAUNCH = {"DYNID_END_WITH_PARENT": str(os.getpid())}
NODE = {  # what all nodes of this package have
    "package": "dynid",
    "namespace": LaunchConfiguration("namespace"),
    "additional_env": END_WITH_LAUNCH,
    "output": "screen",
}


def change(node: LifecycleNode, transition: int) -> EmitEvent:
    """Ask for a lifecycle transition."""
    return EmitEvent(event=ChangeState(lifecycle_node_matcher=matches_action(node), transition_id=transition))


def give_up(reason: str) -> OpaqueFunction:
    """End everything, unless that is under way."""

    def end(context: LaunchContext) -> list[Action]:
        return [] if context.is_shutdown else [EmitEvent(event=Shutdown(reason=reason))]

    return OpaqueFunction(function=end)


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
