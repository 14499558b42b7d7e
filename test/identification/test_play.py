"""Backlash between joint and encoder: removed from the states, and estimated from torques."""

from dataclasses import replace

import numpy as np
import pytest
from arms import RECORD
from benchmarks.studies.drawn_arms import draw_arm

from dynid.control.controller import load_controller
from dynid.control.ff_pd import FeedforwardPd
from dynid.identification.data.fine_states import FineStates
from dynid.identification.data.preprocessing import LowPass, Samples, central_differences
from dynid.identification.data.simulated_recording import source_of
from dynid.identification.estimators.play import FoundPlay, _through_gap, without_play
from dynid.identification.estimators.table import estimator
from dynid.identification.settings import FilterSettings, load_identification
from dynid.model.dynamics import ArmModel
from dynid.robot import FloatArray, load_robot
from dynid.simulation.lockstep.run import simulate
from dynid.trajectory.families import load_excitation

HALF_RAD, STEP_S = 2e-3, 0.001


def seen(q: FloatArray) -> tuple[Samples, FloatArray]:
    """Samples whose fine states are those of positions q (M, 1) behind the states' filter, and these positions."""
    low_pass = LowPass(FilterSettings(maximum_cutoff_hz=9.0), 0.02, STEP_S)
    filtered = low_pass.apply(q)
    dq, ddq = central_differences(filtered, STEP_S)
    nodes = np.arange(0, len(q), 20)
    states = FineStates(filtered, dq, ddq, low_pass.sections, nodes, wide=low_pass.sections)
    still = np.zeros((len(nodes), 1))
    return Samples(("a",), nodes * STEP_S, still, still, still, still, RECORD, fine=(states,)), filtered


def test_backlash_holds_the_reading_until_the_gap_is_crossed() -> None:
    q = np.array([[0.0], [1.0], [2.0], [1.0], [0.0], [-1.0]])
    np.testing.assert_allclose(_through_gap(q, np.array([0.5]))[:, 0], [0.0, 0.5, 1.5, 1.5, 0.5, -0.5])


def test_the_motion_of_the_joint_is_found_behind_the_gap() -> None:
    """Positions and accelerations of a joint that swings are several times closer to the true ones."""
    time = np.arange(0.0, 8.0, STEP_S)[:, None]
    true = 0.5 * np.sin(2.0 * np.pi * 0.7 * time)
    measured, off = seen(_through_gap(true, np.array([HALF_RAD])))
    exact = seen(true)[0].fine[0]
    found = without_play(measured, np.array([HALF_RAD])).fine[0]
    inner = slice(1000, -1000)
    before, after = (np.sqrt(np.mean((one - exact.q)[inner] ** 2)) for one in (off, found.q))
    assert before == pytest.approx(HALF_RAD, rel=0.15) and after < 0.2 * before
    before, after = (np.sqrt(np.mean((one.ddq - exact.ddq)[inner] ** 2)) for one in (measured.fine[0], found))
    assert after < 0.4 * before
    same = without_play(measured, np.zeros(1)).fine[0]
    np.testing.assert_array_equal(same.q, measured.fine[0].q)


def test_remaining_backlash_is_that_not_corrected_and_its_uncertainty() -> None:
    none = np.zeros((1, 3, 3))
    found = FoundPlay(np.array([2.0, 2.1, 1.0]) * 1e-3, np.array([0.1, 0.2, 1.0]) * 1e-3, none)
    np.testing.assert_allclose(found.significant, [2e-3, 2.1e-3, 0.0])
    np.testing.assert_allclose(found.remaining, np.array([0.1, 0.2, np.sqrt(2.0)]) * 1e-3)
    kept = replace(found, taken=np.array([2e-3, 0.0, 0.0]))  # the second joint's error did not fall without its play
    np.testing.assert_allclose(kept.remaining, np.array([0.1, np.hypot(0.2, 2.1), np.sqrt(2.0)]) * 1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("switched_off", [(), ("backlash",)])
def test_the_play_of_a_simulated_arm_is_found_from_its_torques(switched_off: tuple[str, ...]) -> None:
    """0.25 deg of it, of the joints that carry the arm; without it there is none."""
    robot = load_robot("crane_x7")
    arm, controller = draw_arm(robot, 0), FeedforwardPd(load_controller(robot))
    motion = load_excitation(robot).trajectory("demo_identification", "limited")
    run = simulate(
        robot, motion, controller, seed=0, standard=arm.standard, friction=arm.friction, switched_off=switched_off
    )
    settings = load_identification(robot)
    samples = source_of(robot, run, "run").samples(settings)
    coulomb = settings.coulomb_friction.model_copy(update={"structure": "directional"})
    beside = estimator("ols").estimate(ArmModel.of(robot), samples, coulomb).regression.joint_friction
    assert beside is not None and beside.play is not None
    half = 0.0 if switched_off else np.deg2rad(0.125)
    deviations = beside.play.deviations[1:4]
    assert (deviations < 0.6e-3).all()
    assert (np.abs(beside.play.half[1:4] - half) < 3.0 * deviations).all()
