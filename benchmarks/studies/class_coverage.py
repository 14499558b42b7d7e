"""Coverage of stated intervals by class of motion, and shares of accepted and converged results.

Arms are drawn and judged as in `coverage`, on individual motions (`motion_classes`), and the complete `identify`
runs, so that its verdict counts. Parameters are gathered in groups: rotors, inertias, gravity (first moments) and
friction.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from benchmarks.studies.coverage import LEVEL, QUANTILE, true_base
from benchmarks.studies.drawn_arms import draw_arm, record
from benchmarks.studies.motion_classes import MotionClass, as_recorded, as_worn, drawn_motion
from benchmarks.studies.shares import share_of
from dynid.errors import DynidError, SafetyError
from dynid.identification.pipeline import identify
from dynid.identification.result import Identification
from dynid.model.drive import kind_and_number
from dynid.parallel import in_processes
from dynid.robot import FloatArray, Robot

LEAST, MOST = 0.85, 0.97  # limits of the coverage of 90 % intervals
FARTHEST, LARGEST = 5.0, 0.05  # largest error of accepted results [deviations; share of gravity's torque]
SETTLED = 0.98  # smallest share of arms with a converged friction fit
MOST_DRAWS = 3  # draws for each arm that counts
GROUPS = {
    "IA": "rotor",
    **dict.fromkeys(("XX", "XY", "XZ", "YY", "YZ", "ZZ"), "inertia"),
    **dict.fromkeys(("MX", "MY", "MZ"), "gravity"),
    **dict.fromkeys(("FV", "FC", "OF"), "friction"),
}


@dataclass(frozen=True, eq=False)
class ArmOfClass:
    """Result of one arm of a class.

    Attributes:
        name: name of the class.
        seed: seed of the draw.
        groups: groups of the base parameters, (p,).
        errors: errors of the result in stated standard deviations, (p,).
        gravity: error of the gravity parameters relative to the largest of them.
        settled: whether the friction fit has converged.
        accepted: whether the verdict accepts.
        failed: ids of the checks that fail.
        noted: whether a note or a suspicion reports a fault.
        refused: why the arm is not counted; "" if it is.
    """

    name: str
    seed: int
    groups: tuple[str, ...] = ()
    errors: FloatArray = field(default_factory=lambda: np.zeros(0))
    gravity: float = 0.0
    settled: bool = False
    accepted: bool = False
    failed: tuple[str, ...] = ()
    noted: bool = False
    refused: str = ""


@dataclass(frozen=True)
class _Job:
    robot: Robot
    name: str
    of: MotionClass
    seed: int


def group_of(name: str) -> str:
    """Return the group of a base parameter, by its kind; regrouped ones end in R before their number."""
    return GROUPS[kind_and_number(name)[0].removesuffix("R")]


def judge_arm_of_class(job: _Job) -> ArmOfClass:
    """Draw an arm and its motion, identify it as a user would, and compare the result with the truth."""
    robot, of = as_worn(job.robot, job.of), job.of
    try:
        arm = draw_arm(robot, job.seed, of.gears, full=of.full)
        run = record(robot, arm, drawn_motion(robot, of, job.seed), job.seed)
    except SafetyError as error:
        return ArmOfClass(job.name, job.seed, refused=f"not recorded: {error}")
    source = replace(run.source, signals=lambda settings: as_recorded(run.source.signals(settings), of))
    try:
        found = identify(robot, [source])
    except DynidError as error:
        return ArmOfClass(job.name, job.seed, refused=f"not identified: {error}")
    window = source.signals(found.settings).window or (0.0, of.seconds)
    truth = true_base(robot, arm, 0.5 * (window[0] + window[1]))
    return _of_result(job, found, truth)


def _of_result(job: _Job, found: Identification, truth: FloatArray) -> ArmOfClass:
    deviations, beside = found.estimate.base.standard_deviations, found.estimate.regression.joint_friction
    assert deviations is not None
    groups = tuple(group_of(name) for name in found.base.names)
    gravity = np.array([group == "gravity" for group in groups])
    off = found.base.values - truth
    return ArmOfClass(
        job.name,
        job.seed,
        groups,
        off / deviations,
        float(np.abs(off[gravity]).max() / np.abs(truth[gravity]).max()),
        beside is None or beside.fit.settled,
        found.verdict.accepted,
        tuple(one.id for one in found.verdict.failed),
        bool(found.notes or found.diagnosis.sentences),
    )


@dataclass(frozen=True, eq=False)
class ClassCoverage:
    """Coverage of the intervals of one class.

    Attributes:
        name: name of the class.
        about: description of the class.
        arms: arms that were counted.
        refused: arms that were not counted.
    """

    name: str
    about: str
    arms: tuple[ArmOfClass, ...]
    refused: tuple[ArmOfClass, ...]

    def _errors(self, group: str | None) -> FloatArray:
        parts = [one.errors[[group in (None, own) for own in one.groups]] for one in self.arms]
        return np.concatenate(parts) if parts else np.zeros(0)

    def as_dict(self) -> dict[str, Any]:
        """Return shares and sizes of errors as plain values."""
        groups = sorted({group for one in self.arms for group in one.groups})
        accepted = [one for one in self.arms if one.accepted]
        return {
            "about": self.about,
            "arms": len(self.arms),
            "coverage": {group: _held(self._errors(group)) for group in groups},
            "coverage_all": _held(self._errors(None)),
            "rms_deviations": {group: _rms(self._errors(group)) for group in groups},
            "settled": share_of(one.settled for one in self.arms),
            "accepted": share_of(one.accepted for one in self.arms),
            "worst_accepted_deviations": max((float(np.abs(one.errors).max()) for one in accepted), default=0.0),
            "worst_accepted_gravity": max((one.gravity for one in accepted), default=0.0),
            "failed_checks": sorted({name for one in self.arms for name in one.failed}),
            "refused": {str(one.seed): one.refused for one in self.refused},
        }

    def missed(self) -> list[str]:
        """Return a sentence for every limit that this class misses."""
        if not self.arms:
            return [f"{self.name}: no arm came to a model"]
        found, own = [], self.as_dict()
        for group, share in own["coverage"].items():
            if not LEAST <= share <= MOST:
                found.append(
                    f"{self.name}: intervals of {100 * LEVEL:.0f} % hold {100 * share:.1f} % of the {group} "
                    f"parameters; expected are {100 * LEAST:.0f} to {100 * MOST:.0f} %"
                )
        if own["settled"] < SETTLED:
            found.append(
                f"{self.name}: {100 * own['settled']:.0f} % of the fits settled, at least {100 * SETTLED:.0f} %"
            )
        for one in self.arms:
            gravity = np.abs(one.errors[[group == "gravity" for group in one.groups]]).max()
            if one.accepted and (gravity > FARTHEST or (one.gravity > LARGEST and not one.noted)):
                found.append(
                    f"{self.name}: seed {one.seed} is accepted with a gravity parameter {gravity:.1f} deviations off, "
                    f"by {100 * one.gravity:.1f} %"
                )
        return found


def _held(errors: FloatArray) -> float:
    return float(np.mean(np.abs(errors) <= QUANTILE)) if len(errors) else float("nan")


def _rms(errors: FloatArray) -> float:
    return float(np.sqrt(np.mean(errors**2))) if len(errors) else float("nan")


@dataclass(frozen=True, eq=False)
class Classes:
    """Coverage of every class, and the duration of the study [s]."""

    classes: tuple[ClassCoverage, ...]
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        """Return all classes as plain values."""
        return {"seconds": self.seconds, "classes": {one.name: one.as_dict() for one in self.classes}}

    def missed(self) -> list[str]:
        """Return a sentence for every missed limit."""
        return [reason for one in self.classes for reason in one.missed()]


def benchmark_classes(
    robot: Robot,
    classes: Mapping[str, MotionClass],
    arms: int,
    *,
    first_seed: int = 0,
    processes: int | None = None,
    progress: Callable[[str], None] = lambda stage: None,
) -> Classes:
    """Measure the coverage of some classes with a number of arms each.

    Args:
        robot: robot around which arms are drawn, with a controller and the identification motion.
        classes: classes by name.
        arms: number of arms of each class that count; at most `MOST_DRAWS` times as many are drawn to reach it.
        first_seed: seed of each class's first arm.
        processes: number of processes; None is one per core.
        progress: called with a line after each arm.
    """
    begin, done = time.perf_counter(), 0
    found: list[ClassCoverage] = []
    for name, one in classes.items():
        counted: list[ArmOfClass] = []
        refused: list[ArmOfClass] = []
        seed = first_seed
        while len(counted) < arms and seed < first_seed + MOST_DRAWS * arms:
            jobs = [_Job(robot, name, one, seed + k) for k in range(arms - len(counted))]
            seed += len(jobs)
            for _, arm in in_processes(judge_arm_of_class, jobs, processes):
                (refused if arm.refused else counted).append(arm)
                done += not arm.refused
                progress(f"{name}: arm {done}")
        by_seed = lambda arm: arm.seed  # noqa: E731
        found.append(
            ClassCoverage(name, one.about, tuple(sorted(counted, key=by_seed)), tuple(sorted(refused, key=by_seed)))
        )
    return Classes(tuple(found), time.perf_counter() - begin)
