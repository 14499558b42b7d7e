"""The public runs of a KUKA KR300: identified from one, judged on the other, term by term; stiffness of its gears."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dynid.errors import DataError
from dynid.identification.logs import fit as fitting
from dynid.identification.logs.identify import LogModel, identify_logs
from dynid.identification.logs.judge import log_errors
from dynid.identification.logs.refinement import refined
from dynid.identification.logs.rows import RowSettings
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters
from dynid.model.springs import without_springs
from dynid.recording.csv_mapping import CsvMapping
from dynid.recording.csv_reader import read_csv
from dynid.recording.log import Log
from dynid.resources import load_validated
from dynid.robot import FloatArray, Robot

TWISTED = 3  # axes with a second encoder
SETTINGS = RowSettings(grid_s=0.004, window_s=0.16, slow_rad_s=0.02)
REFINED, BANDWIDTHS_HZ = "spring", (1.0, 3.0, 8.0)  # the structure that is refined by simulation, and in which loops


@dataclass(frozen=True, eq=False)
class Variant:
    """A structure: its name, held-out error, that of the consistent model in all and per axis, in sample, the model."""

    name: str
    held_out: float
    per_axis: tuple[float, ...]
    in_sample: float
    consistent: float
    result: LogModel


def run_of(robot: Robot, file: Path) -> Log:
    """A run as a log on the joints' side."""
    return replace(read_csv(file, robot, load_validated(robot.folder / "csv_mapping.yaml", CsvMapping)), name=file.name)


def variants(robot: Robot, fitted: Log, held: Log, coupling: FloatArray | None = None) -> list[Variant]:
    """All structures, from the plain one on; with a coupling (n, n) of the motors one more.

    Logs are as if every motor moved one joint; a coupling C takes them to q = C^-1 q_log and tau = C' tau_log.
    """
    found = [
        _variant(name, robot, fitted, held, springs=springs, load=load)
        for name, springs, load in (
            ("Coulomb-viscous", False, False),
            ("load-dependent friction", False, True),
            ("spring", True, False),
            ("spring and load-dependent friction", True, True),
        )
    ]
    if coupling is not None:
        pair = (coupled(fitted, coupling), coupled(held, coupling))
        found.append(_variant("spring and coupling", robot, *pair, springs=True, load=False))
    return found


def coupled(log: Log, coupling: FloatArray) -> Log:
    """A log whose joints turn with several motors."""
    if log.tau is None:
        raise DataError(f"{log.name} holds no torques")
    q = np.asarray(np.linalg.solve(coupling, log.q.T).T, dtype=np.float64)
    return replace(log, q=q, tau=np.asarray(log.tau @ coupling))


def _variant(name: str, robot: Robot, fitted: Log, held: Log, *, springs: bool, load: bool) -> Variant:
    robot = robot if springs else without_springs(robot)
    arm, known = ArmModel.of(robot), dict(fitting.KNOWN)
    known |= {} if load else {name: fitting.NONE for name in known if name != "fb"}
    result = identify_logs(robot, [fitted], settings=SETTINGS, known=known)
    judge = (
        log_errors(arm, point, log, SETTINGS, result.fit.delay_s)
        for point, log in ((result.fit.point, held), (result.fit.point, fitted), (result.point, held))
    )
    out, own, consistent = judge
    return Variant(name, out.relative, tuple(consistent.per_joint.tolist()), own.relative, consistent.relative, result)


@dataclass(frozen=True, eq=False)
class Stiffness:
    """Of an axis [N m/rad], its deviation from blocks of time, and the share of the twist that is explained."""

    stiffness: float
    deviation: float
    explained: float


def stiffness(run: Any, axis: int, ratio: float, blocks: int = 10) -> Stiffness:
    """From the twist between both encoders: twist = torque / k + hysteresis sign(dq) + eccentricity + offset.

    Args:
        run: arrays of a run by column.
        axis: from 0.
        ratio: of the gear.
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
    """All figures of both runs in a folder, both ways: structures and refinements by held-out error; stiffness."""
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
                "published": list(variant.result.published),
                "least_eigenvalue": least_eigenvalue(variant.result.model.robot, variant.result.base),
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


def refinements(robot: Robot, fitted: Log, held: Log, start: LogModel) -> list[dict[str, Any]]:
    """What refinement by simulation makes of a model, in loops of several bandwidths."""
    arm, rows = ArmModel.of(robot), []
    for bandwidth in BANDWIDTHS_HZ:
        one = refined(robot, fitted, start, SETTINGS, bandwidth)
        path, own, out = (
            log_errors(arm, point, log, SETTINGS, start.fit.delay_s)
            for point, log in ((one.path, held), (one.consistent, fitted), (one.consistent, held))
        )
        base = start.base.with_values(one.consistent.phi)
        rows.append(
            {
                "bandwidth_hz": bandwidth,
                "reason": one.reason,
                "cost": one.cost,
                "in_sample_consistent": own.relative,
                "held_out": path.relative,
                "held_out_consistent": out.relative,
                "per_axis": out.per_joint.tolist(),
                "least_eigenvalue": least_eigenvalue(robot, base),
            }
        )
    return rows


def least_eigenvalue(robot: Robot, base: BaseParameters, poses: int = 2000) -> float:
    """Of a model's M(q) over random postures within the limits [kg m^2]."""
    q = np.random.default_rng(1).uniform(robot.lower, robot.upper, (poses, robot.size))
    return float(np.linalg.eigvalsh(ArmModel.of(robot).inertia_matrix(q, base))[:, 0].min())
