"""Finished runs of a campaign on disk, one small file each, so that an interrupted campaign goes on where it was.

A run is known by everything that its outcome depends on: the bag's bytes, the robot, the settings, the sampling
interval and the version of this package. Where one of them differs, the stored run is not used.
"""

import contextlib
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from dynid import __version__
from dynid.errors import DataError, InputNotFoundError, OutputExistsError
from dynid.identification.campaign.run import RunRecord, clie_options
from dynid.identification.estimators.gear_fit import KnownGears
from dynid.identification.settings import IdentificationSettings
from dynid.recording.bag_metadata import STORAGE_SUFFIXES
from dynid.recording.bag_reader import sha256_of
from dynid.resources import write_whole
from dynid.robot import Robot

RECORD_VERSION = 3
KEY_DIGITS = 16
# settings on which a single run does not depend
OF_NO_RUN: Mapping[str, Any] = {
    "campaign_intervals_s": True,
    "sampling_interval_s": True,
    "acceptance": {"fresh_poses", "relative_torque_error", "condition_number"},
}


def fingerprint(robot: Robot, settings: IdentificationSettings, gears: KnownGears | None = None) -> str:
    """Digest of all that the runs of a campaign share."""
    known = None if gears is None else (gears.structure, gears.point.phi.tolist(), gears.point.law.values.tolist())
    parts = (
        __version__,
        str(RECORD_VERSION),
        robot.file.model_dump_json(),
        robot.urdf_path.read_text(encoding="utf-8"),
        settings.model_dump_json(exclude=dict(OF_NO_RUN)),
        clie_options(settings).model_dump_json(),
        repr(known),
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def bag_digest(bag: Path) -> str:
    """SHA-256 of a bag's data files.

    Raises:
        InputNotFoundError: no such path.
        DataError: a folder without data files.
    """
    if not bag.exists():
        raise InputNotFoundError(f"no such bag: {bag}")
    suffixes = tuple(STORAGE_SUFFIXES.values())
    files = [bag] if bag.is_file() else sorted(path for path in bag.iterdir() if path.name.endswith(suffixes))
    if not files:
        raise DataError(f"{bag} is not a rosbag2 bag: it holds no file that ends with {' or '.join(suffixes)}")
    return sha256_of(files)


def run_file(bag: str, key: str) -> str:
    """Name of the file of a run."""
    return f"{bag}-{key}.json"


def run_text(record: RunRecord) -> str:
    """Content of the file of a run."""
    return record.model_dump_json(indent=1) + "\n"


def runs_folder(out: Path) -> Path:
    """Where the finished runs of a campaign wait until its result is written to `out`."""
    return out.with_name(f"{out.name}.runs")


class RunStore:
    """A folder of finished runs.

    Args:
        folder: made when the first run is stored.
        shared: digest of what all runs share, from `fingerprint`.
    """

    def __init__(self, folder: Path, shared: str) -> None:
        self.folder, self._shared = folder, shared

    def key(self, digest: str, interval_s: float) -> str:
        """The key of the run of a bag with this digest at this sampling interval."""
        text = repr((self._shared, digest, round(interval_s, 9)))
        return hashlib.sha256(text.encode()).hexdigest()[:KEY_DIGITS]

    def path(self, bag: str, key: str) -> Path:
        """The file of a run."""
        return self.folder / run_file(bag, key)

    def get(self, bag: str, key: str) -> RunRecord | None:
        """The stored run; None if there is none.

        Raises:
            DataError: the file was changed by someone else.
        """
        path = self.path(bag, key)
        if not path.is_file():
            return None
        try:
            record = RunRecord.model_validate_json(path.read_text(encoding="utf-8"))
        except (ValidationError, UnicodeDecodeError) as error:
            raise DataError(f"{path} is not a stored run: remove it to repeat the run") from error
        return record if record.key == key else None

    def put(self, record: RunRecord) -> None:
        """Store a run, whole; where another campaign has stored the same run meanwhile, that one stays."""
        with contextlib.suppress(OutputExistsError):
            write_whole(self.path(record.bag, record.key), run_text(record))
