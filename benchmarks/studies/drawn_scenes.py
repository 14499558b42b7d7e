"""Random scenes: a room, a tilted table, the base's column, and boxes on the table.

Lengths are shares of the robot's reach, so any arm gets scenes of its size. Room for a motion is not guaranteed:
if there is none, an adaptive run must be refused in words that name the border.
"""

import numpy as np

from dynid.control.safe_box import HalfSpace, SceneBox, SceneFile
from dynid.model.dynamics import ArmModel
from dynid.robot import Robot

SCENES = 23  # stream of random numbers, separate from that of drawn arms
TABLE_FROM, COLUMN_FROM = 3, 4  # first links that must keep clear; those before stand on the table
MOST_BOXES = 3
MOST_TILT = 0.08  # largest horizontal component of the table's normal


def reach(robot: Robot) -> float:
    """Return the length of the stretched links [m]."""
    return float(np.linalg.norm(ArmModel.of(robot).mdh.relative_positions(), axis=1).sum())


def draw_scene(robot: Robot, seed: int) -> SceneFile:
    """Return a random scene; equal seeds give equal scenes."""
    random, size = np.random.default_rng([seed, SCENES]), reach(robot)
    sides = size * random.uniform(0.8, 1.8, 4)
    room = SceneBox(
        name="room",
        lower_m=(-sides[0], -sides[1], -0.1 * size),
        upper_m=(sides[2], sides[3], size * random.uniform(1.2, 2.2)),
        from_link=TABLE_FROM,
    )
    tilt = random.uniform(-MOST_TILT, MOST_TILT, 2)
    table = HalfSpace(
        name="table", normal=(tilt[0], tilt[1], 1.0), offset_m=size * random.uniform(-0.15, -0.02), from_link=TABLE_FROM
    )
    half, height = size * random.uniform(0.03, 0.07), size * random.uniform(0.03, 0.08)
    column = SceneBox(
        name="column", lower_m=(-half, -half, -0.1 * size), upper_m=(half, half, height), from_link=COLUMN_FROM
    )
    boxes = [_standing(f"box {k + 1}", size, random) for k in range(random.integers(0, MOST_BOXES + 1))]
    return SceneFile(schema_version=1, inside=(room,), outside=(column, *boxes), half_spaces=(table,))


def _standing(name: str, size: float, random: np.random.Generator) -> SceneBox:
    """Return a box on the table, in a random direction from the base."""
    angle, distance = random.uniform(0.0, 2.0 * np.pi), size * random.uniform(0.6, 1.6)
    x, y = distance * np.cos(angle), distance * np.sin(angle)
    wide, deep = size * random.uniform(0.04, 0.15, 2)
    return SceneBox(
        name=name,
        lower_m=(x - wide, y - deep, -0.1 * size),
        upper_m=(x + wide, y + deep, size * random.uniform(0.1, 0.6)),
        from_link=TABLE_FROM,
    )
