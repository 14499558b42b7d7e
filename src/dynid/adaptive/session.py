"""An adaptive identification: segment after segment, each where the model in hand is least certain.

Before data a segment is small and slow, and its torques are those of the nominal arm. While a segment runs the next one
is planned, with what was recorded before it and what it is expected to show. From `first_look_s` on the arm stands
still after a segment, and `identify` judges all that was recorded; the run ends when

- its verdict is accepted, and
- the interval of every parameter of links and rotors, and of every joint's torque, is within its limit, at a confidence
  that is shared by all of them and by all looks that there may be (Bonferroni): so the promise holds whenever the run
  ends, although it was looked at repeatedly.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from dynid.adaptive.arm import Arm
from dynid.adaptive.beforehand import (
    LEAST_TUBE_RAD,
    MOST_TUBE_RAD,
    first_tube,
    gear_figures,
    lasting_torques,
    motion_limits,
)
from dynid.adaptive.course import Course
from dynid.adaptive.frame import Frame, Segment
from dynid.adaptive.information import Information, torque_sizes
from dynid.adaptive.known import Known
from dynid.adaptive.live import LiveEstimate
from dynid.adaptive.looks import Looker, deviations
from dynid.adaptive.outcome import AdaptiveRun
from dynid.adaptive.segment import LOOK_S, SegmentPlanner
from dynid.adaptive.settings import SLACK_S, AdaptiveSettings
from dynid.control.motion_check import model_torques, nominal_torques, robot_limits
from dynid.control.safe_box import SafeBox
from dynid.errors import SafetyError
from dynid.hardware.safety.overload import OverloadModel
from dynid.identification.data.sources import Source
from dynid.identification.pipeline import Identification
from dynid.identification.settings import IdentificationSettings, load_identification
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FrictionLaw
from dynid.model.model_file import ModelFile
from dynid.model.parameters import BaseParameters
from dynid.model.standard import load_nominal
from dynid.robot import FloatArray, Robot
from dynid.trajectory.polynomial import PolynomialTrajectory, rest_to_rest

TUBE_FACTOR = 1.8  # of the largest tracking error so far
FIRST_SIGMA = 0.0015  # of a joint's torque limit: size of residuals before data
INERTIAL_PRIOR, VISCOUS_PRIOR = 0.1, 1.0  # deviations before data, as torques over those that joints take
CHANGED_PRIOR = 0.03  # the same of an arm that has changed since it was identified
VISCOUS_SHARE, LEAST_VISCOUS = 0.5, 0.02  # the same of the live estimate: of the nominal value, and of the prior
LIVE_SIGMA = 0.03  # the same of the live estimate, whose friction does not know the load and whose errors last
UNKNOWN_FRICTION, UNSURE_FRICTION = 0.18, 0.05  # of a joint's torque limit, without and with figures of its gears
UNSURE_SHARE = 0.7  # of the first tube: what is kept of it until a model is identified
LOOK_FROM = 1.05  # of its limit: a widest interval that is expected to be wider needs no look
LOAD_STEP_S = 0.002
SLACK_RAD = 0.01  # that a joint may move in any case
LOAD_RESERVE = 0.15  # of what makes a servo switch itself off


class AdaptiveIdentification:
    """Runs adaptive identifications of one robot.

    Args:
        robot: what is known of the arm.
        settings: what it may do.
        box: free space; None: nothing is known of what stands around the arm.
        mount: how the arm is mounted.
        before: the model of the arm as it was, from which the run starts; None starts from the nominal arm.
        progress: called with one line after each segment and look.

    Attributes:
        report: called with the same as plain values.

    Raises:
        SafetyError: the rest posture is not inside the free space.
        DataError: the model before is of another robot or structure.
    """

    def __init__(
        self,
        robot: Robot,
        settings: AdaptiveSettings | None = None,
        *,
        box: SafeBox | None = None,
        mount: str | None = None,
        before: ModelFile | None = None,
        progress: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.robot, self.settings, self.progress = robot, settings or AdaptiveSettings(), progress
        self.report: Callable[[dict[str, Any]], None] = lambda values: None
        self.identification: IdentificationSettings = load_identification(robot)
        self.model, self._nominal = ArmModel.of(robot, mount=mount), nominal_torques(robot, mount)
        own = self.settings
        self._viscous = np.array([name.startswith(("FV", "FC")) for name in self.model.names])
        sizes = torque_sizes(robot, self.model, self._nominal)
        self.limits = sizes * np.where(self._viscous, own.friction_share, own.inertial_share)
        prior = INERTIAL_PRIOR if before is None else CHANGED_PRIOR
        self._prior = sizes * np.where(self._viscous, VISCOUS_PRIOR, prior)
        self.planner = SegmentPlanner(robot, own.segment_s, box, own.draws, own.candidates, own.iterations)
        self._full, self.first_tube = motion_limits(robot, own.profile), first_tube(robot)
        self._gears = gear_figures(robot, before)
        self._before = None if before is None else before.base_parameters(self.model)
        self._overload = OverloadModel.of(robot)
        self._lasting = lasting_torques(robot, self._overload)
        self.looker = Looker(robot, self.model, self.identification, own, self.limits, self._viscous)
        self.quantile = self.looker.quantile(own.longest_s)

    def start(self) -> Known:
        """The model before, or the nominal arm without friction: what its gears take is only known when it moves."""
        if self._before is not None:
            law = self._gears or FrictionLaw.of(self.robot.size, {})
            return Known(self.model, self._before, law, FIRST_SIGMA * self.robot.torque_limits)
        standard = load_nominal(self.robot, self.model.mdh, self.model.regrouping.standard)
        friction = FrictionLaw.of(self.robot.size, {})
        sigma = FIRST_SIGMA * self.robot.torque_limits
        return Known(self.model, self.model.base_parameters(standard), friction, sigma)

    def run(self, arm: Arm, name: str = "adaptive", seed: int = 0, *, to_rest: bool = False) -> AdaptiveRun:
        """Move, look, and end when the model is good enough or the time is over; `to_rest` brings the arm home then.

        Raises:
            SafetyError: no segment is safe, or there is no room where the arm stands.
        """
        self._refuse_without_room(arm.at)
        own, state = self.settings, Course(self, arm, name, seed)
        self.planner.planning_s = np.inf if arm.waits else own.planning_share * own.segment_s
        upcoming: Segment | None = state.wait_for_segment()
        precise = False
        while upcoming is not None:
            upcoming, precise = self._carried_out(state, upcoming)
        if not (state.looks and state.looks[-1].motion_s > arm.moved_s - SLACK_S):
            precise = state.look()
        looks, tracking = tuple(state.looks), np.array(state.tracking)
        segments, moved = tuple(state.segments), arm.moved_s
        if to_rest:
            try:
                state.to_rest()
            except SafetyError as error:  # what was found is not lost for that
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
        """The segment after one that is carried out, None where the run ends; and whether the model is good enough."""
        own, arm = self.settings, state.arm
        moved = arm.moved_s + segment.motion.duration
        state.segments.append(segment)
        looking = not own.segment_after(moved) or self._worth_a_look(state, moved)
        learning = not looking and own.lesson_after(state.lessons, moved)
        whole, planned = False, None
        if state.begin(segment):
            planned = None if looking or learning else state.planned_behind(segment)
            whole = state.finish(segment)
        precise = looking and state.look()
        if precise or not own.segment_after(arm.moved_s):
            return None, precise
        if learning and whole:
            state.learn()
        if whole and planned is not None:
            return planned, precise
        return state.next_or_look()

    def _refuse_without_room(self, at: FloatArray) -> None:
        """Raise SafetyError where even an arm that stands at (n,) [rad] is not proven to be inside the free space."""
        if self.planner.box is not None:
            standing = rest_to_rest("standing still", self.robot.joint_names, at, at, 1.0)
            self.planner.box.prove(standing, np.full(self.robot.size, LEAST_TUBE_RAD))

    def _worth_a_look(self, state: Course, moved: float) -> bool:
        """Whether the model may be good enough after the segment that comes, by what segments are expected to show."""
        shown_s = sum(one.motion.duration for one in (*state.shown, state.segments[-1]))
        if min(moved, shown_s) < self.settings.first_look_s - SLACK_S:
            return False
        if state.known.ratio is None:
            return True
        information = self.information([*state.shown, state.segments[-1]], state.known)
        expected = self.looker.quantile(moved) * information.deviations / information.limits
        return bool(expected[~self._viscous].max() <= LOOK_FROM)

    def tube(self, done: list[FloatArray], known: Known) -> FloatArray:
        """How far joints may be off, (n,) [rad]: by what they were, and more while no model carries them."""
        least = LEAST_TUBE_RAD if known.identified else np.maximum(LEAST_TUBE_RAD, UNSURE_SHARE * self.first_tube)
        return np.asarray(np.clip(TUBE_FACTOR * np.max(done[-2:], axis=0), least, MOST_TUBE_RAD))

    def live(self, known: Known) -> LiveEstimate:
        """The live estimate before data."""
        nominal, sigma = (known.phi.values, self._gears), LIVE_SIGMA * self.robot.torque_limits
        viscous = np.clip(VISCOUS_SHARE * known.phi.values, LEAST_VISCOUS * self._prior, self._prior)
        deviations = np.where(self._viscous, viscous, self._prior)
        return LiveEstimate.begin(self.model, self.identification, nominal, deviations, sigma)

    def followed(self, live: LiveEstimate, source: Source, known: Known) -> tuple[LiveEstimate, Known]:
        """The live estimate with what a segment showed, and the model in hand that it makes."""
        live = live.updated(source.signals(self.identification))
        phi, friction = live.model()
        return live, replace(known, phi=BaseParameters(self.model.names, phi), friction=friction)

    def learned(self, result: Identification, shown: list[Segment]) -> Known:
        """The model in hand that a recording of segments came to."""
        friction = result.friction or FrictionLaw.of(self.robot.size, {})
        known = Known(self.model, result.base, friction, np.asarray(result.estimate.residual_sigma), True)
        return replace(known, ratio=deviations(result) / self.information(shown, known).deviations)

    def information(self, planned: list[Segment], known: Known) -> Information:
        """What the segments so far show, by the model in hand.

        Its limits are smaller where deviations were found to be larger than those that were planned with.
        """
        count = LOOK_S / self.identification.sampling_interval_s
        limits = self.limits if known.ratio is None else self.limits / known.ratio
        now = Information.prior(self.model, known.phi.values, known.sigma, limits, self._prior)
        for segment in planned:
            now = now.seen(segment.states, count)
        return now

    def segment(
        self,
        name: str,
        start: FloatArray,
        shown: list[Segment],
        known: Known,
        tube: FloatArray,
        load: FloatArray,
        seed: int,
        caution: float = 1.0,
        length_s: float | None = None,
    ) -> Segment:
        """The segment from a posture (n,) [rad] after those that were shown; `caution` is a share of range and speed.

        `length_s` is other than the usual one where less time is left [s].

        Raises:
            SafetyError: none is safe.
        """
        k = len(shown)
        share = caution * self.settings.stages[min(k, len(self.settings.stages) - 1)]
        full, information = self._full, self.information(shown, known)
        # a share of the ranges around where the arm stands, so that it never has to leave them
        low, high = (np.maximum(full.lower, self.robot.lower + tube), np.minimum(full.upper, self.robot.upper - tube))
        lower = np.minimum(start - SLACK_RAD, np.maximum(low, start - share * (full.upper - full.lower)))
        upper = np.maximum(start + SLACK_RAD, np.minimum(high, start + share * (full.upper - full.lower)))
        limits = replace(
            full, lower=lower, upper=upper, velocity=share * full.velocity, acceleration=share * full.acceleration
        )
        unknown = UNKNOWN_FRICTION if self._gears is None else UNSURE_FRICTION
        doubt = known.doubt(information, unknown * self.robot.torque_limits)
        frame = Frame(limits, known.most(doubt), known.expected, tube, load + LOAD_RESERVE, self._lasting, doubt)
        interval = self.identification.sampling_interval_s
        planner = self.planner.of_length(length_s or self.settings.segment_s)
        return planner.plan(f"{name} {k + 1}", start, frame, information, interval, 1000 * seed + k)

    def check_way(self, motion: PolynomialTrajectory, known: Known, tube: FloatArray, load: FloatArray) -> None:
        """Raise SafetyError where a motion that identification does not need is not safe."""
        moving = known.feed.moving
        limits = robot_limits(self.robot, self._full.acceleration)
        self.planner.check(motion, Frame(limits, moving, moving, tube, load, self._lasting))

    def loaded(self, motion: PolynomialTrajectory, known: Known, load: FloatArray) -> FloatArray:
        """What is used up after a motion of what makes servos switch themselves off, (n,)."""
        if self._overload is None:
            return load
        times = np.arange(0.0, motion.duration, LOAD_STEP_S)
        tau = model_torques(self.model, known.phi, known.friction)(*motion.sample_all(times))
        return np.asarray(self._overload.along(load, tau / self.robot.torque_constants, LOAD_STEP_S)[-1])
