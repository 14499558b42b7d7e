"""Detection of a load that appeared or vanished at a hand-guided arm, as opposed to a hand that moves it.

A load pulls at the tool along gravity with a constant force, and usually the tool gains speed. The removal of a load
acts like an upward force. A guiding hand usually pulls in another direction, and its force varies. So the external
torque is compared with that of a force along gravity at the tool. While such a force explains the torque and the tool
moves in the force's direction, the length of the tool's path is summed up. After a path of `guiding_load_m`, or 1.5
times this length if the force is small, the arm is held if at least one of three conditions is satisfied:

- The force varied little along the path. The permitted variation is larger on a path longer than 1.5 times
  `guiding_load_m`, and still larger if, in addition, the force is large and explains nearly all of the torque.
- The force varied moderately, and the tool gained speed.
- The tool is more than 10 % faster than the speed at which fast motion is damped. After a path of twice
  `guiding_load_m`, any speed above this speed is sufficient.

A hand that pulls like a load is mistaken for a load.
"""

import math

import numba
import numpy as np

from dynid.hardware.safety.settings import SafetySettings
from dynid.model.vectors import dot, plus, scaled, vector
from dynid.robot import FloatArray

MOVING_RAD_S = 0.04  # velocity above which a joint slides; a sticking joint hides external torques
HEAVIEST_N = 16.0  # force of the heaviest load; a larger force at a short lever is not a load
# Largest share of the external torque that a load may leave unexplained: in a cycle, and on average along the path
# for a heavy load and a light one
UNEXPLAINED, UNEXPLAINED_MEAN, UNEXPLAINED_LIGHT = 0.45, 0.28, 0.2
# Largest relative standard deviation of the force along the path: if the tool gains no speed, on a short and on a long
# path, and if the tool gains speed
EVEN_SPREAD, EVEN_LONG_SPREAD, STEADY = 0.16, 0.21, 0.3
# A large force that explains nearly all of the external torque on a long path: least mean force [N], largest
# unexplained share, and largest relative standard deviation, which is higher because sticking joints hide a part of it
HEAVY_N, CLEAR_SHARE, UNEVEN_SPREAD = 3.0, 0.15, 0.4
SPEED_FACTOR = 1.1  # tool speed over the speed at which damping starts, above which a load needs no other evidence
LONG_FACTOR, LIGHT_N = 1.5, 2.0  # factor of `guiding_load_m` for a long path; mean force below which it is required
INTERRUPTION_S = 0.12  # duration of an interruption that restarts the path
FILTER_S = 0.03  # time constant of the filter for external torques, which contain encoder noise
EXCLUDED_M = 0.015  # start of the path, excluded because a hand accelerates the tool there as well
LEAST_GAIN_M2_S2 = 0.015  # least gain of the tool's squared speed along the rest of the path, by linear regression
# Indices of the state: path [m]; interruption [s]; integrals over the path of the force, the squared force and the
# unexplained share; integrals over the path beyond `EXCLUDED_M` of the squared speed, and of the squared speed times
# that path.
PATH, LOST_S, FORCE, FORCE_2, LEFT, SPEED_2, SPEED_2_PATH = range(7)


@numba.njit(cache=True)
def force_along(external: FloatArray, rise: FloatArray, dq: FloatArray, moving: float) -> tuple[float, float]:
    """Return the force along a direction at the tool that best explains external torques [N], and the residual [-].

    The residual is the fraction of the torques' norm that the force does not explain.

    Args:
        external: external torques, (n,) [N m].
        rise: speed of the tool in that direction per joint velocity, (n,) [m/rad].
        dq: joint velocities, (n,) [rad/s].
        moving: velocity above which a joint is used [rad/s]; slower joints are ignored.
    """
    along = size = total = 0.0
    for j in range(len(dq)):
        if abs(dq[j]) > moving:
            along += rise[j] * external[j]
            size += rise[j] * rise[j]
            total += external[j] * external[j]
    if size < 1e-6 or total < 1e-9:
        return 0.0, 1.0
    return along / size, np.sqrt(max(0.0, 1.0 - along * along / (size * total)))


@numba.njit(cache=True)
def pull_of(
    state: FloatArray,
    smooth: FloatArray,
    dt: float,
    external: FloatArray,
    dq: FloatArray,
    jacobian: FloatArray,
    up: FloatArray,
    least_n: float,
) -> float:
    """Update the detection of a load at the tool by one cycle.

    Args:
        state: quantities of a possible load, (7,) in SI, with the indices `PATH` to `SPEED_2_PATH`; updated in place.
            `PATH` is the length of the tool's path along which the load has acted, and `LOST_S` the time since the load
            was last detected. `FORCE`, `FORCE_2` and `LEFT` are integrals over the path: of the force, of the squared
            force, and of the fraction of the external torques' norm that the force does not explain. `SPEED_2` and
            `SPEED_2_PATH` are integrals over the path after its first `EXCLUDED_M`: of the tool's squared speed v^2,
            and of v^2 times the length of the path since then.
        smooth: smoothed external torques, (n,) [N m]; updated in place.
        dt: time since the last cycle [s].
        external: external torques, (n,) [N m].
        dq: joint velocities, (n,) [rad/s].
        jacobian: velocity of the tool per joint velocity, (3, n) [m/rad].
        up: unit vector against gravity, (3,).
        least_n: smallest force of a load [N].

    Returns:
        Upward force of a possible load [N], negative for a load that hangs at the tool; 0 if there is none.
    """
    smooth += dt / (FILTER_S + dt) * (external - smooth)
    rise, velocity, above = np.empty(len(dq)), (0.0, 0.0, 0.0), vector(up)
    for j in range(len(dq)):
        column = jacobian[0, j], jacobian[1, j], jacobian[2, j]
        rise[j] = dot(above, column)
        velocity = plus(velocity, scaled(column, dq[j]))
    force, left = force_along(smooth, rise, dq, MOVING_RAD_S)
    pulls = least_n <= abs(force) <= HEAVIEST_N and left <= UNEXPLAINED and force * dot(above, velocity) > 0.0
    if not pulls or force * state[FORCE] < 0.0:
        state[LOST_S] += dt
        if state[LOST_S] > INTERRUPTION_S:
            state[:] = 0.0
        return 0.0
    squared = dot(velocity, velocity)
    step = dt * np.sqrt(squared)
    state[LOST_S] = 0.0
    state[PATH] += step
    state[FORCE] += step * force
    state[FORCE_2] += step * force * force
    state[LEFT] += step * left
    if state[PATH] > EXCLUDED_M:
        state[SPEED_2] += step * squared
        state[SPEED_2_PATH] += step * squared * (state[PATH] - EXCLUDED_M)
    return float(force)


class LoadWatch:
    """Detector of a load that moves a hand-guided arm, from the force at the tool; called once per cycle.

    Args:
        settings: settings of safety.yaml, with the smallest force of a load and the path along which a load must act.

    Attributes:
        force_n: upward force of a possible load [N], negative for a load that hangs at the tool; 0 if there is none.
    """

    def __init__(self, settings: SafetySettings) -> None:
        self._least_n, self._path_m = settings.guiding_load_n, settings.guiding_load_m
        self._state, self._smooth, self.force_n = np.zeros(7), np.zeros(0), 0.0
        self.update(0.0, np.zeros(1), np.zeros(1), np.zeros((3, 1)), np.zeros(3))  # compile now, not in a cycle

    def clear(self) -> None:
        """Discard the accumulated path and forces of a possible load."""
        self._state[:], self._smooth, self.force_n = 0.0, np.zeros(0), 0.0

    def update(self, dt: float, external: FloatArray, dq: FloatArray, jacobian: FloatArray, up: FloatArray) -> None:
        """Update the estimated force of a possible load at the tool, and the path along which it acted, by one cycle.

        Args:
            dt: time since the last cycle [s].
            external: external torques, (n,) [N m].
            dq: joint velocities, (n,) [rad/s].
            jacobian: velocity of the tool per joint velocity, (3, n) [m/rad].
            up: unit vector against gravity, (3,).
        """
        if len(self._smooth) != len(external):
            self._smooth = external.copy()
        self.force_n = pull_of(self._state, self._smooth, dt, external, dq, jacobian, up, self._least_n)

    def found(self, speed: float) -> bool:
        """Return whether a load at the tool moves the hand-guided arm, judged from the path and force so far.

        The force must explain most of the external torque along a path of `guiding_load_m`, or along `LONG_FACTOR`
        times this path if the force is small. The force then counts as a load in each of three cases:

        - Its standard deviation along the path is small. The limit is higher after `LONG_FACTOR` times
          `guiding_load_m`, and still higher if, in addition, the force is large and explains nearly all of the torque.
        - Its standard deviation is moderate and the tool gained speed.
        - The tool is faster than `SPEED_FACTOR` times the speed at which damping starts. After a path of twice
          `guiding_load_m`, any speed above the speed at which damping starts is sufficient.

        Args:
            speed: speed of the tool divided by the speed at which damping starts [-].
        """
        path, _, force, squares, left, sped, sped_path = self._state.tolist()
        light = abs(force) < LIGHT_N * path
        least_m, most = (LONG_FACTOR * self._path_m, UNEXPLAINED_LIGHT) if light else (self._path_m, UNEXPLAINED_MEAN)
        if not self.force_n or path <= least_m or left > most * path:
            return False
        if speed > SPEED_FACTOR or (speed > 1.0 and path > 2.0 * self._path_m):
            return True
        mean, rest = force / path, path - EXCLUDED_M
        spread = math.sqrt(max(0.0, squares / path - mean * mean)) / abs(mean)
        clear = abs(mean) >= HEAVY_N and left <= CLEAR_SHARE * path
        even = spread <= (
            EVEN_SPREAD if path < LONG_FACTOR * self._path_m else UNEVEN_SPREAD if clear else EVEN_LONG_SPREAD
        )
        gains = 12.0 * (sped_path - 0.5 * rest * sped) / rest**2 >= LEAST_GAIN_M2_S2
        return even or (gains and spread <= STEADY)
