"""Whether the verdict detects every single fault of a recording, and accepts recordings without a fault.

A motion is recorded once per seed, and each fault is applied to the fitted and the held-out arrays alike, as an error
in a set-up would be. A fault is caught if the result is refused or the fault is suspected; clean
data must be accepted, those of plants with random friction at least not suspected. Faults that no identification can
detect from these data are listed instead of counted, as computed from the clean recording:

    torque constant               the other joints imply the scale of a joint's torques to within the fault at best
    gear ratio, joints exchanged  no joint's torques are explained worse with the fault than without, by `WORSE`, in the
                                  identification, or with friction at the speed as it was
"""

import dataclasses
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

import numpy as np

from benchmarks.studies.few_poses import with_few_poses
from benchmarks.studies.gear_friction import MODEL, PROFILE, drawn_friction
from dynid.control.controller import load_controller
from dynid.control.ff_pd import FeedforwardPd
from dynid.errors import DynidError, SafetyError
from dynid.identification.data.recordings import Recording, load_recording
from dynid.identification.data.signals import Signals
from dynid.identification.diagnosis.diagnosis import SCALE_FAULT
from dynid.identification.diagnosis.interpretations import Trials
from dynid.identification.pipeline import identify
from dynid.identification.result import Identification
from dynid.identification.settings import IdentificationSettings, load_identification
from dynid.model.friction import FrictionLaw
from dynid.model.gear_presets import VISCOUS, gear_friction
from dynid.parallel import in_processes
from dynid.recording.mapping import load_mapping
from dynid.robot import FloatArray, Robot, load_robot
from dynid.simulation.lockstep.run import simulate
from dynid.simulation.lockstep.simulated_bag import write_bag
from dynid.trajectory.families import load_excitation

MOTIONS = ("demo_identification",)
VALIDATION = "V01"
SEEDS = (0, 1, 2)
CONSTANTS, GEARS, SHIFTS_S = (0.7, 1.4), (0.5, 2.0), (-0.02, 0.02)
CAUGHT_BAR, ALARMS_BAR = 0.98, 0.02
WORSE = 0.1  # relative growth of a joint's error that counts as worse
SHARE = 0.3  # held-out share of the TX-40's only run
COMMON = "a common scale of all torques: every parameter takes it over, and no torque contradicts it"

Change = Callable[[Signals], Signals]


@dataclass(frozen=True)
class Fault:
    """Fault: its name, kind and axis (-1 for several), its change of signals, and the given mount.

    If two joints are exchanged, `order` gives the original joint of each column. `factor` multiplies a gear ratio.
    """

    name: str
    kind: str
    axis: int
    change: Change
    mount: str | None = None
    order: tuple[int, ...] = ()
    factor: float = 1.0


@dataclass(frozen=True, eq=False)
class Recorded:
    """Recordings without a fault: those to fit, and those held out, or the held-out share."""

    name: str
    robot: Robot
    fitted: Recording
    held_out: Recording | None
    share: float = 0.0


@dataclass(frozen=True)
class Case:
    """Case: data, fault ("" for none), outcome as a sentence, and why it is undetectable ("" if it is detectable)."""

    data: str
    fault: str
    caught: bool
    outcome: str
    unseen: str = ""

    @property
    def poor(self) -> bool:
        """Whether a recording without a fault is refused for the error of its model, which is no false alarm."""
        return not self.fault and not self.caught and bool(self.outcome.strip("; "))

    @property
    def name(self) -> str:
        """Name of data and fault."""
        return f"{self.data}: {self.fault or 'clean'}"


def _torques(change: Callable[[FloatArray], FloatArray]) -> Change:
    def changed(signals: Signals) -> Signals:
        other = signals.other and dataclasses.replace(signals.other, tau=change(signals.other.tau))
        return dataclasses.replace(signals, tau=change(signals.tau), other=other)

    return changed


def _positions(change: Callable[[FloatArray], FloatArray]) -> Change:
    def changed(signals: Signals) -> Signals:
        dq = None if signals.dq is None else change(signals.dq)
        return dataclasses.replace(signals, q=change(signals.q), dq=dq)

    return changed


def _times(axis: int, factor: float) -> Callable[[FloatArray], FloatArray]:
    return lambda values: values * np.where(np.arange(values.shape[1]) == axis, factor, 1.0)


def _exchanged(first: int, second: int) -> Callable[[FloatArray], FloatArray]:
    def exchanged(values: FloatArray) -> FloatArray:
        out = np.array(values)
        out[:, [first, second]] = values[:, [second, first]]
        return out

    return exchanged


def _late(seconds: float) -> Change:
    def changed(signals: Signals) -> Signals:
        other = signals.other and dataclasses.replace(signals.other, time=signals.other.time + seconds)
        return dataclasses.replace(signals, torque_time=signals.torque_time + seconds, other=other)

    return changed


def faults(robot: Robot, mount: str) -> Iterator[Fault]:
    """Yield every single fault of a recording of a robot on a mount."""
    n = robot.size
    for k in range(n):
        yield Fault(f"sign of the torque of joint {k + 1}", "sign", k, _torques(_times(k, -1.0)))
        yield Fault(f"torque of joint {k + 1} silent", "silent", k, _torques(_times(k, 0.0)))
        yield Fault(f"position of joint {k + 1} silent", "silent", k, _positions(_times(k, 0.0)))
        for factor in CONSTANTS:
            name = f"torque constant of joint {k + 1} x{factor:g}"
            yield Fault(name, "constant", k, _torques(_times(k, factor)))
        for factor in GEARS:
            yield Fault(f"gear ratio of joint {k + 1} x{factor:g}", "gear", k, _geared(k, factor), factor=factor)
    for i, j in combinations(range(n), 2):
        exchanged = _exchanged(i, j)
        yield Fault(f"torques of joints {i + 1} and {j + 1} exchanged", "swap", -1, _torques(exchanged))
        order = tuple(j if k == i else i if k == j else k for k in range(n))
        yield Fault(f"joints {i + 1} and {j + 1} exchanged", "swap", -1, _both(exchanged), order=order)
    yield Fault("degrees for radians", "unit", -1, _positions(np.rad2deg))
    yield Fault("radians for degrees", "unit", -1, _positions(np.deg2rad))
    for seconds in SHIFTS_S:
        yield Fault(f"torques {1e3 * seconds:+g} ms", "shift", -1, _late(seconds))
    for name in robot.file.mounts_gravity_m_s2:
        if name != mount:
            yield Fault(f"mount '{name}' given", "mount", -1, lambda signals: signals, name)


def _geared(axis: int, factor: float) -> Change:
    """Return a motor-side recording divided by a wrong gear ratio: positions by the factor, torques inversely."""
    positions, torques = _positions(_times(axis, 1.0 / factor)), _torques(_times(axis, factor))
    return lambda signals: torques(positions(signals))


def _both(change: Callable[[FloatArray], FloatArray]) -> Change:
    positions, torques = _positions(change), _torques(change)
    return lambda signals: torques(positions(signals))


def with_mounts(robot: Robot) -> Robot:
    """Return the robot with a hanging and a wall mount in addition to its own."""
    own = robot.file.mounts_gravity_m_s2
    size = float(np.linalg.norm(own[robot.file.default_mount]))
    more = own | {"hanging": (0.0, 0.0, size), "on a wall": (size, 0.0, 0.0)}
    return Robot(robot.file.model_copy(update={"mounts_gravity_m_s2": more}), robot.folder)


def faulty(source: Recording, fault: Fault) -> Recording:
    """Return a recording with a fault."""
    mount = fault.mount or source.mount
    return dataclasses.replace(source, mount=mount, signals=lambda settings: fault.change(source.signals(settings)))


CLEAN = Fault("", "clean", -1, lambda signals: signals)


def result_of(data: Recorded, fault: Fault, settings: IdentificationSettings) -> Identification | DynidError:
    """Return the identification of data with a fault, or the error if there is none."""
    held_out = [] if data.held_out is None else [faulty(data.held_out, fault)]
    try:
        return identify(
            data.robot, [faulty(data.fitted, fault)], validation=held_out, settings=settings, held_out_share=data.share
        )
    except DynidError as error:
        return error


def settings_like(found: Identification) -> IdentificationSettings:
    """Return settings that save time: friction structure of clean data, and an audit of few poses."""
    beside, settings = found.estimate.regression.joint_friction, with_few_poses(found.settings)
    if beside is None:
        return settings
    structure = beside.fit.structure.name.split(",")[0]
    coulomb = settings.coulomb_friction.model_copy(update={"structure": structure})
    return settings.model_copy(update={"coulomb_friction": coulomb})


def reason(data: Recorded, fault: Fault, clean: Identification, found: Identification) -> str:
    """Return why an undetected fault cannot be detected; "" if it can."""
    joints = clean.robot.joint_names
    if fault.kind == "constant":
        hidden = dict(clean.diagnosis.unseen)
        name = joints[fault.axis]
        if name in hidden:
            return (
                f"the other joints imply the scale of {name}'s torques to +-{hidden[name]:.2g}, so a fault of "
                f"{SCALE_FAULT:g} is within what is uncertain"
            )
    if fault.kind == "gear" or fault.order:
        pairs = zip(_errors(found), _errors(clean, fault.order), strict=True)
        worst = max((new / old - 1.0 for new, old in pairs), default=0.0)
        if fault.kind == "gear":
            worst = min(worst, _worse_links(data, fault, clean))
        if worst < WORSE:
            return f"no joint's torques are explained worse than without the fault, by {100 * worst:.2g} % at most"
    return ""


def _worse_links(data: Recorded, fault: Fault, clean: Identification) -> float:
    """Return the largest relative growth of an error if the fault affects only the links, not friction."""
    samples = data.fitted.split(clean.settings, data.share)[0][0].samples
    trials, own = Trials(clean.model, samples), np.where(np.arange(clean.robot.size) == fault.axis, fault.factor, 1.0)
    wrong = trials.fit(trials.given.with_factors(1.0 / own, own))
    return float(np.nanmax(wrong.relative / trials.as_given.relative)) - 1.0


def _errors(found: Identification, order: tuple[int, ...] = ()) -> list[float]:
    """Return the errors of joints in motion, in and out of sample, with joints in another order."""
    errors = [found.fit, *(one.errors for one in found.validations)]
    joints = list(order) or slice(None)
    return [float(one) for every in errors for one in every.moving_per_axis[joints] if np.isfinite(one)]


def judge_case(data: Recorded, fault: Fault, clean: Identification, settings: IdentificationSettings) -> Case:
    """Return the outcome of one fault."""
    found = result_of(data, fault, settings)
    if isinstance(found, DynidError):
        return Case(data.name, fault.name, True, f"refused: {found}")
    if not found.verdict.accepted:
        failed = ", ".join(one.id for one in found.verdict.failed)
        return Case(data.name, fault.name, True, f"refused: {failed}; {'; '.join(found.diagnosis.sentences)}")
    return Case(data.name, fault.name, False, "accepted", reason(data, fault, clean, found))


def record(robot: Robot, friction: FrictionLaw | str, motion: str, folder: Path, seed: int) -> Recording:
    """Return a motion of the simulated arm with all nuisances and a friction, as `ArmPlant` takes it."""
    controller = load_controller(robot)
    run = simulate(
        robot,
        load_excitation(robot).trajectory(motion, PROFILE),
        FeedforwardPd(controller),
        seed=seed,
        friction=friction,
    )
    write_bag(run, robot, controller, folder, profile=PROFILE)
    return load_recording(folder, robot)


def simulated(robot: Robot, friction: FrictionLaw | str, name: str, work: Path, seed: int) -> Iterator[Recorded]:
    """Yield one recording of every motion, with its held-out part."""
    place = work / name / str(seed)
    place.mkdir(parents=True)
    held_out = record(robot, friction, VALIDATION, place / VALIDATION, seed + 1000)
    for motion in MOTIONS:
        fitted = record(robot, friction, motion, place / motion, seed)
        yield Recorded(f"{robot.name} {name}, {motion}, seed {seed}", robot, fitted, held_out)


def tx40(folder: Path) -> Recorded:
    """Return the public run of the TX-40 in a folder."""
    robot = with_mounts(load_robot("tx40"))
    source = load_recording(folder / "pos_read_data.csv.gz", robot, load_mapping(robot.folder / "csv_mapping.yaml"))
    return Recorded("tx40", robot, source, None, SHARE)


def tx40_with_noise(data: Recorded, seed: int) -> Recorded:
    """Return the run with added white noise of the size of its sample-to-sample differences; seed 0 adds none."""
    if not seed:
        return data

    def noisy(settings: IdentificationSettings) -> Signals:
        signals = data.fitted.signals(settings)
        sigma = np.std(np.diff(signals.tau, axis=0), axis=0) / np.sqrt(2.0)
        noise = np.random.default_rng(seed).normal(0.0, 1.0, signals.tau.shape) * sigma
        return dataclasses.replace(signals, tau=signals.tau + noise)

    fitted = dataclasses.replace(data.fitted, signals=noisy)
    return dataclasses.replace(data, name=f"{data.name}, noise {seed}", fitted=fitted)


@dataclass(frozen=True)
class Outcome:
    """Results of all cases: those with a fault, and those without, whose `caught` means that they were refused."""

    faults: tuple[Case, ...]
    clean: tuple[Case, ...]

    @property
    def counted(self) -> tuple[Case, ...]:
        """Cases with a detectable fault."""
        return tuple(case for case in self.faults if not case.unseen)

    def as_dict(self) -> dict[str, Any]:
        """Return the figures as plain values."""
        counted, unseen = self.counted, [f"{case.name}: {case.unseen}" for case in self.faults if case.unseen]
        alarms = [f"{case.name}: {case.outcome}" for case in self.clean if case.caught]
        return {
            "caught": sum(case.caught for case in counted) / max(len(counted), 1),
            "false_alarms": len(alarms) / max(len(self.clean), 1),
            "cases": len(counted),
            "clean_cases": len(self.clean),
            "missed": [case.name for case in counted if not case.caught],
            "alarms": alarms,
            "refused_for_error": [f"{case.name}: {case.outcome}" for case in self.clean if case.poor],
            "unseen_in_principle": [COMMON, *unseen],
        }

    @property
    def met(self) -> bool:
        """Whether both limits are met."""
        figures = self.as_dict()
        return bool(figures["caught"] >= CAUGHT_BAR and figures["false_alarms"] <= ALARMS_BAR)


def judge_recording(data: Recorded, *, with_faults: bool = True) -> Outcome:
    """Judge the recording without a fault with default settings, then with every fault."""
    clean = result_of(data, CLEAN, load_identification(data.robot))
    if isinstance(clean, DynidError):
        return Outcome((), (Case(data.name, "", True, str(clean)),))
    failed = ", ".join(f"{one.id} {one.value:.3g}" for one in clean.verdict.failed)
    words = "; ".join((failed, *clean.diagnosis.sentences))
    if not with_faults:  # an arm with friction outside all models is correctly refused for its error
        suspected = any(one.id == "suspicion" or one.id.startswith("joint_") for one in clean.verdict.failed)
        return Outcome((), (Case(data.name, "", suspected, words),))
    case = Case(data.name, "", not clean.verdict.accepted, words)
    settings, cases = settings_like(clean), []
    for fault in faults(data.robot, data.fitted.mount):
        cases.append(judge_case(data, fault, clean, settings))
    return Outcome(tuple(cases), (case,))


@dataclass(frozen=True)
class _Job:
    """Recording to judge: of the simulated arm with published, viscous or random friction, or of the TX-40."""

    robot: Robot
    kind: Literal["published", "tx40", "viscous", "drawn"]
    seed: int
    work: Path
    tx40_folder: Path | None = None


def _judge(job: _Job) -> Outcome:
    """Judge one recording: with every fault for published friction and the TX-40, else without faults."""
    robot, seed = with_mounts(job.robot), job.seed
    if job.kind == "tx40":
        assert job.tx40_folder is not None
        return judge_recording(tx40_with_noise(tx40(job.tx40_folder), seed))
    frictions: dict[str, Callable[[], FrictionLaw | str]] = {
        "published": lambda: gear_friction(robot, MODEL),
        "viscous": lambda: VISCOUS,
        "drawn": lambda: drawn_friction(robot, seed),
    }
    name = {"published": MODEL, "viscous": "viscous", "drawn": f"plant {seed}"}[job.kind]
    try:
        parts = [
            judge_recording(data, with_faults=job.kind == "published")
            for data in simulated(robot, frictions[job.kind](), name, job.work, seed)
        ]
    except SafetyError:
        if job.kind != "drawn":
            raise
        return Outcome((), ())  # no recording if the arm does not follow
    return _together(parts)


def _together(parts: Sequence[Outcome]) -> Outcome:
    return Outcome(
        tuple(case for part in parts for case in part.faults), tuple(case for part in parts for case in part.clean)
    )


def benchmark_verdict(
    robot: Robot,
    work: Path,
    seeds: Sequence[int] = SEEDS,
    plants: int = 6,
    tx40_folder: Path | None = None,
    progress: Callable[[str], None] = lambda stage: None,
    processes: int | None = None,
) -> Outcome:
    """Judge all faults of recordings of the simulated arm and the TX-40, and other plants without faults.

    Args:
        robot: simulated robot.
        work: an existing folder for bags.
        seeds: seeds of the noise; noise is added to the TX-40's run except for seed 0.
        plants: number of plants with random friction that are recorded without faults.
        tx40_folder: folder of the public run; None omits it.
        progress: called with the name of each recording as it is judged.
        processes: number of parallel processes; None is one per core.
    """
    jobs = [_Job(robot, "published", seed, work) for seed in seeds]
    jobs += [_Job(robot, "tx40", seed, work, tx40_folder) for seed in seeds if tx40_folder is not None]
    jobs += [_Job(robot, "viscous", seed, work) for seed in seeds]
    jobs += [_Job(robot, "drawn", seed, work) for seed in range(plants)]
    parts: dict[int, Outcome] = {}
    for place, part in in_processes(_judge, jobs, processes):
        parts[place] = part
        progress(f"{jobs[place].kind}, seed {jobs[place].seed}")
    return _together([parts[k] for k in sorted(parts)])


def tx40_folder() -> Path | None:
    """Return the folder that DYNID_TX40 names."""
    named = os.environ.get("DYNID_TX40")
    return Path(named) if named else None
