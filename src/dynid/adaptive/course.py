"""Course of one adaptive run: execution of its segments, precision checks of the model, and return motions."""

from dataclasses import replace

import numpy as np

from dynid.adaptive.arm import Arm, RefusedError
from dynid.adaptive.feedforward import Feedforward
from dynid.adaptive.outcome import Look, look_line
from dynid.adaptive.planning import Planning
from dynid.adaptive.prior_knowledge import LEAST_TUBE_RAD
from dynid.adaptive.return_motion import return_duration_s, return_motion
from dynid.adaptive.segment_constraints import Segment
from dynid.adaptive.settings import TIME_TOLERANCE_S
from dynid.control.motion_check import COARSE_S
from dynid.errors import SafetyError
from dynid.hardware.safety.overload import OverloadModel
from dynid.identification.result import Identification
from dynid.robot import FloatArray
from dynid.trajectory.polynomial import PolynomialTrajectory, rest_to_rest

STOP_SCALE = 0.7  # factor on range and speed for each consecutive stopped segment
TUBE_SCALES = (1.0, 0.6, 0.35)  # factors on the allowed tracking error that are tried until a segment is safe
REST_LOAD = 0.02  # used share of the overload limit above which waiting cools a servo noticeably
RESTS, REST_S = 5, 3.0  # number and duration [s] of pauses after which the search for a safe segment ends
# longest pause before a return motion [s], and largest share of the overload limit that this motion may use
RESTS_BEFORE_BACK, BEARABLE = 20, 0.7
REFUSALS, OTHER_SEED = 3, 200  # consecutive refusals before the run ends; seed offset of the next attempt


class Course:
    """State of one adaptive run: current model, executed segments, and results of checks of the model's precision."""

    def __init__(self, parent: Planning, arm: Arm, name: str, seed: int) -> None:
        self.parent, self.arm, self.name, self.seed = parent, arm, name, seed
        self.known = parent.start()
        self.live, self.tube = parent.live(self.known), parent.first_tube
        self.segments: list[Segment] = []
        self.shown: list[Segment] = []
        self.tracking: list[FloatArray] = []
        self.looks: list[Look] = []
        self.found: Identification | None = None
        self.stopped = self.in_a_row = self.refused = self.updates = 0
        self.trail: list[tuple[PolynomialTrajectory, float]] = []  # executed motions that lead back to the rest posture
        self.load = arm.load  # load before the segment in execution

    def _segment(
        self, start: FloatArray, shown: list[Segment], load: FloatArray, length_s: float, share: float = 1.0
    ) -> Segment:
        seed = 1000 * self.seed + len(self.segments) + OTHER_SEED * self.refused
        name, tube = f"{self.name} {len(self.segments) + 1}", np.maximum(share * self.tube, LEAST_TUBE_RAD)
        caution = STOP_SCALE**self.in_a_row
        return self.parent.segment(name, start, shown, self.known, tube, load, seed, caution, length_s)

    def _standing(self) -> Segment:
        """Plan a segment from the present posture while the arm stands still, and return it.

        If no segment is safe with the allowed tracking errors, segments with smaller allowed errors are tried. Such a
        segment needs less free space, because the arm stops at a smaller tracking error.

        Raises:
            SafetyError: no segment is safe with any of `TUBE_SCALES`, the factors on the allowed tracking errors.
        """
        refusal: SafetyError | None = None
        length_s = self.parent.settings.segment_after(self.arm.moved_s)
        for share in TUBE_SCALES:
            try:
                return replace(self._segment(self.arm.at, self.shown, self.arm.load, length_s, share), waited=True)
            except SafetyError as error:
                refusal = refusal or error
        assert refusal is not None
        raise refusal

    def plan_next(self, segment: Segment) -> Segment | None:
        """Plan the segment after the given one, which is being executed, and return it; None if no segment is safe."""
        load = self.parent.loaded(segment.motion, self.known, self.load)
        length_s = self.parent.settings.segment_after(self.arm.moved_s + segment.motion.duration)
        try:
            return self._segment(segment.motion.end, [*self.shown, segment], load, length_s)
        except SafetyError:
            return None

    def wait_for_segment(self) -> Segment:
        """Plan a safe segment while the arm stands still, and return it.

        If no segment is safe, the arm returns to the start of the last executed segment, because its servos may be
        overloaded at the present posture. If the arm is back at the start posture of the run, it waits for the servos
        to cool instead. After each return or wait, planning is tried again.

        Raises:
            SafetyError: no segment is safe from the start posture of the run, although the servos are cool or the arm
                has waited `RESTS` times; or a return would leave no motion time for another segment.
        """
        rests = 0
        while True:
            try:
                return self._standing()
            except SafetyError:
                # without load there is nothing to recover from, so planning would fail again
                if rests == RESTS or not (self.trail or (self.arm.load > REST_LOAD).any()):
                    raise
            if self.trail:
                along = self.trail[-1][1]
                if not self.parent.settings.segment_after(self.arm.moved_s + return_duration_s(along)):
                    raise SafetyError("no segment is safe here, and after the return motion there is no time for one")
                self.step_back("no segment is safe here")
            else:
                rests += 1
                self.arm.hold(self.known.feedforward, REST_S)

    def step_back(self, why: str) -> None:
        """Move the arm back to the start of the last executed segment; a progress message states the reason `why`."""
        motion, along = self.trail.pop()
        self.parent.progress(f"{self.arm.moved_s:5.1f} s  {why}: back along '{motion.name}'")
        # before the first complete segment, friction is hardly known, so return motions ignore it
        known = self.known if self.shown else self.parent.start()
        self._rest_before(motion, along, known.feedforward)
        self.arm.retrace(motion, along, known.feedforward)

    def _rest_before(self, motion: PolynomialTrajectory, along: float, feedforward: Feedforward) -> None:
        """Wait until the servos are cool enough for a return motion, which is slow and may act against gravity.

        With a warm servo, the driver could limit the current during the motion, and the joint would not follow the
        reference.

        Args:
            motion: the segment along which the arm returns.
            along: executed time of this segment [s].
            feedforward: feedforward torques, from which the servo currents are predicted.
        """
        robot, overload = self.parent.robot, OverloadModel.of(self.parent.robot)
        if overload is None:
            return
        for _ in range(RESTS_BEFORE_BACK):
            way = return_motion(motion, along, self.arm.at, robot.joint_names)
            current = (
                feedforward.moving(*way.sample_all(np.arange(0.0, way.duration, COARSE_S))) / robot.joint_constants
            )
            load = self.arm.load
            if overload.along(load, current, COARSE_S).max() < BEARABLE or load.max() < REST_LOAD:
                return
            self.arm.hold(feedforward)

    def to_rest(self) -> None:
        """Move the arm to its rest posture, on a straight path in joint space if this path is proven safe.

        Otherwise the arm returns to the start of the last executed segment, and a straight path from there is tried.
        This is repeated as far as the start of the run, which is near the rest posture. If the straight path is not
        safe from there either, the arm stays there.
        """
        while True:
            motion = rest_to_rest("to rest", self.parent.robot.joint_names, self.arm.at, self.parent.robot.rest_posture)
            try:
                self.parent.check_way(motion, self.known, self.tube, self.arm.load)
            except SafetyError as error:
                if not self.trail:  # already as close to the rest posture as friction permits
                    self.parent.progress(f"the arm stays at the start of its path, near the rest posture: {error}")
                    return
                self.step_back(f"the straight motion to the rest posture is not safe ({error})")
            else:
                self.arm.follow(motion, self.known.feedforward, self.tube)
                return

    def next_segment_or_look(self) -> tuple[Segment | None, bool]:
        """Return a segment from the present posture (None ends the run), and whether this call found a precise model.

        If no segment is safe, a model is identified from the recording so far, and its precision is checked, unless the
        arm has not moved since the last check. If the model is not precise enough to end the run, planning is tried
        once more, because a segment may be safe with this model.
        """
        for _ in range(2):
            try:
                return self.wait_for_segment(), False
            except SafetyError as error:
                self.parent.progress(f"{self.arm.moved_s:5.1f} s  no further segment is safe: {error}")
                if self.looks and self.looks[-1].motion_s > self.arm.moved_s - TIME_TOLERANCE_S:
                    break
                if self.judge_precision():
                    return None, True
        return None, False

    def begin(self, segment: Segment) -> bool:
        """Start the execution of a segment; return whether the arm accepted it.

        After a refusal, the caller plans another segment.

        Raises:
            RefusedError: the arm refused several segments in a row.
        """
        self.load = self.arm.load
        try:
            self.arm.begin(segment.motion, self.known.feedforward, segment.tube, segment.load)
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
        """Wait for the end of a segment and update the current model; return whether the segment was completed.

        The model is updated to the online estimate, but only until a first model is identified from the recording.
        """
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
            self.live, self.known = parent.update_estimate(self.live, source, self.known)
        self.tube = parent.tube(self.tracking, self.known)
        widest = parent.quantile * segment.widest
        look_line = (
            f"widest interval expected at {widest:.2f} of its limit"
            if whole
            else "stopped: a joint left its tracking tube, or a servo came near its overload"
        )
        parent.progress(f"{arm.moved_s:5.1f} s  {look_line}")
        parent.report({"kind": "segment", "motion_s": arm.moved_s, "expected_widest": widest, "stopped": not whole})
        return whole

    def judge_precision(self) -> bool:
        """Identify a model from the recording so far; return whether it is accepted and precise enough.

        Return False if no model could be identified, or if more checks took place than share the confidence of the
        intervals. The run ends if the result is True.
        """
        parent = self.parent
        self.arm.hold(self.known.feedforward)
        look, result = parent.judge.judge_recording(self.arm.source(self.name), self.arm.moved_s)
        self.looks.append(look)
        parent.progress(look_line(look))
        parent.report({"kind": "look"} | look.as_dict())
        if result is None:
            return False
        self.found, self.known = result, parent.model_of(result, self.shown)
        # a fixed number of checks shares the confidence (Bonferroni), so further checks must not accept the model
        return look.accepted and look.widest <= 1.0 and len(self.looks) <= parent.settings.looks

    def update_model(self) -> None:
        """Replace the current model by one that is identified from the recording so far.

        Unlike a call of `judge_precision`, an update cannot end the run.
        """
        parent = self.parent
        self.updates += 1
        self.arm.hold(self.known.feedforward)
        look, result = parent.judge.judge_recording(self.arm.source(self.name), self.arm.moved_s)
        if result is not None:
            self.known = parent.model_of(result, self.shown)
        parent.progress(f"{self.arm.moved_s:5.1f} s  {look.reason or 'the model is updated from the recording so far'}")
