"""What an arm holds while it works: noticed when it changes, weighed within a second of motion, and judged.

`Scale` takes all that it has seen for one body. Here it starts again where a force at the tool begins or ends that its
body does not explain: something was picked up or put down, or somebody touches the arm. Those are the tests of
`OnsetTests` on the scale's own innovations, with onsets over `WINDOW_S`, since 50 g show later than a push does. The
statistic of a load grows as long as it is not known, so a bound of `CHANGED` times theirs costs little time. With the
body the filter forgets what it took for errors of the model, which may be part of it, but not the arm's motion.

Only a body that fits for a while, and differs significantly from what a controller has, is handed to it; until then it
keeps that. An arm that rests says little about its load, since friction may carry any part of it, so its estimate stays
uncertain.
"""

import numpy as np

from dynid.contact.force import ToolForce
from dynid.contact.onset import CYCLE_S, HYPOTHESES, OnsetTests
from dynid.contact.payload import HeldMass
from dynid.contact.scale import Scale
from dynid.model.dynamics import ArmModel
from dynid.robot import FloatArray, Robot

ESTIMATE_S = 0.05
WINDOW_S = 0.4  # of onsets
FRESH_S = 0.5  # for so long after a start nothing is tested: a body that is not known yet looks like a force
JUDGED_S = 0.3  # from so long after a start on estimates are judged
CHANGED = 2.5  # times the bound of the tests: on a real line states are lost, and a load stays
SMALL_KG = 0.01  # a larger change of the filter's model begins the tests anew
STEADY_S, STEADY = 0.5, 0.15  # so long an estimate has fitted and stayed within a share of itself
FITS = 1.25  # root mean square of innovations of sliding joints, in deviations
SIGNIFICANT, LEAST_KG = 3.0, 0.03  # a change is handed over that exceeds so many deviations, and what models leave


class LivePayload:
    """Weighs what an arm holds, a cycle at a time, and says what its controller should know.

    Args:
        robot: its tool, and what its drives lift.
        arm: geometry and gravity as it is mounted.
        scale: of the arm without payload, by its accepted model.

    Attributes:
        arm: as given.
        estimate: the newest; None before the first.
        held: what a controller should add to its model, (10,) as `HeldMass.parameters`; zeros where nothing is held.
        misfit: what the estimate leaves of the innovations of sliding joints, in their deviations.
        fits: whether the estimate explains them, and did for a while.
        restarts: how often what was seen was forgotten.
    """

    def __init__(self, robot: Robot, arm: ArmModel, scale: Scale) -> None:
        self.arm, self._scale = arm, scale
        every = round(WINDOW_S / CYCLE_S / HYPOTHESES)
        self._tests = OnsetTests(scale.motion, ToolForce(robot, arm.mdh).largest_n, every)
        self.estimate: HeldMass | None = None
        self.held = np.zeros(10)
        self.misfit, self.fits, self.restarts = 0.0, False, -1
        self._began_ns = self._last_ns = self._estimated_ns = 0
        self.restart()

    def restart(self) -> None:
        """Forget what was seen; what is held stays until another estimate is certain."""
        self._scale.reset(friction=True)
        self._tests.reset()
        self.restarts += 1
        self._began_ns, self.fits, self.misfit, self.estimate = self._last_ns, False, 0.0, None
        self._first_kg, self._first_ns = -np.inf, self._last_ns  # of the estimates that agree

    def update(self, stamp_ns: int, q: FloatArray, tau: FloatArray) -> bool:
        """One state, q (n,) [rad] and tau (n,) [N m] as in `Scale.update`; whether `held` is new."""
        counts = self._scale.update(stamp_ns, q, tau)
        if self._scale.restarted:
            self._last_ns = stamp_ns
            self.restart()
        if not counts:
            return False
        self._last_ns = stamp_ns
        since_s = (stamp_ns - self._began_ns) * 1e-9
        if self._scale.changed_kg > SMALL_KG:
            self._tests.reset()
        if since_s >= FRESH_S:
            self._tests.update()
            if self._tests.statistic > CHANGED * self._tests.bound * max(1.0, self._scale.misfit**2):
                self._tests.adopt(lasts=False)
                self.restart()
                return False
        if (stamp_ns - self._estimated_ns) * 1e-9 < ESTIMATE_S:
            return False
        self._estimated_ns = stamp_ns
        self.estimate, self.misfit = self._scale.estimate(), self._scale.misfit
        return since_s >= JUDGED_S and self._judge(self.estimate)

    def _judge(self, found: HeldMass) -> bool:
        """Hand an estimate over that has fitted for a while, and is another body."""
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
