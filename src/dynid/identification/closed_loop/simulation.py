"""Simulation of an arm in its control loop, and Jacobian of the commanded torques (arXiv:2605.15949, fig. 3).

In every control cycle, the FF+PD law (eq. 2 of the paper) computes a torque from the measured positions. This torque
acts during one of the next cycles, in which it is constant. In the paper, it is the next cycle of 1 ms, so the mean
delay is 1 ms + 0.5 ms. The motion is divided into LANES segments, which are simulated in parallel. The initial state of
a segment is unknown, but its effect decays. So each simulation begins with a warm-up before its segment. The difference
between neighbouring segments at their boundary shows whether the warm-up was long enough.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Literal

import numpy as np

from dynid.codegen.kernels import Generated, Loops, Programs, load_loops, load_programs
from dynid.codegen.vector_ir import LANES, WIDTH
from dynid.control.controller import ControllerSettings
from dynid.control.ff_pd import FeedforwardPd
from dynid.errors import ConfigurationError, DataError
from dynid.identification.closed_loop import loop_kernels, sensitivity_kernels
from dynid.identification.closed_loop.loop_data import ClosedLoopData
from dynid.identification.closed_loop.programs import forward_program, linearised_program
from dynid.identification.closed_loop.sampling import Sampling, shortened
from dynid.identification.closed_loop.variation_program import variation_program
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray, Strict, read_only

JACOBIAN_RESPONSE_TOLERANCE = 1e-3  # relative size of the filter tails that the Jacobian omits
Integrator = Literal["runge_kutta", "trapezoid"]
Outcome = Literal["completed", "indefinite", "out_of_range"]
_OUTCOMES: tuple[Outcome, ...] = ("completed", "indefinite", "out_of_range")
_SENTENCES = {
    "completed": "",
    "indefinite": "the inertia matrix is not positive definite on the path",
    "out_of_range": "the simulated arm left the valid range: the loop is unstable with these parameters",
}
_LOOP: Loops = [
    loop_kernels.accelerate,
    loop_kernels.moved,
    loop_kernels.runge_kutta,
    loop_kernels.trapezoid,
    loop_kernels.first_failure,
    loop_kernels.start_lane,
    loop_kernels.enter_cycle,
    loop_kernels.command_lanes,
    loop_kernels.keep_lanes,
    loop_kernels.simulate_lanes,
    loop_kernels.weigh_samples,
]
_VARIATION: Loops = [
    sensitivity_kernels.midpoints,
    sensitivity_kernels.factorise,
    sensitivity_kernels.eliminate,
    sensitivity_kernels.solve,
    sensitivity_kernels.load_regressor,
    sensitivity_kernels.settled,
    sensitivity_kernels.pack,
    sensitivity_kernels.add_node,
    sensitivity_kernels.coefficients,
    sensitivity_kernels.step_matrices,
    sensitivity_kernels.vary_lanes,
    sensitivity_kernels.normal_equations,
]


class LoopOptions(Strict):
    """Options of the simulation of a control loop.

    The motion is divided into segments that are simulated in parallel, each after a warm-up.

    integrator: "runge_kutta" once per cycle, or "trapezoid" four times per cycle as in arXiv:2605.15949 (0.25 ms).
    delay_cycles: delay from the measurement of a state to the start of the torque computed from it, in whole cycles;
        None uses the delay of the recorded data.
    warm_up_s: initial duration of the warm-up of every segment [s]; it is doubled until neighbouring segments agree
        within gap_nm.
    gap_nm: largest permitted difference of the commands of neighbouring segments at their boundary [N m].
    """

    integrator: Integrator = "runge_kutta"
    delay_cycles: int | None = None
    warm_up_s: float = 1.0
    gap_nm: float = 1e-6


@dataclass(frozen=True, eq=False)
class LoopSimulation:
    """One simulated motion; arrays are read-only.

    The motion is divided into segments that are simulated in parallel, each after a warm-up.

    Attributes:
        outcome: "completed", or the reason of a failure: "indefinite" (inertia matrix not positive definite on the
            path) or "out_of_range" (a position too large, or NaN).
        failed_after_s: time from the start of the warm-up to the first failure in any segment [s]; NaN if completed.
        motion: q, dq and command at every cycle, (3, K, n) [rad, rad/s, N m]; empty unless completed.
        tau: commands at the sample times, filtered like the measured torques, (S, n) [N m]; empty unless completed.
        gap_nm: largest difference of the commands of neighbouring segments at their boundary [N m].
        warm_up_s: duration of the warm-up of every segment [s].
    """

    outcome: Outcome
    failed_after_s: float
    motion: FloatArray
    tau: FloatArray
    gap_nm: float
    warm_up_s: float

    @property
    def completed(self) -> bool:
        """Whether the motion was simulated to its end."""
        return self.outcome == "completed"

    def sentence(self) -> str:
        """Return a sentence about the outcome of the simulation."""
        if self.completed:
            return f"completed; segments agree within {self.gap_nm:.1e} N m after {self.warm_up_s} s of warm-up"
        return f"{_SENTENCES[self.outcome]} ({self.failed_after_s:.3f} s into a segment)"


def _generate_variation(model: ArmModel) -> Generated:
    program, constants = linearised_program(model)
    columns = -(-len(model.names) // WIDTH) * WIDTH
    programs = {"linearised": program, "variation": variation_program(model, columns)}
    return Generated(programs, {**constants, "COLUMNS": columns})


class ClosedLoop:
    """Control loop of one experiment around one arm, with simulations and Jacobians for any base parameters phi.

    Args:
        model: the arm; its structure must have no Coulomb friction, whose sign has no derivative.
        settings: settings of the control law.
        data: reference, sample times and recorded commands.
        options: options of the simulation; None uses the defaults.

    Raises:
        ConfigurationError: if the structure has Coulomb friction, or the settings are for another number of joints.
        DataError: if the data are of another number of joints.
    """

    def __init__(
        self, model: ArmModel, settings: ControllerSettings, data: ClosedLoopData, options: LoopOptions | None = None
    ) -> None:
        if model.structure.coulomb_friction:
            raise ConfigurationError(
                "closed-loop refinement needs a structure without Coulomb friction (structure.coulomb_friction: false)"
            )
        if settings.size != model.axes:
            raise ConfigurationError(f"the controller is for {settings.size} joints, the arm has {model.axes}")
        if data.q_ref.shape[1] != model.axes:
            raise DataError(f"closed-loop data have {data.q_ref.shape[1]} joints, the arm has {model.axes}")
        self.model, self.settings, self.data = model, settings, data
        self.options = options or LoopOptions()
        law = FeedforwardPd(settings)
        self._law = np.array([law.stiffness_gain, law.damping_gain])
        inertia, damping = np.array(settings.inertia_kg_m2), np.array(settings.damping_nm_s_rad)
        at_rest = self._law[0] * data.q_ref[:1]
        drive = self._law[0] * data.q_ref + (self._law[1] + damping) * data.dq_ref + inertia * data.ddq_ref
        self._drive = np.ascontiguousarray(np.concatenate([drive, at_rest]))
        external = np.zeros_like(drive) if data.external is None else data.external
        self._external = np.ascontiguousarray(np.concatenate([external, np.zeros((1, model.axes))]))
        self._decay = math.exp(-data.cycle_s / settings.pseudo_differentiation_s)
        self._late = data.delay_cycles if self.options.delay_cycles is None else self.options.delay_cycles
        self._samplings: dict[int, Sampling] = {}
        self._warm_up = max(1, round(self.options.warm_up_s / data.cycle_s))

    @cached_property
    def _forward(self) -> int:
        return load_programs(
            "forward", self.model, lambda: Generated({"forward": forward_program(self.model)})
        ).addresses["forward"]

    @cached_property
    def _loop(self) -> ModuleType:
        names = ("COMPLETED", "INDEFINITE", "OUT_OF_RANGE", "CHECK_CYCLES")
        constants = {name: getattr(loop_kernels, name) for name in names}
        return load_loops("loop", {**self._sizes, **constants}, _LOOP)

    @cached_property
    def _variations(self) -> Programs:
        return load_programs("variation", self.model, lambda: _generate_variation(self.model))

    @cached_property
    def _variation(self) -> ModuleType:
        constants = {name: self._variations.constants[name] for name in ("Y_SIZE", "COLUMNS")}
        constants |= {"PARAMETERS": len(self.model.names)}
        return load_loops("variation_loop", {**self._sizes, **constants}, _VARIATION)

    @property
    def _sizes(self) -> dict[str, object]:
        return {"CHAIN": self.model.chain_size, "AXES": self.model.axes}

    @property
    def cycles(self) -> int:
        """Number K of control cycles of the reference."""
        return len(self.data.q_ref)

    def _sampling(self, stride: int) -> Sampling:
        """Return the weights for computing samples from the values at every `stride`-th control cycle.

        Args:
            stride: number of control cycles from one value to the next.
        """
        if stride not in self._samplings:
            data, nodes = self.data, (self.cycles - 1) // stride + 1
            response = data.response if stride == 1 else shortened(data.response, JACOBIAN_RESPONSE_TOLERANCE)
            spacing = stride * data.cycle_s
            self._samplings[stride] = Sampling.of(data.sample_times, nodes, spacing, response, data.cycle_s)
        return self._samplings[stride]

    def _starts(self, warm_up: int) -> FloatArray:
        """Return the reference q and dq at the start of each segment's warm-up, (LANES, 2, n) [rad, rad/s].

        The motion is divided into LANES segments that are simulated in parallel.

        Args:
            warm_up: duration of the warm-up, in control cycles.
        """
        first = np.arange(LANES) * -(-self.cycles // LANES) - warm_up
        rows = np.clip(first, 0, self.cycles - 1)
        moving = np.where(first[:, None] >= 0, self.data.dq_ref[rows], 0.0)
        return np.stack([self.data.q_ref[rows], moving], axis=1)

    def simulate(self, phi: FloatArray | BaseParameters) -> LoopSimulation:
        """Return the simulated motion of this closed loop with base parameters phi (p,) [SI]."""
        values = _values(self.model, phi)
        while True:
            simulation = self._simulate(values, self._warm_up)
            if not simulation.completed or simulation.gap_nm <= self.options.gap_nm or self._warm_up >= self.cycles:
                return simulation
            self._warm_up = min(2 * self._warm_up, self.cycles)  # stays for the next phi, which needs a similar warm-up

    def _simulate(self, phi: FloatArray, warm_up: int) -> LoopSimulation:
        data, options = self.data, self.options
        n = self.model.axes
        motion, overlap = np.empty((3, self.cycles, n)), np.full((LANES, n), np.nan)
        initial = np.zeros((0, n)) if data.initial_state is None else np.array(data.initial_state)
        fourth = options.integrator == "runge_kutta"
        drive, law = (self._drive, self._external, self._starts(warm_up)), (self._law, self._decay)
        steps = (warm_up, 1 if fourth else 4, fourth)
        code, cycle = self._loop.simulate_lanes(
            self._forward, *drive, *law, data.cycle_s, self._late, phi, initial, *steps, motion, overlap
        )
        outcome, warm_up_s = _OUTCOMES[code], warm_up * data.cycle_s
        if code != loop_kernels.COMPLETED:
            empty = read_only(np.zeros((0, n)))
            return LoopSimulation(outcome, cycle * data.cycle_s, read_only(motion[:, :0]), empty, math.nan, warm_up_s)
        joints = -(-self.cycles // LANES) * np.arange(1, LANES)
        met = joints[joints < self.cycles]
        gap = float(np.abs(overlap[: len(met)] - motion[2, met]).max(initial=0.0))
        tau, sampling = np.empty((len(data.sample_times), n)), self._sampling(1)
        self._loop.weigh_samples(motion[2], sampling.first, sampling.which, sampling.weights, tau)
        motion.flags.writeable = tau.flags.writeable = False
        return LoopSimulation(outcome, math.nan, motion, tau, gap, warm_up_s)

    def jacobian(self, simulation: LoopSimulation, phi: FloatArray | BaseParameters, stride: int = 2) -> FloatArray:
        """Return the derivative of the simulated commands `simulation.tau` with respect to phi, (S, n, p) [SI].

        The derivative is computed by the variational equations of the closed loop.

        Args:
            simulation: a completed simulation at phi.
            phi: base parameters, (p,) [SI].
            stride: control cycles per integration step, even; a larger stride is faster and less exact.

        Raises:
            DataError: if the simulation did not complete.
            ConfigurationError: if the stride is odd, less than 2, or not less than the number of control cycles.
        """
        sampling = self._check(simulation, stride)
        J = np.zeros((len(sampling.first), self.model.axes, len(self.model.names)))
        data, constants = self.data, self._variations.constants
        places = (
            np.array(constants["Y_ROWS"]),
            np.array(constants["Y_COLUMNS"]),
            sampling.first,
            sampling.which,
            sampling.weights,
        )
        law = self._law, self.settings.pseudo_differentiation_s, (self._late + 0.5) * data.cycle_s
        at_rest, values = data.initial_state is None, _values(self.model, phi)
        samples = J.reshape(len(J), -1)
        programs = (self._variations.addresses[name] for name in ("linearised", "variation"))
        self._variation.vary_lanes(
            *programs, simulation.motion, stride, data.cycle_s, values, *law, at_rest, *places, samples
        )
        return J

    def weighted(self, values: FloatArray) -> FloatArray:
        """Return values multiplied by the weights of the samples, in the shape of the values.

        Args:
            values: residuals (S, n), or their derivatives (S, n, p), any unit.
        """
        weights = self.data.weights
        return values if weights is None else per_sample(weights, values)

    def normal_equations(self, jacobian: FloatArray, residual: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return J_i' J_i (n, p, p) and J_i' r_i (n, p) [SI] of every axis i.

        A compiled loop replaces BLAS, whose threads would slow down runs that already use every core.

        Args:
            jacobian: weighted Jacobian J of the simulated torques, (S, n, p) [SI].
            residual: weighted residuals r, (S, n) [N m].
        """
        n, p = jacobian.shape[1:]
        hessian, gradient = np.zeros((n, p, p)), np.zeros((n, p))
        rows = np.ascontiguousarray(jacobian).reshape(len(jacobian), -1)
        self._variation.normal_equations(rows, np.ascontiguousarray(residual), hessian, gradient)
        return hessian, gradient

    def _check(self, simulation: LoopSimulation, stride: int) -> Sampling:
        if not simulation.completed:
            raise DataError(f"a simulation that did not complete has no derivative: {simulation.sentence()}")
        if stride < 2 or stride % 2 or stride >= self.cycles:
            raise ConfigurationError(
                f"the Jacobian's stride is {stride} cycles; expected an even number from 2 on, below the simulation's "
                f"{self.cycles} cycles"
            )
        return self._sampling(stride)


def per_sample(weights: FloatArray, values: FloatArray) -> FloatArray:
    """Return values multiplied by weights of samples and axes, in the shape of the values.

    Args:
        weights: weights, (S, n), or (n,) for all samples.
        values: values, (S, n, ...), any unit.
    """
    return values * weights.reshape(weights.shape + (1,) * (values.ndim - 2))


def _values(model: ArmModel, phi: FloatArray | BaseParameters) -> FloatArray:
    return np.array(model.values_of(phi) if isinstance(phi, BaseParameters) else phi, dtype=np.float64)
