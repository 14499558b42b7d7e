"""Friction missing from the identified law is no contact with the default thresholds; a force is one.

The arm follows its path exactly, whatever its friction and external forces: its motors give the required torque.
"""

from functools import cache

import numpy as np
import pytest
from arms import nominal

from dynid.contact.contact_sense import Contact
from dynid.contact.force import ToolForce
from dynid.contact.recorded import sense_of
from dynid.identification.data.arrays import recording_from_arrays
from dynid.identification.pipeline import identify
from dynid.model.dynamics import ArmModel
from dynid.model.model_file import ModelFile
from dynid.robot import FloatArray, load_robot

ROBOT = load_robot("aloha_class")
ARM, N = ArmModel.of(ROBOT), ROBOT.size
RATE_HZ, STEP, WHEN_S = 500.0, 2.0 * np.pi / ROBOT.nuisances.encoder_counts_per_turn, (2.0, 2.4)
DIP, DIP_RAD_S = 0.8, 0.1


def path(seed: int, seconds: float) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Time (N,) and states (N, n) of sums of sines about the middle of the ranges."""
    rng, time = np.random.default_rng(seed), np.arange(0.0, seconds, 1.0 / RATE_HZ)
    q, dq, ddq = np.zeros((3, len(time), N))
    q += 0.5 * (ROBOT.lower + ROBOT.upper)
    size = 0.1 * np.minimum(ROBOT.upper - ROBOT.lower, 3.0)
    for w in (1.3, 2.3, 4.1):
        w, phase = w * rng.uniform(0.85, 1.15, N), rng.uniform(0.0, 6.3, N)
        q += size * np.sin(time[:, None] * w + phase)
        dq += size * w * np.cos(time[:, None] * w + phase)
        ddq -= size * w**2 * np.sin(time[:, None] * w + phase)
    return time, q, dq, ddq


def driven(seed: int, seconds: float, force: float = 0.0) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Time, readings and motor torques of an arm whose friction falls with speed; pulled by `force` [N] for a while."""
    time, q, dq, ddq = path(seed, seconds)
    phi = nominal("aloha_class")
    dry = np.array([phi[f"FC{axis + 1}"] for axis in range(N)])
    tau = ARM.inverse_dynamics(q, dq, ddq, phi) + DIP * dry * np.sign(dq) * np.exp(-np.abs(dq) / DIP_RAD_S)
    tau += 0.01 * dry * np.random.default_rng(seed).normal(size=tau.shape)
    tool = ToolForce(ROBOT, ARM.mdh)
    for k in np.flatnonzero((time >= WHEN_S[0]) & (time < WHEN_S[1])):
        tau[k] -= tool.jacobian(q[k])[0].T @ np.array([0.6, -0.5, 0.62]) * force
    return time, np.round(q / STEP) * STEP, tau


@cache
def model() -> ModelFile:
    """Return the model identified from 40 s of this arm's motion."""
    found = identify(ROBOT, recording_from_arrays(ROBOT, *driven(1, 40.0)))
    return found.model_file().model_copy(update={"accepted": True})


def felt(content: ModelFile, seed: int, force: float = 0.0) -> list[Contact]:
    time, q, tau = driven(seed, 5.0, force)
    before = np.vstack([tau[:1], 0.5 * (tau[1:] + tau[:-1])])
    return sense_of(ROBOT, content).along(ROBOT.joint_names, time, q, before)


def without_bars_of_passing_friction() -> ModelFile:
    stated = model().torque_deviations
    assert stated is not None
    return model().model_copy(update={"torque_deviations": stated.model_copy(update={"passing_nm": ()})})


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 4])
def test_friction_that_the_law_does_not_have_is_no_contact(seed: int) -> None:
    assert not felt(model(), seed)


@pytest.mark.slow
def test_without_bars_of_passing_friction_the_false_alarms_come_back() -> None:
    assert len(felt(without_bars_of_passing_friction(), 4)) >= 2


@pytest.mark.slow
@pytest.mark.parametrize(("force", "late_s"), [(2.0, 0.06), (4.0, 0.04)])
def test_pull_is_detected_despite_foreign_friction(force: float, late_s: float) -> None:
    (contact,) = felt(model(), 4, force)
    assert WHEN_S[0] < contact.begin_s < WHEN_S[0] + late_s and contact.end_s < WHEN_S[1] + 0.3
