"""File with measured and predicted torques of each motion in a result folder; the report reads this file."""

import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
from pydantic import ValidationError

from dynid.errors import DataError, cut, shown
from dynid.identification.data.recordings import Kind
from dynid.identification.held_out import validate
from dynid.identification.prediction import Motion
from dynid.identification.settings import IdentificationSettings, load_identification
from dynid.model.model_file import ModelFile
from dynid.recording.csv_reader import is_csv
from dynid.recording.mapping import Mapping
from dynid.resources import invalid_fields, stored_arrays, write_whole
from dynid.robot import Robot
from dynid.runtime.model import Model

FILE_NAME = "predictions.npz"
_ARRAYS = ("time", "dq", "measured", "predicted")


def save_predictions(folder: Path, motions: Sequence[Motion]) -> None:
    """Write measured and predicted torques of motions into a result folder, as `predictions.npz`.

    Raises:
        OutputExistsError: the file exists.
    """
    arrays: dict[str, np.ndarray] = {}
    for k, one in enumerate(motions):
        arrays |= {f"{k}_{name}": np.asarray(getattr(one, name), dtype=np.float32) for name in _ARRAYS[1:]}
        arrays |= {f"{k}_time": np.asarray(one.time), f"{k}_moved": np.array(one.moved)}
        arrays |= {f"{k}_names": np.array([one.name, one.kind, one.sha256])}
        if one.deviations is not None:
            arrays[f"{k}_deviations"] = np.asarray(one.deviations, dtype=np.float32)
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)  # type: ignore[arg-type]
    write_whole(folder / FILE_NAME, content.getvalue())


def load_predictions(folder: Path) -> tuple[Motion, ...]:
    """Read measured and predicted torques of motions from a result folder; () if it has no `predictions.npz`.

    Raises:
        DataError: the file is damaged.
    """
    path = folder / FILE_NAME
    if not path.is_file():
        return ()
    try:
        with stored_arrays(path) as stored:
            count = sum(key.endswith("_names") for key in stored.files)
            return tuple(_stored_motion(path, stored, k) for k in range(count))
    except DataError as error:
        raise DataError(f"{error}; remove it, and name the motions to predict instead") from error


def _stored_motion(path: Path, stored: np.lib.npyio.NpzFile, k: int) -> Motion:
    name, kind, sha256 = (str(text) for text in stored[f"{k}_names"])
    time, dq, measured, predicted = (np.asarray(stored[f"{k}_{key}"], dtype=np.float64) for key in _ARRAYS)
    role = next(one for one in get_args(Kind) if one == kind)
    known = f"{k}_deviations"
    deviations = np.asarray(stored[known], dtype=np.float64) if known in stored.files else None
    tables = [("dq", dq), ("predicted", predicted)] + ([] if deviations is None else [("deviations", deviations)])
    wrong = next((f"{key} {one.shape}" for key, one in tables if one.shape != measured.shape), "")
    if measured.ndim != 2 or time.shape != measured.shape[:1] or wrong:
        wrong = wrong or f"time {time.shape}"
        raise DataError(f"{path} has measured torques of shape {measured.shape}, but {cut(wrong)}")
    return Motion(name, role, sha256, time, dq, measured, predicted, float(stored[f"{k}_moved"]), deviations)


def recorded_bags(content: ModelFile) -> list[tuple[Path, Kind, Mapping]]:
    """Return the bags that a model file names as data of the identification, if they still exist at their path.

    CSV files are omitted. Model files of older versions do not name their bags; then the list is empty.

    Returns:
        For each bag its path, its use in the identification (such as "fitted" or "held out"), and its mapping. The
        mapping describes the topics and units of a bag of other software; it is None for bags of dynid.

    Raises:
        DataError: the model file states an unknown use of a bag.
    """
    rows = [(Path(row["path"]), row["used"]) for row in content.provenance.get("bags", []) if "used" in row]
    if unknown := [used for _, used in rows if used not in get_args(Kind)]:
        raise DataError(
            f"the provenance of the model file says that a bag is {shown(unknown[0])}, expected one of "
            f"{', '.join(get_args(Kind))}: identify the model again"
        )
    described = content.provenance.get("mapping_of_bags", {})
    there = [(path, used) for path, used in rows if path.is_absolute() and path.exists() and not is_csv(path)]
    return [(path, used, described.get(used)) for path, used in there]


def predicted_with(robot: Robot, content: ModelFile, recordings: Sequence[tuple[Path, Kind, Mapping]]) -> list[Motion]:
    """Return the measured torques of recordings with the torques that a stored model predicts for them.

    Args:
        robot: robot of the model.
        content: model file; its provenance contains the settings of the identification.
        recordings: path of each bag, CSV file, data set or folder of them, its use in the identification, and its
            mapping, which describes the topics or columns of data of other software. A folder and a data set stand for
            all recordings in them.

    Raises:
        InputNotFoundError: a recording does not exist.
        ConfigurationError: a mapping is invalid.
        DataError: a recording cannot be used, its torque constants differ from those of the model, or this version of
            dynid does not accept the settings in the model file.
    """
    stored = content.provenance.get("settings")
    if not recordings:
        return []
    try:
        settings = IdentificationSettings.model_validate(stored) if stored else load_identification(robot)
    except ValidationError as error:
        raise DataError(
            f"the settings in the model file are not those of this version of dynid, so no torques can be predicted: "
            f"{invalid_fields(error, IdentificationSettings)}; identify the model again"
        ) from error
    model = Model.of_file(robot, content)
    return [
        replace(one, kind=kind)
        for path, kind, mapping in recordings
        for one in validate(model, [path], settings=settings, mapping=mapping).motions
    ]
