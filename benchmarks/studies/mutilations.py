"""Whether `validate` refuses a model with a wrong part, and accepts the original model.

Random arms are recorded with more or less noise on the torques, and identified. Then parts of the model are multiplied
or removed, and both this and the original model are validated on held-out motions of the same arm. A
change must be refused if it changes the dynamic torque of some joint (torque less gravity and friction) by more
than `MUST` of its root mean square, for sliding states of the held-out motion. Recording and identification are
done once per arm, so that many changes take little time.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks.studies.drawn_arms import draw_arm, record
from benchmarks.studies.few_poses import with_few_poses
from benchmarks.studies.motion_classes import CLASSES, drawn_motion
from benchmarks.studies.shares import share_of
from dynid.errors import DynidError, SafetyError
from dynid.identification.data.recordings import Recording
from dynid.identification.dynamic_errors import SLIDING_SHARE, VISIBLE
from dynid.identification.dynamic_rows import DynamicRows, dynamic_rows, of_links
from dynid.identification.held_out import validate
from dynid.identification.pipeline import identify
from dynid.identification.settings import IdentificationSettings, load_identification
from dynid.model.drive import kind_and_number
from dynid.model.dynamics import ArmModel
from dynid.model.parameter_groups import parameter_groups
from dynid.model.standard import load_standard
from dynid.parallel import in_processes
from dynid.robot import FloatArray, Robot
from dynid.runtime.model import Model

FACTORS = (0.0, 0.5, 1.5, 2.0)
NOISE = (1.0, 0.5, 2.0)  # factors of the torques' noise, in turn
HELD_OUT = ("fast", "short", "pauses", "slow")  # classes of motions
MUST = 0.2  # relative change of a joint's dynamic torque that must be refused
POWER, ALARMS = 0.99, 0.01  # smallest share of such changes, and largest share of original models, that is refused
PAYLOAD_KG, REACH_M = 0.05, 0.1
NAMED_SHARE = 0.3  # share of named changes; the others are random groups and factors
OTHER_SEED = 1_000_000
DYNAMIC = "dynamic_error_held_out"  # the check that is measured


@dataclass(frozen=True)
class Case:
    """Result of one validation.

    Attributes:
        arm: seed of the draw.
        motion: the held-out class.
        what: the mutilation; "" is none.
        change: largest change of a joint's dynamic torque, relative to its root mean square.
        joint: number of that joint, from 1.
        failed: ids of the checks that failed.
        shown: noise of that joint's dynamic error; NaN if it was not judged.
    """

    arm: int
    motion: str
    what: str
    change: float
    joint: int
    failed: tuple[str, ...]
    shown: float


@dataclass(frozen=True)
class _Job:
    robot: Robot
    seed: int
    cases: int
    motions: tuple[str, ...]


def noisy(robot: Robot, factor: float) -> Robot:
    """Return the robot with the noise of its simulated torques multiplied by a factor."""
    noise = tuple(factor * one for one in robot.nuisances.torque_noise_nm)
    nuisances = robot.nuisances.model_copy(update={"torque_noise_nm": noise})
    simulation = robot.file.simulation.model_copy(update={"nuisances": nuisances})
    return Robot(robot.file.model_copy(update={"simulation": simulation}), robot.folder)


def named_mutilations(robot: Robot, model: ArmModel) -> dict[str, Callable[[FloatArray], FloatArray]]:
    """Return changes of several groups at once by name: functions from base parameters (p,) to wrong ones."""
    kinds = [kind_and_number(name) for name in model.names]
    links = of_links(model)

    def times(which: list[bool], factor: float) -> Callable[[FloatArray], FloatArray]:
        return lambda values: np.where(which, factor * values, values)

    wrist = [bool(own) and kind != "IA" and number in (6, 7) for (kind, number), own in zip(kinds, links, strict=True)]
    rotors = [kind == "IA" and number >= 5 for kind, number in kinds]
    inertias = [bool(own) and not kind.startswith("M") for (kind, _), own in zip(kinds, links, strict=True)]
    payload = point_mass(robot, model)
    return {
        "links 6 and 7 massless": times(wrist, 0.0),
        "IA5 to IA8 zero": times(rotors, 0.0),
        "IA5 to IA8 doubled": times(rotors, 2.0),
        "all inertias times 1.5": times(inertias, 1.5),
        "MYR4 times 1.1": times([name == "MYR4" for name in model.names], 1.1),
        "no viscous friction": times([kind == "FV" for kind, _ in kinds], 0.0),
        f"{1000 * PAYLOAD_KG:g} g at the tool": lambda values: values + payload,
    }


def point_mass(robot: Robot, model: ArmModel) -> FloatArray:
    """Return the change of the base parameters (p,) due to a payload at `REACH_M` from the last link's origin."""
    nominal = load_standard(
        robot.folder / robot.file.simulation.standard_parameters, model.mdh, model.regrouping.standard
    )
    ten = slice(10 * model.chain_size - 10, 10 * model.chain_size)
    centre = nominal.values[ten][6:9]
    p = REACH_M * centre / np.linalg.norm(centre)
    inertia = PAYLOAD_KG * (p @ p * np.eye(3) - np.outer(p, p))
    change = np.zeros(len(model.regrouping.standard))
    change[ten] = [*inertia[np.triu_indices(3)], *(PAYLOAD_KG * p), PAYLOAD_KG]
    return np.asarray(model.regrouping.K @ change)


def drawn_mutilation(
    robot: Robot, model: ArmModel, random: np.random.Generator
) -> tuple[str, Callable[[FloatArray], FloatArray]]:
    """Return a random change: a group of one link's parameters times a factor, or a named one."""
    if random.random() < NAMED_SHARE:
        named = named_mutilations(robot, model)
        name = list(named)[random.integers(len(named))]
        return name, named[name]
    groups = parameter_groups(model.names)
    group, factor = groups[random.integers(len(groups))], FACTORS[random.integers(len(FACTORS))]
    which = np.isin(np.arange(len(model.names)), group.places)
    return f"{group.words} times {factor:g}", lambda values: np.where(which, factor * values, values)


def changes(rows: DynamicRows, change: FloatArray) -> FloatArray:
    """Return the relative change of dynamic torques due to parameters of links and rotors (k,), (n,)."""
    counts = rows.share >= SLIDING_SHARE
    square = ((rows.dynamic @ change) ** 2 * counts).sum(axis=0)
    whole = (rows.torque**2 * counts).sum(axis=0)
    return np.asarray(np.sqrt(np.divide(square, whole, out=np.zeros_like(square), where=whole > 0.0)))


def cases_of_arm(job: _Job) -> list[Case]:
    """Draw, record and identify an arm, and validate its original and changed models; [] if that is impossible."""
    robot, seed = noisy(job.robot, NOISE[job.seed % len(NOISE)]), job.seed
    try:
        arm = draw_arm(robot, seed)
        fitted = record(robot, arm, drawn_motion(robot, CLASSES["fast"], seed), seed).source
    except SafetyError:
        return []
    held: dict[str, Recording] = {}
    for k, name in enumerate(job.motions, 1):
        own = seed + k * OTHER_SEED
        try:
            held[name] = record(robot, arm, drawn_motion(robot, CLASSES[name], own), own).source
        except SafetyError:
            continue
    settings = with_few_poses(load_identification(robot))
    try:
        found = identify(robot, [fitted], settings=settings)
    except DynidError:
        return []
    model, random = found.as_model(), np.random.default_rng([seed, 31])
    whole = [(name, _Held(model, source, settings)) for name, source in held.items()]
    cases = [one.judge(model, seed, name, "") for name, one in whole]
    for _ in range(job.cases if whole else 0):
        name, one = whole[random.integers(len(whole))]
        what, change = drawn_mutilation(robot, found.model, random)
        base = found.base.with_values(change(found.base.values))
        cases.append(one.judge(replace(model, base=base, unconstrained=None), seed, name, what))
    return cases


class _Held:
    """Held-out recording with the dynamic torques of the original model."""

    def __init__(self, model: Model, source: Recording, settings: IdentificationSettings) -> None:
        self.model, self.source, self.settings = model, source, settings
        samples = source.samples(settings)
        slow = settings.coulomb_friction.slow_rad_s
        self.rows = dynamic_rows(model.arm(), samples, model.base, model.friction_law, slow)

    def judge(self, model: Model, arm: int, motion: str, what: str) -> Case:
        """Validate a model and return the case."""
        kept = of_links(self.model.arm())
        change = changes(self.rows, (model.base.values - self.model.base.values)[kept])
        joint = int(np.argmax(change))
        found = validate(model, [self.source], settings=self.settings)
        shown = {one.joint: one.shown for one in found.motions[0].dynamics}
        failed = tuple(dict.fromkeys(one.id for one in found.verdict.failed))
        return Case(arm, motion, what, float(change[joint]), joint + 1, failed, shown.get(joint, float("nan")))


@dataclass(frozen=True)
class Mutilations:
    """Results of all cases."""

    cases: tuple[Case, ...]
    arms: int
    refused_arms: int

    @property
    def right(self) -> list[Case]:
        """Cases of original models."""
        return [one for one in self.cases if not one.what]

    @property
    def wrong(self) -> list[Case]:
        """Cases of changed models."""
        return [one for one in self.cases if one.what]

    @property
    def must(self) -> list[Case]:
        """Cases that must be refused."""
        return [one for one in self.wrong if one.change > MUST]

    @property
    def power(self) -> float:
        """Share of them that is refused."""
        return share_of([bool(one.failed) for one in self.must])

    @property
    def alarms(self) -> float:
        """Share of original models that is refused."""
        return share_of([bool(one.failed) for one in self.right])

    def as_dict(self) -> dict[str, Any]:
        """Return shares as plain values, with the undetected cases."""
        named = sorted({one.what for one in self.wrong if " times 0" not in one.what})
        named = [name for name in named if not name.startswith("the ")]
        missed = [one for one in self.must if not one.failed]
        return {
            "cases": len(self.wrong),
            "must_be_refused": len(self.must),
            "refused_of_these": self.power,
            "refused_where_shown": share_of([bool(one.failed) for one in self.must if one.shown <= VISIBLE]),
            "hardly_shown": sum(not one.shown <= VISIBLE for one in self.must),
            "refused_by_dynamic_error": share_of([DYNAMIC in one.failed for one in self.must]),
            "refused_by_other_checks": share_of([bool(set(one.failed) - {DYNAMIC}) for one in self.must]),
            "refused_of_all": share_of([bool(one.failed) for one in self.wrong]),
            "right_models": len(self.right),
            "false_alarms": self.alarms,
            "arms": self.arms,
            "arms_left_out": self.refused_arms,
            "refused_by_name": {
                name: share_of([bool(one.failed) for one in self.wrong if one.what == name]) for name in named
            },
            "missed": [f"{_words(one)}; noise there {100 * one.shown:.0f} %" for one in missed],
            "alarms": [f"{_words(one)}: {', '.join(one.failed)}" for one in self.right if one.failed],
        }

    def missed(self) -> list[str]:
        """Return a sentence for every missed limit."""
        found = []
        if not self.power >= POWER:
            found.append(f"{100 * self.power:.1f} % of what must be refused is, expected {100 * POWER:g} %")
        if not self.alarms <= ALARMS:
            found.append(f"{100 * self.alarms:.1f} % of right models are refused, expected at most {100 * ALARMS:g} %")
        return found


def _words(one: Case) -> str:
    what = one.what or "nothing changed"
    return f"arm {one.arm}, {one.motion}: {what}, {100 * one.change:.0f} % of joint {one.joint}'s dynamic torque"


def benchmark_mutilations(
    robot: Robot,
    cases: int,
    arms: int,
    *,
    first_seed: int = 0,
    motions: tuple[str, ...] = HELD_OUT,
    processes: int | None = None,
    progress: Callable[[str], None] = lambda stage: None,
) -> Mutilations:
    """Validate changed and original models and return the results.

    Args:
        robot: robot around which arms are drawn.
        cases: total number of changed models.
        arms: number of arms; those that do not follow a motion are replaced.
        first_seed: seed of the first arm.
        motions: classes of each arm's held-out motions.
        processes: number of processes; None is one per core.
        progress: called with a line after each arm.
    """
    found: dict[int, list[Case]] = {}
    seed, out = first_seed, 0
    while len(found) < arms and out < 5 * arms:
        left, size = arms - len(found), sum(sum(bool(one.what) for one in own) for own in found.values())
        each = -(-(cases - size) // left)
        jobs = [_Job(robot, seed + k, min(each, cases - size - k * each), motions) for k in range(left)]
        seed += left
        for _, own in in_processes(cases_of_arm, [job for job in jobs if job.cases > 0], processes):
            if own:
                found[own[0].arm] = own
            else:
                out += 1
            progress(f"arm {len(found)} of {arms}")
        if not any(job.cases > 0 for job in jobs):
            break
    return Mutilations(tuple(one for arm in sorted(found) for one in found[arm]), len(found), out)
