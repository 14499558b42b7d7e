"""Table of structured files: for each kind, a strategy that builds it and a reader that reads it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from hypothesis import strategies as st

from benchmarks.readers import bag_builders
from benchmarks.readers.builders import Built, documents, urdf_folders
from benchmarks.readers.targets import TARGETS, Target, csv_mapping
from dynid.errors import DynidError
from dynid.identification.data.log_search import find_logs
from dynid.identification.feasibility.belief import Belief
from dynid.recording.bag_info import bag_info
from dynid.recording.bag_repair import repair_bag
from dynid.recording.csv_reader import read_csv
from dynid.recording.driver_recording import load_driver_recording
from dynid.reporting.predictions import load_predictions
from dynid.robot import load_robot
from dynid.robot.draft import draft_robot, write_draft
from dynid.robot.link_limits import shape_boxes


@dataclass(frozen=True)
class Structure:
    """Kind of structured files.

    Attributes:
        built: strategy that builds the files.
        read: function that reads them, given their path and an output folder; raises errors of dynid only.
        fault: function that returns a defect of the result, '' if there is none.
    """

    built: st.SearchStrategy[Built]
    read: Callable[[Path, Path], Any]
    fault: Callable[[Any], str] = lambda found: ""


def _document(target: Target) -> Structure:
    content = yaml.safe_load(target.good)
    built = documents(content).map(lambda data: Built({"x.yaml": data}, "x.yaml"))
    return Structure(built, lambda path, out: target.read(path), target.fault)


def _all(*reads: Callable[[], Any]) -> Any:
    """Call every reader in turn; raise the last refusal if all refuse."""
    found, refusals = [], list[DynidError]()
    for read in reads:
        try:
            found.append(read())
        except DynidError as error:
            refusals.append(error.with_traceback(None))  # without its frames, which hold the data read
    if any("\n" in str(error) for error in refusals) or not found:
        raise refusals[-1]
    return found


def _several_lines(found: Any) -> str:
    problems = found if isinstance(found, list) else []
    return "more than one line" if any("\n" in str(one) for one in problems) else ""


def _bags(folder: Path) -> Structure:
    robot = load_robot("planar_3r")

    def read(path: Path, out: Path) -> Any:
        return _all(
            lambda: bag_info(path).as_dict(),
            lambda: load_driver_recording(path, robot),
            lambda: repair_bag(path),
            lambda: [one.problem for one in find_logs(path, robot)],
        )

    return Structure(bag_builders.bags(robot.joint_names), read, _several_lines)


def _data_sets(folder: Path) -> Structure:
    robot = load_robot("planar_3r")

    def read(path: Path, out: Path) -> Any:
        return [one.problem for one in find_logs(path, robot)]

    return Structure(bag_builders.lerobot_sets(robot.joint_names), read, _several_lines)


def _urdfs(folder: Path) -> Structure:
    def read(path: Path, out: Path) -> Any:
        joints = ("j1",)
        return _all(lambda: shape_boxes(path, joints), lambda: write_draft(draft_robot("x", path), path, out / "x"))

    return Structure(urdf_folders(), read)


def _tables(folder: Path) -> Structure:
    robot = load_robot("planar_3r")
    mapping, names = csv_mapping()

    def fault(run: Any) -> str:
        return "" if (np.diff(run.time) > 0.0).all() and np.isfinite(run.q).all() else "time or positions"

    return Structure(bag_builders.tables(names), lambda path, out: read_csv(path, robot, mapping), fault)


def _arrays(folder: Path) -> Structure:
    def read(path: Path, out: Path) -> Any:
        return _all(lambda: Belief.load(path), lambda: load_predictions(path))

    return Structure(bag_builders.array_files(), read)


STRUCTURES: dict[str, Callable[[Path], Structure]] = {
    **{
        f"built {name}": lambda folder, name=name: _document(TARGETS[name](folder))  # type: ignore[misc]
        for name in ("robot", "model", "controller", "identification", "trajectory")
    },
    "built urdf": _urdfs,
    "built bag": _bags,
    "built lerobot": _data_sets,
    "built csv": _tables,
    "built arrays": _arrays,
}
