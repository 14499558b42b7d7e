"""Simulated arm in lock-step behind the driver's guard, with motors that switch off at overload, under an executor.

python benchmarks/guarded_arm.py

prints the highest overload share of the servos in the gentle motions, with nominal masses and with masses 10 % larger,
and the current of a held joint that has lifted its load.
"""

import argparse
from collections.abc import Collection
from typing import Any

import numpy as np

from dynid.control.controller import load_controller
from dynid.control.ff_pd import FeedforwardPd
from dynid.control.motion import MotionExecutor
from dynid.control.motion_check import MotionCheck, nominal_torques, robot_limits
from dynid.control.plan import plan_motion
from dynid.hardware.safety.guard import SafetyGuard, load_safety
from dynid.hardware.safety.guard_states import GuardEvent
from dynid.model.friction import FrictionLaw
from dynid.model.standard import StandardFile
from dynid.robot import FloatArray, Robot, load_robot
from dynid.simulation.plant.arm import ArmPlant, plant_standard
from dynid.simulation.plant.motor import ALL_EFFECTS, Motors
from dynid.simulation.plant.nuisances import quantise
from dynid.trajectory.families import load_excitation
from dynid.trajectory.motion import Motion
from dynid.trajectory.trajectory import Trajectory, through

LONGEST_S = 120.0
LIFTED, LIFT_RAD = 3, np.deg2rad(25.0)  # joint and travel of `lift`


def heavier(robot: Robot, factor: float) -> StandardFile:
    """Return the simulated arm's parameters with masses and inertias multiplied by `factor`."""
    standard = plant_standard(robot)
    links = [
        link.model_copy(
            update={
                "mass_kg": factor * link.mass_kg,
                "inertia_kg_m2": tuple(factor * value for value in link.inertia_kg_m2),
            }
        )
        for link in standard.links
    ]
    return standard.model_copy(update={"links": tuple(links)})


def nominal_check(robot: Robot) -> MotionCheck:
    """Return the executor's motion check before a model is identified, without contact of links."""
    limits = robot_limits(robot, load_excitation(robot).acceleration_limits)
    return MotionCheck(robot, limits, nominal_torques(robot, None))


def lift(robot: Robot) -> Trajectory:
    """Return a motion in which joint 4 lifts the forearm to the rest posture and stops there."""
    up = np.array(robot.rest_posture)
    low = up - LIFT_RAD * np.eye(robot.size)[LIFTED]
    return through("lift", robot.joint_names, np.array([low, up]), np.full(robot.size, 0.8), np.full(robot.size, 2.0))


class GuardedArm:
    """Enabled simulated arm, at rest at its start posture; each call of `cycle` advances by one cycle of the driver.

    Args:
        standard, friction, mount, q0, seed: as in `ArmPlant`.
        hand: hand that guides the arm, as `lead` of `ArmPlant`.
        check: check of motions; None predicts no torques.
        limits: whether the guard limits currents near overload.
        effects: simulated effects of the motors, see `Motors`.

    Attributes:
        load: overload share of each servo by its own count, (n,) [-].
        command_a: current that the executor commanded last, (n,) [A].
        torque: torques that the servos report, (n,) [N m].
        stamp_ns: timestamp of the present state [ns].
    """

    def __init__(
        self,
        robot: Robot,
        *,
        standard: StandardFile | None = None,
        friction: FrictionLaw | str | None = None,
        check: MotionCheck | None = None,
        limits: bool = True,
        effects: Collection[str] = (ALL_EFFECTS,),
        mount: str | None = None,
        q0: FloatArray | None = None,
        seed: int = 0,
        hand: Any = None,
    ) -> None:
        self.robot, self.motors = robot, Motors(robot, effects)
        own: dict[str, Any] = {"mount": mount, "q0": q0, "seed": seed, "lead": hand}
        self.plant = ArmPlant(robot, standard=standard, friction=friction, motors=self.motors, **own)
        settings = load_safety(robot).model_copy(update={"overload_limits": limits})
        self.guard = SafetyGuard(robot, settings, mount)
        self.guard.handle(GuardEvent.ENABLE)
        self.motion = MotionExecutor(robot, FeedforwardPd(load_controller(robot)), check)
        self._cycle_s, self.stamp_ns = robot.file.bus.cycle_s, 0
        self._tau: FloatArray | None = None
        self.q, self.torque = np.zeros((2, robot.size))
        self.cycle()

    @property
    def load(self) -> FloatArray:
        return self.motors.load

    @property
    def command_a(self) -> FloatArray:
        return np.zeros(self.robot.size) if self._tau is None else self._tau / self.robot.joint_constants

    def cycle(self) -> None:
        """Advance by one cycle of the driver: read, guard, write, answer; commands take effect one cycle late."""
        nuisances, reading = self.plant.nuisances, self.plant.measure()
        self.q, dq = quantise(reading.q, nuisances.position_step), quantise(reading.dq, nuisances.velocity_step)
        present = quantise(reading.current_a, nuisances.current_step)
        self.torque = present * self.robot.joint_constants
        self.guard.set_load(present, self._cycle_s)
        current = self.guard.filter(self._tau, 0.0, self.q, dq).current_a
        self.plant.set_currents(quantise(current, nuisances.current_step))
        self.plant.advance(self._cycle_s)
        self.stamp_ns += round(self._cycle_s * 1e9)
        step = self.motion.update(self.stamp_ns, self.q)
        self._tau = None if step is None else step.tau

    def run(self, seconds: float) -> float:
        """Advance by a time [s], and return the highest load of a servo during it."""
        return max(self._loaded() for _ in range(round(seconds / self._cycle_s)))

    def execute(self, motion: Motion, *, to_rest: bool = True) -> float:
        """Execute a whole motion, and return the highest load of a servo; errors are those of the executor."""
        start = self.motion.start_posture(self.q)
        plan = plan_motion(self.robot, motion, start, self.motion.check, to_rest=to_rest, load=self.guard.load)
        self.motion.begin(plan, self.q, self.stamp_ns)
        most, left = 0.0, round(LONGEST_S / self._cycle_s)
        while self.motion.moving and left:
            most, left = max(most, self._loaded()), left - 1
        return most

    def _loaded(self) -> float:
        self.cycle()
        return float(self.load.max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cycle-s", type=float, default=0.002)
    robot = load_robot("crane_x7").at_cycle(parser.parse_args().cycle_s)
    motions = load_excitation(robot)
    for factor in (1.0, 1.1):
        arm = GuardedArm(robot, standard=heavier(robot, factor), check=nominal_check(robot))
        for name in ("gentle_identification", "gentle_validation"):
            print(
                f"masses x {factor}: {name} uses up {arm.execute(motions.trajectory(name)):.2f} of what trips a servo"
            )
        arm = GuardedArm(robot, standard=heavier(robot, factor), limits=False, effects=("lag", "overload"))
        arm.execute(lift(robot), to_rest=False)
        arm.run(0.1)
        began = arm.command_a[LIFTED]
        most, q = arm.run(10.0), np.rad2deg(arm.plant.q[LIFTED])
        print(
            f"masses x {factor}: after lifting, joint 4 is held at {q:.2f} deg with {began:.2f} A, then with ", end=""
        )
        print(f"{arm.command_a[LIFTED]:.2f} A; that and lifting use up {most:.2f}")


if __name__ == "__main__":
    main()
