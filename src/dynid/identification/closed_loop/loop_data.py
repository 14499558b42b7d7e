"""Data of one closed-loop experiment: reference, torques of the commands, and timing."""

from dataclasses import dataclass, field

import numpy as np

from dynid.codegen.vector_ir import LANES
from dynid.errors import DataError
from dynid.robot import FloatArray, read_only


@dataclass(frozen=True, eq=False)
class ClosedLoopData:
    """Data of one closed-loop experiment, for the closed-loop refinement; arrays become read-only.

    Attributes:
        q_ref: reference positions at every control cycle, (K, n) [rad]. The reference should begin some time before the
            first sample. Before the first row, the arm is assumed to be at rest at the posture of this row.
        dq_ref: reference velocities, (K, n) [rad/s].
        ddq_ref: reference accelerations, (K, n) [rad/s^2].
        sample_times: times of the samples, relative to the first reference row, (S,) [s], increasing.
        tau: torques of the commanded (goal) currents at the sample times, (S, n) [N m], which the simulated loop
            predicts.
        initial_state: q and dq at the first reference row, (2, n) [rad, rad/s]; None means the equilibrium of the
            simulated arm at this row.
        response: impulse response of the filter that `tau` has passed, on the grid of the control cycles; the single
            value 1 means no filter.
        cycle_s: control cycle [s].
        external: external torque on the joints that the model does not contain, such as known friction, in every
            control cycle, (K, n) [N m]; None means no torque. During the rest before the first row, the torque is zero.
        weights: weights of the residuals, (S, n); None means 1.
        load_deviation: change of `tau` if `external` changes by one standard deviation, (S, n) [N m]. The errors of
            `external` on different axes are assumed independent.
        delay_cycles: delay from the measurement of a state to the start of the torque computed from it, in whole
            cycles.
    """

    q_ref: FloatArray
    dq_ref: FloatArray
    ddq_ref: FloatArray
    sample_times: FloatArray
    tau: FloatArray
    initial_state: FloatArray | None = None
    response: FloatArray = field(default_factory=lambda: np.ones(1))
    cycle_s: float = 0.001
    external: FloatArray | None = None
    weights: FloatArray | None = None
    load_deviation: FloatArray | None = None
    delay_cycles: int = 1

    def __post_init__(self) -> None:
        given = [name for name in ("external", "weights", "load_deviation") if getattr(self, name) is not None]
        for name in ("q_ref", "dq_ref", "ddq_ref", "sample_times", "tau", "response", *given):
            values = read_only(getattr(self, name))
            if not np.isfinite(values).all():
                raise DataError(f"closed-loop data: {name} holds values that are not finite")
            object.__setattr__(self, name, values)
        shape = self.q_ref.shape
        if len(shape) != 2 or shape[0] < 2 * LANES or not shape == self.dq_ref.shape == self.ddq_ref.shape:
            raise DataError(f"closed-loop data: the reference must be (K, n) with K >= {2 * LANES}, got {shape}")
        if self.tau.shape != (len(self.sample_times), shape[1]):
            raise DataError(
                f"closed-loop data: tau is {self.tau.shape}, expected ({len(self.sample_times)}, {shape[1]})"
            )
        for name, expected in (("external", self.q_ref), ("weights", self.tau), ("load_deviation", self.tau)):
            values = getattr(self, name)
            if values is not None and values.shape != expected.shape:
                raise DataError(f"closed-loop data: {name} is {values.shape}, expected {expected.shape}")
        times = self.sample_times
        if not len(times) or times[0] < 0 or times[-1] > shape[0] * self.cycle_s or np.any(np.diff(times) <= 0):
            raise DataError(
                f"closed-loop data: sample times must increase within the reference, 0 to {shape[0] * self.cycle_s} s"
            )
        if self.initial_state is not None:
            initial = read_only(self.initial_state)
            if initial.shape != (2, shape[1]) or not np.isfinite(initial).all():
                raise DataError(f"closed-loop data: initial_state must be finite and (2, {shape[1]}), got {initial}")
            object.__setattr__(self, "initial_state", initial)
        if self.delay_cycles < 0:
            raise DataError(f"closed-loop data: a delay of {self.delay_cycles} cycles; expected 0 or more")
