"""Whether the verdict refuses arms that change during a recording, and efforts with another meaning, with the cause.

Random arms are recorded once in lock-step. Every kind of change is applied to this recording with a random size, joint,
sign and moment, and the result is identified as the command `identify` does it. The gravity error of a model is the
difference of its gravity torques from those of the model that is identified from the unchanged recording at the same
rate (root mean square over random postures). So it is the error that the change causes; the error of the unchanged
model is not part of it. A model with a large error must be refused, and the first sentence about the recording must
name the true cause. Unchanged recordings must be accepted.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from benchmarks.studies import changed_arms as changed
from benchmarks.studies.changed_arms import Log, Subject, as_source, course, subject
from benchmarks.studies.changes_table import UNCHANGED, Case, Changes
from dynid.errors import DynidError, SafetyError, UnknownNameError
from dynid.identification.diagnosis.effort_meaning import EXTERNAL, NET_OF_GRAVITY, UNSIGNED
from dynid.identification.pipeline import Identification, identify
from dynid.identification.settings import load_identification
from dynid.identification.steadiness.columns import BODY, FRICTION, MOUNT, OFFSET, SCALE, ZERO
from dynid.model.gear_presets import VISCOUS
from dynid.model.parameters import BaseParameters
from dynid.parallel import in_processes
from dynid.recording.held_efforts import HELD
from dynid.robot import FloatArray, Robot

DRAWS, OTHER_DRAWS = 41, 43  # streams of random numbers: changes, and recordings without a change
SECONDS, SHORT_S, LONG_S = 60.0, 20.0, 300.0  # lengths of motions [s]
LONG_EVERY = 3  # one of so many arms is also recorded for the longest time, because that takes longest
RATES_HZ = (100.0, 200.0, 1000.0)
HELD_RATE_HZ = 200.0  # rate of positions if torques are renewed less often [Hz]
HELD_OUT_SHARE = 0.3
EARLIEST, LATEST = 0.2, 0.8  # range of a step's moment, as a share of the time
TOLERANCE = 0.1  # tolerance of the stated moment, as a share of the time
POSTURES = 300  # random postures at which gravity torques are compared
FEW_POSES = 20_000  # poses of the audit, which take most of its time otherwise
DRIVERS = "held efforts"  # cause that a note names if torques are renewed less often than positions


@dataclass(frozen=True)
class Draw:
    """Random properties of one change and of its recording.

    Attributes:
        size: size with its sign, in the unit of its kind.
        axis: the joint, from 0; it matters for changes of one joint alone.
        when: moment of a step, as a share of the time.
        angle_rad: direction in which a mount tilts [rad].
        rate_hz: rate of the recording [Hz].
    """

    size: float
    axis: int
    when: float
    angle_rad: float
    rate_hz: float


@dataclass(frozen=True)
class Kind:
    """Kind of a change.

    Attributes:
        apply: function that returns the changed recording.
        cause: kind of the sentence that names the true cause.
        low, high: smallest and largest size in `unit`; sizes are drawn log-uniformly. 0 if there is only one size.
        unit: unit of the size.
        over: function of time, see `course`.
        joint: whether one joint changes.
        signed: whether the sign is drawn.
        rate_hz: rate of the recording [Hz]; 0 is drawn.
    """

    apply: Callable[[Subject, Draw, FloatArray], Log]
    cause: str
    low: float = 0.0
    high: float = 0.0
    unit: str = ""
    over: str = "constant"
    joint: bool = False
    signed: bool = False
    rate_hz: float = 0.0


def _body(one: Subject, draw: Draw, over: FloatArray) -> Log:
    return changed.with_body(one, draw.size, over)


def _zero(one: Subject, draw: Draw, over: FloatArray) -> Log:
    return changed.with_zero(one, draw.axis, draw.size, over)


def _scale(one: Subject, draw: Draw, over: FloatArray) -> Log:
    return changed.with_scale(one, draw.size, over)


def _own_scale(one: Subject, draw: Draw, over: FloatArray) -> Log:
    return changed.with_scale(one, draw.size, over, draw.axis)


def _offset(one: Subject, draw: Draw, over: FloatArray) -> Log:
    return changed.with_offset(one, draw.axis, draw.size, over)


def _friction(one: Subject, draw: Draw, over: FloatArray) -> Log:
    return changed.with_friction(one, draw.axis, 1.0 + draw.size, over)


def _tilt(one: Subject, draw: Draw, over: FloatArray) -> Log:
    return changed.with_tilt(one, float(np.radians(draw.size)), draw.angle_rad, over)


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "body-from": Kind(_body, BODY, 0.02, 0.5, "kg", "step"),
        "body-until": Kind(_body, BODY, 0.02, 0.5, "kg", "until"),
        "zero-drift": Kind(_zero, ZERO, 0.01, 0.2, "rad", "drift", joint=True, signed=True),
        "zero-step": Kind(_zero, ZERO, 0.01, 0.2, "rad", "step", joint=True, signed=True),
        "scale-drift": Kind(_scale, SCALE, 0.02, 0.3, "", "drift", signed=True),
        "scale-step": Kind(_scale, SCALE, 0.02, 0.3, "", "step", signed=True),
        "joint-scale-drift": Kind(_own_scale, SCALE, 0.02, 0.3, "", "drift", joint=True, signed=True),
        "joint-scale-step": Kind(_own_scale, SCALE, 0.02, 0.3, "", "step", joint=True, signed=True),
        "offset": Kind(_offset, OFFSET, 0.05, 0.6, "N m", joint=True, signed=True),
        "offset-step": Kind(_offset, OFFSET, 0.05, 0.6, "N m", "step", joint=True, signed=True),
        "friction-step": Kind(_friction, FRICTION, 0.2, 1.0, "", "step", joint=True),
        "mount-step": Kind(_tilt, MOUNT, 1.0, 10.0, "deg", "step"),
        "net-of-gravity": Kind(lambda one, draw, over: changed.net_of_gravity(one), NET_OF_GRAVITY),
        "external": Kind(lambda one, draw, over: changed.external(one), EXTERNAL),
        "unsigned": Kind(lambda one, draw, over: changed.unsigned(one), UNSIGNED),
        "held-efforts": Kind(
            lambda one, draw, over: changed.held(one, draw.size), DRIVERS, 10.0, 50.0, "Hz", rate_hz=HELD_RATE_HZ
        ),
    }
)


def chosen_kinds(names: Sequence[str]) -> tuple[str, ...]:
    """Return these names of kinds, without repetitions; all of them if there are none.

    Raises:
        UnknownNameError: there is no such kind.
    """
    known = (UNCHANGED, *KINDS)
    for name in names:
        if name not in known:
            raise UnknownNameError("kind of change", name, known)
    return tuple(dict.fromkeys(names)) or known


def drawn(robot: Robot, kind: str, seed: int, repeat: int, joints: int) -> Draw:
    """Return the random change of an arm.

    Offsets are proportional to the joint's torque limit; the stated range is that of the strongest joint.

    Args:
        robot: the robot.
        kind: name of the kind.
        seed: seed of the arm.
        repeat: number of the case among those of this arm and kind, from 0.
        joints: number of joints of the kinematic chain.
    """
    one, random = KINDS[kind], np.random.default_rng([seed, list(KINDS).index(kind), repeat, DRAWS])
    share, sign, axis = random.random(), random.choice([-1.0, 1.0]), int(random.integers(joints))
    size = one.low * (one.high / one.low) ** share if one.low else 0.0
    if one.cause == OFFSET:
        size *= robot.torque_limits[axis] / robot.torque_limits.max()
    return Draw(
        size=float(size * (sign if one.signed else 1.0)),
        axis=axis,
        when=float(random.uniform(EARLIEST, LATEST)),
        angle_rad=float(random.uniform(0.0, 2.0 * np.pi)),
        rate_hz=one.rate_hz or float(random.choice(RATES_HZ)),
    )


def held_out_of(seed: int, seconds: float, rate_hz: float) -> float:
    """Return the share of the time that is held out of an arm's recordings of a length [s] at a rate [Hz].

    Half of them have none. It is the same for all changes, so that one unchanged model is compared with all of them.
    """
    random = np.random.default_rng([seed, round(seconds), round(rate_hz), OTHER_DRAWS])
    return float(random.choice([0.0, HELD_OUT_SHARE]))


@dataclass(frozen=True)
class Named:
    """Cause that a sentence names.

    Attributes:
        cause: kind of the cause; "" if it is none of those that are judged.
        joints: names of the joints concerned; () for all.
        over: function of time: "step", "drift" or "constant".
        at_s: moment of a step [s].
    """

    cause: str
    joints: tuple[str, ...] = ()
    over: str = "constant"
    at_s: float = 0.0


def named_causes(found: Identification | DynidError, joints: Sequence[str]) -> list[tuple[str, Named]]:
    """Return all sentences about a recording, first the most important one, with the causes that they name.

    Args:
        found: the identification, or the error if there is none.
        joints: names of all joints, (n,).
    """
    if isinstance(found, DynidError):
        words = str(found)
        return [(words, Named(ZERO, tuple(one for one in joints if f"{one} jumps" in words), "step"))]
    by_words = {one.words: Named(one.kind, one.joints) for one in found.diagnosis.suspicions}
    by_words |= dict(_changes(found, joints))
    notes = [(one, Named(DRIVERS)) for one in found.notes if HELD in one]
    by_words |= dict(notes)
    return [(words, by_words.get(words, Named(""))) for words in found.suspicions]


def _changes(found: Identification, joints: Sequence[str]) -> Iterator[tuple[str, Named]]:
    """Yield the sentence about every change that was found, and the cause that it names."""
    steady = found.steadiness
    for one, words in zip(steady.changes, steady.sentences, strict=True):
        yield words, Named(one.kind, tuple(joints[k] for k in one.axes), one.course, one.at)


def is_true(named: Named, kind: str, joint: str) -> bool:
    """Return whether a cause is the true one of a kind; `joint` is the changed joint, "" for all."""
    if named.cause == UNSIGNED:  # its sentence lists the joints
        return KINDS[kind].cause == UNSIGNED
    return named.cause == KINDS[kind].cause and named.joints == ((joint,) if joint else ())


def is_placed(named: Named, kind: str, at_s: float, seconds: float) -> bool:
    """Return whether a true cause has the true function of time, with the moment `at_s` [s] of a step."""
    true = {"until": "step"}.get(KINDS[kind].over, KINDS[kind].over)
    return named.over == true and (true != "step" or abs(named.at_s - at_s) <= TOLERANCE * seconds)


class Judge:
    """Judge of the recordings of one arm.

    Args:
        one: the arm with its recording without a change.
        seconds: length of the recording [s].
    """

    def __init__(self, one: Subject, seconds: float) -> None:
        """Compute the true gravity torques in random postures."""
        settings = load_identification(one.robot)
        acceptance = settings.acceptance.model_copy(update={"fresh_poses": FEW_POSES})
        self.settings = settings.model_copy(update={"acceptance": acceptance})
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
            named=named,
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


def is_stated(found: Identification | DynidError, kind: str, joint: str) -> bool:
    """Return whether a note on a model names the true cause of a kind; `joint` is the changed joint, "" for all."""
    if isinstance(found, DynidError):
        return False
    cause = KINDS[kind].cause
    if cause == DRIVERS:
        return any(HELD in note for note in found.notes)
    if any(is_true(named, kind, joint) for _, named in _changes(found, found.robot.joint_names)):
        return True
    return bool(cause == OFFSET and np.isfinite(stated_uncertainty(found, joint)))


def stated_uncertainty(found: Identification | DynidError, joint: str) -> float:
    """Return the relative uncertainty of gravity torques by a constant torque of a joint, as a note states it.

    Args:
        found: the identification, or the error if there is none.
        joint: name of the joint; "" gives the largest of all joints.

    Returns:
        Share of the gravity torques (two standard deviations) [-]; NaN without such a note.
    """
    if isinstance(found, DynidError):
        return float("nan")
    name = re.escape(joint) if joint else r"\w+"
    shares = re.findall(rf" at {name} \(([0-9.e+-]+) %\)", found.steadiness.hidden)
    return max((float(one) / 100.0 for one in shares), default=float("nan"))


def gears_of(seed: int) -> str:
    """Return the friction model of an arm: viscous and Coulomb friction for even seeds, friction M6 for odd ones."""
    return "M6" if seed % 2 else VISCOUS


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
