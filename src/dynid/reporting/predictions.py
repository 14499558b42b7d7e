"""Measured torques beside those that a model predicts, motion by motion: what a report shows, kept with the result."""

import hashlib
import io
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np

from dynid.errors import DataError, InputNotFoundError
from dynid.identification.estimator import TorqueErrors, torque_errors
from dynid.identification.model_file import ModelFile
from dynid.identification.preprocessing import Samples
from dynid.identification.sample_sets import hold_out, seen_friction
from dynid.identification.settings import IdentificationSettings, load_identification
from dynid.identification.sources import Source, load_source
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters
from dynid.recording.csv_mapping import CsvMapping
from dynid.resources import write_whole
from dynid.robot import FloatArray, Robot

Kind = Literal["held out", "fitted"]
FILE_NAME = "predictions.npz"
_ARRAYS = ("time", "dq", "measured", "predicted")


@dataclass(frozen=True, eq=False)
class Motion:
    """One recorded motion and its prediction.

    Attributes:
        name: of the bag or file, or of a part of it.
        kind: "fitted" if the model was identified from it, else "held out".
        sha256: of the recording.
        time: (N,) [s], on the recording's axis.
        dq: joint velocities (N, n) [rad/s; m/s where a joint slides].
        measured, predicted: torques (N, n) [N m; N].
        moved: how far the consistent projection moved the predicted torques, as a part of the measured ones; NaN where
            the parameters before it are not known.
    """

    name: str
    kind: Kind
    sha256: str
    time: FloatArray
    dq: FloatArray
    measured: FloatArray
    predicted: FloatArray
    moved: float = float("nan")

    @property
    def residual(self) -> FloatArray:
        """Measured minus predicted, (N, n) [N m]."""
        return self.measured - self.predicted

    @property
    def errors(self) -> TorqueErrors:
        """Torque errors in all and per axis."""
        return torque_errors(self.measured, self.predicted)


class Predictor:
    """A stored model that predicts recordings the way its identification did.

    Args:
        robot: the robot that the model is of.
        content: the model file; its provenance says how samples are made.
    """

    def __init__(self, robot: Robot, content: ModelFile) -> None:
        self.robot, self.content = robot, content
        stored = content.provenance.get("settings")
        self.settings = IdentificationSettings.model_validate(stored) if stored else load_identification(robot)
        self._model = lru_cache(self._build)

    def _build(self, mount: str) -> tuple[ArmModel, BaseParameters, FloatArray | None]:
        """The arm at a mount, its parameters, and those before the consistent projection where they are stored."""
        model = ArmModel.of(self.robot, mount=mount, lengths_m=self.content.geometry_overrides_m)
        before = self.content.provenance.get("unconstrained", {})
        known = all(name in before for name in model.names)
        return model, self.content.base_parameters(model), np.array([before[n] for n in model.names]) if known else None

    def motions(
        self, path: Path, kind: Kind, *, mapping: CsvMapping | None = None, share: float = 0.0,
        interval_s: float | None = None,
    ) -> list[Motion]:  # fmt: skip
        """A recording as one motion; with a held-out share as two, the fitted begin and the held-out end.

        Args:
            path: bag or CSV file.
            kind: what it was to the identification; a held-out share makes its own two kinds.
            mapping: what the columns of a CSV file are.
            share: part of its time, at its end, that was held out.
            interval_s: sampling interval; None is the settings' own.

        Raises:
            InputNotFoundError, ConfigurationError, DataError: it cannot be used, or has other torque constants.
        """
        source = load_source(path, self.robot, self.settings, mapping)
        constants = self.content.torque_constants_nm_per_a
        if constants and constants != source.torque_constants:
            raise DataError(
                f"{path} was recorded with torque constants {source.torque_constants} N m/A, the model identified with "
                f"{constants}: its torques are not comparable"
            )
        samples = source.samples(self.settings, interval_s=interval_s)
        if not share:
            return [self._motion(source, source.name, kind, samples)]
        begin, end = hold_out(samples, share, self.settings.filter)
        return [
            self._motion(source, f"last {100 * share:g} % of {source.name}", "held out", end),
            self._motion(source, f"first {100 - 100 * share:g} % of {source.name}", "fitted", begin),
        ]

    def _motion(self, source: Source, name: str, kind: Kind, samples: Samples) -> Motion:
        model, phi, before = self._model(source.mount)
        W = samples.seen(model.regressor)
        predicted = W @ phi.values
        if (friction := self.content.friction()) is not None:
            predicted = predicted + seen_friction(samples, friction)
        moved = float("nan")
        if before is not None:
            moved = float(np.linalg.norm(W @ (phi.values - before)) / np.linalg.norm(samples.tau))
        return Motion(name, kind, source.sha256, samples.time, samples.dq, samples.tau, predicted, moved)


def save_predictions(folder: Path, motions: Sequence[Motion]) -> None:
    """Write the motions into a result folder, as `predictions.npz`; never over an existing file."""
    arrays: dict[str, np.ndarray] = {}
    for k, one in enumerate(motions):
        arrays |= {f"{k}_{name}": np.asarray(getattr(one, name), dtype=np.float32) for name in _ARRAYS[1:]}
        arrays |= {f"{k}_time": np.asarray(one.time), f"{k}_moved": np.array(one.moved)}
        arrays |= {f"{k}_names": np.array([one.name, one.kind, one.sha256])}
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)  # type: ignore[arg-type]
    write_whole(folder / FILE_NAME, content.getvalue())


def load_predictions(folder: Path) -> tuple[Motion, ...]:
    """The motions that a result folder holds; () where it has none.

    Raises:
        DataError: the file is damaged.
    """
    path = folder / FILE_NAME
    if not path.is_file():
        return ()
    try:
        with np.load(path, allow_pickle=False) as stored:
            count = sum(key.endswith("_names") for key in stored.files)
            return tuple(_stored_motion(stored, k) for k in range(count))
    except (ValueError, KeyError, OSError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} is damaged ({error}); remove it, and name the motions to predict instead") from error


def _stored_motion(stored: np.lib.npyio.NpzFile, k: int) -> Motion:
    name, kind, sha256 = (str(text) for text in stored[f"{k}_names"])
    arrays = {key: np.asarray(stored[f"{k}_{key}"], dtype=np.float64) for key in _ARRAYS}
    role: Kind = "fitted" if kind == "fitted" else "held out"
    return Motion(name, role, sha256, moved=float(stored[f"{k}_moved"]), **arrays)


def recorded_bags(content: ModelFile) -> list[tuple[Path, Kind]]:
    """The recordings that the provenance names and that still lie where they were, with what they were used for."""
    judged = [check.name.partition("relative torque error, ")[2] for check in content.verdict]
    found: list[tuple[Path, Kind]] = []
    for row in content.provenance.get("bags", []):
        path = Path(row["path"])
        if path.is_absolute() and path.exists() and path.suffix != ".csv":
            found.append((path, "held out" if path.name in judged else "fitted"))
    return found


def digest(path: Path) -> str:
    """SHA-256 of a file, as hexadecimal digits.

    Raises:
        InputNotFoundError: no such file.
    """
    if not path.is_file():
        raise InputNotFoundError(f"no such file: {path}")
    return hashlib.sha256(path.read_bytes()).hexdigest()
