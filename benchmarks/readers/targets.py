"""Table of readers: one target per format, with a good file, its reader, and conditions of accepted content."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.readers.mutations import BINARY, TEXT, Mutation
from dynid.control.control_model import ModelGate, from_model_file
from dynid.control.controller import load_controller
from dynid.control.ff_pd import FeedforwardPdLaw
from dynid.identification.settings import IdentificationSettings
from dynid.model.dynamics import ArmModel
from dynid.model.model_file import ModelFile, parameter_rows, read_model_file
from dynid.model.standard import StandardFile, load_standard, pseudo_inertia
from dynid.model.standard import from_file as standard_from_file
from dynid.recording.bag_writer import Storage
from dynid.recording.csv_mapping import CsvMapping
from dynid.recording.csv_reader import read_csv
from dynid.recording.driver_recording import load_driver_recording
from dynid.resources import load_validated, yaml_text
from dynid.robot import Robot, RobotFile, load_robot
from dynid.robot.check import check_robot
from dynid.robot.draft import draft_robot
from dynid.robot.urdf_text import read_urdf_text
from dynid.simulation.lockstep.simulated_bag import write_bag
from dynid.trajectory.families import load_excitation
from dynid.trajectory.files import LONGEST_S, MOST_POINTS, load_trajectory_file

COLUMNS = 3
ROWS = 40
MOST_NM = 1e6  # largest plausible torque [N m]


@dataclass(frozen=True)
class Target:
    """Reader of one format.

    Attributes:
        suffix: suffix of the file.
        good: content that must be accepted.
        read: function that reads a file; raises errors of dynid only.
        fault: function that returns a defect of the result, '' if there is none; None for no check.
        mutations: mutations that suit the format.
    """

    suffix: str
    good: bytes
    read: Callable[[Path], Any]
    fault: Callable[[Any], str]
    mutations: tuple[Mutation, ...] = TEXT


def _finite(*arrays: Any) -> str:
    return "" if all(np.isfinite(np.asarray(one, dtype=float)).all() for one in arrays) else "not finite"


def _robot_target(folder: Path) -> Target:
    shipped = load_robot("planar_3r")
    text = (shipped.folder / "robot.yaml").read_text().replace("../../urdf", str(shipped.urdf_path.parents[1]))

    def read(path: Path) -> Robot:
        robot = Robot(load_validated(path, RobotFile), shipped.folder)
        check_robot(robot)
        return robot

    def fault(robot: Robot) -> str:
        if not (robot.lower < robot.upper).all() or not (robot.velocity_limits > 0.0).all():
            return "limits"
        return _finite(robot.lower, robot.upper, robot.velocity_limits, robot.gravity())

    return Target("yaml", text.encode(), read, fault)


def _model_target(folder: Path) -> Target:
    robot = load_robot("planar_3r")
    model = ArmModel.of(robot)
    standard = load_standard(robot.folder / "models/nominal.yaml", model.mdh, model.regrouping.standard)
    content = ModelFile(
        robot=robot.name,
        structure_hash=model.structure_hash,
        accepted=True,
        parameters=parameter_rows(model, model.base_parameters(standard)),
        standard=load_validated(robot.folder / "models/nominal.yaml", StandardFile),
    )
    gate = ModelGate(robot, model)

    def read(path: Path) -> ModelFile:
        found = read_model_file(path)
        gate.check(from_model_file(found, model))
        return found

    def fault(found: ModelFile) -> str:
        """Return a defect: impossible links, or torques of another size than the parameters imply."""
        phi = found.base_parameters(model).values
        if _finite(phi) or np.abs(phi).max() > MOST_NM:
            return "parameters"
        if found.standard is None:
            return ""
        links = standard_from_file(found.standard, model.mdh)
        worst = min(float(np.linalg.eigvalsh(pseudo_inertia(links.link(j)))[0]) for j in range(model.mdh.size))
        return "" if worst > 0.0 else f"a link's pseudo-inertia has the eigenvalue {worst:.3g}"

    return Target("yaml", yaml_text(content.model_dump(mode="json")).encode(), read, fault)


def _controller_target(folder: Path) -> Target:
    robot = load_robot("crane_x7")

    def fault(settings: Any) -> str:
        ones = np.ones(robot.size)
        with np.errstate(all="ignore"):
            tau = FeedforwardPdLaw(settings).torque(0.0 * ones, 0.0 * ones, ones, ones, ones)
        return "torque" if _finite(tau) or np.abs(tau).max() > MOST_NM else ""

    good = (robot.folder / "controller.yaml").read_bytes()
    return Target("yaml", good, lambda path: load_controller(robot, path), fault)


def _identification_target(folder: Path) -> Target:
    robot = load_robot("crane_x7")
    return Target(
        "yaml",
        (robot.folder / "identification.yaml").read_bytes(),
        lambda path: load_validated(path, IdentificationSettings),
        lambda settings: _finite(settings.sampling_interval_s, settings.filter.cutoff_hz(settings.sampling_interval_s)),
    )


def _trajectory_target(folder: Path) -> Target:
    robot = load_robot("crane_x7")
    excitation = load_excitation(robot)
    rows = [{"time_s": 0.5 * k, "positions_rad": [0.1 * k, -0.1 * k]} for k in range(6)]
    content = {"schema_version": 1, "name": "m", "joint_names": list(robot.joint_names[:2]), "points": rows}

    def fault(motion: Any) -> str:
        if not motion.duration <= 10.0 * LONGEST_S or len(getattr(motion, "knots", ())) > 10 * MOST_POINTS:
            return "length"
        if "/" in motion.name or motion.name.startswith("."):
            return "name"
        return _finite(*motion.sample_all(np.linspace(0.0, motion.duration, 50)))

    read = lambda path: load_trajectory_file(path, excitation, robot.rest_posture)  # noqa: E731
    return Target("yaml", yaml_text(content).encode(), read, fault)


def _urdf_target(folder: Path) -> Target:
    text = read_urdf_text(load_robot("planar_3r").urdf_path)

    def fault(draft: Any) -> str:
        joints = draft.content["joints"]
        return _finite(
            [joint[key] for joint in joints for key in joint if key.startswith(("lower", "upper", "velocity"))]
        )

    return Target("urdf", text.encode(), lambda path: draft_robot("x", path), fault)


def _bag_target(folder: Path, storage: Storage) -> Target:
    from dynid.control.controller import load_controller as controller_of
    from dynid.control.ff_pd import FeedforwardPd
    from dynid.simulation.lockstep.run import simulate
    from dynid.trajectory.trajectory import through

    robot = load_robot("crane_x7")
    points = np.array([robot.rest_posture, robot.rest_posture + 0.05])
    motion = through("short", robot.joint_names, points, np.full(8, 1.0), np.full(8, 4.0))
    run = simulate(robot, motion, FeedforwardPd(controller_of(robot)), to_rest=False)
    write_bag(run, robot, controller_of(robot), folder / storage, profile="limited", storage=storage)
    (file,) = (one for one in (folder / storage).iterdir() if one.suffix in (".mcap", ".db3"))

    def fault(recording: Any) -> str:
        if not (np.diff(recording.time) > 0.0).all():
            return "time"
        return _finite(recording.q, recording.tau_present)

    return Target(file.suffix[1:], file.read_bytes(), lambda path: load_driver_recording(path, robot), fault, BINARY)


def csv_mapping() -> tuple[CsvMapping, tuple[str, ...]]:
    """Return the mapping of a table of time, positions and torques, and the names of its other columns."""
    names = tuple(f"{kind}{j}" for kind in ("q", "tau") for j in range(COLUMNS))
    content = {
        "schema_version": 1,
        "time": {"column": "t"},
        "position": {"columns": names[:COLUMNS], "unit": "rad"},
        "torque": {"columns": names[COLUMNS:], "unit": "N m"},
    }
    return CsvMapping.model_validate(content), names


def _csv_target(folder: Path) -> Target:
    robot = load_robot("planar_3r")
    mapping, names = csv_mapping()
    rng = np.random.default_rng(0)
    rows = np.c_[0.01 * np.arange(ROWS), rng.uniform(-0.05, 0.05, (ROWS, 2 * COLUMNS))]
    lines = [",".join(["t", *names]), *(",".join(f"{x:.6f}" for x in row) for row in rows)]

    def fault(run: Any) -> str:
        if not (np.diff(run.time) > 0.0).all():
            return "time"
        return _finite(run.q, run.tau, run.time)

    def read(path: Path) -> Any:
        run = read_csv(path, robot, mapping)
        rows = [row for row in path.read_text("utf-8-sig").splitlines()[1:] if not row.startswith("#")]
        if any("_" in row for row in rows) and not any('"' in row for row in rows):
            raise AssertionError("a number with an underscore was read")
        return run

    return Target("csv", ("\n".join(lines) + "\n").encode(), read, fault)


TARGETS: dict[str, Callable[[Path], Target]] = {
    "robot": _robot_target,
    "model": _model_target,
    "controller": _controller_target,
    "identification": _identification_target,
    "trajectory": _trajectory_target,
    "urdf": _urdf_target,
    "mcap": lambda folder: _bag_target(folder, "mcap"),
    "sqlite": lambda folder: _bag_target(folder, "sqlite3"),
    "csv": _csv_target,
}
