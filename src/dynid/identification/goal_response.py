"""Response of servos in position control to their goal positions: delay and gains.

While no limit is reached, a servo in position control gives the torque tau = k_p (g - q) + k_d dq + k_0. Here g is the
goal position, q the position and dq the velocity; k_d is negative if it damps. The law holds for a servo that sets the
current of a winding, and for one that sets the voltage, because back-EMF is proportional to dq. The estimated delay of
g is the one with the smallest torque residual of this law.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from dynid.identification.data.curves import curves_through
from dynid.identification.data.signals import Signals
from dynid.identification.torque_delay import EARLIEST_S, LONGEST_S, lowest
from dynid.robot import FloatArray, read_only

COARSE_S, FINE_S = 0.04, 0.005
NEAR_LIMIT = 0.97  # share of the largest recorded torque, above which a limit may be active
LONGEST_USED_S = 900.0  # longest part of a recording that is used
SHORTEST_S = 4.0  # shortest usable part between the margins for the longest delay


@dataclass(frozen=True, eq=False)
class GoalResponse:
    """Delay and gains of the servos' response to goal positions.

    Attributes:
        delay_s: time from the timestamp of a goal to its effect, mean over the joints [s].
        deviation_s: standard deviation of the delay over the joints [s].
        gains: k_p [N m/rad], k_d [N m s/rad] and k_0 [N m] of the law tau = k_p (goal - q) + k_d dq + k_0 of every
            joint, (n, 3).
        explained: share of the torques' variance that the law explains, (n,).
    """

    delay_s: float
    deviation_s: float
    gains: FloatArray
    explained: FloatArray

    @property
    def sentence(self) -> str:
        """Sentence with the delay from a goal's timestamp to its effect, and the servos' position gains."""
        gains = ", ".join(f"{one:.3g}" for one in self.gains[:, 0].tolist())
        return (
            f"goals act {1e3 * self.delay_s:.1f} ms (+-{1e3 * self.deviation_s:.1f}) after their stamps; the servos' "
            f"position gains are {gains} N m/rad"
        )

    def as_dict(self) -> dict[str, object]:
        """Return all fields as plain values, with position and velocity gains in separate lists."""
        return {
            "delay_s": self.delay_s,
            "deviation_s": self.deviation_s,
            "position_gains_nm_per_rad": self.gains[:, 0].tolist(),
            "velocity_gains_nm_s_per_rad": self.gains[:, 1].tolist(),
            "explained": self.explained.tolist(),
        }


def first_response(recordings: Iterable[Signals]) -> GoalResponse | None:
    """Return the response to goal positions of the first recording that reveals it; None if no recording does.

    A recording must contain goals and have the minimum duration, see `goal_response`.
    """
    return next((found for one in recordings if (found := goal_response(one)) is not None), None)


def goal_response(signals: Signals) -> GoalResponse | None:
    """Return the response of servos to the goals of a recording; None if it contains no goals or is too short.

    At least `SHORTEST_S` must remain after removal of `LONGEST_S`, the longest delay, at either end of the recording.

    Args:
        signals: signals of the recording; their torque delay must be known, because it is compensated here.
    """
    begin, end = signals.time[0] + LONGEST_S, min(signals.time[-1] - LONGEST_S, signals.time[0] + LONGEST_USED_S)
    if signals.goal is None or end - begin < SHORTEST_S:
        return None
    inside = (signals.time > begin) & (signals.time < end)
    time = signals.time[inside]
    q, dq, _ = curves_through(signals.time, signals.q).states(time)
    tau = curves_through(signals.torque_time + signals.torque_delay_s, signals.tau).states(time)[0]
    coarse = np.arange(EARLIEST_S, LONGEST_S, COARSE_S)
    first = float(coarse[np.argmin(np.log(_laws(signals, time, q, dq, tau, coarse)[0]).sum(axis=1))])
    near = first + np.arange(-COARSE_S, COARSE_S + FINE_S, FINE_S)
    left, gains = _laws(signals, time, q, dq, tau, near)
    each = np.array([lowest(np.log(one), near) for one in left.T])
    best = int(np.argmin(np.log(left).sum(axis=1)))
    deviation = float(np.std(each, ddof=1)) if len(each) > 1 else COARSE_S
    return GoalResponse(float(np.mean(each)), deviation, read_only(gains[best]), read_only(1.0 - left[best]))


def _laws(
    signals: Signals, time: FloatArray, q: FloatArray, dq: FloatArray, tau: FloatArray, delays: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Fit the position-control law tau = k_p (g - q) + k_d dq + k_0 of each joint, for K assumed delays of the goals g.

    Args:
        signals: signals of the recording, which contain goals.
        time: times at which the law is fitted, (N,) [s].
        q: positions, (N, n) [rad].
        dq: velocities, (N, n) [rad/s].
        tau: torques, (N, n) [N m].
        delays: assumed delays of the goals, (K,) [s].

    Returns:
        Share of the torques' variance that the law does not explain, (K, n), and the gains k_p, k_d and k_0, (K, n, 3)
        [SI].
    """
    assert signals.goal is not None
    left, gains = np.ones((len(delays), q.shape[1])), np.zeros((len(delays), q.shape[1], 3))
    for i in range(q.shape[1]):
        free = np.abs(tau[:, i]) <= NEAR_LIMIT * np.abs(tau[:, i]).max()
        b = tau[free, i]
        for k, delay in enumerate(delays):
            goal = np.interp(time - delay, signals.time, signals.goal[:, i])
            A = np.stack([goal - q[:, i], dq[:, i], np.ones_like(goal)], axis=1)[free]
            gains[k, i] = np.linalg.lstsq(A, b, rcond=1e-10)[0]
            left[k, i] = max(float(np.var(b - A @ gains[k, i]) / max(np.var(b), 1e-30)), 1e-12)
    return left, gains
