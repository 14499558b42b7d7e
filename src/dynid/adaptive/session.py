"""Adaptive identification, which plans each segment to reduce the uncertainty of the current model most.

A segment is a motion from rest to rest. The first segments are small and slow, and the nominal arm predicts their
torques. While a segment is executed, the next one is planned, from the data before the segment and from the information
that the segment is expected to give. From `first_look_s` on, a precision check (a "look") follows each segment that may
make the model precise enough: the arm pauses, and a model is identified from the whole recording. The run ends if this
model is accepted, and if the confidence intervals of all parameters of links and rotors and of every joint's torque are
within their limits. All intervals and all possible checks share one confidence (Bonferroni correction), so the
confidence is valid in spite of repeated checks.
"""

import numpy as np

from dynid.adaptive.arm import Arm
from dynid.adaptive.course import Course
from dynid.adaptive.outcome import AdaptiveRun
from dynid.adaptive.planning import Planning
from dynid.adaptive.prior_knowledge import LEAST_TUBE_RAD
from dynid.adaptive.segment_constraints import Segment
from dynid.adaptive.settings import TIME_TOLERANCE_S
from dynid.errors import SafetyError
from dynid.robot import FloatArray
from dynid.trajectory.polynomial import rest_to_rest

LOOK_THRESHOLD = 1.05  # expected widest interval above which the recording is not judged yet [share of its limit]


class AdaptiveIdentification(Planning):
    """Planner and controller of an adaptive identification of one robot.

    A precision check identifies a model from the recording so far, and compares its confidence intervals with their
    limits.

    Args:
        robot: the robot, whose files state the prior knowledge of the arm.
        settings: settings of the run.
        box: free space; None if the surroundings of the arm are unknown.
        mount: mount of the arm.
        before: previous model of the arm, from which the run starts; None starts from the nominal arm.
        progress: function that is called with one line of text after each segment and each precision check.

    Attributes:
        report: function that is called with a dictionary of results after each segment and each precision check.

    Raises:
        DataError: the previous model is of another robot or structure.
    """

    def run(self, arm: Arm, name: str = "adaptive", seed: int = 0, *, to_rest: bool = False) -> AdaptiveRun:
        """Execute segments until the model is precise enough, the motion time is over, or no segment is safe.

        Args:
            arm: the arm that executes the segments.
            name: name of the recording; also the first part of the segments' names.
            seed: random seed of the planning.
            to_rest: move to the rest posture at the end.

        Raises:
            SafetyError: no segment is safe at the start of the run, the arm refuses several segments in a row, or it is
                not proven to be in free space at its present posture.
        """
        self._refuse_without_room(arm.at)
        own, state = self.settings, Course(self, arm, name, seed)
        self.planner.planning_s = np.inf if arm.pauses_for_planning else own.planning_share * own.segment_s
        upcoming: Segment | None = state.wait_for_segment()
        precise = False
        while upcoming is not None:
            upcoming, precise = self._carried_out(state, upcoming)
        if not (state.looks and state.looks[-1].motion_s > arm.moved_s - TIME_TOLERANCE_S):
            precise = state.judge_precision()
        looks, tracking = tuple(state.looks), np.array(state.tracking)
        segments, moved = tuple(state.segments), arm.moved_s
        if to_rest:
            try:
                state.to_rest()
            except SafetyError as error:  # keep the result so far
                self.progress(f"the arm is not at its rest posture: {error}")
        out_of_time = not own.segment_after(moved)
        return AdaptiveRun(
            state.found,
            precise,
            segments,
            looks,
            tracking,
            self.limits,
            moved,
            state.stopped,
            self.quantile,
            out_of_time,
        )

    def _carried_out(self, state: Course, segment: Segment) -> tuple[Segment | None, bool]:
        """Execute a segment; return the next segment (None ends the run), and whether the model is precise enough."""
        own, arm = self.settings, state.arm
        moved = arm.moved_s + segment.motion.duration
        state.segments.append(segment)
        looking = not own.segment_after(moved) or self._worth_a_look(state, moved)
        learning = not looking and own.update_due(state.updates, moved)
        whole, planned = False, None
        if begun := state.begin(segment):
            planned = None if looking or learning else state.plan_next(segment)
            whole = state.finish(segment)
        precise = looking and begun and state.judge_precision()  # without the segment, the check is not due yet
        if precise or not own.segment_after(arm.moved_s):
            return None, precise
        if learning and whole:
            state.update_model()
        if whole and planned is not None:
            return planned, precise
        return state.next_segment_or_look()

    def _refuse_without_room(self, at: FloatArray) -> None:
        """Raise SafetyError unless the arm, standing at posture `at`, provably is inside the free space.

        The proof covers tracking errors up to `LEAST_TUBE_RAD`. Without a free space, nothing is checked.

        Args:
            at: reference posture of the arm, (n,) [rad].
        """
        if self.planner.box is not None:
            standing = rest_to_rest("standing still", self.robot.joint_names, at, at, 1.0)
            self.planner.box.prove(standing, np.full(self.robot.size, LEAST_TUBE_RAD))

    def _worth_a_look(self, state: Course, moved: float) -> bool:
        """Return whether a precision check is due after a segment that is planned, but not executed yet.

        A precision check identifies a model from the recording so far, and compares its confidence intervals with their
        limits.

        No check is due before `first_look_s` of motion in complete segments, the planned one included. Afterwards, a
        check is due if no model has been identified yet, or if the planned segment is expected to make the intervals of
        all link and rotor parameters narrow enough.

        Args:
            state: state of the run; its last segment is the planned one.
            moved: total time of motion at the end of the planned segment [s].
        """
        shown_s = sum(one.motion.duration for one in (*state.shown, state.segments[-1]))
        if min(moved, shown_s) < self.settings.first_look_s - TIME_TOLERANCE_S:
            return False
        if state.known.ratio is None:
            return True
        information = self.information([*state.shown, state.segments[-1]], state.known)
        expected = self.judge.quantile(moved) * information.deviations / information.limits
        return bool(expected[~self._viscous].max() <= LOOK_THRESHOLD)
