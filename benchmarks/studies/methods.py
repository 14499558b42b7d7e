"""Figures of methods in addition to the paper's: many joints, elastic joints, minimal set, optimised excitation."""

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

from benchmarks.studies.many_joints import LARGEST, SMALLEST, Fit, Setting, Study, chain, growth
from dynid.excitation.one_joint import OneJointWish
from dynid.excitation.optimiser import ExcitationOptimiser, ExcitationWish, condition_number
from dynid.identification.elastic.study import ElasticStudy, study
from dynid.model.dynamics import ArmModel
from dynid.model.screws import ScrewChain, same
from dynid.model.standard import load_nominal
from dynid.robot import load_robot
from dynid.trajectory.families import load_excitation

PLANAR, LARGE = "planar_2r_elastic", "puma560"
THREE, NINE = "puma_3dof", "serial_9dof"
ROBOT, BUDGET = "crane_x7", "AP01"  # primitive with the duration of the optimised motion
SIZES = (SMALLEST, 6, 9, 12, 16, 20, 25, LARGEST)
REPEATS = 3
RANDOM_SETS = 100
Progress = Callable[[str], None]


def elastic_figures() -> dict[str, float]:
    """Return mean relative errors of the identifiable parameters of both arms with the settings of elastic.yaml."""
    small, large = study(load_robot(PLANAR)), study(load_robot(LARGE))
    return {
        "elastic_2dof_error": small.error,
        "elastic_2dof_error_no_static_friction": small.error_no_static_friction,
        "elastic_6dof_error": large.error,
        **_by_noise("elastic_2dof", small),
        **_by_noise("elastic_6dof", large),
    }


def _by_noise(name: str, found: ElasticStudy) -> dict[str, float]:
    return {f"{name}_error_at_{ratio:g}_db": error for ratio, error in found.noise.items()}


def _of_robot(name: str) -> Study:
    robot = load_robot(name)
    model = ArmModel.of(robot)
    return Study.of(model, load_nominal(robot, model.mdh, model.regrouping.standard), Setting(), robot)


def many_joint_figures(quick: bool = False) -> dict[str, float]:
    """Return durations and errors of both programs for the example arms, and the growth with the number of joints.

    `quick` leaves out the sizes between the smallest and the largest, and repetitions.
    """
    figures: dict[str, float] = {}
    repeats = 1 if quick else REPEATS
    for name, label in ((THREE, "3dof"), (NINE, "9dof")):
        arm = _of_robot(name)
        for kind, fit in (("sequential", arm.sequential), ("simultaneous", arm.simultaneous)):
            fits = [fit() for _ in range(repeats)]
            figures[f"{kind}_{label}_seconds"] = median(one.seconds for one in fits)
            figures[f"{kind}_{label}_torque_error"] = fits[0].torque_error
            figures[f"{kind}_{label}_parameter_error"] = fits[0].parameter_error
    sizes = (SMALLEST, LARGEST) if quick else SIZES
    arms = [Study.of(*chain(size)) for size in sizes]
    found = [_repeated(arm.sequential, repeats) for arm in arms]
    together = [_repeated(arm.simultaneous, repeats) for arm in arms]
    at_once = [median(fit.solver_seconds for fit in fits) for fits in together]
    solving = [median(fit.solver_seconds for fit in fits) for fits in found]
    whole = [median(fit.seconds for fit in fits) for fits in found]
    for size, seconds, fits, others in zip(sizes, solving, found, together, strict=True):
        figures[f"sequential_{size}_joints_solver_seconds"] = seconds
        figures[f"sequential_{size}_joints_torque_error"] = fits[0].torque_error
        figures[f"simultaneous_{size}_joints_torque_error"] = others[0].torque_error
    figures["growth_exponent"] = growth(np.array(sizes, float), np.array(solving))
    figures["growth_exponent_with_data"] = growth(np.array(sizes, float), np.array(whole))
    figures["simultaneous_growth_exponent"] = growth(np.array(sizes, float), np.array(at_once))
    figures[f"simultaneous_{sizes[-1]}_joints_solver_seconds"] = at_once[-1]
    return figures


def _repeated(fit: Callable[[], Fit], repeats: int) -> list[Fit]:
    return [fit() for _ in range(repeats)]


def minimal_set_figures() -> dict[str, Any]:
    """Return the rank of the 3R's minimal set, and the number of random sets of states with equal result."""
    screws = ScrewChain.of(load_robot("lower_limb_3r"))
    first = screws.minimal_set()
    agree = sum(same(first, screws.minimal_set(seed)) for seed in range(1, RANDOM_SETS + 1))
    return {"minimal_set_rank": len(first.pivots), "minimal_set_same": agree, "minimal_set_random_sets": RANDOM_SETS}


def excitation_figures() -> dict[str, float]:
    """Return condition numbers of the optimised motion, of primitives of its duration, and of single-joint motions."""
    robot = load_robot(ROBOT)
    excitation = load_excitation(robot)
    optimiser = ExcitationOptimiser(robot, excitation)
    motions = [excitation.trajectory(name, "limited") for name in excitation.names]
    budget = excitation.trajectory(BUDGET, "limited").duration
    kappas = {one.name: condition_number(optimiser.regressor, one) for one in motions if one.duration <= 1.01 * budget}
    begin = time.perf_counter()
    found = optimiser.optimise("optimised", ExcitationWish(budget))
    seconds = time.perf_counter() - begin
    alone, _ = optimiser.one_joint("limited").motion("one_joint", OneJointWish(postures=3))
    return {
        "excitation_duration_s": budget,
        "optimised_kappa": found.kappa,
        "optimised_seconds": seconds,
        "best_primitive_kappa": min(kappas.values()),
        "equal_primitive_kappa": kappas[BUDGET],
        "one_joint_kappa": condition_number(optimiser.regressor, alone),
        "one_joint_duration_s": alone.duration,
    }


def method_figures(quick: bool, progress: Progress) -> dict[str, Any]:
    """Return all figures of the functions above."""
    figures: dict[str, Any] = {}
    progress("many joints")
    figures |= many_joint_figures(quick)
    progress("elastic joints")
    figures |= elastic_figures()
    progress("minimal set")
    figures |= minimal_set_figures()
    progress("excitation")
    return figures | excitation_figures()
