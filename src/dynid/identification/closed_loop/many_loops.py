"""Closed-loop input error of several experiments together (arXiv:2605.15949, eq. 9, summed over all runs).

All loops have the same base parameters phi, so one recording may determine parameters that another cannot separate.
Noise is averaged within one nonlinear fit, instead of over the results of several fits.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dynid.errors import DataError
from dynid.identification.closed_loop.simulation import ClosedLoop, LoopSimulation, per_sample
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray, read_only


@dataclass(frozen=True, eq=False)
class JoinedData:
    """Samples of several closed-loop experiments in sequence, with those fields of `ClosedLoopData` that a fit needs.

    Attributes:
        sample_times: times of the samples, (S,) [s]; each experiment is shifted in time, so that the times increase.
        tau: torques of the commanded currents, (S, n) [N m].
        weights: weights of the residuals, (S, n); None means 1.
        load_deviation: change of `tau` if the external load changes by one standard deviation, (S, n) [N m]; None
            means 0.
    """

    sample_times: FloatArray
    tau: FloatArray
    weights: FloatArray | None
    load_deviation: FloatArray | None


@dataclass(frozen=True, eq=False)
class JoinedSimulation(LoopSimulation):
    """Simulated motions of several closed loops in sequence; `parts` are the simulations of the single loops."""

    parts: tuple[LoopSimulation, ...] = ()


class ManyLoops:
    """Several closed loops of one arm, with the interface of a single loop for `clie.refine_loop`.

    Args:
        loops: the closed loops, one per recording.
        sigma: standard deviation of each axis's residuals, (n,) [N m], by which they are divided; None weights all axes
            equally, as arXiv:2605.15949 does.

    Raises:
        DataError: if there are no loops, or the loops belong to different arms.
    """

    def __init__(self, loops: Sequence[ClosedLoop], sigma: FloatArray | None = None) -> None:
        if not loops:
            raise DataError("no closed loops to refine from: at least one recording is needed")
        if len({loop.model.structure_hash for loop in loops}) > 1:
            raise DataError(
                "the closed loops belong to arms with different structure or geometry: refine them separately"
            )
        self.loops = tuple(loops)
        self.model: ArmModel = loops[0].model
        self.data = _joined(self.loops)
        self._scale = np.ones(self.model.axes) if sigma is None else float(np.median(sigma)) / np.asarray(sigma)

    def simulate(self, phi: FloatArray | BaseParameters) -> LoopSimulation:
        """Return the simulated motions of all loops with base parameters phi (p,) [SI].

        If the simulation of a loop fails, the result is the failed simulation of this loop alone.
        """
        found = []
        for loop in self.loops:
            found.append(loop.simulate(phi))
            if not found[-1].completed:
                return found[-1]
        return JoinedSimulation(
            outcome="completed",
            failed_after_s=math.nan,
            motion=read_only(np.concatenate([one.motion for one in found], axis=1)),
            tau=read_only(np.concatenate([one.tau for one in found])),
            gap_nm=max(one.gap_nm for one in found),
            warm_up_s=max(one.warm_up_s for one in found),
            parts=tuple(found),
        )

    def jacobian(self, simulation: LoopSimulation, phi: FloatArray | BaseParameters, stride: int = 2) -> FloatArray:
        """Return the derivative of the simulated commands of all loops with respect to phi, (S, n, p) [SI].

        Args:
            simulation: a completed simulation of all loops at phi.
            phi: base parameters, (p,) [SI].
            stride: control cycles per integration step, even; a larger stride is faster and less exact.

        Raises:
            DataError: if the simulation did not complete.
        """
        if not isinstance(simulation, JoinedSimulation):
            raise DataError(f"a simulation that did not complete has no derivative: {simulation.sentence()}")
        pairs = zip(self.loops, simulation.parts, strict=True)
        return np.concatenate([loop.jacobian(one, phi, stride) for loop, one in pairs])

    def weighted(self, values: FloatArray) -> FloatArray:
        """Return values multiplied by the weights of samples and axes, in the shape of the values.

        Args:
            values: residuals (S, n), or their derivatives (S, n, p), any unit.
        """
        weights = self._scale if self.data.weights is None else self.data.weights * self._scale
        return per_sample(weights, values)

    def normal_equations(self, jacobian: FloatArray, residual: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return J_i' J_i (n, p, p) and J_i' r_i (n, p) [SI] of every axis i.

        Args:
            jacobian: weighted Jacobian J of the simulated torques, (S, n, p) [SI].
            residual: weighted residuals r, (S, n) [N m].
        """
        return self.loops[0].normal_equations(jacobian, residual)


def _joined(loops: Sequence[ClosedLoop]) -> JoinedData:
    times, begin = [], 0.0
    for loop in loops:
        own = loop.data.sample_times
        step = float(np.median(np.diff(own)))
        times.append(begin + own - own[0])
        begin = float(times[-1][-1]) + step
    weights = [loop.data.weights for loop in loops]
    deviations = [loop.data.load_deviation for loop in loops]
    return JoinedData(
        sample_times=read_only(np.concatenate(times)),
        tau=read_only(np.concatenate([loop.data.tau for loop in loops])),
        weights=_filled(weights, loops, 1.0),
        load_deviation=_filled(deviations, loops, 0.0),
    )


def _filled(values: Sequence[FloatArray | None], loops: Sequence[ClosedLoop], missing: float) -> FloatArray | None:
    """Return the values of all loops in sequence, (S, n), any unit; None if no loop has values.

    Args:
        values: values of each loop; None for a loop without values.
        loops: the loops.
        missing: value for the samples of a loop without values.
    """
    if all(one is None for one in values):
        return None
    pairs = zip(values, loops, strict=True)
    return read_only(
        np.concatenate([np.full_like(loop.data.tau, missing) if one is None else one for one, loop in pairs])
    )
