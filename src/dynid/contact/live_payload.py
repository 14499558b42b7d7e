"""What an arm holds while it works: noticed when it changes, weighed within a second of motion, and judged.

`PayloadEstimator` takes all that it has seen for one body. Here what it has seen fades with `FADE_S`, and it starts
again where its body does not explain the residual any more: something was picked up or put down, or somebody touches
the arm. Only what explains the residual for a while, and differs significantly from what a controller has, is handed to
it; until then it keeps that. An arm that rests says little about its load, since friction may carry any part of it, so
its estimate stays uncertain.
"""

import math

import numpy as np

from dynid.contact.feel import ContactSense
from dynid.contact.payload import PERIOD_S, HeldMass, PayloadEstimator
from dynid.model.dynamics import ArmModel
from dynid.robot import FloatArray, Robot

FADE_S = 5.0
ESTIMATE_S = 0.05
JUDGED_S, FRESH_S = 0.15, 0.3  # over which a misfit is averaged; for so long after a start nothing is judged
STEADY_S, STEADY = 0.8, 0.15  # so long an estimate has fitted and stayed within a share of itself
CHANGED, FITS = 2.5, 1.25  # root mean square of what a body leaves of the residual, in deviations
SIGNIFICANT, LEAST_KG = 3.0, 0.03  # a change is handed over that exceeds so many deviations, and what models leave


class LivePayload:
    """Weighs what an arm holds, a cycle at a time, and says what its controller should know.

    Args:
        robot: its tool, and what its drives lift.
        arm: geometry and gravity as it is mounted.
        sense: of the arm without payload, by its accepted model.

    Attributes:
        estimate: the newest; None before the first.
        held: what a controller should add to its model, (10,) as `HeldMass.parameters`; zeros where nothing is held.
        misfit: what the estimate leaves of the residual, in deviations, of the worst joint.
        fits: whether the estimate explains the residual, and did for a while.
        restarts: how often what was seen was forgotten.
    """

    def __init__(self, robot: Robot, arm: ArmModel, sense: ContactSense) -> None:
        self._sense = sense
        self._scale = PayloadEstimator(robot, arm, sense.observer, sense.bars)
        self._chain = arm.chain_size
        self.estimate: HeldMass | None = None
        self.held = np.zeros(10)
        self.misfit, self.fits, self.restarts = 0.0, False, -1
        self._squares = np.zeros(self._chain)
        self._began_ns = self._last_ns = self._estimated_ns = 0
        self.restart()

    def restart(self) -> None:
        """Forget what was seen; what is held stays until another estimate is certain."""
        self._scale.reset()
        self.restarts += 1
        self._squares[:] = 1.0
        self._began_ns, self.fits, self.misfit, self.estimate = self._last_ns, False, 0.0, None
        self._first_kg, self._first_ns = np.inf, self._last_ns  # of the estimates that agree

    def update(self, stamp_ns: int, q: FloatArray, tau: FloatArray) -> bool:
        """One state, q (n,) [rad] and tau (n,) [N m] as in `MomentumObserver.update`; whether `held` is new."""
        self._sense.observe(stamp_ns, q, tau)
        if self._sense.observer.restarted:
            self._last_ns = stamp_ns
            self.restart()
        self._scale.update(stamp_ns, q)
        dt = (stamp_ns - self._last_ns) * 1e-9
        if dt < PERIOD_S - 5e-4:
            return False
        self._last_ns = stamp_ns
        self._scale.forget(math.exp(-dt / FADE_S))
        if (stamp_ns - self._estimated_ns) * 1e-9 >= ESTIMATE_S:
            self._estimated_ns = stamp_ns
            self.estimate = self._scale.estimate()
        return self.estimate is not None and self._judge(dt, self.estimate)

    def _judge(self, dt: float, found: HeldMass) -> bool:
        """Start again where the estimate does not fit; hand it over where it does, and is another body."""
        if (self._last_ns - self._began_ns) * 1e-9 < FRESH_S:
            return False
        left = self._sense.observer.torque[: self._chain] - self._scale.explained(found.parameters)
        relative = (left / self._sense.bars.deviation[: self._chain]) ** 2
        self._squares += (1.0 - math.exp(-dt / JUDGED_S)) * (relative - self._squares)
        self.misfit = math.sqrt(float(self._squares.max()))
        if self.misfit > CHANGED:
            self.restart()
            return False
        if self.misfit > FITS or abs(found.mass_kg - self._first_kg) > max(STEADY * self._first_kg, LEAST_KG):
            self._first_kg, self._first_ns = found.mass_kg, self._last_ns
        self.fits = (self._last_ns - self._first_ns) * 1e-9 >= STEADY_S
        return self.fits and self._hand_over(found)

    def _hand_over(self, found: HeldMass) -> bool:
        """Whether an estimate that fits is significantly another body than the one that is held."""
        changed = abs(found.mass_kg - float(self.held[9]))
        if changed < LEAST_KG or self._scale.apart(found.parameters, self.held) < SIGNIFICANT:
            return False
        self.held = np.array(found.parameters) if found.mass_kg >= LEAST_KG else np.zeros(10)
        return True
