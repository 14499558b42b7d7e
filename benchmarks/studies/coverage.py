"""Coverage of stated intervals: parameters and torques of simulated arms that are drawn at random.

Each arm is drawn (`drawn_arms`), moved along the identification motion with all nuisances on, and identified with
default settings: preprocessing, estimate, projection to a consistent model. An interval of 90 % is the stated value
+- 1.645 stated standard deviations. Two kinds of intervals are counted:

- base parameters: the value of the consistent model, with the deviation of the estimate, against the true one. Gears
  warm up while the arm moves; their true viscous friction is that of the motion's mean time;
- held-out torques: the prediction for each sample and joint of a held-out motion, against the torque that the
  motors really gave, without the sensors' noise and steps, after the same low-pass. This equals W phi plus friction
  at the true states, to which the mean of repeated measurements converges.

An arm that does not follow its motion is reported but not counted, and the next seed is used.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.studies.drawn_arms import DrawnArm, Record, draw_arm, record, with_torques
from dynid.errors import DataError, DynidError, SafetyError
from dynid.identification.bands import TorqueBands
from dynid.identification.estimators.solved_torques import predicted_torques
from dynid.identification.estimators.table import estimator
from dynid.identification.feasibility.consistent import consistent_projection
from dynid.identification.nominal_prior import nominal_standard
from dynid.identification.settings import load_identification
from dynid.model.dynamics import ArmModel
from dynid.parallel import in_processes
from dynid.robot import FloatArray, Robot
from dynid.simulation.plant.nuisances import magnitudes
from dynid.trajectory.families import load_excitation

PROFILE, IDENTIFICATION, HELD_OUT = "limited", "demo_identification", "V01"
ARMS, LEVEL, QUANTILE = 200, 0.90, 1.6448536269514722  # two-sided quantile of the standard normal distribution
LEAST, MOST = 0.85, 0.95
MOST_IN_VAIN = 2  # largest number of arms without a model before the first one with a model
OTHER_SEED = 1_000_000  # added to the arm's seed for nuisances of the held-out motion


@dataclass(frozen=True, eq=False)
class ArmResult:
    """Result of one arm.

    Attributes:
        seed: seed of the draw.
        names: names of the base parameters, (p,).
        errors: errors of the consistent model in stated standard deviations, (p,); () without a model.
        torque_held: share of each joint's samples whose interval contains the torque, (n,).
        refused: why the arm is not counted.
    """

    seed: int
    names: tuple[str, ...] = ()
    errors: FloatArray = field(default_factory=lambda: np.zeros(0))
    torque_held: FloatArray = field(default_factory=lambda: np.zeros(0))
    refused: str = ""


@dataclass(frozen=True)
class _Job:
    robot: Robot
    seed: int
    gears: str
    motions: tuple[str, str]


def true_base(robot: Robot, arm: DrawnArm, time_s: float) -> FloatArray:
    """Return the true base parameters (p,) with viscous friction of gears that have moved for a time [s]."""
    nuisances, values = magnitudes(robot), np.array(arm.base)
    left = 1.0 - nuisances.warm_up_share * (1.0 - np.exp(-time_s / nuisances.warm_up_time_s))
    values[[name.startswith("FV") for name in arm.names]] *= left
    return values


def motor_torques(recorded: Record) -> FloatArray:
    """Return the motors' torques at the stamps of a run, (N, n) [N m]: the mean of the cycles before and after each."""
    given = recorded.run.torque_motor
    return np.vstack([0.5 * given[:1], 0.5 * (given[1:] + given[:-1])])


def judge_arm(job: _Job) -> ArmResult:
    """Record and identify one arm, and return the coverage of its intervals."""
    robot, seed = job.robot, job.seed
    excitation = load_excitation(robot)
    try:
        arm = draw_arm(robot, seed, job.gears)
        motions = [excitation.trajectory(name, PROFILE) for name in job.motions]
        fitted, held = (record(robot, arm, one, seed + k * OTHER_SEED) for k, one in enumerate(motions))
    except SafetyError as error:
        return ArmResult(seed, refused=f"not recorded: {error}")
    settings, model = load_identification(robot), ArmModel.of(robot)
    try:
        samples = fitted.source.samples(settings)
        estimate = estimator(settings.estimator).estimate(model, samples, settings.coulomb_friction)
        bounds, nominal = robot.file.physical_bounds, nominal_standard(robot, model)
        prior = None if nominal is None else nominal.values
        base = consistent_projection(model, estimate.base, bounds, prior=prior, metric=estimate.metric).base
    except DynidError as error:
        return ArmResult(seed, refused=f"not identified: {error}")
    friction, deviations = estimate.regression.friction_model(base.values), estimate.base.standard_deviations
    assert deviations is not None
    bands = TorqueBands(model, estimate, samples, base, friction, settings.coulomb_friction)
    new = held.source.samples(settings)
    true = with_torques(held.source, motor_torques(held)).samples(settings).tau
    off = np.abs(predicted_torques(model, new, base, friction) - true)
    return ArmResult(
        seed,
        model.names,
        (base.values - true_base(robot, arm, float(samples.time.mean()))) / deviations,
        (off <= QUANTILE * bands.deviations(model, new)).mean(axis=0),
    )


@dataclass(frozen=True, eq=False)
class Coverage:
    """Coverage of the intervals of all arms.

    Attributes:
        arms: results of the arms that were counted, by seed.
        refused: results of the other arms, by seed.
        seconds: duration [s].
    """

    arms: tuple[ArmResult, ...]
    refused: tuple[ArmResult, ...]
    seconds: float

    @property
    def parameters(self) -> float:
        """Share of base parameters whose interval contains the true value."""
        return float(np.mean([np.abs(one.errors) <= QUANTILE for one in self.arms]))

    @property
    def torque(self) -> float:
        """Share of held-out samples and joints whose interval contains the torque."""
        return float(np.mean([one.torque_held for one in self.arms]))

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, with the share of every parameter and joint, and errors in standard deviations."""
        errors = np.array([one.errors for one in self.arms])
        by_name = (np.abs(errors) <= QUANTILE).mean(axis=0).tolist()
        return {
            "coverage_parameters": self.parameters,
            "coverage_torque": self.torque,
            "level": LEVEL,
            "arms": len(self.arms),
            "seconds": self.seconds,
            "errors_rms_deviations": float(np.sqrt(np.mean(errors**2))),
            "errors_mean_deviations": dict(zip(self.arms[0].names, errors.mean(axis=0).tolist(), strict=True)),
            "by_parameter": dict(zip(self.arms[0].names, by_name, strict=True)),
            "by_joint": np.mean([one.torque_held for one in self.arms], axis=0).tolist(),
            "refused": {str(one.seed): one.refused for one in self.refused},
        }

    def missed(self) -> list[str]:
        """Return a sentence for every missed limit."""
        shares = {"base parameters": self.parameters, "held-out torques": self.torque}
        return [
            f"intervals of {100 * LEVEL:.0f} % hold {100 * share:.1f} % of the {name}; expected are {100 * LEAST:.0f} "
            f"to {100 * MOST:.0f} %"
            for name, share in shares.items()
            if not LEAST <= share <= MOST
        ]


def benchmark_coverage(
    robot: Robot,
    arms: int = ARMS,
    *,
    first_seed: int = 0,
    gears: str = "M6",
    motions: tuple[str, str] = (IDENTIFICATION, HELD_OUT),
    processes: int | None = None,
    progress: Callable[[str], None] = lambda stage: None,
) -> Coverage:
    """Measure the coverage over arms.

    Args:
        robot: robot around which arms are drawn, with a controller and these motions.
        arms: number of arms that count.
        first_seed: seed of the first arm; the following seeds are consecutive.
        gears: friction model, see `draw_arm`.
        motions: names of the fitted and the held-out motion.
        processes: number of processes; None is one per core.
        progress: called with a line after each arm.

    Raises:
        DataError: no arm can be recorded or identified.
    """
    begin, seed = time.perf_counter(), first_seed
    counted: list[ArmResult] = []
    refused: list[ArmResult] = []
    while len(counted) < arms:
        jobs = [_Job(robot, seed + k, gears, motions) for k in range(arms - len(counted))]
        seed += len(jobs)
        for _, one in in_processes(judge_arm, jobs, processes):
            (refused if one.refused else counted).append(one)
            progress(f"arm {len(counted) + len(refused)}, {len(refused)} of them refused")
        if not counted and len(refused) > MOST_IN_VAIN:
            raise DataError(f"none of {len(refused)} arms came to a model: {refused[0].refused}")
    key = lambda one: one.seed  # noqa: E731
    seconds = time.perf_counter() - begin
    return Coverage(tuple(sorted(counted, key=key)), tuple(sorted(refused, key=key)), seconds)
