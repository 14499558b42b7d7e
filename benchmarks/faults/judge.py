"""Judge of the simulated arm's motion around a fault, independent of the driver's reports."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import mujoco
import numpy as np

from dynid.export.mjcf import default_stops
from dynid.hardware.bus.control_table import POSITION_RAD_PER_COUNT
from dynid.robot import FloatArray, Robot
from dynid.simulation.servo.trace import ArmTrace

DAMPING_BEGINS_S, DAMPING_BEGINS_CYCLES = 0.025, 10  # latest start of damping after a fault [s; cycles]: the later one
STANDSTILL_S = 1.0
STANDSTILL_RAD_S = 0.05
PUSHED_RAD_S = 0.2  # largest velocity of a held joint while an unread joint swings [rad/s]
PUSHED_VELOCITY_SHARE = 0.1  # the same, as a share of the fastest unread joint's velocity at that moment
MOST_PUSHED_RAD_S = 0.35  # the same, at any velocity of an unread joint [rad/s]
STANDS_S = 0.3  # time by which an arm with unreachable servos has stopped correctly [s]
PUSHED_SHARE = 0.005
AFTER_WATCHDOG_S = 0.020
HOLD_S = 0.2  # time after `STANDSTILL_S` in which the arm must stand still [s]
ENERGY_GAIN = 1.05
NEGLIGIBLE_RAD_S = (
    0.069  # an arm in its zero posture with all joints that slow has a negligible energy (CRANE-X7: 1 mJ)
)
FOLLOWS_RAD = 0.02  # largest distance from the undisturbed motion [rad]
READ_AGE_S = 0.003  # largest age of a published state at its stamp [s]


@dataclass(frozen=True, eq=False)
class Published:
    """States published by a driver, K of n axes: stamps on the arm's time (K,) [s], angles (K, n) [rad]."""

    time_s: FloatArray
    q: FloatArray


class ArmJudge:
    """Judge of the recorded motions of one robot's simulated arm.

    Args:
        robot: limits.
        model: the arm's compiled MuJoCo model.
        backlash_rad: width of the backlash between joint and encoder [rad].
    """

    def __init__(self, robot: Robot, model: mujoco.MjModel, backlash_rad: float = 0.0) -> None:
        self.robot, self._model = robot, model
        self._data = mujoco.MjData(model)
        self._stops = default_stops(robot)
        self._position_error = 0.5 * backlash_rad + POSITION_RAD_PER_COUNT
        self._damping_begins_s = max(DAMPING_BEGINS_S, DAMPING_BEGINS_CYCLES * robot.file.bus.cycle_s)
        self._negligible_j = self._energy(np.zeros(robot.size), np.full(robot.size, NEGLIGIBLE_RAD_S))

    def excess_current(self, trace: ArmTrace) -> list[str]:
        """Return a sentence for every joint whose motor current exceeded its limit."""
        limits, units = self.robot.current_limits, self.robot.current_units
        largest = np.abs(trace.current_a).max(axis=0, initial=0.0)
        return [
            f"{name}: {found:.3f} A, the limit is {limit:.3f} A"
            for name, found, limit, unit in zip(self.robot.joint_names, largest, limits, units, strict=True)
            if not found <= limit + 0.01 * unit
        ]

    def contact(self, trace: ArmTrace, free: Collection[int] = ()) -> list[str]:
        """Return a sentence for every joint stop that was touched, except those of the `free` axes."""
        lower, upper = self._stops
        touched = np.any((trace.q <= lower) | (trace.q >= upper), axis=0).tolist()
        names = self.robot.joint_names
        return [f"{names[axis]} touched its stop" for axis, one in enumerate(touched) if one and axis not in free]

    def until_contact(self, trace: ArmTrace, axes: Collection[int]) -> ArmTrace:
        """Return the record up to the first contact of an axis with its stop, since the impact moves other axes."""
        lower, upper = self._stops
        chosen = list(axes)
        touched = np.any((trace.q[:, chosen] <= lower[chosen]) | (trace.q[:, chosen] >= upper[chosen]), axis=1)
        return trace.between(-np.inf, trace.time_s[int(touched.argmax()) - 1]) if touched.any() else trace

    def late_damping(
        self, trace: ArmTrace, fault_s: float, free: Collection[int] = (), falling: ArmTrace | None = None
    ) -> list[str]:
        """Return sentences if the arm gained speed later than 25 ms or ten cycles after the fault.

        The criterion is the kinetic energy of all axes except the `free` ones. After that time it must not exceed its
        value at that time, plus `PUSHED_SHARE` of the whole arm's energy in free fall (`falling`), because falling free
        axes push the others.
        """
        after = trace.between(fault_s + self._damping_begins_s, np.inf)
        if not len(after.time_s):
            return []
        energy = self.kinetic_energy(after, free)
        allowed = ENERGY_GAIN * energy[0] + self._negligible_j
        if falling is not None and energy.max() > allowed:
            allowed += PUSHED_SHARE * self.kinetic_energy(falling.between(fault_s, np.inf)).max()
        if energy.max() <= allowed:
            return []
        late_ms, begins_ms = 1e3 * (after.time_s[int(energy.argmax())] - fault_s), 1e3 * self._damping_begins_s
        return [
            f"the arm gained speed until {late_ms:.0f} ms after the fault: "
            f"{1e3 * energy[0]:.1f} mJ at {begins_ms:.0f} ms, {1e3 * energy.max():.1f} mJ at most later"
        ]

    def stop_s(self, trace: ArmTrace, fault_s: float, free: Collection[int] = ()) -> float:
        """Return the time from the fault until every joint, except the `free` ones, stood still permanently [s]."""
        after = trace.between(fault_s, np.inf)
        judged = [axis for axis in range(self.robot.size) if axis not in free]
        moving = np.flatnonzero((np.abs(after.dq[:, judged]) >= self._standstill(after, free)).any(axis=1))
        return float(after.time_s[moving[-1]] - fault_s) if len(moving) else 0.0

    def _standstill(self, trace: ArmTrace, free: Collection[int]) -> FloatArray:
        """Return the velocity below which a held joint counts as standing, (K, 1) [rad/s].

        A brake is a damper: it yields in proportion to the torque with which the falling `free` axes push.
        """
        if not free:
            return np.full((len(trace.time_s), 1), STANDSTILL_RAD_S)
        falling = np.abs(trace.dq[:, list(free)]).max(axis=1, keepdims=True)
        return np.asarray(np.clip(PUSHED_VELOCITY_SHARE * falling, PUSHED_RAD_S, MOST_PUSHED_RAD_S))

    def unstopped(self, trace: ArmTrace, fault_s: float, free: Collection[int] = ()) -> list[str]:
        """Return a sentence for every joint that still moved later than `STANDSTILL_S` after the fault."""
        late_s = self.stop_s(trace, fault_s, free)
        if late_s <= STANDSTILL_S:
            return []
        late = trace.between(fault_s + STANDSTILL_S, np.inf)
        after = np.abs(late.dq)
        after[after < self._standstill(late, free)] = 0.0
        after[:, list(free)] = 0.0
        axis = int(after.max(axis=0).argmax())
        return [
            f"{self.robot.joint_names[axis]} moved at {after[:, axis].max():.3f} rad/s later than {STANDSTILL_S} s "
            f"after the fault"
        ]

    def current_left(self, trace: ArmTrace, fault_s: float, watchdog_s: float, axes: Collection[int]) -> list[str]:
        """Return a sentence for every axis with current after watchdog time plus `AFTER_WATCHDOG_S`."""
        after = trace.between(fault_s + watchdog_s + AFTER_WATCHDOG_S, np.inf)
        names = self.robot.joint_names
        return [
            f"{names[axis]} still carried {np.abs(after.current_a[:, axis]).max():.3f} A later than "
            f"{1e3 * (watchdog_s + AFTER_WATCHDOG_S):.0f} ms after the fault"
            for axis in axes
            if after.current_a[:, axis].any()
        ]

    def share_left(self, trace: ArmTrace, fault_s: float, watchdog_s: float, axes: Collection[int]) -> list[str]:
        """Return a sentence for every axis that carries more than its servos can when one of them is off."""
        after = trace.between(fault_s + watchdog_s + AFTER_WATCHDOG_S, np.inf)
        found = []
        for axis in axes:
            count, largest = self.robot.file.joints[axis].servo_count, np.abs(after.current_a[:, axis]).max(initial=0.0)
            limit = self.robot.current_limits[axis] * (count - 1) / count
            if largest > limit + 0.01 * self.robot.current_units[axis]:
                found.append(f"{self.robot.joint_names[axis]} carried {largest:.3f} A with a servo less: {limit:.3f} A")
        return found

    def current_off_s(self, trace: ArmTrace, fault_s: float, axes: Collection[int]) -> float:
        """Return the time from the fault until the axes carried no current any more [s]."""
        after = trace.between(fault_s, np.inf)
        flowing = np.flatnonzero(after.current_a[:, list(axes)].any(axis=1))
        return float(after.time_s[flowing[-1]] - fault_s) if len(flowing) else 0.0

    def worse_than_free_fall(self, trace: ArmTrace, falls: Sequence[ArmTrace], fault_s: float) -> list[str]:
        """Return sentences if an arm that moves after `STANDS_S` had more energy than one without current.

        `falls` are motions of the arm from the same moment on without current: that of the whole arm, and, if only some
        joints are reached, that of the other joints alone. The largest kinetic energies of the whole arm are compared.
        """
        if self.stop_s(trace, fault_s) <= STANDS_S:
            return []
        most, *fallen = (self.kinetic_energy(one.between(fault_s, np.inf)).max() for one in (trace, *falls))
        allowed = max(fallen)
        if most <= ENERGY_GAIN * allowed + self._negligible_j:
            return []
        return [f"the arm had {1e3 * most:.1f} mJ at most, in free fall {1e3 * allowed:.1f} mJ"]

    def disturbed(self, trace: ArmTrace, undisturbed: ArmTrace, until_s: float) -> list[str]:
        """Return a sentence for every joint that left the motion of the run without the fault."""
        ours = trace.between(0.0, until_s)
        away = np.array(
            [
                np.abs(ours.q[:, axis] - np.interp(ours.time_s, undisturbed.time_s, undisturbed.q[:, axis])).max()
                for axis in range(self.robot.size)
            ]
        )
        axis = int(away.argmax())
        if away[axis] <= FOLLOWS_RAD:
            return []
        return [f"{self.robot.joint_names[axis]} left the undisturbed motion by {away[axis]:.3f} rad"]

    def garbage(self, trace: ArmTrace, published: Published) -> list[str]:
        """Return sentences about published angles that the joint did not have within `READ_AGE_S` before the stamp."""
        wrong = 0
        first = np.searchsorted(trace.time_s, published.time_s - READ_AGE_S) - 1
        last = np.searchsorted(trace.time_s, published.time_s)
        for q, begin, end in zip(published.q, np.maximum(first, 0), last, strict=True):
            had = trace.q[begin : end + 1]
            low, high = had.min(axis=0) - self._position_error, had.max(axis=0) + self._position_error
            wrong += not bool(((q >= low) & (q <= high)).all())
        return [f"{wrong} published states were not the arm's"] if wrong else []

    def kinetic_energy(self, trace: ArmTrace, free: Collection[int] = ()) -> FloatArray:
        """Return the kinetic energy at every moment, rotors included, as if the `free` axes stood still, (K,) [J]."""
        energy = np.zeros(len(trace.time_s))
        speeds = trace.dq.copy()
        speeds[:, list(free)] = 0.0
        for k, (q, dq) in enumerate(zip(trace.q, speeds, strict=True)):
            energy[k] = self._energy(q, dq)
        return energy

    def _energy(self, q: FloatArray, dq: FloatArray) -> float:
        """Return the kinetic energy at one moment [J]."""
        self._data.qpos[:], self._data.qvel[:] = q, dq
        mujoco.mj_fwdPosition(self._model, self._data)
        mujoco.mj_energyVel(self._model, self._data)
        return float(self._data.energy[1])
