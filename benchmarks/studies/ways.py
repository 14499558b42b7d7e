"""Ways from recordings to a model, on the same bags: accuracy beside processor time.

Every simulated arm is drawn: links, rotors and friction, with all nuisances on. The ways are the default identification
of one bag and of all bags, the refinement in the closed loop of one bag and of all bags together, the campaign, and the
campaign as the paper has it, without dry friction. All models are the projected, physically consistent ones.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.judge import own_candidate
from benchmarks.peers.rollout import rollout_errors
from benchmarks.studies.drawn_arms import DrawnArm, draw_arm
from benchmarks.studies.plants import rigid
from dynid.control.controller import load_controller
from dynid.control.ff_pd import FeedforwardPd
from dynid.errors import DynidError
from dynid.identification.data.recordings import load_recordings
from dynid.identification.methods import identify
from dynid.identification.pipeline import Identification
from dynid.identification.prediction import pooled_errors
from dynid.identification.settings import IdentificationSettings, load_identification
from dynid.identification.stages import Method
from dynid.model.dynamics import ArmModel
from dynid.robot import Robot
from dynid.simulation.lockstep.run import simulate
from dynid.simulation.lockstep.simulated_bag import write_bag
from dynid.trajectory.families import load_excitation

MOTIONS, HELD_OUT, PROFILE = ("demo_identification", "PA01", "AP01"), "V01", "limited"
POSES, SEED = 2000, 0  # random poses at which gravity is compared
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Way:
    """A way to use bags: method of `identify`, whether it gets all bags, and whether dry friction is ignored."""

    method: Method
    every: bool
    ignored: bool = False

    def settings(self, robot: Robot) -> IdentificationSettings:
        """Return the settings of the identification."""
        settings = load_identification(robot)
        if not self.ignored:
            return settings
        coulomb = settings.coulomb_friction.model_copy(update={"treatment": "ignored"})
        return settings.model_copy(update={"coulomb_friction": coulomb})


WAYS = {
    "identify": Way("regression", every=False),
    "refined": Way("closed-loop", every=False),
    "identify_all": Way("regression", every=True),
    "refined_all": Way("closed-loop", every=True),
    "campaign": Way("campaign", every=True),
    "paper": Way("campaign", every=True, ignored=True),
}


@dataclass(frozen=True)
class Figures:
    """What one way gives on one arm, or medians over arms.

    Attributes:
        parameters: norm of the errors of links and rotors [mixed SI].
        gravity_nm: root mean square error of gravity torques at random poses [N m].
        held_out: relative torque error on the held-out bag.
        closed_loop_deg: root mean square position error of simulated seconds in the control loop [deg].
        processor_s: processor time of the identification [s].
    """

    parameters: float
    gravity_nm: float
    held_out: float
    closed_loop_deg: float
    processor_s: float


def write_bags(robot: Robot, arm: DrawnArm, motions: Sequence[str], folder: Path) -> list[Path]:
    """Write one bag for each motion of a drawn arm.

    Raises:
        SafetyError: the arm does not follow a motion.
    """
    excitation, controller, bags = load_excitation(robot), load_controller(robot), []
    for k, name in enumerate(motions):
        motion, seed = excitation.trajectory(name, PROFILE), 100 * arm.seed + k
        law = FeedforwardPd(controller)
        run = simulate(robot, motion, law, seed=seed, standard=arm.standard, friction=arm.friction)
        bags.append(folder / name)
        write_bag(run, robot, controller, bags[-1], profile=PROFILE)
    return bags


def processor_seconds() -> float:
    """Return the processor time of this process and of its children that have ended [s]."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def judged(robot: Robot, arm: DrawnArm, found: Identification, held_out: Path, seconds: float) -> Figures:
    """Return the figures of a result; `seconds` is the processor time that it took [s]."""
    model, wrong = ArmModel.of(robot), found.base.values - arm.base
    q = np.random.default_rng(SEED).uniform(robot.audit_lower, robot.audit_upper, (POSES, robot.size))
    still = np.zeros_like(q)
    candidate, settings = own_candidate(found.as_model()), load_identification(robot)
    sources = load_recordings([held_out], robot)
    _, closed = rollout_errors(candidate.with_friction(), candidate.offset, sources, settings)
    return Figures(
        parameters=float(np.linalg.norm(wrong[rigid(arm.names)])),
        gravity_nm=float(np.sqrt(np.mean((model.regressor(q, still, still) @ wrong) ** 2))),
        held_out=pooled_errors(found.validations).relative,
        closed_loop_deg=float("nan") if closed is None else closed,
        processor_s=seconds,
    )


def compared(
    robot: Robot, arm: DrawnArm, motions: Sequence[str], ways: Sequence[str], folder: Path, progress: Progress
) -> Iterator[tuple[str, Figures | None]]:
    """Yield the figures of every way on the bags of one arm; None if a way gives no model."""
    bags = write_bags(robot, arm, [*motions, HELD_OUT], folder)
    for name in ways:
        progress(f"arm {arm.seed}: {name}")
        way, begin = WAYS[name], processor_seconds()
        alone: dict[str, Any] = {"processes": 1} if way.method == "campaign" else {}  # so that its time is counted
        try:
            found = identify(
                robot,
                bags[:-1] if way.every else bags[:1],
                method=way.method,
                validation=bags[-1:],
                settings=way.settings(robot),
                **alone,
            )
        except DynidError as error:
            progress(f"arm {arm.seed}: {name} gives no model: {error}")
            yield name, None
            continue
        yield name, judged(robot, arm, found, bags[-1], processor_seconds() - begin)


def benchmark_ways(
    robot: Robot,
    friction: str,
    arms: int,
    work: Path,
    progress: Progress = lambda stage: None,
    *,
    motions: Sequence[str] = MOTIONS,
    ways: Sequence[str] = tuple(WAYS),
) -> dict[str, Any]:
    """Return medians over arms with seeds from 0, and the number of arms, by way.

    Args:
        robot: the robot, around whose nominal parameters arms are drawn.
        friction: gears of the arms: viscous, or a model such as M6.
        arms: number of arms.
        work: folder for the bags.
        progress: function that is called with what is done.
        motions: motions that are identified from; the first one alone by ways that take one bag.
        ways: names in `WAYS`.
    """
    found: dict[str, list[Figures]] = {name: [] for name in ways}
    for seed in range(arms):
        folder = work / f"{friction}-{seed}"
        folder.mkdir()
        for name, figures in compared(robot, draw_arm(robot, seed, friction), motions, ways, folder, progress):
            found[name] += [] if figures is None else [figures]
    return {name: medians(rows) | {"arms": len(rows)} for name, rows in found.items()}


def medians(rows: Sequence[Figures]) -> dict[str, float]:
    """Return the median of every figure; {} without rows."""
    plain = [asdict(row) for row in rows]
    return {key: float(np.median([one[key] for one in plain])) for key in (plain[0] if plain else ())}
