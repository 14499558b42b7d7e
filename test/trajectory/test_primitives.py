"""Primitives: sequences of one joint or a pair of joints."""

import numpy as np
import pytest

from dynid.errors import ConfigurationError
from dynid.trajectory.primitives import primitive

POSTURE = np.array([0.1, 0.2, 0.3, 0.4])
SAME = np.repeat([[0.5], [0.6], [0.7], [0.8]], 2, axis=1)
UNIT = np.eye(4)


def test_a_single_joint_moves_down_up_and_back():
    expected = [POSTURE, POSTURE - 0.6 * UNIT[1], POSTURE + 0.6 * UNIT[1], POSTURE]
    np.testing.assert_allclose(primitive(POSTURE, [1], SAME), expected)


@pytest.mark.parametrize("signs", [(1, 1), (1, -1), (-1, 1), (-1, -1)])
def test_pair_sequence_follows_the_sign_pair(signs):
    delta = signs[0] * 0.6 * UNIT[1] + signs[1] * 0.7 * UNIT[2]
    expected = [POSTURE, POSTURE - delta, POSTURE + delta, POSTURE]
    np.testing.assert_allclose(primitive(POSTURE, [1, 2], SAME, signs), expected)


def test_one_sided_amplitudes_limit_each_direction():
    amplitudes = SAME.copy()
    amplitudes[2] = [0.0, 0.9]
    corners = primitive(POSTURE, [1, 2], amplitudes, (1, -1))
    np.testing.assert_allclose(corners[1] - POSTURE, [0.0, -0.6, 0.9, 0.0])
    np.testing.assert_allclose(corners[2] - POSTURE, [0.0, 0.6, 0.0, 0.0])


@pytest.mark.parametrize("joints", [[0, 2], [1, 0], [0, 1, 2], [], [4], [-1]])
def test_joints_that_are_no_primitive_are_refused(joints):
    with pytest.raises(ConfigurationError, match="joints"):
        primitive(POSTURE, joints, SAME)


@pytest.mark.parametrize("signs", [(1,), (1, 0), (1, 2)])
def test_signs_are_checked(signs):
    with pytest.raises(ConfigurationError, match="signs"):
        primitive(POSTURE, [0, 1], SAME, signs)


def test_amplitudes_are_checked():
    with pytest.raises(ConfigurationError, match="amplitudes"):
        primitive(POSTURE, [0], -SAME)
    with pytest.raises(ConfigurationError, match="amplitudes"):
        primitive(POSTURE, [0], SAME[:3])
