"""Robots as data: load, draft and check a robot's folder, which contains robot.yaml, a URDF and other files."""

from dynid.robot.file import PhysicalBounds as PhysicalBounds
from dynid.robot.file import RobotFile as RobotFile
from dynid.robot.file import Stribeck as Stribeck
from dynid.robot.file import Structure as Structure
from dynid.robot.robot import Robot as Robot
from dynid.robot.robot import known_robots as known_robots
from dynid.robot.robot import load_robot as load_robot
from dynid.robot.values import FloatArray as FloatArray
from dynid.robot.values import NonNegative as NonNegative
from dynid.robot.values import Positive as Positive
from dynid.robot.values import Strict as Strict
from dynid.robot.values import Vector3 as Vector3
from dynid.robot.values import read_only as read_only
