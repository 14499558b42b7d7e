"""Samples made from states and torques, without a recording."""

from collections.abc import Callable

import numpy as np
import pytest
from arms import RECORD

from dynid.identification.data.preprocessing import Samples
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray, Robot

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
        return Samples(robot.joint_names, 0.02 * np.arange(count), q, dq, ddq, tau, RECORD)

    return make
