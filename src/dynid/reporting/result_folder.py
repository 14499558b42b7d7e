"""Reading of a result folder for a report: the model, a campaign's summary and tables, and predicted motions.

A campaign identifies one model per bag and sampling interval, and chooses one of them.
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dynid.documents import read_json
from dynid.errors import DataError, InputNotFoundError
from dynid.identification.prediction import Motion, pooled_errors, relative_errors
from dynid.model.model_file import ModelFile, read_model_file
from dynid.recording.mapping import Mapping
from dynid.reporting.predictions import load_predictions, predicted_with, recorded_bags
from dynid.resources import guarded
from dynid.robot import Robot, load_robot
from dynid.verdict import Check

Row = dict[str, str]


@dataclass(frozen=True, eq=False)
class Result:
    """Contents of one result folder.

    Attributes:
        folder: path of the result folder.
        robot: robot of the model.
        content: content of model.yaml.
        campaign: content of campaign.json; {} for a single identification.
        tables: rows of each table of a campaign, by the table's name; a row is a dictionary of texts by column.
        motions: measured and predicted torques of each motion, with fitted motions last; () if no recording is
            available.
    """

    folder: Path
    robot: Robot
    content: ModelFile
    campaign: dict[str, Any] = field(default_factory=dict)
    tables: dict[str, list[Row]] = field(default_factory=dict)
    motions: tuple[Motion, ...] = ()

    @property
    def name(self) -> str:
        """Short name of the result: the name of its folder.

        `dynid demo` writes its result into the subfolder `model` of its output folder; then the short name is the name
        of the output folder.
        """
        own = self.folder.resolve()
        return own.parent.name if (own.parent / "logs").is_dir() else own.name

    @property
    def held_out(self) -> tuple[Motion, ...]:
        """Motions that were not used in the identification."""
        return tuple(one for one in self.motions if one.kind == "held out")

    @property
    def processing(self) -> list[Check]:
        """Checks of a campaign as a whole; [] for a single identification."""
        rows = self.campaign.get("processing", [])
        return [Check.model_validate({k: v for k, v in row.items() if k != "passed"}) for row in rows]

    def check(self, key: str) -> Check | None:
        """Return the model's check with the ID `key`; None if the check was not made or an old file has no IDs."""
        return next((one for one in self.content.verdict if one.id == key), None)

    def motion_errors(self) -> list[dict[str, Any]]:
        """Return a row for each motion: name, use, RMS torque error [N m], and relative errors in total and per joint.

        Relative errors are given for all samples, and for samples in motion. The error in motion is None if the joint
        never moves, or if a campaign of an older version did not store it.
        """
        rows = [
            {
                "name": one.name,
                "kind": one.kind,
                "relative": one.errors.relative,
                "rmse": one.errors.rmse,
                "joints": one.errors.relative_per_axis.tolist(),
                "moving": one.errors.moving,
                "joints_moving": [None if np.isnan(x) else x for x in one.errors.moving_per_axis.tolist()],
                "samples": len(one),
            }
            for one in self.motions
        ]
        stored = self.campaign.get("held_out", {}).get("result", {})
        known = {one.name for one in self.motions}
        return rows + [
            {
                "name": name,
                "kind": "held out",
                "relative": errors["relative"],
                "rmse": errors["rmse_nm"],
                "joints": [errors["axes"][joint]["relative"] for joint in self.robot.joint_names],
                "moving": errors.get("relative_moving"),
                "joints_moving": [errors["axes"][joint].get("relative_moving") for joint in self.robot.joint_names],
                "samples": errors["samples"],
            }
            for name, errors in stored.items()
            if name not in known
        ]

    @property
    def cross_validated(self) -> tuple[Motion, ...]:
        """Fitted motions with cross-validated torques: each block of time is predicted by a fit to all other blocks."""
        return tuple(one for one in self.motions if one.kind == "cross-validated")

    def pooled(self, motions: Sequence[Motion] | None = None) -> dict[str, Any] | None:
        """Return the relative torque error over several motions, in total and per joint; None if there are no motions.

        Args:
            motions: the motions; None selects all held-out motions.
        """
        chosen = self.held_out if motions is None else motions
        return relative_errors(pooled_errors(chosen), self.robot.joint_names) if chosen else None


def open_result(
    folder: Path, robot: str | Path | Robot | None = None, *, recordings: Sequence[Path] = (), mapping: Mapping = None
) -> Result:
    """Read a result folder.

    Args:
        folder: folder of an identification or a campaign, or a demo's folder with the subfolder `model`.
        robot: the robot, its name or its folder; None is the robot that model.yaml names.
        recordings: held-out recordings to predict, in addition to those in the folder.
        mapping: mapping that describes the columns of CSV recordings; None without CSV recordings.

    Raises:
        InputNotFoundError: the folder has no model.yaml, or a recording does not exist.
        ConfigurationError: a file in the folder is invalid.
        DataError: a file in the folder cannot be read, or a recording cannot be used.
    """
    place = next((one for one in (folder, folder / "model") if (one / "model.yaml").is_file()), None)
    if place is None:
        raise InputNotFoundError(
            f"{folder} holds no model.yaml: name a result folder of identify, campaign or demo (--out)"
        )
    with guarded(place, "result folder"):
        content = read_model_file(place / "model.yaml")
        loaded = robot if isinstance(robot, Robot) else load_robot(robot or content.robot)
        tables = {path.stem: _rows(path) for path in sorted((place / "tables").glob("*.csv")) if path.is_file()}
        stored = load_predictions(place)
        if other := next((one for one in stored if one.measured.shape[1] != loaded.size), None):
            raise DataError(
                f"{place} has torques of {other.measured.shape[1]} joints; robot '{loaded.name}' has {loaded.size}: "
                "name the robot of the model with --robot"
            )
        motions = list(stored) or predicted_with(loaded, content, recorded_bags(content))
        for one in predicted_with(loaded, content, [(path, "held out", mapping) for path in recordings]):
            if one.sha256 not in {other.sha256 for other in motions}:
                motions.append(one)
        motions.sort(key=lambda one: ("held out", "cross-validated", "fitted").index(one.kind))
        return Result(place, loaded, content, _summary(place / "campaign.json"), tables, tuple(motions))


def _summary(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    content = read_json(path, DataError)
    if not isinstance(content, dict):
        raise DataError(f"{path} holds no JSON object; run the campaign again")
    return content


def _rows(path: Path) -> list[Row]:
    with guarded(path, "CSV table"), path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))
