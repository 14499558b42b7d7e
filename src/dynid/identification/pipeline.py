"""Pipeline from recordings to a checked model: preprocess, estimate, project, audit, validate and check.

The projection gives the closest physically consistent model. The audit searches for the smallest eigenvalue of the
inertia matrix over all poses. Each stage is a module of its own; this file joins them and collects their checks into
one verdict.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from dynid.errors import DataError, UndeterminedError, refuse_other_kind
from dynid.identification.bands import TorqueBands
from dynid.identification.checks import HELD_OUT, SETUP, TO_THE_END, judge
from dynid.identification.conclusion import conclude
from dynid.identification.cross_validation import CrossValidation, cross_validated
from dynid.identification.data.parts import Span, parts_of
from dynid.identification.data.recordings import (
    Recording,
    Several,
    load_recordings,
    refuse_fitted,
    refuse_repeated,
    rows_of,
)
from dynid.identification.data.repeats import repeat_note
from dynid.identification.data.row_choice import RowChoice
from dynid.identification.data.sample_sets import join
from dynid.identification.data.samples import Samples
from dynid.identification.estimators.estimate import Estimate
from dynid.identification.estimators.table import estimator
from dynid.identification.export_errors import MODEL_FILE, errors_of, predicted_by
from dynid.identification.held_out import validate
from dynid.identification.many.reduction import LINEAR, from_all
from dynid.identification.many.spread import kept
from dynid.identification.noisy_data import noise_sentence
from dynid.identification.nominal_prior import nominal_prior, with_prior
from dynid.identification.prediction import predict, with_dynamics
from dynid.identification.prepared import MOST_ROWS, Prepared, prepare
from dynid.identification.result import Identification
from dynid.identification.row_rate import with_deviations
from dynid.identification.settings import IdentificationSettings, load_identification
from dynid.identification.small_delay import compensated
from dynid.identification.stages import Refined, Stage
from dynid.identification.steadiness.steadiness import Steadiness, steadiness_to_the_end
from dynid.model.dynamics import ArmModel
from dynid.parallel import Map
from dynid.recording.mapping import Mapping, mappings_of
from dynid.robot import Robot
from dynid.threads import on_one_thread

HOLD_OUT = "; or hold out some of the time: the robot's nominal values then fill in, if unseen torques hold"
FILLED = (
    "The robot's nominal values fill in, each as uncertain as it is large: move the arm as these recordings do, and "
    "trust no parameter that is not determined"
)
Progress = Callable[[str], None]
Refine = Callable[[ArmModel, Sequence[Recording], Estimate, IdentificationSettings], Refined]


@on_one_thread
def identify(
    robot: Robot,
    recordings: Several,
    *,
    validation: Several = (),
    settings: IdentificationSettings | None = None,
    progress: Progress = lambda stage: None,
    mapping: Mapping = None,
    validation_mapping: Mapping = None,
    held_out_share: float = 0.0,
    setup: Sequence[str] = (),
    span: Span = Span(),
    refine: Refine | None = None,
    spread: Map = map,
    keep: Path | None = None,
) -> Identification:
    """Identify a model from one or more recorded motions by regression.

    Args:
        robot: the robot of all recordings.
        recordings: one or several of: bags, CSV files, LeRobot data sets, folders of them, recordings that were already
            read or made from arrays.
        validation: held-out recordings, on which the result is checked.
        settings: settings of the identification; None reads the robot's identification.yaml.
        progress: function that is called with the name of each stage as it starts.
        mapping: meaning of the columns of CSV files, or of the topics and units of bags and data sets. It is a mapping
            object, its content as a dict, or the path of its file; or two of these, one for CSV files and one for bags.
        validation_mapping: mapping of held-out recordings; None means that `mapping` applies to them, too.
        held_out_share: share of each recording's time, at its end, that is not fitted and on which the fit is checked.
        setup: unknowns of the set-up to estimate: encoder zeros, tilt of the base, torque constants, torque delay. The
            words are "tilt", "delay", "zero:JOINT", "torque-constant:JOINT", and "zeros" and "torque-constants" for
            several joints, see `setup.choose`; () estimates none.
        span: time span of each recording that is used.
        refine: function that refines the estimate; the result is then the consistent model closest to the refined
            parameters.
        spread: map function, such as that of a process pool. It distributes the reading of folders. If recordings
            exceed the memory, it also distributes the computation of R factors (QR) of their equations.
        keep: folder for intermediate results of recordings that exceed the memory. An interrupted identification
            resumes from these results. None stores none.

    Raises:
        InputNotFoundError, DataError: a recording cannot be used; the message gives the reason.
        InfeasibleError: no consistent model satisfies the robot's physical bounds.
        ConfigurationError, UnknownNameError: a word of `setup` is not part of this robot's set-up, or an argument has a
            wrong type.
    """
    refuse_other_kind(robot, Robot, "the robot", "load it with dynid.load_robot first")
    if not recordings:
        raise DataError("no bag to identify from: name at least one")
    settings = settings or load_identification(robot)
    most_rows = MOST_ROWS if refine is None else None
    sources = load_recordings(recordings, robot, mapping, progress, most_rows=most_rows, spread=spread)
    refuse_repeated(sources)
    sources = parts_of(sources, span)
    its_mapping = validation_mapping or mapping
    how = partial(
        _estimated,
        robot,
        settings=settings,
        validation=validation,
        mapping=its_mapping,
        held_out_share=held_out_share,
        setup=setup,
        progress=progress,
    )
    judged = bool(validation or held_out_share) and refine is None
    used, filled, (ready, model, samples, estimate) = _with_open_parameters(robot, settings, sources, how, judged)
    if refine is None and ready.rows.kind == "filtered":
        timed = compensated(
            model, ready, estimate, held_out_share=held_out_share, mapping=its_mapping, progress=progress
        )
        ready, estimate = timed.ready, timed.estimate
        samples = join([one.samples for one in ready.fitted])
    robot, settings, fitted, ends = ready.robot, ready.settings, ready.fitted, ready.ends
    first, estimates = ready.sources[0], ready.setup
    estimate, unseen = _of_all_recordings(ready, model, estimate, held_out_share, spread, keep, progress)
    refined = None if refine is None else refine(model, ready.sources, estimate, settings)
    sources = [one.released() for one in used]
    result = conclude(
        robot,
        settings,
        model,
        fitted,
        estimate,
        None if refined is None else refined.base,
        constants=first.torque_constants,
        refined=None if refined is None else (float(refined.converged), refined.how),
        progress=progress,
    )
    progress("validating")
    predictor = result.as_model()
    slow = settings.coulomb_friction.slow_rad_s
    kept = tuple(with_dynamics(predict(predictor, one), predictor, one, slow) for one in ends)
    bands = TorqueBands(model, estimate, samples, result.base, result.friction, settings.coulomb_friction)
    kept = tuple(bands.with_deviations(motion, model, one.samples) for motion, one in zip(kept, ends, strict=True))
    files = result.exported() if ends or ready.validation else {}  # only held-out data judge exported files
    held_out = validate(
        predictor,
        ready.validation,
        settings=settings,
        mapping=its_mapping,
        bands=bands,
        fitted=samples,
        other_models=files,
        compensate_delay=False,  # these recordings were read with the delay of the fitted ones
        beside=sources,
    )
    by_files = {name: (*motions, *held_out.other_models[name]) for name, motions in predicted_by(files, ends).items()}
    if its_mapping == mapping:  # with different mappings, one file may hold fitted and held-out data
        refuse_fitted([(str(one.path), one.sha256) for one in sources], held_out.sources)
    later = _changes_to_the_end(result, ready)
    crossed = CrossValidation()
    if not ends and not ready.validation:
        crossed = cross_validated(result.motions, fitted, estimate.regression)
    result = replace(
        result,
        deviations=bands.table(),
        stages=_stages_of(estimate) if refined is None else refined.stages,
        rows=ready.rows.sentence,
        goals=ready.goals,
        refinement="" if refined is None else refined.how,
        motions=(*kept, *held_out.motions, *crossed.motions, *result.motions),
        exports=errors_of({MODEL_FILE: (*kept, *held_out.motions)} | by_files),
        verdict=result.verdict
        + judge(SETUP, [estimates] if setup else ())
        + judge(TO_THE_END, () if later is None else [later], settings)
        + judge(HELD_OUT, (*kept, *crossed.motions), settings)
        + held_out.verdict,
        sources=(
            *((str(one.path), one.sha256, "fitted") for one in sources),
            *((path, sha, "held out") for path, sha in held_out.sources),
        ),
        mapping_of_bags=_described(mapping, its_mapping),
        notes=(
            *undecided(robot),
            *filled,
            *unseen,
            *(_of_averages(result, ready.rows) if ready.rows.kind == "averaged" else ()),
            *result.notes,
            *(one.sentence for one in estimates),
            *((ready.goals.sentence,) if ready.goals else ()),
            *(f"{one.name}: {note}" for one in sources for note in one.notes),
            *(f"{one.name}: {one.samples.settings.selection}" for one in fitted if one.samples.settings.selection),
            *(note for one in (*result.motions, *kept) for note in one.notes),
            *(note for one in ends for note in repeat_note(f"The {one.name}", samples, one.samples)),
            *(() if later is None else later.sudden.beside(result.steadiness).notes(settings.acceptance.change_of_arm)),
            *crossed.notes,
            *held_out.notes,
        ),
        simulated=(*(one.name for one in sources if one.simulated), *held_out.simulated),
        setup=estimates,
        steadiness_to_the_end=later or Steadiness(),
    )
    if ready.rows.kind == "averaged":
        return result
    return replace(result, noise=noise_sentence(result.verdict, result.motions))


def _changes_to_the_end(result: Identification, ready: Prepared) -> Steadiness | None:
    """Return the changes of the arm between the start of the fitted and the end of the held-out portions.

    None is returned if nothing is held out, or if a change that shows in the fitted portions alone is large enough to
    refuse the model.

    Args:
        result: identification result from the fitted portions.
        ready: the recordings, with their fitted portions and their held-out ends.
    """
    settings = result.settings
    if not ready.ends or result.steadiness.beyond(settings.acceptance.change_of_arm):
        return None
    names, regression = [one.name for one in ready.sources], result.estimate.regression
    return steadiness_to_the_end(result.robot, result.model, ready.fitted, ready.ends, names, regression, settings)


def _estimated(
    robot: Robot, sources: Sequence[Recording], *, settings: IdentificationSettings, progress: Progress, **how: Any
) -> tuple[Prepared, ArmModel, Samples, Estimate]:
    """Return the prepared recordings, the model of the arm, the samples, and the estimate of the parameters.

    The set-up of the arm consists of joint zeros, torque scales, gravity direction and torque delay. If parts of it are
    estimated, the estimated zeros, scales and delay are corrected in the recordings, and the model has the estimated
    direction of gravity.

    Args:
        robot: the robot.
        sources: the recordings.
        settings: settings of the identification.
        progress: function that is called with the name of each stage as it starts.
        how: further arguments of `prepare`.

    Raises:
        UndeterminedError: the recordings do not determine all parameters.
    """
    ready = prepare(robot, sources, settings, progress=progress, **how)
    model = ArmModel.of(ready.robot, mount=ready.sources[0].mount)
    samples = join([one.samples for one in ready.fitted])
    progress("estimating")
    chosen = estimator(ready.settings.estimator)
    return ready, model, samples, chosen.estimate(model, samples, ready.settings.coulomb_friction)


def _with_open_parameters(
    robot: Robot, settings: IdentificationSettings, sources: Sequence[Recording], how: Callable[..., Any], judged: bool
) -> tuple[Sequence[Recording], tuple[str, ...], tuple[Prepared, ArmModel, Samples, Estimate]]:
    """Return the estimate from recordings; nominal values may replace parameters that slow recordings do not determine.

    Args:
        robot: the robot.
        settings: settings of the identification.
        sources: the recordings.
        how: function that returns the result of `_estimated` for recordings.
        judged: whether the result is checked on held-out torques. Nominal values are used only in this case.

    Returns:
        The recordings, with a prior of nominal values if it was needed; notes about this; and the result of `how`.

    Raises:
        UndeterminedError: the recordings do not determine all parameters, and nominal values cannot be used: the robot
            has none, `judged` is False, or the recordings are fast enough to be filtered instead of averaged.
    """
    try:
        return sources, (), how(sources)
    except UndeterminedError as refusal:
        prior = nominal_prior(robot, ArmModel.of(robot, mount=sources[0].mount))
        averaged = rows_of(sources, settings).kind == "averaged"
        if not averaged or prior is None or not judged:
            raise UndeterminedError(f"{refusal}{HOLD_OUT if averaged and prior is not None else ''}") from refusal
        sources = with_prior(sources, prior)
        return sources, (f"{refusal}. {FILLED}",), how(sources)


def _of_all_recordings(
    ready: Prepared,
    model: ArmModel,
    estimate: Estimate,
    held_out_share: float,
    spread: Map,
    keep: Path | None,
    progress: Progress,
) -> tuple[Estimate, tuple[str, ...]]:
    """Return the estimate from all recordings, including those that do not fit in memory, and notes about it.

    The standard deviations include the uncertainty due to a low sampling rate of the recordings, see `row_rate`.

    Args:
        ready: prepared recordings, as many as fit in memory.
        model: the arm.
        estimate: estimate from the prepared recordings.
        held_out_share: share of each recording's time, at its end, that is not fitted.
        spread: map function, such as that of a process pool, that reads the recordings and computes R factors of their
            equations.
        keep: folder for intermediate results, to resume an interrupted computation; None stores none.
        progress: function that is called with the name of each stage as it starts.
    """
    more, notes = (None, ()) if ready.halved is None else ready.halved.change(model, estimate, ready.settings)
    if ready.every and estimate.method not in LINEAR:
        used, given = len(ready.sources), len(ready.every)
        part = f"{used} of {given} recordings are used" if used < given else "part of the time is used"
        notes = (*notes, f"{part}: the estimator {estimate.method} takes no more than memory holds; ols and wls do.")
    elif ready.every:
        progress("reducing all recordings")
        mapper = spread if keep is None else kept(spread, keep)
        known = ready.every, ready.found, ready.settings, held_out_share, mapper, progress
        estimate, told = from_all(estimate, model, *known)
        notes = (*notes, *told)
    return estimate if more is None else with_deviations(estimate, more), notes


def _of_averages(result: Identification, rows: RowChoice) -> tuple[str, ...]:
    """Return notes for a model that was identified from averages of slow or unevenly sampled recordings.

    The notes describe the averages, and list the parameters that the data determine.
    """
    return (rows.sentence, *((result.determined.sentence,) if result.determined else ()))


def _described(mapping: Mapping, its_mapping: Mapping) -> dict[str, dict[str, Any]]:
    """Return mappings of bags (topics and units) as plain values, by use ("fitted", "held out"); {} if there are none.

    Args:
        mapping: mapping of the fitted recordings.
        its_mapping: mapping of the held-out recordings.
    """
    bags = {"fitted": mappings_of(mapping).bag, "held out": mappings_of(its_mapping).bag}
    return {used: own.model_dump(mode="json", exclude_defaults=True) for used, own in bags.items() if own is not None}


def _stages_of(estimate: Estimate) -> tuple[Stage, ...]:
    """Return the intermediate results of an identification by regression: only the unconstrained estimate."""
    errors = estimate.regression.errors(estimate.base.values)
    return (Stage("ols", estimate.base, errors.rmse, errors.relative),)


def undecided(robot: Robot) -> list[str]:
    """Return a list with one note that names the fields of robot.yaml on which the user must still decide.

    The list is empty if there are none. If there are some, an identification uses the values that robot.yaml proposes
    for these fields.
    """
    fields = ", ".join(robot.file.undecided)
    return [f"robot.yaml of '{robot.name}' leaves {fields} undecided; see 'dynid robot check'"] if fields else []
