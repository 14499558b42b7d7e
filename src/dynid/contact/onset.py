"""When a force at the tool began: tests of many possible onsets on the filter's innovations.

Every few milliseconds a hypothesis begins: from now on a constant force acts at the tool. What its least squares say is
tested against no force: under none, the statistic d' I^-1 d is chi-squared with three degrees of freedom (generalised
likelihood ratio, Willsky and Jones 1976). The bound is that of all hypotheses in all cycles together: the chance of a
false alarm is at most the sum of theirs (Bonferroni).
"""

import numpy as np
from scipy.special import chdtri

from dynid.contact.innovations import gather
from dynid.contact.motion_filter import MotionFilter

EVERY, HYPOTHESES = 4, 16  # cycles between two onsets, and how many are tested at a time
CYCLE_S = 0.001
FALSE_ALARMS_1_S = 0.1 / 3600.0  # one in ten hours of tests whose errors are as stated
YOUNGEST = 3  # cycles
FORCE_RATE = 2.5  # how fast the force of a contact changes [N/sqrt(s)]
NONE = float(chdtri(3, 0.01))  # what forces that are none exceed once in a hundred times
LEFT_S = 0.15  # after so long without a difference it is gone


class OnsetTests:
    """Hypotheses about when a force at the tool began, beside a `MotionFilter`.

    Args:
        motion: the filter, updated before `update`.
        largest_n: forces that are looked for are of this size [N].
        every: cycles between two onsets.

    Attributes:
        bound: what the statistic exceeds in contact only.
        statistic: the largest one after the last update.
        contact: whether the filter has a force at the tool.
    """

    def __init__(self, motion: MotionFilter, largest_n: float, every: int = EVERY) -> None:
        self._motion, self._prior, self.statistic = motion, np.eye(3) / largest_n**2, 0.0
        self._every = every
        self.contact, self._quiet_s = False, 0.0
        self.bound = float(chdtri(3, FALSE_ALARMS_1_S * CYCLE_S / HYPOTHESES))
        self.reset()

    def reset(self) -> None:
        """Forget all hypotheses; a contact lasts."""
        H = HYPOTHESES
        self._G, self._information = np.zeros((len(self._motion.x), 3 * H)), np.zeros((H, 3, 3))
        self._score, self._age, self._count, self.statistic = np.zeros((H, 3)), np.full(H, -1), 0, 0.0

    def update(self) -> bool:
        """Test after the last update of the filter: whether a force has begun."""
        if self._count % self._every == 0:
            h = self._count // self._every % HYPOTHESES
            self._G[:, 3 * h : 3 * h + 3], self._information[h], self._score[h], self._age[h] = 0.0, 0.0, 0.0, 0
        self._count += 1
        begun = np.repeat(self._age >= 0, 3)
        self._G, out = self._motion.carry(self._G, np.tile(self._motion.J.T, HYPOTHESES) * begun)
        gather(out, self._information, self._score)
        self._age[self._age >= 0] += 1
        forces = np.linalg.solve(self._information + self._prior, self._score[..., None])[..., 0]
        statistics = np.where(self._age >= YOUNGEST, (forces * self._score).sum(axis=1), 0.0)
        self._best = int(np.argmax(statistics))
        self._force, self.statistic = forces[self._best], float(statistics[self._best])
        return self.statistic > self.bound

    def adopt(self, lasts: bool = True) -> None:
        """Take the best hypothesis for true: the filter's state and covariance become those with its force.

        From here on the force may change, and the filter follows it; `left` says when it is gone. One that does not
        last has only moved the arm so far: whoever adopts it has another cause in mind, and a model of it.
        """
        x, P, h = self._motion.x, self._motion.P, self._best
        G = self._G[:, 3 * h : 3 * h + 3].copy()
        G[-3:] = lasts * np.eye(3)
        covariance = np.linalg.inv(self._information[h] + self._prior)
        x += G @ self._force
        P += G @ covariance @ G.T
        if lasts:
            self._motion.force_rate, self._quiet_s, self.contact = FORCE_RATE, 0.0, True
        self.reset()

    def left(self, dt: float) -> None:
        """End the contact once the filter's force has not differed from none for a while; dt [s] since the last."""
        x, P = self._motion.x, self._motion.P
        different = float(x[-3:] @ np.linalg.solve(P[-3:, -3:], x[-3:])) > NONE
        self._quiet_s = 0.0 if different else self._quiet_s + dt
        if self._quiet_s >= LEFT_S:
            x[-3:], P[-3:], P[:, -3:] = 0.0, 0.0, 0.0
            self._motion.force_rate, self.contact = 0.0, False
