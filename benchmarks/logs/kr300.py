"""The public runs of a KUKA KR300: identified from one, judged on the other, term by term; stiffness of its gears."""

import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.logs.judge import JudgeSettings, log_errors
from benchmarks.logs.refinement import refined
from dynid.documents import read_yaml
from dynid.errors import DataError
from dynid.identification.data.recordings import recording_of_log
from dynid.identification.pipeline import identify
from dynid.identification.result import Identification
from dynid.identification.settings import FrictionStructure, load_identification
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters
from dynid.recording.csv_mapping import CsvMapping
from dynid.recording.csv_reader import read_csv
from dynid.recording.log import Log
from dynid.resources import load_validated, yaml_text
from dynid.robot import FloatArray, Robot, load_robot
from dynid.runtime.model import Model

SETTINGS = JudgeSettings(grid_s=0.004, window_s=0.16, slow_rad_s=0.02)
PLAIN: FrictionStructure = "Coulomb-viscous"
LOAD: FrictionStructure = "directional"
# structure that is refined by simulation, and bandwidths of the loops
REFINED, BANDWIDTHS_HZ = "spring", (1.0, 3.0, 8.0)


@dataclass(frozen=True, eq=False)
class Variant:
    """Result of one model structure, with relative torque errors.

    Attributes:
        name: name of the structure.
        held_out: error of the estimate on the held-out log.
        per_axis: errors of the consistent model on the held-out log, per axis.
        in_sample: error of the estimate on the fitted log.
        consistent: error of the consistent model on the held-out log.
        result: the identification.
    """

    name: str
    held_out: float
    per_axis: tuple[float, ...]
    in_sample: float
    consistent: float
    result: Identification


def run_of(robot: Robot, file: Path) -> Log:
    """Return a run as a log with joint-side values."""
    return replace(read_csv(file, robot, load_validated(robot.folder / "csv_mapping.yaml", CsvMapping)), name=file.name)


def variants(robot: Robot, fitted: Log, held: Log, coupling: FloatArray | None = None) -> list[Variant]:
    """Return the results of all structures, the simplest first; a coupling (n, n) of the motors adds another one.

    The logs assume that every motor moves one joint. A coupling C changes them to q = C^-1 q_log and tau = C' tau_log.
    """
    found = [
        _variant(name, robot, fitted, held, friction, springs=springs)
        for name, springs, friction in (
            (PLAIN, False, PLAIN),
            ("load-dependent friction", False, LOAD),
            (REFINED, True, PLAIN),
            ("spring and load-dependent friction", True, LOAD),
        )
    ]
    if coupling is not None:
        pair = (coupled(fitted, coupling), coupled(held, coupling))
        found.append(_variant("spring and coupling", robot, *pair, PLAIN, springs=True))
    return found


def coupled(log: Log, coupling: FloatArray) -> Log:
    """Return a log of joints that several motors move, from one that assumes single motors."""
    if log.tau is None:
        raise DataError(f"{log.name} holds no torques")
    q = np.asarray(np.linalg.solve(coupling, log.q.T).T, dtype=np.float64)
    return replace(log, q=q, tau=np.asarray(log.tau @ coupling))


def _variant(name: str, robot: Robot, fitted: Log, held: Log, friction: FrictionStructure, *, springs: bool) -> Variant:
    settings = load_identification(robot)
    coulomb = settings.coulomb_friction.model_copy(update={"structure": friction})
    settings = settings.model_copy(update={"coulomb_friction": coulomb})
    with tempfile.TemporaryDirectory(prefix="dynid-kr300-") as folder:
        robot = robot if springs else springless(robot, Path(folder) / robot.name)
        result = identify(robot, [recording_of_log(fitted, Path(fitted.name), robot)], settings=settings)
    before = Model(robot, result.estimate.base, result.estimate.friction, result.mount)
    judge = (
        log_errors(model, log, SETTINGS) for model, log in ((before, held), (before, fitted), (result.as_model(), held))
    )
    out, own, consistent = judge
    return Variant(name, out.relative, tuple(consistent.per_joint.tolist()), own.relative, consistent.relative, result)


def springless(robot: Robot, folder: Path) -> Robot:
    """Copy the arm's folder without its counterbalance, and return the arm that it describes."""
    shutil.copytree(robot.folder, folder)
    content = read_yaml(folder / "robot.yaml")
    nominal = read_yaml(folder / "models" / "nominal.yaml")
    del content["springs"]
    for axis in nominal["axes"]:
        axis.pop("spring_coefficients", None)
    (folder / "robot.yaml").write_text(yaml_text(content | {"urdf": str(robot.urdf_path)}), encoding="utf-8")
    (folder / "models" / "nominal.yaml").write_text(yaml_text(nominal), encoding="utf-8")
    return load_robot(folder)


@dataclass(frozen=True, eq=False)
class Stiffness:
    """Gear stiffness of an axis, its standard deviation [N m/rad], and the share of the twist that the fit explains."""

    stiffness: float
    deviation: float
    explained: float


def stiffness(run: Any, axis: int, ratio: float, blocks: int = 10) -> Stiffness:
    """Return the stiffness k by fitting twist = torque / k + hysteresis sign(dq) + eccentricity + offset.

    Args:
        run: arrays of a run by column.
        axis: index of the axis.
        ratio: gear ratio.
    """
    number = axis + 1
    motor, link = run[f"motor_pos_deg_{number}"], run[f"link_pos_deg_{number}"]
    tau, speed = run[f"motor_torque_nm_{number}"] * ratio, run[f"motor_vel_deg_s_{number}"]
    twist = np.deg2rad(motor - link)
    columns = np.stack([tau, np.sign(speed) * (np.abs(speed) > 0.5), motor, np.ones_like(tau)], axis=1)
    scale = np.abs(columns).max(axis=0)
    whole = np.linalg.lstsq(columns / scale, twist, rcond=None)[0] / scale
    parts = np.array_split(np.arange(len(twist)), blocks)
    without = [np.delete(np.arange(len(twist)), part) for part in parts]
    each = np.array(
        [np.linalg.lstsq(columns[rows] / scale, twist[rows], rcond=None)[0][0] / scale[0] for rows in without]
    )
    deviation = float(np.sqrt((blocks - 1) / blocks * np.sum((each - each.mean()) ** 2)))
    explained = 1.0 - float(np.var(twist - columns @ whole) / np.var(twist))
    return Stiffness(1.0 / whole[0], deviation / whole[0] ** 2, explained)


def report(robot: Robot, folder: Path) -> dict[str, Any]:
    """Return all figures of both runs in a folder: structures and refinements by held-out error; stiffness."""
    files = {run: folder / f"kr300_{run}.csv.gz" for run in "AB"}
    logs = {run: run_of(robot, file) for run, file in files.items()}
    found: dict[str, Any] = {}
    for one, other in ("AB", "BA"):
        structures = variants(robot, logs[one], logs[other])
        found[f"{one} to {other}"] = [
            {
                "structure": variant.name,
                "in_sample": variant.in_sample,
                "held_out": variant.held_out,
                "held_out_consistent": variant.consistent,
                "per_axis": list(variant.per_axis),
                "accepted": variant.result.verdict.accepted,
                "determined": list(variant.result.determined.determined) if variant.result.determined else [],
                "least_eigenvalue": least_eigenvalue(variant.result.robot, variant.result.base),
            }
            for variant in structures
        ]
        start = next(variant.result for variant in structures if variant.name == REFINED)
        found[f"{one} to {other}, refined"] = refinements(robot, logs[one], logs[other], start)
    found["stiffness_nm_per_rad"] = {
        run: [
            vars(stiffness(np.genfromtxt(file, delimiter=",", names=True), k, robot.gear_ratios[k])) for k in range(3)
        ]
        for run, file in files.items()
    }
    return found


def refinements(robot: Robot, fitted: Log, held: Log, start: Identification) -> list[dict[str, Any]]:
    """Return the errors of a model refined by simulation, in loops of several bandwidths."""
    rows = []
    for bandwidth in BANDWIDTHS_HZ:
        one = refined(robot, fitted, start.as_model(), SETTINGS.slow_rad_s, bandwidth)
        path, own, out = (
            log_errors(model, log, SETTINGS)
            for model, log in ((one.path, held), (one.consistent, fitted), (one.consistent, held))
        )
        rows.append(
            {
                "bandwidth_hz": bandwidth,
                "reason": one.reason,
                "cost": one.cost,
                "in_sample_consistent": own.relative,
                "held_out": path.relative,
                "held_out_consistent": out.relative,
                "per_axis": out.per_joint.tolist(),
                "least_eigenvalue": least_eigenvalue(robot, one.consistent.base),
            }
        )
    return rows


def least_eigenvalue(robot: Robot, base: BaseParameters, poses: int = 2000) -> float:
    """Return the smallest eigenvalue of a model's M(q) over random postures within the limits [kg m^2]."""
    q = np.random.default_rng(1).uniform(robot.lower, robot.upper, (poses, robot.size))
    return float(np.linalg.eigvalsh(ArmModel.of(robot).inertia_matrix(q, base))[:, 0].min())
