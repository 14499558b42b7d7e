"""The simulated arm behind the servos: motor currents in, sensor readings out, MuJoCo in between.

Current times torque constant plus torque noise moves the joints. The encoders see them through a little backlash, the
current sensors see the current that the servo holds, with noise of their own. Register steps are the servos' business
(the emulated bus, or the lock-step driver). The delay is no business of the plant's either: on the real-time chain the
wire and the processes make it, and in lock-step the loop does.
"""

import math
from collections.abc import Collection, Sequence
from functools import cached_property

import mujoco
import numpy as np

from dynid.errors import DataError
from dynid.export.mjcf import PlantModel, PlantOptions, compile_plant
from dynid.model.friction import FrictionLaw
from dynid.model.gear_presets import VISCOUS
from dynid.model.standard import StandardFile, springs_of
from dynid.model.transmission import Transmission
from dynid.resources import load_validated
from dynid.robot import FloatArray, Robot, read_only
from dynid.simulation.plant.gear_friction import GearFriction, plant_friction
from dynid.simulation.plant.hand import Lead, Push, pushed
from dynid.simulation.plant.interface import PlantReading
from dynid.simulation.plant.motor import Motors
from dynid.simulation.plant.nuisances import COULOMB, NOISE_PERIOD_S, Magnitudes, NoiseStream, Play, magnitudes

DRIVE_NOISE, SENSOR_NOISE, PLACEMENT = 1, 2, 4  # streams of random numbers; 3 is the lock-step loop's
PLACEMENT_RAD = float(np.deg2rad(0.5))
SHORTEST_STEP_S = 1e-9  # below this a time is rounding error


def plant_standard(robot: Robot) -> StandardFile:
    """The standard parameters of the robot's simulated arm; nothing that identifies may know them."""
    name = robot.file.simulation.plant_parameters or robot.file.simulation.standard_parameters
    return load_validated(robot.folder / name, StandardFile)


class ArmPlant:
    """A simulated arm of n axes; meets `dynid.simulation.plant.interface.Plant`.

    The arm rests on a stand until current first flows. From then on it is on its own: with the currents off it falls,
    braked by friction alone.

    Torque noise is drawn once per millisecond of simulated time and moves the arm unseen: the current sensors read the
    held current with a second, independent noise of the same size.

    Args:
        robot: the robot; its `simulation` section gives steps and nuisances.
        mount: a mount of robot.yaml; None is the default one.
        seed: of all random nuisances; equal seeds and calls give equal runs, bit for bit.
        switched_off: names of nuisances to leave out, see `dynid.simulation.plant.nuisances.NUISANCES`.
        q0: start posture at rest, (n,) [rad]; None is the robot's rest posture, missed by up to half a degree, because
            nobody puts an arm down to the encoder count (and a controller that finds no error lets no current flow).
        stops: lower and upper joint stops, (n,) each [rad]; None is a little beyond the joint limits.
        standard: standard parameters; None is the set that the robot's file names.
        hold_until_current: False lets the arm go from the start.
        longest_step_s: longest step of the integration [s]; None is the robot's `simulation.step_s`.
        friction: of the gears: a law, or the name of one, see `plant_friction`; None is the choice of robot.yaml.
        motors: between goal currents and torque; None lets the goal current flow at any speed.
        hand: how somebody pushes its joints.
        lead: a hand that leads it along a path.
    """

    def __init__(
        self,
        robot: Robot,
        *,
        mount: str | None = None,
        seed: int = 0,
        switched_off: Collection[str] = (),
        q0: FloatArray | None = None,
        stops: tuple[FloatArray, FloatArray] | None = None,
        standard: StandardFile | None = None,
        hold_until_current: bool = True,
        longest_step_s: float | None = None,
        friction: FrictionLaw | str | None = None,
        motors: Motors | None = None,
        hand: Sequence[Push] = (),
        lead: Lead | None = None,
    ) -> None:
        self.robot, self.motors, self._pushes, self._lead = robot, motors, tuple(hand), lead
        self._transmission = Transmission(robot)
        self.nuisances: Magnitudes = magnitudes(robot, switched_off)
        self.standard = standard or plant_standard(robot)
        self.friction, warm_up = self._friction(friction, switched_off)
        self._plant_options = PlantOptions(mount, read_only(self.friction["fb"]), stops)
        self.compiled = self.recompiled(self.standard)
        self._model = self.compiled.model
        # MuJoCo would put a diverged arm back to zero and go on; here it stays NaN, and `measure` says so
        self._model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET
        self._options, self._data = self._model.opt, mujoco.MjData(self._model)
        # views into MuJoCo's own memory; without geometry the axes are its only joints, in order
        self._q, self._dq, self._torque = self._data.qpos, self._data.qvel, self._data.qfrc_applied
        start = _placed(robot, seed) if q0 is None else np.asarray(q0, dtype=np.float64)
        if start.shape != (robot.size,) or not np.isfinite(start).all():
            raise DataError(f"start posture {start}: expected {robot.size} finite angles, one per axis")
        self._q[:] = start
        mujoco.mj_forward(self._model, self._data)  # the load of the first step
        self._gears = GearFriction(self.friction, warm_up, self._model, self._data)
        self._springs = tuple(filter(None, (one.beyond_linear() for one in springs_of(robot, self.standard))))
        self._play = Play(self.nuisances.backlash, start)
        self.drive_noise = NoiseStream(self.nuisances.torque_noise, seed, DRIVE_NOISE)
        self.sensor_noise = NoiseStream(self.nuisances.torque_noise / robot.drive_constants, seed, SENSOR_NOISE)
        self._longest_step = longest_step_s or robot.file.simulation.step_s
        self._time = 0.0
        self._current, self._held_torque = np.zeros(robot.size), np.zeros(robot.size)
        self._held = hold_until_current

    def _friction(
        self, chosen: FrictionLaw | str | None, switched_off: Collection[str]
    ) -> tuple[FrictionLaw, tuple[float, float]]:
        """Friction of the gears, and the share of it that goes while they warm up with the time constant [s].

        Viscous and Coulomb friction alone stay as they are.
        """
        warm_up = (self.nuisances.warm_up_share, self.nuisances.warm_up_time_s)
        if isinstance(chosen, FrictionLaw):
            return chosen, warm_up
        law = plant_friction(self.robot, self.standard, self.nuisances, switched_off, chosen)
        constant = COULOMB in switched_off or (chosen or self.robot.file.simulation.friction) == VISCOUS
        return law, (0.0, 1.0) if constant else warm_up

    def recompiled(self, standard: StandardFile) -> PlantModel:
        """A model of the same arm with other standard parameters; its own model stays."""
        return compile_plant(self.robot, standard, self._plant_options)

    @property
    def size(self) -> int:
        """Number of axes n."""
        return self.robot.size

    @property
    def time_s(self) -> float:
        """Simulated time [s]."""
        return self._time

    @property
    def held(self) -> bool:
        """Whether the arm still rests on its stand."""
        return self._held

    @cached_property
    def q(self) -> FloatArray:
        """True joint angles, (n,) [rad]; a read-only view that follows the arm."""
        return _watched(self._q)

    @cached_property
    def dq(self) -> FloatArray:
        """True joint velocities, (n,) [rad/s]; a read-only view that follows the arm."""
        return _watched(self._dq)

    @cached_property
    def torque(self) -> FloatArray:
        """Torque of the motors in the last step, noise included, (n,) [N m]; a read-only view."""
        return _watched(self._torque)

    @property
    def load(self) -> FloatArray:
        """What gravity, springs and Coriolis forces put on the joints, (n,) [N m]."""
        return np.asarray(self._beyond_linear(self._q) + self._data.qfrc_spring - self._data.qfrc_bias)

    def load_at(self, q: FloatArray) -> FloatArray:
        """What gravity would put on the joints of this arm at rest at q (n,) [rad], (n,) [N m]; the arm stays."""
        data = mujoco.MjData(self._model)
        data.qpos[:] = q
        mujoco.mj_forward(self._model, data)
        return -np.array(data.qfrc_bias)

    def set_currents(self, current_a: FloatArray) -> None:
        """Currents from now on, (n,) [A] at the joints; the first that is not zero takes the arm off its stand."""
        if self.motors is None:
            self._drive(current_a)
        else:
            self.motors.goal[:] = self._transmission.motor_currents(current_a)
        if self._held and current_a.any():
            self._held = False

    def lock(self, axes: Collection[int]) -> None:
        """From now on these joints stand still whatever acts on them, as behind a brake."""
        self._gears.lock(axes)

    def _drive(self, current_a: FloatArray) -> None:
        self._current[:] = current_a
        np.multiply(self._current, self.robot.drive_constants, out=self._held_torque)

    def advance(self, duration_s: float) -> None:
        """Move on by a time [s] with the currents held.

        Raises:
            DataError: a negative time.
        """
        if not 0.0 <= duration_s < np.inf:
            raise DataError(f"the simulated arm cannot advance by {duration_s} s; expected at least 0 s")
        end = self._time + duration_s
        while not self._held and end - self._time > SHORTEST_STEP_S:
            draw = int((self._time + SHORTEST_STEP_S) / NOISE_PERIOD_S)
            until = min(end, (draw + 1) * NOISE_PERIOD_S)
            if self.motors is not None:
                motors = self._transmission
                self._drive(motors.joint_currents(self.motors.step(until - self._time, motors.motor_motion(self._dq))))
            np.add(self._held_torque, self.drive_noise.row(draw), out=self._torque)
            if self._pushes or self._lead is not None:
                self._gears.hand[:] = self._handled(until - self._time)
                self._torque += self._gears.hand
            self._integrate(until - self._time)
            self._time = until
        self._time = end

    def _handled(self, dt: float) -> FloatArray:
        """What hands do to the joints for the next dt [s], (n,) [N m]."""
        torques = pushed(self._pushes, self._time, self.size)
        return torques if self._lead is None else torques + self._lead.torques(dt, self._q, self._dq)

    def push(self, torque: FloatArray, duration_s: float, hand: FloatArray | None = None) -> None:
        """Move on by a time [s] with motor torques (n,) [N m] held as they are: no torque constant, noise or stand.

        `hand`, (n,) [N m], is what somebody's hand adds to them: for the gears it is load.
        """
        self._held = False
        self._gears.hand[:] = 0.0 if hand is None else hand
        np.add(torque, self._gears.hand, out=self._torque)
        self._integrate(duration_s)
        self._time += duration_s

    def _integrate(self, duration: float) -> None:
        steps = math.ceil(duration / self._longest_step - 1e-6)
        self._options.timestep = duration / steps
        if not self._gears.varies and not self._springs:
            mujoco.mj_step(self._model, self._data, nstep=steps)
            return
        for _ in range(steps):
            if self._springs:
                self._step_against_springs(duration / steps)
                continue
            self._gears.update(self._data.time)
            mujoco.mj_step(self._model, self._data)

    def _step_against_springs(self, step_s: float) -> None:
        """Step with springs that MuJoCo cannot hold, their torques being those in the middle of the step."""
        motors, hand = self._torque.copy(), self._gears.hand.copy()
        pull = self._beyond_linear(self._q + 0.5 * step_s * self._dq)
        self._torque += pull
        self._gears.hand += pull
        if self._gears.varies:
            self._gears.update(self._data.time)
        mujoco.mj_step(self._model, self._data)
        self._torque[:], self._gears.hand[:] = motors, hand

    def _beyond_linear(self, q: FloatArray) -> FloatArray:
        """Return what springs that MuJoCo cannot hold put on the joints at q (n,) [rad; m], (n,) [N m; N]."""
        torques = np.zeros(self.size)
        for spring in self._springs:
            torques[spring.joint] -= spring.torque(q[spring.joint])
        return torques

    def measured_position(self) -> FloatArray:
        """What the encoders see, without their steps, (n,) [rad]; a view that the next call changes."""
        return self._play.update(self._q)

    def measured_current(self) -> FloatArray:
        """What the current sensors see, without their steps, (n,) [A]."""
        current = self._current + self.sensor_noise.row(int((self._time + SHORTEST_STEP_S) / NOISE_PERIOD_S))
        return current if self.motors is None else current + self._transmission.joint_currents(self.motors.error())

    def check(self) -> None:
        """Raise DataError if the simulated arm has diverged."""
        if not np.isfinite(self._q @ self._q):
            raise DataError(
                f"the simulated arm diverged before {self.time_s:.3f} s, with currents {self._current} A; check the "
                "standard parameters and the controller's gains"
            )

    def measure(self) -> PlantReading:
        """The sensors' readings now.

        Raises:
            DataError: the simulated arm has diverged.
        """
        self.check()
        position = self.measured_position().copy()
        seen = self._dq if self.motors is None else self._transmission.joint_motion(self.motors.velocity)
        dq = self._play.velocity(self._q, seen)
        return PlantReading(position, dq, self.measured_current())


def _placed(robot: Robot, seed: int) -> FloatArray:
    """Where the arm was put down, (n,) [rad]: near its rest posture, within its limits."""
    missed = np.random.default_rng([seed, PLACEMENT]).uniform(-PLACEMENT_RAD, PLACEMENT_RAD, robot.size)
    return np.clip(robot.rest_posture + missed, robot.lower, robot.upper)


def _watched(array: FloatArray) -> FloatArray:
    view = array.view()
    view.flags.writeable = False
    return view
