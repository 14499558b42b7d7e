"""Short adaptive runs of random arms in random scenes: limits, refusals, and coverage of intervals.

Each run draws an arm (`drawn_arms`) and a scene (`drawn_scenes`), moves for `LONGEST_S` with all nuisances on, and is
judged by limits that are coarse enough for its intervals to be within them on many arms. Violations are counted by the
true motion, see `adaptive.left_limits`. Two claims are checked with the true parameters of links and rotors:

- of runs with an accepted model and intervals within their limits (`precise`), the share with every true
  error within its limit;
- of all accepted models, the share with every true error within its interval.
"""

import re
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from benchmarks.studies.adaptive import LIMITS, left_limits
from benchmarks.studies.coverage import true_base
from benchmarks.studies.drawn_arms import draw_arm
from benchmarks.studies.drawn_scenes import draw_scene
from dynid.adaptive.outcome import AdaptiveRun
from dynid.adaptive.session import AdaptiveIdentification
from dynid.adaptive.settings import AdaptiveSettings
from dynid.adaptive.simulated import SimulatedArm
from dynid.control.safe_box import SafeBox
from dynid.errors import DynidError
from dynid.parallel import in_processes
from dynid.robot import FloatArray, Robot

SCENES = 200
LONGEST_S = FIRST_LOOK_S = 9.0  # longest motion, and motion before the first update [s]
PRECISION = 10.0  # limit [%], coarse enough for many runs to reach it
DRAWS, ITERATIONS = 48, 20  # effort of planning: limits must be kept even with little optimisation
HELD = 0.95  # share of runs for which a claim must hold
IN_WORDS = re.compile(r"link \d+ comes within .* m of the border '[^']+'")


@dataclass(frozen=True)
class SceneFigures:
    """Results of one run.

    Attributes:
        seed: seed of arm, scene and nuisances.
        refused: why the arm did not move; "" if it did.
        in_words: whether this message names link and border.
        ended: sentence why the run ended.
        motion_s, segments, stopped, accepted, precise: of the run.
        violations: by limit, see `left_limits`.
        overload: largest used share of a servo's overload capacity.
        within: whether every true error of links and rotors is within its limit; None without a model.
        held: whether it is within its interval.
        worst: largest ratio of a true error to its interval.
        widest: largest ratio of an interval to its limit at the last update; None without a model.
        error: largest ratio of a true error to its limit.
    """

    seed: int
    refused: str = ""
    in_words: bool = False
    ended: str = ""
    motion_s: float = 0.0
    segments: int = 0
    stopped: int = 0
    accepted: bool = False
    precise: bool = False
    violations: tuple[int, ...] = (0,) * len(LIMITS)
    overload: float = 0.0
    within: bool | None = None
    held: bool | None = None
    worst: float | None = None
    widest: float | None = None
    error: float | None = None


@dataclass(frozen=True)
class _Job:
    robot: Robot
    seed: int
    gears: str
    settings: AdaptiveSettings


def scene_settings(precision: float = PRECISION) -> AdaptiveSettings:
    """Return the settings of the runs; `precision` [%] is the limit of links and rotors."""
    own = AdaptiveSettings(longest_s=LONGEST_S, first_look_s=FIRST_LOOK_S, draws=DRAWS, iterations=ITERATIONS)
    return own.as_precise_as(precision).model_copy(update={"update_times_s": ()})


def judge_scene(job: _Job) -> SceneFigures:
    """Run one arm in one scene and return the results."""
    robot, seed = job.robot, job.seed
    arm, scene = draw_arm(robot, seed, job.gears), draw_scene(robot, seed)
    moved = SimulatedArm(robot, standard=arm.standard, friction=arm.friction, seed=seed)
    try:
        adaptive = AdaptiveIdentification(robot, job.settings, box=SafeBox(robot, scene))
        moved.to_start(adaptive.start().feedforward)
        run = adaptive.run(moved, seed=seed)
    except DynidError as error:
        return SceneFigures(seed, str(error), bool(IN_WORDS.search(str(error))))
    violations, overload = left_limits(robot, moved.run("adaptive"), scene)
    judged = _held(adaptive, run, true_base(robot, arm, 0.5 * run.motion_s))
    return SceneFigures(
        seed,
        ended=run.end,
        motion_s=run.motion_s,
        segments=len(run.segments),
        stopped=run.stopped,
        accepted=run.accepted,
        precise=run.precise,
        violations=violations,
        overload=overload,
        **judged,
    )


def _held(adaptive: AdaptiveIdentification, run: AdaptiveRun, true: FloatArray) -> dict[str, Any]:
    """Return the fields of `SceneFigures` that compare with the true parameters (p,)."""
    if run.identification is None:
        return {}
    links = ~np.array([name.startswith(("FV", "FC")) for name in adaptive.model.names])
    off = np.abs(run.identification.base.values - true)[links]
    half, error = adaptive.judge.half_widths(run.identification, run.motion_s)[links], off / run.limits[links]
    return {
        "within": bool((error <= 1.0).all()),
        "held": bool((off <= half).all()),
        "worst": float((off / half).max()),
        "widest": run.looks[-1].widest,
        "error": float(error.max()),
    }


@dataclass(frozen=True, eq=False)
class ScenesFigures:
    """Results of all runs, and the duration of the study [s]."""

    runs: tuple[SceneFigures, ...]
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        """Return the results as plain values, with those of every run."""
        moved = [one for one in self.runs if not one.refused]
        precise = [one for one in moved if one.precise]
        judged = [one for one in moved if one.accepted]
        totals = np.sum([one.violations for one in self.runs], axis=0)
        return {
            "scenes": len(self.runs),
            "moved": len(moved),
            "refused": len(self.runs) - len(moved),
            "refused_in_words": sum(one.in_words for one in self.runs if one.refused),
            "limit_violations": int(totals.sum()),
            "violations_by_limit": dict(zip(LIMITS, totals.tolist(), strict=True)),
            "overload_max": max((one.overload for one in moved), default=0.0),
            "stopped_segments": sum(one.stopped for one in moved),
            "segments": sum(one.segments for one in moved),
            "motion_s_max": max((one.motion_s for one in moved), default=0.0),
            "accepted": len(judged),
            "precise": len(precise),
            "precise_within_limits": sum(bool(one.within) for one in precise),
            "intervals_held": sum(bool(one.held) for one in judged),
            "seconds": self.seconds,
            "by_scene": [asdict(one) | {"violations": list(one.violations)} for one in self.runs],
        }

    def missed(self) -> list[str]:
        """Return a sentence for every missed limit."""
        figures, reasons = self.as_dict(), []
        if figures["limit_violations"]:
            reasons.append(f"limit_violations is {figures['limit_violations']}; none is allowed")
        for one in self.runs:
            if one.refused and not one.in_words:
                reasons.append(f"scene {one.seed} is refused without link and border: {one.refused}")
        for part, whole in (("precise_within_limits", "precise"), ("intervals_held", "accepted")):
            if figures[part] < HELD * figures[whole]:
                reasons.append(f"{part} is {figures[part]} of {figures[whole]}; at least {HELD:.0%} are promised")
        return reasons


def benchmark_scenes(
    robot: Robot,
    scenes: int = SCENES,
    *,
    first_seed: int = 0,
    gears: str = "M6",
    precision: float = PRECISION,
    processes: int | None = None,
    progress: Callable[[str], None] = lambda line: None,
) -> ScenesFigures:
    """Run random arms in random scenes and return the results.

    Args:
        robot: robot around which arms are drawn.
        scenes: number of runs.
        first_seed: seed of the first run; the following seeds are consecutive.
        gears: friction model, see `draw_arm`.
        precision: limit of links and rotors [%].
        processes: number of processes; None is one per core.
        progress: called with a line after each run.
    """
    begin = time.perf_counter()
    jobs = [_Job(robot, first_seed + k, gears, scene_settings(precision)) for k in range(scenes)]
    found = []
    for _, one in in_processes(judge_scene, jobs, processes):
        found.append(one)
        progress(f"scene {one.seed}, {sum(sum(run.violations) for run in found)} violations")
    found.sort(key=lambda one: one.seed)
    return ScenesFigures(tuple(found), time.perf_counter() - begin)
