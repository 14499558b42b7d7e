"""Excitation primitives of arXiv:2605.15949, Appendix B, as waypoint sequences.

The primitive P_j moves joint j through q0, q0 - a e_j, q0 + a e_j and q0. P_{j,j+1} moves two joints likewise, along
delta = s_j a_j e_j + s_{j+1} a_{j+1} e_{j+1}. An amplitude is a pair, one value in each direction. The paper's two
values are equal. Here they differ if a joint limit leaves less room on one side.
"""

from collections.abc import Sequence

import numpy as np

from dynid.errors import ConfigurationError
from dynid.robot import FloatArray, read_only


def primitive(
    posture: FloatArray, joints: Sequence[int], amplitudes: FloatArray, signs: Sequence[int] | None = None
) -> FloatArray:
    """Return the waypoints of an excitation primitive, which moves one joint or two adjacent joints to both sides.

    Args:
        posture: nominal posture q0, (n,) [rad].
        joints: index of the joint, or of two adjacent joints in ascending order (counted from 0).
        amplitudes: deviation of each joint below and above the posture, (n, 2) [rad], not negative.
        signs: +1 or -1 per joint in `joints`; None means +1 for all.

    Returns:
        The waypoints q0, q0 - delta, q0 + delta and q0, (4, n) [rad], with the deviation delta.

    Raises:
        ConfigurationError: joints are out of range or not adjacent, a sign is not +-1, or an amplitude is negative.
    """
    directions = tuple(signs) if signs is not None else (1,) * len(joints)
    size = len(posture)
    pair_apart = len(joints) == 2 and joints[1] != joints[0] + 1
    if len(joints) not in (1, 2) or pair_apart or not all(0 <= j < size for j in joints):
        numbers = [j + 1 for j in joints]
        raise ConfigurationError(
            f"primitive of joints {numbers}: expected one joint, or two adjacent ones, of 1 to {size}"
        )
    if len(directions) != len(joints) or any(s not in (-1, 1) for s in directions):
        raise ConfigurationError(
            f"primitive signs {list(directions)}: expected +1 or -1 for each of {len(joints)} joints"
        )
    if amplitudes.shape != (size, 2) or not np.all(amplitudes >= 0.0):
        raise ConfigurationError(
            f"primitive amplitudes of shape {amplitudes.shape}: expected ({size}, 2), none negative"
        )
    ends = np.tile(posture, (2, 1))
    for row, side in enumerate((-1, 1)):
        for j, sign in zip(joints, directions, strict=True):
            towards = side * sign
            ends[row, j] += towards * amplitudes[j, 0 if towards < 0 else 1]
    return read_only([posture, ends[0], ends[1], posture])
