"""Reading what `dynid simulated-arm --trace` wrote."""

import zipfile
from pathlib import Path

import numpy as np

from dynid.errors import DataError, InputNotFoundError
from dynid.simulation.servo.trace import ArmTrace


def load_trace(path: Path) -> ArmTrace:
    """Read what `ArmTrace.save` wrote.

    Raises:
        InputNotFoundError: no such file.
        DataError: not such a file.
    """
    try:
        with np.load(path) as found:
            return ArmTrace(found["time_s"], found["q"], found["dq"], found["current_a"])
    except FileNotFoundError:
        raise InputNotFoundError(f"no such file: {path}") from None
    except (KeyError, ValueError, OSError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} is not a trace of a simulated arm: {error}") from error
