"""A result as a folder: model, exports, predictions, and the report that says whether to trust it."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from dynid.identification.pipeline import Identification, write_model
from dynid.identification.prediction import Motion
from dynid.reporting.predictions import save_predictions
from dynid.reporting.report import FILE_NAME, write_report
from dynid.reporting.result_folder import open_result
from dynid.resources import whole_folder
from dynid.robot import Robot


def write_result(result: Identification, folder: Path | str) -> Path:
    """Write model.yaml, MJCF, URDF and its side file, predictions.npz and report.html into a new folder.

    Returns:
        The report's path.

    Raises:
        OutputExistsError: the folder exists.
        OutputWriteError: the disk is full, or the system refuses.
    """
    with whole_folder(Path(folder)) as work:
        write_model(work, result, result.model_file())
        add_report(result.robot, work, result.motions, Path(folder))
    return Path(folder) / FILE_NAME


def add_report(robot: Robot, folder: Path, motions: Sequence[Motion], named: Path) -> None:
    """Keep predicted motions in a result folder, and write the report, which calls the result `named`, beside them.

    Raises:
        OutputExistsError: the folder has a report already.
    """
    save_predictions(folder, motions)
    write_report(replace(open_result(folder, robot), folder=named), folder / FILE_NAME)
