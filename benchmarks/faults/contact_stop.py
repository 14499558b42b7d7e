"""The table "contact": stops of an arm that is hit while it moves, while it is pushed, and while it rests.

Required: every hit stops a motion, also with a known payload; no motion begins while a force is detected;
missing estimates stop the arm as well; without a force nothing stops it. In lock-step, see `contact_arm`.
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
# longest time from the hit to standstill; largest velocity of a standing arm, as a pushed arm yields at 0.15 rad/s
STANDS_S, STANDSTILL_RAD_S = 1.2, 0.2
FORGOTTEN_S = 1.0  # a force that ended earlier no longer stops the arm [s]
MOST_FINDINGS = 5


@dataclass(frozen=True)
class TouchFound:
    """Result of a case: time from hit to start of braking [s], number of refused goals, and violations."""

    touch: Touch
    braked_s: float | None
    refused: int
    false_stops: int
    free_s: float
    violations: tuple[str, ...]


@dataclass(frozen=True)
class ContactRow:
    """Row of the table: all cases of one cause."""

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
        """Common property of the row's cases."""
        return self.cause

    @property
    def figures(self) -> tuple[str, ...]:
        """Columns after the cause, as text for a table."""
        stopped = (self.cases, self.stopped_moving, self.slowest_ms, self.refused)
        return tuple(str(one) for one in (*stopped, self.false_stops, self.free_s, self.violations))

    def as_dict(self) -> dict[str, object]:
        """Return the row for JSON."""
        return asdict(self)


class Trial:
    """Run of one case with its judgement."""

    def __init__(self, arm: StoppableArm) -> None:
        self.arm, self.touch = arm, arm.touch
        self.found, self.refused, self.false_stops = list[str](), 0, 0
        self.braked_s: float | None = None
        self.free_s = 0.0
        self._forced_s, self._hit_s = -np.inf, np.inf

    def run(self) -> TouchFound:
        """Run the case and judge it."""
        self._pass(0.7)  # the estimates converge
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
        """Run for a time [s] with a force (3,) [N] at the tool."""
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
        """Request the motion; return whether it began. A refusal without a cause counts as a false stop."""
        refusal = self.arm.goal()
        if not refusal:
            return True
        self.refused += 1
        if free:
            self.false_stops += 1
            self.found.append(f"a goal was refused without a force: {refusal}")
        return False

    def _hit(self) -> None:
        """Hit the arm, and check that it stands shortly afterwards."""
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
        """Push the arm, request the motion repeatedly meanwhile, and then hit the arm."""
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
        """Pick up a body at rest, update the executor's model, move with it, and hit the arm."""
        self._forced_s = self.arm.time_s  # the body's weight acts as a force until the model contains it
        self.arm.take_up()
        self._pass(FORGOTTEN_S + 0.1)
        if self._ask(free=True):
            self._pass(self.touch.at_s)
            self._hit()


def touch_arm(robot: str, touch: Touch, *, stops: bool = True) -> TouchFound:
    """Run one case and return its result."""
    return Trial(StoppableArm(scene_of(robot), touch, stops=stops)).run()


def run_touch(case: Drawn) -> TouchFound:
    """Draw a case, run it and return its result."""
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
