"""What an adaptive identification knows of its arm, and the segments that it plans with that."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from dynid.adaptive.beforehand import (
    LEAST_TUBE_RAD,
    MOST_TUBE_RAD,
    first_tube,
    gear_figures,
    lasting_torques,
    motion_limits,
)
from dynid.adaptive.frame import Frame, Segment
from dynid.adaptive.information import Information, torque_sizes
from dynid.adaptive.known import Known
from dynid.adaptive.live import LiveEstimate
from dynid.adaptive.looks import Looker, deviations
from dynid.adaptive.segment import LOOK_S, SegmentPlanner
from dynid.adaptive.settings import AdaptiveSettings
from dynid.control.motion_check import model_torques, nominal_torques, robot_limits
from dynid.control.safe_box import SafeBox
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
from dynid.trajectory.polynomial import PolynomialTrajectory

TUBE_FACTOR = 1.8  # of the largest tracking error so far
FIRST_SIGMA = 0.0015  # of a joint's torque limit: size of residuals before data
INERTIAL_PRIOR, VISCOUS_PRIOR = 0.1, 1.0  # deviations before data, as torques over those that joints take
CHANGED_PRIOR = 0.03  # the same of an arm that has changed since it was identified
VISCOUS_SHARE, LEAST_VISCOUS = 0.5, 0.02  # the same of the live estimate: of the nominal value, and of the prior
LIVE_SIGMA = 0.03  # the same of the live estimate, whose friction does not know the load and whose errors last
CHANGED_SHARPNESS = 2.0  # of the objective after a change
UNKNOWN_FRICTION, UNSURE_FRICTION = 0.18, 0.05  # of a joint's torque limit, without and with figures of its gears
UNSURE_SHARE = 0.7  # of the first tube: what is kept of it until a model is identified
LOAD_STEP_S = 0.002
SLACK_RAD = 0.01  # that a joint may move in any case
LOAD_RESERVE = 0.15  # of what makes a servo switch itself off


class Planning:
    """Plans segments of one robot by the model in hand; see `session.AdaptiveIdentification`, which runs them.

    Attributes:
        report: called with what progress says, as plain values.

    Raises:
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
        if self._before is not None:  # a change must not hide where least is known
            now = replace(now, sharpness=CHANGED_SHARPNESS)
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
        return np.asarray(self._overload.along(load, tau / self.robot.joint_constants, LOAD_STEP_S)[-1])
