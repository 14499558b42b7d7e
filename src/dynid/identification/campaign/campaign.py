"""Campaign: identification from every bag at every sampling interval, then choice and check of one model.

A campaign follows Algorithm 1 of arXiv:2605.15949, lines 17 to 20. A run is the identification from one bag at one
sampling interval. Bags are processed in parallel, and each is read once. Finished runs are stored, so an interrupted
campaign resumes. A run is feasible if its inertia matrix is positive definite. The parameter sets of all feasible runs
form a cloud of points, from which one representative run is chosen. The result is the physically consistent model
nearest to the model of the representative run.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from dynid.errors import DataError, DynidError
from dynid.identification.campaign.checks import CAMPAIGN
from dynid.identification.campaign.cloud import FEWEST_RUNS, Candidate, Cloud, analyse_cloud, with_scatter
from dynid.identification.campaign.held_out_set import HeldOutSet
from dynid.identification.campaign.representative import RepresentativeStudy, study_representative
from dynid.identification.campaign.run import Runner, RunRecord, friction_of, phi_of
from dynid.identification.campaign.store import RunStore, bag_digest, fingerprint
from dynid.identification.checks import judge
from dynid.identification.closed_loop.recorded_loop import refuse_open, refuse_open_loop
from dynid.identification.data.preprocessing import preprocess_recording
from dynid.identification.data.recordings import Several, refuse_fitted
from dynid.identification.estimators.gear_fit import KnownGears
from dynid.identification.estimators.regression import Regression
from dynid.identification.pipeline import undecided
from dynid.identification.result import Identification
from dynid.identification.settings import IdentificationSettings, load_identification
from dynid.model.dynamics import ArmModel
from dynid.parallel import in_processes
from dynid.recording.csv_reader import is_csv
from dynid.recording.driver_recording import load_driver_recording
from dynid.recording.mapping import Mapping
from dynid.robot import Robot, load_robot
from dynid.threads import on_one_thread
from dynid.verdict import Verdict

Advance = Callable[[str], None]
CHOSE = "chose the representative"  # role of held-out bags by which the representative was chosen
LARGE_ENOUGH = 3  # largest ratio of the largest bag's size to that of a bag preferred for fitting friction


@dataclass(frozen=True)
class _Job:
    """Task of a worker process: identification from one bag at all sampling intervals.

    Attributes:
        robot_folder: folder of the robot's files.
        settings: settings of the identification.
        bag: path of the bag.
        store: storage of finished runs.
        gears: friction that was fitted to one bag and is used in all runs, see `campaign_gears`; None if each run fits
            its own friction.
    """

    robot_folder: Path
    settings: IdentificationSettings
    bag: Path
    store: RunStore
    gears: KnownGears | None = None


@dataclass(frozen=True)
class _Outcome:
    """Records of all runs of one bag, or the reason why the bag could not be used.

    Attributes:
        runs: records of the runs; () after a failure.
        reused: number of runs that an earlier campaign had already stored.
        failure: reason why the bag could not be used; "" if it could.
    """

    runs: tuple[RunRecord, ...] = ()
    reused: int = 0
    failure: str = ""


@dataclass(frozen=True, eq=False)
class Campaign:
    """Result of a campaign: identification from every bag at every sampling interval, and the chosen model.

    Attributes:
        robot: the robot.
        settings: settings of the identification.
        runs: records of all runs, in the order of bags and intervals. A run is the identification from one bag at one
            sampling interval. Refused runs, which have no feasible result, are included.
        failures: reasons why bags could not be used, by name of the bag.
        reused: number of runs that an earlier campaign had already stored.
        candidates: records of the feasible runs, in the order of `cloud.candidates`.
        cloud: statistical analysis of the feasible runs' parameter sets.
        study: the run that was chosen to represent all runs, and the model computed from it.
        processing: checks of the whole campaign: the fraction of feasible runs, and whether the closed-loop refinement
            does not increase the scatter of the parameter sets.
        seconds: wall time of all runs ("runs") and of the whole campaign ("all") [s].
    """

    robot: Robot
    settings: IdentificationSettings
    runs: tuple[RunRecord, ...]
    failures: dict[str, str]
    reused: int
    candidates: tuple[RunRecord, ...]
    cloud: Cloud
    study: RepresentativeStudy
    processing: Verdict
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def result(self) -> Identification:
        """Identification result of the campaign."""
        return self.study.result

    @property
    def verdict(self) -> Verdict:
        """Checks of the campaign's result; it is accepted if all checks pass."""
        return self.result.verdict

    @property
    def representative(self) -> RunRecord:
        """Record of the run that was chosen to represent the arm."""
        return self.candidates[self.cloud.representative.index]

    def routing(self) -> dict[float, dict[str, int]]:
        """Return the number of runs by sampling interval [s] and by sequence of steps (arXiv:2605.15949, Table III).

        "O-C" counts runs that refined the least-squares parameters directly. "O-S-C" counts runs that first projected
        these parameters to a model with positive-definite inertia. "unrouted" counts runs that failed before or during
        the refinement. These three numbers add up to "total", the number of all runs. "refused" counts all runs without
        a feasible result, whichever steps they took.
        """
        table: dict[float, dict[str, int]] = {}
        for run in self.runs:
            row = table.setdefault(run.interval_s, {"O-C": 0, "O-S-C": 0, "unrouted": 0, "refused": 0, "total": 0})
            row[run.route or "unrouted"] += 1
            row["refused"] += not run.accepted
            row["total"] += 1
        return dict(sorted(table.items()))


def _work(job: _Job) -> _Outcome:
    """Execute all runs of one bag that are not stored yet, and return the records of all runs of the bag.

    If the bag cannot be used, the result contains the error text as `failure`.
    """
    intervals = job.settings.campaign_intervals_s
    try:
        digest = bag_digest(job.bag)
        keys = [job.store.key(digest, interval) for interval in intervals]
        runs = [job.store.get(job.bag.name, key) for key in keys]
        reused = sum(run is not None for run in runs)
        if reused == len(runs):
            return _Outcome(tuple(run for run in runs if run is not None), reused)
        robot = load_robot(job.robot_folder)
        if is_csv(job.bag):
            refuse_open(job.bag, "it is a CSV file, which holds neither reference nor commands nor gains")
        recording = load_driver_recording(job.bag, robot)
        refuse_open_loop(recording)
        runner = Runner(robot, job.settings, recording.hardware.mount, job.gears)
        for index, (key, interval) in enumerate(zip(keys, intervals, strict=True)):
            if runs[index] is None:
                record = runner.run(recording, interval, key)
                job.store.put(record)
                runs[index] = record
    except DynidError as error:
        return _Outcome(failure=str(error))
    return _Outcome(tuple(run for run in runs if run is not None), reused)


def _size(bag: Path) -> int:
    files = bag.rglob("*") if bag.is_dir() else [bag]
    return sum(path.stat().st_size for path in files if path.is_file())


def campaign_gears(robot: Robot, bags: Sequence[Path], settings: IdentificationSettings) -> KnownGears | None:
    """Return the arm's friction for all runs of a campaign, fitted to one usable bag.

    All runs use the friction terms of this fit. Torques are nonlinear in some friction parameters; all runs linearise
    them at the parameter values of this fit. Friction is fitted only once, because the comparison of possible friction
    terms takes as long as dozens of runs. The duration grows with the size of the bag. So the fit uses the smallest of
    those bags that have at least a third of the largest bag's size; if bags are added, this is usually still the same
    bag. If this bag cannot be used, larger bags are tried, then smaller ones. The result is None if friction is not
    estimated or no bag can be used.
    """
    if settings.coulomb_friction.treatment != "estimated":
        return None
    by_size = sorted(((_size(bag), bag) for bag in bags), key=lambda one: one[0])
    large = [bag for size, bag in by_size if LARGE_ENOUGH * size >= by_size[-1][0]]
    small = [bag for _, bag in by_size[: len(by_size) - len(large)]]
    for bag in [*large, *reversed(small)]:
        try:
            recording = load_driver_recording(bag, robot)
            model = ArmModel.of(robot, mount=recording.hardware.mount)
            samples = preprocess_recording(recording, robot, settings)
            joint_friction = Regression.stack(model, samples, settings.coulomb_friction).joint_friction
        except DynidError:
            continue  # the runs of this bag report the error
        return None if joint_friction is None else joint_friction.fit.known
    return None


def run_all(
    robot: Robot,
    bags: Sequence[Path],
    settings: IdentificationSettings,
    folder: Path,
    *,
    processes: int | None = None,
    advance: Advance = lambda text: None,
    gears: KnownGears | None = None,
) -> tuple[tuple[RunRecord, ...], dict[str, str], int]:
    """Execute the runs of a campaign, one for each bag at each sampling interval; stored runs are reused.

    Args:
        robot: the robot that was recorded.
        bags: bags to identify from.
        settings: settings of the identification.
        folder: folder of the stored runs.
        processes: number of processes; None means one per core.
        advance: function that is called with a text for every finished bag.
        gears: friction that was fitted to one bag and is used in all runs, see `campaign_gears`; None if each run fits
            its own friction.

    Returns:
        Records of the runs in the order of the bags; reason of failure by name of each failed bag; number of reused
        runs.

    Raises:
        DataError: several bags have the same name.
    """
    names = [bag.name for bag in bags]
    if doubled := sorted({name for name in names if names.count(name) > 1}):
        raise DataError(f"several bags are named {', '.join(doubled)}: give every bag a unique name")
    store = RunStore(folder, fingerprint(robot, settings, gears))
    # long bags first, so that no core is still busy with one at the end
    order = sorted(range(len(bags)), key=lambda k: -_size(bags[k]))
    jobs = [_Job(robot.folder, settings, bags[k], store, gears) for k in order]
    outcomes: dict[int, _Outcome] = {}
    for place, outcome in in_processes(_work, jobs, processes):
        outcomes[order[place]] = outcome
        advance(f"{'FAILED ' if outcome.failure else ''}{bags[order[place]].name}")
    runs: list[RunRecord] = []
    failures: dict[str, str] = {}
    setting: tuple[float, ...] | None = None
    for k, bag in enumerate(bags):
        if outcomes[k].failure:
            failures[bag.name] = outcomes[k].failure
            continue
        first = outcomes[k].runs[0]
        setting = setting or first.torque_constants_nm_per_a
        if first.torque_constants_nm_per_a != setting:
            failures[bag.name] = (
                f"recorded with torque constants {first.torque_constants_nm_per_a} N m/A at the joints, "
                f"other bags with {setting}: their parameters are not comparable"
            )
            continue
        runs += outcomes[k].runs
    return tuple(runs), failures, sum(outcome.reused for outcome in outcomes.values())


@on_one_thread
def campaign(
    robot: Robot,
    bags: Sequence[Path],
    folder: Path,
    *,
    validation_bags: Several = (),
    settings: IdentificationSettings | None = None,
    processes: int | None = None,
    advance: Advance = lambda text: None,
    validation_mapping: Mapping = None,
) -> Campaign:
    """Execute a campaign over all bags and sampling intervals; return all runs, and one chosen and checked model.

    Args:
        robot: the robot that was recorded.
        bags: bags to identify from.
        folder: folder in which finished runs are stored, and from which stored runs are reused.
        validation_bags: held-out recordings, which are not used for identification. The result is checked on the first,
            third, ... recording. The representative run is chosen by its error on the second, fourth, ... recording.
        settings: settings of the identification; None means those of the robot's identification.yaml.
        processes: number of processes; None means one per core.
        advance: function that is called with a text for every finished bag.
        validation_mapping: description of the columns of held-out CSV files.

    Raises:
        InputNotFoundError: a held-out bag does not exist.
        DataError: a held-out bag cannot be used or contains the same data as one of `bags`, or fewer than three runs
            have a feasible result.
        InfeasibleError: there is no physically consistent model within the robot's bounds, such as those of masses.
    """
    settings = (settings or load_identification(robot)).with_filtered_rows("campaign")
    begin = time.perf_counter()
    gears = campaign_gears(robot, bags, settings)
    # read before the long part, so that errors appear early
    held_out = HeldOutSet.load(robot, validation_bags, settings, gears, validation_mapping)
    runs, failures, reused = run_all(robot, bags, settings, folder, processes=processes, advance=advance, gears=gears)
    runs_seconds = time.perf_counter() - begin
    refuse_fitted([(run.bag, run.bag_sha256) for run in runs], [(one.name, one.sha256) for one in held_out.portions])
    feasible = tuple(run for run in runs if run.accepted)
    if len(feasible) < FEWEST_RUNS:
        reasons = [f"{name}: {reason}" for name, reason in failures.items()]
        reasons += [f"{run.label}: {run.refusal}" for run in runs if not run.accepted]
        why = "; ".join(reasons) or "no bags"
        raise DataError(f"{len(feasible)} runs ended feasible, but at least {FEWEST_RUNS} are needed: {why}")
    advance("cloud")
    model = ArmModel.of(robot, mount=feasible[0].mount)
    held_out.refuse_other_constants(feasible[0].torque_constants_nm_per_a)
    choosing, accepting = held_out.parted()
    cloud = analyse_cloud(
        [_candidate(run, model, choosing, settings) for run in feasible],
        lambda_min_limit=settings.acceptance.lambda_min_kg_m2,
    )
    chosen = feasible[cloud.representative.index]
    bag = next(bag for bag in bags if bag.name == chosen.bag)
    study = study_representative(robot, settings, chosen, load_driver_recording(bag, robot), accepting, gears)
    same = [run.clie.phi for run in feasible if run.clie is not None and run.interval_s == chosen.interval_s]
    spread = replace(study.result.consistent, base=with_scatter(study.result.base, np.array(same)))
    used = {run.bag: (run.bag, run.bag_sha256, "fitted") for run in runs}
    made = f"campaign of {len(runs)} runs; representative {chosen.label} ({chosen.route}), consistent projection"
    judges = [
        (one.name, one.sha256, used)
        for own, used in ((accepting, "held out"), (choosing, CHOSE))
        for one in own.portions
    ]
    fitted = {run.bag: run for run in runs}
    result = replace(
        study.result,
        consistent=spread,
        source=made,
        sources=(*used.values(), *judges),
        notes=(
            *undecided(robot),
            *study.result.notes,
            *(f"{name}: {note}" for name, run in fitted.items() for note in run.notes),
            *(f"{name} was not used: {reason}" for name, reason in failures.items()),
            *held_out.notes,
        ),
        simulated=(
            *(name for name, run in fitted.items() if run.simulated),
            *(one.name for one in held_out.portions if one.simulated),
        ),
    )
    return Campaign(
        robot=robot,
        settings=settings,
        runs=runs,
        failures=failures,
        reused=reused,
        candidates=feasible,
        cloud=cloud,
        study=replace(study, result=result),
        processing=judge(CAMPAIGN, [len(feasible) / len(runs)]) + cloud.verdict,
        seconds={"runs": runs_seconds, "all": time.perf_counter() - begin},
    )


def _candidate(run: RunRecord, model: ArmModel, held_out: HeldOutSet, settings: IdentificationSettings) -> Candidate:
    """Return a run's parameters from least squares, projection and closed-loop refinement, to compare them with others.

    Args:
        run: record of a feasible run, the identification from one bag at one sampling interval.
        model: model of the arm.
        held_out: held-out recordings by which the run that represents all runs is chosen.
        settings: settings of the identification.
    """
    assert run.ols is not None and run.clie is not None
    clie, friction = phi_of(run.clie, model.names), friction_of(run.clie)
    return Candidate(
        trajectory=run.bag,
        interval_s=run.interval_s,
        names=model.names,
        ols=np.array(run.ols.phi),
        sdp=np.array((run.sdp or run.ols).phi),
        clie=clie.values,
        lambda_min=run.clie.lambda_min,
        validation_error=held_out.relative_error(clie, friction),
    )
