"""Simulated arm (plant) in MuJoCo: motor currents move the joints; sensors measure positions and currents.

The torque of a joint is current times torque constant, plus torque noise. The encoders measure the joints through a
small backlash. The current sensors have their own noise. The plant neither quantises nor delays its readings. The
emulated bus or the lock-step loop quantises them. In real time, the wire and the processes cause the delay; in
lock-step, the loop adds it.
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

DRIVE_NOISE, SENSOR_NOISE, PLACEMENT = 1, 2, 4  # streams of random numbers; stream 3 belongs to the lock-step loop
PLACEMENT_RAD = float(np.deg2rad(0.5))
SHORTEST_STEP_S = 1e-9  # shorter times are rounding errors [s]


def plant_standard(robot: Robot) -> StandardFile:
    """Return the true standard parameters of the robot's simulated arm, which identification must not use."""
    name = robot.file.simulation.plant_parameters or robot.file.simulation.standard_parameters
    return load_validated(robot.folder / name, StandardFile)


class ArmPlant:
    """Simulated arm of n axes; implements `dynid.simulation.plant.interface.Plant`.

    The arm rests on a stand until the first non-zero current. From then on it falls whenever no current flows, braked
    by friction alone.

    Torque noise is drawn once per millisecond of simulated time. The current sensors do not measure it; they have an
    independent noise of the same size.

    Args:
        robot: the robot; its `simulation` section gives step length and nuisances.
        mount: name of a mount in robot.yaml; None is the default mount.
        seed: seed of all random nuisances (such as noise); equal seeds and calls give equal runs, bit for bit.
        switched_off: names of nuisances (such as noise or backlash) to leave out, from `nuisances.NUISANCES`.
        q0: start posture at rest, (n,) [rad]. None is the robot's rest posture with random errors of up to half a
            degree per joint. Real arms are not placed exactly either, and with zero error a controller may command no
            current, so that the stand would never release the arm.
        stops: lower and upper joint stops, (n,) each [rad]; None is slightly beyond the joint limits.
        standard: standard parameters of the arm; None is the set that robot.yaml names.
        hold_until_current: whether the arm rests on its stand until the first current; False releases it at once.
        longest_step_s: longest step of the integration [s]; None is the robot's `simulation.step_s`.
        friction: friction law of the gears, or its name, see `plant_friction`; None is the choice of robot.yaml.
        motors: motor model that computes actual from goal currents; with None, currents equal their goals at any speed.
        hand: periodic external torques on single joints.
        lead: simulated hand that guides the arm along a path; None for no hand.
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
        # MuJoCo would reset a diverged arm and continue; here it stays NaN, and `measure` raises
        self._model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET
        self._options, self._data = self._model.opt, mujoco.MjData(self._model)
        # views into MuJoCo's own memory; without geometry the axes are its only joints, in order
        self._q, self._dq, self._torque = self._data.qpos, self._data.qvel, self._data.qfrc_applied
        start = _placed(robot, seed) if q0 is None else np.asarray(q0, dtype=np.float64)
        if start.shape != (robot.size,) or not np.isfinite(start).all():
            raise DataError(f"start posture {start}: expected {robot.size} finite angles, one per axis")
        self._q[:] = start
        mujoco.mj_forward(self._model, self._data)  # compute the load of the first step
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
        """Return the gears' friction law, the fraction of friction that vanishes by warm-up, and its time constant [s].

        Only gear models and a given friction law warm up. So the fraction is 0 for the friction model "viscous", and if
        the nuisance "coulomb" is left out, which replaces a gear model by viscous and Coulomb friction.

        Args:
            chosen: a friction law, or its name; None is the choice of robot.yaml.
            switched_off: names of nuisances (such as noise or backlash) to leave out.
        """
        warm_up = (self.nuisances.warm_up_share, self.nuisances.warm_up_time_s)
        if isinstance(chosen, FrictionLaw):
            return chosen, warm_up
        law = plant_friction(self.robot, self.standard, self.nuisances, switched_off, chosen)
        constant = COULOMB in switched_off or (chosen or self.robot.file.simulation.friction) == VISCOUS
        return law, (0.0, 1.0) if constant else warm_up

    def recompiled(self, standard: StandardFile) -> PlantModel:
        """Return a MuJoCo model of this arm with other standard parameters; the simulated arm does not change."""
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
        """Whether the arm still rests on the stand on which it starts, because no current has flowed yet."""
        return self._held

    @cached_property
    def q(self) -> FloatArray:
        """True joint angles now, (n,) [rad]; a read-only view whose values change as the arm moves."""
        return _watched(self._q)

    @cached_property
    def dq(self) -> FloatArray:
        """True joint velocities now, (n,) [rad/s]; a read-only view whose values change as the arm moves."""
        return _watched(self._dq)

    @cached_property
    def torque(self) -> FloatArray:
        """Torques applied to the joints in the last step, (n,) [N m]; a read-only view whose values change.

        They are the motor torques with torque noise, plus the external torques of simulated hands.
        """
        return _watched(self._torque)

    @property
    def load(self) -> FloatArray:
        """Torques that gravity, springs, Coriolis and centrifugal forces exert on the joints now, (n,) [N m]."""
        return np.asarray(self._beyond_linear(self._q) + self._data.qfrc_spring - self._data.qfrc_bias)

    def load_at(self, q: FloatArray) -> FloatArray:
        """Return the torques that gravity exerts on the joints at rest at posture q (n,) [rad], (n,) [N m].

        The simulated arm is not moved.
        """
        data = mujoco.MjData(self._model)
        data.qpos[:] = q
        mujoco.mj_forward(self._model, data)
        return -np.array(data.qfrc_bias)

    def set_currents(self, current_a: FloatArray) -> None:
        """Set the joint currents from now on, (n,) [A]; the first non-zero current releases the arm from its stand.

        A joint current times `Robot.joint_constants` is the motor torque at the joint.
        """
        if self.motors is None:
            self._drive(current_a)
        else:
            self.motors.goal[:] = self._transmission.motor_currents(current_a)
        if self._held and current_a.any():
            self._held = False

    def lock(self, axes: Collection[int]) -> None:
        """Lock the joints with these indices from now on, as by a brake; all other joints are unlocked."""
        self._gears.lock(axes)

    def _drive(self, current_a: FloatArray) -> None:
        self._current[:] = current_a
        np.multiply(self._current, self.robot.drive_constants, out=self._held_torque)

    def advance(self, duration_s: float) -> None:
        """Advance the simulated arm by a time [s] with constant currents.

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
        """Return the external joint torques of all simulated hands for the next `dt` [s], (n,) [N m]."""
        torques = pushed(self._pushes, self._time, self.size)
        return torques if self._lead is None else torques + self._lead.torques(dt, self._q, self._dq)

    def push(self, torque: FloatArray, duration_s: float, hand: FloatArray | None = None) -> None:
        """Advance the arm by a time [s] with given motor torques, instead of currents.

        Neither torque constants nor torque noise apply. The stand, on which the arm rests until a current flows, no
        longer holds the arm.

        Args:
            torque: constant motor torques, (n,) [N m].
            duration_s: the time [s].
            hand: external torques that act additionally and load the gears, (n,) [N m]; None is zero.
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
        """Integrate one step with springs that MuJoCo cannot model.

        During the step, the springs' torques are constant: those at the positions predicted for the middle of the step.
        """
        motors, hand = self._torque.copy(), self._gears.hand.copy()
        pull = self._beyond_linear(self._q + 0.5 * step_s * self._dq)
        self._torque += pull
        self._gears.hand += pull
        if self._gears.varies:
            self._gears.update(self._data.time)
        mujoco.mj_step(self._model, self._data)
        self._torque[:], self._gears.hand[:] = motors, hand

    def _beyond_linear(self, q: FloatArray) -> FloatArray:
        """Return the joint torques (n,) [N m; N] of springs that MuJoCo cannot model, at positions q (n,) [rad; m]."""
        torques = np.zeros(self.size)
        for spring in self._springs:
            torques[spring.joint] -= spring.torque(q[spring.joint])
        return torques

    def measured_position(self) -> FloatArray:
        """Return the encoders' positions, which follow the joints with backlash, without quantisation, (n,) [rad].

        The array is a view that the next call changes.
        """
        return self._play.update(self._q)

    def measured_current(self) -> FloatArray:
        """Return readings of the joint currents with sensor noise, without quantisation, (n,) [A].

        A joint current times `Robot.joint_constants` is the motor torque at the joint.
        """
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
        """Return the sensor readings of all joints now, without quantisation.

        Raises:
            DataError: the simulated arm has diverged.
        """
        self.check()
        position = self.measured_position().copy()
        seen = self._dq if self.motors is None else self._transmission.joint_motion(self.motors.velocity)
        dq = self._play.velocity(self._q, seen)
        return PlantReading(position, dq, self.measured_current())


def _placed(robot: Robot, seed: int) -> FloatArray:
    """Return a random start posture, (n,) [rad], near the rest posture and within the limits."""
    missed = np.random.default_rng([seed, PLACEMENT]).uniform(-PLACEMENT_RAD, PLACEMENT_RAD, robot.size)
    return np.clip(robot.rest_posture + missed, robot.lower, robot.upper)


def _watched(array: FloatArray) -> FloatArray:
    view = array.view()
    view.flags.writeable = False
    return view
