"""The states of two drivers as cycles of one pair.

Two drivers read their arms at the same rate, but not at the same moments, and each by a clock of its own: a simulated
arm may even wait for its host while the other one moves on. So no common clock is needed here. A cycle is over when
both arms have sent a state; how long it took for either arm is what its own stamps say. An arm that is silent is late
by the other arm's clock. Where both are silent nothing is commanded, and both drivers stop their arms themselves.

An arm whose states are all late by the same time looks like one that is not, by these stamps. Where a driver's stamps
follow the clock of this host, they say how old a state is when it arrives, and one that is too old counts as late, too.
For a driver on another host, or a simulated arm whose time is paused, nothing says so.
"""

from dynid.control.bilateral.pair import LATE_S, SIDES, ArmPair, Reading
from dynid.errors import SafetyError
from dynid.robot import FloatArray


class PairCycles:
    """Hands a pair the states of both arms, in the order in which they arrive.

    Attributes:
        pair: what commands the arms.
        cycles: that were commanded since the arms were engaged.
    """

    def __init__(self, pair: ArmPair) -> None:
        self.pair, self.cycles = pair, 0
        self._newest: list[Reading | None] = [None, None]
        self._ages_s = [0.0, 0.0]  # of the newest states when they arrived
        self._used_ns = [0, 0]  # stamps of the last cycle's states, by the drivers' clocks
        self._now_ns = 0  # of the pair: time since the arms were engaged

    def _both(self) -> tuple[Reading, Reading]:
        for name, reading in zip(SIDES, self._newest, strict=True):
            if reading is None:
                raise SafetyError(f"cannot engage the arms: there is no state of the {name} yet: is its driver active?")
        leader, follower = self._newest
        assert leader is not None and follower is not None
        return leader, follower

    def check(self) -> None:
        """Raise SafetyError where the arms cannot be engaged at their postures."""
        self.pair.check_postures(*self._both())

    def engage(self) -> None:
        """Engage both arms where they are; the next cycle is the first that is commanded.

        Raises:
            SafetyError: an arm has sent no state, or the arms are too far apart.
        """
        leader, follower = self._both()
        self.pair.start(
            0,
            Reading(self._stamp(0, 0, 0), leader.q, leader.tau),
            Reading(self._stamp(1, 0, 0), follower.q, follower.tau),
        )
        self._used_ns = [leader.stamp_ns, follower.stamp_ns]
        self._now_ns = self.cycles = 0

    def take(self, side: int, reading: Reading, age_s: float | None = None) -> tuple[FloatArray, FloatArray] | None:
        """Take a state of the leader, 0, or of the follower, 1; torques (n,) [N m] of both where that ends a cycle.

        None: there is nothing to command. A state that is not newer than the one before it is left out. `age_s` is how
        old it is by the clock of this host [s]; None where that is not known.
        """
        before = self._newest[side]
        if before is not None and reading.stamp_ns <= before.stamp_ns:
            return None
        self._newest[side], self._ages_s[side] = reading, age_s or 0.0
        if self.pair.stopped:
            return None
        both = self._both()
        own_ns = [one.stamp_ns - used_ns for one, used_ns in zip(both, self._used_ns, strict=True)]
        if own_ns[1 - side] == 0 and own_ns[side] * 1e-9 <= LATE_S:
            return None
        return self._cycle(*both, own_ns)

    def _cycle(self, leader: Reading, follower: Reading, own_ns: list[int]) -> tuple[FloatArray, FloatArray] | None:
        """Command both arms by their newest states, which came so long after those before [ns], by either's clock."""
        begin_ns, self._now_ns = self._now_ns, self._now_ns + max(own_ns)
        self._used_ns = [leader.stamp_ns, follower.stamp_ns]
        self.cycles += 1
        return self.pair.update(
            self._now_ns,
            Reading(self._stamp(0, begin_ns + own_ns[0], self._now_ns), leader.q, leader.tau, leader.dq),
            Reading(self._stamp(1, begin_ns + own_ns[1], self._now_ns), follower.q, follower.tau, follower.dq),
            (own_ns[0] * 1e-9, own_ns[1] * 1e-9),
        )

    def _stamp(self, side: int, stamp_ns: int, now_ns: int) -> int:
        """Return the stamp of an arm's state by the time of the pair [ns]; of one that arrived too old, by its age."""
        age_s = self._ages_s[side]
        return min(stamp_ns, now_ns - round(age_s * 1e9)) if age_s > LATE_S else stamp_ns
