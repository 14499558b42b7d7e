"""Identification by any method: regression, closed-loop refinement on all bags, or the campaign of arXiv:2605.15949.

    result = identify(robot, bags, method="closed-loop")

All methods return an `Identification`, with the same verdict, files and report.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from dynid.errors import ConfigurationError, refuse_other_kind
from dynid.identification import pipeline
from dynid.identification.closed_loop.recorded_loop import refuse_open, refuse_open_loop
from dynid.identification.data.parts import Span
from dynid.identification.data.recordings import Recorded, Recording, Several, load_recordings
from dynid.identification.estimators.estimate import Estimate
from dynid.identification.many.spread import LOCAL, spread_over
from dynid.identification.pipeline import Progress
from dynid.identification.result import Identification
from dynid.identification.settings import IdentificationSettings, load_identification
from dynid.identification.stages import Method, Refined, refuse_unknown_method
from dynid.model.dynamics import ArmModel
from dynid.recording.driver_recording import DriverRecording
from dynid.recording.mapping import Mapping
from dynid.robot import Robot
from dynid.threads import on_one_thread

ROWS_ALONE = "reference, commands and gains (it holds positions and torques alone)"


@on_one_thread
def identify(
    robot: Robot,
    recordings: Several,
    *,
    method: Method = "regression",
    validation: Several = (),
    settings: IdentificationSettings | None = None,
    progress: Progress = lambda stage: None,
    mapping: Mapping = None,
    validation_mapping: Mapping = None,
    held_out_share: float = 0.0,
    setup: Sequence[str] = (),
    span: tuple[float | None, float | None] = (None, None),
    processes: int | None = None,
    dask: str | None = None,
    keep: Path | str | None = None,
    runs: Path | str | None = None,
) -> Identification:
    """Identify a model from one or more recorded motions.

    Args:
        robot: the robot of all recordings.
        recordings: one or several of: bags, CSV files, LeRobot data sets, folders of them, recordings that were already
            read or made from arrays.
        method: "regression"; "closed-loop", the refinement of the regression's model on all bags together, by
            simulation of the recorded closed loops; or "campaign", the method of arXiv:2605.15949: one identification
            of every bag at every sampling interval, then the choice of one of these models, see `campaign.cloud`. The
            last two need bags of dynid's recorder, with reference, commands and gains.
        validation: held-out recordings for the checks of the result; a campaign also uses them to choose its model.
        settings: settings of the identification; None reads the robot's identification.yaml.
        progress: function that is called with the name of each stage as it starts, and with each finished bag of a
            campaign.
        mapping: meaning of the columns of CSV files, or of the topics and units of bags and data sets. It is a mapping
            object, its content as a dict, or the path of its file; or two of these, one for CSV files and one for bags.
        validation_mapping: mapping of held-out recordings; None means that `mapping` applies to them, too.
        held_out_share: share of each recording's time, at its end, that a regression uses for checks instead of the
            fit.
        setup: unknowns of the set-up that a regression estimates: encoder zeros, tilt of the base, torque constants,
            torque delay. The words are "tilt", "delay", "zero:JOINT", "torque-constant:JOINT", and "zeros" and
            "torque-constants" for several joints, see `setup.choose`; () estimates none.
        span: start and end [s] of the part of each recording that a regression uses; None is the start or end of the
            recording.
        processes: number of processes that read recordings and compute R factors of their equations, or run a campaign;
            0 starts one per core. None uses only the calling process for a regression, and one per core for a campaign.
        dask: address of the scheduler of a Dask cluster that reads the recordings of a regression and computes the R
            factors; "local" starts a cluster.
        keep: folder for intermediate results of a regression whose recordings exceed the memory; an interrupted
            identification resumes from there. None stores none.
        runs: folder in which a campaign stores and looks up its finished runs, so that it can be resumed;
            `write_result` removes these runs. None is a temporary folder.

    Raises:
        InputNotFoundError, DataError: a recording cannot be used, or lacks what the method needs.
        InfeasibleError: no consistent model satisfies the robot's physical bounds.
        ConfigurationError, UnknownNameError: the method does not exist, an argument belongs to another method or has a
            wrong type, or a word of `setup` is not part of a set-up.
    """
    refuse_other_kind(robot, Robot, "the robot", "load it with dynid.load_robot first")
    refuse_unknown_method(method)
    given = {
        "held_out_share": (bool(held_out_share), "regression", "name held-out recordings as validation"),
        "setup": (bool(setup), "regression", "estimate the set-up by a regression first"),
        "span": (not Span(*span).whole, "regression", "record the part alone"),
        "dask": (dask is not None, "regression", "leave it out"),
        "keep": (keep is not None, "regression", "leave it out"),
        "runs": (runs is not None, "campaign", "leave it out"),
    }
    for name, (stated, owner, cure) in given.items():
        if stated and method != owner:
            raise ConfigurationError(f"{name} belongs to method '{owner}', not to '{method}': {cure}")
    if processes is not None and method == "closed-loop":
        raise ConfigurationError("processes belongs to the methods 'regression' and 'campaign': leave it out")
    if processes is not None and dask not in (None, LOCAL):
        raise ConfigurationError("a Dask cluster has workers of its own: leave processes out")
    settings = settings or load_identification(robot)
    if method != "regression":
        settings = settings.with_filtered_rows(method)
    common = partial(
        pipeline.identify,
        robot,
        validation=validation,
        settings=settings,
        progress=progress,
        mapping=mapping,
        validation_mapping=validation_mapping,
    )
    if method == "regression":
        workers = 1 if processes is None and dask is None else processes or None
        with spread_over(workers, dask) as spread:
            folder = None if keep is None else Path(keep)
            of: dict[str, Any] = {"held_out_share": held_out_share, "setup": setup, "span": Span(*span)}
            return common(recordings, **of, spread=spread, keep=folder)
    if method == "closed-loop":
        sources = load_recordings(recordings, robot, mapping, progress)
        loops = [_loop_of(one) for one in sources]  # before the long computation, so that errors appear early
        refine = partial(_refine, robot, loops, progress)
        count = f"{len(loops)} closed loop{'s' if len(loops) > 1 else ''}"
        found = common(sources, refine=refine)
        source = f"{found.source}, refined jointly over {count}"
        return replace(found, method=method, source=source)
    from dynid.identification.campaign.campaign import campaign  # imported here, because a regression needs neither
    from dynid.identification.campaign.files import identification_of

    with tempfile.TemporaryDirectory(prefix="dynid_runs_") as temporary:
        stored = None if runs is None else Path(runs)
        whole = campaign(
            robot,
            _bags(recordings),
            stored or Path(temporary) / "runs",
            validation_bags=validation,
            validation_mapping=validation_mapping or mapping,
            settings=settings,
            processes=processes or None,
            advance=progress,
        )
        return identification_of(whole, stored)


def _refine(
    robot: Robot,
    loops: Sequence[DriverRecording],
    progress: Progress,
    model: ArmModel,
    sources: Sequence[Recording],
    estimate: Estimate,
    settings: IdentificationSettings,
) -> Refined:
    from dynid.identification.campaign.joint import refine_jointly  # imported here, because a regression needs none

    progress("refining in the closed loop")
    return refine_jointly(robot, loops, settings, estimate)


def _loop_of(source: Recording) -> DriverRecording:
    """Return the recorded closed loop of a recording: states, references, commands and gains.

    Raises:
        DataError: the recording contains no closed loop.
    """
    if source.driver is None:
        refuse_open(source.path, ROWS_ALONE)
    refuse_open_loop(source.driver)
    return source.driver


def _bags(recordings: Several) -> list[Path]:
    """Return the paths of the bags of a campaign; the campaign's worker processes read the bags themselves.

    Raises:
        DataError: one of the recordings is given as a `Recording` object and contains no closed loop. Paths are not
            checked here.
    """
    listed: Sequence[Recorded] = [recordings] if isinstance(recordings, Recorded) else recordings
    bags = []
    for one in listed:
        refuse_other_kind(one, (str, Path, Recording), "a recording of a campaign", "name its bag")
        if isinstance(one, Recording):
            _loop_of(one)
        bags.append(one.path if isinstance(one, Recording) else Path(one))
    return bags
