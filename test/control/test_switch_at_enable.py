"""A law without holding is chosen while torque is switched on: the arm must not fall."""

import numpy as np
import pytest
from test.contact.test_wall import DYNAMICS, SETTINGS
from test.shared.felt import ROBOT, N, control_model

from dynid.control.arm_controller import ArmController
from dynid.control.ff_pd import FeedforwardPdLaw
from dynid.control.guiding import Guiding
from dynid.control.model_laws import GravityCompensation
from dynid.control.motion import MotionExecutor
from dynid.simulation.lockstep.stepped_arm import SteppedArm

SAG_RAD = 0.1  # what feed-forward and PD sag by, and a little


def fallen(switches: tuple[int, ...]) -> float:
    """How far any joint gets within a second, with switches to gravity compensation in these cycles [rad]."""
    light = [GravityCompensation(control_model(), DYNAMICS, share) for share in (0.0, 0.5, 0.0)]
    arm = SteppedArm(ROBOT, seed=8, q0=ROBOT.rest_posture)
    motion = MotionExecutor(ROBOT, ArmController(FeedforwardPdLaw(SETTINGS), 0.002, N))
    motion.hold(arm.measure(), arm.stamp_ns)
    arm.command(np.zeros(N))
    for cycle in range(1000):
        if cycle in switches:
            motion.switch_to(light[switches.index(cycle)])
        arm.follow(motion, np.zeros(N))
    return float(np.abs(arm.plant.q - ROBOT.rest_posture).max())


@pytest.mark.slow
@pytest.mark.parametrize("switches", [(3,), (60,), (3, 40), (3, 40, 300)])
def test_the_arm_is_held_while_the_law_changes(switches: tuple[int, ...]) -> None:
    assert fallen(switches) < SAG_RAD


def test_without_the_former_laws_feedback_it_falls_until_it_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FeedforwardPdLaw, "follows_reference", False)  # so that a fixed difference fades
    assert 0.05 < fallen((3,)) < SAG_RAD  # the watch of laws without a reference holds it
    monkeypatch.setattr(Guiding, "update", lambda self, dt, q, tau: tau)  # without that watch nothing catches it
    assert fallen((3,)) > 0.3
