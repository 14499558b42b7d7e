"""The course of one adaptive run: segment after segment, looks, and the way back."""

from dataclasses import replace

import numpy as np

from dynid.adaptive.arm import Arm, RefusedError
from dynid.adaptive.beforehand import LEAST_TUBE_RAD
from dynid.adaptive.feed import Feed
from dynid.adaptive.frame import Segment
from dynid.adaptive.outcome import Look, said
from dynid.adaptive.planning import Planning
from dynid.adaptive.settings import SLACK_S
from dynid.adaptive.way_back import way_back, way_back_s
from dynid.control.motion_check import COARSE_S
from dynid.errors import SafetyError
from dynid.hardware.safety.overload import OverloadModel
from dynid.identification.pipeline import Identification
from dynid.robot import FloatArray
from dynid.trajectory.polynomial import PolynomialTrajectory, rest_to_rest

AFTER_STOP = 0.7  # share of range and speed, once for every segment in a row that was stopped
NARROWER = (1.0, 0.6, 0.35)  # shares of a tube
RESTED = 0.02  # of what makes a servo switch itself off: more of it a rest takes off
RESTS, REST_S = 5, 3.0  # before a planner that finds nothing safe gives up
RESTS_BEFORE_BACK, BEARABLE = 20, 0.7  # seconds, and what a way back may use up; the fed currents are not all of them
REFUSALS, OTHER_SEED = 3, 200  # segments in a row that the arm may refuse; what makes the next one another


class Course:
    """What is known in the course of one run."""

    def __init__(self, parent: Planning, arm: Arm, name: str, seed: int) -> None:
        self.parent, self.arm, self.name, self.seed = parent, arm, name, seed
        self.known = parent.start()
        self.live, self.tube = parent.live(self.known), parent.first_tube
        self.segments: list[Segment] = []
        self.shown: list[Segment] = []
        self.tracking: list[FloatArray] = []
        self.looks: list[Look] = []
        self.found: Identification | None = None
        self.stopped = self.in_a_row = self.refused = self.lessons = 0
        self.trail: list[tuple[PolynomialTrajectory, float]] = []  # how the arm came to where it stands
        self.load = arm.load  # before the segment that is carried out

    def _segment(
        self, start: FloatArray, shown: list[Segment], load: FloatArray, length_s: float, share: float = 1.0
    ) -> Segment:
        seed = 1000 * self.seed + len(self.segments) + OTHER_SEED * self.refused
        name, tube = f"{self.name} {len(self.segments) + 1}", np.maximum(share * self.tube, LEAST_TUBE_RAD)
        caution = AFTER_STOP**self.in_a_row
        return self.parent.segment(name, start, shown, self.known, tube, load, seed, caution, length_s)

    def _standing(self) -> Segment:
        """A segment from where the arm stands.

        Where a wide tube leaves no room, a narrower one may: the arm then stops earlier, so it is no less safe.
        """
        refusal: SafetyError | None = None
        length_s = self.parent.settings.segment_after(self.arm.moved_s)
        for share in NARROWER:
            try:
                return replace(self._segment(self.arm.at, self.shown, self.arm.load, length_s, share), waited=True)
            except SafetyError as error:
                refusal = refusal or error
        assert refusal is not None
        raise refusal

    def planned_behind(self, segment: Segment) -> Segment | None:
        """The next segment, planned while one is carried out; None where none is safe."""
        load = self.parent.loaded(segment.motion, self.known, self.load)
        length_s = self.parent.settings.segment_after(self.arm.moved_s + segment.motion.duration)
        try:
            return self._segment(segment.motion.end, [*self.shown, segment], load, length_s)
        except SafetyError:
            return None

    def wait_for_segment(self) -> Segment:
        """A segment from where the arm stands.

        Where none is safe the arm goes back, segment by segment: what it holds there may be more than its servos bear.
        At the start it rests a little, and they recover.
        """
        rests = 0
        while True:
            try:
                return self._standing()
            except SafetyError:
                # servos that are not loaded have nothing to recover from: the same would be found again
                if rests == RESTS or not (self.trail or (self.arm.load > RESTED).any()):
                    raise
            if self.trail:
                along = self.trail[-1][1]
                if not self.parent.settings.segment_after(self.arm.moved_s + way_back_s(along)):
                    raise SafetyError("no segment is safe here, and after the way back there is no time for one")
                self.step_back("no segment is safe here")
            else:
                rests += 1
                self.arm.hold(self.known.feed, REST_S)

    def step_back(self, why: str) -> None:
        """Go back to where the last segment began."""
        motion, along = self.trail.pop()
        self.parent.progress(f"{self.arm.moved_s:5.1f} s  {why}: back along '{motion.name}'")
        # friction of joints that hardly moved may be anything: the way back of the first segments does without it
        known = self.known if self.shown else self.parent.start()
        self._rest_before(motion, along, known.feed)
        self.arm.back(motion, along, known.feed)

    def _rest_before(self, motion: PolynomialTrajectory, along: float, feed: Feed) -> None:
        """Stand until the servos bear the way back; against the weight and slow, it heats them more than the way there.

        A servo whose current is limited on the way leaves its joint behind.
        """
        robot, overload = self.parent.robot, OverloadModel.of(self.parent.robot)
        if overload is None:
            return
        for _ in range(RESTS_BEFORE_BACK):
            way = way_back(motion, along, self.arm.at, robot.joint_names)
            current = feed.moving(*way.sample_all(np.arange(0.0, way.duration, COARSE_S))) / robot.joint_constants
            load = self.arm.load
            if overload.along(load, current, COARSE_S).max() < BEARABLE or load.max() < RESTED:
                return
            self.arm.hold(feed)

    def to_rest(self) -> None:
        """Go to the rest posture, straight where that is proven to be safe; else first back the way the arm came.

        The way that it came was proven, and ends at the rest posture.
        """
        while True:
            motion = rest_to_rest("to rest", self.parent.robot.joint_names, self.arm.at, self.parent.robot.rest_posture)
            try:
                self.parent.check_way(motion, self.known, self.tube, self.arm.load)
            except SafetyError as error:
                if not self.trail:  # as near to it as friction lets it
                    self.parent.progress(f"the arm stays where its way began, near the rest posture: {error}")
                    return
                self.step_back(f"the straight way to the rest posture is not safe ({error})")
            else:
                self.arm.go(motion, self.known.feed, self.tube)
                return

    def next_or_look(self) -> tuple[Segment | None, bool]:
        """A segment from where the arm stands; where none is safe, a look may know more; or good enough."""
        for _ in range(2):
            try:
                return self.wait_for_segment(), False
            except SafetyError as error:
                self.parent.progress(f"{self.arm.moved_s:5.1f} s  no further segment is safe: {error}")
                if self.looks and self.looks[-1].motion_s > self.arm.moved_s - SLACK_S:
                    break
                if self.look():
                    return None, True
        return None, False

    def begin(self, segment: Segment) -> bool:
        """Whether the arm begins a segment; where what drives it refuses one, another is tried.

        Raises:
            RefusedError: it refused several in a row.
        """
        self.load = self.arm.load
        try:
            self.arm.begin(segment.motion, self.known.feed, segment.tube, segment.load)
        except RefusedError as error:
            self.refused += 1
            self.segments.pop()
            if self.refused > REFUSALS:
                raise
            self.parent.progress(f"{self.arm.moved_s:5.1f} s  another segment is planned: {error}")
            return False
        self.refused = 0
        return True

    def finish(self, segment: Segment) -> bool:
        """Whether the arm came to the segment's end; what was recorded goes into the model in hand."""
        parent, arm = self.parent, self.arm
        self.tracking.append(arm.finish())
        whole = np.array_equal(arm.at, segment.motion.end)
        self.trail.append((segment.motion, arm.along_s))
        if whole:
            self.shown.append(segment)
        self.stopped += not whole
        self.in_a_row = 0 if whole else self.in_a_row + 1
        source = arm.source(self.name)
        if not self.known.identified:
            self.live, self.known = parent.followed(self.live, source, self.known)
        self.tube = parent.tube(self.tracking, self.known)
        widest = parent.quantile * segment.widest
        said = (
            f"widest interval expected at {widest:.2f} of its limit"
            if whole
            else "stopped: a joint left its tube or a servo came near its overload"
        )
        parent.progress(f"{arm.moved_s:5.1f} s  {said}")
        parent.report({"kind": "segment", "motion_s": arm.moved_s, "expected_widest": widest, "stopped": not whole})
        return whole

    def look(self) -> bool:
        """Whether the model is good enough."""
        parent = self.parent
        self.arm.hold(self.known.feed)
        look, result = parent.looker.judged(self.arm.source(self.name), self.arm.moved_s)
        self.looks.append(look)
        parent.progress(said(look))
        parent.report({"kind": "look"} | look.as_dict())
        if result is None:
            return False
        self.found, self.known = result, parent.learned(result, self.shown)
        # the promise is shared by so many looks; one more would be more than was promised
        return look.accepted and look.widest <= 1.0 and len(self.looks) <= parent.settings.looks

    def learn(self) -> None:
        """Take over the model that all that was recorded comes to, without judging it: looks alone end a run."""
        parent = self.parent
        self.lessons += 1
        self.arm.hold(self.known.feed)
        look, result = parent.looker.judged(self.arm.source(self.name), self.arm.moved_s)
        if result is not None:
            self.known = parent.learned(result, self.shown)
        parent.progress(f"{self.arm.moved_s:5.1f} s  {look.reason or 'the model in hand is that of the recording'}")
