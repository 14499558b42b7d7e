"""What the launch files share; they load it through launch itself, since a launch file is no part of a package."""

import os
import sys

from launch import LaunchContext
from launch.action import Action
from launch.actions import EmitEvent, OpaqueFunction
from launch.events import Shutdown, matches_action
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch_ros.actions import LifecycleNode
from launch_ros.events.lifecycle import ChangeState


def change(node: LifecycleNode, transition: int) -> EmitEvent:
    """Ask for a lifecycle transition."""
    return EmitEvent(event=ChangeState(lifecycle_node_matcher=matches_action(node), transition_id=transition))


def give_up(reason: str) -> OpaqueFunction:
    """End everything, unless that is under way."""

    def end(context: LaunchContext) -> list[Action]:
        return [] if context.is_shutdown else [EmitEvent(event=Shutdown(reason=reason))]

    return OpaqueFunction(function=end)


def refusal_of_unknown_arguments(file: str):
    """What names an argument that a launch file does not have; launch itself passes it over in silence."""

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
