"""The task of an excitation benchmark: one arm, one duration, and the limits that dynid's own optimiser keeps."""

import xml.etree.ElementTree as ElementTree

import numpy as np

from benchmarks.peers.benchmark import chain_urdf
from benchmarks.peers.excitation.exchange import Limits, Task
from dynid.control.self_collision import SelfCollision
from dynid.excitation.optimiser import ExcitationOptimiser
from dynid.robot import Robot
from dynid.trajectory.families import load_excitation


def task_of(robot: Robot, name: str, profile: str, duration_s: float, programs: dict[str, str]) -> Task:
    """Return the task for a robot.

    Args:
        robot: the robot.
        name: its name or folder, with which dynid's own process loads it.
        profile: profile of excitation.yaml whose limits are kept.
        duration_s: duration of the motion [s].
        programs: places of programs that no Python can import, by name.

    Raises:
        UnknownNameError: the profile does not exist.
    """
    bounds = ExcitationOptimiser(robot, load_excitation(robot)).bounds(profile)
    chain = slice(robot.chain_size)
    columns = (bounds.lower, bounds.upper, bounds.velocity, bounds.acceleration, bounds.torque)
    limits = Limits(*(np.asarray(column[chain]).tolist() for column in columns))
    joints, gravity = list(robot.joint_names[chain]), np.asarray(robot.gravity()).tolist()
    return Task(name, profile, joints, gravity, duration_s, limits, links_apart(robot), programs)


def links_apart(robot: Robot) -> list[list[str]]:
    """Return the pairs of links whose contact dynid's own check looks for."""
    shapes, model = SelfCollision(robot).shapes
    names = [model.frames[one.parentFrame].name for one in shapes.geometryObjects]
    found = {tuple(sorted((names[pair.first], names[pair.second]))) for pair in shapes.collisionPairs}
    return sorted(map(list, found))


def bounded_urdf(robot: Robot, task: Task) -> str:
    """Return the URDF of the chain with collision shapes, and with the limits of a task in place of its own."""
    root, limits = ElementTree.fromstring(chain_urdf(robot, shapes=True)), task.limits
    rows = zip(task.joints, limits.lower, limits.upper, limits.velocity, limits.torque, strict=True)
    joints = {one.get("name"): one for one in root.findall("joint")}
    for name, lower, upper, velocity, torque in rows:
        for old in joints[name].findall("limit"):
            joints[name].remove(old)
        values = {"lower": lower, "upper": upper, "velocity": velocity, "effort": torque}
        ElementTree.SubElement(joints[name], "limit", {key: repr(value) for key, value in values.items()})
    return ElementTree.tostring(root, encoding="unicode")
