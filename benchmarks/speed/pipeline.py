"""Measurements of `./run benchmark clie` in one object: simulation, campaign, refinement, audit, compilation."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.speed.campaign import BagSet, campaign_figures, make_rest, refuse_full_disk, simulation_figures
from benchmarks.speed.cold_start import fresh_process_seconds
from benchmarks.speed.machine import machine
from benchmarks.speed.refinement import Case, make_case, refinement_figures, timed
from dynid.identification.feasibility.audit import Auditor
from dynid.identification.settings import load_identification
from dynid.model.dynamics import ArmModel
from dynid.model.model_file import read_model_file
from dynid.model.parameters import BaseParameters
from dynid.resources import refuse_existing
from dynid.robot import Robot, load_robot
from dynid.simulation.lockstep.bag_jobs import chosen_names
from dynid.trajectory.families import load_excitation

Progress = Callable[[str], None]
AUDITED_POSES = 1_000_000
PUBLISHED_MODEL = "paper"


@dataclass(frozen=True)
class Plan:
    """Plan of the measurements; the defaults are the paper's 160 runs on the simulated arm.

    identification, held_out: patterns of trajectory names; the first held-out one also serves the cold start.
    refined: the trajectory of the comparison with the baselines.
    profile, mount, seed: profile, mount and seed of every simulation.
    """

    identification: tuple[str, ...] = ("P*", "A*")
    held_out: tuple[str, ...] = ("V*",)
    refined: str = "AG02"
    interval_s: float = 0.04
    profile: str = "paper"
    mount: str = "hanging"
    seed: int = 1


def benchmark_clie(
    robot_name: str = "crane_x7",
    *,
    quick: bool = True,
    work: Path | None = None,
    progress: Progress = lambda text: None,
    plan: Plan | None = None,
) -> dict[str, Any]:
    """Measure the pipeline.

    Args:
        robot_name: a robot by name or folder.
        quick: extrapolate the baselines' times from complete simulations; otherwise they run for hours.
        work: new folder that keeps bags, kernels of the cold start and the campaign's result; None is a temporary one.
        progress: called with the name of each stage.
        plan: plan of the measurements; None is the paper's.

    Returns:
        Figures by name, times in seconds. `ag02_40ms_seconds` is the best of a few complete refinements,
        `compile_seconds` a fresh process with empty caches from its start to an identified bag, simulation included,
        `start_seconds` the same with every kernel there; `campaign_seconds` from bags on disk (just written, so in the
        system's cache) to the written tables, `simulate_realtime_factor` motion over the time of simulation and bag.

    Raises:
        OutputExistsError: the work folder exists.
        DataError: the bags do not fit on the disk, or a stage refuses its data.
    """
    plan = plan or Plan()
    robot = load_robot(robot_name)
    excitation = load_excitation(robot)
    bags = BagSet(
        robot_name,
        tuple(chosen_names(plan.identification, excitation.names)),
        tuple(chosen_names(plan.held_out, excitation.names)),
        plan.profile,
        plan.mount,
        plan.seed,
    )
    with _work_folder(work) as folder:
        refuse_full_disk(bags, robot, excitation, folder)
        figures: dict[str, Any] = {"robot": robot.name, "machine": machine()}
        figures |= _cold_start(bags, folder, progress)
        (folder / "bags").mkdir()
        progress(f"simulating {plan.refined}")
        figures |= simulation_figures(bags, bags.held_out[0], plan.refined, folder / "bags")
        case = make_case(robot, folder / "bags" / plan.refined, plan.interval_s)
        auditor = Auditor(case.model, robot.audit_lower, robot.audit_upper)
        figures |= {"trajectory": plan.refined, "profile": plan.profile, "mount": plan.mount}
        figures |= refinement_figures(case, auditor, quick=quick, progress=progress)
        progress("auditing")
        figures |= _audit(robot, auditor, case)
        figures |= make_rest(bags, folder / "bags", progress)
        figures |= campaign_figures(bags, robot, folder / "bags", folder / "campaign", progress)
    return figures


@contextmanager
def _work_folder(work: Path | None) -> Iterator[Path]:
    """Yield the new folder, or a temporary one."""
    if work is None:
        with tempfile.TemporaryDirectory(prefix="dynid-benchmark-") as name:
            yield Path(name)
        return
    refuse_existing(work)
    work.mkdir(parents=True)
    yield work


def _cold_start(bags: BagSet, folder: Path, progress: Progress) -> dict[str, Any]:
    """Return the times of a fresh process without and with compiled kernels."""
    cache = folder / "kernels"
    cache.mkdir(mode=0o700)
    seconds = {}
    for name, text in (("compile_seconds", "compiling every kernel"), ("start_seconds", "loading every kernel")):
        progress(f"{text} in a fresh process")
        job = bags.job(bags.held_out[0], folder / name)
        job.folder.parent.mkdir()
        seconds[name] = fresh_process_seconds(job, cache)
    return seconds


def _audit(robot: Robot, auditor: Auditor, case: Case) -> dict[str, Any]:
    """Return audited poses per second, and the time until the published model's indefinite pose is found."""
    auditor.audit(case.phi0, searches=1)  # loads or compiles its kernels
    seconds, sampled = timed(lambda: auditor.audit(case.phi0, poses=AUDITED_POSES, searches=0))
    figures: dict[str, Any] = {"audit_poses_per_second": sampled.poses_checked / seconds}
    published = _published(robot, case.model)
    if published is None:
        return figures | {"audit_finds_indefinite_seconds": None, "audit_published_lambda_min": None}
    settings = load_identification(robot).audit
    seconds, found = timed(
        lambda: auditor.audit(published, poses=settings.poses, searches=settings.searches, seed=settings.seed)
    )
    return figures | {
        "audit_finds_indefinite_seconds": seconds if found.lambda_min < 0.0 else None,
        "audit_published_lambda_min": found.lambda_min,
    }


def _published(robot: Robot, model: ArmModel) -> BaseParameters | None:
    """Return the published parameters as phi of `model`, with the URDF's geometry; None for a robot without them."""
    path = robot.folder / "models" / f"{PUBLISHED_MODEL}.yaml"
    if not path.is_file():
        return None
    content = read_model_file(path)
    own = ArmModel.of(robot, structure=model.structure, lengths_m=content.geometry_overrides_m)
    return BaseParameters(model.names, content.base_parameters(own).values)
