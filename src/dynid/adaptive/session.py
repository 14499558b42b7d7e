"""An adaptive identification: segment after segment, each where the model in hand is least certain.

Before data a segment is small and slow, and its torques are those of the nominal arm. While a segment runs the next one
is planned, with what was recorded before it and what it is expected to show. From `first_look_s` on the arm stands
still after a segment, and `identify` judges all that was recorded; the run ends when

- its verdict is accepted, and
- the interval of every parameter of links and rotors, and of every joint's torque, is within its limit, at a confidence
  that is shared by all of them and by all looks that there may be (Bonferroni): so the promise holds whenever the run
  ends, although it was looked at repeatedly.
"""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from scipy.stats import norm

from dynid.adaptive.feed import TRANSITION_RAD_S, Feed, feed
from dynid.adaptive.information import LEAST_TORQUE, Information, torque_sizes
from dynid.adaptive.live import LiveEstimate
from dynid.adaptive.segment import Frame, Segment, SegmentPlanner
from dynid.adaptive.settings import SLACK_S, AdaptiveSettings
from dynid.adaptive.way_back import way_back_s
from dynid.control.controller import load_controller
from dynid.control.motion_check import MotionLimits, Torques, model_torques, nominal_torques, robot_limits
from dynid.control.safe_box import SafeBox
from dynid.errors import DynidError, SafetyError
from dynid.hardware.safety.overload import OverloadModel
from dynid.identification.data.sources import Source
from dynid.identification.estimators.gear_fit import start_law
from dynid.identification.pipeline import Identification, identify
from dynid.identification.settings import IdentificationSettings, load_identification
from dynid.model.dynamics import ArmModel
from dynid.model.friction import AS, WS, FrictionLaw
from dynid.model.gear_presets import gear_friction
from dynid.model.model_file import ModelFile
from dynid.model.parameters import BaseParameters
from dynid.model.standard import load_nominal
from dynid.robot import FloatArray, Robot
from dynid.trajectory.families import load_excitation
from dynid.trajectory.polynomial import PolynomialTrajectory, rest_to_rest

FIRST_SIGMA = 0.0015  # of a joint's torque limit: size of residuals before data
INERTIAL_PRIOR, VISCOUS_PRIOR = 0.1, 1.0  # deviations before data, as torques over those that joints take
CHANGED_PRIOR = 0.03  # the same of an arm that has changed since it was identified
VISCOUS_SHARE, LEAST_VISCOUS = 0.5, 0.02  # the same of the live estimate: of the nominal value, and of the prior
LIVE_SIGMA = 0.03  # the same of the live estimate, whose friction does not know the load and whose errors last
SURE = 2.0  # deviations of torques that count as possible
UNKNOWN_FRICTION, UNSURE_FRICTION = 0.18, 0.05  # of a joint's torque limit, without and with figures of its gears
FIGURES = "M6"  # of friction.yaml
TUBE_FACTOR, LEAST_TUBE_RAD, MOST_TUBE_RAD = 1.8, 0.04, 0.3  # of the largest tracking error so far
UNSURE_SHARE = 0.7  # of the first tube: what is kept of it until a model is identified
UNKNOWN_TORQUE = 0.15  # of a joint's torque limit: what may bend the first segments off their reference
LOOK_FROM = 1.05  # of its limit: a widest interval that is expected to be wider needs no look
LOAD_STEP_S = 0.002
SLACK_RAD = 0.01  # that a joint may move in any case
LOAD_RESERVE = 0.15  # of what makes a servo switch itself off
LASTING_SHARE = 0.9  # of the current that a servo bears for ever
AFTER_STOP = 0.7  # share of range and speed, once for every segment in a row that was stopped
NARROWER = (1.0, 0.6, 0.35)  # shares of a tube
SHAPE = (("ws", WS), ("a", AS))  # of fading friction, which a law without it lacks
RESTS, REST_S = 5, 3.0  # before a planner that finds nothing safe gives up
REFUSALS, OTHER_SEED = 3, 200  # segments in a row that the arm may refuse; what makes the next one another


class RefusedError(SafetyError):
    """The arm does not take a segment: what drives it finds it unsafe."""


class Arm(Protocol):
    """What carries out segments: a real arm moves between `begin` and `finish`, while the next one is planned.

    Attributes:
        at: where it stands, (n,) [rad].
        moved_s: of motion so far.
        along_s: how far along the last segment it came [s].
    """

    at: FloatArray
    moved_s: float
    along_s: float

    @property
    def load(self) -> FloatArray:
        """What is used up of what makes its servos switch themselves off, (n,)."""
        ...

    def begin(self, motion: PolynomialTrajectory, feed: Feed, tube: FloatArray, most_load: FloatArray) -> None:
        """Begin a segment, which stops where a joint is off by more than the tube (n,) [rad].

        It also stops where a servo uses up more than `most_load` (n,) of what makes it switch itself off.

        Raises:
            RefusedError: it does not begin.
        """
        ...

    def finish(self) -> FloatArray:
        """Wait until the arm stands; the largest tracking errors of the segment, (n,) [rad]."""
        ...

    def back(self, motion: PolynomialTrajectory, along_s: float, feed: Feed) -> None:
        """Go back to the start of a segment, of which so much was carried out [s]."""
        ...

    def go(self, motion: PolynomialTrajectory, feed: Feed, tube: FloatArray | None = None) -> None:
        """Follow a motion that identification does not need; SafetyError where a joint leaves the tube (n,) [rad]."""
        ...

    def hold(self, feed: Feed, duration_s: float = 1.0) -> None:
        """Stand still for a time [s]."""
        ...

    def source(self, name: str) -> Source:
        """All that was recorded so far."""
        ...


@dataclass(frozen=True, eq=False)
class Look:
    """One judgement of all that was recorded.

    Attributes:
        motion_s: of motion so far.
        widest: the widest interval over its limit, and whose it is.
        accepted: whether the verdict was.
        seconds: that it took.
        reason: why there is no model; "" where there is one.
    """

    motion_s: float
    widest: float
    parameter: str
    accepted: bool
    seconds: float
    reason: str = ""

    def as_dict(self) -> dict[str, Any]:
        """As plain values; no interval is None."""
        return asdict(self) | {"widest": self.widest if np.isfinite(self.widest) else None}


@dataclass(frozen=True, eq=False)
class AdaptiveRun:
    """An adaptive run and its model.

    Attributes:
        identification: the last look's; None where no look came to a model.
        precise: whether all intervals are within their limits.
        segments: as planned.
        looks: in order.
        tracking: largest tracking errors of each segment, (segments, n) [rad].
        limits: of the base parameters' intervals, (p,).
        motion_s: of motion in all.
        stopped: segments in which a joint left its tube, so that the arm braked.
        quantile: half an interval over its deviation.
        out_of_time: whether there was no time for another segment.
    """

    identification: Identification | None
    precise: bool
    segments: tuple[Segment, ...]
    looks: tuple[Look, ...]
    tracking: FloatArray
    limits: FloatArray
    motion_s: float
    stopped: int
    quantile: float = 1.0
    out_of_time: bool = False

    @property
    def accepted(self) -> bool:
        """Whether the last look accepted the model."""
        return self.identification is not None and self.identification.verdict.accepted

    @property
    def sentences(self) -> tuple[str, ...]:
        """How the uncertainty fell, and why the run ended."""
        return (*(said(look) for look in self.looks), self.end)

    @property
    def end(self) -> str:
        """Why the run ended, and with what, in words."""
        why = (
            "every interval is within its limit"
            if self.precise
            else "the time is over"
            if self.out_of_time
            else "no further segment is safe"
        )
        verdict = "the model is accepted" if self.accepted else "no model was accepted"
        return f"ended after {self.motion_s:.1f} s of motion: {why}; {verdict}"

    def as_dict(self) -> dict[str, Any]:
        """Segments, looks and the end, as plain values."""
        looks = [one.as_dict() for one in self.looks]
        segments = [
            {"expected": self.quantile * one.widest, "planning_s": one.seconds, "waited": one.waited}
            for one in self.segments
        ]
        return {
            "motion_s": self.motion_s,
            "accepted": self.accepted,
            "precise": self.precise,
            "end": self.end,
            "stopped_segments": self.stopped,
            "looks": looks,
            "segments": segments,
        }


@dataclass(frozen=True, eq=False)
class _Known:
    """The model in hand: what feeds forward, and what torques segments are planned with."""

    model: ArmModel
    phi: BaseParameters
    friction: FrictionLaw
    sigma: FloatArray
    identified: bool = False

    @cached_property
    def feed(self) -> Feed:
        """What it feeds forward."""
        return feed(self.model, self.phi, self.friction)


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
        planning_s = own.planning_share * own.segment_s
        self.planner = SegmentPlanner(robot, own.segment_s, box, own.draws, own.candidates, own.iterations, planning_s)
        excitation = load_excitation(robot)
        file, profile = excitation.file, excitation.file.profiles[own.profile]
        fastest = profile.speed_scale * max((max(row) for row in file.speed_factors.values()), default=1.0)
        lower, upper = excitation.limits(own.profile)
        velocity = np.minimum(fastest * np.array(file.velocity_rad_s), robot.velocity_limits)
        torque = robot_limits(robot, velocity).torque
        self._full = MotionLimits(lower, upper, velocity, fastest * excitation.acceleration_limits, torque)
        gains = load_controller(robot)
        stiffness = np.array(gains.proportional_gain_1_s2) * np.array(gains.inertia_kg_m2)
        bent = UNKNOWN_TORQUE * robot.torque_limits / stiffness
        self.first_tube = np.clip(LEAST_TUBE_RAD + bent, 0.0, MOST_TUBE_RAD)
        has_figures = (robot.folder / "friction.yaml").is_file()
        self._gears = gear_friction(robot, FIGURES).with_values({"fv": 0.0}) if has_figures else None
        self._before = None if before is None else before.base_parameters(self.model)
        if before is not None and (law := before.friction()) is not None:
            shape = self._gears or start_law(robot.size, law.transition_rad_s)
            self._gears = law.with_values(
                {k: np.where(law.values[n] > 0.0, law.values[n], shape.values[n]) for k, n in SHAPE}
            )
        self._overload = OverloadModel.of(robot)
        nominal = np.full(robot.size, np.inf) if self._overload is None else np.sqrt(self._overload.nominal)
        self._lasting = LASTING_SHARE * nominal * robot.torque_constants
        tests = (int((~self._viscous).sum()) + self.model.axes) * own.looks
        self.quantile = float(norm.ppf(1.0 - 0.5 * (1.0 - own.confidence) / tests))

    def start(self) -> _Known:
        """The model before, or the nominal arm without friction: what its gears take is only known when it moves."""
        if self._before is not None:
            law = self._gears or FrictionLaw.of(self.robot.size, {})
            return _Known(self.model, self._before, law, FIRST_SIGMA * self.robot.torque_limits)
        standard = load_nominal(self.robot, self.model.mdh, self.model.regrouping.standard)
        friction = FrictionLaw.of(self.robot.size, {})
        sigma = FIRST_SIGMA * self.robot.torque_limits
        return _Known(self.model, self.model.base_parameters(standard), friction, sigma)

    def run(self, arm: Arm, name: str = "adaptive", seed: int = 0, *, to_rest: bool = False) -> AdaptiveRun:
        """Move, look, and end when the model is good enough or the time is over; `to_rest` brings the arm home then.

        Raises:
            SafetyError: no segment is safe.
        """
        own, state = self.settings, _State(self, arm, name, seed)
        upcoming: Segment | None = state.wait_for_segment()
        precise = False
        while upcoming is not None:
            segment = upcoming
            moved = arm.moved_s + segment.motion.duration
            state.segments.append(segment)
            looking = not own.segment_after(moved) or self._worth_a_look(state, moved)
            whole, planned = False, None
            if state.begin(segment):
                planned = None if looking else state.planned_behind(segment)
                whole = state.finish(segment)
            precise = looking and state.look()
            if precise or not own.segment_after(arm.moved_s):
                break
            upcoming = planned if whole else None
            if upcoming is None:
                upcoming, precise = state.next_or_look()
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

    def judged(self, source: Source, moved: float) -> tuple[Look, Identification | None]:
        """A look at all that was recorded, and the model that it came to."""
        began = time.perf_counter()
        try:
            result = identify(self.robot, [source], settings=self.identification)
        except DynidError as error:
            return Look(moved, float("inf"), "", False, time.perf_counter() - began, str(error)), None
        shares = self.quantile * np.append(self.deviations(result) / self.limits, self._torque_share(result))
        shares[:-1][self._viscous] = 0.0
        worst = int(np.argmax(shares))
        seconds, names = time.perf_counter() - began, (*self.model.names, "torque")
        return Look(moved, float(shares[worst]), names[worst], result.verdict.accepted, seconds), result

    def _torque_share(self, result: Identification) -> float:
        """Largest deviation of a joint's predicted torques by all parameters, friction's included, over its limit.

        Of the states that were recorded; viscous friction alone trades with the rest of friction and says little.
        """
        regression = result.estimate.regression
        covariance = regression.whole_spread(regression.solve())
        if regression.beside is None:
            x = regression.W.reshape(-1, regression.axes, regression.W.shape[1])
        else:
            x = regression.beside.judged_columns()
        variance = np.einsum("knp,pq,knq->n", x, covariance, x, optimize=True) / len(x)
        size = np.sqrt(np.mean(regression.torques**2, axis=0))
        size = np.maximum(size, LEAST_TORQUE * self.robot.torque_limits)
        return float(np.max(np.sqrt(np.maximum(variance, 0.0)) / size)) / self.settings.torque_share

    @staticmethod
    def deviations(result: Identification) -> FloatArray:
        """Of the base parameters, (p,)."""
        found = result.estimate.base.standard_deviations
        assert found is not None
        return found

    def _worth_a_look(self, state: "_State", moved: float) -> bool:
        """Whether the model may be good enough after the segment that comes, by what segments are expected to show."""
        shown_s = sum(one.motion.duration for one in (*state.shown, state.segments[-1]))
        if min(moved, shown_s) < self.settings.first_look_s - SLACK_S:
            return False
        if not len(state.ratio):
            return True
        information = self.information([*state.shown, state.segments[-1]], state.known)
        expected = self.quantile * state.ratio * information.deviations / self.limits
        return bool(expected[~self._viscous].max() <= LOOK_FROM)

    def tube(self, done: list[FloatArray], known: _Known) -> FloatArray:
        """How far joints may be off, (n,) [rad]: by what they were, and more while no model carries them."""
        least = LEAST_TUBE_RAD if known.identified else np.maximum(LEAST_TUBE_RAD, UNSURE_SHARE * self.first_tube)
        return np.asarray(np.clip(TUBE_FACTOR * np.max(done[-2:], axis=0), least, MOST_TUBE_RAD))

    def live(self, known: _Known) -> LiveEstimate:
        """The live estimate before data."""
        nominal, sigma = (known.phi.values, self._gears), LIVE_SIGMA * self.robot.torque_limits
        viscous = np.clip(VISCOUS_SHARE * known.phi.values, LEAST_VISCOUS * self._prior, self._prior)
        deviations = np.where(self._viscous, viscous, self._prior)
        return LiveEstimate.begin(self.model, self.identification, nominal, deviations, sigma)

    def followed(self, live: LiveEstimate, source: Source, known: _Known) -> tuple[LiveEstimate, _Known]:
        """The live estimate with what a segment showed, and the model in hand that it makes."""
        live = live.updated(source.signals(self.identification))
        phi, friction = live.model()
        return live, replace(known, phi=BaseParameters(self.model.names, phi), friction=friction)

    def learned(self, result: Identification) -> _Known:
        """The model in hand that a look came to."""
        friction = result.friction or FrictionLaw.of(self.robot.size, {})
        return _Known(self.model, result.base, friction, np.asarray(result.estimate.residual_sigma), True)

    def information(self, planned: list[Segment], known: _Known) -> Information:
        """What the segments so far show, by the model in hand."""
        ratio = 0.1 / self.identification.sampling_interval_s
        now = Information.prior(self.model, known.phi.values, known.sigma, self.limits, self._prior)
        for segment in planned:
            now = now.seen(segment.states, ratio)
        return now

    def segment(
        self,
        name: str,
        start: FloatArray,
        shown: list[Segment],
        known: _Known,
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
        most = self._most_torque(known, information)
        frame = Frame(limits, most, known.feed.moving, tube, load + LOAD_RESERVE, self._lasting)
        interval = self.identification.sampling_interval_s
        planner = self.planner.of_length(length_s or self.settings.segment_s)
        return planner.plan(f"{name} {k + 1}", start, frame, information, interval, 1000 * seed + k)

    def _most_torque(self, known: _Known, information: Information) -> Torques:
        """What a motion may take: the model's torques and its possible error, away from zero."""
        inverse = np.linalg.inv(information.A)
        covariance = (inverse @ information.B @ inverse)[-len(self.limits) :, -len(self.limits) :]
        unknown = UNKNOWN_FRICTION if self._gears is None else UNSURE_FRICTION
        spare = 0.0 if known.identified else unknown * self.robot.torque_limits
        torques = model_torques(self.model, known.phi, known.friction)

        def most(q: FloatArray, dq: FloatArray, ddq: FloatArray) -> FloatArray:
            tau, W = torques(q, dq, ddq), self.model.regressor(q, dq, ddq)
            off = np.sqrt(np.einsum("knp,pq,knq->kn", W, covariance, W, optimize=True))
            # friction resists the motion: it adds to the load on the way up, and carries a part of it on the way down
            rubbed = tau + spare * np.tanh(dq / TRANSITION_RAD_S)
            tau = np.where(np.abs(rubbed) > np.abs(tau), rubbed, tau)
            return np.asarray(tau + np.sign(tau) * SURE * off)

        return most

    def check_way(self, motion: PolynomialTrajectory, known: _Known, tube: FloatArray, load: FloatArray) -> None:
        """Raise SafetyError where a motion that identification does not need is not safe."""
        moving = known.feed.moving
        limits = robot_limits(self.robot, self._full.acceleration)
        self.planner.check(motion, Frame(limits, moving, moving, tube, load, self._lasting))

    def loaded(self, motion: PolynomialTrajectory, known: _Known, load: FloatArray) -> FloatArray:
        """What is used up after a motion of what makes servos switch themselves off, (n,)."""
        if self._overload is None:
            return load
        times = np.arange(0.0, motion.duration, LOAD_STEP_S)
        tau = model_torques(self.model, known.phi, known.friction)(*motion.sample_all(times))
        return np.asarray(self._overload.along(load, tau / self.robot.torque_constants, LOAD_STEP_S)[-1])


class _State:
    """What is known in the course of one run."""

    def __init__(self, parent: AdaptiveIdentification, arm: Arm, name: str, seed: int) -> None:
        self.parent, self.arm, self.name, self.seed = parent, arm, name, seed
        self.known = parent.start()
        self.live, self.tube = parent.live(self.known), parent.first_tube
        self.ratio = np.zeros(0)
        self.segments: list[Segment] = []
        self.shown: list[Segment] = []
        self.tracking: list[FloatArray] = []
        self.looks: list[Look] = []
        self.found: Identification | None = None
        self.stopped = self.in_a_row = self.refused = 0
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
                if rests == RESTS:
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
        self.arm.back(motion, along, self.known.feed)

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
        look, result = parent.judged(self.arm.source(self.name), self.arm.moved_s)
        self.looks.append(look)
        parent.progress(said(look))
        parent.report({"kind": "look"} | look.as_dict())
        if result is None:
            return False
        self.found, self.known = result, parent.learned(result)
        self.ratio = parent.deviations(result) / parent.information(self.shown, self.known).deviations
        # the promise is shared by so many looks; one more would be more than was promised
        return look.accepted and look.widest <= 1.0 and len(self.looks) <= parent.settings.looks


def said(look: Look) -> str:
    """One line about a look."""
    if look.reason:
        return f"{look.motion_s:5.1f} s  no model yet: {look.reason}"
    verdict = "accepted" if look.accepted else "not accepted"
    return f"{look.motion_s:5.1f} s  {verdict}; widest interval {look.widest:.2f} of its limit ({look.parameter})"
