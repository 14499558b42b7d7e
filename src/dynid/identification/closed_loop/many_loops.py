"""Many experiments as one: the closed-loop input error of all bags at once (paper eq. 9, its sum over all runs).

One phi must explain every loop, so what a single bag cannot tell apart another one settles, and noise averages out
before it passes through the nonlinear simulation instead of after it.
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
    """The samples of all loops, one after the other; as of `ClosedLoopData`.

    Attributes:
        sample_times: (S,) [s], from a start that moves on from loop to loop, so that they increase.
        tau: (S, n) [N m].
        weights: of the residuals, (S, n); None is one each.
        load_deviation: (S, n) [N m]; None is none.
    """

    sample_times: FloatArray
    tau: FloatArray
    weights: FloatArray | None
    load_deviation: FloatArray | None


@dataclass(frozen=True, eq=False)
class JoinedSimulation(LoopSimulation):
    """Simulations of all loops, one after the other; `parts` are those of the single loops."""

    parts: tuple[LoopSimulation, ...] = ()


class ManyLoops:
    """Closed loops of one arm, recorded one after the other, as `clie.refine_loop` takes a single one.

    Args:
        loops: of the recordings.
        sigma: standard deviation of each axis's residuals, (n,) [N m], by which they are divided; None weighs all axes
            alike, as the paper does.

    Raises:
        DataError: no loops, or loops of different arms.
    """

    def __init__(self, loops: Sequence[ClosedLoop], sigma: FloatArray | None = None) -> None:
        if not loops:
            raise DataError("no closed loops to refine from: at least one recording is needed")
        if len({loop.model.structure_hash for loop in loops}) > 1:
            raise DataError("the closed loops are of arms with different structure or geometry: refine them separately")
        self.loops = tuple(loops)
        self.model: ArmModel = loops[0].model
        self.data = _joined(self.loops)
        self._scale = np.ones(self.model.axes) if sigma is None else float(np.median(sigma)) / np.asarray(sigma)

    def simulate(self, phi: FloatArray | BaseParameters) -> LoopSimulation:
        """All motions that phi (p,) gives; the first loop that fails ends it."""
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
        """Derivative of `simulation.tau` by phi, (S, n, p); see `ClosedLoop.jacobian`.

        Raises:
            DataError: the simulation did not complete.
        """
        if not isinstance(simulation, JoinedSimulation):
            raise DataError(f"a simulation that did not complete has no derivative: {simulation.sentence()}")
        pairs = zip(self.loops, simulation.parts, strict=True)
        return np.concatenate([loop.jacobian(one, phi, stride) for loop, one in pairs])

    def weighted(self, values: FloatArray) -> FloatArray:
        """Residuals (S, n), or their derivatives (S, n, p), times the weights of the samples."""
        weights = self._scale if self.data.weights is None else self.data.weights * self._scale
        return per_sample(weights, values)

    def normal_equations(self, jacobian: FloatArray, residual: FloatArray) -> tuple[FloatArray, FloatArray]:
        """J_i' J_i (n, p, p) and J_i' r_i (n, p) of every axis i; see `ClosedLoop.normal_equations`."""
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
    """All values (S, n), `missing` for loops without; None where no loop has any."""
    if all(one is None for one in values):
        return None
    pairs = zip(values, loops, strict=True)
    return read_only(
        np.concatenate([np.full_like(loop.data.tau, missing) if one is None else one for one, loop in pairs])
    )
