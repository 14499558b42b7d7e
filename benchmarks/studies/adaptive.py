"""Adaptive identification of random arms compared with the identification motion of 41 s (39 s plus approach).

Errors are those against the true parameters. Each arm is drawn (`drawn_arms`) with the friction of real gears, and
moves with all nuisances on: once along the robot's identification motion, once adaptively, within a scene of free
space. Both models predict the same held-out motion. This is the robot's own, or, if the usual law cannot follow it
because of strong gears, further segments that the arm can follow (`held_out_planned`). If the usual law cannot follow
the identification motion, the arm's true torques are fed forward (`reference_fed`). Two errors are compared:

- the held-out torque error of joints in motion, as in the verdict;
- the parameter error: root mean square over the base parameters of their difference from the truth, in units of the
  adaptive run's limits (viscous friction is that of gears as warm as at the middle of the motion).

Violations are counted by the simulation's true values: positions, speeds, currents, the servos' overload, and
the corners of all collision shapes by pinocchio's kinematics.
"""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from benchmarks.scene_judge import SceneJudge
from benchmarks.studies.coverage import OTHER_SEED, true_base
from benchmarks.studies.drawn_arms import DrawnArm, draw_arm, record
from dynid.adaptive.current_model import CurrentModel
from dynid.adaptive.outcome import AdaptiveRun
from dynid.adaptive.session import AdaptiveIdentification
from dynid.adaptive.settings import AdaptiveSettings
from dynid.adaptive.simulated import SimulatedArm
from dynid.control.motion import MAX_TRACKING_ERROR_RAD
from dynid.control.safe_box import SafeBox, SceneFile
from dynid.errors import DynidError, SafetyError
from dynid.hardware.safety.overload import OverloadModel
from dynid.identification.data.recordings import Recording
from dynid.identification.held_out import validate
from dynid.identification.pipeline import identify
from dynid.identification.result import Identification
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters
from dynid.parallel import in_processes
from dynid.robot import FloatArray, Robot
from dynid.simulation.lockstep.run import SimulatedRun
from dynid.trajectory.families import load_excitation
from dynid.trajectory.motion import Motion
from dynid.trajectory.polynomial import rest_to_rest

PROFILE, IDENTIFICATION, HELD_OUT = "limited", "demo_identification", "V01"
ARMS = 20
MOST_MOTION_S, MOST_TORQUE, MOST_PARAMETER = 30.0, 1.1, 1.25
JUDGED_EVERY = 10  # cycles between two checks of the scene
WAY_S = 3.0  # duration of the approach to a motion's start [s]
HELD_OUT_SEGMENTS, RANDOM_DRAWS, RANDOM_ITERATIONS = 5, 8, 5  # for an arm that cannot follow the usual motion
HELD_OUT_TRIES = 20
LIMITS = ("scene", "position", "speed", "current", "overload")


@dataclass(frozen=True)
class ArmFigures:
    """Results of one arm; values that could not be compared are NaN.

    Attributes:
        seed: seed of the draw.
        motion_s, accepted, precise, looks, stopped: fields of the adaptive run.
        torque, parameter: errors of the adaptive run's model.
        torque_ratio, parameter_ratio: these errors over those of the identification motion's model.
        within: whether the true error of every parameter of links and rotors is within its limit.
        violations: for each of `LIMITS`, number of segments or motions that exceeded it.
        limited_s: time for which the controller's currents were limited [s].
        reference_overload: largest used share of a servo's overload capacity along the identification motion.
        planning_s: longest processor time for planning a segment while its predecessor ran [s].
        held: whether the true error of every parameter of links and rotors is within its interval.
        held_out_planned: whether the held-out motion consists of segments planned for this arm.
        reference_fed: whether the arm followed the identification motion only with its true torques fed forward.
        refused: why there is no adaptive model; "" if there is one.
        no_reference: why the identification motion gives no model; "" if it gives one.
    """

    seed: int
    motion_s: float = float("nan")
    accepted: bool = False
    precise: bool = False
    looks: int = 0
    stopped: int = 0
    torque: float = float("nan")
    torque_ratio: float = float("nan")
    parameter: float = float("nan")
    parameter_ratio: float = float("nan")
    within: bool = False
    violations: tuple[int, ...] = (0,) * len(LIMITS)
    limited_s: float = float("nan")
    overload: float = float("nan")
    reference_overload: float = float("nan")
    planning_s: float = float("nan")
    held: bool = False
    held_out_planned: bool = False
    reference_fed: bool = False
    refused: str = ""
    no_reference: str = ""


@dataclass(frozen=True)
class _Job:
    robot: Robot
    seed: int
    gears: str
    scene: SceneFile | None
    settings: AdaptiveSettings


def judge_arm(job: _Job) -> ArmFigures:
    """Identify one arm both ways and return the results."""
    arm, seed = draw_arm(job.robot, job.seed, job.gears), job.seed
    moved = SimulatedArm(job.robot, standard=arm.standard, friction=arm.friction, seed=seed)
    box = None if job.scene is None else SafeBox(job.robot, job.scene)
    adaptive = AdaptiveIdentification(job.robot, job.settings, box=box)
    try:
        moved.to_start(adaptive.start().feedforward)
        run = adaptive.run(moved, seed=seed)
    except DynidError as error:
        return ArmFigures(seed, refused=str(error))
    violations, overload = left_limits(job.robot, moved.run("adaptive"), job.scene)
    own = ArmFigures(
        seed,
        run.motion_s,
        run.accepted,
        run.precise,
        len(run.looks),
        run.stopped,
        violations=violations,
        limited_s=moved.limited_cycles * job.robot.file.bus.cycle_s,
        overload=overload,
        planning_s=max((one.work_s for one in run.segments if not one.waited), default=float("nan")),
    )
    if run.identification is None:
        return replace(own, refused=run.looks[-1].reason)
    return _compared(job, arm, own, run, adaptive, run.identification)


def _compared(
    job: _Job, arm: DrawnArm, own: ArmFigures, run: AdaptiveRun, adaptive: AdaptiveIdentification, found: Identification
) -> ArmFigures:
    """Return the results with the errors of both models."""
    robot, excitation, seed = job.robot, load_excitation(job.robot), job.seed
    off = (found.base.values - true_base(robot, arm, 0.5 * run.motion_s)) / run.limits
    links = ~np.array([name.startswith(("FV", "FC")) for name in adaptive.model.names])
    half = adaptive.judge.half_widths(found, run.motion_s) / run.limits
    own = replace(
        own,
        parameter=float(np.sqrt(np.mean(off**2))),
        within=bool((np.abs(off[links]) <= 1.0).all()),
        held=bool((np.abs(off) <= half)[links].all()),
    )
    try:
        held = record(robot, arm, excitation.trajectory(HELD_OUT, PROFILE), seed + OTHER_SEED).source
    except SafetyError:
        own = replace(own, held_out_planned=True)
        try:
            held = planned_motion(job, arm, run, found)
        except SafetyError as error:
            return replace(own, no_reference=f"held-out motion: {error}")
    own = replace(own, torque=validate(found.as_model(), [held]).motions[0].errors.moving)
    motion, by_law = excitation.trajectory(IDENTIFICATION, PROFILE), True
    try:
        try:
            recorded = record(robot, arm, motion, seed)
            source, driven = recorded.source, recorded.run
        except SafetyError:
            by_law = False
            source, driven = fed(robot, arm, motion, seed)
        reference = identify(robot, [source], validation=[held])
    except DynidError as error:
        return replace(own, no_reference=f"identification motion: {error}")
    other = (reference.base.values - true_base(robot, arm, 0.5 * motion.duration)) / run.limits
    return replace(
        own,
        torque_ratio=own.torque / reference.validations[0].errors.moving,
        parameter_ratio=own.parameter / float(np.sqrt(np.mean(other**2))),
        reference_overload=largest_overload(robot, driven),
        reference_fed=not by_law,
    )


def known_arm(arm: DrawnArm, model: ArmModel, sigma: FloatArray) -> CurrentModel:
    """Return a known model with the true parameters of cold gears."""
    return CurrentModel(model, BaseParameters(arm.names, arm.base), arm.friction, sigma)


def fed(robot: Robot, arm: DrawnArm, motion: Motion, seed: int) -> tuple[Recording, SimulatedRun]:
    """Return the recording of a motion with the arm's true torques fed forward, and the simulated run.

    Overload never switches the servos off.

    Raises:
        SafetyError: the arm does not follow the motion.
    """
    moved = SimulatedArm(robot, standard=arm.standard, friction=arm.friction, seed=seed, capped=False)
    known = known_arm(arm, ArmModel.of(robot), robot.torque_limits)
    moved.to_start(known.feedforward)
    for one in (rest_to_rest("way", robot.joint_names, moved.at, motion.start, WAY_S), motion):
        _followed(moved, one, known)
    return moved.source(motion.name), moved.run(motion.name)


def planned_motion(job: _Job, arm: DrawnArm, run: AdaptiveRun, found: Identification) -> Recording:
    """Return a recording of further segments, hardly optimised, executed with the arm's true torques.

    Raises:
        SafetyError: none is found, or the arm does not follow one.
    """
    robot, seed, shown = job.robot, job.seed + OTHER_SEED, list(run.segments)
    settings = AdaptiveSettings(stages=(1.0,), draws=RANDOM_DRAWS, iterations=RANDOM_ITERATIONS)
    planning = AdaptiveIdentification(robot, settings, box=None if job.scene is None else SafeBox(robot, job.scene))
    moved = SimulatedArm(robot, standard=arm.standard, friction=arm.friction, seed=seed)
    true, known = known_arm(arm, planning.model, planning.start().sigma), planning.model_of(found, shown)
    moved.to_start(true.feedforward)
    tube = planning.tube([np.zeros(robot.size)], known)
    done, refusal = 0, SafetyError("no segment was planned")
    for k in range(HELD_OUT_TRIES):
        try:
            segment = planning.segment("held out", moved.at, shown, known, tube, moved.load, seed + k)
        except SafetyError as error:
            refusal = error
            continue
        _followed(moved, segment.motion, true)
        done += 1
        if done == HELD_OUT_SEGMENTS:
            return moved.source("held out")
    raise refusal


def _followed(moved: SimulatedArm, motion: Motion, known: CurrentModel) -> None:
    size = moved.robot.size
    moved.begin(motion, known.feedforward, np.full(size, MAX_TRACKING_ERROR_RAD), np.full(size, np.inf))
    moved.finish()
    if moved.along_s < motion.duration:
        raise SafetyError(f"the arm does not follow '{motion.name}' beyond {moved.along_s:.1f} s")


def largest_overload(robot: Robot, run: SimulatedRun) -> float:
    """Return the largest used share of a servo's overload capacity."""
    model = OverloadModel.of(robot)
    if model is None:
        return 0.0
    currents = run.torque_present / robot.joint_constants
    return float(model.along(np.zeros(robot.size), currents, robot.file.bus.cycle_s).max())


def left_limits(robot: Robot, run: SimulatedRun, scene: SceneFile | None) -> tuple[tuple[int, ...], float]:
    """Return the number of axes (for the scene: instants) that left each of LIMITS, and the largest overload."""
    beyond = (run.q_true < robot.lower) | (run.q_true > robot.upper)
    fast = np.abs(run.dq_true) > robot.velocity_limits
    strong = np.abs(run.torque_command) > robot.drive_limits * robot.drive_constants
    overload = largest_overload(robot, run)
    outside = 0
    if scene is not None:
        outside = int((SceneJudge(robot).beyond(scene, run.q_true[::JUDGED_EVERY]) > scene.margin_m).sum())
    counts = (outside, *(int(one.any(axis=0).sum()) for one in (beyond, fast, strong)), int(overload >= 1.0))
    return counts, overload


@dataclass(frozen=True, eq=False)
class AdaptiveFigures:
    """Results of all arms, and the duration of the study [s]."""

    arms: tuple[ArmFigures, ...]
    seconds: float

    def _all(self, name: str) -> FloatArray:
        values = np.array([getattr(one, name) for one in self.arms], dtype=float)
        return np.asarray(values[np.isfinite(values)])

    def as_dict(self) -> dict[str, Any]:
        """Return the results as plain values, with those of every arm."""
        found: dict[str, Any] = {"arms": len(self.arms)}
        for name in ("motion_s", "torque_ratio", "parameter_ratio", "planning_s"):
            values = self._all(name)
            worst = float(values.max()) if len(values) else None
            found[f"{name}_{'max' if name.endswith('_s') else 'worst'}"] = worst
            found[f"{name}_median"] = float(np.median(values)) if len(values) else None
        found["compared"] = len(self._all("torque_ratio"))
        found["accepted"] = sum(one.accepted for one in self.arms)
        found["precise"] = sum(one.precise for one in self.arms)
        found["held_out_planned"] = sum(one.held_out_planned for one in self.arms)
        found["reference_fed"] = sum(one.reference_fed for one in self.arms)
        found["intervals_held"] = sum(one.accepted and one.held for one in self.arms)
        found["precise_within_limits"] = sum(one.precise and one.within for one in self.arms)
        found["stopped_segments"] = sum(one.stopped for one in self.arms)
        found["limited_s"] = float(self._all("limited_s").sum())
        found["limit_violations"] = int(sum(sum(one.violations) for one in self.arms))
        totals = np.sum([one.violations for one in self.arms], axis=0)
        found["violations_by_limit"] = dict(zip(LIMITS, totals.tolist(), strict=True))
        found["seconds"] = self.seconds
        found["by_arm"] = [_plain(one) for one in self.arms]
        return found

    def missed(self) -> list[str]:
        """Return a sentence for every missed limit."""
        figures, reasons = self.as_dict(), []
        bars = (
            ("motion_s_max", MOST_MOTION_S),
            ("torque_ratio_worst", MOST_TORQUE),
            ("parameter_ratio_worst", MOST_PARAMETER),
            ("limit_violations", 0),
            ("planning_s_max", AdaptiveSettings().segment_s),
        )
        for key, most in bars:
            if figures[key] is None or figures[key] > most + 1e-6:
                reasons.append(f"{key} is {figures[key]}; at most {most} is allowed")
        if figures["accepted"] < len(self.arms):
            reasons.append(f"{figures['accepted']} of {len(self.arms)} arms came to an accepted model")
        return reasons


def _plain(one: ArmFigures) -> dict[str, Any]:
    """Return one arm's results as plain values; values that could not be compared are None."""
    values = asdict(one) | {"violations": list(one.violations)}
    return {key: None if isinstance(value, float) and np.isnan(value) else value for key, value in values.items()}


def benchmark_adaptive(
    robot: Robot,
    arms: int = ARMS,
    *,
    first_seed: int = 0,
    gears: str = "M6",
    scene: SceneFile | None = None,
    settings: AdaptiveSettings | None = None,
    processes: int | None = None,
    progress: Callable[[str], None] = lambda line: None,
) -> AdaptiveFigures:
    """Identify random arms both ways; arms that cannot follow the identification motion count, too."""
    begin = time.perf_counter()
    jobs = [_Job(robot, first_seed + k, gears, scene, settings or AdaptiveSettings()) for k in range(arms)]
    found = []
    for _, figures in in_processes(judge_arm, jobs, processes):
        found.append(figures)
        progress(f"arm {figures.seed}")
    found.sort(key=lambda one: one.seed)
    return AdaptiveFigures(tuple(found), time.perf_counter() - begin)
