"""Storage of a campaign's finished runs, one small file per run, so that an interrupted campaign can resume.

A run is identified by everything that its result depends on: the bag's bytes, the robot, the settings, the sampling
interval and the version of this package. If any of these differs, the stored run is not used.
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
# settings that do not affect a single run
SETTINGS_WITHOUT_EFFECT: Mapping[str, Any] = {
    "campaign_intervals_s": True,
    "sampling_interval_s": True,
    "acceptance": {"fresh_poses", "relative_torque_error", "condition_number"},
}


def fingerprint(robot: Robot, settings: IdentificationSettings, gears: KnownGears | None = None) -> str:
    """Return a digest of everything that affects all runs of a campaign: package version, robot, settings, friction."""
    known = None if gears is None else (gears.structure, gears.point.phi.tolist(), gears.point.law.values.tolist())
    parts = (
        __version__,
        str(RECORD_VERSION),
        robot.file.model_dump_json(),
        robot.urdf_path.read_text(encoding="utf-8"),
        settings.model_dump_json(exclude=dict(SETTINGS_WITHOUT_EFFECT)),
        clie_options(settings).model_dump_json(),
        repr(known),
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def bag_digest(bag: Path) -> str:
    """Return the SHA-256 digest of a bag's data files.

    Raises:
        InputNotFoundError: the path does not exist.
        DataError: the folder contains no data files.
    """
    if not bag.exists():
        raise InputNotFoundError(f"no such bag: {bag}")
    suffixes = tuple(STORAGE_SUFFIXES.values())
    files = [bag] if bag.is_file() else sorted(path for path in bag.iterdir() if path.name.endswith(suffixes))
    if not files:
        raise DataError(f"{bag} is not a rosbag2 bag: it holds no file that ends with {' or '.join(suffixes)}")
    return sha256_of(files)


def run_file(bag: str, key: str) -> str:
    """Return the file name of a stored run, from the name of its bag and its key."""
    return f"{bag}-{key}.json"


def run_text(record: RunRecord) -> str:
    """Return the file content of a stored run, as JSON."""
    return record.model_dump_json(indent=1) + "\n"


def runs_folder(out: Path) -> Path:
    """Return the folder in which a campaign stores finished runs until its result is written to the folder `out`."""
    return out.with_name(f"{out.name}.runs")


class RunStore:
    """Storage of a campaign's finished runs in a folder.

    Args:
        folder: folder of the files; it is created when the first run is stored.
        shared: digest of everything that affects all runs, from `fingerprint`.
    """

    def __init__(self, folder: Path, shared: str) -> None:
        self.folder, self._shared = folder, shared

    def key(self, digest: str, interval_s: float) -> str:
        """Return the key of the run of one bag at one sampling interval.

        Args:
            digest: digest of the bag, from `bag_digest`.
            interval_s: sampling interval [s].
        """
        text = repr((self._shared, digest, round(interval_s, 9)))
        return hashlib.sha256(text.encode()).hexdigest()[:KEY_DIGITS]

    def path(self, bag: str, key: str) -> Path:
        """Return the path of a run's file, from the name of its bag and its key."""
        return self.folder / run_file(bag, key)

    def get(self, bag: str, key: str) -> RunRecord | None:
        """Return the stored run with the given bag name and key; None if it is not stored.

        Raises:
            DataError: the file is not a valid record of a run.
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
        """Store a finished run in a file; do nothing if another campaign has stored this run already."""
        with contextlib.suppress(OutputExistsError):
            write_whole(self.path(record.bag, record.key), run_text(record))
