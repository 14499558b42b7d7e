"""What identify, campaign and the demo add to a result folder they have written: predictions.npz and report.html."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dynid.identification.model_file import load_model
from dynid.recording.csv_mapping import CsvMapping
from dynid.reporting.predictions import Kind, Motion, Predictor, save_predictions
from dynid.reporting.report import FILE_NAME, write_report
from dynid.reporting.result_folder import open_result
from dynid.robot import Robot


@dataclass(frozen=True)
class Recorded:
    """A recording and what it was to the identification.

    Attributes:
        path: bag or CSV file.
        kind: "fitted" or "held out".
        mapping: what the columns of a CSV file are.
        share: part of its time, at its end, that was held out.
        interval_s: sampling interval [s]; None is the settings' own.
    """

    path: Path
    kind: Kind
    mapping: CsvMapping | None = None
    share: float = 0.0
    interval_s: float | None = None


def add_report(robot: Robot, folder: Path, recordings: Sequence[Recorded]) -> Path:
    """Predict the recordings with the folder's model, keep that beside it, and write the report.

    Args:
        robot: that the result is of.
        folder: of the result; holds a model.yaml.
        recordings: what it was identified from and judged by.

    Returns:
        The report's path.

    Raises:
        OutputExistsError: the folder has a report already.
        DataError: a recording cannot be used any more.
    """
    predictor = Predictor(robot, load_model(folder / "model.yaml"))
    motions: list[Motion] = []
    for one in recordings:
        motions += predictor.motions(
            one.path, one.kind, mapping=one.mapping, share=one.share, interval_s=one.interval_s
        )
    save_predictions(folder, sorted(motions, key=lambda motion: motion.kind != "held out"))
    path = folder / FILE_NAME
    write_report(open_result(folder, robot), path)
    return path
