"""Merging of the states of two drivers into the common control cycles of a leader and a follower arm.

Two drivers read their arms at the same rate, but not at the same moments, and each with its own clock. A simulated arm
may even wait for its host while the other arm moves on. So cycles do not depend on a common clock: a cycle is complete
when both arms have sent a state. Its duration for each arm follows from that arm's own stamps. If no state of one arm
arrives, the other arm's clock determines that it is late. If no state of either arm arrives, nothing is commanded, and
both drivers stop their arms themselves. The first states after the start of bilateral control begin the first cycle.
Earlier states may be too old, because the checks before the start take time.

Stamps alone do not reveal a constant delay of all states of an arm. If a driver's stamps follow the clock of this host,
they give the age of a state at its arrival, and a state that is too old counts as late. For a driver on another host,
or a simulated arm with a paused clock, the age is unknown.
"""

from dynid.control.bilateral.pair import MOST_AGE_S, SIDES, ArmPair, Reading
from dynid.errors import SafetyError
from dynid.robot import FloatArray


class PairCycles:
    """Collector of the states of two arms, leader and follower, which runs their bilateral control once per cycle.

    A cycle is complete when both arms have sent a new state, or when the new state of one arm is late.

    Attributes:
        pair: bilateral controller of both arms.
        cycles: number of commanded cycles since bilateral control was started.
    """

    def __init__(self, pair: ArmPair) -> None:
        self.pair, self.cycles = pair, 0
        self._newest: list[Reading | None] = [None, None]
        self._ages_s = [0.0, 0.0]  # ages of the newest states at their arrival
        self._used_ns = [0, 0]  # stamps of the last cycle's states, by the drivers' clocks
        self._begun = [False, False]  # whether the arm has sent a state since the arms were engaged
        self._now_ns = 0  # time of the pair since the arms were engaged

    def _both(self) -> tuple[Reading, Reading]:
        for name, reading in zip(SIDES, self._newest, strict=True):
            if reading is None:
                raise SafetyError(f"cannot engage the arms: there is no state of the {name} yet: is its driver active?")
        leader, follower = self._newest
        assert leader is not None and follower is not None
        return leader, follower

    def check(self) -> None:
        """Raise SafetyError if bilateral control cannot start: an arm has sent no state, or the postures are far apart.

        The check resets the control law to the present postures.
        """
        self.pair.check_postures(*self._both())

    def engage(self) -> None:
        """Start bilateral control of both arms at their present postures; the next states begin the first cycle.

        Raises:
            SafetyError: an arm has sent no state, or the arms are too far apart.
        """
        leader, follower = self._both()
        self.pair.start(
            0,
            Reading(self._stamp(0, 0, 0), leader.q, leader.tau),
            Reading(self._stamp(1, 0, 0), follower.q, follower.tau),
        )
        self._used_ns, self._begun = [leader.stamp_ns, follower.stamp_ns], [False, False]
        self._now_ns = self.cycles = 0

    def take(self, side: int, reading: Reading, age_s: float | None = None) -> tuple[FloatArray, FloatArray] | None:
        """Process a state of one arm; return the torques (n,) [N m] of leader and follower if it completes a cycle.

        The result is None if the cycle is not complete, or if bilateral control has stopped. A state that is not newer
        than the previous state of the same arm is ignored.

        Args:
            side: 0 for the leader, 1 for the follower.
            reading: the state.
            age_s: age of the state by the clock of this host [s]; None if unknown.
        """
        before = self._newest[side]
        if before is not None and reading.stamp_ns <= before.stamp_ns:
            return None
        self._newest[side], self._ages_s[side] = reading, age_s or 0.0
        if self.pair.stopped:
            return None
        if not self._begun[side]:
            self._begun[side], self._used_ns[side] = True, reading.stamp_ns
            return None
        both = self._both()
        own_ns = [one.stamp_ns - used_ns for one, used_ns in zip(both, self._used_ns, strict=True)]
        if own_ns[1 - side] == 0 and own_ns[side] * 1e-9 <= MOST_AGE_S:
            return None
        return self._cycle(*both, own_ns)

    def _cycle(self, leader: Reading, follower: Reading, own_ns: list[int]) -> tuple[FloatArray, FloatArray] | None:
        """Run one control cycle; return the torques (n,) [N m] of leader and follower, or None if control has stopped.

        Args:
            leader: newest state of the leader.
            follower: newest state of the follower.
            own_ns: time from the state used in the previous cycle to the newest state, for leader and follower, by each
                arm's own clock [ns].
        """
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
        """Return the time stamp of an arm's newest state on the common time axis of both arms [ns].

        If the state was older than `MOST_AGE_S` at its arrival, its stamp is at most `now_ns` minus its age.

        Args:
            side: 0 for the leader, 1 for the follower.
            stamp_ns: stamp on the common axis that follows from the arm's own clock [ns].
            now_ns: time of the present cycle on the common axis [ns].
        """
        age_s = self._ages_s[side]
        return min(stamp_ns, now_ns - round(age_s * 1e9)) if age_s > MOST_AGE_S else stamp_ns
