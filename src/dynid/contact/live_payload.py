"""Online payload estimation: detect changes of the payload, estimate it from motion, and check the estimate.

The payload estimator `Scale` assumes a constant payload for all data since its start. `LivePayload` restarts it if a
force at the tool begins or ends that the estimated payload does not explain. Then the payload was picked up or put
down, or the arm is in contact. `OnsetTests` on the innovations of the estimator's motion filter detect such forces.
They test onset times in the last `WINDOW_S`. This window is longer than for the detection of contacts, because a
payload change of 50 g is detected later than a push. To avoid false alarms, such as those by lost states, the threshold
of the tests is multiplied by `THRESHOLD_FACTOR`. The test statistic grows as long as the force is unexplained, so this
factor delays the detection only slightly. A restart resets the filter's estimate of the model's torque errors, which
may contain part of the payload, but keeps its estimate of the arm's motion.

The controller receives a new payload only if the estimate has fitted the data for `STEADY_S` and differs significantly
from the payload in use. An arm at rest gives little information about its payload, since friction may carry any part of
the weight, so the estimate stays uncertain.
"""

import numpy as np

from dynid.contact.force import ToolForce
from dynid.contact.onset import CYCLE_S, HYPOTHESES, OnsetTests
from dynid.contact.payload import HeldMass
from dynid.contact.scale import Scale
from dynid.model.dynamics import ArmModel
from dynid.robot import FloatArray, Robot

ESTIMATE_S = 0.05
WINDOW_S = 0.4  # time span of onset hypotheses [s]
START_BLANKING_S = 0.5  # time after a start without tests [s]: an unknown body looks like a force
ESTIMATE_BLANKING_S = 0.3  # time after a start before estimates are judged [s]
THRESHOLD_FACTOR = 2.5  # factor on the tests' threshold: a real bus may lose states, and payloads can be detected later
RESTART_KG = 0.01  # change of the filter's model that restarts the tests [kg]
STEADY_S, MOST_CHANGE = 0.5, 0.15  # required time of fit [s], and maximum relative change during it
MOST_INNOVATION = 1.25  # maximum root mean square of innovations of moving joints [deviations]
SIGNIFICANT, LEAST_KG = 3.0, 0.03  # minimum change to adopt [deviations], [kg] (model errors)


class LivePayload:
    """Payload estimator, updated every cycle, that decides which payload the controller should use.

    Args:
        robot: robot whose robot.yaml states the tool and the drives' torque limits.
        arm: geometry and gravity of the arm as mounted.
        scale: `Scale` with the accepted model of the arm without payload.

    Attributes:
        arm: geometry and gravity of the arm as mounted.
        estimate: the newest estimate; None before the first.
        held: standard parameters of the payload that the controller should use, in the last modified DH frame, (10,),
            SI; zeros without payload.
        misfit: root mean square of the motion filter's innovations at moving joints since the last restart [standard
            deviations].
        fits: whether `misfit` has been small and the estimated mass steady for `STEADY_S`.
        restarts: number of restarts of the estimate.
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
        """Discard all data and restart the payload estimate; `held` stays until a new estimate is certain."""
        self._scale.reset(friction=True)
        self._tests.reset()
        self.restarts += 1
        self._began_ns, self.fits, self.misfit, self.estimate = self._last_ns, False, 0.0, None
        self._first_kg, self._first_ns = -np.inf, self._last_ns  # mass and time of the first consistent estimate

    def update(self, stamp_ns: int, q: FloatArray, tau: FloatArray) -> bool:
        """Process one state of the arm and return whether `held`, the payload for the controller, changed.

        Args:
            stamp_ns: timestamp of the state [ns].
            q: encoder readings, (n,) [rad].
            tau: motor torques since the last state, (n,) [N m].
        """
        counts = self._scale.update(stamp_ns, q, tau)
        if self._scale.restarted:
            self._last_ns = stamp_ns
            self.restart()
        if not counts:
            return False
        self._last_ns = stamp_ns
        since_s = (stamp_ns - self._began_ns) * 1e-9
        if self._scale.changed_kg > RESTART_KG:
            self._tests.reset()
        if since_s >= START_BLANKING_S:
            self._tests.update()
            if self._tests.statistic > THRESHOLD_FACTOR * self._tests.bound * max(1.0, self._scale.misfit**2):
                self._tests.accept_hypothesis(lasts=False)
                self.restart()
                return False
        if (stamp_ns - self._estimated_ns) * 1e-9 < ESTIMATE_S:
            return False
        self._estimated_ns = stamp_ns
        self.estimate, self.misfit = self._scale.estimate(), self._scale.misfit
        return since_s >= ESTIMATE_BLANKING_S and self._judge(self.estimate)

    def _judge(self, found: HeldMass) -> bool:
        """Adopt an estimate if it has fitted the data for `STEADY_S` and differs significantly from `held`.

        Args:
            found: the newest estimate.

        Returns:
            Whether the estimate was adopted.
        """
        if self.misfit > MOST_INNOVATION or abs(found.mass_kg - self._first_kg) > max(
            MOST_CHANGE * self._first_kg, LEAST_KG
        ):
            self._first_kg, self._first_ns = found.mass_kg, self._last_ns
        self.fits = (self._last_ns - self._first_ns) * 1e-9 >= STEADY_S
        return self.fits and self._adopt(found)

    def _adopt(self, found: HeldMass) -> bool:
        """Replace the payload `held` if the estimate differs significantly; return whether it was replaced.

        An estimate below the smallest detectable mass sets `held` to zero.
        """
        changed = abs(found.mass_kg - float(self.held[9]))
        if changed < LEAST_KG or self._scale.significance_of_difference(found.parameters, self.held) < SIGNIFICANT:
            return False
        self.held = np.array(found.parameters) if found.mass_kg >= LEAST_KG else np.zeros(10)
        return True
