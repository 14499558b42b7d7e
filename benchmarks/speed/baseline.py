"""Baselines for closed-loop refinement: least squares like lsqnonlin, by finite differences, with 0.25 ms steps.

`PlainLoop` is plain Python around `pinocchio.aba`, as a first implementation would be. It shares no simulation code
with `dynid.identification.closed_loop.simulation`, so it also evaluates the end points. `ScalarLoop` is the same loop
on a compiled scalar kernel.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pinocchio
from scipy.optimize import OptimizeResult, least_squares
from scipy.signal import fftconvolve

from benchmarks.speed import scalar_kernels
from dynid.codegen.kernels import Generated, load_kernels
from dynid.control.controller import ControllerSettings
from dynid.control.ff_pd import FeedforwardPd
from dynid.errors import DataError
from dynid.identification.closed_loop.loop_data import ClosedLoopData
from dynid.identification.closed_loop.programs import forward_program
from dynid.model.chain import SerialChain
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import StandardParameters
from dynid.model.standard import to_link_frame
from dynid.robot import FloatArray, Robot

SUBSTEPS = 4  # 0.25 ms steps in a control cycle of 1 ms
CARRIED_MASS_KG = 1.0  # arbitrary; the other values are chosen to give the same base parameters
Simulate = Callable[[FloatArray], FloatArray]


def filtered_samples(data: ClosedLoopData, command: FloatArray) -> FloatArray:
    """Return commands (K, n) as samples (S, n): filtered, then linearly interpolated."""
    half = len(data.response) // 2
    padded = np.pad(command, ((half, half), (0, 0)), mode="edge")
    smooth = fftconvolve(padded, data.response[:, None], mode="valid", axes=0) if half else command
    grid = data.cycle_s * np.arange(len(command))
    return np.stack([np.interp(data.sample_times, grid, column) for column in smooth.T], axis=1)


def external_torque(data: ClosedLoopData) -> FloatArray:
    """Return the load in every cycle, (K, n) [N m]."""
    return np.zeros_like(data.q_ref) if data.external is None else data.external


def standard_for(model: ArmModel, phi: FloatArray) -> StandardParameters:
    """Return standard parameters that regroup to phi (p,); they need not be physical."""
    regrouping = model.regrouping
    values = np.zeros(len(regrouping.standard))
    values[9 : 10 * model.chain_size : 10] = CARRIED_MASS_KG
    representatives = np.array(regrouping.representatives)
    rest = phi - regrouping.K @ values
    values[representatives] += np.linalg.solve(regrouping.K[:, representatives], rest)
    return StandardParameters(regrouping.standard, values, model.chain_size)


@dataclass
class PlainLoop:
    """Closed loop in plain Python around `pinocchio.aba`."""

    robot: Robot
    model: ArmModel
    settings: ControllerSettings
    data: ClosedLoopData

    def __post_init__(self) -> None:
        if self.data.initial_state is None:
            raise DataError("the baseline needs the initial state of the motion")
        if np.any(self.data.initial_state[1]):
            raise DataError("the baseline's law starts at rest; the motion's initial velocity is not zero")
        self.arm = SerialChain.from_robot(self.robot).model.copy()
        self.arm.gravity.linear = np.array(self.model.gravity)

    def _load(self, phi: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Set phi in pinocchio's model; return rotor inertias and viscous friction of all axes."""
        standard, mdh = standard_for(self.model, phi), self.model.mdh
        for j in range(mdh.size):
            body = to_link_frame(standard.link(j), mdh.in_link[j])
            link = pinocchio.Inertia.Zero()  # set afterwards, since the constructor refuses unphysical links
            link.mass, link.lever, link.inertia = body.mass, body.centre_of_mass, body.inertia
            self.arm.inertias[j + 1] = link
        rotors = standard.axis("IA")
        self.arm.armature = np.array(rotors[: mdh.size])
        return rotors, standard.axis("FV")

    def commands(self, phi: FloatArray, cycles: int | None = None) -> FloatArray:
        """Return the commands (K, n) [N m] of base parameters phi (p,)."""
        rotors, friction = self._load(phi)
        c, arm, pin = self.model.chain_size, self.arm, self.arm.createData()

        def accelerations(q: FloatArray, dq: FloatArray, tau: FloatArray) -> FloatArray:
            free = tau - friction * dq
            return np.concatenate([pinocchio.aba(arm, pin, q[:c], dq[:c], free[:c]), free[c:] / rotors[c:]])

        data, step, h = self.data, self.data.cycle_s, self.data.cycle_s / SUBSTEPS
        load = external_torque(data)
        assert data.initial_state is not None
        q, dq = np.array(data.initial_state)
        law = FeedforwardPd(self.settings)
        law.reset(q)
        out = np.empty((cycles or len(data.q_ref), self.model.axes))
        for k in range(len(out)):
            out[k] = law.update(step, q, data.q_ref[k], data.dq_ref[k], data.ddq_ref[k])
            tau = out[max(k - data.delay_cycles, 0)] + load[k]
            for _ in range(SUBSTEPS):
                first = accelerations(q, dq, tau)
                q_next, dq_next = q + h * dq, dq + h * first
                second = accelerations(q_next, dq_next, tau)
                q, dq = q + 0.5 * h * (dq + dq_next), dq + 0.5 * h * (first + second)
        return out


class ScalarLoop:
    """Closed loop on a compiled scalar kernel."""

    def __init__(self, model: ArmModel, settings: ControllerSettings, data: ClosedLoopData) -> None:
        if data.initial_state is None:
            raise DataError("the baseline needs the initial state of the motion")

        def generate() -> Generated:
            return Generated({"forward": replace(forward_program(model), row=1, width=1)})

        self._kernel = load_kernels("scalar", model, generate, [scalar_kernels.simulate_scalar]).simulate_scalar
        law = FeedforwardPd(settings)
        self._law = np.array([law.stiffness_gain, law.damping_gain])
        inertia, damping = np.array(settings.inertia_kg_m2), np.array(settings.damping_nm_s_rad)
        drive = self._law[0] * data.q_ref + (self._law[1] + damping) * data.dq_ref + inertia * data.ddq_ref
        self._drive = np.ascontiguousarray(drive)
        self._decay = math.exp(-data.cycle_s / settings.pseudo_differentiation_s)
        self._data, self._initial, self._external = data, np.array(data.initial_state), np.array(external_torque(data))

    def commands(self, phi: FloatArray) -> FloatArray:
        """Return the commands (K, n) [N m] of base parameters phi (p,)."""
        out = np.empty_like(self._drive)
        self._kernel(
            self._drive,
            self._external,
            self._initial,
            self._law,
            self._decay,
            self._data.cycle_s,
            self._data.delay_cycles,
            np.array(phi, dtype=np.float64),
            SUBSTEPS,
            out,
        )
        return out


def lsqnonlin_like(
    commands: Simulate, data: ClosedLoopData, phi0: FloatArray, maximum_evaluations: int | None = None
) -> OptimizeResult:
    """Run scipy's least squares with forward differences, default tolerances and the paper's bounds.

    Args:
        commands: function that simulates phi (p,) to commands (K, n).
        data: reference and measured torque.
        phi0: initial parameters, (p,).
        maximum_evaluations: most evaluations of the residual, without those for finite differences; None is scipy's
            default.
    """
    size = 100.0 * np.maximum(np.abs(phi0), 1e-4)

    def residual(phi: FloatArray) -> FloatArray:
        return weighted_error(commands(phi), data).ravel()

    return least_squares(
        residual, phi0, jac="2-point", bounds=(-size, size), x_scale="jac", max_nfev=maximum_evaluations
    )


def weighted_error(command: FloatArray, data: ClosedLoopData) -> FloatArray:
    """Return the closed-loop input error of simulated commands (K, n), (S, n) [N m], times the samples' weights."""
    error = filtered_samples(data, command) - data.tau
    return np.asarray(error if data.weights is None else error * data.weights)


def cost(command: FloatArray, data: ClosedLoopData) -> float:
    """Return the sum of squares of the closed-loop input error of commands (K, n) [N^2 m^2] (paper eq. 9)."""
    return float(np.sum(weighted_error(command, data) ** 2))
