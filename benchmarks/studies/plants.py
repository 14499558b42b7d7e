"""Whether wrong models are accepted: simulated arms outside the model class, and set-ups with one fault.

Faultless plants have the friction of published gears, viscous and Coulomb friction, or friction that grows with the
load. Faulty ones are unnoticed errors of a set-up: a torque constant, an encoder's zero, the
levelling of the base, a current sensor's offset. Each is recorded once per seed, with all nuisances on, and identified
with default settings from one motion; another motion is held out. A model is wrong if the median relative error of
its parameters against the plant's exceeds 10 %; friction is not counted, as plants differ in its law.

In addition, three methods are compared by their parameter errors from the same bags: pooled least squares, the joint
refinement in the closed loop, and the campaign of single refinements. Each is projected to a consistent model.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from benchmarks.studies.gear_friction import true_parameters
from benchmarks.studies.shares import share_of
from dynid.control.controller import load_controller
from dynid.control.ff_pd import FeedforwardPd
from dynid.errors import DynidError
from dynid.identification.campaign.campaign import campaign, campaign_gears
from dynid.identification.campaign.joint import refine_jointly
from dynid.identification.data.preprocessing import preprocess_recording
from dynid.identification.data.recordings import Recording
from dynid.identification.data.sample_sets import join
from dynid.identification.data.signals import Signals
from dynid.identification.data.simulated_recording import source_of
from dynid.identification.estimators.table import estimator
from dynid.identification.feasibility.consistent import consistent_projection
from dynid.identification.pipeline import identify
from dynid.identification.settings import IdentificationSettings, load_identification
from dynid.model.drive import KINDS, kind_and_number
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FrictionLaw
from dynid.model.gear_presets import VISCOUS, gear_friction
from dynid.model.parameters import BaseParameters
from dynid.parallel import in_processes
from dynid.recording.driver_recording import load_driver_recording
from dynid.robot import FloatArray, Robot
from dynid.simulation.lockstep.bag_jobs import BagJob, chosen_names, make_bags
from dynid.simulation.lockstep.run import simulate
from dynid.simulation.plant.arm import plant_standard
from dynid.simulation.plant.nuisances import magnitudes
from dynid.trajectory.families import load_excitation

Kind = Literal["faultless", "faulty"]
MOTION, HELD_OUT, PROFILE = "demo_identification", "V01", "limited"
SEEDS = 5
WRONG = 0.10  # median relative parameter error beyond which a model is wrong
RIGHT_BAR = 0.95
FELT = 1e-3  # SI; smaller parameters hardly affect torques, so their relative errors are meaningless
CONSTANT, ZERO_RAD, TILT_RAD, OFFSET_NM = 0.8, float(np.deg2rad(2.0)), float(np.deg2rad(2.0)), 0.1
PAPER_PROFILE, PAPER_MOUNT, PAPER_MOTIONS = "paper", "hanging", ("P*", "A*")
FOURTH = 3  # index of the joint with the wrong torque constant

Change = Callable[[Signals], Signals]


@dataclass(frozen=True)
class Plant:
    """Plant, or a set-up with one fault.

    Attributes:
        friction: friction of its gears, as `ArmPlant` takes it; None is that of robot.yaml.
        tilt: tilt of the base about the x axis [rad].
        change: change of the recorded signals.
    """

    name: str
    kind: Kind
    friction: FrictionLaw | str | None = None
    tilt: float = 0.0
    change: Change | None = None


@dataclass(frozen=True)
class Row:
    """Result of one plant with one seed; if there is no model, the error is NaN and `why` gives the reason."""

    plant: str
    kind: Kind
    seed: int
    accepted: bool
    median_error: float
    why: str

    @property
    def wrong(self) -> bool:
        """Whether there is a model and it is wrong."""
        return self.median_error > WRONG


def _load_dependent(robot: Robot, share: float) -> FrictionLaw:
    """Return viscous and Coulomb friction plus a share of the torque that the gears transmit."""
    own = np.array([(x.viscous_friction_nm_s_per_rad, x.coulomb_friction_nm) for x in plant_standard(robot).axes])
    of_load = np.full(robot.size, share)
    coulomb = own[:, 1] + magnitudes(robot).coulomb_friction
    return FrictionLaw.of(robot.size, {"fv": own[:, 0], "fb": coulomb, "km": of_load, "ke": of_load})


def _on_torques(factor: FloatArray, offset: FloatArray) -> Change:
    def changed(signals: Signals) -> Signals:
        other = signals.other and replace(signals.other, tau=signals.other.tau * factor + offset)
        return replace(signals, tau=signals.tau * factor + offset, other=other)

    return changed


def _on_positions(offset: FloatArray) -> Change:
    return lambda signals: replace(signals, q=signals.q + offset)


def plants(robot: Robot, seed: int) -> Iterator[Plant]:
    """Yield all plants of a seed; the joint with a wrong zero or offset depends on the seed."""
    n, chain = robot.size, ArmModel.of(robot).chain_size
    # not the first joint: its zero rotates the whole arm, which is not observable
    still, axis = np.zeros(n), 1 + seed % (chain - 1)
    own = np.eye(n)
    yield Plant("viscous", "faultless", VISCOUS)
    yield Plant("M6", "faultless", gear_friction(robot, "M6"))
    yield Plant("load 20 %", "faultless", _load_dependent(robot, 0.20))
    yield Plant("load 35 %", "faultless", _load_dependent(robot, 0.35))
    weaker = _on_torques(1.0 + (1.0 / CONSTANT - 1.0) * own[FOURTH], still)
    yield Plant("torque constant of joint 4 -20 %", "faulty", change=weaker)
    yield Plant(f"zero of joint {axis + 1} 2 deg", "faulty", change=_on_positions(ZERO_RAD * own[axis]))
    yield Plant("base 2 deg", "faulty", tilt=TILT_RAD)
    yield Plant(
        f"offset of joint {axis + 1} {OFFSET_NM} N m", "faulty", change=_on_torques(still + 1.0, OFFSET_NM * own[axis])
    )


def tilted(robot: Robot, angle: float) -> Robot:
    """Return the robot with a base that is tilted by an angle [rad] about its x axis, for every mount."""
    cosine, sine = np.cos(angle), np.sin(angle)
    turn = np.array([[1.0, 0.0, 0.0], [0.0, cosine, -sine], [0.0, sine, cosine]])
    mounts = {name: tuple((turn @ g).tolist()) for name, g in robot.file.mounts_gravity_m_s2.items()}
    return Robot(robot.file.model_copy(update={"mounts_gravity_m_s2": mounts}), robot.folder)


def recorded(robot: Robot, plant: Plant, motion: str, seed: int) -> Recording:
    """Return one motion of a plant as a recording."""
    given = load_excitation(robot).trajectory(motion, PROFILE)
    run = simulate(
        tilted(robot, plant.tilt), given, FeedforwardPd(load_controller(robot)), seed=seed, friction=plant.friction
    )
    source = source_of(robot, run, f"{motion}-{seed}")
    if plant.change is None:
        return source
    change = plant.change

    def signals(settings: IdentificationSettings) -> Signals:
        return change(source.signals(settings))

    return replace(source, signals=signals)


def rigid(names: Sequence[str]) -> NDArray[np.bool_]:
    """Return a mask (p,) of the parameters of links and rotors, which are not friction."""
    return np.array([kind_and_number(name)[0] not in KINDS or name.startswith("IA") for name in names])


def median_error(robot: Robot, base: BaseParameters) -> float:
    """Return the median relative error of link and rotor parameters against the simulated arm's."""
    model = ArmModel.of(robot)
    true = true_parameters(robot, model)
    counted = rigid(model.names) & (np.abs(true) > FELT)
    return float(np.median(np.abs(base.values / np.where(counted, true, 1.0) - 1.0)[counted]))


@dataclass(frozen=True)
class _Job:
    robot: Robot
    index: int
    seed: int


def judge_plant(job: _Job) -> Row:
    """Record and identify one plant with one seed and return its row."""
    robot, seed = job.robot, job.seed
    plant = list(plants(robot, seed))[job.index]
    try:
        fitted, held_out = (recorded(robot, plant, motion, seed + k) for k, motion in enumerate((MOTION, HELD_OUT)))
        found = identify(robot, [fitted], validation=[held_out])
    except DynidError as error:
        return Row(plant.name, plant.kind, seed, False, float("nan"), str(error))
    failed = [f"{one.id} {one.value:.3g}" for one in found.verdict.failed]
    why = "; ".join((*failed, *found.diagnosis.sentences))
    return Row(plant.name, plant.kind, seed, found.verdict.accepted, median_error(robot, found.base), why)


@dataclass(frozen=True)
class Plants:
    """Rows of all plants and seeds."""

    rows: tuple[Row, ...]

    @property
    def accepted_wrong(self) -> tuple[Row, ...]:
        """Wrong models that were accepted."""
        return tuple(row for row in self.rows if row.accepted and row.wrong)

    @property
    def right(self) -> tuple[Row, ...]:
        """Rows of faultless plants with a correct model, accepted or not, or without a model."""
        return tuple(row for row in self.rows if row.kind == "faultless" and not row.wrong)

    @property
    def accepted_right(self) -> float:
        """Share of faultless plants' correct models that were accepted; NaN without any."""
        return share_of(row.accepted for row in self.right)

    @property
    def met(self) -> bool:
        """Whether no wrong model was accepted, and enough correct ones were."""
        return not self.accepted_wrong and self.accepted_right >= RIGHT_BAR

    def as_dict(self) -> dict[str, Any]:
        """Return the figures as plain values."""
        rows = [
            {
                "plant": row.plant,
                "seed": row.seed,
                "accepted": row.accepted,
                "median_error": None if np.isnan(row.median_error) else row.median_error,
                "why": row.why,
            }
            for row in self.rows
        ]
        return {
            "accepted_wrong": len(self.accepted_wrong),
            "accepted_right": self.accepted_right,
            "right_models": len(self.right),
            "rows": rows,
        }


def make_bags_of(robot: Robot, friction: str, motions: Sequence[str], work: Path, processes: int | None) -> list[Path]:
    """Return one bag of every motion of the paper's campaign, chosen by patterns of names."""
    names = chosen_names(motions, load_excitation(robot).names)
    jobs = [
        BagJob(str(robot.folder), name, PAPER_PROFILE, PAPER_MOUNT, seed, (), work / name, friction)
        for seed, name in enumerate(names)
    ]
    for _ in make_bags(jobs, processes):
        pass
    return [job.folder for job in jobs]


def error_norms(robot: Robot, bags: Sequence[Path], work: Path, processes: int | None = None) -> dict[str, float]:
    """Return || phi - phi_true || of links and rotors, in mixed SI units, by method; without a prior."""
    settings = load_identification(robot)
    model, gears = ArmModel.of(robot, mount=PAPER_MOUNT), campaign_gears(robot, bags, settings)
    recordings = [load_driver_recording(bag, robot) for bag in bags]
    samples = join([preprocess_recording(one, robot, settings) for one in recordings])
    pooled = estimator(settings.estimator).estimate(model, samples, settings.coulomb_friction, gears)
    joint = refine_jointly(robot, recordings, settings, pooled)
    true, counted = true_parameters(robot, model), rigid(model.names)

    def norm(base: BaseParameters) -> float:
        return float(np.linalg.norm((base.values - true)[counted]))

    def consistent(base: BaseParameters) -> BaseParameters:
        bounds = robot.file.physical_bounds
        return consistent_projection(model, base, bounds, metric=pooled.metric).base

    chosen = campaign(robot, bags, work, settings=settings, processes=processes)
    return {
        "pooled_ols": norm(consistent(pooled.base)),
        "joint_clie": norm(consistent(joint.base)),
        "campaign": norm(chosen.result.base),
    }


def benchmark_plants(
    robot: Robot, seeds: int = SEEDS, processes: int | None = None, progress: Callable[[str], None] = lambda stage: None
) -> Plants:
    """Judge every plant with every seed, in several processes, and return the rows."""
    count = len(list(plants(robot, 0)))
    jobs = [_Job(robot, index, seed) for seed in range(seeds) for index in range(count)]
    rows: dict[int, Row] = {}
    for place, row in in_processes(judge_plant, jobs, processes):
        rows[place] = row
        progress(f"{row.plant}, seed {row.seed}")
    return Plants(tuple(rows[k] for k in sorted(rows)))
