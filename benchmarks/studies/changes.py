"""Whether the verdict refuses arms that change during a recording, and efforts with another meaning, with the cause.

Random arms are recorded once in lock-step. Every kind of change is applied to this recording with a random size, joint,
sign and moment, and the result is identified as the command `identify` does it. The gravity error of a model is the
difference of its gravity torques from those of the model that is identified from the unchanged recording at the same
rate (root mean square over random postures). So it is the error that the change causes; the error of the unchanged
model is not part of it. A model with a large error must be refused, and the first sentence about the recording must
name the true cause. Unchanged recordings must be accepted.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.studies.changed_arms import Log, Subject, as_source, course, subject
from benchmarks.studies.changes_causes import Named, is_placed, is_stated, is_true, named_causes, stated_uncertainty
from benchmarks.studies.changes_kinds import (
    KINDS,
    NOISE,
    OTHER_DRAWS,
    RATES_HZ,
    Draw,
    chosen_kinds,
    drawn,
    gears_of,
    held_out_of,
)
from benchmarks.studies.changes_table import MEDIUM, UNCHANGED, Case, Changes
from benchmarks.studies.few_poses import with_few_poses
from dynid.errors import DynidError, SafetyError
from dynid.identification.pipeline import identify
from dynid.identification.result import Identification
from dynid.identification.settings import load_identification
from dynid.model.parameters import BaseParameters
from dynid.parallel import in_processes
from dynid.robot import FloatArray, Robot

SECONDS, SHORT_S, LONG_S = 60.0, 20.0, 300.0  # lengths of motions [s]
LONG_EVERY = 3  # one of so many arms is also recorded for the longest time, because that takes longest
POSTURES = 300  # random postures at which gravity torques are compared


class Judge:
    """Judge of the recordings of one arm.

    Args:
        one: the arm with its recording without a change.
        seconds: length of the recording [s].
    """

    def __init__(self, one: Subject, seconds: float) -> None:
        """Compute the true gravity torques in random postures."""
        self.settings = with_few_poses(load_identification(one.robot))
        self.one, self.seconds, self.robot = one, seconds, one.robot
        self._usual: dict[float, Identification | DynidError] = {}
        random, self.postures = np.random.default_rng(0), np.zeros((POSTURES, one.robot.size))
        size, low, high = one.model.chain_size, one.robot.audit_lower, one.robot.audit_upper
        self.postures[:, :size] = random.uniform(low[:size], high[:size], (POSTURES, size))
        truth = BaseParameters(one.arm.names, one.arm.base)
        self.gravity = one.model.gravity_torque(self.postures, truth, one.model.gravity)

    def usual(self, rate_hz: float) -> Identification | DynidError:
        """Return the identification of the unchanged recording at a rate [Hz], to which others are compared."""
        if rate_hz not in self._usual:
            self._usual[rate_hz] = self.identified(self.one.log, self.seconds, rate_hz)
        return self._usual[rate_hz]

    def identified(self, log: Log, seconds: float, rate_hz: float) -> Identification | DynidError:
        """Return the identification of a recording, or the error if there is none.

        Args:
            log: the recording.
            seconds: length of the recording [s].
            rate_hz: rate at which it is stored [Hz].
        """
        held_out = held_out_of(self.one.arm.seed, seconds, rate_hz)
        try:
            source = as_source(self.one, log, rate_hz)
            return identify(self.robot, [source], settings=self.settings, held_out_share=held_out)
        except DynidError as error:
            return error

    def gravity_of(self, found: Identification | DynidError) -> FloatArray:
        """Return the gravity torques of a model in all postures, (m, n) [N m]; NaN without a model."""
        if isinstance(found, DynidError):
            return np.full_like(self.postures, np.nan)
        return found.model.gravity_torque(self.postures, found.base, found.model.gravity)

    def unchanged(self, log: Log, seconds: float, rate_hz: float) -> Case:
        """Return the case of a recording without a change, whose error is that from the true arm."""
        found = self.usual(rate_hz) if log is self.one.log else self.identified(log, seconds, rate_hz)
        return self._case(found, UNCHANGED, 0, Draw(0.0, 0, 0.0, 0.0, rate_hz), seconds)

    def _is_noisy(self, rate_hz: float) -> bool:
        """Return whether the unchanged recording at a rate [Hz] is refused because of its noise alone."""
        found = self.usual(rate_hz)
        return not isinstance(found, DynidError) and found.noise != ""

    def changed(self, kind: str, repeat: int) -> Case:
        """Return the case of a recording with a random change."""
        draw = drawn(self.robot, kind, self.one.arm.seed, repeat, self.one.model.chain_size)
        log = KINDS[kind].apply(self.one, draw, course(self.one.log, KINDS[kind].over, draw.when))
        return self._case(self.identified(log, self.seconds, draw.rate_hz), kind, repeat, draw, self.seconds)

    def _case(self, found: Identification | DynidError, kind: str, repeat: int, draw: Draw, seconds: float) -> Case:
        """Return the case of a result."""
        one, joints, seed = KINDS.get(kind), self.robot.joint_names, self.one.arm.seed
        joint = joints[draw.axis] if one is not None and one.joint else ""
        stepped = one is not None and one.over in ("step", "until")
        sentences = named_causes(found, joints)
        first = sentences[0] if sentences else ("", Named(""))
        named = one is not None and is_true(first[1], kind, joint)
        refused = isinstance(found, DynidError) or not found.verdict.accepted
        own = self.gravity_of(found)
        true_error = _relative(own, self.gravity)
        noisy = first[1].cause == NOISE and true_error <= MEDIUM and (one is None or self._is_noisy(draw.rate_hz))
        return Case(
            arm=seed,
            gears=gears_of(seed),
            kind=kind,
            repeat=repeat,
            size=draw.size,
            unit="" if one is None else one.unit,
            joint=joint,
            when=draw.when if stepped else 0.0,
            seconds=seconds,
            rate_hz=draw.rate_hz,
            held_out=held_out_of(seed, seconds, draw.rate_hz),
            error=true_error if one is None else _relative(own, self.gravity_of(self.usual(draw.rate_hz))),
            true_error=true_error,
            refused=refused,
            failed=_failed(found),
            first=first[0],
            suspicions=tuple(words for words, _ in sentences),
            named=named or noisy,
            noisy=noisy,
            placed=named and is_placed(first[1], kind, draw.when * seconds, seconds),
            stated=one is not None and not refused and is_stated(found, kind, joint),
            uncertainty=stated_uncertainty(found, joint),
        )


def _relative(torques: FloatArray, others: FloatArray) -> float:
    """Return the difference of torques from others, (m, n) each [N m], relative to the others (root mean square)."""
    return float(np.linalg.norm(torques - others) / np.linalg.norm(others))


def _failed(found: Identification | DynidError) -> tuple[str, ...]:
    """Return the ids of failed checks, or the kind of an error."""
    if isinstance(found, DynidError):
        return (type(found).__name__,)
    return tuple(dict.fromkeys(one.id for one in found.verdict.failed))


@dataclass(frozen=True)
class _Job:
    robot: Robot
    seed: int
    kinds: tuple[str, ...]
    repeats: int


def cases_of_arm(job: _Job) -> list[Case]:
    """Draw and record an arm, and judge its changed and unchanged recordings; [] if it does not follow its motion."""
    try:
        one = subject(job.robot, job.seed, gears_of(job.seed), SECONDS)
    except SafetyError:
        return []
    judge, cases = Judge(one, SECONDS), list[Case]()
    for kind in job.kinds:
        if kind == UNCHANGED:
            cases += [judge.unchanged(*own) for own in _unchanged_logs(one)]
        else:
            cases += [judge.changed(kind, repeat) for repeat in range(job.repeats)]
    return cases


def _unchanged_logs(one: Subject) -> Iterator[tuple[Log, float, float]]:
    """Yield unchanged recordings of an arm: log, length [s] and rate [Hz]."""
    seed, random = one.arm.seed, np.random.default_rng([one.arm.seed, OTHER_DRAWS])
    for rate in RATES_HZ:
        yield one.log, SECONDS, rate
    for seconds in (SHORT_S, LONG_S) if seed % LONG_EVERY == LONG_EVERY - 1 else (SHORT_S,):
        rate = float(random.choice(RATES_HZ))
        try:
            yield subject(one.robot, seed, gears_of(seed), seconds).log, seconds, rate
        except SafetyError:
            continue


def benchmark_changes(
    robot: Robot,
    arms: int,
    *,
    first_seed: int = 0,
    kinds: Sequence[str] = (),
    repeats: int = 1,
    processes: int | None = None,
    progress: Callable[[str], None] = lambda line: None,
) -> Changes:
    """Judge changed and unchanged recordings of random arms, and return the results.

    Args:
        robot: robot around which arms are drawn.
        arms: number of arms.
        first_seed: seed of the first arm; the others follow.
        kinds: names of the kinds of changes, and `UNCHANGED`; () are all of them.
        repeats: number of cases of each kind of change for each arm.
        processes: number of processes; None is one per core.
        progress: called with a line after each arm, and with one for each of its missed cases.

    Raises:
        UnknownNameError: there is no such kind.
    """
    chosen = chosen_kinds(kinds)
    jobs = [_Job(robot, first_seed + k, chosen, repeats) for k in range(arms)]
    found: dict[int, list[Case]] = {}
    for place, cases in in_processes(cases_of_arm, jobs, processes):
        found[place] = cases
        progress(f"arm {len(found)} of {arms} (seed {jobs[place].seed}): {len(cases)} cases")
        for line in Changes(tuple(cases), 1).misses:
            progress(f"  {line}")
    followed = sum(bool(one) for one in found.values())
    return Changes(tuple(one for k in sorted(found) for one in found[k]), followed, arms - followed)
