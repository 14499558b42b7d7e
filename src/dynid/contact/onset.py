"""Onset detection of forces at the tool: tests of many possible onset times on a motion filter's innovations.

Every few milliseconds a new hypothesis starts: a constant force acts at the tool from now on. A generalised likelihood
ratio test (Willsky and Jones 1976) compares the least-squares estimate of this force, c = I^-1 d, with zero. Here I is
the sum of s' s / V and d the sum of s' nu / V over all innovations nu since the onset, where V is the variance of an
innovation and s its change per unit of force. Without a force, the test statistic d' I^-1 d is chi-squared with three
degrees of freedom; a prior for the force, which is added to I, only makes it smaller. The threshold limits the rate of
false alarms of all hypotheses together, by a Bonferroni correction for their number.
"""

import numpy as np
from scipy.special import chdtri

from dynid.contact.innovations import add_information
from dynid.contact.motion_filter import MotionFilter

ONSET_CYCLES, HYPOTHESES = 4, 16  # cycles between two onsets, and number of hypotheses
CYCLE_S = 0.001
FALSE_ALARMS_1_S = 0.1 / 3600.0  # rate of false alarms [1/s]: one in ten hours if the errors are as stated
LEAST_AGE = 3  # minimum age of a tested hypothesis [cycles]
FORCE_RATE = 2.5  # rate of change of a contact force [N/sqrt(s)]
NO_FORCE_STATISTIC = float(chdtri(3, 0.01))  # 99 % quantile of the statistic without a force
CONTACT_END_S = 0.15  # time without a significant force after which contact ends [s]


class OnsetTests:
    """Hypotheses about the onset of a force at the tool, tested on the innovations of a `MotionFilter`.

    Args:
        motion: the filter; it must be updated before each call of `update`.
        largest_n: prior standard deviation of the forces to detect [N].
        every: number of cycles between the onset times of two successive hypotheses.

    Attributes:
        bound: threshold that `statistic` exceeds only in contact.
        statistic: largest test statistic of all hypotheses after the last update.
        contact: whether the filter currently estimates a force at the tool.
    """

    def __init__(self, motion: MotionFilter, largest_n: float, every: int = ONSET_CYCLES) -> None:
        self._motion, self._prior, self.statistic = motion, np.eye(3) / largest_n**2, 0.0
        self._every = every
        self.contact, self._quiet_s = False, 0.0
        self.bound = float(chdtri(3, FALSE_ALARMS_1_S * CYCLE_S / HYPOTHESES))
        self.reset()

    def reset(self) -> None:
        """Clear all hypotheses about the onset of a force; do not end an ongoing contact."""
        H = HYPOTHESES
        self._G, self._information = np.zeros((len(self._motion.x), 3 * H)), np.zeros((H, 3, 3))
        self._score, self._age, self._count, self.statistic = np.zeros((H, 3)), np.full(H, -1), 0, 0.0

    def update(self) -> bool:
        """Test all hypotheses on the innovations of the filter's last update; return whether a force has begun."""
        if self._count % self._every == 0:
            h = self._count // self._every % HYPOTHESES
            self._G[:, 3 * h : 3 * h + 3], self._information[h], self._score[h], self._age[h] = 0.0, 0.0, 0.0, 0
        self._count += 1
        begun = np.repeat(self._age >= 0, 3)
        self._G, out = self._motion.propagate_signatures(self._G, np.tile(self._motion.J.T, HYPOTHESES) * begun)
        add_information(out, self._information, self._score)
        self._age[self._age >= 0] += 1
        forces = np.linalg.solve(self._information + self._prior, self._score[..., None])[..., 0]
        statistics = np.where(self._age >= LEAST_AGE, (forces * self._score).sum(axis=1), 0.0)
        self._best = int(np.argmax(statistics))
        self._force, self.statistic = forces[self._best], float(statistics[self._best])
        return self.statistic > self.bound

    def accept_hypothesis(self, lasts: bool = True) -> None:
        """Accept the most probable hypothesis: add the effect of the force to the filter's state and covariance.

        Args:
            lasts: whether the force continues. If True, the filter estimates it from now on, and
                `end_contact_if_released` detects its end. If False, only the past motion is corrected: the caller has
                another explanation of the force, such as a payload, and models it from now on.
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

    def end_contact_if_released(self, dt: float) -> None:
        """End the contact if the filter's force estimate has not been significant for `CONTACT_END_S` [s].

        Args:
            dt: time since the previous call [s].
        """
        x, P = self._motion.x, self._motion.P
        different = float(x[-3:] @ np.linalg.solve(P[-3:, -3:], x[-3:])) > NO_FORCE_STATISTIC
        self._quiet_s = 0.0 if different else self._quiet_s + dt
        if self._quiet_s >= CONTACT_END_S:
            x[-3:], P[-3:], P[:, -3:] = 0.0, 0.0, 0.0
            self._motion.force_rate, self.contact = 0.0, False
