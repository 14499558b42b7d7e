"""Benchmark `./run benchmark bilateral`: tracking and force errors of two coupled arms, and safety under faults."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bilateral.cycle_cost import cycle_costs
from benchmarks.bilateral.faults import FAULTS, PairFault, energy_gain, inject
from benchmarks.speed.control import nominal_models
from dynid.control.bilateral.law import BilateralSettings
from dynid.control.control_model import ControlModel, from_model_file
from dynid.demo.bench import identified, make_bench
from dynid.demo.two_arms import FORCE_ERROR, TRACKING_DEG
from dynid.robot import Robot
from dynid.simulation.lockstep.arm_pair import Lines, LockstepPair, PairRun
from dynid.simulation.lockstep.hand_and_wall import Hand, Wall, pressing, wandering

WALLS_N_M = (300.0, 1500.0, 6000.0)
FREE_S, ENGAGED_S, LET_GO_S, HANDS_OFF_S = 5.0, 1.0, 2.2, 2.0
PRESS_S, HELD_FROM_S = 3.4, 2.5
HELD_N = 0.5  # force of the wall that counts as contact [N]
GAIN_J = 0.02
Make = Callable[[Sequence[Lines]], LockstepPair]


def tracking_deg(run: PairRun, robot: Robot) -> float:
    """Return the RMS difference of both arms' chain joints while they are engaged [deg]."""
    apart = (run.rows["q"][0] - run.rows["q"][1])[run.time_s >= ENGAGED_S, : robot.chain_size]
    return float(np.rad2deg(np.sqrt(np.mean(apart**2))))


def force_errors(run: PairRun) -> dict[str, float]:
    """Return RMS force differences of hand and wall over the wall's force, while pressing and before it [1]."""
    hand, wall = run.force[0, :, 0], run.force[1, :, 0]
    held = run.time_s >= HELD_FROM_S
    moving = ~held & (wall < -HELD_N)
    both = {"held": held, "pressing": moving}
    found = {name: float(np.sqrt(np.mean((hand + wall)[k] ** 2) / np.mean(wall[k] ** 2))) for name, k in both.items()}
    return found | {"hand_n": float(hand[held].mean()), "wall_n": float(-wall[held].mean())}


def measure_free(make: Make, robot: Robot) -> dict[str, Any]:
    """Measure a run in which a hand guides the leader in free motion and then releases it."""
    pair = make(())
    run = pair.run(FREE_S, Hand(wandering, pair.tool_at_start()))
    pair = make(())
    free = pair.run(LET_GO_S + HANDS_OFF_S, Hand(wandering, pair.tool_at_start(), until_s=LET_GO_S))
    last = np.abs(free.rows["dq"][:, -200:]).max()
    return {
        "tracking_deg_rms_free": tracking_deg(run, robot),
        "hand_n_rms_free": float(np.sqrt((run.force[0][run.time_s >= ENGAGED_S] ** 2).sum(axis=1).mean())),
        "energy_gain_hands_off_j": float(energy_gain(free, LET_GO_S).max()),
        "speed_after_hands_off_rad_s": float(last),
        "stopped": run.stopped or free.stopped,
        "fell_back": run.fell_back or free.fell_back,
    }


def measure_contact(make: Make, stiffness_n_m: float) -> dict[str, float | str]:
    """Measure a run in which the hand presses the follower against a wall and holds it there."""
    pair = make(())
    start = pair.tool_at_start()
    run = pair.run(PRESS_S, Hand(pressing, start), Wall(float(start.position[0]) + 0.01, stiffness_n_m))
    return force_errors(run) | {"stopped": run.stopped}


def benchmark_bilateral(
    robot: Robot,
    work: Path,
    *,
    mount: str | None = None,
    seeds: int = 3,
    faults: Sequence[PairFault] = FAULTS,
    settings: BilateralSettings | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Return all figures with the identified model and with the nominal one, side by side."""
    bench = make_bench(robot, mount, 0)
    progress("identify the arm")
    own = from_model_file(identified(bench, work), bench.arm)
    models = {"": own, "_nominal": nominal_models(bench)["nominal"]}

    def maker(model: ControlModel, seed: int) -> Make:
        return lambda lines: LockstepPair(
            robot, bench.dynamics, (model, model), settings, seed=2 * seed, lines=lines or None, mount=mount
        )

    figures: dict[str, Any] = {}
    for suffix, model in models.items():
        progress(f"free motion{suffix.replace('_', ', ')}")
        free = [measure_free(maker(model, seed), robot) for seed in range(seeds)]
        for key in ("tracking_deg_rms_free", "hand_n_rms_free", "energy_gain_hands_off_j"):
            figures[key + suffix] = max(one[key] for one in free)
        figures["free_runs" + suffix] = free
        contacts = {}
        for wall in WALLS_N_M:
            progress(f"contact with {wall:g} N/m{suffix.replace('_', ', ')}")
            runs = [measure_contact(maker(model, seed), wall) for seed in range(seeds)]
            contacts[f"{wall:g}"] = runs
        figures["force_error_contact" + suffix] = {
            wall: max(one["held"] for one in runs) for wall, runs in contacts.items()
        }
        figures["force_error_pressing" + suffix] = {
            wall: max(one["pressing"] for one in runs) for wall, runs in contacts.items()
        }
        figures["contact_runs" + suffix] = contacts
    table = []
    for fault in faults:
        progress(f"fault: {fault.name}")
        table.append(asdict(inject(robot, fault, maker(own, 0))))
    figures["faults"] = table
    progress("time a cycle of one arm and of two")
    figures |= cycle_costs(robot, bench.dynamics, own, settings)
    figures["fault_violations"] = sum(len(row["violations"]) for row in table)
    return figures


def missed(figures: dict[str, Any]) -> list[str]:
    """Return a sentence for each acceptance limit that the identified model's figures miss."""
    found = []
    if not figures["tracking_deg_rms_free"] < TRACKING_DEG:
        found.append(f"tracking is {figures['tracking_deg_rms_free']:.2f} deg RMS, expected below {TRACKING_DEG:g} deg")
    for wall, error in figures["force_error_contact"].items():
        if not error <= FORCE_ERROR:
            found.append(
                f"force error at {wall} N/m is {100 * error:.0f} %, expected at most {100 * FORCE_ERROR:.0f} %"
            )
    if not figures["energy_gain_hands_off_j"] <= GAIN_J:
        found.append(f"with hands off an arm gains {figures['energy_gain_hands_off_j']:.3f} J, expected {GAIN_J:g} J")
    for row in figures["faults"]:
        found += [f"{row['fault']}: {one}" for one in row["violations"]]
    return found
