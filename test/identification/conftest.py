"""Samples made from states and torques, without a recording."""

from collections.abc import Callable

import numpy as np
import pytest

from dynid.identification.preprocessing import Samples, SampleSettings
from dynid.identification.verdict import Verdict
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray, Robot

RECORD = SampleSettings(
    interval_s=0.02, grid_s=0.001, filter_order=4, cutoff_hz=20, torque_source="present", torque_delay_s=0,
    window_s=(0, 1), trimmed_s=(0, 0), missed_cycles=0, dropped_samples=0, samples=1,
)  # fmt: skip
MakeSamples = Callable[..., Samples]


@pytest.fixture
def make_samples() -> MakeSamples:
    """Samples at random states of a robot, whose torques are those of phi plus noise of `sigma` (n,) [N m]."""

    def make(
        robot: Robot, phi: BaseParameters, *, count: int = 300, seed: int = 1, sigma: FloatArray | float = 0.0
    ) -> Samples:
        rng = np.random.default_rng(seed)
        q, dq, ddq = rng.uniform(-1.0, 1.0, (3, count, robot.size))
        q, dq, ddq = 1.5 * q, 2.0 * dq, 6.0 * ddq
        tau = ArmModel.of(robot).inverse_dynamics(q, dq, ddq, phi)
        tau = tau + rng.normal(0.0, 1.0, tau.shape) * sigma
        return Samples(robot.joint_names, 0.02 * np.arange(count), q, dq, ddq, tau, RECORD, Verdict(()))

    return make
