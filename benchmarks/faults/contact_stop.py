"""The table "contact": an arm whose contact is to stop it, hit while it moves, while it is pushed, and while it rests.

Wanted: every hit stops what moves, with a payload that the executor knows; nothing begins while a force is detected;
silence of the estimates stops the arm as well; without a force nothing stops it. In lock-step, see `contact_arm`.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import ArrayLike

from benchmarks.faults.contact_arm import (
    AT_REST,
    CAUSES,
    IN_MOTION,
    IN_PUSH,
    SILENT,
    TAKEN,
    StoppableArm,
    Touch,
    draw,
    scene_of,
)
from benchmarks.faults.drawn import Drawn
from dynid.contact.stop import MOST_AGE_NS

HIT_S = 0.5
STANDS_S, STANDSTILL_RAD_S = 1.2, 0.2  # from the hit on, when the arm must stand; pushed, it yields at 0.15 rad/s
FORGOTTEN_S = 1.0  # a force that ended earlier stops nothing any more
MOST_FINDINGS = 5


@dataclass(frozen=True)
class TouchFound:
    """What came of a case: time from the hit to the start of braking [s], refused goals, and what was violated."""

    touch: Touch
    braked_s: float | None
    refused: int
    false_stops: int
    free_s: float
    violations: tuple[str, ...]


@dataclass(frozen=True)
class ContactRow:
    """All cases of one cause."""

    cause: str
    cases: int
    stopped_moving: int
    slowest_ms: float
    refused: int
    false_stops: int
    free_s: float
    violations: int
    findings: tuple[str, ...]

    @property
    def title(self) -> str:
        """What its cases have in common."""
        return self.cause

    @property
    def figures(self) -> tuple[str, ...]:
        """All but the cause, as text for a table."""
        stopped = (self.cases, self.stopped_moving, self.slowest_ms, self.refused)
        return tuple(str(one) for one in (*stopped, self.false_stops, self.free_s, self.violations))

    def as_dict(self) -> dict[str, object]:
        """Return it for JSON."""
        return asdict(self)


class Trial:
    """One case from its start to its judgement."""

    def __init__(self, arm: StoppableArm) -> None:
        self.arm, self.touch = arm, arm.touch
        self.found, self.refused, self.false_stops = list[str](), 0, 0
        self.braked_s: float | None = None
        self.free_s = 0.0
        self._forced_s, self._hit_s = -np.inf, np.inf

    def run(self) -> TouchFound:
        """Run the case and judge it."""
        self._pass(0.7)  # estimates settle
        steps: dict[str, Callable[[], None]] = {
            IN_MOTION: self._in_motion,
            IN_PUSH: self._in_push,
            AT_REST: self._at_rest,
            SILENT: self._silence,
            TAKEN: self._taking,
        }
        steps[self.touch.cause]()
        self.arm.run.plant.plant.check()
        return TouchFound(
            self.touch, self.braked_s, self.refused, self.false_stops, self.free_s, tuple(dict.fromkeys(self.found))
        )

    def _pass(self, seconds: float, force: ArrayLike = (0.0, 0.0, 0.0)) -> None:
        """Pass a time [s] with a force (3,) [N] at the tool."""
        arm, given = self.arm, np.array(force)
        for _ in range(round(seconds / arm.run.cycle_s)):
            if given.any():
                self._forced_s = arm.time_s
            free = arm.time_s - self._forced_s > FORGOTTEN_S and not arm.silent
            self.free_s += arm.run.cycle_s * (free and arm.moves)
            moved = arm.moves
            why = arm.cycle(given)
            if moved and not arm.moves and arm.run.motion.phase != "done":
                if free:
                    self.false_stops += 1
                    self.found.append(f"stopped at {arm.time_s:.2f} s without a force: {why}")
                elif self.braked_s is None and arm.time_s >= self._hit_s:
                    self.braked_s = arm.time_s - self._hit_s

    def _ask(self, *, free: bool) -> bool:
        """Ask for the motion; whether it began. Refused without a reason it is a false stop."""
        refusal = self.arm.goal()
        if not refusal:
            return True
        self.refused += 1
        if free:
            self.false_stops += 1
            self.found.append(f"a goal was refused without a force: {refusal}")
        return False

    def _hit(self) -> None:
        """Hit the arm, and judge whether it stands a moment later."""
        self._hit_s = self.arm.time_s
        push = np.array(self.touch.push)
        self._pass(HIT_S, push + np.array(self.touch.hit))
        self._pass(STANDS_S - HIT_S, push)
        self._stands("after the hit")

    def _stands(self, when: str) -> None:
        motion, plant = self.arm.run.motion, self.arm.run.plant.plant
        if self.arm.moves:
            self.found.append(f"the motion goes on {STANDS_S:g} s {when}")
        elif motion.active and (speed := float(np.abs(plant.dq).max())) > STANDSTILL_RAD_S:
            self.found.append(f"a joint moves at {speed:.2f} rad/s {STANDS_S:g} s {when}")

    def _in_motion(self) -> None:
        if self._ask(free=True):
            self._pass(self.touch.at_s)
            self._hit()

    def _in_push(self) -> None:
        """A lasting push; the motion is asked for again and again meanwhile, and then the arm is hit."""
        if self._ask(free=True):
            self._pass(self.touch.at_s)
        self._pass(0.8, self.touch.push)
        for _ in range(4):
            if not self.arm.run.motion.moving:
                self._ask(free=False)
            self._pass(0.4, self.touch.push)
        self._hit()

    def _at_rest(self) -> None:
        self._hit_s = self.arm.time_s
        self._pass(0.2, self.touch.hit)
        self._ask(free=False)
        self._pass(HIT_S, self.touch.hit)
        self._pass(STANDS_S - HIT_S)
        if not self.arm.moves:
            return self._stands("after the hit")
        self.found.append("a motion began while the arm was hit, and went on")

    def _silence(self) -> None:
        if self._ask(free=True):
            self._pass(self.touch.at_s)
        self.arm.silent, self._hit_s = True, self.arm.time_s
        self._pass(MOST_AGE_NS * 1e-9 + STANDS_S)
        self._stands("after the estimates fell silent")
        if not self.arm.run.motion.moving and self._ask(free=False):
            self.found.append("a goal was accepted without estimates")

    def _taking(self) -> None:
        """Take a body up at rest, which the executor knows at once, and move with it; then the arm is hit."""
        self._forced_s = self.arm.time_s  # the body's weight, until it is known
        self.arm.take_up()
        self._pass(FORGOTTEN_S + 0.1)
        if self._ask(free=True):
            self._pass(self.touch.at_s)
            self._hit()


def touch_arm(robot: str, touch: Touch, *, stops: bool = True) -> TouchFound:
    """Run one case."""
    return Trial(StoppableArm(scene_of(robot), touch, stops=stops)).run()


def run_touch(case: Drawn) -> TouchFound:
    """Draw a case and run it."""
    return touch_arm(case.robot, draw(case.number, case.seed))


def contact_rows(found: Sequence[TouchFound]) -> list[ContactRow]:
    """Return one row for each cause that occurs."""
    rows = []
    for cause in CAUSES:
        own = [one for one in found if one.touch.cause == cause]
        if not own:
            continue
        bad = [one for one in own if one.violations]
        braked = [one.braked_s for one in own if one.braked_s is not None]
        rows.append(
            ContactRow(
                cause,
                len(own),
                len(braked),
                round(1e3 * max(braked, default=0.0), 1),
                sum(one.refused for one in own),
                sum(one.false_stops for one in own),
                round(sum(one.free_s for one in own), 1),
                len(bad),
                tuple(f"number {one.touch.seed}: {'; '.join(one.violations)}" for one in bad[:MOST_FINDINGS]),
            )
        )
    return rows
