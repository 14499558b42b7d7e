"""Resolution of the current register for this arm: uncertain torque constants, and small currents at the wrist.

docs/servos.md quotes the figures that these tests compute.
"""

import re
from pathlib import Path

import numpy as np
import pytest
from arms import arm, plant

from dynid.control.motion_check import model_torques
from dynid.model.drive import of_kinds
from dynid.model.friction import FrictionLaw
from dynid.model.gear_presets import gear_friction
from dynid.robot import FloatArray, Robot
from dynid.trajectory.families import load_excitation

PAGE = Path(__file__).parents[2] / "docs" / "servos.md"
RT_LINK_TABLE = {"XM430-W350": 1.783, "XM540-W270": 2.409}
RATIO = 1.3
WRIST = slice(5, None)


def counts(robot: Robot, friction: FrictionLaw) -> FloatArray:
    """RMS current of each joint (n,) on the demo's motion, in counts of its register."""
    motion = load_excitation(robot).trajectory("demo_identification")
    links = of_kinds(plant("crane_x7"), ("FV",), others=True)
    torques = model_torques(arm("crane_x7"), links, friction)
    tau = torques(*motion.sample_all(np.arange(0.0, motion.duration, 0.01)))
    return np.asarray(np.sqrt(np.mean((tau / robot.torque_constants) ** 2, axis=0)) / robot.current_units[0])


def test_the_torque_constants_are_the_papers_and_all_published_pairs_are_named(robot: Robot) -> None:
    page, comment = PAGE.read_text(encoding="utf-8"), (robot.folder / "robot.yaml").read_text(encoding="utf-8")
    for model, published in RT_LINK_TABLE.items():
        assert robot.file.servos[model].torque_constant_nm_per_a == pytest.approx(RATIO * published, rel=1e-4)
    for pair in ("2.20 / 3.60", "1.79 / 2.79", "1.783 / 2.409"):
        assert pair in page and pair in re.sub(r"\s*\n\s*#\s*", " ", comment)


def test_the_wrists_currents_are_nearly_all_friction(robot: Robot) -> None:
    whole, rigid = counts(robot, gear_friction(robot, "M6")), counts(robot, FrictionLaw.of(robot.size, {}))
    assert (rigid[WRIST] < 0.3 * whole[WRIST]).all() and (rigid[WRIST] < 15.0).all()
    assert (rigid[1:4] > 0.3 * whole[1:4]).all()  # gravity of the whole arm: not so at the shoulder
    rows = re.findall(r"^\| (\d) \| (\d+) \| (\d+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    stated = np.array([[int(figure) for figure in row[1:]] for row in rows])
    assert [int(row[0]) for row in rows] == list(range(1, robot.size + 1))
    np.testing.assert_allclose(stated, np.column_stack([whole, rigid]), atol=0.6)
