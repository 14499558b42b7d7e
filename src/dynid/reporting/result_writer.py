"""A result as a folder: model, exports, predictions, and the report that says whether to trust it."""

from collections.abc import Sequence
from pathlib import Path

from dynid.identification import pipeline
from dynid.identification.pipeline import Identification
from dynid.identification.prediction import Motion
from dynid.reporting.predictions import save_predictions
from dynid.reporting.report import FILE_NAME, write_report
from dynid.reporting.result_folder import open_result
from dynid.robot import Robot


def write_result(result: Identification, folder: Path | str) -> Path:
    """Write model.yaml, MJCF, URDF and its side file, predictions.npz and report.html into a new folder.

    Returns:
        The report's path.

    Raises:
        OutputExistsError: the folder exists.
    """
    pipeline.write_result(result, Path(folder))
    return add_report(result.robot, Path(folder), result.motions)


def add_report(robot: Robot, folder: Path, motions: Sequence[Motion]) -> Path:
    """Keep predicted motions in a result folder, and write the report beside them; returns its path.

    Raises:
        OutputExistsError: the folder has a report already.
    """
    save_predictions(folder, motions)
    write_report(open_result(folder, robot), folder / FILE_NAME)
    return folder / FILE_NAME
