"""Prior knowledge of an adaptive identification, and the planning of its segments."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from dynid.adaptive.current_model import CurrentModel
from dynid.adaptive.information import Information, torque_sizes
from dynid.adaptive.judgement import RecordingJudge, deviations
from dynid.adaptive.live import LiveEstimate
from dynid.adaptive.prior_knowledge import (
    LEAST_TUBE_RAD,
    MOST_TUBE_RAD,
    first_tube,
    gear_figures,
    lasting_torques,
    motion_limits,
)
from dynid.adaptive.segment import PLANNING_S, SegmentPlanner
from dynid.adaptive.segment_constraints import Segment, SegmentConstraints
from dynid.adaptive.settings import AdaptiveSettings
from dynid.control.motion_check import model_torques, nominal_torques, robot_limits
from dynid.control.safe_box import SafeBox
from dynid.hardware.safety.overload import OverloadModel
from dynid.identification.data.recordings import Recording
from dynid.identification.result import Identification
from dynid.identification.settings import IdentificationSettings, load_identification
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FrictionLaw
from dynid.model.model_file import ModelFile
from dynid.model.parameters import BaseParameters
from dynid.model.standard import load_nominal
from dynid.model.transmission import Transmission
from dynid.robot import FloatArray, Robot
from dynid.trajectory.polynomial import PolynomialTrajectory

TUBE_FACTOR = 1.8  # allowed tracking error over the largest one of the last two segments
PRIOR_SIGMA = 0.0015  # prior residual size [share of the torque limit]
INERTIAL_PRIOR, VISCOUS_PRIOR = 0.1, 1.0  # prior standard deviations, as relative torques (`torque_sizes`)
CHANGED_PRIOR = 0.03  # prior standard deviation with a previous model, as a relative torque
# prior standard deviation of viscous friction: share of the nominal value, and least share of `VISCOUS_PRIOR`
VISCOUS_SHARE, LEAST_VISCOUS = 0.5, 0.02
LIVE_SIGMA = 0.03  # residual size of the online estimate [share of the torque limit]; its simple friction law errs more
CHANGED_SHARPNESS = 2.0  # sharpness of the objective after a change
UNKNOWN_FRICTION, GEAR_FRICTION = 0.18, 0.05  # friction bound without and with gear data [share of the torque limit]
UNIDENTIFIED_SHARE = 0.7  # least allowed tracking error until a model is identified, over the initial one
LOAD_STEP_S = 0.002
FREE_MOVEMENT_RAD = 0.01  # distance from the start posture that position limits always permit [rad]
LOAD_RESERVE = 0.15  # reserve that planning adds to the present use of a servo's overload limit [share of the limit]


class Planning:
    """Planner of the segments of one robot with the current model; `session.AdaptiveIdentification` executes them.

    Args:
        robot: the robot, whose files state the prior knowledge of the arm.
        settings: settings of the run.
        box: free space; None if the surroundings of the arm are unknown.
        mount: mount of the arm.
        before: previous model of the arm; None plans with the nominal arm at first.
        progress: function that is called with one line of text on the progress, for the user.

    Attributes:
        report: function that is called with a dictionary of results after each segment and each precision check, for
            programs; it does nothing unless the caller replaces it.

    Raises:
        DataError: the previous model is of another robot or structure.
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
        self._overload, self._transmission = OverloadModel.of(robot), Transmission(robot)
        self._lasting = lasting_torques(robot, self._overload)
        self.judge = RecordingJudge(robot, self.model, self.identification, own, self.limits, self._viscous)
        self.quantile = self.judge.quantile(own.longest_s)

    def start(self) -> CurrentModel:
        """Return the model before any motion: the previous model, or the nominal arm without friction."""
        if self._before is not None:
            law = self._gears or FrictionLaw.of(self.robot.size, {})
            return CurrentModel(self.model, self._before, law, PRIOR_SIGMA * self.robot.torque_limits)
        standard = load_nominal(self.robot, self.model.mdh, self.model.regrouping.standard)
        friction = FrictionLaw.of(self.robot.size, {})
        sigma = PRIOR_SIGMA * self.robot.torque_limits
        return CurrentModel(self.model, self.model.base_parameters(standard), friction, sigma)

    def tube(self, done: list[FloatArray], known: CurrentModel) -> FloatArray:
        """Return the maximum tracking errors (n,) [rad] of the next segment.

        They are each joint's largest tracking error in the last two executed segments, times `TUBE_FACTOR`, but at
        least `LEAST_TUBE_RAD` and at most `MOST_TUBE_RAD`.

        Args:
            done: largest tracking errors of each executed segment, (n,) [rad] each; at least one segment.
            known: current model. If it was not identified, the minimum is at least the share `UNIDENTIFIED_SHARE` of
                the first segment's maximum tracking errors.
        """
        least = LEAST_TUBE_RAD if known.identified else np.maximum(LEAST_TUBE_RAD, UNIDENTIFIED_SHARE * self.first_tube)
        return np.asarray(np.clip(TUBE_FACTOR * np.max(done[-2:], axis=0), least, MOST_TUBE_RAD))

    def live(self, known: CurrentModel) -> LiveEstimate:
        """Return the online estimate of parameters at the start of a run, before any samples.

        Args:
            known: current model, from which the prior values are taken.
        """
        nominal, sigma = (known.phi.values, self._gears), LIVE_SIGMA * self.robot.torque_limits
        viscous = np.clip(VISCOUS_SHARE * known.phi.values, LEAST_VISCOUS * self._prior, self._prior)
        deviations = np.where(self._viscous, viscous, self._prior)
        return LiveEstimate.begin(self.model, self.identification, nominal, deviations, sigma)

    def update_estimate(
        self, live: LiveEstimate, source: Recording, known: CurrentModel
    ) -> tuple[LiveEstimate, CurrentModel]:
        """Return the online estimate after another segment, and the current model updated to this estimate.

        The returned model has the base parameters and the friction law of the new online estimate.

        Args:
            live: online estimate before the segment.
            source: recording so far, which includes the segment.
            known: current model before the segment.
        """
        live = live.updated(source.signals(self.identification))
        phi, friction = live.model()
        return live, replace(known, phi=BaseParameters(self.model.names, phi), friction=friction)

    def model_of(self, result: Identification, shown: list[Segment]) -> CurrentModel:
        """Convert an identification to a current model.

        The model's `ratio` compares the standard deviations of the identification with those that planning expects.

        Args:
            result: the identification.
            shown: completed segments that the identified recording contains; the expected standard deviations are
                computed from them.
        """
        friction = result.friction or FrictionLaw.of(self.robot.size, {})
        known = CurrentModel(self.model, result.base, friction, np.asarray(result.estimate.residual_sigma), True)
        return replace(known, ratio=deviations(result) / self.information(shown, known).deviations)

    def information(self, planned: list[Segment], known: CurrentModel) -> Information:
        """Return the information that planned segments are expected to give, computed with the current model `known`.

        The result also contains the limits of the parameters' standard deviations. If `known` was identified, its
        standard deviations were `known.ratio` times the expected ones. The limits are divided by these factors, to
        correct for the error of the expectation.

        Args:
            planned: executed or planned segments, whose planned states are added to the prior information.
            known: current model.
        """
        count = PLANNING_S / self.identification.sampling_interval_s
        limits = self.limits if known.ratio is None else self.limits / known.ratio
        now = Information.prior(self.model, known.phi.values, known.sigma, limits, self._prior)
        if self._before is not None:  # the widest intervals matter most: a change may be in any parameter
            now = replace(now, sharpness=CHANGED_SHARPNESS)
        for segment in planned:
            now = now.with_states(segment.states, count)
        return now

    def segment(
        self,
        name: str,
        start: FloatArray,
        shown: list[Segment],
        known: CurrentModel,
        tube: FloatArray,
        load: FloatArray,
        seed: int,
        caution: float = 1.0,
        length_s: float | None = None,
    ) -> Segment:
        """Plan and return the next segment from the posture `start`.

        Args:
            name: first part of the segment's name.
            start: posture from which the segment starts, (n,) [rad].
            shown: completed segments, whose information planning includes.
            known: current model.
            tube: maximum tracking errors, (n,) [rad].
            load: used fraction of each servo's overload capacity at the start, (n,) [-].
            seed: seed of the random initial guesses.
            caution: factor on the joints' ranges of motion, speeds and accelerations [-]; smaller is more cautious.
            length_s: duration of the segment [s]; None uses that of the settings.

        Raises:
            SafetyError: no segment is safe.
        """
        k = len(shown)
        share = caution * self.settings.stages[min(k, len(self.settings.stages) - 1)]
        full, information = self._full, self.information(shown, known)
        # the limits enclose the start posture, from which each joint may move by a share of its range
        low, high = (np.maximum(full.lower, self.robot.lower + tube), np.minimum(full.upper, self.robot.upper - tube))
        lower = np.minimum(start - FREE_MOVEMENT_RAD, np.maximum(low, start - share * (full.upper - full.lower)))
        upper = np.maximum(start + FREE_MOVEMENT_RAD, np.minimum(high, start + share * (full.upper - full.lower)))
        limits = replace(
            full, lower=lower, upper=upper, velocity=share * full.velocity, acceleration=share * full.acceleration
        )
        unknown = UNKNOWN_FRICTION if self._gears is None else GEAR_FRICTION
        uncertainty = known.uncertainty(information, unknown * self.robot.torque_limits)
        frame = SegmentConstraints(
            limits, known.most(uncertainty), known.expected, tube, load + LOAD_RESERVE, self._lasting, uncertainty
        )
        interval = self.identification.sampling_interval_s
        planner = self.planner.of_length(length_s or self.settings.segment_s)
        return planner.plan(f"{name} {k + 1}", start, frame, information, interval, 1000 * seed + k)

    def check_way(self, motion: PolynomialTrajectory, known: CurrentModel, tube: FloatArray, load: FloatArray) -> None:
        """Raise SafetyError if a motion that does not serve the identification is unsafe.

        Args:
            motion: the motion.
            known: current model, which predicts the torques.
            tube: maximum tracking errors, (n,) [rad].
            load: used fraction of each servo's overload capacity at the start, (n,) [-].
        """
        moving = known.feedforward.moving
        limits = robot_limits(self.robot, self._full.acceleration)
        self.planner.check(motion, SegmentConstraints(limits, moving, moving, tube, load, self._lasting))

    def loaded(self, motion: PolynomialTrajectory, known: CurrentModel, load: FloatArray) -> FloatArray:
        """Return the used fraction of each servo's overload capacity after a motion, (n,) [-].

        Args:
            motion: the motion.
            known: current model, which predicts the motor currents.
            load: used fraction of each servo's overload capacity before the motion, (n,) [-].
        """
        if self._overload is None:
            return load
        times = np.arange(0.0, motion.duration, LOAD_STEP_S)
        tau = model_torques(self.model, known.phi, known.friction)(*motion.sample_all(times))
        currents = self._transmission.currents_for(tau)
        return np.asarray(self._overload.along(load, currents, LOAD_STEP_S)[-1])
