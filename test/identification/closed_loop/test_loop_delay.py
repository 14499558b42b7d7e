"""The loop's delay from a bag, with its refusals, and friction along a recorded motion."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from arms import arm, nominal

from dynid.control.controller import load_controller
from dynid.control.ff_pd import FeedforwardPd
from dynid.errors import DataError
from dynid.identification.closed_loop.friction_history import KnownFriction
from dynid.identification.closed_loop.recorded_loop import closed_loop_data, delay_cycles
from dynid.identification.settings import CoulombSettings, load_identification
from dynid.model.friction import FrictionLaw
from dynid.recording.driver_recording import DriverRecording, TorqueSeries, load_driver_recording
from dynid.robot import load_robot
from dynid.simulation.lockstep.run import simulate
from dynid.simulation.lockstep.simulated_bag import write_bag
from dynid.simulation.plant.nuisances import DELAY
from dynid.trajectory.families import load_excitation

ROBOT = load_robot("crane_x7")
MODEL = arm("crane_x7")
PHI = nominal("crane_x7")
SETTINGS = load_identification(ROBOT)
GOAL_S = SETTINGS.goal_delay(ROBOT, 0.001, simulated=False)
FRICTION = np.array(ROBOT.file.simulation.nuisances.coulomb_friction_nm)


def recorded(folder: Path, *without: str) -> DriverRecording:
    law = load_controller(ROBOT)
    motion = load_excitation(ROBOT).trajectory("PA01", "limited")
    run = simulate(ROBOT, motion, FeedforwardPd(law), seed=3, switched_off=without, to_rest=False)
    write_bag(run, ROBOT, law, folder / "bag", profile="limited")
    return load_driver_recording(folder / "bag", ROBOT)


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> DriverRecording:
    return recorded(tmp_path_factory.mktemp("usual"))


@pytest.mark.slow
def test_the_loop_delay_is_read_from_the_stamps(usual: DriverRecording, tmp_path: Path) -> None:
    assert usual.hardware.torque_constants_nm_per_a == tuple(ROBOT.torque_constants)
    assert delay_cycles(usual, ROBOT, GOAL_S) == 1
    assert closed_loop_data(usual, ROBOT, SETTINGS).delay_cycles == 1
    assert delay_cycles(recorded(tmp_path, DELAY), ROBOT, GOAL_S) == 0


@pytest.mark.slow
@pytest.mark.parametrize("late", [0.3e-3, 1.4e-3])
def test_later_writing_lengthens_the_loop_delay(usual: DriverRecording, late: float) -> None:
    """As on a real bus, where a torque is written some time after its state was read."""
    assert usual.commands is not None
    written = TorqueSeries(usual.commands.time + late, usual.commands.tau)
    assert delay_cycles(replace(usual, applied=written), ROBOT, GOAL_S) == round(late / 1e-3 + 0.4)


@pytest.mark.slow
def test_commands_that_were_not_carried_out_are_refused(usual: DriverRecording) -> None:
    assert usual.applied is not None
    other = TorqueSeries(usual.applied.time, usual.applied.tau[::-1])
    with pytest.raises(DataError, match="another controller active"):
        delay_cycles(replace(usual, applied=other), ROBOT, GOAL_S)
    with pytest.raises(DataError, match="applied_commands"):
        delay_cycles(replace(usual, applied=None), ROBOT, GOAL_S)


def test_known_friction_is_found_in_motion_and_at_rest() -> None:
    """Friction is FC in motion; at rest it balances the other torques, up to FC."""
    t = 0.001 * np.arange(6000)[:, None]
    moving = np.clip(t - 2.0, 0.0, 2.0)
    q = 0.4 * (1 - np.cos(2 * np.pi * moving / 2.0)) * np.ones((1, 8))  # still, one swing, still
    dq, ddq = np.gradient(q, 0.001, axis=0), np.gradient(np.gradient(q, 0.001, axis=0), 0.001, axis=0)
    friction = np.where(np.abs(dq) > 1e-3, FRICTION * np.sign(dq), 0.4 * FRICTION * np.sign(t - 3.0))
    tau = MODEL.inverse_dynamics(q, dq, ddq, PHI) + friction
    known = KnownFriction(MODEL, PHI, FrictionLaw.of(8, {"fb": FRICTION}, 0.02))
    found, _ = known.along(q, tau, 0.001, CoulombSettings())
    fast, still = np.abs(dq[:, 0]) > 0.2, (t[:, 0] < 1.7) | (t[:, 0] > 4.3)
    np.testing.assert_allclose(found[fast], friction[fast], rtol=1e-3)
    np.testing.assert_allclose(found[still], friction[still], atol=0.02 * FRICTION.max())
    heavy, _ = known.along(q, tau + 5.0, 0.001, CoulombSettings())
    np.testing.assert_allclose(heavy[still], np.tile(FRICTION, (still.sum(), 1)))


@pytest.mark.slow
def test_known_friction_loads_every_joint_against_its_motion(usual: DriverRecording) -> None:
    known = KnownFriction(MODEL, PHI, FrictionLaw.of(8, {"fb": FRICTION}, 0.02))
    data = closed_loop_data(usual, ROBOT, SETTINGS, friction=known)
    assert data.external is not None
    fast = np.abs(data.dq_ref) > 0.3
    assert fast.any()
    power = (data.external * data.dq_ref * fast).sum(axis=0)
    moving = fast.sum(axis=0) > 50
    assert moving.any() and (power[moving] < 0.0).all()
    for own, size, at in zip(data.external.T[moving], FRICTION[moving], fast.T[moving], strict=True):
        assert np.median(np.abs(own[at])) == pytest.approx(size, rel=0.05)
