"""Writer of a result folder: model, exported files, predicted torques, and report."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from dynid.identification.prediction import Motion
from dynid.identification.result import Identification, write_model
from dynid.identification.stages import CampaignFiles
from dynid.reporting.predictions import save_predictions
from dynid.reporting.report import FILE_NAME, write_report
from dynid.reporting.result_folder import open_result
from dynid.resources import whole_folder, write_whole
from dynid.robot import Robot
from dynid.threads import on_one_thread


@on_one_thread
def write_result(result: Identification, folder: Path | str) -> Path:
    """Write the result of an identification into a new folder.

    The folder contains model.yaml, MJCF, URDF with rotor_inertias.yaml, predictions.npz and report.html. For a
    campaign, it also contains campaign.json and the folders tables, figures and runs. After the folder is complete,
    the temporary files in which the campaign stored its finished runs are removed.

    Returns:
        Path of the report.

    Raises:
        OutputExistsError: the folder exists.
        OutputWriteError: the disk is full, or the system refuses the write.
    """
    with whole_folder(Path(folder)) as work:
        write_model(work, result)
        if result.campaign is not None:
            _write_campaign(result.campaign, work)
        add_report(result.robot, work, result.motions, Path(folder))
    if result.campaign is not None:
        result.campaign.forget_stored()
    return Path(folder) / FILE_NAME


def _write_campaign(files: CampaignFiles, work: Path) -> None:
    from dynid.reporting.bars import write_campaign_figures  # not before: other results need no matplotlib

    for name, text in files.tables.items():
        write_whole(work / "tables" / f"{name}.csv", text)
    for name, text in files.runs.items():
        write_whole(work / "runs" / name, text)
    write_campaign_figures(work / "figures", files.summary)
    write_whole(work / "campaign.json", json.dumps(files.summary, indent=1) + "\n")


def add_report(robot: Robot, folder: Path, motions: Sequence[Motion], named: Path) -> None:
    """Write predictions.npz and report.html into a folder that already has the other files of a result.

    Args:
        robot: robot of the model.
        folder: the folder.
        motions: measured and predicted torques of motions.
        named: path to which `folder` will be renamed; the report derives the name of the result from this path.

    Raises:
        OutputExistsError: one of the files exists.
    """
    save_predictions(folder, motions)
    write_report(replace(open_result(folder, robot), folder=named), folder / FILE_NAME)
